"""The batches of a `.log` file, as long as nothing is wrong with them.

Most files that are looked into are sound, and to load what is needed for damage takes longer than to read a hundred mebibytes. So a file is
walked with the record layer alone, up to the first batch that is not whole, or whose CRC does not match; from there on
`tidelog.inspection.dump_segment` goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition

if TYPE_CHECKING:
    import numpy as np

    from tidelog.errors import TidelogError
    from tidelog.inspection.dump_segment import SegmentDump
    from tidelog.inspection.finding import Finding
    from tidelog.inspection.record_object import Object
    from tidelog.record.headers import BatchHeaders
    from tidelog.record.kernel.record import Record

_READ_BYTES = 4 << 20
_WALK_BATCHES = 4096


class RecordSource(Protocol):
    """Whose batches are shown: a sound file's, or any other's. A piece is one of its own."""

    topic: str | None
    partition: int

    def records(self, piece: Any, row: int) -> "Iterator[Record]":
        """The records of one batch."""

    def record_objects(self, piece: Any, row: int, *, raw: bool) -> "Iterator[Object]":
        """The same as plain objects, those of internal topics decoded."""

    def trouble(self, piece: Any, row: int, *, is_valid: bool, records: bool) -> "Finding | None":
        """Why the records of a batch are not shown."""

    def unreadable_records(self, piece: Any, row: int, error: "TidelogError") -> "Finding":
        """The finding about records that do not parse."""


@dataclass(slots=True)
class SoundPiece:
    """Batches one behind the other, as `tidelog.inspection.walk_parts.Piece` has them. Good until the next one is asked for."""

    headers: "BatchHeaders"
    shift: int
    view: memoryview
    bad: "np.ndarray"
    """None of them."""


class SoundSegment:
    """One walk over one file."""

    def __init__(self, disk: Disk, path: str, partition: TopicPartition | None) -> None:
        self.path = path
        self.topic = None if partition is None else partition.topic
        self.partition = -1 if partition is None else partition.partition
        self.position = 0
        """How far it has come."""
        self.last_offset: int | None = None
        self.is_whole = False
        """Whether that was the end of the file."""
        self._disk = disk
        self._home = partition

    def pieces(self) -> Iterator[SoundPiece]:
        """Runs of sound batches."""
        import numpy as np

        from tidelog.record.headers import FIELDS, first_bad_checksum, walk_block

        none_bad = np.empty(0, np.int64)
        flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
        fd = self._disk.open_plain(self.path)
        try:
            size_bytes = self._disk.size(fd)
            buffer = bytearray(min(_READ_BYTES, size_bytes))
            while self.position < size_bytes:
                held = self._disk.read_into(fd, memoryview(buffer)[: size_bytes - self.position], self.position)
                view, shift, at = memoryview(buffer)[:held], self.position, 0
                while at < held:
                    headers, error = walk_block(view, at, held, flat)
                    count, is_good = len(headers), error is None
                    if count and first_bad_checksum(view, headers)[0] < count:
                        return  # nothing of this run: who goes on wants to see what is before the damage
                    if count:
                        at = headers.end_position
                        self.position = shift + at
                        self.last_offset = int(headers.last_offset[-1])
                        yield SoundPiece(headers, shift, view, none_bad)
                    if not is_good:
                        return
                    if count < _WALK_BATCHES:
                        break
                if self.position == shift:
                    return  # a batch that is cut off, or larger than what is read at once
            self.is_whole = True
        finally:
            self._disk.close(fd)

    def records(self, piece: SoundPiece, row: int) -> "Iterator[Record]":
        """The records of one batch."""
        from tidelog.record import LegacyBatch, RecordBatch

        headers = piece.headers[row : row + 1]
        if int(headers.magic[0]) < 2:
            return LegacyBatch(piece.view, headers).records(topic=self.topic, partition=self.partition)
        batch = RecordBatch(piece.view, int(headers.position[0]), int(headers.size_bytes[0]))
        return batch.records(topic=self.topic, partition=self.partition)

    # What is rare is left to those who know everything.

    def _thorough(self) -> "SegmentDump":
        from tidelog.inspection.dump_segment import SegmentDump

        return SegmentDump(self._disk, self.path, 0, self._home)

    def record_objects(self, piece: Any, row: int, *, raw: bool) -> "Iterator[Object]":
        """See `SegmentDump.record_objects`."""
        return self._thorough().record_objects(piece, row, raw=raw)

    def trouble(self, piece: Any, row: int, *, is_valid: bool, records: bool) -> "Finding | None":
        """See `SegmentDump.trouble`."""
        return self._thorough().trouble(piece, row, is_valid=is_valid, records=records)

    def unreadable_records(self, piece: Any, row: int, error: "TidelogError") -> "Finding":
        """See `SegmentDump.unreadable_records`."""
        return self._thorough().unreadable_records(piece, row, error)
