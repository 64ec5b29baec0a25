"""`restore` by executors: a new store from a snapshot or a backup, which may have been taken while somebody was writing.

    plan      which files count, as for loading them; `until` says up to where; `dry_run` ends here
    copy      executors check every batch; what is sound up to there goes on
    judge     a torn end is cut, as recovery does it, and kept aside; damage with data behind it is refused, unless it is to be cut too
    follow    one task a log: transaction indexes, producer snapshots, leader epochs
    commit    the driver puts the files together and renames the new store to its place

The backup is only read, and its indexes, snapshots and checkpoints are not believed: everything comes from the batches, but for where logs
start. A high watermark says nothing about a backup either: all sound batches go on, and transactions that nobody has ended stay open and
are told.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from tidelog.config import LogConfig
from tidelog.disk.directory_state import DirectoryState
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.load_report import Cut
from tidelog.plurals import counted
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.copy_job import choose_partitions, no_staging
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks, staged, task_bytes_for
from tidelog.spark.jobs.topic_plan import topic_names
from tidelog.store.adopting import with_settings
from tidelog.store.batch_selection import NO_END, SelectionRules
from tidelog.store.cluster_metadata import metadata_directory, read_cluster_metadata
from tidelog.store.copied_topics import cleaner_offsets, new_store_file
from tidelog.store.copy_commit import check_new_target, commit_store
from tidelog.store.copy_plan import LogSource, Until, UntilPoint, plan_backup
from tidelog.store.copying import CopiedLog, Damage, copy_logs
from tidelog.store.directories import resolve_paths
from tidelog.store.loading import Paths
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.staging import sweep_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "topic string, partition int, outcome string, from_offset long, to_offset long, why string, records long, batches long, "
    "bytes_written long, bytes_cut long, cuts array<string>, open_transactions int, notes array<string>"
)


@dataclass(frozen=True, slots=True)
class PartitionRestored:
    """What became of a partition."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    """Behind the last batch."""
    why: str
    """Why it ends there."""
    records: int
    batches: int
    size_bytes: int
    cuts: tuple[Cut, ...]
    """What was not sound, with the file in the new partition that has it now."""
    open_transactions: tuple[tuple[int, int], ...]
    """Producer and first offset of those that nobody has ended: readers of committed records stop there."""
    notes: tuple[str, ...] = ()
    """Files that do not count."""

    @classmethod
    def of(cls, log: CopiedLog) -> "PartitionRestored":
        """Of a log that was copied."""
        source, settled = log.source, log.settled
        why = "where it is damaged" if log.ends_at_damage else source.why
        facts = (log.records, log.batches, log.size_bytes, log.cuts, settled.open_transactions, source.notes)
        return cls(source.partition, source.log_start_offset, settled.next_offset, why, *facts)

    def __str__(self) -> str:
        lines = [f"{self.partition}: offsets {self.from_offset} to {self.to_offset} ({self.why}), {counted(self.records, 'record')}"]
        lines += [f"  {cut_text(cut)}" for cut in self.cuts]
        lines += [f"  the transaction of producer {producer} from offset {first} on is open" for producer, first in self.open_transactions]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """What was restored; of a dry run, what would be."""

    target: str
    dry_run: bool
    partitions: tuple[PartitionRestored, ...]
    plans: tuple[LogSource, ...]
    """Of a dry run. What is in the batches is not known: where one is damaged, less will come back, or the job refuse."""
    notes: tuple[str, ...]
    """What could not be taken over besides the logs."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""

    @property
    def records(self) -> int:
        """In all partitions."""
        return sum(one.records for one in self.partitions)

    @property
    def bytes_cut(self) -> int:
        """Of all partitions."""
        return sum(cut.size_bytes for one in self.partitions for cut in one.cuts)

    def __str__(self) -> str:
        lines = [line for plan in self.plans for line in (str(plan), *(f"  {note}" for note in plan.notes))]
        end = f"{'would be restored' if self.dry_run else 'restored'} to {self.target}"
        return "\n".join([*lines, *map(str, self.partitions), *self.notes, end])


@dataclass(frozen=True, slots=True)
class RestoreResult(RestoreOutcome):
    """The same, with its details."""

    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""

    __str__ = RestoreOutcome.__str__


def restore(
    spark: "SparkSession",
    backup: Paths,
    target: str | PathLike[str],
    *,
    topics: Sequence[str] | str | None = None,
    until: Until = None,
    damage: Damage = "refuse",
    dry_run: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> RestoreResult:
    """Make a new store of a backup, or of several directories of one, up to a time or to offsets. The backup is only read.

    `damage` is about damage with data behind it, which no crash explains but a backup that was taken file by file: "cut" keeps what lies
    before it, and puts the rest aside. `dry_run` reads no batches, but for those that a time is looked up in: it gives the plans.
    """
    names = topic_names(topics)
    place = os.path.realpath(target)
    check_new_target(OS, place, resolve_paths(backup))
    with staged(place) if not dry_run else no_staging() as made:
        tasks = SparkTasks(spark, f"restore {', '.join(names) if names else 'to ' + place}", staging=made, progress=progress)
        found = run_restore(tasks, backup, place, names, UntilPoint.of(until), damage=damage, dry_run=dry_run, piece_bytes=piece_bytes)
    rows = [_row(one) for one in found.partitions] + [_planned_row(plan) for plan in found.plans]
    details = details_frame(spark, rows, _SCHEMA)
    return RestoreResult(place, dry_run, found.partitions, found.plans, found.notes, found.stages, details)


def run_restore(
    tasks: Tasks,
    backup: Paths,
    target: str,
    topics: Sequence[str] | None,
    until: UntilPoint,
    *,
    damage: Damage = "refuse",
    dry_run: bool = False,
    piece_bytes: int | None = None,
) -> RestoreOutcome:
    """The job itself, by whatever runs its tasks. They have a staging folder beside the target, unless it is a dry run."""
    if damage not in ("refuse", "cut"):
        raise ValueError(f"damage is 'refuse' or 'cut', not {damage!r}")
    notes: list[str] = []
    if not dry_run:
        sweep_staging(OS, [target], wall_clock())
    with ReadOnlyStore.open(backup) as store:
        chosen = choose_partitions(store, topics, internal=True)
        until.check(chosen, store.paths[0])
        check_new_target(OS, target, store.paths)
        states = {path: DirectoryState.read(OS, path) for path in store.paths}
        for state in states.values():
            notes += state.warnings
        homes = {partition: store._home(store.found_topic(partition.topic), partition.partition) for partition in chosen}
        sizes = [entry.size_bytes for partition, home in homes.items() for entry in OS.entries(f"{home}/{partition}")]
        task_bytes = piece_bytes or task_bytes_for(sum(sizes), tasks.workers)
        plans = []
        for partition, home in homes.items():
            start = states[home].log_start_offsets.get(partition, 0)
            plans.append(plan_backup(f"{home}/{partition}", store.settings(partition.topic).config, start, until, task_bytes))
        if dry_run:
            return RestoreOutcome(target, True, (), tuple(plans), tuple(notes), ())
        assert tasks.staging is not None
        logs = copy_logs(plans, SelectionRules(), tasks, task_bytes, damage=damage, staging=tasks.staging.path)
        content = new_store_file(store, chosen, cluster_metadata=False)
        if metadata_directory(OS, store.paths) is not None:
            try:
                content = with_settings(content, read_cluster_metadata(OS, store.paths), LogConfig())
            except TidelogError as error:
                notes.append(f"the settings of topics are not known: {error}")
        commit_store(OS, tasks.staging, target, logs, content, cleaner_offsets(OS, store.paths))
    return RestoreOutcome(target, False, tuple(map(PartitionRestored.of, logs)), (), tuple(notes), tuple(tasks.stages))


def cut_text(cut: Cut) -> str:
    """A cut in words."""
    kept = "nothing but zeros" if cut.kept_in is None else f"kept in {cut.kept_in}"
    return f"segment {cut.base_offset}: {cut.size_bytes} bytes from byte {cut.position} on were cut: {cut.reason} ({kept})"


def _row(one: PartitionRestored) -> tuple[object, ...]:
    facts = (one.from_offset, one.to_offset, one.why, one.records, one.batches, one.size_bytes, sum(cut.size_bytes for cut in one.cuts))
    return (*one.partition, "restored", *facts, [cut_text(cut) for cut in one.cuts], len(one.open_transactions), list(one.notes))


def _planned_row(plan: LogSource) -> tuple[object, ...]:
    end = None if plan.end_offset >= NO_END else plan.end_offset
    return (*plan.partition, "planned", plan.log_start_offset, end, plan.why, *(None,) * 6, list(plan.notes))
