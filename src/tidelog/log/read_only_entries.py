"""Entries of equal size in a file that somebody else writes to, read through `pread`.

The owner cuts a preallocated index when its segment is rolled; a map of what was cut off would kill the process, a read only comes back
shorter. How many entries there are nobody says: behind them lie zeros as long as the segment is active, and behind a truncation by a
broker old entries may lie. So the end is looked for.
"""

from bisect import bisect_left
from collections.abc import Callable

from tidelog.disk.file_pool import FilePool
from tidelog.log.read_only_files import KnownFile

BLOCK_ENTRIES = 512
"""Read at once when a search has come down to so many."""


class EntryFile:
    """Entries of equal size in a file that may grow, be cut, or hold zeros behind them."""

    __slots__ = ("_around", "_count", "_disk", "entry_size", "file")

    def __init__(self, pool: FilePool, file: KnownFile, entry_size: int) -> None:
        self._disk = pool.disk
        self.file = file
        self.entry_size = entry_size
        self._count = 0
        self._around: bytes | None = None
        """The last entry and what lies behind it, as they were when the end was looked for."""

    def read(self, slot: int, count: int = 1) -> bytes:
        """Whole entries; fewer where the file ends."""
        opened = self.file.open()
        data = self._disk.read(opened.fd, count * self.entry_size, slot * self.entry_size)
        return data[: len(data) - len(data) % self.entry_size]

    def count(self, counts: Callable[[bytes], bool]) -> int:
        """How many entries there are, up to the first that does not count: that is zeros, or disagrees with the log."""
        if not self.file.is_there:
            return 0
        if self._around is None or self._look_around() != self._around:
            opened = self.file.open()
            slots = self._disk.size(opened.fd) // self.entry_size
            used = bisect_left(range(slots), True, key=lambda slot: not any(self.read(slot)))
            if used and not counts(self.read(used - 1)):
                used = bisect_left(range(used), True, key=lambda slot: not counts(self.read(slot)))
            self._count = used
            self._around = self._look_around()
        return self._count

    def is_cut(self, count: int) -> bool:
        """Whether nothing lies behind so many entries, as the owner leaves a segment that is rolled or closed."""
        if not self.file.is_there:
            return False
        opened = self.file.open()
        return self._disk.size(opened.fd) == count * self.entry_size

    def _look_around(self) -> bytes:
        return self.read(max(0, self._count - 1), 2)

    def narrow(self, low: int, high: int, is_beyond: Callable[[bytes], bool]) -> tuple[int, bytes]:
        """A block of entries in which a search ends, with its first slot: the entry before it, if any, is not beyond the target."""
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            entry = self.read(middle)
            if not entry or is_beyond(entry):
                high = middle
            else:
                low = middle
        return low, self.read(low, high - low + 1)
