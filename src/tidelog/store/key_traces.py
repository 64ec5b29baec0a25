"""Look for keys in every byte of the files of a partition: as keys of records, also in compressed batches, and as bytes anywhere else.

    segments                   each record's key is compared. Bytes of a key within other records are counted: they are quoted in values,
                               or in headers and longer keys; nobody asked to have these removed
    files kept aside           as bytes, and as batches wherever some are found. What is compressed and not whole cannot be looked into,
                               and is told
    indexes, snapshots,        as bytes. They hold numbers and ids: if they are what their format says, what is found there is not the
    epochs, ids                key but looks like it
    anything else              as bytes

A key shorter than four bytes is only compared with the keys of records: its bytes are everywhere by chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.segment_chunks import Chunk, ChunkReader
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED
from tidelog.errors import TidelogError
from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.inspection.salvage_scan import Run, walk_segment
from tidelog.log.segment_piece import SegmentPiece
from tidelog.record.batch import RecordBatch
from tidelog.record.headers import BatchHeaders, walk_headers
from tidelog.record.layout import CODEC_MASK, CONTROL_BIT, HEADER, HEADER_SIZE
from tidelog.record.legacy import flatten
from tidelog.record.plain_records import MAGIC_V2, are_plain
from tidelog.record.scanning import scan_records
from tidelog.store.batch_selection import BatchSelection, SelectionRules
from tidelog.store.key_match import KeyMatch
from tidelog.store.key_search import KeySearch
from tidelog.store.side_files import side_content

_READ_BYTES = 1 << 20


class TraceItem(NamedTuple):
    """A file to be looked through, or a piece of a segment."""

    path: str
    size_bytes: int
    piece: SegmentPiece | None
    keys: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Traces:
    """What was found."""

    record_keys: int = 0
    """Records with one of the keys."""
    raw: int = 0
    """The bytes of a key where they have no business to be."""
    quoted_in_values: int = 0
    """In the values of records with other keys."""
    quoted_elsewhere: int = 0
    """In headers of records, and in longer keys."""
    look_alikes: int = 0
    """Numbers that look like a key: in indexes, and in headers of batches."""
    unreadable: int = 0
    """Stretches of compressed batches that are not whole: nobody can say what is in them."""

    def __add__(self, other: "Traces") -> "Traces":
        return Traces(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def is_clean(self) -> bool:
        """Whether nothing is there that has to go."""
        return not (self.record_keys or self.raw or self.unreadable)


def look_for_keys(items: Sequence[TraceItem], _: str) -> list[Traces]:
    """Work of a task."""
    looks: dict[frozenset[bytes], _Look] = {}
    found = []
    for item in items:
        if item.keys not in looks:
            looks[item.keys] = _Look(item.keys)
        look = looks[item.keys]
        found.append(look.into_segment(item.piece) if item.piece is not None else look.into_file(SHARED.disk, item.path))
    return found


class _Look:
    """Looks for some keys."""

    def __init__(self, keys: frozenset[bytes]) -> None:
        self._selection = BatchSelection(SelectionRules(drops=KeyMatch(exact=keys)))
        self._search = KeySearch(keys)

    def into_segment(self, piece: SegmentPiece) -> Traces:
        found = Traces()
        segment = piece.open()
        try:
            for chunk in ChunkReader().read(segment, piece.start, end=piece.end):
                found += Traces(record_keys=self._selection.count_gone(chunk)) + self._quoted(chunk)
        finally:
            segment.forget()
        return found

    def into_file(self, disk: Disk, path: str) -> Traces:
        content = side_content(disk, path)
        if content is not None:
            return Traces(look_alikes=len(self._search.hits(content)))
        found = Traces(raw=self._count(disk, path))
        return found + self._in_batches(disk, path) if ".log" in path.rpartition("/")[2] else found

    def _quoted(self, chunk: Chunk) -> Traces:
        """What of the keys is in the records of a chunk besides being their key."""
        if not self._search:
            return Traces()
        headers = chunk.headers
        start = int(headers.position[0])
        positions, sizes = headers.position - start, headers.size_bytes
        plain = are_plain(headers)
        is_control = _are_control(headers)
        hits = self._search.hits(bytes(chunk.buffer[start : headers.end_position]))
        rows = [int(np.searchsorted(positions, hit.position, "right")) - 1 for hit in hits]
        found = Traces()
        for hit, row in zip(hits, rows, strict=True):
            # The numbers of a header, compressed bytes, or a marker.
            end = int(positions[row]) + (HEADER_SIZE if plain[row] else int(sizes[row]))
            found += Traces(look_alikes=int(hit.position + hit.size <= end))
        for row in sorted({*rows, *np.flatnonzero(~plain).tolist()}):
            if not is_control[row]:
                found += self._in_records(chunk.buffer, headers[row : row + 1])
        return found

    def _in_records(self, buffer: memoryview, one: BatchHeaders) -> Traces:
        """Of one batch, decompressed: in which parts of its records the keys are."""
        if int(one.magic[0]) == MAGIC_V2:
            scanned = scan_records(RecordBatch(buffer, int(one.position[0]), int(one.size_bytes[0])))
            payload, slices = bytes(scanned.payload), scanned.slices
        else:
            messages = flatten(buffer, one, check_crcs=False)
            payload, slices = bytes(messages.payload), messages.slices
        hits = np.array(self._search.hits(payload), np.int64).reshape(-1, 2)
        keys, places = _slices_at(hits, slices[0], slices[1])
        is_own = keys & (slices[0][places] == hits[:, 0]) & (slices[1][places] == hits[:, 1])
        in_values, _ = _slices_at(hits, slices[2], slices[3])
        return Traces(quoted_in_values=int(np.count_nonzero(in_values)), quoted_elsewhere=int(np.count_nonzero(~is_own & ~in_values)))

    def _in_batches(self, disk: Disk, path: str) -> Traces:
        """The batches that are found in a file of whatever state. What is not compressed was searched as bytes already."""
        found = Traces()
        reader = SalvageReader(disk, path)
        try:
            walked = walk_segment(reader, 0, None)
            for chunk in (chunk for run in walked.runs for chunk in _chunks(reader, run)):
                found += Traces(record_keys=self._selection.count_gone(chunk))
                for row in np.flatnonzero(~are_plain(chunk.headers) & ~_are_control(chunk.headers)).tolist():
                    inside = self._in_records(chunk.buffer, chunk.headers[row : row + 1])
                    found += Traces(raw=inside.quoted_in_values + inside.quoted_elsewhere)
            heads = [reader.read(start, HEADER_SIZE) for start, _ in walked.bad]
            torn = [head for head in heads if len(head) == HEADER_SIZE and head[16] == MAGIC_V2 and HEADER.unpack(head)[5] & CODEC_MASK]
            found += Traces(unreadable=len(torn))
        except TidelogError:
            found += Traces(unreadable=1)
        finally:
            reader.close()
        return found

    def _count(self, disk: Disk, path: str) -> int:
        """How often keys are in a file, read a piece at a time; pieces overlap, so that what lies across two is seen."""
        if not self._search:
            return 0
        fd = disk.open(path)
        try:
            position = found = 0
            held = b""
            while data := disk.read(fd, _READ_BYTES, position):
                window = held + data
                found += sum(1 for hit in self._search.hits(window) if hit.position + hit.size > len(held))
                held = window[max(0, len(window) - self._search.longest + 1) :]
                position += len(data)
            return found
        finally:
            disk.close(fd)


def _are_control(headers: BatchHeaders) -> NDArray[np.bool_]:
    control: NDArray[np.bool_] = (headers.attributes & CONTROL_BIT > 0) & (headers.magic == MAGIC_V2)
    return control


def _slices_at(
    hits: NDArray[np.int64], starts: NDArray[np.int32], lengths: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """For each occurrence whether it lies within a slice, and the place of that; slices follow each other, a length of -1 is a null."""
    there = np.flatnonzero(lengths >= 0)
    if len(there) == 0 or len(hits) == 0:
        return np.zeros(len(hits), np.bool_), np.zeros(len(hits), np.int64)
    places = there[np.maximum(np.searchsorted(starts[there], hits[:, 0], "right") - 1, 0)]
    first, size = starts[places].astype(np.int64), lengths[places]
    return (first <= hits[:, 0]) & (hits[:, 0] + hits[:, 1] <= first + size), places


def _chunks(reader: SalvageReader, run: Run) -> Iterator[Chunk]:
    """The batches of a run, a piece at a time."""
    position, size = run.position, _READ_BYTES
    while position < run.end_position:
        view = memoryview(bytearray(reader.read(position, min(size, run.end_position - position))))
        headers = walk_headers(view)
        if len(headers):
            yield Chunk(view, headers, position)
            position, size = position + headers.end_position, _READ_BYTES
        elif len(view) < size:
            return
        else:
            size *= 2  # a batch that is larger
