"""What one task reads: ranges of offsets of partitions, cut by bytes where an index has an entry, and small ones packed together.

A split names offsets and nothing of files: whatever is appended, rolled, swapped or trimmed between plan and read, the offsets are looked
for in what is there then. Where a cut falls decides how work is shared out, never what is read. Plans are made from the sizes of files and
from indexes; no data is read for them.

A Python task costs some 50 ms before it does anything, so small ranges share one. Ranges of one partition stay in their order.
"""

import heapq
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError
from tidelog.spark.option_values import MAX_TASKS

if TYPE_CHECKING or sys.modules.get("pyspark") is not None:  # whoever plans or runs with Spark has it
    from pyspark.sql.datasource import InputPartition
else:  # jobs that run without Spark read by the same code, and do not wait for it to be loaded
    InputPartition = object

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.log.segment import Segment
    from tidelog.spark.catalog import SourcePartition

Aborted = tuple[int, int, int]
"""An aborted transaction: producer id, first offset, offset of its marker."""
_MAX_TRIES = 100


@dataclass(frozen=True, slots=True)
class Split:
    """A range of offsets of one partition."""

    topic: str
    partition: int
    directory: str
    start_offset: int
    end_offset: int
    """Exclusive."""
    size_bytes: int = 0
    """About how many bytes of log it has, as far as the indexes say."""
    aborted: tuple[Aborted, ...] | None = None
    """The aborted transactions that reach into it, which are decided for good; None: who reads finds out."""
    topic_id: str | None = None
    """Of which topic it was planned; None where nothing says it."""


@dataclass(frozen=True, eq=False)
class SplitPartition(InputPartition):
    """The work of one task, and how it is to be read. Small, and pickled."""

    splits: tuple[Split, ...]
    columns: tuple[str, ...]
    isolation: "Isolation" = "committed"
    keys: frozenset[bytes] | None = None
    """Only records with one of these keys."""
    oldest_ms: int | None = None
    """Records before this time are not needed; they may come along."""
    fail_on_data_loss: bool = True
    latest_by_key: bool = False
    """Of each key only the last record of a split."""
    checks_holes: bool = False
    """Whether offsets between batches that nothing explains are loss of data."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets within one segment, and the bytes that they take."""

    start_offset: int
    end_offset: int
    segment: "Segment"
    start_position: int
    end_position: int


def plan_splits(
    log: "ReadOnlyLog",
    source: "SourcePartition",
    start: int,
    end: int,
    *,
    target_bytes: int | None,
    oldest_ms: int | None = None,
    isolation: "Isolation" = "committed",
) -> list[Split]:
    """The offsets from `start` to `end` in about equal parts of at most `target_bytes`; None: one part.

    With `oldest_ms` what is known to be older as a whole is left out: segments, and the beginning of a segment.
    """
    if start >= end:
        return []
    for attempt in range(_MAX_TRIES):
        try:
            stretches = list(_stretches(log.segments, start, end, oldest_ms))
            aborted = _aborted(log, start, end) if isolation == "committed" else ()
            ranges = list(_cut(stretches, target_bytes))
            break
        except FileNotFoundError:
            # A segment was renamed or removed before it was looked at: look which ones are there now.
            if attempt + 1 == _MAX_TRIES:
                raise
            log.refresh()
    whole = Split(source.topic, source.partition, source.directory, start, end, 0, (), source.topic_id)
    return [
        replace(
            whole,
            start_offset=first,
            end_offset=stop,
            size_bytes=size_bytes,
            aborted=tuple(entry for entry in aborted if entry[1] < stop and entry[2] >= first),
        )
        for first, stop, size_bytes in ranges
    ]


def _stretches(segments: Sequence["Segment"], start: int, end: int, oldest_ms: int | None) -> Iterator[Stretch]:
    """The part of each segment that lies in a range, without what is known to be older than `oldest_ms`."""
    from tidelog.spark.pruning import first_not_older

    for place, segment in enumerate(segments):
        is_last = place + 1 == len(segments)
        next_base = end if is_last else segments[place + 1].base_offset
        first, stop = max(start, segment.base_offset), min(end, next_base)
        if place == 0:
            first = start  # what lies below the first segment is gone, and whoever reads it is told
        if first >= stop:
            continue
        if oldest_ms is not None:
            found = first_not_older(segment, oldest_ms, is_last=is_last)
            if found is None:
                continue
            first = max(first, found)
            if first >= stop:
                continue
        begin = 0 if first <= segment.base_offset else max(0, segment.index.locate(first)[1])
        finish = segment.size_bytes
        if not is_last and stop == next_base:
            pass
        elif (position := segment.index.locate(stop)[3]) >= 0:
            finish = position
        yield Stretch(first, stop, segment, begin, max(begin, finish))


def _cut(stretches: Sequence[Stretch], target_bytes: int | None) -> Iterator[tuple[int, int, int]]:
    """Ranges of offsets with their bytes: what lies together, in parts of about the same size."""
    total = sum(stretch.end_position - stretch.start_position for stretch in stretches)
    step = total + 1 if target_bytes is None else total / max(1, -(-total // target_bytes))
    first, stop, gathered = 0, 0, 0.0
    for stretch in stretches:
        if stretch.start_offset != stop or gathered >= step:
            if stop > first:
                yield first, stop, int(gathered)
            first, gathered = stretch.start_offset, 0.0
        position = stretch.start_position
        while gathered + stretch.end_position - position > step:
            # Behind the batch that the entry is about: a batch boundary, so that no batch is decoded twice.
            mark = stretch.segment.index.first_at_or_behind(int(position + step - gathered))
            if mark is None or mark.position >= stretch.end_position or not first < mark.offset + 1 < stretch.end_offset:
                break
            yield first, mark.offset + 1, int(gathered + mark.position - position)
            first, gathered, position = mark.offset + 1, 0.0, mark.position
        gathered += stretch.end_position - position
        stop = stretch.end_offset
    if stop > first:
        yield first, stop, int(gathered)


def _aborted(log: "ReadOnlyLog", start: int, end: int) -> tuple[Aborted, ...]:
    """The aborted transactions that reach into a range of decided offsets. A marker may lie segments behind its records."""
    _ = log.last_stable_offset  # reads what no index says yet
    found = []
    for place, segment in enumerate(log.segments):
        next_base = log.segments[place + 1].base_offset if place + 1 < len(log.segments) else end
        if next_base >= start:
            entries = segment.txn_index.entries()
            found += [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries if entry.last_offset >= start]
    return tuple(entry for entry in found if entry[1] < end)


def pack(
    splits: Iterable[Split], *, target_bytes: int | None, min_partitions: int | None = None, max_records: int | None = None
) -> list[tuple[Split, ...]]:
    """What each task reads: small splits together, up to `target_bytes`; with None the splits of a partition together and no others.

    `max_records` counts offsets, and cuts where a split has more. With `min_partitions` tasks are halved until there are so many, if there
    are so many offsets.
    """
    ordered = sorted(splits, key=lambda split: (split.topic, split.partition, split.start_offset))
    if max_records is not None:
        _check_count(sum(-(-_offsets(split) // max_records) for split in ordered), max_records)
        ordered = [part for split in ordered for part in _parts(split, -(-_offsets(split) // max_records))]
    packed: list[tuple[Split, ...]] = []
    if target_bytes is None and max_records is None:
        packed = [tuple(group) for _, group in groupby(ordered, key=lambda split: (split.topic, split.partition))]
    else:
        for split in ordered:
            if packed and _fits(packed[-1], split, target_bytes, max_records):
                packed[-1] += (split,)
            else:
                packed.append((split,))
    return packed if min_partitions is None else _at_least(packed, min_partitions)


def _check_count(tasks: int, max_records: int) -> None:
    if tasks > MAX_TASKS:
        raise InvalidConfigError(
            "option maxRecordsPerPartition",
            expected=f"so many that there are at most {MAX_TASKS} tasks",
            found=f"{max_records}, which makes {tasks}",
            hint="offsets are counted, and a compacted log has few records in many of them",
        )


def _fits(packed: tuple[Split, ...], split: Split, target_bytes: int | None, max_records: int | None) -> bool:
    if target_bytes is None and (packed[-1].topic, packed[-1].partition) != (split.topic, split.partition):
        return False
    has_room = target_bytes is None or sum(part.size_bytes for part in packed) + split.size_bytes <= target_bytes
    return has_room and (max_records is None or sum(map(_offsets, packed)) + _offsets(split) <= max_records)


def _at_least(packed: list[tuple[Split, ...]], count: int) -> list[tuple[Split, ...]]:
    """Halve the largest until there are so many, or nothing is left to halve."""
    heap = [(-sum(map(_offsets, splits)), number, splits) for number, splits in enumerate(packed)]
    heapq.heapify(heap)
    number = len(heap)
    while heap and len(heap) < count and heap[0][0] < -1:
        _, _, splits = heapq.heappop(heap)
        middle = len(splits) // 2
        for half in (splits[:middle], splits[middle:]) if middle else [(part,) for part in _parts(splits[0], 2)]:
            heapq.heappush(heap, (-sum(map(_offsets, half)), number, half))
            number += 1
    return sorted((splits for _, _, splits in heap), key=lambda splits: (splits[0].topic, splits[0].partition, splits[0].start_offset))


def _parts(split: Split, count: int) -> list[Split]:
    """A split in so many parts of about as many offsets."""
    bounds = [split.start_offset + _offsets(split) * number // count for number in range(count + 1)]
    size_bytes = split.size_bytes // count
    return [replace(split, start_offset=first, end_offset=stop, size_bytes=size_bytes) for first, stop in pairwise(bounds) if first < stop]


def _offsets(split: Split) -> int:
    return split.end_offset - split.start_offset
