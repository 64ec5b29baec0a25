"""Which partition a record goes to, as Kafka's clients choose it.

A key goes where its murmur2 says, so that one key is always in one partition, whoever writes it. Records without a key stay on one
partition until about a batch of them is there, then go on to another at random: batches fill up, and all partitions get the same in the
long run (Kafka's uniform sticky partitioner).
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidelog.record.hashing import partitions_for_keys
from tidelog.record.kernel.hashing import partition_for_key

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_STICKY_BYTES = 16384


class Partitioner:
    """May be shared between threads: a race only means that a partition is left a little sooner or later."""

    __slots__ = ("_current", "_left_bytes", "_random", "count", "here", "sticky_bytes")

    def __init__(self, count: int, here: Sequence[int], random: Random, sticky_bytes: int = DEFAULT_STICKY_BYTES) -> None:
        self.count = count
        """All partitions of the topic, by which keys are placed."""
        self.here = tuple(here)
        """Those that records without a key can go to."""
        self.sticky_bytes = sticky_bytes
        self._random = random
        self._current = -1
        self._left_bytes = 0

    def partition(self, key: bytes | None, size_bytes: int) -> int:
        """Of one record, whose key and value have about so many bytes."""
        if key is not None:
            if self.count == 1:
                return 0
            return partition_for_key(key, self.count)
        return self.sticky(size_bytes)

    def sticky(self, size_bytes: int) -> int:
        """Of one record without a key."""
        if self._left_bytes <= 0:
            self._current = self._another()
            self._left_bytes = self.sticky_bytes
        self._left_bytes -= size_bytes
        return self._current

    def partitions(self, keys: "pa.Array | Sequence[bytes | None]", sizes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Of many records. Those without a key go on where the last call has stopped."""
        found = partitions_for_keys(keys, self.count)
        keyless = _nulls(keys)
        if keyless.any():
            sizes = sizes[keyless]
            # How often a partition is full before each record: where the bytes before it pass another multiple.
            before = np.cumsum(sizes) - sizes + (self.sticky_bytes - self._left_bytes if self._current >= 0 else 0)
            turns, of_record = np.unique(before // self.sticky_bytes, return_inverse=True)
            places = []
            for turn in turns.tolist():
                if turn > 0 or self._current < 0:
                    self._current = self._another()
                places.append(self._current)
            found[keyless] = np.array(places, np.int32)[of_record]
            self._left_bytes = -int(before[-1] + sizes[-1]) % self.sticky_bytes
        return found

    def _another(self) -> int:
        others = [partition for partition in self.here if partition != self._current] or self.here
        return others[int(self._random.random() * len(others))]


def _nulls(keys: "pa.Array | Sequence[bytes | None]") -> NDArray[np.bool_]:
    if isinstance(keys, (list, tuple)):
        return np.fromiter((key is None for key in keys), np.bool_, len(keys))
    nulls: NDArray[np.bool_] = keys.is_null().to_numpy(zero_copy_only=False)  # type: ignore[union-attr]
    return nulls
