"""Rewrite pieces of a group by several workers, and put what stays of them together to the new segment.

The rewriting itself is the cleaner's. What differs is where it learns which offsets survive (`KeptOffsets`), with which state of the
transactions it begins, and where the batches go: those of a group that is one piece straight into the files of the new segment, those of
a larger one into a file each, from which `assemble` makes the segment: it enters the batches into its indexes, one by one as the cleaner
would have done.
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tidelog.compaction.cleaned_segment import CleanedSegment, CleanedSizes, OffsetOverflowError
from tidelog.compaction.hooks import NO_HOOKS
from tidelog.compaction.kept_offsets import KeptOffsets, read_kept
from tidelog.compaction.pass_facts import KeyScan, PassFacts, ScannedSpan
from tidelog.compaction.rewriting import Rewriter
from tidelog.compaction.rules import LastRecord
from tidelog.compaction.segment_chunks import ChunkReader
from tidelog.compaction.stats import Counts
from tidelog.compaction.transactions import TransactionTracker
from tidelog.config import LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import LOG
from tidelog.log.segment_piece import SegmentPiece
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.headers import FIELDS, walk_block

_COPY_BYTES = 4 << 20
_WALK_BATCHES = 4096


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """A piece that is to be rewritten."""

    piece: SegmentPiece
    first_offset: int
    """The lowest offset that it may have, to which the survivors are relative."""
    aborted: tuple[AbortedTxn, ...]
    """If a segment begins with it: the aborted transactions that its indexes name from there on."""
    keeps_legacy: bool
    """Whether tombstones of legacy batches of the segment stay."""
    spans: tuple[tuple[int, ScannedSpan], ...]
    """What the scan found, by position: if none of it survives, it is not read again."""


@dataclass(frozen=True, slots=True)
class RewriteFacts:
    """What holds for a whole log."""

    config: LogConfig
    now_ms: int
    bound: int
    first_dirty_offset: int
    has_tombstones: bool
    has_null_keys: bool
    has_discarded: bool
    last_records: Mapping[int, LastRecord]
    kept_files: tuple[str, ...]
    """What each bucket says."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Pieces of one group, one behind the other, that one worker rewrites."""

    group: int
    first: SegmentPiece
    """The beginning of the group's first segment, which the new one is named after."""
    first_piece: int
    """Its place among all pieces of the log."""
    pieces: tuple[SourcePiece, ...]
    is_whole_group: bool
    mtime_ns: int
    """That the new segment gets."""
    tracker: tuple[str, int, int] | None
    """Where the transactions as they are at its beginning are written: file, position, size. None if the log has none."""


@dataclass(frozen=True, slots=True)
class RewrittenUnit:
    """What became of it. The path is what the names of its files begin with; a unit that is not a whole group has only a `.log`."""

    path: str
    sizes: CleanedSizes
    counts: Counts
    kept_aborted: tuple[AbortedTxn, ...]


class Staged(Protocol):
    """Something that lies in a file of the run."""

    @property
    def path(self) -> str:
        """How its name begins."""


class PieceFile:
    """Where batches go that are not a whole segment yet."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._fd = disk.create(path)
        self.size_bytes = 0
        self.aborted: list[AbortedTxn] = []

    def append(self, batches: memoryview) -> None:
        """See `Target`."""
        self._disk.write(self._fd, [batches], self.size_bytes)
        self.size_bytes += len(batches)

    def note_aborted(self, transactions: list[AbortedTxn]) -> None:
        """See `Target`."""
        self.aborted += transactions

    def close(self) -> None:
        """Let go of the file."""
        self._disk.close(self._fd)


def rewrite_unit(unit: Unit, facts: RewriteFacts, path: str, reader: ChunkReader | None = None) -> RewrittenUnit:
    """Copy what stays of some pieces into files whose names begin with `path`."""
    disk = SHARED.disk
    counts = Counts()
    reader = reader or ChunkReader()
    rewriter = Rewriter(_pass_facts(unit, facts), _kept(unit, facts, disk), counts, NO_HOOKS, reader)
    if unit.tracker is not None:
        rewriter.tracker = _tracker_at(disk, *unit.tracker)
    first = unit.first.open()
    target = CleanedSegment(first, facts.config, counts, path) if unit.is_whole_group else PieceFile(disk, path + LOG)
    try:
        rewriter.begin_group(target, facts.last_records)
        for source in unit.pieces:
            piece = source.piece
            segment = piece.open()
            rewriter.tracker.add_aborted(source.aborted)
            rewriter.rewrite(segment, target, keeps_legacy=source.keeps_legacy, start=piece.start, end=piece.end)
            segment.forget()
        if isinstance(target, CleanedSegment):
            return RewrittenUnit(path, target.seal(unit.mtime_ns), counts, ())
        return RewrittenUnit(path, CleanedSizes(target.size_bytes, 0, 0, None), counts, tuple(target.aborted))
    except BaseException:  # a task that was cancelled too: its files must not stay
        if isinstance(target, CleanedSegment):
            target.abandon()
        raise
    finally:
        if isinstance(target, PieceFile):
            target.close()


def assemble(units: Sequence[RewrittenUnit], first: SegmentPiece, config: LogConfig, mtime_ns: int, path: str) -> CleanedSizes:
    """The new segment of a group from what stayed of its units, in files whose names begin with `path`."""
    disk = SHARED.disk
    target = CleanedSegment(first.open(), config, Counts(), path)
    try:
        for unit in units:
            _append_file(disk, unit.path + LOG, unit.sizes.size_bytes, target)
            target.note_aborted(list(unit.kept_aborted))
        return target.seal(mtime_ns)
    except BaseException:  # a task that was cancelled too: its files must not stay
        target.abandon()
        raise


def discard_units(units: Iterable[Staged]) -> None:
    """Remove the files of units that were put into a segment: they are as large as that again, and nobody needs them any more.

    What cannot be removed goes with the staging directory.
    """
    for unit in units:
        with suppress(OSError):
            SHARED.disk.remove(unit.path + LOG)


def _append_file(disk: Disk, path: str, size_bytes: int, target: CleanedSegment) -> None:
    fd = disk.open(path)
    buffer = bytearray(min(_COPY_BYTES, size_bytes))
    flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
    position = held = 0
    try:
        while position < size_bytes:
            wanted = min(len(buffer) - held, size_bytes - position - held)
            if wanted > 0 and disk.read_into(fd, memoryview(buffer)[held : held + wanted], position + held) < wanted:
                raise OSError(f"{path} is shorter than it was written")
            held += wanted
            end = 0
            while True:
                headers, error = walk_block(memoryview(buffer)[:held], end, held, flat)
                if error is not None:
                    raise error
                end = headers.end_position if len(headers) else end
                if len(headers) < _WALK_BATCHES:
                    break
            if end == 0:
                buffer += bytearray(len(buffer))  # a batch that is larger
                continue
            target.append(memoryview(buffer)[:end])
            buffer[: held - end] = buffer[end:held]
            position += end
            held -= end
    finally:
        disk.close(fd)


def _pass_facts(unit: Unit, facts: RewriteFacts) -> PassFacts:
    spans = {(source.piece.base_offset, position): span for source in unit.pieces for position, span in source.spans}
    scan = KeyScan(facts.bound, False, facts.has_tombstones, facts.has_null_keys, True, facts.has_discarded, spans)
    return PassFacts(facts.now_ms, facts.config.delete_retention_ms, facts.bound, facts.first_dirty_offset, scan, facts.bound - 1)


def _kept(unit: Unit, facts: RewriteFacts, disk: Disk) -> KeptOffsets:
    firsts = [source.first_offset for source in unit.pieces]
    return KeptOffsets(read_kept(disk, facts.kept_files, unit.first_piece, firsts), facts.bound - 1)


def _tracker_at(disk: Disk, path: str, position: int, size: int) -> TransactionTracker:
    fd = disk.open(path)
    try:
        tracker: TransactionTracker = pickle.loads(disk.read(fd, size, position))  # noqa: S301 - it is the driver's own staging
        return tracker
    finally:
        disk.close(fd)


__all__ = ["OffsetOverflowError", "RewriteFacts", "RewrittenUnit", "SourcePiece", "Unit", "assemble", "discard_units", "rewrite_unit"]
