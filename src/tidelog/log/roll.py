"""When does the active segment end? One decision, with its reason; facts in, answer out.

`explain` and what-if ask the same function without acting.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import NamedTuple

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
"""Indexes store offsets relative to the segment's base, in 31 bits."""


class RollReason(Enum):
    """Why a segment is rolled."""

    SIZE = "the batches would take it past segment.bytes"
    AGE = "its first batch is older than segment.ms allows"
    OFFSET_INDEX_FULL = "its offset index is full"
    TIME_INDEX_FULL = "its time index is full"
    OFFSET_RANGE = "the last offset would be too far from its base offset"
    ASKED = "it was asked for"


@dataclass(frozen=True, slots=True)
class RollLimits:
    """What the settings of the log allow."""

    segment_bytes: int
    max_segment_ms: int
    """`segment.ms`, or `max.compaction.lag.ms` where that is shorter and the log is compacted."""


class SegmentAge(NamedTuple):
    """What the age of a segment is counted by."""

    base_offset: int
    first_timestamp_ms: int | None
    """The largest timestamp of its first batch; None while it is empty."""
    created_ms: int
    """When this process opened or emptied it."""
    jitter_ms: int


def roll_reason(
    limits: RollLimits,
    segment: SegmentAge,
    size_bytes: int,
    full_index: RollReason | None,
    incoming_bytes: int,
    incoming_last_offset: int,
    incoming_max_timestamp_ms: int,
    now_ms: int,
) -> RollReason | None:
    """Why the segment must be rolled before the incoming batches are appended, or None if they go into it.

    Age is data time: an idle log never rolls, and old data written today does not roll either. Only where the first batch has no
    timestamp does the clock on the wall count. `full_index` is the reason if one of the indexes is full.
    """
    if size_bytes > limits.segment_bytes - incoming_bytes:
        return RollReason.SIZE
    base_offset, first_timestamp_ms, created_ms, jitter_ms = segment
    if size_bytes > 0:
        if first_timestamp_ms is not None and first_timestamp_ms >= 0:
            waited_ms = incoming_max_timestamp_ms - first_timestamp_ms
        else:
            waited_ms = now_ms - created_ms
        if waited_ms > limits.max_segment_ms - jitter_ms:
            return RollReason.AGE
    if full_index is not None:
        return full_index
    if not 0 <= incoming_last_offset - base_offset <= MAX_RELATIVE_OFFSET:
        return RollReason.OFFSET_RANGE
    return None


class Headroom(NamedTuple):
    """Up to where a segment grows without a reason to roll it, but a full index."""

    size_bytes: int
    timestamp_ms: int
    offset: int


def headroom(limits: RollLimits, segment: SegmentAge) -> Headroom | None:
    """The bounds of `roll_reason`, worked out once for a segment whose first batch is known and has a timestamp; None of another one."""
    base_offset, first_timestamp_ms, _, jitter_ms = segment
    if first_timestamp_ms is None or first_timestamp_ms < 0:
        return None
    return Headroom(limits.segment_bytes, first_timestamp_ms + limits.max_segment_ms - jitter_ms, base_offset + MAX_RELATIVE_OFFSET)


def draw_jitter(random: Random, *, segment_jitter_ms: int, segment_ms: int) -> int:
    """What is taken off the age limit of one segment, so that many logs do not roll at once."""
    limit = min(segment_jitter_ms, segment_ms)
    return 0 if limit <= 0 else random.randrange(limit)
