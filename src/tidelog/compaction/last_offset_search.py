"""Find the last offset of every key of a bucket, and with it the records that survive.

The entries of the dirty part are put into a table piece by piece, in the order of the log, so that the last one of a key stays. Then those
of the clean part are looked up: they survive if no dirty record has their key. A bucket is as large as its number makes it: whoever plans
chooses enough of them, and the table grows with the keys that are really distinct.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.kept_offsets import Offsets, sorted_offsets, write_kept
from tidelog.compaction.key_entries import WORDS, Entries, KeyFile
from tidelog.disk.disk import Disk
from tidelog.record.kernel import offset_map as kernel
from tidelog.record.views import view

_FIRST_SLOTS = 1 << 16
_LOAD_FACTOR = 0.75


class SearchedBucket(NamedTuple):
    """What became of a bucket."""

    path: str
    """Of the offsets that survive."""
    keys: int
    """Distinct ones of the dirty part."""
    kept: int
    """Records that survive, of the clean part too."""


def search_bucket(
    disk: Disk, files: Sequence[str], firsts: Sequence[int], bucket: int, uncounted: NDArray[np.int64] | None, path: str
) -> SearchedBucket:
    """Look through one bucket of all pieces of a log, and write to `path` which offsets survive.

    `files` has the entries of each piece, in the order of the log, and `firsts` the lowest offset that each may have. `uncounted` names
    batches whose keys supersede nothing, by their base and last offsets.
    """
    asking: list[Entries] = []
    putting: list[Entries] = []
    for name in files:
        entries = KeyFile(disk, name)
        try:
            putting.append(entries.dirty(bucket))
            asking.append(entries.clean(bucket))
        finally:
            entries.close()
    # At most twice what the entries take, and never larger than a bucket is planned to be; a table that grows is filled twice.
    table = LastOffsetTable(max(_FIRST_SLOTS, int(sum(map(len, putting)) / _LOAD_FACTOR) + 1))
    for dirty in putting:
        if uncounted is not None and len(dirty):
            is_uncounted = _within(dirty[:, 2].astype(np.int64), uncounted)
            asking.append(dirty[is_uncounted])
            dirty = dirty[~is_uncounted]
        table.put(dirty)
    kept = [table.offsets()]
    for entries_asking in asking:
        if len(entries_asking):
            offsets = entries_asking[:, 2].astype(np.int64)
            kept.append(offsets[offsets >= table.get(entries_asking)])
    survivors = sorted_offsets(kept)
    edges = np.searchsorted(survivors, np.array([*firsts[1:], np.iinfo(np.int64).max], np.int64))
    starts = [0, *edges[:-1].tolist()]
    write_kept(disk, path, [survivors[start:end] for start, end in zip(starts, edges.tolist(), strict=True)], firsts)
    return SearchedBucket(path, table.keys, len(survivors))


class LastOffsetTable:
    """The table of an offset map, with keys that are hashed already, and no limit but the memory."""

    def __init__(self, slots: int = _FIRST_SLOTS) -> None:
        self._make(slots)

    def _make(self, slots: int) -> None:
        self._slots = slots
        self._limit = int(slots * _LOAD_FACTOR)
        self._table = np.zeros(WORDS * slots, np.uint64)
        self.keys = 0

    def put(self, entries: Entries) -> None:
        """Note offsets; a key that is there gets the new one."""
        if len(entries) > 4 * (self._limit - self.keys):
            self._grow(self.keys + len(entries) // 4)
        hashes, offsets = _columns(entries)
        lengths = np.zeros(len(offsets), np.int32)
        done = 0
        while done < len(offsets):
            taken, self.keys = kernel.put_hashes(
                view(self._table),
                self._slots,
                view(hashes[2 * done :]),
                view(lengths[done:]),
                view(offsets[done:]),
                self.keys,
                self._limit,
            )
            done += taken
            if done < len(offsets):
                self._grow(2 * self.keys)

    def get(self, entries: Entries) -> Offsets:
        """The offset of each key; -1 where there is none."""
        hashes, offsets = _columns(entries)
        found = np.empty(len(offsets), np.int64)
        if len(offsets):
            kernel.get_hashes(view(self._table), self._slots, view(hashes), view(np.zeros(len(offsets), np.int32)), view(found))
        return found

    def offsets(self) -> Offsets:
        """The last offset of every key, in no order."""
        noted = self._table[2::WORDS]
        found: Offsets = noted[noted != 0].astype(np.int64) - 1
        return found

    def _grow(self, keys: int) -> None:
        rows = self._table.reshape(-1, WORDS)
        old = rows[rows[:, 2] != 0][:, [1, 0, 2]]
        old[:, 2] -= np.uint64(1)
        self._make(max(2 * self._slots, int(keys / _LOAD_FACTOR) + 1))
        self.put(old)


def _columns(entries: Entries) -> tuple[NDArray[np.uint64], Offsets]:
    """Hashes and offsets. The words of a hash change places: entries come about in the order of the first one.

    A table that is filled in the order of its slots has all of them at one end until the rest is there.
    """
    return np.ascontiguousarray(entries[:, 1::-1]).reshape(-1), entries[:, 2].astype(np.int64)


def _within(offsets: Offsets, ranges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which offsets lie in one of these ranges, which rise and do not overlap; both ends belong to them."""
    places = np.searchsorted(ranges[:, 0], offsets, side="right") - 1
    found: NDArray[np.bool_] = (places >= 0) & (offsets <= ranges[np.maximum(places, 0), 1])
    return found
