"""`compact` by workers: what `compacting` does in this process, shared out over many.

The store is this process's own, and every log is claimed for the whole time: nobody appends, truncates or cleans meanwhile. Logs that
cannot be done in parts, since their offsets do not rise or are too far apart, are cleaned here in one go.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidelog.compaction.cleaning import CleanedLog
from tidelog.compaction.offset_map import SECRET_BYTES
from tidelog.compaction.parts_cleaning import RunTasks, clean_in_parts, decision_path
from tidelog.compaction.parts_outcome import NotInParts
from tidelog.compaction.plan import CleaningPlan
from tidelog.compaction.results import CompactFailure, CompactResult, PartitionCompacted, gather
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.store.compacting import Outcome, begin, compact_partition, not_compacted, tell, why_nothing
from tidelog.store.retaining import partitions_of
from tidelog.store.staging import remove_decision
from tidelog.store.store import Store


@dataclass(frozen=True, slots=True)
class PartSizes:
    """How work is cut."""

    piece_bytes: int
    """A segment is cut into pieces of about so much, at entries of its index."""
    task_bytes: int
    """Pieces and segments that are smaller share a task."""
    unit_bytes: int
    """Groups of segments up to this size are rewritten by one task."""


def compact_in_parts(
    store: Store,
    topics: Sequence[str] | None,
    tasks: RunTasks,
    sizes: PartSizes,
    *,
    roll: bool = False,
    drop_null_keys: bool = False,
    staging: str | None = None,
) -> CompactResult:
    """Compact topics, or all of them, by workers. The result is that of `Store.compact`. What does not fit into `staging` is not begun."""
    state = store._state
    now_ms = state.clock()
    # Each once: who has claimed a log would wait for himself.
    chosen = [found for topic in (dict.fromkeys(topics) if topics is not None else [None]) for found in partitions_of(state, topic)]
    found: dict[TopicPartition, Outcome] = {}
    to_clean: list[tuple[Log, CleaningPlan]] = []
    begun: list[TopicPartition] = []
    try:
        for partition, left_alone in chosen:
            if left_alone is not None:
                found[partition] = partition, left_alone
                continue
            begin(state, partition)
            begun.append(partition)
            try:
                log = state.log(partition)
                planned = _plan(store, log, roll=roll)
            except TidelogError as error:
                found[partition] = _failed(store, partition, error)
                continue
            if isinstance(planned, PartitionCompacted):
                found[partition] = planned
            else:
                to_clean.append((log, planned))
        if to_clean:
            outcomes = clean_in_parts(
                to_clean,
                tasks,
                secret=secrets.token_bytes(SECRET_BYTES),
                piece_bytes=sizes.piece_bytes,
                task_bytes=sizes.task_bytes,
                unit_bytes=sizes.unit_bytes,
                drop_null_keys=drop_null_keys,
                staging=staging,
            )
            for number, ((log, _), outcome) in enumerate(zip(to_clean, outcomes, strict=True)):
                decided = None if staging is None else decision_path(staging, number)
                found[log.partition] = _settle(store, log, outcome, begun, decided, drop_null_keys=drop_null_keys)
    finally:
        for partition in begun:
            state.cleanings.done(partition)
    return gather(now_ms, dry_run=False, found=[found[partition] for partition, _ in chosen])


def _plan(store: Store, log: Log, *, roll: bool) -> CleaningPlan | PartitionCompacted:
    if not log.config.is_compacted:
        return PartitionCompacted(log.partition, (), not_compacted(log.config.cleanup_policy))
    if roll and log.segments[-1].size_bytes:
        log.roll()
    plan = store._passes.plan(log, store._state.clock())
    return PartitionCompacted(log.partition, (), why_nothing(log, plan, can_roll=True)) if plan.is_empty else plan


def _settle(
    store: Store,
    log: Log,
    outcome: CleanedLog | TidelogError | NotInParts,
    begun: list[TopicPartition],
    decided: str | None,
    *,
    drop_null_keys: bool,
) -> Outcome:
    state, partition = store._state, log.partition
    try:
        if isinstance(outcome, NotInParts):
            state.cleanings.done(partition)  # who cleans in one go claims it for itself
            begun.remove(partition)
            whole = compact_partition(state, store._passes, partition, roll=False, dry_run=False, drop_null_keys=drop_null_keys)
            return whole._replace(note=f"cleaned in one go: {outcome.why}")
        if isinstance(outcome, TidelogError):
            return _failed(store, partition, outcome)
        state.checkpoint_cleaner(partition, outcome.next_dirty_offset)
        if decided is not None:
            with suppress(OSError):  # it goes with the staging directory; until then it is found to be done
                remove_decision(state.disk, decided)
        state.uncleanable.clear(partition)
        return tell(PartitionCompacted(partition, (outcome,)))
    except TidelogError as error:
        return _failed(store, partition, error)


def _failed(store: Store, partition: TopicPartition, error: TidelogError) -> CompactFailure:
    state = store._state
    state.uncleanable.mark(partition, error, state.clock(), state.config.log_cleaner_backoff_ms)
    return CompactFailure(partition, error)
