"""How far each partition goes in one micro-batch, when a limit does not let all of them go to their end. Pure.

Partitions advance together in time. A query with a watermark takes the largest timestamp that it has seen in earlier micro-batches, and
drops what is older than that by more than its delay. So a time is chosen, and every partition goes up to its first record that is later:
whatever comes in the next micro-batches lies behind such a record, and is older than the chosen time only by as much as its own partition
is out of order. Replaying history then drops no more than a reader of one partition would have dropped, whatever their sizes.

The time is the latest that keeps to the limits. Where the records of the next instant alone are too many, the partitions that have them
share what is left, in proportion. Of records without timestamp nothing is known: they are shared out in the same way.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

_FIRST_STEP_MS = 1000
_NEVER_MS = 1 << 63

K = TypeVar("K", bound=Hashable)


class TimedOffset(NamedTuple):
    """A record by its offset and its timestamp."""

    offset: int
    timestamp_ms: int


class Timeline(Protocol):
    """What admission asks of a partition: the part that can be read, from `start` up to `end`."""

    @property
    def start(self) -> int:
        """The first offset of it."""

    @property
    def end(self) -> int:
        """The first offset behind it."""

    def first_after(self, time_ms: int) -> TimedOffset | None:
        """The first record of this part that is later than a time; None if there is none."""

    def bytes_to(self, offset: int) -> int:
        """Bytes that have to be read from `start` up to an offset: a batch is read whole."""

    def batch_end(self, offset: int) -> int:
        """The first offset behind the batch that has this offset."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one micro-batch; None: no limit. An offset counts though compaction took its record, as it does with Kafka's source."""

    max_offsets: int | None = None
    max_bytes: int | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether everything may be read."""
        return self.max_offsets is None and self.max_bytes is None


def admit(timelines: Mapping[K, Timeline], limits: Limits) -> dict[K, int]:
    """Where each partition ends in this micro-batch. At least one gets on, if one can, be the limit as small as it may."""
    return _Admission(timelines, limits).ends()


def should_wait(available: int, *, min_offsets: int | None, waited_ms: int, max_delay_ms: int) -> bool:
    """Whether a micro-batch has to wait for more offsets, as `minOffsetsPerTrigger` and `maxTriggerDelay` say."""
    return min_offsets is not None and available < min_offsets and waited_ms < max_delay_ms


class _Admission(Generic[K]):
    """One choice. Ends are kept for the partitions that have something to read."""

    def __init__(self, timelines: Mapping[K, Timeline], limits: Limits) -> None:
        self._all: dict[K, int] = {key: max(line.start, line.end) for key, line in timelines.items()}
        self._lines: dict[K, Timeline] = {key: line for key, line in timelines.items() if line.start < line.end}
        self._limits = limits
        self._starts: dict[K, int] = {key: line.start for key, line in self._lines.items()}

    def ends(self) -> dict[K, int]:
        whole = {key: line.end for key, line in self._lines.items()}
        if not self._lines or self._fits(whole):
            return self._all
        low, high = self._around_time(whole)
        chosen = self._shared(low, high)
        if chosen == self._starts:
            chosen = self._one_batch(chosen)
        return self._all | chosen

    # By time

    def _around_time(self, whole: dict[K, int]) -> tuple[dict[K, int], dict[K, int]]:
        """Ends for the latest time that keeps to the limits, and for the instant behind it, which does not."""
        heads = [head.timestamp_ms for line in self._lines.values() if (head := line.first_after(-1)) is not None]
        if not heads:
            return self._starts, whole
        low_ms = min(heads) - 1
        low, next_ms = self._ends_at(low_ms, self._starts, None)
        if not self._fits(low):
            return self._starts, low  # so many records without timestamp
        step_ms = _FIRST_STEP_MS
        while True:
            low_ms = max(low_ms, next_ms - 1)  # nothing lies between
            high_ms = low_ms + step_ms
            high, next_ms = self._ends_at(high_ms, low, None)
            if not self._fits(high):
                break
            low_ms, low, step_ms = high_ms, high, 2 * step_ms
        is_next = False
        next_ms = low_ms + 1
        while high_ms - low_ms > 1:
            # In turn with the middle the next instant at which there is anything: where it is too much already, that ends the search.
            middle_ms = min(next_ms, high_ms - 1) if is_next else (low_ms + high_ms) // 2
            middle, found_ms = self._ends_at(middle_ms, low, high)
            if self._fits(middle):
                low, low_ms = middle, min(max(middle_ms, found_ms - 1), high_ms - 1)
                next_ms = found_ms
            else:
                high, high_ms = middle, middle_ms
            is_next = not is_next
        return low, high

    def _ends_at(self, time_ms: int, low: dict[K, int], high: dict[K, int] | None) -> tuple[dict[K, int], int]:
        """Where all records up to a time end, and the time of the next. Between two known times only those that differ are looked at."""
        ends, next_ms = {}, _NEVER_MS
        for key, line in self._lines.items():
            if high is not None and low[key] == high[key]:
                ends[key] = low[key]
                continue
            found = line.first_after(time_ms)
            ends[key] = line.end if found is None else found.offset
            if found is not None:
                next_ms = min(next_ms, found.timestamp_ms)
        return ends, next_ms

    # By shares

    def _shared(self, low: dict[K, int], high: dict[K, int]) -> dict[K, int]:
        """As much of what lies between as the limits leave, for each in proportion to what it has there."""
        spans = {key: high[key] - low[key] for key in low}
        total = sum(spans.values())
        most = total if self._limits.max_offsets is None else min(total, self._limits.max_offsets - self._offsets_to(low))

        def shared(amount: int) -> dict[K, int]:
            ends, passed, given = {}, 0, 0
            for key, span in spans.items():
                passed += span
                share = amount * passed // total - given
                given += share
                ends[key] = low[key] + share
            return ends

        return shared(_largest(most, lambda amount: self._fits(shared(amount))))

    def _one_batch(self, ends: dict[K, int]) -> dict[K, int]:
        """The limit is below one batch. It is read all the same: the next one of the partition that is furthest behind."""
        heads = {key: line.first_after(-1) for key, line in self._lines.items()}
        key = min(heads, key=lambda at: -1 if (head := heads[at]) is None else head.timestamp_ms)
        line = self._lines[key]
        end = min(line.batch_end(line.start), line.end)
        if self._limits.max_offsets is not None:
            end = min(end, line.start + max(1, self._limits.max_offsets))
        return ends | {key: end}

    # Limits

    def _offsets_to(self, ends: dict[K, int]) -> int:
        return sum(end - self._starts[key] for key, end in ends.items())

    def _bytes_to(self, ends: dict[K, int]) -> int:
        return sum(self._lines[key].bytes_to(end) for key, end in ends.items() if end > self._starts[key])

    def _fits(self, ends: dict[K, int]) -> bool:
        max_offsets, max_bytes = self._limits.max_offsets, self._limits.max_bytes
        if max_offsets is not None and self._offsets_to(ends) > max_offsets:
            return False
        return max_bytes is None or self._bytes_to(ends) <= max_bytes


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits; 0 does."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
