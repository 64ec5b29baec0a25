"""Columns of rows as the columns of records, without Spark: keys and values as text or bytes, times as times, the whole row as JSON.

The rules are those of `ingest_job.records_of`, and what Spark makes of a number, a time or a nested value as text. A type of which that is
not known for sure is refused.
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidConfigError, InvalidRecordTypeError

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE_ROW = "*"
NAMES = ("key", "value", "headers", "timestamp", "partition")
_ON_SPARK = "--spark writes it"


def choose_columns(there: list[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Which column of the rows each column of the records is, `WHOLE_ROW` for all of them; one that is not there raises."""
    by_name = {name.lower(): name for name in there}
    chosen = {}
    for name in NAMES:
        asked = given.get(name)
        if asked is None:
            found = by_name.get(name, WHOLE_ROW if name == "value" else None)
        elif name == "value" and asked == WHOLE_ROW:
            found = WHOLE_ROW
        else:
            found = by_name.get(asked.strip("`").lower())
            if found is None:
                raise InvalidConfigError(
                    f"no column {asked!r} to be the {name}",
                    expected=", ".join(there) or "a column",
                    found=asked,
                    hint="an expression of SQL is for Spark: --spark",
                )
        if found is not None:
            chosen[name] = found
    return chosen


def record_columns(rows: "pa.RecordBatch", chosen: Mapping[str, str]) -> "pa.RecordBatch":
    """The columns of records, of some rows."""
    import pyarrow as pa

    arrays = [_whole(rows) if column == WHOLE_ROW else _MAKERS[name](rows.column(column), column) for name, column in chosen.items()]
    return pa.RecordBatch.from_arrays(arrays, list(chosen))


def spark_name(kind: "pa.DataType") -> str:
    """How Spark calls the type of a column of records."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return "array<struct<key:string,value:binary>>"
    return {pa.string(): "string", pa.binary(): "binary", pa.int32(): "int"}.get(kind, "timestamp")


def _text_or_bytes(column: "pa.Array", name: str) -> "pa.Array":
    import pyarrow as pa

    kind = column.type
    for same, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        if kind in (same, wide):
            return column.cast(same)
    if pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return column.cast(pa.string())
    if pa.types.is_float64(kind):
        return pa.array([None if own is None else java_double(own) for own in column.to_pylist()], pa.string())
    if pa.types.is_nested(kind):
        _check_nested(kind, name)
        return pa.array([None if own is None else _json(own) for own in column.to_pylist()], pa.string())
    raise _refused(name, kind, "text, bytes, a number, true or false, a date, or something nested")


def _headers(column: "pa.Array", name: str) -> "pa.Array":
    import pyarrow as pa

    fields = {}
    if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
        fields = {field.name: field.type for field in column.type.value_type}
    if fields != {"key": pa.string(), "value": pa.binary()}:
        raise InvalidRecordTypeError(
            f"column {name} has a type that cannot be written", expected="array<struct<key:string,value:binary>>", found=str(column.type)
        )
    return column


def _timestamp(column: "pa.Array", name: str) -> "pa.Array":
    import pyarrow as pa

    kind, wanted = column.type, pa.timestamp("us", "UTC")
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us")).cast(wanted) if kind.tz is None else column.cast(wanted)
    if pa.types.is_integer(kind):
        return column.cast(pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(wanted)
    if pa.types.is_string(kind):
        return pa.array([None if own is None else _time(own, name) for own in column.to_pylist()], wanted)
    raise _refused(name, kind, "a time, or epoch milliseconds")


def _time(text: str, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidRecordTypeError(
            f"column {name} has a text that is no time",
            expected="2026-11-16T18:00:00Z, UTC if it names no zone",
            found=text,
            hint="a number in a text takes an expression of SQL, as cast(at as bigint), and --spark",
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _partition(column: "pa.Array", name: str) -> "pa.Array":
    import pyarrow as pa

    try:
        return column.cast(pa.int32())
    except pa.ArrowException as error:
        raise _refused(name, column.type, "a number") from error


_MAKERS: "Mapping[str, Callable[[pa.Array, str], pa.Array]]" = {
    "key": _text_or_bytes,
    "value": _text_or_bytes,
    "headers": _headers,
    "timestamp": _timestamp,
    "partition": _partition,
}


def _whole(rows: "pa.RecordBatch") -> "pa.Array":
    import pyarrow as pa

    for field in rows.schema:
        _check_nested(field.type, field.name)
    return pa.array([_json(row) for row in rows.to_pylist()], pa.string())


def _check_nested(kind: "pa.DataType", name: str) -> None:
    """Raise for a type that `_json` does not write as Spark does."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        for field in kind:
            _check_nested(field.type, f"{name}.{field.name}")
    elif types.is_list(kind):
        _check_nested(kind.value_type, name)
    elif not (
        types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_float64(kind) or types.is_string(kind)
        or types.is_large_string(kind) or types.is_binary(kind) or types.is_date32(kind) or kind == pa.timestamp("us", "UTC")
    ):  # fmt: skip
        raise _refused(name, kind, "text, bytes, a number, true or false, a date, a time in UTC, or a list or struct of such")


def _json(value: Any) -> str:
    """As Spark writes it: no blanks, and of a struct no nulls."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_json(own)}" for name, own in value.items() if own is not None) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, float):
        return java_double(value) if value - value == 0 else f'"{java_double(value)}"'
    if isinstance(value, datetime):
        return f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")}Z"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    return _quoted(base64.b64encode(value).decode() if isinstance(value, bytes) else value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def java_double(number: float) -> str:
    """As Java writes it: `1.0`, `1.0E10`, `1.5E-5`, `NaN`, `Infinity`."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, _, exponent = f"{number!r}".partition("e")
    if not exponent:  # such as 12345678.5 or 0.0001
        sign, plain = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        whole, _, fraction = plain.partition(".")
        figures = (whole + fraction).lstrip("0")
        power = len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0"))) - 1
        figures = figures.rstrip("0") or "0"
        return f"{sign}{figures[0]}.{figures[1:] or '0'}E{power}"
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _refused(name: str, kind: object, expected: str) -> InvalidRecordTypeError:
    return InvalidRecordTypeError(f"column {name} has a type that is not written here", expected=expected, found=str(kind), hint=_ON_SPARK)
