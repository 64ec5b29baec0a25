"""What one cleaning of a log would do, as a small value that prints itself. Made from facts; no record is read for it."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.compaction.choice import CleanableLog, CleanableSegment, CleaningChoice, choose, choose_bound
from tidelog.compaction.grouping import SegmentGroup, SegmentSizes, group_segments
from tidelog.config import LONG_MAX, LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.log.log_reading import LogReading
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error

__all__ = ["CleaningPlan", "SegmentGroup", "cleanable_log", "plan_cleaning", "sizes_of"]


class CleaningPlan(NamedTuple):
    """What would be cleaned, and why, or why not."""

    partition: TopicPartition
    config: LogConfig
    now_ms: int
    choice: CleaningChoice
    """Whether it would be cleaned by itself now."""
    log_start_offset: int
    log_end_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    bound: int
    """Cleaning ends here: the first uncleanable offset, lowered to the base of its segment."""
    clean_bytes: int
    cleanable_bytes: int
    groups: tuple[SegmentGroup, ...]
    """What becomes one segment each, if the offset map holds all keys; else only those before where it was full."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to clean."""
        return self.bound <= self.first_dirty_offset or self.cleanable_bytes == 0

    @property
    def dirty_ratio(self) -> float:
        """Of the bytes that a cleaning reads, how many were never cleaned."""
        return self.choice.dirty_ratio

    @property
    def most_extra_bytes(self) -> int:
        """What the largest group may need on disk beside what is there."""
        return max((group.most_bytes for group in self.groups), default=0)

    def __str__(self) -> str:
        if self.is_empty:
            return f"{self.partition}: nothing to clean: {self.choice.why}"
        count = sum(len(group.base_offsets) for group in self.groups)
        lines = [
            f"{self.partition}: clean offsets {self.first_dirty_offset} to {self.bound}: {self.cleanable_bytes} bytes never cleaned, "
            f"{self.clean_bytes} cleaned before, dirty ratio {self.dirty_ratio:.3f}",
            f"  {count} segment{'s' if count != 1 else ''} into {len(self.groups)}:",
        ]
        for group in self.groups:
            bases = ", ".join(map(str, group.base_offsets[:8])) + (" …" if len(group.base_offsets) > 8 else "")
            lines.append(f"  segment {group.base_offset} from {bases}: at most {group.size_bytes} bytes")
        return "\n".join(lines)


def plan_cleaning(log: LogReading, config: LogConfig, checkpoint: int | None, now_ms: int) -> CleaningPlan:
    """The plan for a log. `checkpoint` is its first dirty offset by `cleaner-offset-checkpoint`; it is planned whatever the dirty ratio."""
    segments = log.segments
    found = cleanable_log(log, config, checkpoint, segments)
    choice = choose(found, config, now_ms)
    bound = choose_bound(found, choice)
    below = [sizes_of(segment) for segment in segments[:-1] if segment.base_offset < bound]
    is_empty = bound <= choice.first_dirty_offset or choice.cleanable_bytes == 0
    return CleaningPlan(
        log.partition,
        config,
        now_ms,
        choice,
        found.log_start_offset,
        found.log_end_offset,
        choice.first_dirty_offset,
        choice.first_uncleanable_offset,
        bound,
        choice.clean_bytes,
        choice.cleanable_bytes,
        () if is_empty else group_segments(below, config, bound),
    )


def cleanable_log(log: LogReading, config: LogConfig, checkpoint: int | None, segments: Sequence[Segment]) -> CleanableLog:
    """What the choice looks at. The first batches of segments are read only where the settings ask for their age."""
    try:
        return _cleanable_log(log, config, checkpoint, segments)
    except FileNotFoundError as error:
        # One of them was deleted before it was looked at.
        if log.segments is segments:
            raise storage_error(error, log.directory, "looking at the segments failed") from error
        return cleanable_log(log, config, checkpoint, log.segments)
    except OSError as error:
        raise storage_error(error, log.directory, "looking at the segments failed") from error


def _cleanable_log(log: LogReading, config: LogConfig, checkpoint: int | None, segments: Sequence[Segment]) -> CleanableLog:
    log_end_offset = log.log_end_offset
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    last = len(segments) - 1
    asks_first = config.is_compacted and config.max_compaction_lag_ms < LONG_MAX  # without a limit nothing is older
    return CleanableLog(
        [
            CleanableSegment(
                segment.base_offset,
                end,
                segment.size_bytes,
                segment.largest_timestamp_ms,
                segment.first_timestamp_ms if asks_first else None,
                place == last,
            )
            for place, (segment, end) in enumerate(zip(segments, ends, strict=True))
        ],
        log.log_start_offset,
        log_end_offset,
        log.last_stable_offset,
        checkpoint,
    )


def sizes_of(segment: Segment) -> SegmentSizes:
    """What the grouping looks at."""
    return SegmentSizes(segment.base_offset, segment.size_bytes, segment.index.size_bytes, segment.time_index.size_bytes)
