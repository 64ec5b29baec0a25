"""What `table` and `history` have in common: what each task reads, and the rows as a DataFrame.

The DataFrame is evaluated when somebody asks for its rows. Until then the log goes on, and may be compacted past the point that it is
about: every task looks for that when it has read a split (`unchanged_segments`), and raises rather than leave rows out.
"""

import pickle
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.spark.jobs.keyed_plan import KeyedPlan
from tidelog.spark.jobs.unchanged_segments import Guard
from tidelog.spark.schema import SPARK_TYPES
from tidelog.spark.splits import Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.latest_by_key import KeyedReading

IS_TOMBSTONE, IS_COMPLETE, IS_VERSION = "is_tombstone", "is_complete", "is_version"
ADDED = (IS_TOMBSTONE, IS_COMPLETE, IS_VERSION)
DETAILS_SCHEMA = (
    "topic string, partition int, start_offset long, last_offset long, size_bytes long, is_complete boolean, first_known_offset long, "
    "first_known_timestamp_ms long, why string"
)


class KeyedItem(NamedTuple):
    """A split, what counts of it, and what has to be so when it was read."""

    split: Split
    reading: "KeyedReading"
    is_complete: bool
    guard: Guard | None
    """None: it takes what is left."""


def detail_rows(plan: KeyedPlan, incomplete: Collection[TopicPartition]) -> list[tuple[object, ...]]:
    """A row for each partition, as `DETAILS_SCHEMA` has it."""
    rows = []
    for one in plan.topics.partitions:
        partition = TopicPartition(one.source.topic, one.source.partition)
        known = plan.known.get(partition)
        facts = (None, None, None) if known is None else (known.first_offset, known.first_timestamp_ms, known.why)
        rows.append((*partition, one.start_offset, one.end_offset - 1, one.size_bytes, partition not in incomplete, *facts))
    return rows


def keyed_frame(spark: "SparkSession", tasks: Sequence[Sequence[KeyedItem]], columns: Sequence[str]) -> "DataFrame":
    """The rows of all tasks, with whether each is a tombstone, all of its past is there, and it counts whatever comes behind it."""
    schema = ", ".join([*(f"{name} {SPARK_TYPES[name]}" for name in columns), *(f"{name} boolean" for name in ADDED)])
    worker = _KeyedWorker([pickle.dumps(list(items)) for items in tasks], tuple(columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark about the version of pandas, which is not used here
        return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(worker, schema)


class _KeyedWorker:
    """What executors run."""

    def __init__(self, tasks: list[bytes], columns: tuple[str, ...]) -> None:
        self._tasks = tasks
        self._columns = columns

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows_of(pickle.loads(self._tasks[number]), self._columns)  # noqa: S301 - our own driver


def rows_of(items: Sequence[KeyedItem], columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """The rows of one task."""
    import pyarrow as pa

    from tidelog.spark.latest_by_key import read_keyed

    for item in items:
        for batch in read_keyed(item.split, item.reading):
            offsets, timestamps_ms = batch.column("offset").to_numpy(), batch.column("timestamp").view("int64").to_numpy() // 1000
            is_version = pa.array(item.reading.is_version(offsets, timestamps_ms))
            arrays = [*(batch.column(name) for name in columns), batch.column("value").is_null()]
            yield pa.RecordBatch.from_arrays([*arrays, pa.repeat(item.is_complete, batch.num_rows), is_version], [*columns, *ADDED])
        if item.guard is not None:
            item.guard.check(item.split)
