"""`history`: the versions of each key, with the times from which and to which each of them was the value.

As of a time means the records whose timestamp is not above it, in offset order. So a version holds from its own timestamp until the first
timestamp of a record behind it, be that a new value or a tombstone; what `table` says as of a time is what `valid_from <= t < valid_to`
says here. A version behind which an older timestamp was written never held: there both times are the same.

Versions of a key are counted in the order of offsets; those of a key that several partitions have, by timestamp, then offset.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.keyed_frame import (
    DETAILS_SCHEMA,
    IS_COMPLETE,
    IS_TOMBSTONE,
    IS_VERSION,
    KeyedItem,
    detail_rows,
    keyed_frame,
)
from tidelog.spark.jobs.keyed_plan import KeyedPlan, check_offsets, offsets_in, plan_keyed, time_of
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks
from tidelog.spark.jobs.topic_plan import Directory, Positions, directory_path, topic_names
from tidelog.spark.latest_by_key import KeyedReading
from tidelog.store.known_points import KnownFrom, check_history, check_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.log.log_reading import Isolation

_READ = ("topic", "key", "value", "partition", "offset", "timestamp")
_SHOWN = ("topic", "key", "version", "value", "partition", "offset", "valid_from", "valid_to")


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """The versions of keys, and what they are made of."""

    plan: KeyedPlan
    is_complete: bool
    """Whether every version since the start that was asked for is there."""
    stages: tuple[tuple[str, int], ...]
    """What executors do, and in how many tasks."""
    history: "DataFrame" = field(repr=False, compare=False)
    """A row for each version; evaluated when it is asked for rows."""
    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""

    def __str__(self) -> str:
        lines = [str(self.plan.topics), f"up to {self.plan.until}"]
        lines += [f"{one.partition} {one.why}" for one in self.plan.known.values() if one.why is not None]
        return "\n".join([*lines, *(["not all versions are left"] if not self.is_complete else [])])


def history(
    spark: "SparkSession",
    directory: Directory,
    topics: Sequence[str] | str | None = None,
    *,
    keys: Iterable[bytes] | bytes | None = None,
    start: Positions | None = None,
    as_of: Positions | None = None,
    allow_incomplete: bool = False,
    include_tombstones: bool = False,
    isolation: "Isolation" = "committed",
    dry_run: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> HistoryResult:
    """The versions of each key of topics, or of all, as `HistoryResult.history`. Takes no lock and changes nothing.

    `start` is a point as of which the history begins: with the version that each key had then, which is its first. `as_of` is where it
    ends; both as in `table`: an offset, offsets by partition, or one time for all. `keys` asks for some only. A history of which compaction
    or retention has taken versions away raises `UnknownPastError`, which names the first start that can be told, or with `allow_incomplete`
    gives what is left, and a column `is_complete`. A tombstone ends the version before it, and is a row only with `include_tombstones`.
    """
    names = topic_names(topics)
    tasks = SparkTasks(spark, f"history of {', '.join(names) if names else directory_path(directory)}", progress=progress)
    plan, items = plan_history(
        tasks,
        directory,
        topics,
        keys=check_keys(keys),
        start=start,
        as_of=as_of,
        allow_incomplete=allow_incomplete,
        isolation=isolation,
        piece_bytes=piece_bytes,
    )
    found = _versions(keyed_frame(spark, [] if dry_run else items, _READ))
    if not include_tombstones:
        found = found.where(f"not {IS_TOMBSTONE}")
    shown = [*_SHOWN, *([IS_TOMBSTONE] if include_tombstones else []), *([IS_COMPLETE] if allow_incomplete else [])]
    incomplete = {TopicPartition(item.split.topic, item.split.partition) for own in items for item in own if not item.is_complete}
    details = details_frame(spark, detail_rows(plan, incomplete), DETAILS_SCHEMA)
    stages = (*tasks.stages, ("versions", len(items)))
    return HistoryResult(plan, not incomplete, stages, found.select(*shown), details)


def plan_history(
    tasks: Tasks,
    directory: Directory,
    topics: Sequence[str] | str | None,
    *,
    keys: frozenset[bytes] | None,
    start: Positions | None,
    as_of: Positions | None,
    allow_incomplete: bool,
    isolation: "Isolation",
    piece_bytes: int | None,
) -> tuple[KeyedPlan, list[list[KeyedItem]]]:
    """What is read, and what each task does. Needs no Spark."""
    start_ms = time_of(start)
    if start is not None and start_ms is None:
        check_offsets(start, "start")
    plan = plan_keyed(tasks, directory, topics, until=as_of, isolation=isolation, piece_bytes=piece_bytes, needs_past=True)
    starts = {} if start is None or start_ms is not None else offsets_in(plan.topics, start, "start")
    if not allow_incomplete:
        known = list(plan.known.values())
        if start_ms is not None:
            check_state(known, offsets=None, timestamp_ms=start_ms)
        else:
            check_state(known, offsets=starts, timestamp_ms=None)
            check_history([one for one in known if one.partition not in starts])
    reading = KeyedReading(("key", *(name for name in _READ if name != "key")), isolation, plan.until.timestamp_ms, keys=keys)
    items: list[list[KeyedItem]] = []
    for own in plan.topics.tasks:
        items.append([])
        for split in own:
            partition = TopicPartition(split.topic, split.partition)
            at = starts.get(partition, -1)
            one = replace(reading, all_after_ms=start_ms) if start_ms is not None else replace(reading, all_from_offset=at + 1)
            is_complete = _tells(plan.known[partition], starts.get(partition), start_ms)
            guard = None if allow_incomplete else plan.guard(split, offset=starts.get(partition), timestamp_ms=start_ms)
            items[-1].append(KeyedItem(split, one, is_complete, guard))
    return plan, items


def check_keys(keys: Iterable[bytes] | bytes | None) -> frozenset[bytes] | None:
    """The keys that were asked for: bytes, as records have them."""
    if keys is None:
        return None
    found: list[object] = [keys] if isinstance(keys, bytes) else list(keys)
    wrong = [key for key in found if not isinstance(key, bytes)]
    if wrong:
        raise InvalidConfigError("keys", expected="bytes", found=repr(wrong[0]), hint="encode text: 'key'.encode()")
    return frozenset(key for key in found if isinstance(key, bytes))


def _tells(known: KnownFrom, offset: int | None, timestamp_ms: int | None) -> bool:
    if timestamp_ms is not None:
        return known.tells_time(timestamp_ms)
    return known.tells_all if offset is None else known.tells_offset(offset)


def _versions(rows: "DataFrame") -> "DataFrame":
    """Number the versions of each key, and find out until when each held."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    key = Window.partitionBy("topic", "key")
    is_spread = F.min("partition").over(key) < F.max("partition").over(key)
    by_time, offset, partition = F.col("by_time"), F.col("offset"), F.col("partition")
    so_far = key.orderBy(by_time, offset, partition).rowsBetween(Window.unboundedPreceding, 0)
    # From the end: what grows row by row is counted once, what shrinks would be counted anew for every row.
    behind = key.orderBy(by_time.desc(), offset.desc(), partition.desc()).rowsBetween(Window.unboundedPreceding, -1)
    # What a key had as of the start each task has found for itself: the last one of them counts.
    at_start = F.max(F.when(~F.col(IS_VERSION), offset)).over(Window.partitionBy("topic", "key", "partition"))
    return (
        rows.withColumn("at_start", at_start)
        .where(F.col(IS_VERSION) | (offset == F.col("at_start")))
        .withColumn("by_time", F.when(is_spread, F.col("timestamp")))
        .withColumn("version", F.sum(F.when(~F.col(IS_TOMBSTONE), 1).otherwise(0)).over(so_far).cast("int"))
        .withColumn("next", F.min("timestamp").over(behind))
        .withColumn("valid_from", F.col("timestamp"))
        .withColumn("valid_to", F.when(F.col("next").isNotNull(), F.greatest("next", "timestamp")))
    )
