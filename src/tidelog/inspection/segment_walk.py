"""Walk a `.log` file from its beginning to its end, whatever lies between.

The file comes as runs of batches whose framing holds (`Piece`; those with a CRC that does not match are named), and the stretches between
them where it does not (`Stretch`). A batch whose CRC is wrong keeps its place only if its end is believable: no sound batch inside it,
and something like a batch, or the end of the file, behind it. Otherwise the next sound batch is searched.

Memory is bounded: pieces of two mebibytes, more only for a batch that is larger, and never more than `LARGEST_IN_MEMORY`. Such a batch is
checked without being held. The file may grow or shrink meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.errors import TidelogError, UnsupportedMagicError
from tidelog.inspection.batch_search import Budget, checksum_of_file, find_batch, is_plausible
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.headers import FIELDS, BatchHeaders, checksums_match, walk_block
from tidelog.record.layout import ATTRIBUTES_POSITION, CRC_POSITION, HEADER, HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD

READ_BYTES = 2 << 20
LARGEST_IN_MEMORY = 16 << 20
LARGEST_SEGMENT = (1 << 31) - 1
"""Positions in an index are numbers of 31 bits."""
WALK_BATCHES = 4096
MIN_LEGACY_SIZE = 26
CUT_OFF = "the last batch is cut off"
_NONE = np.empty(0, np.int64)

StretchKind = Literal["lost", "torn", "zeros", "garbage", "magic", "shrunk"]


@dataclass(slots=True)
class Piece:
    """Batches one behind the other. Good only until the next one is asked for: the memory is used again."""

    headers: BatchHeaders
    shift: int
    """What is to be added to their positions to get those in the file."""
    view: memoryview | None
    """The bytes under the headers; None if only headers were read."""
    bad: np.ndarray
    """Rows whose CRC does not match."""

    @property
    def start(self) -> int:
        """In the file."""
        return int(self.headers.position[0]) + self.shift

    @property
    def end(self) -> int:
        """In the file."""
        return self.headers.end_position + self.shift


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that are no batches."""

    kind: StretchKind
    """lost: a sound batch follows; torn, zeros, garbage: nothing follows; magic: a sound v2 batch but for its magic, which follows
    as a piece; shrunk: they went away."""
    start: int
    end: int
    reason: str
    base_offset: int = -1
    """Of the batch with a wrong magic."""


class SegmentWalk:
    """One walk over one open file. After it, `end` says where the last batch ended."""

    def __init__(self, disk: Disk, fd: int, size_bytes: int, base_offset: int, *, checks_crcs: bool) -> None:
        self.disk = disk
        self.fd = fd
        self.size_bytes = size_bytes
        self.base_offset = base_offset
        self.checks_crcs = checks_crcs
        self.position = 0
        """Where the walk goes on, in the file."""
        self.end = 0
        self.last_offset = base_offset - 1
        """Of the last batch with a CRC that matches."""
        self._budget = Budget()

    def __iter__(self) -> Iterator[Piece | Stretch]:
        if self.size_bytes == 0:
            return
        buffer = bytearray(min(READ_BYTES, max(HEADER_SIZE, self.size_bytes)))
        flat = np.empty(len(FIELDS) * WALK_BATCHES, np.int64)
        held = 0  # bytes from `position` on that are in the buffer already
        while self.position < self.size_bytes:
            wanted = min(len(buffer), self.size_bytes - self.position)
            if held < wanted:
                read = self.disk.read_into(self.fd, memoryview(buffer)[held:wanted], self.position + held)
                held += read
                if held < wanted and self._has_shrunk(self.position + held):
                    yield Stretch("shrunk", self.position + held, self.size_bytes, "the file became shorter while it was read")
                    self.size_bytes = self.position + held
                    if held == 0:
                        return
            start = self.position
            yield from self._walk_held(memoryview(buffer)[:held], flat)
            used = self.position - start
            if used == 0:
                # Read again: of a live log the rest may be there by now.
                header = self.disk.read(self.fd, HEADER_SIZE, self.position)
                size = _size_at(header, len(header))
                if HEADER_SIZE <= size <= min(LARGEST_IN_MEMORY, self._reach(size)) and size > len(buffer):
                    buffer = bytearray(buffer[:held]) + bytearray(size - len(buffer))
                else:
                    yield from self._step_over(header, size)
                    held = 0
                continue
            if used < held:
                buffer[: held - used] = buffer[used:held]
                held -= used
            else:
                held = 0

    def _walk_held(self, view: memoryview, flat: np.ndarray) -> Iterator[Piece | Stretch]:
        """The batches that are whole in memory; `position` moves behind them, and over damage."""
        shift = self.position
        while self.position - shift < len(view):
            headers, error = walk_block(view, self.position - shift, len(view), flat)
            count = len(headers)
            if count:
                bad = _NONE
                if self.checks_crcs:
                    matches = checksums_match(view, headers)
                    if not matches.all():
                        bad = np.flatnonzero(~matches)
                stop = next((row for row in bad.tolist() if not self._keeps_its_place(headers, row, bad, shift)), count)
                if stop:
                    self.position = self.end = shift + int(headers.position[stop - 1] + headers.size_bytes[stop - 1])
                    self._note_last_offset(headers, bad, stop)
                    yield Piece(headers[:stop] if stop < count else headers, shift, view, bad[bad < stop])
                if stop < count:
                    yield from self._search("the CRC of a batch does not match, and its size cannot be right")
                    continue
            if error is not None:
                yield from self._bad_framing(error)
            elif count < WALK_BATCHES:
                return

    def _note_last_offset(self, headers: BatchHeaders, bad: np.ndarray, stop: int) -> None:
        good = stop - 1
        while good >= 0 and good in bad:
            good -= 1
        if good >= 0:
            self.last_offset = max(self.last_offset, int(headers.last_offset[good]))

    def _keeps_its_place(self, headers: BatchHeaders, row: int, bad: np.ndarray, shift: int) -> bool:
        """Whether the walk can go on behind a batch whose CRC does not match."""
        start = shift + int(headers.position[row])
        end = start + int(headers.size_bytes[row])
        above = self.last_offset
        if row and row - 1 not in bad:
            above = int(headers.last_offset[row - 1])
        return self._is_believable(start, end, above, is_legacy=int(headers.magic[row]) < 2)

    def _is_believable(self, start: int, end: int, above: int, *, is_legacy: bool = False) -> bool:
        if self._find(start + 1, end, above) is not None:
            return False
        if self.size_bytes - end < HEADER_SIZE:
            return True
        header = self.disk.read(self.fd, HEADER_SIZE, end)
        # Old messages are followed by old ones, or by v2 batches; never the other way round.
        if is_legacy and header[LOG_OVERHEAD + 4] < 2:
            return MIN_LEGACY_SIZE <= _size_at(header, len(header)) <= self.size_bytes - end
        return is_plausible(header, above=above, highest=self.base_offset + MAX_RELATIVE_OFFSET)

    def _bad_framing(self, error: TidelogError) -> Iterator[Piece | Stretch]:
        """A size or a magic that cannot be."""
        header = self.disk.read(self.fd, HEADER_SIZE, self.position)
        size = _size_at(header, len(header))
        if isinstance(error, UnsupportedMagicError) and HEADER_SIZE <= size <= self._reach(size) and self._has_good_crc(header, size):
            headers = header_row(header, self.position, size)
            yield Stretch("magic", self.position, self.position + size, str(error.found), int(headers.base_offset[0]))
            self.position += size
            self.end = self.position
            self.last_offset = max(self.last_offset, int(headers.last_offset[0]))
            yield Piece(headers, 0, None, _NONE)
            return
        yield from self._search(error.what)

    def _step_over(self, header: bytes, size: int) -> Iterator[Piece | Stretch]:
        """The next batch is not whole: too large to be held, or cut off, or what is there is none."""
        is_v2 = len(header) == HEADER_SIZE and header[LOG_OVERHEAD + 4] == 2
        if is_v2 and HEADER_SIZE <= size <= self._reach(size):
            is_good = not self.checks_crcs or self._has_good_crc(header, size)
            if is_good or self._is_believable(self.position, self.position + size, self.last_offset):
                headers = header_row(header, self.position, size)
                self.position += size
                self.end = self.position
                if is_good:
                    self.last_offset = max(self.last_offset, int(headers.last_offset[0]))
                yield Piece(headers, 0, None, _NONE if is_good else np.zeros(1, np.int64))
                return
        yield from self._search(CUT_OFF)

    def _search(self, reason: str) -> Iterator[Stretch]:
        """Go to the next sound batch, or to the end."""
        start = self.position
        found = self._find(start + 1, self.size_bytes, self.last_offset)
        if found is None and self.last_offset >= self.base_offset:
            # Nothing that goes on where the log was; but perhaps it was begun again at a lower offset.
            found = self._find(start + 1, self.size_bytes, self.base_offset - 1)
        if found is not None:
            self.position = found
            yield Stretch("lost", start, found, reason)
            return
        self.position = self.size_bytes
        if reason == CUT_OFF and self.disk.size(self.fd) > self.size_bytes:
            return  # somebody is writing it
        if self._is_zero(start):
            yield Stretch("zeros", start, self.size_bytes, "nothing but zeros")
        else:
            yield Stretch("torn" if reason == CUT_OFF else "garbage", start, self.size_bytes, reason)

    def _find(self, start: int, stop: int, above: int) -> int | None:
        return find_batch(self.disk, self.fd, start, stop, self.size_bytes, base_offset=self.base_offset, above=above, budget=self._budget)

    def _reach(self, size: int) -> int:
        """How far a batch at `position` may go. A live log may have got the rest of it since its size was asked for."""
        if self.position + size > self.size_bytes:
            now = min(self.disk.size(self.fd), LARGEST_SEGMENT)
            if now >= self.position + size:
                self.size_bytes = max(self.size_bytes, self.position + size)
        return self.size_bytes - self.position

    def _has_shrunk(self, position: int) -> bool:
        return self.disk.size(self.fd) <= position

    def _has_good_crc(self, header: bytes, size: int) -> bool:
        found = int.from_bytes(header[CRC_POSITION:ATTRIBUTES_POSITION], "big")
        return checksum_of_file(self.disk, self.fd, self.position + ATTRIBUTES_POSITION, self.position + size) == found

    def _is_zero(self, start: int) -> bool:
        while start < self.size_bytes:
            piece = self.disk.read(self.fd, READ_BYTES, start)
            if piece.count(0) != len(piece):
                return False
            if not piece:
                break
            start += len(piece)
        return True


def header_row(header: bytes, position: int, size: int) -> BatchHeaders:
    """The header of one v2 batch, by itself."""
    base_offset, _, epoch, _, crc, attributes, delta, base_time, max_time, producer, producer_epoch, sequence, count = HEADER.unpack(header)
    last_offset = (base_offset + delta + (1 << 63)) % (1 << 64) - (1 << 63)
    fields = (position, size, 2, attributes, base_offset, last_offset, base_time, max_time, producer, producer_epoch, sequence)
    return BatchHeaders(np.array((*fields, epoch, count, crc), np.int64), 1, 0, 1, position + size)


def _size_at(data: bytes, held: int) -> int:
    """What a batch says its size is; 0 if it does not."""
    if held < LENGTH_POSITION + 4:
        return 0
    return int.from_bytes(data[LENGTH_POSITION : LENGTH_POSITION + 4], "big", signed=True) + LOG_OVERHEAD
