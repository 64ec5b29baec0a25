"""CSV as RFC 4180 has it, with a header: all columns are text, and what is empty is null."""

import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidRecordTypeError
from tidelog.spark.jobs.ingest_lines import MEND, ROWS, OnRead

if TYPE_CHECKING:
    from _csv import Reader as CsvRows

    import pyarrow as pa

_MAX_FIELD = 1 << 30
"""Python's reader takes 128 KiB by itself; what is too large for a record is for the topic to say."""


def read_csv(files: Sequence[Path], tell: OnRead) -> "Iterator[pa.RecordBatch]":
    """Fields in quotes may hold line ends, and quotes twice. A quote in the wrong place raises; Arrow's own reader would drop it."""
    import pyarrow as pa

    csv.field_size_limit(_MAX_FIELD)
    for file in files:
        with file.open("rb") as opened, TextIOWrapper(opened, encoding="utf-8-sig", newline="") as text:
            rows = csv.reader(text, strict=True)
            position = 0
            try:
                names = next(filter(None, rows), [])
                if len({name.lower() for name in names}) < len(names):
                    raise InvalidRecordTypeError("two columns have one name", path=str(file), expected="each once", found=", ".join(names))
                checked = _of_width(rows, len(names), file)
                while chunk := list(islice(checked, ROWS)):
                    arrays = [pa.array([field or None for field in fields], pa.string()) for fields in zip(*chunk, strict=True)]
                    last, position = position, opened.tell() if opened.seekable() else 0  # a pipe has no place
                    tell(position - last)
                    yield pa.RecordBatch.from_arrays(arrays, names)
            except csv.Error as error:
                raise InvalidRecordTypeError(f"line {rows.line_num} is no CSV: {error}", path=str(file), hint=MEND) from error


def _of_width(rows: "CsvRows", width: int, file: Path) -> Iterator[list[str]]:
    """The rows, without those that are nothing; each has as many columns as the header."""
    for row in filter(None, rows):
        if len(row) == width:
            yield row
        else:
            raise InvalidRecordTypeError(
                f"line {rows.line_num} has other columns", path=str(file), expected=width, found=len(row), hint=MEND
            )
