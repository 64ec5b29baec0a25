"""Merge the records of several partitions by time.

Each partition stays in offset order; of the records that are next in theirs, the one with the smallest timestamp comes first, of equal
ones that of the smallest partition. So the whole is in order of time where each partition is. Where timestamps fall within a partition,
which producers may do, the later record comes as soon as it is next.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from tidelog.record.kernel.record import Record


def merge_by_time(partitions: Sequence[Iterator[Record]]) -> Iterator[Record]:
    """The records of all partitions, given in the order in which equal times come."""
    heap = []
    for place, records in enumerate(partitions):
        first = next(records, None)
        if first is not None:
            heap.append((first.timestamp_ms, place, first))
    heapify(heap)
    while len(heap) > 1:
        _, place, record = heap[0]
        records = partitions[place]
        # As long as nobody else is earlier, the heap need not be touched.
        other_ms, other_place = _second(heap)
        while True:
            yield record
            following = next(records, None)
            if following is None:
                heappop(heap)
                break
            record, timestamp_ms = following, following.timestamp_ms
            if timestamp_ms > other_ms or (timestamp_ms == other_ms and place > other_place):
                heapreplace(heap, (timestamp_ms, place, record))
                break
    for _, place, record in heap:
        yield record
        yield from partitions[place]


def _second(heap: list[tuple[int, int, Record]]) -> tuple[int, int]:
    """Time and place of the one that comes next: one of the two children of the root."""
    second = heap[1] if len(heap) == 2 else min(heap[1], heap[2])
    return second[0], second[1]
