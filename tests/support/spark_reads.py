"""Reads of the data source without Spark: planned and read by the same code, in this process; and what the engine itself says there is."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.log.log_reading import Isolation
from tidelog.log.read_only import open_read_only
from tidelog.record.kernel.record import Record
from tidelog.spark.batch_reader import plan
from tidelog.spark.pruning import EVERYTHING, Pruning
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.split_reading import read_splits
from tidelog.spark.splits import SplitPartition

Row = dict[str, Any]
ALL = "key,value,topic,partition,offset,timestamp,timestampType,headers"


def read_options(path: Path | str, options: Mapping[str, object] | None = None, *, is_stream: bool = False) -> ReadOptions:
    """Options of a read; of every topic unless they say otherwise."""
    given = {"path": str(path), **{name: str(value) for name, value in (options or {}).items()}}
    if not {"subscribe", "assign", "subscribePattern"} & given.keys():
        given["subscribePattern"] = ".*"
    return ReadOptions.of(given, is_stream)


def plan_read(path: Path | str, options: Mapping[str, object] | None = None, pruning: Pruning = EVERYTHING) -> list[SplitPartition]:
    """The tasks of a read."""
    parsed = read_options(path, options)
    return plan(parsed, parsed.columns, pruning)


def rows_of(tasks: Iterable[SplitPartition]) -> list[Row]:
    """What tasks read."""
    return [row for task in tasks for batch in read_splits(task) for row in batch.to_pylist()]


def read_rows(path: Path | str, options: Mapping[str, object] | None = None, pruning: Pruning = EVERYTHING) -> list[Row]:
    """Plan and read, with all columns unless some are asked for."""
    return rows_of(plan_read(path, {"columns": ALL, **(options or {})}, pruning))


def engine_rows(path: Path | str, *partitions: str, isolation: Isolation = "committed") -> list[Row]:
    """The same rows as the engine reads them, record by record."""
    found = []
    for name in partitions:
        with open_read_only(Path(path) / name) as log:
            found += [as_row(record) for record in log.read(isolation=isolation)]
    return found


def as_row(record: Record) -> Row:
    """A record as Spark's Kafka source shows it."""
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": int(record.timestamp_type),
        "headers": headers or None,
    }


def in_ms(rows: Iterable[Row]) -> list[Row]:
    """Rows with their times in milliseconds, as the engine has them."""
    return [{**row, "timestamp": round(row["timestamp"].timestamp() * 1000)} for row in rows]


def sizes_of(tasks: Iterable[SplitPartition]) -> list[int]:
    """About how many bytes of log each task has."""
    return [sum(split.size_bytes for split in task.splits) for task in tasks]


def ranges_of(tasks: Iterable[SplitPartition]) -> list[list[tuple[str, int, int]]]:
    """Which offsets each task reads."""
    return [[(f"{split.topic}-{split.partition}", split.start_offset, split.end_offset) for split in task.splits] for task in tasks]
