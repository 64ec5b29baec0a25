"""Lines of JSON as rows in Arrow columns: columns by name, of the narrowest type that fits all rows, as Spark infers them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidRecordTypeError
from tidelog.spark.jobs.ingest_lines import MEND, ON_SPARK, OnRead, line_chunks

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = ("long", "double")
Kind = str | tuple[str, Any]
"""Of JSON: null, boolean, long, double, string, ("array", kind) or ("struct", {name: kind})."""


def read_json(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    """Read twice: which types the columns have is known when all rows were seen."""
    import pyarrow as pa

    kinds: dict[str, Kind] = {}
    for rows in _objects(files, tell):
        for row in rows:
            for name, value in row.items():
                kinds[name] = _merged(kinds.get(name, "null"), _kind_of(value))
    if len({name.lower() for name in kinds}) < len(kinds):
        raise InvalidRecordTypeError("two columns have one name", expected="each once", found=", ".join(sorted(kinds)), hint=MEND)
    schema = pa.schema([pa.field(name, _arrow(kind)) for name, kind in sorted(kinds.items())])
    for rows in _objects(files, tell):
        arrays = [pa.array([_as_kind(row.get(name), kinds[name]) for row in rows], schema.field(name).type) for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _objects(files: Sequence[Path], tell: OnRead) -> Iterator[list[dict[str, Any]]]:
    for file, lines in line_chunks(files, tell, "utf-8-sig"):
        rows = []
        for number, line in lines:
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_float=_Written, object_pairs_hook=_object)
            except ValueError as error:
                raise InvalidRecordTypeError(f"line {number} is no JSON: {error}", path=str(file), hint=MEND) from error
            if not isinstance(row, dict):
                raise InvalidRecordTypeError(f"line {number} is no object", path=str(file), expected="{…}", found=line[:40], hint=MEND)
            rows.append(row)
        if rows:
            yield rows


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _kind_of(value: Any) -> Kind:
    """Of a value of JSON."""
    if isinstance(value, dict):
        return "struct", {name: _kind_of(own) for name, own in value.items()}
    if isinstance(value, list):
        return "array", _all_of(map(_kind_of, value))
    names = {type(None): "null", bool: "boolean", int: "long", float: "double", _Written: "double", str: "string"}
    return names[type(value)]


def _merged(one: Kind, other: Kind) -> Kind:
    """The narrowest that both are: text if there is no other."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "array":
            return "array", _merged(one[1], other[1])
        return "struct", one[1] | {name: _merged(one[1].get(name, "null"), kind) for name, kind in other[1].items()}
    if isinstance(one, tuple) or isinstance(other, tuple):
        raise InvalidRecordTypeError("a column that is nested in some lines, and in others not", hint=ON_SPARK)
    return "double" if one in _NUMBERS and other in _NUMBERS else "string"


def _all_of(kinds: Iterable[Kind]) -> Kind:
    found: Kind = "null"
    for kind in kinds:
        found = _merged(found, kind)
    return found


def _arrow(kind: Kind) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(kind, tuple):
        if kind[0] == "array":
            return pa.list_(_arrow(kind[1]))
        return pa.struct([pa.field(name, _arrow(own)) for name, own in sorted(kind[1].items())])
    types: dict[str, Any] = {"boolean": pa.bool_(), "long": pa.int64(), "double": pa.float64()}
    return types.get(kind, pa.string())  # of nothing but nulls Spark makes text too


def _as_kind(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if isinstance(kind, tuple):
        if kind[0] == "array":
            return [_as_kind(own, kind[1]) for own in value]
        return {name: _as_kind(value.get(name), own) for name, own in kind[1].items()}
    if kind == "string" and not isinstance(value, str):
        return value.text if isinstance(value, _Written) else json.dumps(value)
    return float(value) if kind == "double" else value


class _Written(float):
    """A number that knows how it is written: among texts it is one too."""

    def __init__(self, text: str) -> None:
        self.text = text
