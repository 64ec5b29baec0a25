"""Read pieces of a log for their keys: the scan of a compaction in parts. What it finds out is put into files.

The entries of pieces that one task reads, one behind the other, go into one file: where a log has ten thousand small segments, to make a
file takes longer than to read a piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.batch_records import looked_into
from tidelog.compaction.key_entries import KeyEntries
from tidelog.compaction.key_scan import MAX_NAMED_NULL_KEYS
from tidelog.compaction.offset_map import checked_slices
from tidelog.compaction.pass_facts import ScannedSpan
from tidelog.compaction.segment_chunks import Chunk, ChunkReader
from tidelog.compaction.transaction_events import events_of, marked_rows
from tidelog.disk.file_pool import SHARED
from tidelog.errors import StorageError, TidelogError
from tidelog.log.segment_piece import SegmentPiece
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import CONTROL_BIT
from tidelog.record.plain_records import MAGIC_V2, PlainRecords, are_plain

EVENTS_SUFFIX = ".events"


@dataclass(frozen=True, slots=True)
class ScanFacts:
    """What holds for all pieces of a log."""

    first_dirty: int
    buckets: int
    secret: bytes
    has_aborted: bool
    """Whether an aborted transaction reaches into the dirty part: then every key counts until all pieces were read."""


@dataclass(frozen=True, slots=True)
class ScannedPiece:
    """What was found in a piece."""

    path: str
    """Of its entries, and of those of its neighbours."""
    first_offset: int
    last_offset: int
    """Of its records; -1 if it has none."""
    is_ordered: bool
    records: int
    """That the scan of the dirty part looks at."""
    dirty_bytes: int
    dirty_entries: int
    clean_entries: int
    """In the file, told with the last piece that has it."""
    has_tombstones: bool
    """In the dirty part."""
    null_keys: int
    null_key_offsets: tuple[int, ...]
    """The first hundred."""
    events_path: str | None
    """None if it has no events."""
    spans: tuple[tuple[int, ScannedSpan], ...]
    """By position."""
    all_records: int
    """Of the clean part too."""


def scan_pieces(
    pieces: Sequence[SegmentPiece], facts: ScanFacts, path: str, reader: ChunkReader | None = None
) -> list[ScannedPiece | TidelogError]:
    """Read pieces that lie one behind the other, and write their entries to `path`, their events beside it.

    What is wrong with a piece is its answer. Then the entries are worth nothing, and are not written.
    """
    reader = reader or ChunkReader()
    entries = KeyEntries(facts.secret, combines=not facts.has_aborted, piece_bytes=sum(piece.size_bytes for piece in pieces))
    found: list[ScannedPiece | TidelogError] = []
    for number, piece in enumerate(pieces):
        try:
            found.append(_scan_piece(piece, facts, entries, path, f"{path}-{number}{EVENTS_SUFFIX}", reader))
        except StorageError:
            raise  # the operating system refused: another attempt may have more luck
        except TidelogError as error:
            found.append(error)
    last = found[-1]
    if isinstance(last, ScannedPiece) and not any(isinstance(one, TidelogError) for one in found):
        dirty, clean = entries.write(SHARED.disk, path, facts.buckets)
        found[-1] = replace(last, dirty_entries=dirty, clean_entries=clean)
    return found


def _scan_piece(
    piece: SegmentPiece, facts: ScanFacts, entries: KeyEntries, path: str, events_path: str, reader: ChunkReader
) -> ScannedPiece:
    segment = piece.open()
    scan = _Scan(facts, entries)
    position = piece.start
    for chunk in reader.read(segment, piece.start, end=piece.end):
        try:
            scan.take(chunk)
        except TidelogError as error:
            raise chunk.located(error, segment.file.path) if error.path is None else error from None
        position = chunk.file_position + chunk.headers.end_position
    if position != piece.end:
        raise piece.misplaced(position)
    events = [rows for rows in scan.events if len(rows)]
    if events:
        disk = SHARED.disk
        fd = disk.create(events_path)
        try:
            disk.write(fd, [np.concatenate(events).tobytes()], 0)
        finally:
            disk.close(fd)
    segment.forget()
    return ScannedPiece(
        path,
        scan.first_offset,
        scan.last_offset,
        scan.is_ordered,
        scan.records,
        scan.dirty_bytes,
        0,
        0,
        scan.has_tombstones,
        scan.null_keys,
        tuple(scan.null_key_offsets),
        events_path if events else None,
        tuple(scan.spans),
        scan.all_records,
    )


class _Scan:
    def __init__(self, facts: ScanFacts, entries: KeyEntries) -> None:
        self.facts = facts
        self.entries = entries
        self.plain = PlainRecords()
        self.events: list[NDArray[np.int64]] = []
        self.first_offset = self.last_offset = -1
        self.is_ordered = True
        self.records = self.all_records = self.dirty_bytes = self.null_keys = 0
        self.has_tombstones = False
        self.null_key_offsets: list[int] = []
        self.spans: list[tuple[int, ScannedSpan]] = []
        self._is_dull = True
        self._keyless: NDArray[np.int64] | None = None
        """How many records of each batch of the chunk have no key; None where no transaction was aborted."""
        self._marked: NDArray[np.int64] = np.empty(0, np.int64)

    def take(self, chunk: Chunk) -> None:
        headers = chunk.headers
        is_dirty = int(headers.last_offset[-1]) >= self.facts.first_dirty
        self._marked = marked = marked_rows(headers)
        self._is_dull = len(marked) == 0 and int(headers.base_offset[0]) >= self.facts.first_dirty
        self._keyless = np.zeros(len(headers), np.int64) if len(marked) and self.facts.has_aborted else None
        plain = are_plain(headers)
        for first, end in pairwise([0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(headers)]):
            if plain[first]:
                self._take_plain(chunk, headers[first:end], first)
            else:
                self._is_dull = False
                for row in range(first, end):
                    self._take_batch(chunk, headers[row : row + 1], row)
        if len(marked):
            self.events.append(events_of(chunk, self._keyless))
        if is_dirty:
            self.dirty_bytes += headers.end_position - int(headers.position[0])
        if self._is_dull and self.is_ordered:
            position = chunk.file_position + int(headers.position[0])
            size = headers.end_position - int(headers.position[0])
            span = ScannedSpan(size, int(headers.base_offset[0]), int(headers.last_offset[-1]), int(headers.count.sum()))
            self.spans.append((position, span))
        self.entries.settle()

    def _take_plain(self, chunk: Chunk, run: BatchHeaders, first_row: int) -> None:
        records = self.plain
        records.scan(chunk.buffer, run)
        self._take_records(
            chunk.buffer, records.key_starts, records.key_lengths, records.value_lengths, records.offsets, run.count, first_row
        )

    def _take_batch(self, chunk: Chunk, one: BatchHeaders, row: int) -> None:
        if int(one.magic[0]) >= MAGIC_V2 and int(one.attributes[0]) & CONTROL_BIT:
            self.records += int(one.last_offset[0]) >= self.facts.first_dirty
            return
        found = looked_into(chunk.buffer, one)
        source, starts, lengths = checked_slices(found.payload, found.key_starts, found.key_lengths)
        counts = np.array([len(found.offsets)], np.int64)
        self._take_records(source, starts, lengths, found.value_lengths, found.offsets, counts, row)

    def _take_records(
        self,
        source: memoryview,
        starts: NDArray[np.int32],
        lengths: NDArray[np.int32],
        value_lengths: NDArray[np.int32],
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        first_row: int,
    ) -> None:
        if len(offsets) == 0:
            return
        if int(offsets[0]) <= self.last_offset or not bool((offsets[1:] > offsets[:-1]).all()):
            self.is_ordered = False
        if self.first_offset < 0:
            self.first_offset = int(offsets[0])
        self.last_offset = int(offsets[-1])
        self.all_records += len(offsets)
        if int(lengths.min()) < 0:
            self._is_dull = False
            self._note_null_keys(lengths, offsets, counts, first_row)
        first_dirty = self.facts.first_dirty
        clean = int(np.searchsorted(offsets, first_dirty)) if int(offsets[0]) < first_dirty else 0
        if clean:
            self.entries.add_clean(source, starts[:clean], lengths[:clean], offsets[:clean])
        if clean < len(offsets):
            self.entries.add_dirty(source, starts[clean:], lengths[clean:], offsets[clean:])
            self.records += len(offsets)
            if int(value_lengths.min()) < 0:
                self.has_tombstones, self._is_dull = True, False

    def _note_null_keys(self, lengths: NDArray[np.int32], offsets: NDArray[np.int64], counts: NDArray[np.int64], first_row: int) -> None:
        """Those of transactions count only if they are not aborted: then it is their batch that is noted."""
        keyless = lengths < 0
        if self._keyless is not None:
            batches = np.repeat(np.arange(first_row, first_row + len(counts)), counts)
            self._keyless += np.bincount(batches[keyless], minlength=len(self._keyless))
            keyless &= ~np.isin(batches, self._marked)
        self.null_keys += int(np.count_nonzero(keyless))
        self.null_key_offsets += offsets[keyless][: MAX_NAMED_NULL_KEYS - len(self.null_key_offsets)].tolist()
