"""Which offsets of a piece of a log survive, as a list: what the search through the buckets says to the rewriting.

A file holds what one bucket says about every piece of its log, a run for each piece, empty if nothing of it survives there:

    u64     pieces
    u64[]   where the run of each piece ends, in bytes behind these numbers
    runs    u8 how it is written, then the offsets relative to the first of the piece: a bit each, or numbers of 32 or 64 bits,
            whichever is shortest

A record has one offset and one key, and so one bucket. The runs of all buckets together are the offsets that survive.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidelog.disk.disk import Disk

_BITS, _NUMBERS_32, _NUMBERS_64 = b"\x01", b"\x02", b"\x03"

_FLAGS_AN_OFFSET = 64
"""A flag is a byte: so the flags take no more than eight times the memory of the offsets."""

Offsets = NDArray[np.int64]


class KeptOffsets:
    """The last offsets of keys, as a sorted list of those that survive. It is as good as an offset map for the records of its piece."""

    def __init__(self, offsets: Offsets, latest_offset: int) -> None:
        self._offsets = offsets
        self.latest_offset = latest_offset
        self.is_searched_whole = False

    def survivors(self, first: int, end: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """See `LastOffsets`."""
        out[: (max(0, end - first) + 7) // 8] = 0
        start, stop = np.searchsorted(self._offsets, (first, end))
        _set_bits(out, self._offsets[start:stop] - first)
        return out

    def last_offsets(
        self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: Offsets
    ) -> NDArray[np.int64]:
        """See `LastOffsets`: -1 for a record that survives, more than any offset for one that does not."""
        found = np.full(len(offsets), np.iinfo(np.int64).max, np.int64)
        if len(self._offsets):
            places = np.minimum(np.searchsorted(self._offsets, offsets), len(self._offsets) - 1)
            found[self._offsets[places] == offsets] = -1
        return found


def write_kept(disk: Disk, path: str, runs: Sequence[Offsets], firsts: Sequence[int]) -> None:
    """Write what a bucket says: for each piece the offsets that survive, sorted, and the first offset that the piece may have."""
    packed = [_packed(offsets - first) if len(offsets) else b"" for offsets, first in zip(runs, firsts, strict=True)]
    ends = np.cumsum([len(run) for run in packed], dtype=np.uint64)
    fd = disk.create(path)
    try:
        disk.write(fd, [len(packed).to_bytes(8, "little"), ends.tobytes(), b"".join(packed)], 0)
    finally:
        disk.close(fd)


def read_kept(disk: Disk, paths: Sequence[str], first_piece: int, firsts: Sequence[int]) -> Offsets:
    """What all buckets say about pieces one behind the other, from `first_piece` on, whose first offsets are given."""
    found: list[Offsets] = []
    for path in paths:
        fd = disk.open(path)
        try:
            pieces = int.from_bytes(disk.read(fd, 8, 0), "little")
            before = 1 if first_piece else 0
            ends = np.frombuffer(disk.read(fd, 8 * (len(firsts) + before), 8 + 8 * (first_piece - before)), np.uint64).tolist()
            ends = ends if before else [0, *ends]
            data = memoryview(disk.read(fd, ends[-1] - ends[0], 8 + 8 * pieces + ends[0])) if ends[-1] > ends[0] else memoryview(b"")
        finally:
            disk.close(fd)
        for place, first in enumerate(firsts):
            run = data[ends[place] - ends[0] : ends[place + 1] - ends[0]]
            if len(run):
                found.append(_unpacked(run) + first)
    return sorted_offsets(found)


def sorted_offsets(parts: Sequence[Offsets]) -> Offsets:
    """All offsets in their order; none comes twice. Where they lie close together, which they mostly do, a flag for each is quicker."""
    offsets = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if len(offsets) == 0:
        return offsets
    first, last = int(offsets.min()), int(offsets.max())
    if last - first >= _FLAGS_AN_OFFSET * len(offsets):
        return np.sort(offsets)
    flags = np.zeros(last - first + 1, np.bool_)
    flags[offsets - first] = True
    return np.flatnonzero(flags) + first


def _packed(relative: Offsets) -> bytes:
    span = int(relative[-1]) + 1
    width = 4 if span <= 1 << 32 else 8
    if (span + 7) // 8 <= width * len(relative):
        bits = np.zeros((span + 7) // 8, np.uint8)
        _set_bits(bits, relative)
        return _BITS + bits.tobytes()
    return _NUMBERS_32 + relative.astype(np.uint32).tobytes() if width == 4 else _NUMBERS_64 + relative.astype(np.uint64).tobytes()


def _unpacked(run: memoryview) -> Offsets:
    kind, data = bytes(run[:1]), run[1:]
    if kind == _BITS:
        return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little"))
    return np.frombuffer(data, np.uint32 if kind == _NUMBERS_32 else np.uint64).astype(np.int64)


def _set_bits(bits: NDArray[np.uint8], relative: Offsets) -> None:
    """Set the bits of sorted numbers, the least significant first."""
    if len(relative) == 0:
        return
    places = relative >> 3
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    values = np.left_shift(1, relative & 7).astype(np.uint8)
    bits[places[starts]] |= np.bitwise_or.reduceat(values, starts)
