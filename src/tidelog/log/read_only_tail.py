"""Find the end of a segment that somebody else is writing to, and follow it.

Batches are walked from the last index entry on, later from where the walk ended, and every CRC is checked: the last one may be half
written. A batch that is not whole, or whose CRC does not match yet, or a tail of zeros (of a preallocated file, or of a crash) is "not
yet": the segment ends before it, and the next look begins there.
"""

from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from tidelog.disk.disk import Disk
from tidelog.errors import ChecksumError, TidelogError
from tidelog.log.read_only_segment import ReadOnlySegment
from tidelog.log.rising_offsets import rising
from tidelog.log.segment_base import SegmentEnd
from tidelog.log.time_index import TimestampOffset
from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, walk_block
from tidelog.record.layout import HEADER, LOG_OVERHEAD

_READ_BYTES = 1 << 20
_WALK_BATCHES = 1024
_MAX_BATCH_BYTES = 256 << 20
"""A batch that is said to be larger is not waited for: to check its CRC again and again would take for ever."""
_HEADER_SIZE = 61
_CRC_START = 21


@dataclass(slots=True)
class Tail:
    """How far the last segment of a log goes, as far as somebody has looked."""

    segment: ReadOnlySegment
    position: int = -1
    """Where the last whole batch ends; -1 before the first look."""
    next_offset: int = -1
    _last_at: int = -1
    _last_header: bytes = b""
    """The last batch that was seen: if it is not there any more, the segment was cut and went on differently."""
    starts: int = 0
    """How often the walk had to begin anew: whatever was concluded from the batches before that may be wrong."""
    stopped: TidelogError | None = None
    """What is wrong with the bytes behind `position`, if they are more than a part of a batch or zeros."""

    def look(self) -> None:
        """Find the end, and put it into the segment."""
        segment = self.segment
        disk = segment.pool.disk
        opened = segment.file.open()
        size = disk.size(opened.fd)
        if self.position < 0 or not self._goes_on(disk, opened.fd, size):
            self._start(disk, opened.fd, size)
        else:
            self._walk(disk, opened.fd, size)
        segment.end = SegmentEnd(self.next_offset, self.position)

    def is_still_there(self) -> bool:
        """Whether what was seen is still in the segment: it may have been cut and gone on differently, with others behind it by now."""
        disk = self.segment.pool.disk
        opened = self.segment.file.open()
        return self.position < 0 or self._goes_on(disk, opened.fd, disk.size(opened.fd))

    def _goes_on(self, disk: Disk, fd: int, size: int) -> bool:
        if self._last_at < 0:
            return size >= self.position
        return size >= self.position and disk.read(fd, len(self._last_header), self._last_at) == self._last_header

    def _start(self, disk: Disk, fd: int, size: int) -> None:
        """From the last index entry; from the beginning where that leads to nothing."""
        segment = self.segment
        self.starts += 1
        segment.forget_newest()
        segment.end = SegmentEnd(-1, size)
        entry = segment.index.last()
        self.position, self.next_offset, self._last_at = 0, segment.base_offset, -1
        if entry is not None and 0 < entry.position < size:
            self.position = entry.position
            self._walk(disk, fd, size)
            if self._last_at >= 0 and self.next_offset > entry.offset:
                return  # the log has what the entry says; otherwise one of the two is wrong
            self.position, self.next_offset, self._last_at = 0, segment.base_offset, -1
        self._walk(disk, fd, size)

    def _walk(self, disk: Disk, fd: int, size: int) -> None:
        self.stopped = None
        flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
        while self.position < size:
            start = self.position
            chunk = memoryview(disk.read(fd, min(_READ_BYTES, size - start), start))
            headers, error = walk_block(chunk, 0, len(chunk), flat)
            good, bad = first_bad_checksum(chunk, headers)
            part, fallen = rising(headers[:good], self.next_offset, start, base_offset=-(1 << 63))
            if fallen is not None:
                fallen.path, self.stopped = self.segment.file.path, fallen
            if len(part):
                self._take(chunk, part)
            if len(part) < len(headers):
                if bad is not None and len(part) == good:
                    self.stopped = self._at(bad, start)
                return
            if error is not None:
                if any(chunk[headers.end_position :][:_HEADER_SIZE]):
                    self.stopped = self._at(error, start)
                return
            if len(headers) == 0 and not self._take_large(disk, fd, chunk, size):
                return

    def _take(self, chunk: memoryview, headers: BatchHeaders) -> None:
        start = int(headers.position[-1])
        self._last_at = self.position + start
        self._last_header = bytes(chunk[start : start + _HEADER_SIZE])
        self.next_offset = int(headers.last_offset[-1]) + 1
        newest = int(headers.max_timestamp_ms.argmax())
        self.segment.saw(TimestampOffset(int(headers.max_timestamp_ms[newest]), int(headers.last_offset[newest])))
        self.position += int(headers.end_position)

    def _take_large(self, disk: Disk, fd: int, chunk: memoryview, size: int) -> bool:
        """A batch that is larger than what is read at once; its CRC is worked out piece by piece. False if there is none that is whole."""
        if len(chunk) < _HEADER_SIZE:
            return False
        fields = HEADER.unpack_from(chunk)
        base_offset, length, _, magic, crc, _, delta = fields[:7]
        end = self.position + length + LOG_OVERHEAD
        if end > size or length + LOG_OVERHEAD <= len(chunk) or length > _MAX_BATCH_BYTES:
            return False
        last_offset = base_offset + delta if magic == 2 else base_offset
        if magic == 2:
            computed, at = crc32c(chunk[_CRC_START:]), self.position + len(chunk)
            while at < end and (piece := disk.read(fd, min(_READ_BYTES, end - at), at)):
                computed, at = crc32c(piece, computed), at + len(piece)
            if at < end or computed != crc:
                self.stopped = ChecksumError("the CRC of a batch does not match", position=self.position, path=self.segment.file.path)
                return False
        if last_offset < self.next_offset:
            return False
        self._last_at, self._last_header = self.position, bytes(chunk[:_HEADER_SIZE])
        self.segment.saw(TimestampOffset(fields[8] if magic == 2 else -1, last_offset))
        self.next_offset, self.position = last_offset + 1, end
        return True

    def _at(self, error: TidelogError | None, start: int) -> TidelogError | None:
        """The error with its place in the file, of which it knows the distance from `start`."""
        if error is not None:
            error.path = self.segment.file.path
            if error.position is not None:
                error.position += start
        return error
