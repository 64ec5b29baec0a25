"""What `compact` does: passes over logs until they are clean, now, whatever their dirty ratio, and never past what may not be cleaned."""

import logging
from collections.abc import Iterator

from tidelog.compaction.cleaning import CleanedLog
from tidelog.compaction.plan import CleaningPlan
from tidelog.compaction.results import CompactFailure, CompactResult, PartitionCompacted, gather
from tidelog.disk.names import TopicPartition
from tidelog.errors import CleaningAbortedError, LogClosedError, UnknownTopicError
from tidelog.log.log_reading import LogReading
from tidelog.store.cleaning_passes import Passes
from tidelog.store.retaining import partitions_of
from tidelog.store.state import StoreState

Outcome = PartitionCompacted | CompactFailure | tuple[TopicPartition, str]
_log = logging.getLogger("tidelog")


def compact(state: StoreState, passes: Passes, topic: str | None, *, roll: bool, dry_run: bool, drop_null_keys: bool) -> CompactResult:
    """Compact a topic, or all of them. See `Store.compact`."""
    now_ms = state.clock()
    found = _each(state, passes, topic, roll=roll, dry_run=dry_run, drop_null_keys=drop_null_keys)
    return gather(now_ms, dry_run=dry_run, found=list(found))


def _each(state: StoreState, passes: Passes, topic: str | None, *, roll: bool, dry_run: bool, drop_null_keys: bool) -> Iterator[Outcome]:
    for partition, left_alone in partitions_of(state, topic):
        if left_alone is not None:
            yield partition, left_alone
            continue
        try:
            yield compact_partition(state, passes, partition, roll=roll, dry_run=dry_run, drop_null_keys=drop_null_keys)
        except UnknownTopicError:
            continue  # deleted meanwhile
        except Exception as error:
            state.check()
            if state.cleanings.is_closed:
                raise
            if partition.topic not in state.file.topics:
                continue
            if not dry_run:
                state.uncleanable.mark(partition, error, state.clock(), state.config.log_cleaner_backoff_ms)
            yield CompactFailure(partition, error)


def compact_partition(
    state: StoreState, passes: Passes, partition: TopicPartition, *, roll: bool, dry_run: bool, drop_null_keys: bool
) -> PartitionCompacted:
    """Compact one log. A pass under way is waited for; one that somebody aborts, to truncate the log, is begun again.

    It ends with what could be cleaned at the beginning: who appends faster than passes are made would have it go on for ever.
    """
    done: list[CleanedLog] = []
    goal: int | None = None
    while True:
        begin(state, partition)
        try:
            log = state.log(partition)  # not before: while it was waited for, the topic may have become another of that name
            if not log.config.is_compacted:
                return PartitionCompacted(partition, tuple(done), not_compacted(log.config.cleanup_policy))
            if roll and not dry_run and log.segments[-1].size_bytes:
                log.roll()
            roll = roll and dry_run  # once is enough
            plan = passes.plan(log, state.clock())
            goal = plan.bound if goal is None else goal
            while not plan.is_empty and (plan.first_dirty_offset < goal or not done):
                done.append(passes.run(log, plan, plan.now_ms, drop_null_keys=drop_null_keys, dry_run=dry_run))
                if dry_run:
                    break
                plan = passes.plan(log, state.clock())
            break
        except CleaningAbortedError:
            continue
        finally:
            state.cleanings.done(partition)
    note = None
    if roll and log.segments[-1].size_bytes:
        note = f"without the records of the active segment, from offset {log.segments[-1].base_offset} on: a dry run does not roll"
    if not dry_run:
        state.uncleanable.clear(partition)
    why = None if done else why_nothing(log, plan, can_roll=not note)
    return tell(PartitionCompacted(partition, tuple(done), why, note if done else None))


def tell(one: PartitionCompacted) -> PartitionCompacted:
    """Log what was done to a partition, as soon as it is: a line for each change."""
    if one.passes and not one.passes[-1].dry_run:
        _log.info("compacted %s", one)
    return one


def begin(state: StoreState, partition: TopicPartition) -> None:
    """Begin a pass when nobody else has the log."""
    try:
        state.cleanings.begin(partition, state.check)
    except CleaningAbortedError as error:
        raise LogClosedError("the store is being closed", path=state.paths[0]) from error


def not_compacted(policy: tuple[str, ...]) -> str:
    """Why a topic is not compacted."""
    return f"cleanup.policy={','.join(policy) or 'none'} does not have compact"


def why_nothing(log: LogReading, plan: CleaningPlan, *, can_roll: bool) -> str:
    """Why a plan has nothing to clean."""
    active, first_dirty, end_offset = log.segments[-1], plan.first_dirty_offset, log.log_end_offset
    if log.log_start_offset >= end_offset:
        return "it is empty"
    if first_dirty >= end_offset:
        return f"everything up to offset {end_offset} is clean"
    if active.base_offset > first_dirty:
        return plan.choice.why
    count, is_all = end_offset - max(first_dirty, log.log_start_offset), first_dirty <= log.log_start_offset
    if count == 1:
        which = "its only record is" if is_all else "the only record that is not clean yet is"
    else:
        which = f"all {count} records are" if is_all else f"the {count} records that are not clean yet are"
    return f"{which} in the active segment; {'roll=True' if can_roll else 'a dry run does not roll it'}"
