"""Records as lines of JSON and as rows of CSV, from Arrow columns.

The lines are those that `cat --json` prints, with the bytes as they are: of Kafka's own topics nothing is decoded, as with `--raw`. Bytes
are a string where they are UTF-8, otherwise `{"base64": …}`.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Literal

from tidelog.errors import InvalidRecordError

if TYPE_CHECKING:
    import pyarrow as pa

BytesAs = Literal["utf8", "base64"]
JSON_COLUMNS = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers", "sequence")
"""What a line is made of, as the column decoder calls it."""
_TYPES = {-1: '"NoTimestampType"', 0: '"CreateTime"', 1: '"LogAppendTime"'}


def json_lines(topic: str, partition: int, records: "pa.RecordBatch") -> Iterator[str]:
    """A line for each record, of columns as the decoder gives them."""
    home = f'"topic": {json.dumps(topic, ensure_ascii=False)}, "partition": {partition}'
    columns = [records.column(name).to_pylist() for name in JSON_COLUMNS]
    for offset, timestamp_ms, timestamp_type, key, value, headers, sequence in zip(*columns, strict=True):
        yield (
            f'{{"type": "record", {home}, "offset": {offset}, "timestamp_ms": {timestamp_ms}, '
            f'"timestamp_type": {_TYPES[timestamp_type]}, "key": {_text(key)}, "value": {_text(value)}, '
            f'"headers": {headers_text(headers)}, "sequence": {-1 if sequence is None else sequence}}}\n'
        )


def headers_text(headers: "Sequence[Any] | None") -> str:
    """Headers as JSON: a list of names and values."""
    if not headers:
        return "[]"
    return "[" + ", ".join(f"[{_text(str(name).encode())}, {_text(value)}]" for name, value in map(_pair, headers)) + "]"


def _pair(header: Any) -> tuple[Any, Any]:
    if isinstance(header, dict):
        name, value = header.values()
        return name, value
    return header[0], header[1]


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return encode_basestring(data.decode())
    except UnicodeDecodeError:
        return json.dumps({"base64": base64.b64encode(data).decode()})


def csv_columns(rows: "pa.RecordBatch", bytes_as: BytesAs) -> "pa.RecordBatch":
    """The same rows in what CSV can have: bytes as text, headers as JSON, times in UTC."""
    import pyarrow as pa

    arrays = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_binary(column.type):
            arrays.append(_bytes_text(name, column, bytes_as))
        elif pa.types.is_list(column.type):
            arrays.append(pa.array([None if headers is None else headers_text(headers) for headers in column.to_pylist()], pa.string()))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


def _bytes_text(name: str, column: "pa.Array", bytes_as: BytesAs) -> "pa.Array":
    import pyarrow as pa

    if bytes_as == "base64":
        encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return pa.array(encoded, pa.string())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidRecordError(
            f"a {name} that is not UTF-8 cannot be text", expected="UTF-8", found="other bytes", hint='bytes_as="base64" takes all'
        ) from None
