"""A bit for every offset of the dirty part: set if it is the last one of its key.

In the dirty part a record survives exactly if its own offset is in the map, so that no key has to be hashed a second time. The bits are
kept for a window of offsets, which moves on with the log: the memory does not grow with it.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WINDOW_OFFSETS = 1 << 26
_MAX_WINDOWS = 64  # a map is searched for every window; where records are that far apart keys are looked up instead


class LastOffsets(Protocol):
    """Which offset is the last one of its key: all that a rewriting is told about keys. An offset map knows it, and so does a list."""

    latest_offset: int
    """As far as it judges."""
    is_searched_whole: bool
    """Whether `survivors` takes as long for a small window as for a large one."""

    def survivors(self, first: int, end: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Which offsets of [first, end) are the last of their key: a bit each, least significant first."""

    def last_offsets(
        self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """For records with keys in a buffer, the last offset of their key, -1 where it is not known; what is larger than theirs supersedes.

        The keys are slices that lie within the buffer.
        """


class SurvivorBits:
    """The bits of a window."""

    def __init__(self, last_offsets: LastOffsets, first_offset: int, window_offsets: int = WINDOW_OFFSETS) -> None:
        self._last_offsets = last_offsets
        self._window_offsets = window_offsets
        self._end = last_offsets.latest_offset + 1
        self.is_worth_it = not last_offsets.is_searched_whole or self._end - first_offset <= _MAX_WINDOWS * window_offsets
        size = max(0, min(window_offsets, self._end - first_offset))
        self.bits = np.zeros((size + 7) // 8 + 1 if self.is_worth_it else 1, np.uint8)
        self.first = self.end = 0

    def cover(self, base_offset: int, last_offset: int) -> bool:
        """Make it a window that begins with a batch. False if the batch is too wide for any."""
        end = min(base_offset + self._window_offsets, self._end, base_offset + 8 * len(self.bits))
        if min(last_offset + 1, self._end) > end:
            return False
        self._last_offsets.survivors(base_offset, end, self.bits)
        self.first, self.end = base_offset, end
        return True

    def any_set(self, first_offset: int, last_offset: int) -> bool:
        """Whether an offset of the window from the first to the last survives."""
        first, last = first_offset - self.first, last_offset - self.first
        found = self.bits[first >> 3 : (last >> 3) + 1]
        return bool(found.any()) and bool(np.unpackbits(found, bitorder="little")[first & 7 : last - (first & ~7) + 1].any())
