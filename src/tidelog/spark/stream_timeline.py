"""The part of a log that a micro-batch may read, as admission asks about it: by its time index, and the headers behind an entry of it.

An entry of the time index says that nothing up to its offset is later than its time, so the search for the first later record begins
there, and ends within a few kibibytes. Control records do not count: a transaction that wrote history has markers with the time of
the writing. Where such a marker has raised the time index above the records behind it, their headers are walked instead, no further than
the limit of the micro-batch reaches; what one question has found, the next one builds on.
"""

from bisect import bisect_right, insort

import numpy as np

from tidelog.log.fetched import Fetched
from tidelog.log.read_only import ReadOnlyLog
from tidelog.record.batch import RecordBatch
from tidelog.record.headers import BatchHeaders, walk_headers
from tidelog.record.layout import CONTROL_BIT, HEADER_SIZE
from tidelog.record.legacy import LegacyBatch
from tidelog.record.seeking import Seek, find_batch, raise_framing, record_at_time
from tidelog.spark.admission import TimedOffset

_FIRST_READ_BYTES = 16 << 10
_LAST_READ_BYTES = 1 << 20


class LogTimeline:
    """A `Timeline` of a log, from `start` up to `end`, which is not above what can be read. For one thread."""

    def __init__(self, log: ReadOnlyLog, start: int, end: int) -> None:
        self.start = max(start, log.log_start_offset)
        """Not below where the log starts by now: what was trimmed is not there to be read."""
        self.end = max(end, self.start)
        self._log = log
        self._segments = log.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._known: list[tuple[int, int]] = []
        """Times, each with an offset before which nothing is later."""
        self._start_place: int | None = None

    def first_after(self, time_ms: int) -> TimedOffset | None:
        """See `Timeline`."""
        offset = self._nothing_later_before(time_ms)
        max_bytes = _FIRST_READ_BYTES
        found = None
        while offset < self.end and found is None:
            fetched = self._log.fetch(offset, max_bytes)
            if not fetched.data:
                break
            found = _first_after(fetched, time_ms, offset)
            offset = fetched.next_offset
            max_bytes = min(2 * max_bytes, _LAST_READ_BYTES)
        if found is not None and found.offset >= self.end:
            found = None
        insort(self._known, (time_ms, self.end if found is None else found.offset))
        return found

    def _nothing_later_before(self, time_ms: int) -> int:
        """An offset of this part before which, by what is known or indexed, nothing is later than a time."""
        slot = bisect_right(self._known, (time_ms, self.end)) - 1
        best = self.start if slot < 0 else self._known[slot][1]
        try:
            for place in range(max(0, bisect_right(self._bases, best) - 1), len(self._segments)):
                segment = self._segments[place]
                if segment.base_offset >= self.end:
                    break
                if place + 1 < len(self._segments) and segment.max_timestamp.timestamp_ms <= time_ms:
                    best = max(best, self._bases[place + 1])
                    continue
                entry = segment.time_index.lookup(time_ms)
                if entry.timestamp_ms >= 0:
                    best = max(best, entry.offset + 1)
                break
        except FileNotFoundError:
            pass  # compaction has swapped the segment since: its headers are walked
        return best

    def bytes_to(self, offset: int) -> int:
        """See `Timeline`."""
        if offset <= self.start:
            return 0
        if self._start_place is None:
            self._start_place = self._place(self.start, is_begun=False)
        return max(0, self._place(offset, is_begun=True) - self._start_place)

    def batch_end(self, offset: int) -> int:
        """See `Timeline`."""
        last_offset = self._header_at(offset)[2]
        return max(offset + 1, last_offset + 1)

    def _place(self, offset: int, *, is_begun: bool) -> int:
        """Bytes of the log before an offset, with those of its batch where that begins below it."""
        place, base_offset, _, size_bytes = self._header_at(offset)
        return place + size_bytes if is_begun and 0 <= base_offset < offset else place

    def _header_at(self, offset: int) -> tuple[int, int, int, int]:
        """Of the batch that holds an offset, or the next one: bytes of the log before it, base offset, last offset, size."""
        fetched = self._log.fetch(offset, HEADER_SIZE, min_one=False)
        before = sum(segment.size_bytes for segment in self._segments[: bisect_right(self._bases, fetched.segment_base_offset) - 1])
        place = before + fetched.position
        answer = find_batch(fetched.data, 0, len(fetched.data), 0)
        if answer[0] < 0:
            raise_framing(answer)
        if answer[0] != Seek.FOUND:
            return place, offset, offset, 0
        _, _, size_bytes, base_offset, last_offset, _ = answer
        return place, base_offset, last_offset, size_bytes


def _first_after(fetched: Fetched, time_ms: int, offset: int) -> TimedOffset | None:
    """The first data record at or behind an offset that is later than a time, in the bytes of a fetch."""
    headers = walk_headers(fetched.data)
    is_control = (headers.magic == 2) & ((headers.attributes & CONTROL_BIT) != 0)
    for row in np.flatnonzero((headers.max_timestamp_ms > time_ms) & ~is_control).tolist():
        found = record_at_time(_batch(fetched.data, headers[row : row + 1]), time_ms + 1, offset)
        if found is not None:
            return TimedOffset(*found)
    return None


def _batch(data: bytes, headers: BatchHeaders) -> RecordBatch | LegacyBatch:
    if int(headers.magic[0]) == 2:
        return RecordBatch(memoryview(data), int(headers.position[0]), int(headers.size_bytes[0]))
    return LegacyBatch(memoryview(data), headers)
