"""What the keys of a topic are like, in memory that does not grow: how many records each has, and which have the most.

    records per key   a sample of keys, chosen by their hash: of a chosen key every record is counted. When the sample is full, half of
                      it goes by one more bit of the hash. So it stands for all keys, not for all records.
    the hottest       Misra and Gries: a thousand counters; when there are more keys than that, the smallest count is taken off all of
                      them. A count is never too high, and too low by no more than what was taken off.

Keys are told apart by 64 bits of a hash that everybody knows: who wants to can make two that count as one. Nothing is decided by it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.report.facts import HotKey
from tidelog.schema.json_values import bytes_to_json

SAMPLE: Final = 8192
COUNTERS: Final = 1024
SHOWN: Final = 8
_KEY_BYTES: Final = 64

Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]


class KeySketch:
    """Takes keys by their hashes, in any order."""

    def __init__(self, sample: int = SAMPLE, counters: int = COUNTERS) -> None:
        self._sample = sample
        self._counters = counters
        self._level = 0
        """How many low bits of a hash must be zero to be in the sample."""
        self._sampled: tuple[Hashes, Counts] = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._hot: tuple[Hashes, Counts] = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._taken_off = 0
        self._keys: dict[int, bytes] = {}

    def add(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], hashes: Hashes) -> None:
        """Some keys: where they lie in `source`; a length of -1 is no key."""
        with_key = np.flatnonzero(lengths >= 0)
        found, first, counts = np.unique(hashes[with_key], return_index=True, return_counts=True)
        if len(found) == 0:
            return
        self._take_sample(found, counts)
        self._take_hot(found, counts)
        kept = self._hot[0]
        for place in np.flatnonzero(np.isin(found, kept)).tolist():
            word = int(found[place])
            if word not in self._keys:
                row = with_key[first[place]]
                self._keys[word] = bytes(source[starts[row] : starts[row] + min(int(lengths[row]), _KEY_BYTES + 1)])
        if len(self._keys) > 4 * self._counters:
            self._keys = {word: self._keys[word] for word in kept.tolist()}

    def _take_sample(self, found: Hashes, counts: Counts) -> None:
        chosen = found & self._mask() == 0
        hashes, sums = _added(self._sampled, (found[chosen], counts[chosen]))
        while len(hashes) > self._sample and self._level < 63:
            self._level += 1
            left = hashes & self._mask() == 0
            hashes, sums = hashes[left], sums[left]
        self._sampled = hashes, sums

    def _mask(self) -> np.uint64:
        return np.uint64((1 << self._level) - 1)

    def _take_hot(self, found: Hashes, counts: Counts) -> None:
        hashes, sums = _added(self._hot, (found, counts))
        if len(hashes) > self._counters:
            off = int(np.partition(sums, len(sums) - self._counters - 1)[len(sums) - self._counters - 1])
            left = sums > off
            hashes, sums = hashes[left], sums[left] - off
            self._taken_off += off
        self._hot = hashes, sums

    def records_per_key(self) -> dict[int, int]:
        """About how many keys have from so many records on, up to twice as many."""
        exponents, keys = np.unique(np.frexp(self._sampled[1].astype(np.float64))[1] - 1, return_counts=True)
        return {1 << exponent: count << self._level for exponent, count in zip(exponents.tolist(), keys.tolist(), strict=True)}

    def hottest(self) -> tuple[HotKey, ...]:
        """The keys with the most records, as far as it is sure that they have many."""
        hashes, counts = self._hot
        order = np.argsort(-counts, kind="stable")[:SHOWN].tolist()
        sure = [place for place in order if counts[place] > max(1, self._taken_off)]
        return tuple(HotKey(_shown(self._keys[int(hashes[place])]), int(counts[place])) for place in sure)


def _added(one: tuple[Hashes, Counts], other: tuple[Hashes, Counts]) -> tuple[Hashes, Counts]:
    hashes, places = np.unique(np.concatenate((one[0], other[0])), return_inverse=True)
    sums = np.zeros(len(hashes), np.int64)
    np.add.at(sums, places, np.concatenate((one[1], other[1])))
    return hashes, sums


def _shown(key: bytes) -> str | dict[str, str]:
    if len(key) <= _KEY_BYTES:
        return bytes_to_json(key)
    cut = key[:_KEY_BYTES]
    try:
        return f"{cut.decode()} …"
    except UnicodeDecodeError as error:
        # A character that the cut goes through is no reason to take a text for bytes.
        is_cut = error.start >= _KEY_BYTES - 3 and error.reason == "unexpected end of data"
        return f"{cut[: error.start].decode()} …" if is_cut else bytes_to_json(cut)
