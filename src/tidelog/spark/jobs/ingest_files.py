"""Files as rows in Arrow columns, without Spark, and as Spark reads them: the same columns, types and nulls.

Parquet, ORC, CSV, lines of JSON and text (one column, value). What takes more to understand is refused here with a word: Spark reads it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError, InvalidRecordTypeError, LogNotFoundError
from tidelog.spark.jobs.ingest_csv import read_csv
from tidelog.spark.jobs.ingest_json import read_json
from tidelog.spark.jobs.ingest_lines import MEND, ON_SPARK, ROWS, OnRead, line_chunks

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_DATA = ("_", ".")


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
    except (pa.ArrowException, UnicodeError, OverflowError, RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # not about what is in the file
        # Spark takes text as bytes, and knows larger numbers than Arrow, and deeper nesting.
        is_for_spark = form == "text" or (form == "json" and not isinstance(error, UnicodeError))
        raise InvalidRecordTypeError(f"not the {form} that can be read here: {error}", hint=ON_SPARK if is_for_spark else MEND) from error


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
            for batch in opened.iter_batches(ROWS):
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


def _text(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for _, lines in line_chunks(files, tell):
        yield pa.RecordBatch.from_arrays([pa.array([line for _, line in lines], pa.string())], ["value"])


_READERS: Mapping[str, "Callable[[Sequence[Path], OnRead], Iterator[pa.RecordBatch]]"] = {
    "parquet": _parquet,
    "orc": _orc,
    "csv": read_csv,
    "json": read_json,
    "text": _text,
}
