"""The work of one task of an export: read the records of its splits, and write them into files of its own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.jobs.export_plan import ExportOptions
from tidelog.spark.jobs.record_lines import JSON_COLUMNS
from tidelog.spark.splits import Split, SplitPartition

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from tidelog.spark.jobs.part_files import PartFile


class ExportItem(NamedTuple):
    """What a task writes, and how. Small, and pickled."""

    splits: tuple[Split, ...]
    options: ExportOptions


def write_task(item: ExportItem, name: str) -> "list[PartFile]":
    """Write the files; `name` is how their paths begin. What it wrote counts only if its answer comes back."""
    from tidelog.spark.jobs.part_files import PartFiles

    files = PartFiles(item.options, name)
    try:
        for split in item.splits:
            for rows, timestamps_ms in _rows(split, item.options):
                files.add(split, rows, timestamps_ms)
        return files.close()
    except BaseException:
        files.give_up()
        raise


def _rows(split: Split, options: ExportOptions) -> "Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]":
    """The records of a split in the columns of the format, with their timestamps in milliseconds."""
    import numpy as np

    from tidelog.spark.row_batches import RowBatches, joined
    from tidelog.spark.split_reading import read_split

    how = SplitPartition((split,), options.columns, options.isolation)
    if options.format == "json":
        for batch in read_split(split, how, _Decoded()):
            yield batch, batch.column("timestamp_ms").to_numpy()
        return
    needs_time = "date" in options.partition_by
    read = tuple(dict.fromkeys((*options.written, *(("timestamp",) if needs_time else ()))))
    for batch in joined(read_split(split, how, RowBatches(read, None))):
        times = batch.column("timestamp").view("int64").to_numpy() // 1000 if needs_time else np.zeros(0, np.int64)
        yield batch.select(list(options.written)), times


class _Decoded:
    """Rows as the column decoder gives them."""

    def __init__(self) -> None:
        from tidelog.record.columns import ColumnDecoder

        self._decoder = ColumnDecoder(JSON_COLUMNS)

    def decode(self, batches: memoryview) -> "Iterator[pa.RecordBatch]":
        return self._decoder.decode(batches)

    def arrange(self, decoded: "pa.RecordBatch", topic: str, partition: int) -> "pa.RecordBatch":
        return decoded
