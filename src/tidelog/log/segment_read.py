"""Find and read batches of one segment: by offset through the offset index, by time see `time_lookup`.

The index says where to start, headers are walked from there. The entry behind the one found usually is the wanted batch itself, so it is
read first: one system call for most fetches. An entry that does not point at a batch it could point at is not trusted: then the segment
is walked from its beginning.
"""

import struct
from typing import NamedTuple

from tidelog.disk.file_pool import OpenFile
from tidelog.errors import BatchTooLargeError, CorruptBatchError, TidelogError
from tidelog.log.gap_check import check_gap
from tidelog.log.offset_index import OffsetPosition
from tidelog.log.segment import Segment
from tidelog.log.time_index import TimestampOffset
from tidelog.record.batch import RecordBatch
from tidelog.record.faults import fault_error
from tidelog.record.headers import walk_headers
from tidelog.record.kernel.seek import FOUND, find_batch
from tidelog.record.layout import LOG_OVERHEAD
from tidelog.record.legacy import LegacyBatch

_SCAN_BYTES = 32 * 1024
_HEAD = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta of a v2 batch."""
_HEAD_SIZE = 61


class FoundBatch(NamedTuple):
    """A batch in a file, by its header."""

    position: int
    size_bytes: int
    base_offset: int
    """-1 of a compressed legacy wrapper."""
    last_offset: int
    max_timestamp_ms: int


class Slice(NamedTuple):
    """Bytes of a segment that begin with a batch; they may end inside one."""

    data: bytes
    position: int
    is_first_incomplete: bool


def read_slice(segment: Segment, offset: int, max_bytes: int, max_position: int, min_one: bool, max_batch_bytes: int) -> Slice | None:
    """Read from the batch that holds `offset`, or the first one behind it. None if there is none before `max_position`."""
    opened = segment.file.open()
    read = segment.pool.disk.read
    floor_offset, floor, _, guess = segment.index.locate(offset)
    if floor < 0:
        floor = 0
    if floor_offset == offset or guess < 0 or guess >= max_position:
        guess = floor
    if guess >= max_position:
        return None if floor == 0 else _read_scanned(segment, opened, offset, max_bytes, max_position, min_one, max_batch_bytes)
    data = read(opened.fd, min(max_bytes if max_bytes > _HEAD_SIZE else _HEAD_SIZE, max_position - guess), guess)
    if len(data) >= _HEAD_SIZE:
        base, length, magic, delta = _HEAD.unpack_from(data)
        if magic == 2 and base <= offset <= base + delta and length > 0:
            return _cut(segment, opened, data, guess, length + LOG_OVERHEAD, max_bytes, max_position, min_one, max_batch_bytes)
    return _read_scanned(segment, opened, offset, max_bytes, max_position, min_one, max_batch_bytes)


def _read_scanned(
    segment: Segment, opened: OpenFile, offset: int, max_bytes: int, max_position: int, min_one: bool, max_batch_bytes: int
) -> Slice | None:
    found = find_offset(segment, offset, max_position)
    if found is None or found.base_offset > offset:
        check_gap(segment, offset, max_position if found is None else found.position, next_batch)
    if found is None:
        return None
    data = segment.pool.disk.read(opened.fd, max(0, min(max_bytes, max_position - found.position)), found.position)
    return _cut(segment, opened, data, found.position, found.size_bytes, max_bytes, max_position, min_one, max_batch_bytes)


def _cut(
    segment: Segment,
    opened: OpenFile,
    data: bytes,
    position: int,
    first_bytes: int,
    max_bytes: int,
    max_position: int,
    min_one: bool,
    max_batch_bytes: int,
) -> Slice:
    """The answer: at most `max_bytes`, or the whole first batch where that is larger and `min_one` asks for it."""
    if first_bytes <= max_bytes:
        return Slice(data if len(data) <= max_bytes else data[:max_bytes], position, False)
    if not min_one:
        return Slice(data[: max(0, max_bytes)], position, max_bytes > 0)
    if first_bytes > max_batch_bytes:
        raise BatchTooLargeError(
            "the next batch is larger than the limit",
            path=segment.file.path,
            position=position,
            expected=f"at most {max_batch_bytes} bytes",
            found=first_bytes,
            hint="raise max_batch_bytes",
        )
    size = min(first_bytes, max_position - position)
    if len(data) < size:
        data = segment.pool.disk.read(opened.fd, size, position)
    return Slice(data[:size], position, False)


def find_offset(segment: Segment, offset: int, max_position: int) -> FoundBatch | None:
    """The first batch whose last offset is `offset` or more, whole before `max_position`."""
    entry = segment.index.lookup(offset)
    if entry.position < 0:
        entry = OffsetPosition(segment.base_offset, 0)
    if entry.position:
        # The entry's batch ends where the entry says, or before it: Kafka up to 3.9.0 stored the last offset of a whole call with the
        # position of its first batch. Anything else is no entry of this log.
        try:
            first = _scan(segment, entry.position, max_position, segment.base_offset)
        except TidelogError:
            first = None
        if first is None or first.position != entry.position or first.last_offset > entry.offset:
            return _scan(segment, 0, max_position, offset)
    return _scan(segment, entry.position, max_position, offset)


def _scan(segment: Segment, position: int, stop: int, offset: int) -> FoundBatch | None:
    opened = segment.file.open()
    read = segment.pool.disk.read
    while position < stop:
        chunk = read(opened.fd, min(_SCAN_BYTES, stop - position), position)
        status, at, size, base, last, timestamp = find_batch(chunk, 0, len(chunk), offset)
        if status == FOUND:
            if position + at + size > stop:
                return None
            return FoundBatch(position + at, size, base, last, timestamp)
        if status < 0:
            error = fault_error(-status, position + at, size, base)
            error.path = segment.file.path
            raise error
        if at == 0:
            return None
        position += at
    return None


def read_batch(segment: Segment, found: FoundBatch) -> RecordBatch | LegacyBatch:
    """The batch itself."""
    opened = segment.file.open()
    data = segment.pool.disk.read(opened.fd, found.size_bytes, found.position)
    view = memoryview(data)
    if len(data) > 16 and data[16] >= 2:
        return RecordBatch(view, 0, len(data))
    return LegacyBatch(view, walk_headers(view))


def next_batch(segment: Segment, position: int) -> FoundBatch | None:
    """The batch at `position`, if there is a whole one."""
    return _scan(segment, position, segment.size_bytes, -(1 << 63))


def find_last_batch(segment: Segment) -> FoundBatch | None:
    """The last whole batch, found by walking from the last index entry. Framing that cannot be raises."""
    entry = segment.index.last()
    position = 0 if entry is None or not 0 < entry.position < segment.size_bytes else entry.position
    last = None
    while (found := next_batch(segment, position)) is not None:
        last = found
        position = found.position + found.size_bytes
    return last


def find_last_batch_in_order(segment: Segment) -> FoundBatch | None:
    """The same, but offsets that go back raise: they are outside of the CRC, and a log that went on from them would repeat offsets."""
    entry = segment.index.last()
    if entry is not None and 0 < entry.position < segment.size_bytes:
        last = _last_in_order(segment, entry.position)
        if last is not None and last.last_offset >= entry.offset:
            return last
    return _last_in_order(segment, 0)  # the index is wrong, or the batch it leads to


def _last_in_order(segment: Segment, position: int) -> FoundBatch | None:
    last = None
    while (found := next_batch(segment, position)) is not None:
        lowest = segment.base_offset if last is None else last.last_offset + 1
        if found.last_offset < lowest:
            what = "offsets of batches go back"
            raise CorruptBatchError(what, path=segment.file.path, position=position, expected=f"{lowest} or more", found=found.last_offset)
        last = found
        position = found.position + found.size_bytes
    return last


def next_offset_of(segment: Segment) -> int:
    """One past the last offset in the segment; its base offset if it is empty."""
    last = find_last_batch(segment)
    return segment.base_offset if last is None else last.last_offset + 1


def largest_timestamp(segment: Segment) -> TimestampOffset:
    """The largest timestamp of a segment: the last entry of the time index, or what the batches behind it say."""
    largest = segment.time_index.last()
    position = segment.index.lookup(largest.offset).position
    while (found := next_batch(segment, position)) is not None:
        if found.max_timestamp_ms > largest.timestamp_ms:
            largest = TimestampOffset(found.max_timestamp_ms, found.last_offset)
        position = found.position + found.size_bytes
    return largest
