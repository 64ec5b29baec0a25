"""The files that one task of an export writes: one of each folder at a time, under names of the attempt's own.

Where files are put by date, records of a split come mostly in the order of their days, so that few files are open at once. All that waits
to be written shares one budget. Nothing is synced: an export that a power cut takes away is made again.
"""

import gzip
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidelog.spark.jobs.export_plan import NO_DATE, ExportOptions
from tidelog.spark.jobs.record_lines import csv_columns, json_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.splits import Split

MOST_OPEN = 32
"""Files at a time."""
BUFFERED_BYTES = 64 << 20
"""Of all files together."""
ROW_GROUP_BYTES = 32 << 20
_DAY_MS = 86_400_000
_DICTIONARIES = ("topic", "partition", "timestampType", "key")
"""Columns in which values come again and again."""


class PartFile(NamedTuple):
    """A file that a task has written."""

    path: str
    """Where it lies now."""
    folder: str
    """Where it belongs, below the target; empty: there."""
    records: int
    size_bytes: int


class PartFiles:
    """Writes the records of a task. `prefix` is how the paths of its files begin."""

    def __init__(self, options: ExportOptions, prefix: str) -> None:
        self._options = options
        self._prefix = prefix
        self._open: dict[str, _File] = {}
        self._done: list[PartFile] = []

    def add(self, split: "Split", rows: "pa.RecordBatch", timestamps_ms: NDArray[np.int64]) -> None:
        """Some records of a split, with their timestamps."""
        for day, part in by_day(rows, timestamps_ms) if "date" in self._options.partition_by else [(None, rows)]:
            self._file(folder_of(self._options.partition_by, split, day)).write(split, part)
        while sum(file.buffered_bytes for file in self._open.values()) > BUFFERED_BYTES:
            max(self._open.values(), key=lambda file: file.buffered_bytes).flush()

    def close(self) -> list[PartFile]:
        """All that were written."""
        for folder in list(self._open):
            self._close(folder)
        return self._done

    def give_up(self) -> None:
        """Let go of the files that are open; whoever discards the staging directory removes them."""
        for file in self._open.values():
            file.abandon()

    def _file(self, folder: str) -> "_File":
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= MOST_OPEN:
                self._close(next(iter(self._open)))
            number = len(self._done) + len(self._open)
            file = _FILES[self._options.format](f"{self._prefix}-{number}{self._options.suffix}", self._options)
        self._open[folder] = file  # the one that was used last is the last
        return file

    def _close(self, folder: str) -> None:
        file = self._open.pop(folder)
        file.close()
        self._done.append(PartFile(file.path, folder, file.records, Path(file.path).stat().st_size))


def folder_of(partition_by: tuple[str, ...], split: "Split", day: int | None) -> str:
    """The folder of some records, as Hive has it."""
    names = {"topic": split.topic, "partition": split.partition, "date": NO_DATE if day is None else str(np.datetime64(day, "D"))}
    return "/".join(f"{column}={names[column]}" for column in partition_by)


def by_day(rows: "pa.RecordBatch", timestamps_ms: NDArray[np.int64]) -> "Iterator[tuple[int | None, pa.RecordBatch]]":
    """The rows of each day, by UTC; None of those without a timestamp."""
    import pyarrow as pa

    days = np.where(timestamps_ms < 0, -1, timestamps_ms // _DAY_MS)
    for day in np.unique(days).tolist():
        is_its = days == day
        yield None if day < 0 else day, rows if is_its.all() else rows.filter(pa.array(is_its))


class _File(Protocol):
    path: str
    records: int
    buffered_bytes: int

    def __init__(self, path: str, options: ExportOptions) -> None: ...

    def write(self, split: "Split", rows: "pa.RecordBatch") -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class _ParquetFile:
    """Rows wait until they are a row group."""

    def __init__(self, path: str, options: ExportOptions) -> None:
        self.path, self.records, self.buffered_bytes = path, 0, 0
        self._options = options
        self._waiting: list[pa.RecordBatch] = []
        self._writer: Any = None

    def write(self, split: "Split", rows: "pa.RecordBatch") -> None:
        self._waiting.append(rows)
        self.records += rows.num_rows
        self.buffered_bytes += rows.nbytes
        if self.buffered_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            dictionaries = [name for name in _DICTIONARIES if name in table.schema.names]
            self._writer = pq.ParquetWriter(self.path, table.schema, compression=self._options.compression, use_dictionary=dictionaries)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self.buffered_bytes = [], 0

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _TextFile:
    """What is written through a stream, as it comes."""

    def __init__(self, path: str, options: ExportOptions) -> None:
        self.path, self.records, self.buffered_bytes = path, 0, 0
        self._options = options
        self._stream: gzip.GzipFile | BufferedWriter
        self._stream = gzip.open(path, "wb") if options.compression == "gzip" else open(path, "wb")  # noqa: SIM115, PTH123

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        self._stream.close()


class _JsonFile(_TextFile):
    def write(self, split: "Split", rows: "pa.RecordBatch") -> None:
        self._stream.write("".join(json_lines(split.topic, split.partition, rows)).encode())
        self.records += rows.num_rows


class _CsvFile(_TextFile):
    _writer: Any = None

    def write(self, split: "Split", rows: "pa.RecordBatch") -> None:
        from pyarrow import csv

        shown = csv_columns(rows, self._options.bytes_as)
        if self._writer is None:
            self._writer = csv.CSVWriter(self._stream, shown.schema)
        self._writer.write_batch(shown)
        self.records += rows.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        super().close()


_FILES: dict[str, type[_File]] = {
    "parquet": _ParquetFile,
    "delta": _ParquetFile,
    "iceberg": _ParquetFile,
    "json": _JsonFile,
    "csv": _CsvFile,
}
