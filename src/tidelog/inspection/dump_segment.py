"""The batches of one file, piece by piece, and the records of each; damage comes as findings among them."""

from collections.abc import Iterator

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.inspection.finding import NOTHING, RECOVERY, SALVAGE, Finding
from tidelog.inspection.record_object import Object, batch_object, control_object, record_object
from tidelog.inspection.segment_walk import SegmentWalk
from tidelog.inspection.walk_parts import Piece, Stretch
from tidelog.record import LegacyBatch, RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.layout import CONTROL_BIT

_STRETCH_CODES = {"torn": "torn-tail", "zeros": "zero-tail", "garbage": "garbage-tail", "lost": "framing-lost", "magic": "batch-magic"}


class SegmentDump:
    """A `.log` file. Without `skip_damage` it ends where no batch follows: what a search finds behind that is a guess."""

    def __init__(self, disk: Disk, path: str, base_offset: int, partition: TopicPartition | None, *, skip_damage: bool = True) -> None:
        self.path = path
        self.topic = None if partition is None else partition.topic
        self.partition = -1 if partition is None else partition.partition
        self._disk = disk
        self._base_offset = base_offset
        self._skip_damage = skip_damage
        self.stopped_at: int | None = None
        """Where it ended before the end of the file."""

    def parts(self, position: int = 0, last_offset: int | None = None) -> Iterator[Piece | Finding]:
        """Runs of batches, and what lies between them; from a position on if what is before it is known to be sound."""
        fd = self._disk.open_plain(self.path)
        try:
            walk = SegmentWalk(self._disk, fd, self._disk.size(fd), self._base_offset, checks_crcs=True)
            walk.position = walk.end = position
            walk.last_offset = walk.last_offset if last_offset is None else last_offset
            for part in walk:
                if isinstance(part, Piece):
                    yield part
                    continue
                yield self._stretch(part)
                if part.kind == "lost" and not self._skip_damage:
                    self.stopped_at = part.start
                    return
        finally:
            self._disk.close(fd)

    def records(self, piece: Piece, row: int) -> Iterator[Record]:
        """The records of one batch of a piece that has its bytes. Raises where they cannot be read."""
        assert piece.view is not None
        headers = piece.headers[row : row + 1]
        found: RecordBatch | LegacyBatch
        if int(headers.magic[0]) == 2:
            found = RecordBatch(piece.view, int(headers.position[0]), int(headers.size_bytes[0]))
        else:
            found = LegacyBatch(piece.view, headers)
        return found.records(topic=self.topic, partition=self.partition)

    def objects(self, *, records: bool, raw: bool) -> Iterator[Object]:
        """All of it as plain objects."""
        for part in self.parts():
            if isinstance(part, Finding):
                yield dict(part.to_json())
            else:
                yield from self._piece(part, records=records, raw=raw)

    def _piece(self, piece: Piece, *, records: bool, raw: bool) -> Iterator[Object]:
        bad = set(piece.bad.tolist())
        for row in range(len(piece.headers)):
            position = int(piece.headers.position[row])
            batch = batch_object(piece.headers, row, position + piece.shift, is_valid=row not in bad)
            yield batch
            finding = self.trouble(piece, row, is_valid=row not in bad, records=records)
            if finding is not None:
                yield dict(finding.to_json())
            elif records:
                yield from self.record_objects(piece, row, raw=raw)

    def record_objects(self, piece: Piece, row: int, *, raw: bool) -> Iterator[Object]:
        """The records of one batch as plain objects; what cannot be read is a finding."""
        headers = piece.headers
        is_control = int(headers.magic[row]) == 2 and int(headers.attributes[row]) & CONTROL_BIT
        try:
            for record in self.records(piece, row):
                yield control_object(record, raw=raw) if is_control else record_object(record, raw=raw)
        except TidelogError as error:
            yield dict(self.unreadable_records(piece, row, error).to_json())

    def trouble(self, piece: Piece, row: int, *, is_valid: bool, records: bool) -> Finding | None:
        """Why the records of a batch are not shown; None if they can be."""
        if not is_valid:
            return self._finding("batch-crc", "the CRC of a batch does not match; its records are not shown", piece, row)
        if records and piece.view is None:
            return self._finding("batch-large", "a batch too large to be shown record by record", piece, row, is_note=True)
        return None

    def unreadable_records(self, piece: Piece, row: int, error: TidelogError) -> Finding:
        """The finding about records that do not parse."""
        return self._finding("records-unreadable", error.what, piece, row)

    def _finding(self, code: str, what: str, piece: Piece, row: int, *, is_note: bool = False) -> Finding:
        base_offset = int(piece.headers.base_offset[row])
        place = int(piece.headers.position[row]) + piece.shift, None if base_offset < 0 else base_offset
        if is_note:
            return Finding("note", code, self.path, what, NOTHING, *place)
        return Finding("error", code, self.path, what, SALVAGE, *place)

    def _stretch(self, part: Stretch) -> Finding:
        what = f"{part.end - part.start} bytes that are no batches: {part.reason}"
        code = _STRETCH_CODES.get(part.kind, "file-shrunk")
        is_tail = part.kind in ("torn", "zeros", "shrunk")
        return Finding("warning" if is_tail else "error", code, self.path, what, RECOVERY if is_tail else SALVAGE, part.start)
