"""`table`: the latest value of each key, now or as of a point, as a DataFrame of any size.

    plan       partitions and splits by indexes; as of a point, what can be told of it (`tidelog.store.known_points`)
    reduce     each task leaves one row of each key that it has seen (`latest_by_key`), before anything crosses to the JVM
    resolve    Spark takes the last row of each key by offset; of a key that several partitions have, by timestamp, then offset

Nothing is evaluated before somebody asks for rows, and the driver holds none of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.keyed_frame import (
    DETAILS_SCHEMA,
    IS_COMPLETE,
    IS_TOMBSTONE,
    KeyedItem,
    detail_rows,
    keyed_frame,
)
from tidelog.spark.jobs.keyed_plan import KeyedPlan, plan_keyed
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks
from tidelog.spark.jobs.topic_plan import Directory, Positions, directory_path, topic_names
from tidelog.spark.latest_by_key import KeyedReading
from tidelog.spark.schema import COLUMNS
from tidelog.spark.splits import Split
from tidelog.store.known_points import check_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.log.log_reading import Isolation

DEFAULT_COLUMNS = ("topic", "key", "value", "partition", "offset", "timestamp")
_NEEDED = ("topic", "key", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class TableResult:
    """A table, and what it is made of."""

    plan: KeyedPlan
    is_complete: bool
    """Whether the point that it is as of can be told wholly."""
    stages: tuple[tuple[str, int], ...]
    """What executors do, and in how many tasks."""
    table: "DataFrame" = field(repr=False, compare=False)
    """A row for each key; evaluated when it is asked for rows."""
    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""
    _keys: "DataFrame" = field(repr=False, compare=False)

    @property
    def keys_in_several_partitions(self) -> int:
        """How many keys more than one partition of their topic has, which no partitioner of Kafka's would do. Reads all keys."""
        from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

        of_key = self._keys.groupBy("topic", "key").agg(F.min("partition").alias("first"), F.max("partition").alias("last"))
        return of_key.where("first < last").count()

    def __str__(self) -> str:
        lines = [str(self.plan.topics), f"as of {self.plan.until}"]
        lines += [f"{one.partition} {one.why}" for one in self.plan.known.values() if one.why is not None]
        return "\n".join([*lines, *(["not all that was there then is left"] if not self.is_complete else [])])


def table(
    spark: "SparkSession",
    directory: Directory,
    topics: Sequence[str] | str | None = None,
    *,
    as_of: Positions | None = None,
    allow_incomplete: bool = False,
    include_tombstones: bool = False,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    isolation: "Isolation" = "committed",
    dry_run: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> TableResult:
    """The latest value of each key of topics, or of all, as `TableResult.table`. Takes no lock and changes nothing.

    `as_of` an offset, or offsets by partition (and topic), that record is the last one that counts; as of a time, those records count
    whose own timestamp is not above it. What compaction or retention has taken away raises `UnknownPastError`, or with `allow_incomplete`
    gives what is left, and a column `is_complete`. A tombstone takes its key away, unless `include_tombstones`. With `dry_run` the table
    has no rows.
    """
    wanted = check_columns(columns)
    names = topic_names(topics)
    tasks = SparkTasks(spark, f"table of {', '.join(names) if names else directory_path(directory)}", progress=progress)
    plan, items = plan_table(
        tasks,
        directory,
        topics,
        as_of=as_of,
        allow_incomplete=allow_incomplete,
        columns=wanted,
        isolation=isolation,
        piece_bytes=piece_bytes,
    )
    incomplete = incomplete_partitions(plan)
    read = [] if dry_run else items
    rows = keyed_frame(spark, read, tuple(dict.fromkeys((*_NEEDED, *wanted))))
    several = len({one.source.partition for one in plan.topics.partitions}) > 1
    found = _resolved(rows, has_several=several)
    if not include_tombstones:
        found = found.where(f"not {IS_TOMBSTONE}")
    shown = [*wanted, *([IS_TOMBSTONE] if include_tombstones else []), *([IS_COMPLETE] if allow_incomplete else [])]
    details = details_frame(spark, detail_rows(plan, incomplete), DETAILS_SCHEMA)
    keys = keyed_frame(spark, [[_keys_only(item) for item in own] for own in read], ("topic", "key", "partition"))
    stages = (*tasks.stages, ("latest by key", len(items)))
    return TableResult(plan, not incomplete, stages, found.select(*shown), details, keys)


def plan_table(
    tasks: Tasks,
    directory: Directory,
    topics: Sequence[str] | str | None,
    *,
    as_of: Positions | None,
    allow_incomplete: bool,
    columns: Sequence[str],
    isolation: "Isolation",
    piece_bytes: int | None,
) -> tuple[KeyedPlan, list[list[KeyedItem]]]:
    """What is read, and what each task does. Needs no Spark: `rows_of` gives the rows of a task wherever it runs."""
    plan = plan_keyed(tasks, directory, topics, until=as_of, isolation=isolation, piece_bytes=piece_bytes, needs_past=as_of is not None)
    if not allow_incomplete:
        check_state(list(plan.known.values()), offsets=dict(plan.until.offsets), timestamp_ms=plan.until.timestamp_ms)
    incomplete = incomplete_partitions(plan)
    read = tuple(dict.fromkeys(("key", "value", *_NEEDED, *columns)))
    reading = KeyedReading(read, isolation, plan.until.timestamp_ms)
    offsets = plan.offsets

    def item(split: Split) -> KeyedItem:
        partition = TopicPartition(split.topic, split.partition)
        guard = None if allow_incomplete else plan.guard(split, offset=offsets[partition], timestamp_ms=plan.until.timestamp_ms)
        return KeyedItem(split, reading, partition not in incomplete, guard)

    return plan, [[item(split) for split in own] for own in plan.topics.tasks]


def incomplete_partitions(plan: KeyedPlan) -> set[TopicPartition]:
    """The partitions of which something is missing as of the point."""
    until = plan.until
    found = set()
    for partition, known in plan.known.items():
        at = until.offsets.get(partition)
        if (until.timestamp_ms is not None and not known.tells_time(until.timestamp_ms)) or (at is not None and not known.tells_offset(at)):
            found.add(partition)
    return found


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table, as they are spelled."""
    if isinstance(columns, str):
        raise InvalidConfigError("columns", expected="a list of names", found=repr(columns))
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns or len(set(columns)) < len(columns):
        raise InvalidConfigError("columns", expected=f"some of {', '.join(COLUMNS)}, each once", found=", ".join(columns) or "none")
    return tuple(columns)


def _resolved(rows: "DataFrame", *, has_several: bool) -> "DataFrame":
    """One row of each key of a topic. All rows of a key meet in one place, so that both steps need one exchange."""
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    rest = [name for name in rows.columns if name not in ("topic", "key")]
    row = F.struct(*rest)
    together = rows.repartition(F.col("topic"), F.col("key"))
    if has_several:
        last = together.groupBy("topic", "key", "partition").agg(F.max_by(row, "offset").alias("row"))
        by_time = F.struct(F.col("row.timestamp"), F.col("row.offset"), F.col("row.partition"))
        one = last.groupBy("topic", "key").agg(F.max_by("row", by_time).alias("row"))
    else:
        one = together.groupBy("topic", "key").agg(F.max_by(row, "offset").alias("row"))
    return one.select("topic", "key", *(F.col(f"row.{name}").alias(name) for name in rest))


def _keys_only(item: KeyedItem) -> KeyedItem:
    reading = item.reading
    return item._replace(reading=KeyedReading(("topic", "value", *_NEEDED[1:]), reading.isolation, reading.until_ms))
