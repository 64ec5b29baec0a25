"""The keys of a piece of a log as entries in a file: hash and offset, sorted into buckets by the hash.

This is the first step of a compaction in parts, where no map holds all keys: pieces are hashed by many workers, then each bucket is looked
through for the last offset of its keys (`last_offset_search`), and then the pieces are rewritten (`piece_rewriting`).

    u64     buckets
    u64[]   for each bucket, how many entries of the dirty part it has
    u64[]   for each bucket, how many entries of the clean part it has
    u64[3]  the entries of the dirty part, bucket by bucket, each bucket in the order of the log: two words of hash, offset
    u64[3]  those of the clean part

The hash is SipHash with the secret of the run, which all workers share. Of a key that comes often only the last offset in the piece
matters: as long as that saves something, keys go through a small map first. Not where transactions were aborted: which of their records
count is known only when all pieces were read.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.offset_map import BYTES_PER_ENTRY, OffsetMap, siphash
from tidelog.disk.disk import Disk
from tidelog.record.kernel import buckets as kernel
from tidelog.record.views import view

WORDS = BYTES_PER_ENTRY // 8
_MAP_ENTRIES = 1 << 18
_LEAST_MAP_ENTRIES = 1 << 10
_BYTES_PER_MAP_ENTRY = 16
"""Of a piece. One of few bytes has few keys: emptying a large map for each of ten thousand small segments would be most of their time."""
_ENOUGH_KEYS = _MAP_ENTRIES
_MOST_DISTINCT = 0.6
"""If more of so many keys than that are distinct, the map saves nothing. Asked too soon, a hundred thousand keys look like that too."""
_NO_ENTRIES: NDArray[np.uint64] = np.empty((0, WORDS), np.uint64)

Entries = NDArray[np.uint64]


class KeyEntries:
    """Gathers the entries of one piece. The memory it takes goes with the records of the piece."""

    def __init__(self, secret: bytes, *, combines: bool, piece_bytes: int | None = None) -> None:
        self._secret = secret
        slots = _MAP_ENTRIES if piece_bytes is None else min(_MAP_ENTRIES, max(_LEAST_MAP_ENTRIES, piece_bytes // _BYTES_PER_MAP_ENTRY))
        self._map = OffsetMap(slots * BYTES_PER_ENTRY, secret=secret) if combines else None
        self._put_through = 0
        self._dirty: list[Entries] = []
        self._clean: list[Entries] = []

    def add_dirty(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        """Keys of records, slices that lie within the source; a length of -1 is passed over."""
        while self._map is not None:
            taken = self._map.put_slices(source, starts, lengths, offsets)
            self._put_through += taken
            if taken == len(lengths):
                return
            starts, lengths, offsets = starts[taken:], lengths[taken:], offsets[taken:]
            self.settle(is_full=True)
        self._dirty.append(_entries(source, starts, lengths, offsets, self._secret))

    def add_clean(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        """Keys that only ask whether a later record has superseded them."""
        self._clean.append(_entries(source, starts, lengths, offsets, self._secret))

    def settle(self, *, is_full: bool = False) -> None:
        """Called between chunks, and when the map is full: give it up if it saves nothing."""
        if self._map is None or not (is_full or self._put_through >= _ENOUGH_KEYS):
            return
        saves_nothing = self._map.entries > _MOST_DISTINCT * self._put_through
        if saves_nothing or is_full:
            self._empty_map()
        if saves_nothing:
            self._map = None

    def write(self, disk: Disk, path: str, buckets: int) -> tuple[int, int]:
        """Write the file: how many entries of the dirty and of the clean part it has."""
        self._empty_map()
        parts = [_by_bucket(entries, buckets) for entries in (self._dirty, self._clean)]
        head = np.concatenate([np.array([buckets], np.uint64), *(counts.astype(np.uint64) for _, counts in parts)])
        fd = disk.create(path)
        try:
            disk.write(fd, [view(part.reshape(-1)).cast("B") for part in (head, *(entries for entries, _ in parts)) if part.size], 0)
        finally:
            disk.close(fd)
        return len(parts[0][0]), len(parts[1][0])

    def _empty_map(self) -> None:
        if self._map is not None and self._map.entries:
            self._dirty.append(self._map.put_entries())
            self._map.clear()
            self._put_through = 0


class KeyFile:
    """A file of entries, to read one bucket after the other."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._fd = disk.open(path)
        buckets = int.from_bytes(disk.read(self._fd, 8, 0), "little")
        counts = np.frombuffer(disk.read(self._fd, 16 * buckets, 8), np.uint64).astype(np.int64)
        self._ends = np.cumsum(counts)
        self._start = 8 + 16 * buckets
        self._buckets = buckets

    def dirty(self, bucket: int) -> Entries:
        """The entries of the dirty part."""
        return self._read(bucket)

    def clean(self, bucket: int) -> Entries:
        """The entries of the clean part."""
        return self._read(self._buckets + bucket)

    def close(self) -> None:
        """Let go of the file."""
        self._disk.close(self._fd)

    def _read(self, place: int) -> Entries:
        first, end = int(self._ends[place - 1]) if place else 0, int(self._ends[place])
        if first == end:
            return _NO_ENTRIES
        data = self._disk.read(self._fd, (end - first) * BYTES_PER_ENTRY, self._start + first * BYTES_PER_ENTRY)
        return np.frombuffer(data, np.uint64).reshape(-1, WORDS)


def _entries(
    source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64], secret: bytes
) -> Entries:
    has_key = lengths >= 0
    if not has_key.all():
        starts, lengths, offsets = starts[has_key], lengths[has_key], offsets[has_key]
    entries = np.empty((len(lengths), WORDS), np.uint64)
    if len(lengths):
        hashes = np.empty(2 * len(lengths), np.uint64)
        siphash(source, starts, lengths, secret, hashes)
        entries[:, :2] = hashes.reshape(-1, 2)
        entries[:, 2] = offsets
    return entries


def _by_bucket(blocks: Sequence[Entries], buckets: int) -> tuple[Entries, NDArray[np.int64]]:
    """All entries, those of a bucket together and in the order in which they came, and how many each bucket has."""
    counts = np.zeros(buckets, np.int64)
    if buckets == 1 and len(blocks) == 1:
        counts[0] = len(blocks[0])
        return np.ascontiguousarray(blocks[0]), counts
    flat = [view(np.ascontiguousarray(block).reshape(-1)) for block in blocks]
    for words in flat:
        kernel.count_entries(words, view(counts))
    places = np.cumsum(counts) - counts
    entries = np.empty((int(counts.sum()), WORDS), np.uint64)
    for words in flat:
        kernel.place_entries(words, view(places), view(entries.reshape(-1)))
    return entries, counts
