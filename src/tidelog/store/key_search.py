"""Find the bytes of keys anywhere in a buffer: of a few keys one after the other, of many in one go.

Of many keys the first four bytes are looked for at every position at once, by two tables; only where both agree the keys are compared. So
the time does not grow with how many keys there are.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

SHORTEST_SEARCHED = 4
"""Of shorter keys the bytes are everywhere by chance."""
_FEW = 8


class Hit(NamedTuple):
    """A key that was found."""

    position: int
    size: int


class KeySearch:
    """Made for some keys; those that are too short are left out."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = frozenset(key for key in keys if len(key) >= SHORTEST_SEARCHED)
        self._lengths = sorted({len(key) for key in self._keys})
        self.longest = self._lengths[-1] if self._lengths else 0
        self._heads, self._tails = np.zeros(1 << 16, np.bool_), np.zeros(1 << 16, np.bool_)
        for key in self._keys:
            self._heads[key[0] << 8 | key[1]] = self._tails[key[2] << 8 | key[3]] = True

    def __bool__(self) -> bool:
        return bool(self._keys)

    def hits(self, data: bytes) -> list[Hit]:
        """Where keys are, in order. A key does not begin within itself."""
        if len(self._keys) <= _FEW:
            return sorted(Hit(at, len(key)) for key in self._keys for at in _occurrences(data, key))
        if len(data) < SHORTEST_SEARCHED:
            return []
        each = np.frombuffer(data, np.uint8).astype(np.uint16)
        pairs = each[:-1] << 8 | each[1:]
        candidates = np.flatnonzero(self._heads[pairs[:-2]] & self._tails[pairs[2:]]).tolist()
        return [Hit(at, size) for at in candidates for size in self._lengths if data[at : at + size] in self._keys]


def _occurrences(data: bytes, key: bytes) -> Iterator[int]:
    at = data.find(key)
    while at >= 0:
        yield at
        at = data.find(key, at + len(key))
