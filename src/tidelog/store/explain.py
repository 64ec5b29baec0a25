"""Why is it still here? What retention and compaction would do to a store, and when; asked of the same pure decisions, and nothing done."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.compaction.choice import CleanableLog, CleanableSegment, CleaningChoice, choose
from tidelog.config import LogConfig
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import CorruptFileError, TidelogError
from tidelog.log.log_reading import LogReading
from tidelog.log.read_only import open_read_only
from tidelog.log.storage_errors import storage_error
from tidelog.retention import LogFacts, RetentionPolicy, SegmentOutlook, StoreRetentionPolicy, facts_of, outlook
from tidelog.retention.decision import by_partition, held_to
from tidelog.store.retaining import Retention, partitions_of, store_facts
from tidelog.store.state import StoreState

_ACTIVE = ", active"
_MAX_DATE_MS = 253_402_300_799_999


class PartitionExplanation(NamedTuple):
    """What becomes of a partition."""

    partition: TopicPartition
    left_alone: str | None
    """Why nothing at all is done to it; None if it is looked after."""
    segments: tuple[SegmentOutlook, ...]
    """Oldest first. Of a partition that is left alone what its segments are, and nothing about when they go."""
    cleaning: CleaningChoice | None
    """Whether it would be compacted now; None of a partition that is left alone."""
    settings_from: str | None = None
    """Where its settings are from, of a directory that is only read."""
    cleaner: str | None = None
    """What the cleaner is doing about a compacted partition, or what keeps it from doing so; None: nothing special."""

    def __str__(self) -> str:
        what = f"{self.partition} (settings from {self.settings_from})" if self.settings_from else str(self.partition)
        lines = [f"{what}: left alone, {self.left_alone}" if self.left_alone else f"{what}:"]
        lines += [f"  {_describe(one, with_future=self.left_alone is None)}" for one in self.segments]
        if self.cleaning is not None:
            lines.append(f"  {'would be' if self.cleaning.is_eligible else 'would not be'} compacted: {self.cleaning.why}")
        if self.cleaner is not None:
            lines.append(f"  {self.cleaner}")
        return "\n".join(lines)


class Explanation(NamedTuple):
    """What becomes of a store, or of one of its topics."""

    now_ms: int
    partitions: tuple[PartitionExplanation, ...]
    next_check_ms: int | None
    """When retention looks the next time; None: never by itself."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.partitions)) or "there is nothing"


def explain(state: StoreState, topic: str | None, now_ms: int, retention: Retention, next_check_ms: int | None) -> Explanation:
    """Explain a topic, or all of them. Policies for the whole store are asked as retention asks them: only about all."""
    checkpoints = cleaner_checkpoints(state.disk, state.paths)
    found = []
    for partition, left_alone in partitions_of(state, topic):
        try:
            with readable(state, partition) as log:
                if left_alone is None:
                    config = state.log_config(state.entry(partition.topic))
                    explained = explain_log(log, config, now_ms, retention.of_logs, checkpoints.get(partition))
                    found.append(explained._replace(cleaner=_cleaner_of(state, partition) if config.is_compacted else None))
                else:
                    found.append(explain_left_alone(log, left_alone))
        except TidelogError as error:
            found.append(PartitionExplanation(partition, left_alone or f"it cannot be read: {error}", (), None))
    for policy in retention.of_store if topic is None else ():
        found = _with_store_policy(state, found, policy, now_ms)
    return Explanation(now_ms, tuple(found), next_check_ms)


def _cleaner_of(state: StoreState, partition: TopicPartition) -> str | None:
    """What is going on with a compacted partition, or was the last time."""
    said = []
    cleaning, mark = state.cleanings.state(partition), state.uncleanable.get(partition)
    if cleaning is not None:
        said.append(f"compaction is {cleaning}")
    if mark is not None:
        again = f"again {when(mark.retry_ms)}" if mark.retry_ms is not None else "not tried again before something changes"
        times = f"{mark.failures} times in a row" if mark.failures > 1 else "once"
        said.append(f"could not be compacted, {times} since {when(mark.since_ms)}, {again}: {mark.cause}")
    if not state.config.log_cleaner_enable or state.config.log_cleaner_threads == 0:
        name = "log.cleaner.threads=0" if state.config.log_cleaner_enable else "log.cleaner.enable=false"
        said.append(f"compacted only by store.compact: {name}")
    return "; ".join(said) or None


def _with_store_policy(
    state: StoreState, found: list[PartitionExplanation], policy: StoreRetentionPolicy, now_ms: int
) -> list[PartitionExplanation]:
    """What a policy for the whole store says about the segments that others leave."""
    left = {}
    for one in found:
        log = state.logs.get(one.partition)
        if log is not None and one.left_alone is None and log.config.is_deleted_by_age:
            staying = [segment.segment for segment in one.segments if segment.goes_by is None]
            left[one.partition] = (log, LogFacts(staying, log.log_start_offset, log.high_watermark, one.partition))
    named = by_partition(policy.expired_in_store(store_facts(state, list(left.values())), now_ms))
    explained = []
    for one in found:
        going = {}
        if one.partition in left and one.partition in named:
            removals = held_to(left[one.partition][1], policy.name, named[one.partition])
            going = {removal.segment: SegmentOutlook(removal.segment, removal.rule, removal.reason, (), ()) for removal in removals}
        explained.append(one._replace(segments=tuple(going.get(segment.segment, segment) for segment in one.segments)))
    return explained


def explain_log(
    log: LogReading, config: LogConfig, now_ms: int, policies: Sequence[RetentionPolicy] = (), checkpoint: int | None = None
) -> PartitionExplanation:
    """Explain one log, if it is set like that. `checkpoint` is how far it was cleaned."""
    facts = facts_of(log)
    segments = outlook(facts, config, now_ms, policies)
    try:
        cleaning = choose(_cleanable(log, facts, config, checkpoint), config, now_ms)
    except OSError as error:
        raise storage_error(error, log.directory, "looking at the segments failed") from error
    return PartitionExplanation(log.partition, None, tuple(segments), cleaning)


def explain_left_alone(log: LogReading, why: str) -> PartitionExplanation:
    """Explain a log to which nothing is done."""
    segments = (SegmentOutlook(segment, None, "it is left alone", (), ()) for segment in facts_of(log).segments)
    return PartitionExplanation(log.partition, why, tuple(segments), None)


@contextmanager
def readable(state: StoreState, partition: TopicPartition) -> Iterator[LogReading]:
    """A log of the store; one that nobody has asked for yet is only read, and not changed by as much as opening it."""
    log = state.logs.get(partition)
    if log is not None and not log.is_closed:
        yield log
        return
    home = state.homes.get(partition)
    with open_read_only(f"{home.path if home else state.paths[0]}/{partition}", pool=state.pool) as reader:
        yield reader


def cleaner_checkpoints(disk: Disk, paths: Sequence[str]) -> dict[TopicPartition, int]:
    """How far each log was cleaned, by the checkpoint files. One that cannot be read is taken for empty, as Kafka does."""
    offsets: dict[TopicPartition, int] = {}
    for path in paths:
        try:
            offsets |= read_offsets(disk, f"{path}/{CLEANER_CHECKPOINT}")
        except CorruptFileError:
            continue
        except OSError as error:
            raise storage_error(error, path, "reading the cleaner's checkpoint failed") from error
    return offsets


def _cleanable(log: LogReading, facts: LogFacts, config: LogConfig, checkpoint: int | None) -> CleanableLog:
    """What the choice looks at. The first batches are read only where the log is compacted."""
    firsts = {segment.base_offset: segment.first_timestamp_ms for segment in log.segments} if config.is_compacted else {}
    segments = [
        CleanableSegment(
            segment.base_offset,
            segment.end_offset,
            segment.size_bytes,
            segment.largest_timestamp_ms,
            firsts.get(segment.base_offset),
            segment.is_active,
        )
        for segment in facts.segments
    ]
    return CleanableLog(segments, facts.log_start_offset, segments[-1].end_offset, log.last_stable_offset, checkpoint)


def _describe(one: SegmentOutlook, *, with_future: bool) -> str:
    segment = one.segment
    what = (
        f"segment {segment.base_offset} to {segment.end_offset} ({segment.size_bytes} bytes, newest record "
        f"{when(segment.largest_timestamp_ms)}{_ACTIVE if segment.is_active else ''})"
    )
    if not with_future:
        return what
    if one.goes_by is not None:
        return f"{what} goes by {one.goes_by}: {one.why}"
    ways = "; ".join(f"{way.rule}: {way.text}{f', {when(way.when_ms)}' if way.when_ms is not None else ''}" for way in one.ways_out)
    guards = "".join(f"; {guard}" for guard in one.guards if guard != one.why)
    return f"{what} stays: {one.why}{guards}" + (f". Goes by {ways}" if ways else "")


def when(timestamp_ms: int) -> str:
    """A time for people; as a number if it is none that a calendar has."""
    if not 0 <= timestamp_ms <= _MAX_DATE_MS:
        return f"{timestamp_ms} ms"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
