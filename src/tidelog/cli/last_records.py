"""The last records of a topic: of each partition from its end backwards, then merged by time.

How far back the last ten lie nobody knows beforehand: compaction, markers and aborted transactions leave gaps, and a filter may take one
record of a million. So a window is read, and if that is not enough another one before it, twice as large.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation, LogReading
    from tidelog.record.kernel.record import Record
    from tidelog.store.topic_reading import TopicReading

_FIRST_WINDOW = 64


def last_records(
    topic: "TopicReading",
    count: int,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    isolation: "Isolation",
    is_wanted: "Callable[[Record], bool] | None",
) -> "list[Record]":
    """The last `count` records of all partitions together, between an offset and another of each, in the order of time."""
    from tidelog.store.merging import merge_by_time

    found = [_last(topic.log(partition), count, starts[partition], end, isolation, is_wanted) for partition, end in ends.items()]
    return list(merge_by_time([iter(records) for records in found]))[-count:] if count else []


def _last(
    log: "LogReading", count: int, start: int, end: int, isolation: "Isolation", is_wanted: "Callable[[Record], bool] | None"
) -> "list[Record]":
    windows: deque[list[Record]] = deque()
    missing, window, stop = count, max(_FIRST_WINDOW, count), end
    while missing > 0 and stop > start:
        begin = max(start, stop - window)
        kept: deque[Record] = deque(maxlen=min(missing, sys.maxsize))
        for record in log.read(begin, stop, isolation=isolation, when_overtaken="skip"):
            if is_wanted is None or is_wanted(record):
                kept.append(record)
        windows.appendleft(list(kept))
        missing -= len(kept)
        stop, window = begin, 2 * window
    return [record for records in windows for record in records]
