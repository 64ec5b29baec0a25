"""Kafka's rules of retention, as pure functions over facts: how many of the oldest segments may go, and why.

Each rule looks at the segments oldest first and stops at the first that it keeps. Whatever a rule says, a segment stays while it reaches
above the high watermark, and an empty active segment stays always.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition


class SegmentFacts(NamedTuple):
    """What the rules look at in a segment."""

    base_offset: int
    end_offset: int
    """Where the next segment begins; of the active one, the log end offset."""
    size_bytes: int
    largest_timestamp_ms: int
    """Of its records; where they have none, when its file was last written."""
    is_active: bool


class LogFacts(NamedTuple):
    """What the rules look at in a log."""

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    high_watermark: int
    partition: TopicPartition | None = None

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(segment.size_bytes for segment in self.segments)


Rule = Callable[[LogFacts, LogConfig, int], int]
"""How many of the oldest segments a log with these settings need not keep, at this time."""


def below_log_start(log: LogFacts, config: LogConfig, now_ms: int) -> int:
    """Segments that end at or below the log start offset: their records were deleted by request."""
    return leading(log.segments, lambda segment: not segment.is_active and segment.end_offset <= log.log_start_offset)


def above_size(log: LogFacts, config: LogConfig, now_ms: int) -> int:
    """`retention.bytes`: as many as can go without falling below it."""
    if config.retention_bytes < 0:
        return 0
    excess, count = log.size_bytes - config.retention_bytes, 0
    for segment in log.segments:
        excess -= segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count


def older_than_time(log: LogFacts, config: LogConfig, now_ms: int) -> int:
    """`retention.ms`: those whose newest record is older."""
    if config.retention_ms < 0:
        return 0
    return leading(log.segments, lambda segment: now_ms - segment.largest_timestamp_ms > config.retention_ms)


LOG_START, SIZE, TIME = "log start", "size", "time"


def deletable(log: LogFacts, wanted: int) -> int:
    """How many of the first `wanted` segments may go: none above the high watermark, and no empty active one."""
    return leading(
        log.segments[:wanted],
        lambda segment: segment.end_offset <= log.high_watermark and not (segment.is_active and segment.size_bytes == 0),
    )


def leading(segments: Sequence[SegmentFacts], is_deletable: Callable[[SegmentFacts], bool]) -> int:
    """How many of the first segments are so, up to the first that is not."""
    for count, segment in enumerate(segments):
        if not is_deletable(segment):
            return count
    return len(segments)
