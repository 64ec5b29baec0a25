"""Looks on while the figures of a topic's segments are gathered: sizes by powers of two, times, keys. Nothing is read for it."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tidelog.record.headers import BatchHeaders
from tidelog.report.key_sketch import KeySketch
from tidelog.report.throughput import Throughput


class TopicWatch:
    """A `tidelog.inspection.stats.Watcher`."""

    def __init__(self, topic: str, throughput: Throughput) -> None:
        self.batch_sizes: Counter[int] = Counter()
        self.key_sizes: Counter[int] = Counter()
        self.value_sizes: Counter[int] = Counter()
        self.keys = KeySketch()
        self._topic = topic
        self._throughput = throughput

    def batches(self, headers: BatchHeaders, counts: NDArray[np.int64]) -> None:
        """See `Watcher`."""
        count_sizes(self.batch_sizes, headers.size_bytes)
        self._throughput.add(self._topic, headers.max_timestamp_ms, counts, headers.size_bytes)

    def records(
        self,
        source: memoryview,
        key_starts: NDArray[np.int32],
        key_lengths: NDArray[np.int32],
        value_lengths: NDArray[np.int32],
        hashes: NDArray[np.uint64],
    ) -> None:
        """See `Watcher`."""
        count_sizes(self.key_sizes, key_lengths[key_lengths >= 0])
        count_sizes(self.value_sizes, value_lengths[value_lengths >= 0])
        self.keys.add(source, key_starts, key_lengths, hashes)


def count_sizes(counts: Counter[int], sizes: NDArray[np.int64] | NDArray[np.int32]) -> None:
    """Add sizes to their power of two: 0, 1, 2 to 3, 4 to 7, by the smallest of each."""
    exponents, found = np.unique(np.frexp(sizes.astype(np.float64))[1], return_counts=True)
    for exponent, count in zip(exponents.tolist(), found.tolist(), strict=True):
        counts[1 << exponent - 1 if exponent else 0] += count
