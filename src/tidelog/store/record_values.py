"""What a caller gives for a record, as bytes and numbers; what cannot be one is refused in words."""

import operator
from collections.abc import Iterable
from typing import Any

from tidelog.errors import InvalidBatchError, InvalidRecordTypeError, InvalidTimestampError, TidelogError
from tidelog.record.kernel.header_list import encode_headers
from tidelog.record.kernel.record import Record

MAX_TIMESTAMP_MS = 0x7FFFFFFFFFFFFFFF
NO_TIMESTAMP = -1


def bytes_of(data: Any, what: str) -> bytes | None:
    """The bytes of a key or a value; those of a buffer are copied."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    is_text = isinstance(data, str)
    raise InvalidRecordTypeError(
        f"a {what} that is not bytes",
        expected="bytes or None",
        found=type(data).__name__,
        hint="encode it: text.encode() gives UTF-8" if is_text else "encode it: a log has no serializers",
    )


def headers_of(headers: Any) -> tuple[tuple[tuple[str, bytes | None], ...], bytes]:
    """Headers as a record has them, and encoded."""
    try:
        pairs = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in headers)
        return pairs, encode_headers(pairs, 0)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidRecordTypeError(
            "headers that are none",
            expected="pairs of a name (str) and a value (bytes or None)",
            found=str(error),
            hint="encode the values, not the names",
        ) from error


def timestamp_of(timestamp_ms: Any) -> int:
    """A time that was given: epoch milliseconds, or -1 for none."""
    try:
        number = operator.index(timestamp_ms)
    except TypeError:
        raise InvalidRecordTypeError("a timestamp that is no number", expected="epoch milliseconds", found=repr(timestamp_ms)) from None
    if not NO_TIMESTAMP <= number <= MAX_TIMESTAMP_MS:
        raise InvalidTimestampError("a timestamp out of range", expected=f"epoch milliseconds, 0 to {MAX_TIMESTAMP_MS}", found=number)
    return number


def partition_of(partition: Any) -> int:
    """The number of a partition that was given."""
    try:
        return operator.index(partition)
    except TypeError:
        raise InvalidRecordTypeError("a partition that is no number", expected="a number", found=repr(partition)) from None


def explain(error: Exception, records: Any, first: int, *, is_arrow: bool) -> None:
    """Raise in words of ours what records could not be encoded, if it is about their types; `first` is the place of the first of them."""
    if isinstance(error, TidelogError) and not isinstance(error, InvalidBatchError):
        return
    if not is_arrow:
        check_rows(records, first)
    elif isinstance(error, TypeError) or type(error).__module__.startswith("pyarrow"):
        hint = 'cast text to binary: column.cast("binary")' if "text" in str(error) else None
        raise InvalidRecordTypeError(str(error), hint=hint) from error


def check_rows(rows: Iterable[Any], first: int = 0) -> None:
    """Say which row is not a record, and why, counting from `first`. For when the encoder has found one."""
    for index, row in enumerate(rows, first):
        try:
            if isinstance(row, Record):
                row = (row.key, row.value, row.headers, row.timestamp_ms)
            if not isinstance(row, tuple) or not 2 <= len(row) <= 4:
                raise InvalidRecordTypeError(
                    "no record", expected="a Record or a tuple (key, value[, headers[, timestamp_ms]])", found=_shape(row)
                )
            bytes_of(row[0], "key")
            bytes_of(row[1], "value")
            if len(row) > 2 and row[2]:
                headers_of(row[2])
            if len(row) > 3 and row[3] is not None:
                timestamp_of(row[3])
        except (InvalidRecordTypeError, InvalidTimestampError) as error:
            error.what = f"record {index}: {error.what}"
            raise


def _shape(row: Any) -> str:
    return f"a tuple of {len(row)}" if isinstance(row, tuple) else type(row).__name__
