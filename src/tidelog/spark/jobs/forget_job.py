"""`forget` by executors: topics without some keys, with the proof that nothing of them is left in their files.

    seal      the driver opens the store, which locks it, and ends active segments
    search    executors look in which segments the keys are
    rewrite   executors copy those without them, into staged files
    commit    the driver swaps them in, and removes what they replace at once
    prove     executors look through every byte of every file of the partitions

All versions of a key go, tombstones too. Values of other records that quote it are counted, and stay. What the disk keeps of removed files
in blocks that it has not used again is not for a log to say.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import fspath
from typing import TYPE_CHECKING

from tidelog.config import StoreConfig
from tidelog.disk.disk import OS
from tidelog.disk.names import OWN_SUFFIX, TopicPartition
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.errors import InvalidTopicError, JobFailedError, TidelogError, UnknownTopicError
from tidelog.plurals import counted
from tidelog.spark.jobs.compact_job import chosen_logs
from tidelog.spark.jobs.copy_job import choose_partitions
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks, staged, task_bytes_for
from tidelog.spark.jobs.task_errors import with_hint
from tidelog.spark.jobs.topic_plan import topic_names
from tidelog.store.directories import resolve_paths
from tidelog.store.finishing import finish_commits
from tidelog.store.forgetting import FileTraces, Forgetting, LogForgotten, claimed
from tidelog.store.key_match import KeyMatch
from tidelog.store.key_search import SHORTEST_SEARCHED
from tidelog.store.key_traces import Traces
from tidelog.store.loading import Adopt, Paths
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.staging import left_decisions
from tidelog.store.store import Store
from tidelog.store.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("tidelog")
_SCHEMA = (
    "topic string, partition int, outcome string, records long, segments int, bytes_before long, bytes_after long, "
    "quoted_in_values long, quoted_elsewhere long"
)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was looked through after it was done."""

    files: int
    size_bytes: int
    occurrences: int
    """Of the keys, as keys of records or as bytes where they have no business to be: 0."""
    quoted_in_values: int
    """How often values of other records have the bytes of a key in them; they stay."""
    quoted_elsewhere: int
    """The same in headers of records, and in longer keys."""
    look_alikes: int
    """Numbers in indexes, snapshots and headers of batches that look like a key."""
    short_keys: int
    """Keys of fewer than four bytes: they were only compared with the keys of records."""

    def __str__(self) -> str:
        text = f"{counted(self.occurrences, 'occurrence')} in {counted(self.files, 'file')} of {self.size_bytes} bytes"
        if self.quoted_in_values or self.quoted_elsewhere:
            text += f"; quoted {self.quoted_in_values} times in values of other records, {self.quoted_elsewhere} times in headers and keys"
        if self.look_alikes:
            text += f"; {self.look_alikes} numbers look like a key"
        if self.short_keys:
            text += f"; {self.short_keys} keys are shorter than {SHORTEST_SEARCHED} bytes, and were only compared with keys of records"
        return text


@dataclass(frozen=True, slots=True)
class PartitionForgotten:
    """What was done to a partition, or would be."""

    partition: TopicPartition
    records: int
    segments: int
    """Written anew."""
    bytes_before: int
    bytes_after: int
    quoted_in_values: int
    quoted_elsewhere: int

    def __str__(self) -> str:
        where = f"{counted(self.records, 'record')} in {counted(self.segments, 'segment')}"
        return f"{self.partition}: {where}, {self.bytes_before} bytes, then {self.bytes_after}"


@dataclass(frozen=True, slots=True)
class ForgetOutcome:
    """What was forgotten; of a dry run, what would be."""

    dry_run: bool
    partitions: tuple[PartitionForgotten, ...]
    kept_aside: tuple[str, ...]
    """Files kept aside that have a key in them: removed, or of a dry run, still there."""
    proof: Proof | None
    """None of a dry run."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""

    @property
    def records(self) -> int:
        """That went, or would go, from all partitions."""
        return sum(one.records for one in self.partitions)

    def __str__(self) -> str:
        lines = [f"{one}{' (dry run)' if self.dry_run else ''}" for one in self.partitions]
        lines += [f"{'kept aside, with a key in it' if self.dry_run else 'removed'}: {path}" for path in self.kept_aside]
        return "\n".join([*lines, *(() if self.proof is None else (str(self.proof),))])


@dataclass(frozen=True, slots=True)
class ForgetResult(ForgetOutcome):
    """The same, with its details."""

    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition."""

    __str__ = ForgetOutcome.__str__


@dataclass(frozen=True, slots=True)
class ForgetOptions:
    """How it is done."""

    remove_kept_aside: bool = False
    piece_bytes: int | None = None


def forget(
    spark: "SparkSession",
    directory: Paths,
    topics: Sequence[str] | str,
    keys: bytes | Sequence[bytes],
    *,
    dry_run: bool = False,
    remove_kept_aside: bool = False,
    config: Mapping[str, object] | StoreConfig | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    piece_bytes: int | None = None,
    staging: str | None = None,
    progress: bool | None = None,
) -> ForgetResult:
    """Remove all records with some keys from topics, on executors, and prove that they are gone.

    Files kept aside (`*.tidelog`) that have a key in them are removed only with `remove_kept_aside`: otherwise the job fails in the end,
    and says what remains. `dry_run` takes no lock: it counts, and changes nothing.
    """
    names = topic_names(topics) or []
    wanted, options = _checked(names, keys), ForgetOptions(remove_kept_aside, piece_bytes)
    job = f"forget keys of {', '.join(names)}"
    if dry_run:
        tasks = SparkTasks(spark, job, progress=progress)
        found = plan_forget(tasks, directory, names, wanted, options)
    else:
        only = _logs_to_open(directory, names, staging)
        opened = Store.open(directory, config=config, adopt=adopt, lock_timeout_s=lock_timeout_s, background=False, only=only)
        with opened as store:
            if staging is not None:  # the store knows of what lies beside it only
                finish_commits(store._state, within=staging)
            with staged(fspath(store.paths[0]), within=staging) as made:
                tasks = SparkTasks(spark, job, staging=made, progress=progress)
                found = run_forget(tasks, store, names, wanted, options)
    rows = [_row(one, "would go" if dry_run else "gone") for one in found.partitions]
    details = details_frame(spark, rows, _SCHEMA)
    return ForgetResult(dry_run, found.partitions, found.kept_aside, found.proof, found.stages, details)


def _logs_to_open(directory: Paths, names: Sequence[str], staging: str | None) -> list[TopicPartition] | None:
    """Those of the topics. All, where a compaction was cut off: what it has staged has their keys too, and goes with its last log only."""
    only = chosen_logs(directory, names)
    places = [(path, within) for path in resolve_paths(directory) for within in dict.fromkeys((None, staging))]
    try:
        return None if any(left_decisions(OS, path, within=within) for path, within in places) else only
    except OSError:
        return None  # whoever opens the store says what it is


def plan_forget(tasks: Tasks, directory: Paths, topics: Sequence[str], keys: frozenset[bytes], options: ForgetOptions) -> ForgetOutcome:
    """What would go, by whatever runs the tasks. Nothing is locked or changed."""
    with ReadOnlyStore.open(directory) as store:
        logs = [store.log(*partition) for partition in choose_partitions(store, topics, internal=True)]
        piece_bytes = options.piece_bytes or task_bytes_for(sum(log.size_bytes for log in logs), tasks.workers)
        run = Forgetting(logs, keys, tasks, piece_bytes, roots=store.paths)
        run.search()
        others = run.prove("look into other files", segments=False)
    kept = tuple(file.path for file in others if _is_kept_aside(file) and not file.traces.is_clean)
    return ForgetOutcome(True, tuple(map(_partition, run.outcomes)), kept, None, tuple(tasks.stages))


def run_forget(tasks: Tasks, store: Store, topics: Sequence[str], keys: frozenset[bytes], options: ForgetOptions) -> ForgetOutcome:
    """The job itself, in a store that is this process's own, by whatever runs its tasks; they have a staging folder."""
    with claimed(store, topics) as logs:
        piece_bytes = options.piece_bytes or task_bytes_for(sum(log.size_bytes for log in logs), tasks.workers)
        staging = None if tasks.staging is None else tasks.staging.path
        run = Forgetting(logs, keys, tasks, piece_bytes, staging, roots=[fspath(path) for path in store.paths])
        run.search()
        run.rewrite()
        try:
            files = run.prove()
        except TidelogError as error:
            with_hint(error, "the segments are written anew without the keys, but nothing is proven: run it again")
            raise
        removed = [file for file in files if options.remove_kept_aside and _is_kept_aside(file) and not file.traces.is_clean]
        for file in removed:
            OS.remove(file.path)
            OS.sync_directory(file.path.rpartition("/")[0])
            _log.info("removed %s, which was kept aside and had a key in it", file.path)
    left = [file for file in files if file not in removed]
    _check_gone(left)
    total = sum((file.traces for file in left), Traces())
    quoted = (total.quoted_in_values, total.quoted_elsewhere, total.look_alikes)
    short_keys = sum(1 for key in keys if len(key) < SHORTEST_SEARCHED)
    proof = Proof(len(left), sum(file.size_bytes for file in left), total.record_keys + total.raw, *quoted, short_keys)
    kept = tuple(file.path for file in removed)
    return ForgetOutcome(False, tuple(map(_partition, run.outcomes)), kept, proof, tuple(tasks.stages))


def _checked(topics: Sequence[str], keys: bytes | Sequence[bytes]) -> frozenset[bytes]:
    if not topics:
        raise UnknownTopicError("no topic is named", hint="a proof about nothing would be none; name every topic that has the keys")
    for name in topics:
        if name in INTERNAL_TOPICS:
            raise InvalidTopicError(
                "a topic that Kafka keeps for itself", expected="a topic of records", found=repr(name), hint="its keys are not yours"
            )
    found = KeyMatch.of(keys).exact
    if not found:
        raise ValueError("there is no key to forget")
    return found


def _is_kept_aside(file: FileTraces) -> bool:
    return file.path.endswith(OWN_SUFFIX) and not file.path.endswith(f"/{PUBLISHED_END}")


def _check_gone(files: Sequence[FileTraces]) -> None:
    """Raise if a key is left somewhere."""
    left = [file for file in files if not file.traces.is_clean]
    if not left:
        return
    names = ", ".join(file.path for file in left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
    is_aside = all(map(_is_kept_aside, left))
    raise JobFailedError(
        f"keys remain, or may remain, in {len(left)} file{'s' if len(left) > 1 else ''}: {names}",
        hint="the topic's segments have none left; remove_kept_aside=True removes these files, which nothing else needs"
        if is_aside
        else "what a deleted topic of that name has left goes with file.delete.delay.ms; then run it again",
    )


def _partition(one: LogForgotten) -> PartitionForgotten:
    total = sum(one.found.values(), Traces())
    sizes = (one.records, one.segments, one.bytes_before, one.bytes_after)
    return PartitionForgotten(one.partition, *sizes, total.quoted_in_values, total.quoted_elsewhere)


def _row(one: PartitionForgotten, outcome: str) -> tuple[object, ...]:
    sizes = (one.records, one.segments, one.bytes_before, one.bytes_after)
    return (*one.partition, outcome, *sizes, one.quoted_in_values, one.quoted_elsewhere)
