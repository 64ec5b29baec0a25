"""Read pieces of segments ahead of a verify, by as many workers as there are, and say which stretches are in order.

What verify has to read is bytes: the CRC of every batch, and at the level "records" every record. That needs nothing but the batch itself.
What it has to know in order, offsets, producers, epochs, indexes, is in headers. So workers prove stretches of batches, and one walk over
the headers does the rest: it passes over what is proven and reads for itself whatever is not. A worker that meets damage proves nothing
about it; what is wrong is said by the walk, in the same words as ever.
"""

from dataclasses import dataclass, field

import numpy as np

from tidelog.disk.disk import OS, Disk
from tidelog.inspection.batch_checks import Bounds
from tidelog.inspection.record_checks import RecordChecks
from tidelog.inspection.walk_parts import NO_ROWS, Piece
from tidelog.log.segment_piece import SegmentPiece
from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, walk_block

Proven = tuple[tuple[int, int], ...]
"""Stretches of whole batches of a `.log`: from where to where, ascending."""
_READ_BYTES = 2 << 20
_WALK_BATCHES = 4096


def prove_piece(piece: SegmentPiece, level: str, disk: Disk = OS) -> Proven:
    """The stretches of a piece that are in order, as far as one can tell without what is around them."""
    try:
        fd = disk.open_plain(f"{piece.open().path_of('.log')}")
    except OSError:
        return ()
    try:
        return _Proof(disk, fd, piece, level).run()
    except OSError:
        return ()  # who walks over the headers meets it again
    finally:
        disk.close(fd)


@dataclass(slots=True)
class _Proof:
    disk: Disk
    fd: int
    piece: SegmentPiece
    level: str
    found: list[tuple[int, int]] = field(default_factory=list)
    records: RecordChecks = field(default_factory=RecordChecks)

    def run(self) -> Proven:
        piece = self.piece
        buffer = bytearray(min(_READ_BYTES, max(1, piece.size_bytes)))
        flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
        position = piece.start
        while position < piece.end:
            wanted = min(len(buffer), piece.end - position)
            held = self.disk.read_into(self.fd, memoryview(buffer)[:wanted], position)
            end = self._take(memoryview(buffer)[:held], position, flat)
            if end == 0:
                break  # damage, a batch that is larger than a buffer, or the file has become shorter
            position += end
        return tuple(self.found)

    def _take(self, view: memoryview, shift: int, flat: np.ndarray) -> int:
        """The whole batches of a buffer: where they end."""
        end = 0
        while True:
            headers, error = walk_block(view, end, len(view), flat)
            if len(headers) == 0:
                return end
            good = first_bad_checksum(view, headers)[0]
            part = headers if good >= len(headers) else headers[:good]
            if len(part) and self._are_sound(view, part, shift):
                self._add(shift + end, shift + part.end_position)
            if good < len(headers):
                part = headers[: good + 1]  # go on behind it: if its size is right, a batch begins there
            end = part.end_position
            if error is not None and good >= len(headers):
                return 0 if end == 0 else end
            if good >= len(headers) and len(headers) < _WALK_BATCHES:
                return end

    def _are_sound(self, view: memoryview, headers: BatchHeaders, shift: int) -> bool:
        if self.level != "records":
            return True
        bounds = Bounds("", self.piece.base_offset, None, 0, -1)
        return next(self.records.check(Piece(headers, shift, view, NO_ROWS), bounds), None) is None

    def _add(self, start: int, end: int) -> None:
        if self.found and self.found[-1][1] == start:
            self.found[-1] = (self.found[-1][0], end)
        else:
            self.found.append((start, end))
