"""`copy` by executors: topics to a new data directory, with their offsets, ids and settings; as a whole, up to a point, or some keys.

    plan      from where to where, by indexes; `dry_run` ends here
    copy      executors check batches and write what goes on into staged files
    follow    one task a log: transaction indexes, producer snapshots, leader epochs
    commit    the driver puts the files together and renames the new store to its place

The source is only read, and may have an owner that goes on writing. With `into_broker` the target is the data directory of a broker that
does not run (`into_broker_job`).
"""

import os
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.plurals import counted
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks, staged, task_bytes_for
from tidelog.spark.jobs.topic_plan import topic_names
from tidelog.store.batch_selection import SelectionRules
from tidelog.store.copied_topics import cleaner_offsets, new_store_file
from tidelog.store.copy_commit import check_new_target, commit_store
from tidelog.store.copy_plan import LogSource, Until, UntilPoint, plan_log
from tidelog.store.copying import CopiedLog, copy_logs
from tidelog.store.directories import resolve_paths
from tidelog.store.key_match import KeyMatch, Keys
from tidelog.store.loading import Paths
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.staging import Staging, sweep_staging
from tidelog.store.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "topic string, partition int, outcome string, start_offset long, end_offset long, why string, segments int, batches long, "
    "records long, records_left_out long, bytes_read long, bytes_written long"
)
INTO_BROKER_EPOCH = 0
"""Leader epochs of another cluster mean nothing to a broker, and larger ones than its own confuse it."""


@dataclass(frozen=True, slots=True)
class PartitionCopied:
    """What was copied of a partition."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    """Behind the last batch of the copy."""
    why: str
    """Why it ends there."""
    segments: int
    batches: int
    records: int
    records_left_out: int
    """For their keys."""
    bytes_read: int
    bytes_written: int

    @classmethod
    def of(cls, log: CopiedLog) -> "PartitionCopied":
        """Of a log that was copied."""
        source, settled = log.source, log.settled
        sizes = (len(log.segments), log.batches, log.records, log.removed, source.size_bytes, log.size_bytes)
        return cls(source.partition, source.log_start_offset, settled.next_offset, source.why, *sizes)

    def __str__(self) -> str:
        left_out = f", {self.records_left_out} left out" if self.records_left_out else ""
        text = (
            f"{self.partition}: offsets {self.start_offset} to {self.end_offset} ({self.why}), {counted(self.records, 'record')}{left_out}"
        )
        return f"{text}, {self.bytes_written} bytes in {counted(self.segments, 'segment')}"


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """What a copy did; of a dry run, what it would do."""

    target: str
    dry_run: bool
    partitions: tuple[PartitionCopied, ...]
    plans: tuple[LogSource, ...]
    """Of a dry run. Where the end lies within a transaction, the copy will end before that."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""

    @property
    def records(self) -> int:
        """In all partitions."""
        return sum(one.records for one in self.partitions)

    def __str__(self) -> str:
        lines = [str(one) for one in (*self.plans, *self.partitions)]
        return "\n".join([*lines, f"{'would be copied' if self.dry_run else 'copied'} to {self.target}"])


@dataclass(frozen=True, slots=True)
class CopyResult(CopyOutcome):
    """The same, with its details."""

    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""

    __str__ = CopyOutcome.__str__


def copy(
    spark: "SparkSession",
    directory: Paths,
    target: str | PathLike[str],
    topics: Sequence[str] | str | None = None,
    *,
    until: Until = None,
    keys: Keys | None = None,
    into_broker: bool = False,
    past_stable: bool = False,
    cluster_metadata: bool = False,
    dry_run: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> CopyResult:
    """Copy topics, or all, to a new data directory, or `into_broker` that does not run. Takes no lock of the source.

    `until` is a time, or offsets by partition; `keys` are exact ones, a compiled pattern of bytes, or a function that pickles. With keys,
    or into a broker, internal topics are copied only if they are named. `past_stable` copies transactions that are not decided too.
    `cluster_metadata` takes the settings of topics from the log of the broker whose directory the source is.
    """
    options = CopyOptions(UntilPoint.of(until), None if keys is None else KeyMatch.of(keys), past_stable, cluster_metadata, piece_bytes)
    names = topic_names(topics)
    place = os.path.realpath(target)
    if not into_broker:
        check_new_target(OS, place, resolve_paths(directory))
    with staged(place) if not dry_run else no_staging() as made:
        tasks = SparkTasks(spark, f"copy {', '.join(names) if names else 'to ' + place}", staging=made, progress=progress)
        found = run_copy(tasks, directory, place, names, options, into_broker=into_broker, dry_run=dry_run)
    rows = [_row(one) for one in found.partitions] + [_planned_row(plan) for plan in found.plans]
    return CopyResult(place, dry_run, found.partitions, found.plans, found.stages, details_frame(spark, rows, _SCHEMA))


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What is copied, and how."""

    until: UntilPoint
    keys: KeyMatch | None = None
    past_stable: bool = False
    cluster_metadata: bool = False
    piece_bytes: int | None = None


def run_copy(
    tasks: Tasks,
    directory: Paths,
    target: str,
    topics: Sequence[str] | None,
    options: CopyOptions,
    *,
    into_broker: bool = False,
    dry_run: bool = False,
) -> CopyOutcome:
    """The job itself, by whatever runs its tasks. They have a staging folder beside the target, unless it is a dry run."""
    from tidelog.spark.jobs.into_broker_job import BrokerTarget

    if not dry_run:
        sweep_staging(OS, [target], wall_clock())
    with ReadOnlyStore.open(directory) as store:
        chosen = choose_partitions(store, topics, internal=options.keys is None and not into_broker)
        options.until.check(chosen, store.paths[0])
        broker = BrokerTarget.check(OS, target, chosen) if into_broker else None
        if broker is None:
            check_new_target(OS, target, store.paths)
        total = sum(store.log(*partition).size_bytes for partition in chosen)
        task_bytes = options.piece_bytes or task_bytes_for(total, tasks.workers)

        def planned(partition: TopicPartition, below: int | None = None) -> LogSource:
            bound = {} if below is None else {"below": below}
            config = store.settings(partition.topic).config
            return plan_log(store.log(*partition), config, options.until, task_bytes, past_stable=options.past_stable, **bound)

        plans = [planned(partition) for partition in chosen]
        if dry_run:
            return CopyOutcome(target, True, (), tuple(plans), ())
        rules = SelectionRules(keeps=options.keys, leader_epoch=None if broker is None else INTO_BROKER_EPOCH)
        replan = None if options.past_stable else lambda source, end: planned(source.partition, end)
        assert tasks.staging is not None
        logs = copy_logs(plans, rules, tasks, task_bytes, replan=replan, staging=tasks.staging.path)
        if broker is not None:
            broker.commit(tasks.staging, logs)
        else:
            content = new_store_file(store, chosen, cluster_metadata=options.cluster_metadata)
            commit_store(OS, tasks.staging, target, logs, content, cleaner_offsets(OS, store.paths))
    return CopyOutcome(target, False, tuple(map(PartitionCopied.of, logs)), (), tuple(tasks.stages))


def choose_partitions(store: ReadOnlyStore, topics: Sequence[str] | None, *, internal: bool) -> list[TopicPartition]:
    """The partitions of some topics, or of all, that are here: each once, however often its topic is named."""
    if topics is None:
        names = [topic.name for topic in store.topics(internal=internal)]
    else:
        names = [store.found_topic(name).name for name in dict.fromkeys(topics)]
    chosen = [TopicPartition(name, number) for name in names for number in sorted(store.found_topic(name).homes)]
    return [partition for partition in chosen if topics is not None or internal or partition.topic not in INTERNAL_TOPICS]


@contextmanager
def no_staging() -> "Iterator[Staging | None]":
    """For a dry run, which writes nothing."""
    yield None


def _row(one: PartitionCopied) -> tuple[object, ...]:
    facts = (one.start_offset, one.end_offset, one.why, one.segments, one.batches, one.records, one.records_left_out)
    return (*one.partition, "copied", *facts, one.bytes_read, one.bytes_written)


def _planned_row(plan: LogSource) -> tuple[object, ...]:
    facts = (plan.log_start_offset, plan.end_offset, plan.why, len(plan.segments), None, None, None, plan.size_bytes, None)
    return (*plan.partition, "planned", *facts)
