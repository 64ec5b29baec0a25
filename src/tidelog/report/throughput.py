"""How much arrived when: a histogram over time that needs no range beforehand, and no more than some thousand buckets.

It begins with buckets of a millisecond. When there are too many, pairs, tens or whole hours of them become one: each width is a multiple
of the one before, beyond the table ten times as wide. A batch counts with all of its records at its newest timestamp. Timestamps are what
producers said, so a few may lie years away from all others, or ages: these would squeeze everything else into one bar, and are counted
apart instead.
"""

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.report.facts import Series, ThroughputFacts

WIDTHS_MS: Final = (
    1, 10, 100, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000,
    2_419_200_000, 31_449_600_000, 314_496_000_000,
)  # fmt: skip
MOST_BUCKETS: Final = 4096
MOST_BARS: Final = 96
_SERIES: Final = 5
_TAIL: Final = 0.005
_FAR: Final = 4
"""How many times longer everything must be than nearly everything for the tails to be counted apart."""

Int64s = NDArray[np.int64]


class Throughput:
    """Takes batches of any topic, in any order."""

    def __init__(self) -> None:
        self.untimed_records = 0
        self._width = 0
        self._records: Counter[tuple[str, int]] = Counter()
        self._bytes: Counter[tuple[str, int]] = Counter()
        self._topics: set[str] = set()

    def add(self, topic: str, timestamps_ms: Int64s, counts: Int64s, sizes: Int64s) -> None:
        """Some batches of a topic."""
        timed = timestamps_ms >= 0
        if not timed.all():
            self.untimed_records += int(counts[~timed].sum())
            timestamps_ms, counts, sizes = timestamps_ms[timed], counts[timed], sizes[timed]
        buckets, places = np.unique(timestamps_ms // width_ms(self._width), return_inverse=True)
        records, size_bytes = np.zeros(len(buckets), np.int64), np.zeros(len(buckets), np.int64)
        np.add.at(records, places, counts)
        np.add.at(size_bytes, places, sizes)
        for bucket, count, size in zip(buckets.tolist(), records.tolist(), size_bytes.tolist(), strict=True):
            self._records[topic, bucket] += count
            self._bytes[topic, bucket] += size
        self._topics.add(topic)
        while len(self._records) > MOST_BUCKETS + MOST_BARS * len(self._topics):
            self._coarsen()

    def facts(self) -> ThroughputFacts | None:
        """What is drawn; None if nothing has a time."""
        if not self._records:
            return None
        first, last = self._window()
        while last - first >= MOST_BARS:
            ratio = self._coarsen()
            first, last = first // ratio, last // ratio
        names = self._largest(first, last)
        series = []
        for name in [*names, None]:
            own = {topic for topic, _ in self._records if topic == name or (name is None and topic not in names)}
            if own:
                series.append(Series(name, self._row(self._records, own, first, last), self._row(self._bytes, own, first, last)))
        inside = sum(map(sum, (one.records for one in series)))
        width = width_ms(self._width)
        return ThroughputFacts(first * width, width, tuple(series), self._records.total() - inside, self.untimed_records)

    def _coarsen(self) -> int:
        """The next width: how many buckets become one."""
        self._width += 1
        ratio = width_ms(self._width) // width_ms(self._width - 1)
        for name in ("_records", "_bytes"):
            wider: Counter[tuple[str, int]] = Counter()
            for (topic, bucket), count in getattr(self, name).items():
                wider[topic, bucket // ratio] += count
            setattr(self, name, wider)
        return ratio

    def _window(self) -> tuple[int, int]:
        """The first and the last bucket that are drawn."""
        at: Counter[int] = Counter()
        for (_, bucket), count in self._records.items():
            at[bucket] += count
        buckets = sorted(at)
        sums = np.cumsum([at[bucket] for bucket in buckets])
        low = buckets[int(np.searchsorted(sums, sums[-1] * _TAIL, side="right"))] if sums[-1] else buckets[0]
        high = buckets[int(np.searchsorted(sums, sums[-1] * (1 - _TAIL)))] if sums[-1] else buckets[-1]
        is_far = buckets[-1] - buckets[0] + 1 > _FAR * (high - low + 1) and buckets[-1] - buckets[0] >= MOST_BARS
        return (low, high) if is_far else (buckets[0], buckets[-1])

    def _largest(self, first: int, last: int) -> list[str]:
        sizes: Counter[str] = Counter()
        for (topic, bucket), size in self._bytes.items():
            if first <= bucket <= last:
                sizes[topic] += size
        return [name for name, _ in sizes.most_common(_SERIES)]

    @staticmethod
    def _row(counts: Counter[tuple[str, int]], topics: set[str], first: int, last: int) -> tuple[int, ...]:
        return tuple(sum(counts[topic, bucket] for topic in topics) for bucket in range(first, last + 1))


def width_ms(place: int) -> int:
    """The width of a bucket: of the table, or ten times as wide for each place beyond it."""
    beyond = place - len(WIDTHS_MS) + 1
    return WIDTHS_MS[place] if beyond <= 0 else WIDTHS_MS[-1] * int(10**beyond)
