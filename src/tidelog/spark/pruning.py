"""What a read may skip: from the filters that Spark pushes down, and from what indexes and headers say about time.

Nothing that could match is ever skipped. A batch header has the largest timestamp of its records and not the smallest (its base timestamp
is that of the first record), so `timestamp >= x` skips what is known to be older, and `timestamp < x` skips nothing. Every filter is handed
back to Spark, which checks it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from tidelog.log.segment import Segment

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Pruning:
    """What filters leave over. Without any, everything."""

    topics: frozenset[str] | None = None
    topic_prefix: str = ""
    first_partition: int = 0
    last_partition: int = _HIGHEST
    partitions: frozenset[int] | None = None
    first_offset: int = _LOWEST
    last_offset: int = _HIGHEST
    offsets: frozenset[int] | None = None
    oldest_ms: int | None = None
    """Records before this time are not needed."""
    keys: frozenset[bytes] | None = None

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether a record of this partition could match."""
        is_topic = (self.topics is None or topic in self.topics) and topic.startswith(self.topic_prefix)
        is_in_range = self.first_partition <= partition <= self.last_partition
        return is_topic and is_in_range and (self.partitions is None or partition in self.partitions)

    def narrow(self, start: int, end: int) -> tuple[int, int]:
        """The part of a range of offsets, its end exclusive, in which a record could match."""
        first, last = max(start, self.first_offset), min(end - 1, self.last_offset)
        if self.offsets is not None:
            inside = [offset for offset in self.offsets if first <= offset <= last]
            if not inside:
                return start, start
            first, last = min(inside), max(inside)
        return (first, last + 1) if first <= last else (start, start)


EVERYTHING = Pruning()


def prune(filters: Iterable["Filter"]) -> Pruning:
    """What all of these filters leave over together. One that says nothing about what can be skipped changes nothing."""
    pruning = EVERYTHING
    for pushed in filters:
        column = getattr(pushed, "attribute", None)
        if isinstance(column, tuple) and len(column) == 1:
            pruning = _with(pruning, type(pushed).__name__, column[0], getattr(pushed, "value", None))
    return pruning


def _with(pruning: Pruning, kind: str, column: str, value: Any) -> Pruning:
    if kind in ("EqualTo", "EqualNullSafe", "In"):
        values = value if kind == "In" else (value,)
        if isinstance(values, (list, tuple)) and None not in values:
            return _with_values(pruning, column, list(values))
        return pruning
    if column == "topic" and kind == "StringStartsWith" and isinstance(value, str):
        return replace(pruning, topic_prefix=max(pruning.topic_prefix, value, key=len))
    bounds = {"partition": ("first_partition", "last_partition"), "offset": ("first_offset", "last_offset")}
    if column in bounds and _is_number(value):
        low, high = bounds[column]
        if kind in ("GreaterThan", "GreaterThanOrEqual"):
            return replace(pruning, **{low: max(getattr(pruning, low), value + (kind == "GreaterThan"))})
        if kind in ("LessThan", "LessThanOrEqual"):
            return replace(pruning, **{high: min(getattr(pruning, high), value - (kind == "LessThan"))})
    if column == "timestamp" and kind in ("GreaterThan", "GreaterThanOrEqual") and isinstance(value, datetime):
        return _not_before(pruning, ceil_ms(value))
    return pruning


def _with_values(pruning: Pruning, column: str, values: list[Any]) -> Pruning:
    if column == "topic" and all(isinstance(value, str) for value in values):
        return replace(pruning, topics=_both(pruning.topics, values))
    if column == "partition" and all(map(_is_number, values)):
        return replace(pruning, partitions=_both(pruning.partitions, values))
    if column == "offset" and all(map(_is_number, values)):
        return replace(pruning, offsets=_both(pruning.offsets, values))
    if column == "key" and all(isinstance(value, (bytes, bytearray)) for value in values):
        return replace(pruning, keys=_both(pruning.keys, [bytes(value) for value in values]))
    if column == "timestamp" and values and all(isinstance(value, datetime) for value in values):
        return _not_before(pruning, min(map(ceil_ms, values)))
    return pruning


def _both(known: frozenset[Any] | None, values: list[Any]) -> frozenset[Any]:
    return frozenset(values) if known is None else known & frozenset(values)


def _not_before(pruning: Pruning, oldest_ms: int) -> Pruning:
    return replace(pruning, oldest_ms=oldest_ms if pruning.oldest_ms is None else max(oldest_ms, pruning.oldest_ms))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def ceil_ms(moment: datetime) -> int:
    """The first millisecond that is not before a time. Spark's times have microseconds, Kafka's have not."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return -((_EPOCH - aware) // timedelta(milliseconds=1))


def first_not_older(segment: "Segment", oldest_ms: int, *, is_last: bool) -> int | None:
    """From which offset of a segment on a record could be at or after a time; None: all of them are older.

    An entry of the time index has the largest timestamp so far, so nothing up to its offset is newer. The last entry of an index that was
    finished speaks for the whole segment. A segment that is still written to, or whose index was not finished or is empty, has proven
    nothing about its rest.
    """
    index = segment.time_index
    if not segment.has_time_index or index.entries == 0:
        return segment.base_offset
    is_finished = getattr(index, "is_complete", False) and not is_last
    if is_finished and index.last().timestamp_ms < oldest_ms:
        return None
    entry = index.lookup(oldest_ms - 1)
    return entry.offset + 1 if 0 <= entry.timestamp_ms < oldest_ms else segment.base_offset
