"""Which offset belongs to a time: Kafka's ListOffsets for one partition.

A time is looked for in one segment only, the first whose largest timestamp is not before it. There the time index says from which offset
on, the offset index says from which byte on, and batches and then records are looked at in order. So the answer is the first record in
offset order that is not older; later records may well be older.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.errors import TidelogError
from tidelog.log.segment import Segment
from tidelog.log.segment_read import FoundBatch, find_offset, read_batch
from tidelog.log.view import Bound, View
from tidelog.record.batch import RecordBatch
from tidelog.record.faults import fault_error
from tidelog.record.kernel.seek import FOUND, find_batch_by_time
from tidelog.record.layout import LOG_OVERHEAD
from tidelog.record.seeking import record_at_time

_READ_BYTES = 17 * 1024
"""A batch of the size that producers fill by default, and a header more."""
_HEAD = struct.Struct(">8xi4xb18xq")
"""Length, magic and largest timestamp of a v2 batch."""

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
    position = max(0, segment.index.locate(start)[1])
    if position >= max_position:
        position = 0
    opened = segment.file.open()
    read = segment.pool.disk.read
    position = _behind_if_older(read(opened.fd, _HEAD.size, position), position, timestamp_ms)
    while position < max_position:
        chunk = read(opened.fd, min(_READ_BYTES, max_position - position), position)
        answer = find_batch_by_time(chunk, 0, len(chunk), timestamp_ms)
        status, at, size, base = answer[:4]
        if status == FOUND:
            if position + at + size > max_position:
                return None
            held = _batch_in(chunk, at, size)
            try:
                batch = held or read_batch(segment, FoundBatch(position + at, *answer[2:]))
                record = record_at_time(batch, timestamp_ms, log_start_offset)
            except TidelogError as error:
                raise _placed(error, segment, position if held else position + at)  # noqa: B904 - the same error
            if record is not None:
                return tuple.__new__(OffsetAndTimestamp, record)
            position += at + size
        elif status < 0:
            raise _placed(fault_error(-status, at, size, base), segment, position)
        elif at == 0:
            return None
        else:
            position += at
    return None


def _placed(error: TidelogError, segment: Segment, start: int) -> TidelogError:
    """The same error, about the file: what was read of it begins at `start`."""
    error.path = segment.file.path
    if error.position is not None:
        error.position += start
    return error


def _behind_if_older(header: bytes, position: int, timestamp_ms: int) -> int:
    """The index leads to the last batch before the time, most often; then there is no need to read all of it."""
    if len(header) == _HEAD.size:
        length, magic, max_timestamp_ms = _HEAD.unpack(header)
        if magic == 2 and max_timestamp_ms < timestamp_ms and length > 0:
            return position + int(length) + LOG_OVERHEAD
    return position


def _batch_in(chunk: bytes, at: int, size: int) -> RecordBatch | None:
    """The v2 batch, if it is in the chunk as a whole."""
    if at + size > len(chunk) or chunk[at + 16] != 2:
        return None
    return RecordBatch(memoryview(chunk), at, size)


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
