"""The commit of a pipeline: staged files become records of a store, all at once and exactly once.

    check every staged file                    nothing is locked yet; of what may become a segment, only the size
    lock the store, for this commit only       whoever has it is waited for; a crash before this one is finished or undone by opening
    ask the ledger                             done before: nothing is written
    make the topics that are to be made
    one transaction                            the batches of every file, in order · the ledger's record, the last
    look after what only sinks write
    close                                      everything is durable before this returns

A commit that is cut off anywhere is aborted as a whole by whoever opens the store next, or finished, if its decision was durable. Then the
ledger says so, and the repetition is skipped. It is never half of one attempt and half of another.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from tidelog.config import StoreConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import StagingError, TransactionError
from tidelog.store.staged_batches import Block, StagedFile, StagedReader, StagedTopic, by_partition
from tidelog.store.state import StoreState
from tidelog.store.store import Store
from tidelog.store.transactions.ledger import LEDGER, LedgerEntry, last_commit, note_commit
from tidelog.store.transactions.ready_batches import ReadyFile
from tidelog.store.transactions.upkeep import look_after_sinks

LEAST_SEGMENT_BYTES = 16 << 20
"""From this size on a staged file of one partition becomes a segment as it is. Smaller ones are copied: a segment is four files, and a log
of many small ones is slow to open."""
MAX_WORKERS = 4
"""Threads that check files, and that append, each to a partition of its own."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewTopics:
    """How topics are made that are not there."""

    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkCommit:
    """What is to be committed."""

    files: tuple[StagedFile, ...]
    """In the order in which their records are to be in the partitions."""
    transactional_id: str
    entry: LedgerEntry | None = None
    """By which a repetition is known; None: there is none."""
    new_topics: NewTopics | None = None
    """None: topics have to be there."""

    def partitions(self) -> set[TopicPartition]:
        """Where records go."""
        return {partition for file in self.files for partition in file.partitions()}


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """What has become of it."""

    records: int
    """Written now."""
    repeats: LedgerEntry | None = None
    """The commit that it would have repeated: then nothing was written."""
    opened_logs: int = 0
    ranges: tuple[tuple[TopicPartition, int, int], ...] = ()
    """Where it was written: offsets from one up to, not including, another, the end of the transaction too."""


def commit_staged(
    paths: str | Sequence[str],
    commit: SinkCommit,
    *,
    lock_timeout_s: float,
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    pool: FilePool = SHARED,
) -> SinkCommitted:
    """Commit. When this returns, it is durable and visible; if it raises, nothing of it is visible, or it was decided before."""
    _check_files(pool.disk, commit.files)
    only = commit.partitions() | ({LEDGER} if commit.entry is not None else set())
    with Store.open(paths, config=config, clock=clock, lock_timeout_s=lock_timeout_s, pool=pool, background=False, only=only) as store:
        done = commit_to(store, commit)
        return replace(done, opened_logs=len(store._state.logs))


def _check_files(disk: Disk, files: Sequence[StagedFile]) -> None:
    if not files:
        return
    with ThreadPoolExecutor(_workers(len(files)), "tidelog-check") as executor:
        for _ in executor.map(lambda file: StagedReader(disk).check(file, only_size=_may_be_segment(file)), files):
            pass


def _may_be_segment(file: StagedFile) -> bool:
    """A log that takes a file over checks all of it first; one that does not, every batch that it appends."""
    return file.size_bytes >= LEAST_SEGMENT_BYTES and file.is_of_one_partition


def _workers(tasks: int) -> int:
    return max(1, min(MAX_WORKERS, os.cpu_count() or 1, tasks))


def commit_to(store: Store, commit: SinkCommit) -> SinkCommitted:
    """Commit checked files to a store that is open."""
    state, entry = store._state, commit.entry
    if entry is not None:
        last = last_commit(state, entry.name)
        if last is not None:
            _check_origin(state, last, entry)
            _check_order(state, last, entry)
            if entry.batch_id <= last.batch_id:
                return SinkCommitted(0, last)
    _make_topics(store, commit)
    partitions = sorted(commit.partitions())
    starts = {partition: state.log(partition).log_end_offset for partition in partitions}
    records = sum(file.count for file in commit.files)
    with store.transaction(commit.transactional_id, timeout_ms=state.config.transaction_max_timeout_ms) as transaction:
        opened = transaction._open
        if entry is not None:
            note_commit(state, opened, replace(entry, records=records, committed_ms=state.clock()))
        for partition in partitions:
            store._transactions.targets(partition.topic).log(partition.partition)  # raises where nobody may write
        opened.enlist([*partitions, LEDGER] if entry is not None else partitions)
        sources = {partition: partial(_blocks, state.disk, blocks) for partition, blocks in by_partition(commit.files).items()}
        opened.append_side_by_side(sources, _workers(len(partitions)))
    try:
        look_after_sinks(store, store._transactions)
    except Exception as error:  # the commit is done, and who waits for it must not be told otherwise
        _logger.warning("what sinks have written could not be compacted: %s", error)
    return SinkCommitted(records, ranges=tuple((one, starts[one], state.log(one).log_end_offset) for one in partitions))


def _blocks(disk: Disk, chosen: Sequence[tuple[StagedFile, list[Block]]]) -> Iterator[memoryview | ReadyFile]:
    """With memory of its own, from when it is asked until it is done: of so many partitions as there are threads."""
    reader = StagedReader(disk)
    for file, blocks in chosen:
        content = partial(reader.blocks, file, blocks)
        if _may_be_segment(file):
            yield ReadyFile(file.path, file.count, content)
        else:
            yield from content()


def _check_origin(state: StoreState, last: LedgerEntry, entry: LedgerEntry) -> None:
    """Batch ids that somebody else has counted say nothing: they would be skipped, and their records lost."""
    if last.origin is not None and entry.origin is not None and last.origin != entry.origin:
        raise TransactionError(
            f"{entry.name!r} was written by another query, whose batches were counted in another checkpoint",
            path=state.paths[0],
            expected=f"batches of query {last.origin}, up to {last.batch_id} so far",
            found=f"batch {entry.batch_id} of query {entry.origin}",
            hint="take the checkpoint that belongs to it, or another queryId",
        )


def _check_order(state: StoreState, last: LedgerEntry, entry: LedgerEntry) -> None:
    """After a crash a stream repeats the last batch that it has begun, and none before it. An earlier one has been counted again."""
    if entry.origin is not None and entry.batch_id < last.batch_id:
        raise TransactionError(
            f"{entry.name!r} has gone back to a batch that is long done: its checkpoint was taken back, or copied",
            path=state.paths[0],
            expected=f"batch {last.batch_id}, the last one, or a later one",
            found=f"batch {entry.batch_id}",
            hint="what is new in it would be lost; start with a new checkpoint or another queryId, and all that it brings is written",
        )


def _make_topics(store: Store, commit: SinkCommit) -> None:
    """Make the topics that are missing, and see that the others are what the tasks took them for."""
    staged: dict[str, StagedTopic] = {}
    for topic in (topic for file in commit.files for topic in file.topics):
        if staged.setdefault(topic.name, topic) != topic:
            raise _changed(store, topic, f"{staged[topic.name].partitions} partitions, id {staged[topic.name].topic_id}")
    for topic in staged.values():
        if topic.topic_id is None and commit.new_topics is not None and topic.name not in store._state.file.topics:
            store.create_topic(topic.name, commit.new_topics.partitions, commit.new_topics.config)
        entry = store._state.entry(topic.name)
        if entry.partitions != topic.partitions or (topic.topic_id is not None and entry.topic_id != topic.topic_id):
            raise _changed(store, topic, f"{entry.partitions} partitions, id {entry.topic_id}")


def _changed(store: Store, topic: StagedTopic, found: str) -> StagingError:
    return StagingError(
        f"topic {topic.name!r} is not what it was when the job began",
        path=store.paths[0],
        expected=f"{topic.partitions} partitions, id {topic.topic_id}",
        found=found,
        hint="run the job again",
    )
