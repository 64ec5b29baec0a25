"""Arrow columns as the encoder's kernel takes them: raw buffers, one byte a null, header lists already encoded."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import InvalidBatchError
from tidelog.record.kernel.header_list import encode_headers
from tidelog.record.views import byte_view, view

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = ("key", "value", "timestamp_ms", "timestamp", "headers")
_MAX_DATA_BYTES = 0x7FFFFFFF - 65536  # keys, values and headers of a call, so that no record of it can be larger than a batch may be
_NO_BYTES = view(np.zeros(1, np.uint8))
_NONE_UINT8 = view(np.empty(0, np.uint8))
_NONE_INT32 = view(np.empty(0, np.int32))
_NONE_INT64 = view(np.empty(0, np.int64))


class ColumnParts(NamedTuple):
    """What `encode_columns` takes, in its order."""

    key_offsets: memoryview
    key_data: memoryview
    key_nulls: memoryview
    value_offsets: memoryview
    value_data: memoryview
    value_nulls: memoryview
    tail_offsets: memoryview
    tail_data: memoryview
    timestamps: memoryview


def column_parts(records: "pa.Table | pa.RecordBatch", default_timestamp_ms: int) -> ColumnParts:
    """The buffers of the columns."""
    names = [name for name in records.schema.names if name in _NAMES]
    if len(set(names)) < len(names):
        raise InvalidBatchError("two columns have one name", expected="each once", found=", ".join(names))
    columns = {name: _one_array(records.column(name)) for name in names}
    if "value" not in columns:
        raise InvalidBatchError(
            "no column to encode", expected="at least a column `value`", found=", ".join(records.schema.names) or "none"
        )
    count = records.num_rows
    key = binary_parts("key", columns["key"]) if "key" in columns else _all_null(count)
    value = binary_parts("value", columns["value"])
    tails = _header_lists(columns.get("headers"))
    data_bytes = sum(offsets[-1] - offsets[0] for offsets, _, _ in (key, value)) + sum(map(len, tails))
    if data_bytes > _MAX_DATA_BYTES:
        raise InvalidBatchError(
            "too many bytes in one call", expected=f"at most {_MAX_DATA_BYTES}", found=data_bytes, hint="slice the table"
        )
    timestamps = _timestamps(columns.get("timestamp_ms", columns.get("timestamp")), default_timestamp_ms)
    return ColumnParts(*key, *value, *_header_parts(tails), timestamps)


def _one_array(column: Any) -> "pa.Array":
    """A table's chunks in one piece."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        raise InvalidBatchError("too many bytes in one column", expected="at most 2 GiB a call", found=f"{combined.nbytes} bytes")
    return combined


def binary_parts(name: str, array: "pa.Array") -> tuple[memoryview, memoryview, memoryview]:
    """Offsets, data, and nulls of a binary column."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_null(kind):
        return _all_null(len(array))
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner):
        raise TypeError(f"column {name!r} is {kind}: text has no bytes of its own, cast it to binary")
    if not pa.types.is_binary(kind):
        try:
            array = array.cast(pa.binary())
        except pa.ArrowException as error:
            raise TypeError(f"column {name!r} is {kind}: expected binary ({error})") from error
    _, offsets, data = array.buffers()
    count = len(array)
    if count == 0:
        return view(np.zeros(1, np.int32)), _NO_BYTES, _NONE_UINT8
    offset_array = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
    data_view = byte_view(data) if data is not None and data.size else _NO_BYTES
    return view(offset_array), data_view, _nulls(array)


def _nulls(array: "pa.Array") -> memoryview:
    if array.null_count == 0:
        return _NONE_UINT8
    return view(array.is_null().to_numpy(zero_copy_only=False).view(np.uint8))


def _all_null(count: int) -> tuple[memoryview, memoryview, memoryview]:
    return view(np.zeros(count + 1, np.int32)), _NO_BYTES, view(np.ones(count, np.uint8))


def _header_lists(array: "pa.Array | None") -> list[bytes]:
    """The encoded header list of each record; none at all where no record has headers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array is None or len(array) == 0 or pa.types.is_null(array.type):
        return []
    refusal = TypeError(f"column 'headers' is {array.type}: expected list<struct<key: string, value: binary>>")
    try:
        lengths = pc.list_value_length(array)
    except pa.ArrowNotImplementedError:
        raise refusal from None
    if not pc.any(pc.greater(pc.fill_null(lengths, 0), 0)).as_py():
        return []
    item = array.type.value_type
    if not pa.types.is_struct(item) or not {"key", "value"} <= {field.name for field in item}:
        raise refusal
    return [encode_headers(_pairs(headers, index), index) for index, headers in enumerate(array.to_pylist())]


def _pairs(headers: list[dict[str, Any] | None] | None, index: int) -> list[tuple[str, bytes | None]]:
    pairs = []
    for header in headers or ():
        if header is None:
            raise TypeError(f"a header of record {index} is null: expected a struct of key and value")
        pairs.append((header["key"], header["value"]))
    return pairs


def _header_parts(tails: list[bytes]) -> tuple[memoryview, memoryview]:
    """Offsets and bytes of encoded header lists."""
    if not tails:
        return _NONE_INT32, _NO_BYTES
    offsets = np.zeros(len(tails) + 1, np.int32)
    np.cumsum([len(tail) for tail in tails], out=offsets[1:])
    return view(offsets), view(b"".join(tails))


def _timestamps(array: "pa.Array | None", default_timestamp_ms: int) -> memoryview:
    import pyarrow as pa

    if array is None or len(array) == 0 or pa.types.is_null(array.type):
        return _NONE_INT64
    try:
        milliseconds = _milliseconds(array)
    except pa.ArrowInvalid as error:  # more than 64 bits hold
        raise _bad_timestamp(str(error)) from error
    numbers: NDArray[np.int64] = np.ascontiguousarray(milliseconds.fill_null(default_timestamp_ms).to_numpy(zero_copy_only=False))
    lowest = int(numbers.min())
    if lowest < -1:
        raise _bad_timestamp(lowest)
    return view(numbers)


def _milliseconds(array: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        # Fractions of a millisecond are cut off. Seconds have none, and too many of them must not wrap around.
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=array.type.unit == "s").cast(pa.int64())
    if not pa.types.is_integer(array.type):
        raise TypeError(f"the timestamp column is {array.type}: expected int64 milliseconds or an Arrow timestamp")
    return array.cast(pa.int64())


def _bad_timestamp(found: object) -> InvalidBatchError:
    return InvalidBatchError("a timestamp out of range", expected="-1 (none) or epoch milliseconds", found=found)
