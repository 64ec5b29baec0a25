"""Copy pieces of segments by workers: what of their batches goes on, into files under names of the attempt's own.

Every CRC is checked, and that offsets rise. A segment that is one piece gets its indexes at once; pieces of a larger one are put together
afterwards (`compaction.piece_rewriting.assemble`). What producers did in the batches that went on is written down beside them, for
`copied_logs` to follow. A task answers for each of its items: with what it did, or with what is wrong with the data.

Who copies does not own the source. That a file is still the one that was planned is known by its inode.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelog.compaction.cleaned_segment import CleanedSegment, CleanedSizes, OffsetOverflowError
from tidelog.compaction.piece_rewriting import PieceFile, RewrittenUnit, assemble
from tidelog.compaction.segment_chunks import Chunk, ChunkReader
from tidelog.compaction.stats import Counts
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import LOG
from tidelog.errors import CorruptBatchError, CorruptError, DamagedLogError, JobFailedError, StorageError, TidelogError, UnsupportedError
from tidelog.log.producer_replay import producer_batches
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.log.segment import Segment
from tidelog.record.headers import BatchHeaders, walk_headers
from tidelog.record.layout import CONTROL_BIT
from tidelog.record.reading import count_records
from tidelog.store.batch_selection import BatchSelection
from tidelog.store.copy_values import CopiedPiece, CopyItem, JoinItem

PRODUCERS_SUFFIX = "-producers"


def copy_pieces(items: Sequence[CopyItem], name: str) -> list[CopiedPiece | TidelogError]:
    """Work of a task: copy pieces."""
    reader = ChunkReader()
    answers: list[CopiedPiece | TidelogError] = []
    for item in items:
        try:
            path = f"{name}-copy-{item.log}-{item.piece.base_offset}-{item.piece.start}"
            answers.append(_Copying(item, path, reader).run())
        except (StorageError, JobFailedError):
            raise
        except OffsetOverflowError:
            path = item.piece.open().file.path
            answers.append(DamagedLogError("offsets too far from the base of their segment", path=path, hint="opening the log splits it"))
        except TidelogError as error:
            answers.append(error.with_traceback(None))
    return answers


def join_pieces(items: Sequence[JoinItem], name: str) -> list[tuple[str, CleanedSizes]]:
    """Work of a task: make segments of pieces. How the paths of their files begin, and their sizes."""
    answers = []
    for item in items:
        path = f"{name}-joined-{item.log}-{item.piece.base_offset}"
        units = [RewrittenUnit(one.path, one.sizes, Counts(), item.aborted if place == 0 else ()) for place, one in enumerate(item.copied)]
        answers.append((path, assemble(units, item.piece, item.config, item.mtime_ns, path)))
    return answers


def read_producers(copied: CopiedPiece) -> list[ProducerBatch | Marker]:
    """What producers did in a piece."""
    if not copied.has_producers:
        return []
    found: list[ProducerBatch | Marker] = pickle.loads(SHARED.disk.read_file(copied.path + PRODUCERS_SUFFIX))  # noqa: S301 - our own staging
    return found


@dataclass(slots=True)
class _Copying:
    """Copies one piece, once."""

    item: CopyItem
    path: str
    reader: ChunkReader
    first_offset: int = -1
    next_offset: int = -1
    last_offset: int = -1
    """Of the last batch that was read."""
    valid_end: int = 0
    batches: int = 0
    records: int = 0
    removed: int = 0
    damage: str | None = None
    is_over: bool = False
    producers: list[ProducerBatch | Marker] = field(default_factory=list)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> CopiedPiece:
        item, piece = self.item, self.item.piece
        segment = _opened(item)
        self.valid_end = piece.start
        selection = BatchSelection(item.rules)
        target: CleanedSegment | PieceFile
        if piece.is_whole:
            target = CleanedSegment(piece.open(), item.config, Counts(), self.path)
            target.note_aborted(list(item.aborted))
        else:
            target = PieceFile(SHARED.disk, self.path + LOG)
        try:
            self._copy(segment, selection, target)
            sizes = target.seal(item.mtime_ns) if isinstance(target, CleanedSegment) else CleanedSizes(target.size_bytes, 0, 0, None)
        except BaseException:
            if isinstance(target, CleanedSegment):
                target.abandon()
            raise
        finally:
            segment.forget()
            if isinstance(target, PieceFile):
                target.close()
        if self.producers:
            _write(self.path + PRODUCERS_SUFFIX, pickle.dumps(self.producers))
        return CopiedPiece(
            self.path,
            sizes,
            self.valid_end,
            self.first_offset,
            self.next_offset,
            self.batches,
            self.records,
            self.removed,
            bool(self.producers),
            tuple(self.epoch_starts),
            self.damage,
            self.is_over,
        )

    def _copy(self, segment: Segment, selection: BatchSelection, target: CleanedSegment | PieceFile) -> None:
        piece = self.item.piece
        end = piece.end
        while self.valid_end < end and not self.is_over:
            try:
                for chunk in self.reader.read(segment, self.valid_end, end=end):
                    self._take(chunk, segment, selection, target)
                    if self.is_over:
                        return
                if self.valid_end != end:
                    raise piece.misplaced(self.valid_end)
            except (CorruptError, UnsupportedError) as error:
                if not self.item.stops_at_damage:
                    raise
                self.damage = self.damage or error.what
                # Of the chunk in which it is, what lies before it is sound.
                at = self.valid_end if error.position is None else max(self.valid_end, min(error.position, end))
                if at <= self.valid_end or at == end:
                    return
                end = at

    def _take(self, chunk: Chunk, segment: Segment, selection: BatchSelection, target: CleanedSegment | PieceFile) -> None:
        _check_rising(chunk, self.last_offset, segment)
        self.last_offset = int(chunk.headers.last_offset[-1])
        self.valid_end = chunk.file_position + chunk.headers.end_position
        selected = selection.of(chunk)
        self.is_over = selected.is_over
        if self.is_over:
            first_behind = int(np.argmax(chunk.headers.last_offset >= self.item.rules.end_offset))
            self.valid_end = chunk.file_position + int(chunk.headers.position[first_behind])
        self.removed += selected.removed
        if selected.parts:
            view = memoryview(selected.parts[0] if len(selected.parts) == 1 else b"".join(selected.parts))
            target.append(view)
            self._note(view, walk_headers(view))

    def _note(self, view: memoryview, headers: BatchHeaders) -> None:
        """Keep what has to be known of batches that went on."""
        if not self.batches:
            self.first_offset = int(headers.base_offset[0]) if int(headers.base_offset[0]) >= 0 else int(headers.last_offset[0])
        self.batches += len(headers)
        self.records += count_records(view, headers) - int(
            headers.count[(headers.attributes & CONTROL_BIT > 0) & (headers.magic == 2)].sum()
        )
        self.next_offset = int(headers.last_offset[-1]) + 1
        self.producers += producer_batches(view, headers)
        epochs = headers.partition_leader_epoch
        latest = self.epoch_starts[-1][0] if self.epoch_starts else -1
        for change in np.flatnonzero(np.diff(epochs, prepend=latest)).tolist():
            self.epoch_starts.append((int(epochs[change]), int(headers.base_offset[change])))


def _opened(item: CopyItem) -> Segment:
    """The source, if it is still what was planned."""
    segment = item.piece.open()
    if item.stage:
        segment.restaged(item.stage)
    changed = JobFailedError(
        "a segment was replaced or cut while it was copied",
        path=segment.file.path,
        hint="its owner has compacted, deleted or truncated it; nothing was made, and running it again is safe",
    )
    try:
        opened = segment.file.open()
    except FileNotFoundError:
        raise changed from None
    disk = segment.pool.disk
    if item.inode and (disk.inode(opened.fd) != item.inode or disk.size(opened.fd) < item.piece.end):
        raise changed
    return segment


def _check_rising(chunk: Chunk, before: int, segment: Segment) -> None:
    last = chunk.headers.last_offset
    falling = np.flatnonzero(last <= np.concatenate(([max(before, segment.base_offset - 1)], last[:-1])))
    if len(falling):
        at = int(falling[0])
        raise CorruptBatchError(
            "offsets of batches go back",
            path=segment.file.path,
            position=chunk.file_position + int(chunk.headers.position[at]),
            expected="a last offset above the one before it, and not below its segment",
            found=int(last[at]),
        )


def _write(path: str, content: bytes) -> None:
    disk = SHARED.disk
    fd = disk.create(path)
    try:
        disk.write(fd, [content], 0)
    finally:
        disk.close(fd)
