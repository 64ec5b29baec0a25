"""Files as rows in Arrow columns, without Spark, and as Spark reads them: the same columns, types and nulls.

Parquet, ORC, CSV (with a header, all columns text, and what is empty null), lines of JSON (columns by name, of the narrowest
type that fits all rows) and text (one column, value). What takes more to understand is refused here with a word: Spark reads it.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import glob
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidConfigError, InvalidRecordTypeError, LogNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

ON_SPARK = "--spark reads it"
_MEND = "nothing was appended: mend the file, or leave it out"
_ROWS = 8192
_NOT_DATA = ("_", ".")
_NUMBERS = ("long", "double")

OnRead = Callable[[float], None]
"""Told of each file how much more of its bytes was read."""
Kind = str | tuple[str, Any]
"""Of JSON: null, boolean, long, double, string, ("array", kind) or ("struct", {name: kind})."""


def read_rows(paths: Sequence[str], form: str, on_read: Callable[[int, int], None] | None = None) -> "Iterator[pa.RecordBatch]":
    """The rows of files, and of those in directories, in the order of their names.

    `on_read` is told how many bytes of the files were read since it was told last, and how many are to be read in all.
    """
    files = [file for path in paths for file in _files(path)]
    total_bytes = sum(file.stat().st_size for file in files) * (2 if form == "json" else 1)

    def tell(size_bytes: float) -> None:
        if on_read is not None:
            on_read(int(size_bytes), total_bytes)

    first: pa.Schema | None = None
    for batch in _told(_READERS[form](files, tell), form):
        if first is None:
            first = batch.schema
        elif batch.schema != first:
            hint = ON_SPARK if form in ("parquet", "orc") else "append them one by one"
            raise InvalidRecordTypeError(
                "files with different columns", expected=str(first.names), found=str(batch.schema.names), hint=hint
            )
        yield batch


def _told(batches: "Iterator[pa.RecordBatch]", form: str) -> "Iterator[pa.RecordBatch]":
    """The same. What a reader says about files that are not what they should be becomes an error with a name."""
    import pyarrow as pa

    try:
        yield from batches
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # not about what is in the file
        # Spark reads other dialects, but no other files, and no row that has other columns than the header.
        hint = _MEND if form in ("parquet", "orc") or "columns, got" in str(error) else ON_SPARK
        raise InvalidRecordTypeError(f"not the {form} that can be read here: {error}", hint=hint) from error


def _files(path: str) -> list[Path]:
    found = [Path(one) for one in sorted(glob(path))] if "*" in path else [Path(path)]  # noqa: PTH207 - as it was typed
    if not found:
        raise LogNotFoundError("no such file", path=path)
    return [file for one in found for file in (_in_folder(one) if one.is_dir() else [one])]


def _in_folder(folder: Path) -> list[Path]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    files = [file for file in files if not any(part.startswith(_NOT_DATA) for part in file.relative_to(folder).parts)]
    if any("=" in part for file in files for part in file.relative_to(folder).parts[:-1]):
        raise InvalidConfigError(f"{folder} has columns in the names of folders", hint=ON_SPARK)
    return files


def _parquet(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file) as opened:
            row_bytes = file.stat().st_size / max(1, opened.metadata.num_rows)
            for batch in opened.iter_batches(_ROWS):
                tell(batch.num_rows * row_bytes)
                yield batch


def _orc(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    from pyarrow import orc

    for file in files:
        opened = orc.ORCFile(file)
        for stripe in range(opened.nstripes):
            batch = opened.read_stripe(stripe)
            tell(file.stat().st_size / opened.nstripes)
            yield batch


def _csv(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    for file in files:
        with file.open(newline="", encoding="utf-8") as opened:
            names = next(csv.reader(opened), [])
        if not names:
            continue
        if len({name.lower() for name in names}) < len(names):
            raise InvalidRecordTypeError("two columns have one name", path=str(file), expected="each once", found=", ".join(names))
        text = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True)
        with pa.OSFile(str(file)) as source:
            position = 0
            for batch in arrow_csv.open_csv(source, parse_options=arrow_csv.ParseOptions(escape_char="\\"), convert_options=text):
                last, position = position, source.tell()
                tell(position - last)
                yield batch


def _text(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for _, lines in _line_chunks(files, tell):
        yield pa.RecordBatch.from_arrays([pa.array([line for _, line in lines], pa.string())], ["value"])


def _json(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    """Read twice: which types the columns have is known when all rows were seen."""
    import pyarrow as pa

    kinds: dict[str, Kind] = {}
    for rows in _objects(files, tell):
        for row in rows:
            for name, value in row.items():
                kinds[name] = merged(kinds.get(name, "null"), kind_of(value))
    schema = pa.schema([pa.field(name, _arrow(kind)) for name, kind in sorted(kinds.items())])
    for rows in _objects(files, tell):
        arrays = [pa.array([_as_kind(row.get(name), kinds[name]) for row in rows], schema.field(name).type) for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _objects(files: Sequence[Path], tell: OnRead) -> Iterator[list[dict[str, Any]]]:
    for file, lines in _line_chunks(files, tell):
        rows = []
        for number, line in lines:
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_float=_Written)
            except ValueError as error:
                raise InvalidRecordTypeError(f"line {number} is no JSON: {error}", path=str(file), hint=_MEND) from error
            if not isinstance(row, dict):
                raise InvalidRecordTypeError(f"line {number} is no object", path=str(file), expected="{…}", found=line[:40], hint=_MEND)
            rows.append(row)
        if rows:
            yield rows


def _line_chunks(files: Sequence[Path], tell: OnRead) -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    """Some thousand lines at a time, with their numbers."""
    for file in files:
        with file.open("rb") as opened, TextIOWrapper(opened, encoding="utf-8") as text:
            numbered = enumerate(text, 1)
            position = 0
            while lines := [(number, line.removesuffix("\n")) for number, line in islice(numbered, _ROWS)]:
                last, position = position, opened.tell() if opened.seekable() else 0  # a pipe has no place
                tell(position - last)
                yield file, lines


def kind_of(value: Any) -> Kind:
    """Of a value of JSON."""
    if isinstance(value, dict):
        return "struct", {name: kind_of(own) for name, own in value.items()}
    if isinstance(value, list):
        return "array", _all_of(map(kind_of, value))
    names = {type(None): "null", bool: "boolean", int: "long", float: "double", _Written: "double", str: "string"}
    return names[type(value)]


def merged(one: Kind, other: Kind) -> Kind:
    """The narrowest that both are: text if there is no other."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "array":
            return "array", merged(one[1], other[1])
        return "struct", one[1] | {name: merged(one[1].get(name, "null"), kind) for name, kind in other[1].items()}
    if isinstance(one, tuple) or isinstance(other, tuple):
        raise InvalidRecordTypeError("a column that is nested in some lines, and in others not", hint=ON_SPARK)
    return "double" if one in _NUMBERS and other in _NUMBERS else "string"


def _all_of(kinds: Iterable[Kind]) -> Kind:
    found: Kind = "null"
    for kind in kinds:
        found = merged(found, kind)
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


_READERS: Mapping[str, "Callable[[Sequence[Path], OnRead], Iterator[pa.RecordBatch]]"] = {
    "parquet": _parquet,
    "orc": _orc,
    "csv": _csv,
    "json": _json,
    "text": _text,
}
