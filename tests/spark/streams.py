"""Streams for tests: readers without Spark around them, and what they read."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from tests.support.logs import TIME
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.splits import SplitPartition
from tidelog.spark.stream_reader import TidelogStreamReader

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
EARLIEST = {"startingOffsets": "earliest"}

Row = tuple[str, int, int]
"""Topic, partition, offset."""


@contextmanager
def stream(home: Path, **options: str) -> Iterator[TidelogStreamReader]:
    """A reader as Spark makes one, of topic tide unless something else is asked for; closed as Spark does."""
    given = dict(options)
    if not {"assign", "subscribe", "subscribePattern"} & given.keys():
        given["subscribe"] = "tide"
    reader = TidelogStreamReader(ReadOptions.of({"path": str(home), **given}, True), SCHEMA)
    try:
        yield reader
    finally:
        reader.stop()


def next_batch(reader: TidelogStreamReader, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
    """Where the next micro-batch ends."""
    return reader.latestOffset(start, reader.getDefaultReadLimit() if limit is None else limit)


def tasks_of(reader: TidelogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[SplitPartition]:
    """The tasks of a micro-batch, as they come out of a pickle."""
    return cast("list[SplitPartition]", pickle.loads(pickle.dumps(list(reader.partitions(start, end)))))


def rows_of(reader: TidelogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    """What the tasks of a micro-batch read, task after task."""
    rows = (row for task in tasks_of(reader, start, end) for batch in reader.read(task) for row in batch.to_pylist())
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def read_tasks(reader: TidelogStreamReader, tasks: Iterable[SplitPartition]) -> list[int]:
    """The offsets that tasks read which were planned before."""
    return [offset for task in tasks for batch in reader.read(task) for offset in batch.column("offset").to_pylist()]


def read_all(reader: TidelogStreamReader) -> list[list[Row]]:
    """The micro-batches of a query that reads what is there."""
    start = reader.initialOffset()
    batches = []
    while (end := next_batch(reader, start)) != start:
        batches.append(rows_of(reader, start, end))
        start = end
    return batches


def offsets_in(offset: Mapping[str, Any], topic: str = "tide") -> dict[int, int]:
    """The offsets of a topic in what Spark keeps."""
    return {int(partition): at for partition, at in offset["topics"][topic]["offsets"].items()}


def fill(topic: Any, count: int, *, partition: int = 0, first_ms: int = TIME, step_ms: int = 1000, **settings: Any) -> None:
    """Records a second apart."""
    for number in range(count):
        topic.append(
            f"value {number}".encode(),
            key=f"key {number}".encode(),
            partition=partition,
            timestamp_ms=first_ms + number * step_ms,
            **settings,
        )
