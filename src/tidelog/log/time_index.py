"""The time index of a segment: from which offset on to look for a time.

      0  timestamp         i64      the largest timestamp of the segment up to and including that offset
      8  relative offset   i32      the last offset of the first batch that reached it, minus the segment's base offset

Both columns never go down, and timestamps strictly go up: a batch that is not newer than the last entry gets none.
"""

import struct
from typing import NamedTuple

from tidelog.log.index import Index
from tidelog.record.kernel.index_search import find_time, find_time_by_offset, time_entry

ENTRY = struct.Struct(">qi")


class TimestampOffset(NamedTuple):
    """An entry, with its offset made absolute."""

    timestamp_ms: int
    offset: int


class TimeIndex(Index):
    """One `.timeindex` file."""

    entry_size = ENTRY.size

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        """Whether no entry can be added but the last one, which is written when the segment is rolled or closed."""
        written, pending = self._tail
        return written + len(pending) // 12 >= self.slots - 1

    def maybe_append(self, timestamp_ms: int, offset: int, last_timestamp_ms: int) -> bool:
        """Add an entry if it is newer than the last, whose timestamp the caller knows: whether it did."""
        if timestamp_ms <= last_timestamp_ms:
            return False
        self._append(ENTRY.pack(timestamp_ms, offset - self.base_offset))
        return True

    def append_bytes(self, entries: bytes) -> None:
        """Add entries that are packed already."""
        self._append(entries)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or before a time; (-1, base offset) if there is none."""
        written, pending = self._tail
        found = slot = -1
        relative = 0
        if pending:
            slot, found, relative = find_time(pending, len(pending) // ENTRY.size, timestamp_ms)
        if slot < 0 and written:
            slot, found, relative = find_time(self._written_view(written), written, timestamp_ms)
        return tuple.__new__(TimestampOffset, (-1, self.base_offset) if slot < 0 else (found, self.base_offset + relative))

    def last(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there is none."""
        written, pending = self._tail
        if pending:
            timestamp_ms, relative = ENTRY.unpack_from(pending, len(pending) - ENTRY.size)
        elif written:
            timestamp_ms, relative = time_entry(self._written_view(written), written - 1)
        else:
            return TimestampOffset(-1, self.base_offset)
        return TimestampOffset(timestamp_ms, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.write_pending()
        written, _ = self._tail
        if written:
            self._keep(find_time_by_offset(self._written_view(written), written, max(0, offset - self.base_offset)))
