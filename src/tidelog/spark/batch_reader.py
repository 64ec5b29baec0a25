"""The batch read: planned on the driver from the catalogue and the indexes, read by tasks.

A reader is made on the driver, pickled, and asked for its partitions; what it learns while it plans never reaches the tasks, so all that
they need is in the partitions. Which of the two readers Spark is given depends on the process that plans: one that may be asked to push
filters must not exist in a session that has the switch for them off, since Spark refuses the query then.

Filters are taken only where the option `pushFilters` asks for it. Spark keeps what a pushed filter has left of a plan with the DataFrame,
and takes it for every other query of the same DataFrame, with another filter or with none, which then misses rows (seen with PySpark
4.3.0; a test notices when that changes).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tidelog.spark.catalog import SourcePartition, find_partitions
from tidelog.spark.option_values import ToldInOneLine
from tidelog.spark.pruning import EVERYTHING, Pruning, prune
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.splits import Split, SplitPartition, pack, plan_splits

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.log.read_only import ReadOnlyLog

FEW_BYTES = 16 << 20
"""What is read in about the time that it takes to start a task."""
TASKS_A_CORE = 2


class Reader(DataSourceReader):
    """Plans and reads a batch, without filters from Spark."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns
        self.pruning = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """The work of each task."""
        with ToldInOneLine():
            return plan(self.options, self.columns, self.pruning)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The records of one task."""
        from tidelog.spark.split_reading import read_splits

        with ToldInOneLine():
            yield from read_splits(partition)


class PushingReader(Reader):
    """The same where Spark may push filters down. They are all handed back: what is read may be more than what matches, never less."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what filters say about what can be skipped."""
        self.pruning = prune(filters)
        return filters


def plan(options: ReadOptions, columns: tuple[str, ...], pruning: Pruning = EVERYTHING) -> list[SplitPartition]:
    """The tasks of a batch read: sizes, indexes and checkpoints are read for it, and no data."""
    from tidelog.spark.offset_bounds import check_named

    options.tell_ignored()
    sources: Sequence[SourcePartition] = find_partitions(options)
    check_named(options, sources)
    keys = pruning.keys if options.keys is None else options.keys if pruning.keys is None else options.keys & pruning.keys
    if keys is not None and options.key_partitioner is not None:
        sources = [source for source in sources if source.is_home_of(keys)]
    with ExitStack() as opened:
        ranges = [
            found
            for source in sources
            if pruning.has_partition(source.topic, source.partition)
            for found in _range_of(options, source, pruning, opened)
        ]
        target_bytes = options.target_bytes
        if target_bytes is not None and (options.bytes_per_partition is None or options.min_partitions is not None):
            total = sum(split.size_bytes for found in ranges for split in found.cut(options, pruning, None))
            target_bytes = task_bytes(
                total, most=target_bytes, is_given=options.bytes_per_partition is not None, at_least=options.min_partitions
            )
        splits = [split for found in ranges for split in found.cut(options, pruning, target_bytes)]
    packed = pack(splits, target_bytes=target_bytes, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    how = (columns, options.isolation, keys, pruning.oldest_ms, options.fail_on_data_loss, options.latest_by_key)
    return [SplitPartition(parts, *how) for parts in packed]


def task_bytes(total: int, *, most: int, is_given: bool = False, at_least: int | None = None, cores: int | None = None) -> int:
    """How many bytes of log a task should have: so few that all cores have work, and so many that starting it is not what takes the time.

    How many cores a cluster has nobody says here; those of the driver stand for them.
    """
    wanted = most
    if not is_given:
        wanted = min(most, max(FEW_BYTES, -(-total // (TASKS_A_CORE * (cores or os.cpu_count() or 1)))))
    return max(1, wanted if at_least is None else min(wanted, total // at_least))


@dataclass(frozen=True, slots=True)
class _Range:
    """What is to be read of one partition."""

    source: SourcePartition
    log: "ReadOnlyLog"
    start: int
    end: int

    def cut(self, options: ReadOptions, pruning: Pruning, target_bytes: int | None) -> list[Split]:
        """In parts of so many bytes."""
        return plan_splits(
            self.log,
            self.source,
            self.start,
            self.end,
            target_bytes=target_bytes,
            oldest_ms=pruning.oldest_ms,
            isolation=options.isolation,
        )


def _range_of(options: ReadOptions, source: SourcePartition, pruning: Pruning, opened: ExitStack) -> Iterator[_Range]:
    """The range of a partition, if there is anything in it."""
    from tidelog.spark.offset_bounds import check_start, ending_offset, starting_offset

    log = opened.enter_context(source.open())
    start = starting_offset(options, source, log)
    end = ending_offset(options, source, log)
    if start < end:
        start, end = pruning.narrow(check_start(options, source, log, start), end)
        if start < end:
            yield _Range(source, log, start, end)
