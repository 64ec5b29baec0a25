"""Which offset belongs to a time: Kafka's ListOffsets for one partition.

A time is looked for in one segment only, the first whose largest timestamp is not before it. There the time index says from which offset
on, the offset index says from which byte on, and batches and then records are looked at in order. So the answer is the first record in
offset order that is not older; later records may well be older.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.log.segment import Segment
from tidelog.log.segment_read import find_offset, find_time, read_batch
from tidelog.log.view import Bound, View
from tidelog.record.seeking import record_at_time

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""Kafka's special values: what may be asked for instead of a time."""


class OffsetAndTimestamp(NamedTuple):
    """A record by its offset and its timestamp; of the ends of the log the timestamp is -1."""

    offset: int
    timestamp_ms: int


def list_offset(view: View, timestamp_ms: int, log_start_offset: int, bound: Bound) -> OffsetAndTimestamp | None:
    """The record for a time, or for one of the special values; None if there is none below the bound."""
    if timestamp_ms >= 0:
        found = offset_for_time(view.segments, timestamp_ms, log_start_offset, view.active.size_bytes)
    elif timestamp_ms == LATEST_TIMESTAMP:
        return OffsetAndTimestamp(bound.offset, -1)
    elif timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return OffsetAndTimestamp(log_start_offset, -1)
    elif timestamp_ms == MAX_TIMESTAMP:
        found = max_timestamp(view.segments)
    elif timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return None  # nothing is tiered
    else:
        raise ValueError(f"no special offset has the number {timestamp_ms}")
    return found if found is not None and found.offset < bound.offset else None


def offset_for_time(segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int, end_position: int) -> OffsetAndTimestamp | None:
    """The first record with this time or a later one. `end_position` is how far the last segment may be read."""
    last = segments[-1]
    for segment in segments:
        if segment.largest_timestamp_ms >= timestamp_ms:
            return _find_in(segment, timestamp_ms, log_start_offset, end_position if segment is last else segment.size_bytes)
    return None


def _find_in(segment: Segment, timestamp_ms: int, log_start_offset: int, max_position: int) -> OffsetAndTimestamp | None:
    start = max(segment.time_index.lookup(timestamp_ms).offset, log_start_offset)
    position = segment.index.lookup(start).position
    if position >= max_position:
        position = 0
    while True:
        found = find_time(segment, timestamp_ms, position, max_position)
        if found is None:
            return None
        record = record_at_time(read_batch(segment, found), timestamp_ms, log_start_offset)
        if record is not None:
            return OffsetAndTimestamp(*record)
        position = found.position + found.size_bytes


def max_timestamp(segments: Sequence[Segment]) -> OffsetAndTimestamp | None:
    """The first record with the largest timestamp of all; where there are no timestamps, the first record, as in Kafka."""
    newest = max(segments, key=lambda segment: segment.max_timestamp.timestamp_ms)
    timestamp_ms, offset = newest.max_timestamp
    found = find_offset(newest, offset, newest.size_bytes)
    if found is None:
        return None
    batch = read_batch(newest, found)
    record = None if batch.magic == 0 else record_at_time(batch, timestamp_ms, 0)
    return None if record is None else OffsetAndTimestamp(*record)
