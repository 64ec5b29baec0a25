"""Counting: batches by their headers, records of data one piece after the other, into the figures of a segment."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidelog.disk.disk import Disk
from tidelog.errors import TidelogError
from tidelog.inspection.distinct_keys import SECRET, add_hashes
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.inspection.walk_parts import Piece
from tidelog.record.batch import RecordBatch
from tidelog.record.compression import Compression
from tidelog.record.headers import FIELDS, BatchHeaders
from tidelog.record.kernel import hashing
from tidelog.record.layout import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from tidelog.record.legacy import flatten
from tidelog.record.plain_records import PlainRecords, are_plain
from tidelog.record.scanning import scan_records
from tidelog.record.views import view

_LOW, _HIGH = int.from_bytes(SECRET[:8], "little"), int.from_bytes(SECRET[8:], "little")


class Watcher(Protocol):
    """Looks on while figures are gathered, for whoever wants more than sums: distributions, times, keys. Nothing need be read twice."""

    def batches(self, headers: BatchHeaders, counts: NDArray[np.int64]) -> None:
        """Some batches, and how many records each has. The arrays are used again afterwards."""

    def records(
        self,
        source: memoryview,
        key_starts: NDArray[np.int32],
        key_lengths: NDArray[np.int32],
        value_lengths: NDArray[np.int32],
        hashes: NDArray[np.uint64],
    ) -> None:
        """Some records of data, where records are looked at: where their keys lie, a length of -1 for null, and hashes of the keys."""


class Counting:
    """Adds what lies in pieces of one segment to its figures."""

    def __init__(self, figures: SegmentStats, disk: Disk, fd: int, watcher: Watcher | None) -> None:
        self.figures = figures
        self.disk = disk
        self.fd = fd
        self.watcher = watcher
        self.plain = PlainRecords()

    def take(self, piece: Piece) -> None:
        """Count batches, and their records if the figures have a place for these."""
        headers, figures = piece.headers, self.figures
        sizes, attributes, counts = headers.size_bytes, headers.attributes, np.maximum(headers.count, 0)
        if (headers.count < 0).any():
            counts = counts.copy()
            for row in np.flatnonzero(headers.count < 0).tolist():
                counts[row] = self._looked_into(piece, row)
        is_v2 = headers.magic >= 2
        is_control = is_v2 & ((attributes & CONTROL_BIT) != 0)
        figures.size_bytes += int(sizes.sum())
        figures.batches += len(headers)
        figures.markers += int(counts[is_control].sum())
        figures.records += int(counts.sum()) - int(counts[is_control].sum())
        figures.transactional_batches += int(np.count_nonzero(is_v2 & ((attributes & TRANSACTIONAL_BIT) != 0)))
        firsts = np.where(headers.base_offset < 0, headers.last_offset, headers.base_offset)
        self._least("first_offset", firsts)
        self._most("last_offset", headers.last_offset)
        has_horizon = is_v2 & ((attributes & DELETE_HORIZON_BIT) != 0)  # which stands in the place of the first record's time
        self._least("first_timestamp_ms", headers.base_timestamp_ms[(headers.base_timestamp_ms >= 0) & ~has_horizon])
        self._most("last_timestamp_ms", headers.max_timestamp_ms[headers.max_timestamp_ms >= 0])
        self._least("smallest_batch_bytes", sizes)
        self._most("largest_batch_bytes", sizes)
        for codec, count in enumerate(np.bincount(headers.compression, minlength=8).tolist()):
            if count:
                figures.codecs[Compression(codec).name.lower() if codec < 5 else f"unknown {codec}"] += count
        for magic, count in zip(*(column.tolist() for column in np.unique(headers.magic, return_counts=True)), strict=True):
            figures.magics[magic] += count
        if self.watcher is not None:
            self.watcher.batches(headers, counts)
        if figures.keys is not None:
            self._take_records(piece, is_control)

    def _least(self, name: str, values: NDArray[np.int64]) -> None:
        if len(values):
            known = getattr(self.figures, name)
            setattr(self.figures, name, int(values.min()) if known is None else min(known, int(values.min())))

    def _most(self, name: str, values: NDArray[np.int64]) -> None:
        if len(values):
            known = getattr(self.figures, name)
            setattr(self.figures, name, int(values.max()) if known is None else max(known, int(values.max())))

    def _looked_into(self, piece: Piece, row: int) -> int:
        """How many messages a compressed one of an old format holds."""
        buffer, one = self._bytes_of(piece, row)
        try:
            return len(flatten(buffer, one, check_crcs=False).offsets)
        except TidelogError:
            self.figures.damaged_bytes += int(one.size_bytes[0])
            return 0

    def _bytes_of(self, piece: Piece, row: int) -> tuple[memoryview, BatchHeaders]:
        one = piece.headers[row : row + 1]
        if piece.view is not None:
            return piece.view, one
        position, size = int(one.position[0]) + piece.shift, int(one.size_bytes[0])
        flat = np.array([int(getattr(one, name)[0]) for name in FIELDS], np.int64)
        flat[0] = 0
        return memoryview(self.disk.read(self.fd, size, position)), BatchHeaders(flat, 1, 0, 1, size)

    def _take_records(self, piece: Piece, is_control: NDArray[np.bool_]) -> None:
        plain = are_plain(piece.headers) if piece.view is not None else np.zeros(len(piece.headers), np.bool_)
        edges = [0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(plain)]
        for first, end in pairwise(edges):
            if plain[first]:
                try:
                    self.plain.scan(piece.view, piece.headers[first:end])  # type: ignore[arg-type]
                except TidelogError:
                    self._one_by_one(piece, range(first, end), is_control)
                else:
                    self._count(piece.view, self.plain.key_starts, self.plain.key_lengths, self.plain.value_lengths)  # type: ignore[arg-type]
            else:
                self._one_by_one(piece, range(first, end), is_control)

    def _one_by_one(self, piece: Piece, rows: Iterable[int], is_control: NDArray[np.bool_]) -> None:
        for row in rows:
            if is_control[row]:
                continue
            buffer, one = self._bytes_of(piece, row)
            try:
                for payload, slices in _slices_of(buffer, one):
                    self._count(payload, *(np.ascontiguousarray(slices[at]) for at in (0, 1, 3)))
            except TidelogError:
                self.figures.damaged_bytes += int(one.size_bytes[0])

    def _count(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], value_lengths: NDArray[np.int32]) -> None:
        figures = self.figures
        assert figures.keys is not None
        assert figures.tombstones is not None
        assert figures.null_keys is not None
        has_key = lengths >= 0
        figures.null_keys += len(lengths) - int(np.count_nonzero(has_key))
        figures.tombstones += int(np.count_nonzero(has_key & (value_lengths < 0)))
        figures.key_bytes = (figures.key_bytes or 0) + int(lengths[has_key].sum())
        figures.value_bytes = (figures.value_bytes or 0) + int(value_lengths[value_lengths >= 0].sum())
        if len(lengths) == 0 or len(source) == 0:
            return
        hashes = np.empty(2 * len(lengths), np.uint64)
        hashing.siphash128_slices(
            source, view(np.ascontiguousarray(starts)), view(np.ascontiguousarray(lengths)), _LOW, _HIGH, view(hashes)
        )
        add_hashes(figures.keys, hashes[::2][has_key])
        if self.watcher is not None:
            self.watcher.records(source, starts, lengths, value_lengths, hashes[::2])


def _slices_of(buffer: memoryview, one: BatchHeaders) -> Iterator[tuple[memoryview, NDArray[np.int32]]]:
    if int(one.magic[0]) < 2:
        messages = flatten(buffer, one, check_crcs=False)
        yield messages.payload, messages.slices
    else:
        scanned = scan_records(RecordBatch(buffer, int(one.position[0]), int(one.size_bytes[0])))
        yield scanned.payload, scanned.slices
