"""`compact`: log compaction by executors, with the bytes that the local cleaner writes.

    seal      the driver opens the store, which locks it, and with `roll` ends active segments
    plan      pieces, buckets and groups, from headers and indexes
    scan      executors hash keys, under one secret of the run, into files of buckets
    search    each bucket is looked through for the last offset of its keys
    rewrite   executors copy what stays, into files under names of their own
    commit    the driver swaps them in, group by group, and writes the cleaner's checkpoint

The driver holds the lock all the time, so nobody appends meanwhile and what was planned holds. No buffer limits a pass: it cleans all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import fspath
from typing import TYPE_CHECKING

from tidelog.compaction.plan import CleaningPlan
from tidelog.compaction.results import CompactFailure, PartitionCompacted
from tidelog.config import StoreConfig
from tidelog.disk.names import TopicPartition
from tidelog.spark.jobs.copy_job import choose_partitions
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.running import SparkTasks, fair_share, staged, task_bytes_for, workers_of
from tidelog.spark.jobs.topic_plan import topic_names
from tidelog.store.compacting_in_parts import PartSizes, compact_in_parts
from tidelog.store.finishing import finish_commits
from tidelog.store.loading import Adopt, Paths
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "topic string, partition int, outcome string, why string, first_dirty_offset long, next_dirty_offset long, records_read long, "
    "records_removed long, bytes_before long, bytes_after long, tombstones_removed long, markers_removed long, keys long, "
    "segments_before int, segments_after int"
)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did; of a dry run, what it would begin with."""

    now_ms: int
    dry_run: bool
    partitions: tuple[PartitionCompacted, ...]
    left_alone: tuple[tuple[TopicPartition, str], ...]
    """Partitions that were not looked at, and why."""
    failures: tuple[CompactFailure, ...]
    """What could not be done. The rest went on."""
    plans: tuple[CleaningPlan, ...]
    """Of a dry run."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""
    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""

    @property
    def compacted(self) -> tuple[PartitionCompacted, ...]:
        """Those of which something was cleaned."""
        return tuple(one for one in self.partitions if one.passes)

    @property
    def records_removed(self) -> int:
        """Records that went from all of them."""
        return sum(one.records_removed for one in self.partitions)

    @property
    def bytes_removed(self) -> int:
        """By how much all of them are smaller."""
        return sum(one.bytes_removed for one in self.partitions)

    def __str__(self) -> str:
        lines = [str(plan) for plan in self.plans] + [str(one) for one in self.partitions]
        lines += [f"{partition}: left alone, {why}" for partition, why in self.left_alone]
        lines += [f"{failure.partition}: failed, {failure.error}" for failure in self.failures]
        return "\n".join(lines) or "there is nothing"


def compact(
    spark: "SparkSession",
    directory: Paths,
    topics: Sequence[str] | str | None = None,
    *,
    dry_run: bool = False,
    roll: bool = False,
    drop_null_keys: bool = False,
    now_ms: int | None = None,
    config: Mapping[str, object] | StoreConfig | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    piece_bytes: int | None = None,
    staging: str | None = None,
    progress: bool | None = None,
) -> CompactResult:
    """Compact topics now, whatever their dirty ratio, on executors. Never past what may not be cleaned; see `Store.compact`.

    `dry_run` takes no lock and reads no data: it gives the plans, without what `roll` would add to them. `piece_bytes` is how large the
    pieces are into which segments are cut.
    `staging` is a directory for what executors write before the commit, shared by all; without it, it is beside the data directory.
    """
    names = topic_names(topics)
    if dry_run:
        return _planned(spark, directory, names, now_ms, config)
    clock = None if now_ms is None else lambda: now_ms
    only = chosen_logs(directory, names)
    opened = Store.open(directory, config=config, clock=clock, adopt=adopt, lock_timeout_s=lock_timeout_s, background=False, only=only)
    with opened as store:
        if staging is not None:  # the store knows of what lies beside it only
            finish_commits(store._state, within=staging)
        total = bytes_to_compact(store, names)
        task_bytes = piece_bytes or task_bytes_for(total, workers_of(spark))
        with staged(store.paths[0], within=staging) as made:
            tasks = SparkTasks(spark, f"compact {', '.join(names) if names else fspath(store.paths[0])}", staging=made, progress=progress)
            sizes = PartSizes(task_bytes, task_bytes, piece_bytes or fair_share(total, tasks.workers, task_bytes))
            found = compact_in_parts(store, names, tasks, sizes, roll=roll, drop_null_keys=drop_null_keys, staging=made.path)
    rows = [_row(one) for one in found.partitions]
    rows += [_why(partition, "left alone", why) for partition, why in found.left_alone]
    rows += [_why(failure.partition, "failed", str(failure.error)) for failure in found.failures]
    details = details_frame(spark, rows, _SCHEMA)
    return CompactResult(found.now_ms, False, found.partitions, found.left_alone, found.failures, (), tuple(tasks.stages), details)


def chosen_logs(directory: Paths, names: Sequence[str] | None) -> list[TopicPartition] | None:
    """The logs that have to be opened, which takes its time where there are thousands; None: all.

    What is not there is refused, where an owner would make a store of it.
    """
    with ReadOnlyStore.open(directory) as store:
        return None if names is None else choose_partitions(store, names, internal=True)


def bytes_to_compact(store: Store, names: Sequence[str] | None) -> int:
    """How large the logs are that workers share. Others may be open, and are none of their work: a share of them all would be too large."""
    logs = [log for partition, log in store._state.logs.items() if names is None or partition.topic in names]
    return sum(log.size_bytes for log in logs if log.config.is_compacted)


def _planned(
    spark: "SparkSession",
    directory: Paths,
    names: Sequence[str] | None,
    now_ms: int | None,
    config: Mapping[str, object] | StoreConfig | None,
) -> CompactResult:
    with ReadOnlyStore.open(directory, config=config) as store:
        found = [one for name in (names if names is not None else [None]) for one in store.compaction_plans(name, now_ms)]
    plans = tuple(plan for _, plan in found if isinstance(plan, CleaningPlan))
    left_alone = tuple((partition, why) for partition, why in found if isinstance(why, str))
    rows = [_planned_row(plan) for plan in plans]
    rows += [_why(partition, "left alone", why) for partition, why in left_alone]
    at_ms = plans[0].now_ms if plans else now_ms or 0
    return CompactResult(at_ms, True, (), left_alone, (), plans, (), details_frame(spark, rows, _SCHEMA))


def _planned_row(plan: CleaningPlan) -> tuple[object, ...]:
    before, after = sum(len(group.base_offsets) for group in plan.groups), len(plan.groups)
    known = (plan.choice.why, plan.first_dirty_offset, plan.bound, None, None, plan.clean_bytes + plan.cleanable_bytes)
    return (*plan.partition, "planned", *known, None, None, None, None, before, after)


def _row(one: PartitionCompacted) -> tuple[object, ...]:
    if not one.passes:
        return _why(one.partition, "nothing to compact", one.why or "")
    first, last = one.passes[0], one.passes[-1]
    return (
        *one.partition,
        "compacted",
        one.note,
        first.plan.first_dirty_offset,
        last.next_dirty_offset,
        first.stats.messages_read,
        one.records_removed,
        first.stats.bytes_read,
        last.stats.bytes_written,
        one.tombstones_removed,
        one.markers_removed,
        sum(stats.map_entries for stats in one.stats),
        first.stats.segments_before,
        last.stats.segments_after,
    )


def _why(partition: TopicPartition, outcome: str, why: str) -> tuple[object, ...]:
    return (*partition, outcome, why, *(None,) * 11)
