"""Walk a `.log` file from its beginning to its end, whatever lies between.

The file comes as runs of batches whose framing holds (`Piece`; those with a CRC that does not match are named), and the stretches between
them where it does not (`Stretch`). A batch whose CRC is wrong keeps its place only if its end is believable: no sound batch inside it,
and something like a batch, or the end of the file, behind it. Otherwise the next sound batch is searched.

Memory is bounded: pieces of two mebibytes, more only for a batch that is larger, and never more than `LARGEST_IN_MEMORY`. Such a batch is
checked without being held. The file may grow or shrink meanwhile.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.errors import TidelogError, UnsupportedMagicError
from tidelog.inspection.batch_search import MIN_LEGACY_SIZE, Search, has_good_crc, is_plausible, is_plausible_message
from tidelog.inspection.walk_parts import NO_ROWS, Piece, Stretch, header_row, size_at
from tidelog.log.batch_checksum import MAGIC_POSITION
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.headers import FIELDS, BatchHeaders, checksums_match, first_bad_checksum, walk_block
from tidelog.record.layout import HEADER_SIZE

READ_BYTES = 2 << 20
LARGEST_IN_MEMORY = 16 << 20
LARGEST_SEGMENT = (1 << 31) - 1
"""Positions in an index are numbers of 31 bits."""
WALK_BATCHES = 4096
CUT_OFF = "the last batch is cut off"


class SegmentWalk:
    """One walk over one open file. After it, `end` says where the last batch ended."""

    def __init__(
        self,
        disk: Disk,
        fd: int,
        size_bytes: int,
        base_offset: int,
        *,
        checks_crcs: bool,
        proven: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`proven` are stretches of whole batches that need not be read again: from where to where, ascending."""
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
        self._may_be_legacy = True
        """Old messages never follow v2 batches, so behind the first of those none is searched for."""
        self._search_of_file = Search(disk, fd, base_offset)
        self._proven = dict(proven)

    def __iter__(self) -> Iterator[Piece | Stretch]:
        if self.size_bytes == 0:
            return
        buffer = bytearray(min(READ_BYTES, max(HEADER_SIZE, self.size_bytes)))
        flat = np.empty(len(FIELDS) * WALK_BATCHES, np.int64)
        held = 0  # bytes from `position` on that are in the buffer already
        while self.position < self.size_bytes:
            if self.position in self._proven:
                yield from self._pass_over(self._proven.pop(self.position), flat)
                held = 0
                continue
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
                size = size_at(header)
                if MIN_LEGACY_SIZE <= size <= min(LARGEST_IN_MEMORY, self._reach(size)) and size > len(buffer):
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

    def _pass_over(self, end: int, flat: np.ndarray) -> Iterator[Piece]:
        """Batches that somebody has looked at: their headers, where they lie. The file may have been cut since; then it is read."""
        end = min(end, self.disk.size(self.fd))
        if end <= self.position:
            return
        mapped = self.disk.map(self.fd, end)
        view = memoryview(mapped)
        try:
            while self.position < end:
                headers, error = walk_block(view, self.position, end, flat)
                if error is not None or len(headers) == 0:
                    return
                self.position = self.end = headers.end_position
                self._note_last_offset(headers, NO_ROWS, len(headers))
                yield Piece(headers, 0, None, NO_ROWS, is_proven=True)
        finally:
            view.release()
            mapped.close()

    def _walk_held(self, view: memoryview, flat: np.ndarray) -> Iterator[Piece | Stretch]:
        """The batches that are whole in memory; `position` moves behind them, and over damage."""
        shift = self.position
        while self.position - shift < len(view):
            headers, error = walk_block(view, self.position - shift, len(view), flat)
            count = len(headers)
            if count:
                bad = NO_ROWS
                if self.checks_crcs and first_bad_checksum(view, headers)[0] < count:
                    bad = np.flatnonzero(~checksums_match(view, headers))
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
        if len(bad):
            while good >= 0 and good in bad:
                good -= 1
        if good >= 0:
            self.last_offset = max(self.last_offset, int(headers.last_offset[good]))
            self._may_be_legacy = self._may_be_legacy and int(headers.magic[good]) < 2

    def _keeps_its_place(self, headers: BatchHeaders, row: int, bad: np.ndarray, shift: int) -> bool:
        """Whether the walk can go on behind a batch whose CRC does not match."""
        start = shift + int(headers.position[row])
        end = start + int(headers.size_bytes[row])
        above = self.last_offset
        if row and row - 1 not in bad:
            above = int(headers.last_offset[row - 1])
        return self._is_believable(start, end, above, is_legacy=int(headers.magic[row]) < 2)

    def _is_believable(self, start: int, end: int, above: int, *, is_legacy: bool = False) -> bool:
        # Of old messages none is looked for in it: a wrapper that is badly compressed has them inside, whole.
        if self._find(start + 1, end, above, with_legacy=False) is not None:
            return False
        left = self.size_bytes - end
        if left < (MIN_LEGACY_SIZE if is_legacy else HEADER_SIZE):
            return True
        header, highest = self.disk.read(self.fd, HEADER_SIZE, end), self.base_offset + MAX_RELATIVE_OFFSET
        if is_legacy and is_plausible_message(header, left, above=above, highest=highest):
            return True
        return is_plausible(header, above=above, highest=highest)

    def _bad_framing(self, error: TidelogError) -> Iterator[Piece | Stretch]:
        """A size or a magic that cannot be."""
        header = self.disk.read(self.fd, HEADER_SIZE, self.position)
        size = size_at(header)
        if isinstance(error, UnsupportedMagicError) and HEADER_SIZE <= size <= self._reach(size) and self._has_good_crc(header, size, 2):
            headers = header_row(header, self.position, size, magic=2)
            yield Stretch("magic", self.position, self.position + size, str(error.found), int(headers.base_offset[0]))
            self.position += size
            self.end = self.position
            self.last_offset = max(self.last_offset, int(headers.last_offset[0]))
            self._may_be_legacy = False
            yield Piece(headers, 0, None, NO_ROWS)
            return
        yield from self._search(error.what)

    def _step_over(self, header: bytes, size: int) -> Iterator[Piece | Stretch]:
        """The next batch is not whole: too large to be held, or cut off, or what is there is none."""
        magic = header[MAGIC_POSITION] if len(header) == HEADER_SIZE else -1
        if 0 <= magic <= 2 and HEADER_SIZE <= size <= self._reach(size):
            is_good = not self.checks_crcs or self._has_good_crc(header, size, magic)
            if is_good or self._is_believable(self.position, self.position + size, self.last_offset, is_legacy=magic < 2):
                headers = header_row(header, self.position, size, magic)
                self.position += size
                self.end = self.position
                if is_good:
                    self.last_offset = max(self.last_offset, int(headers.last_offset[0]))
                    self._may_be_legacy = self._may_be_legacy and magic < 2
                yield Piece(headers, 0, None, NO_ROWS if is_good else np.zeros(1, np.int64))
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

    def _find(self, start: int, stop: int, above: int, *, with_legacy: bool = True) -> int | None:
        return self._search_of_file.find(start, stop, self.size_bytes, above=above, with_legacy=with_legacy and self._may_be_legacy)

    def _reach(self, size: int) -> int:
        """How far a batch at `position` may go. A live log may have got the rest of it since its size was asked for."""
        if self.position + size > self.size_bytes:
            now = min(self.disk.size(self.fd), LARGEST_SEGMENT)
            if now >= self.position + size:
                self.size_bytes = max(self.size_bytes, self.position + size)
        return self.size_bytes - self.position

    def _has_shrunk(self, position: int) -> bool:
        return self.disk.size(self.fd) <= position

    def _has_good_crc(self, header: bytes, size: int, magic: int) -> bool:
        return has_good_crc(self.disk, self.fd, header, self.position, size, magic=magic)

    def _is_zero(self, start: int) -> bool:
        while start < self.size_bytes:
            piece = self.disk.read(self.fd, READ_BYTES, start)
            if piece.count(0) != len(piece):
                return False
            if not piece:
                break
            start += len(piece)
        return True
