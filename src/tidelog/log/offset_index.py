"""The offset index of a segment: at which byte to start looking for an offset.

      0  relative offset   i32      the last offset of a batch, minus the segment's base offset
      4  position          i32      where that batch starts in the `.log`

Offsets and positions strictly increase. Sparse: about one entry every `index.interval.bytes` of log.
"""

import struct
from typing import NamedTuple

from tidelog.log.index import Index
from tidelog.record.kernel.index_search import find_offset_from, find_position, locate_offset, offset_entry

ENTRY = struct.Struct(">ii")


class OffsetPosition(NamedTuple):
    """An entry, with its offset made absolute."""

    offset: int
    position: int


Located = tuple[int, int, int, int]
"""The last entry at or below an offset, and the first above it: offset, position, next offset, next position; -1 where there is none.

A plain tuple: every read comes by here, and a named one takes twice as long to make.
"""
NOWHERE: Located = (-1, -1, -1, -1)


class OffsetIndex(Index):
    """One `.index` file."""

    entry_size = ENTRY.size

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        """Whether no entry can be added: the segment must be rolled."""
        written, pending = self._tail
        return written + len(pending) // 8 >= self.slots

    def append_bytes(self, entries: bytes) -> None:
        """Add entries that are packed already; the caller has made sure that it is not full and that offsets go up."""
        self._append(entries)

    def locate(self, offset: int) -> Located:
        """Where to look for an offset."""
        written, pending = self._tail
        if not pending:
            return locate_offset(self._written_view(written), written, offset, self.base_offset) if written else NOWHERE
        first_relative, first_position = ENTRY.unpack_from(pending)
        first_offset = self.base_offset + first_relative
        if offset >= first_offset or not written:
            return locate_offset(pending, len(pending) // ENTRY.size, offset, self.base_offset)
        found, position, next_offset, next_position = locate_offset(self._written_view(written), written, offset, self.base_offset)
        if next_position < 0:
            next_offset, next_position = first_offset, first_position
        return found, position, next_offset, next_position

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the beginning of the segment if there is none."""
        found, position, _, _ = self.locate(offset)
        return OffsetPosition(self.base_offset, 0) if position < 0 else OffsetPosition(found, position)

    def last(self) -> OffsetPosition | None:
        """The last entry."""
        written, pending = self._tail
        if pending:
            relative, position = ENTRY.unpack_from(pending, len(pending) - ENTRY.size)
        elif written:
            relative, position = offset_entry(self._written_view(written), written - 1)
        else:
            return None
        return OffsetPosition(self.base_offset + relative, position)

    def first_at_or_behind(self, position: int) -> OffsetPosition | None:
        """The first entry at a byte of the log or behind it, by which the search for aborted transactions is bounded.

        As in Kafka the very first entry is passed over if it lies exactly there.
        """
        written, pending = self._tail
        if written:
            slot, relative, found = find_position(self._written_view(written), written, position)
            if slot < 0:
                relative, found = next((entry for entry in ENTRY.iter_unpack(pending) if entry[1] >= position), (-1, -1))
        else:
            _, relative, found = find_position(pending, len(pending) // ENTRY.size, position)
        return None if found < 0 else OffsetPosition(self.base_offset + relative, found)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.write_pending()
        written, _ = self._tail
        if written:
            self._keep(find_offset_from(self._written_view(written), written, max(0, offset - self.base_offset)))
