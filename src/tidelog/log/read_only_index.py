"""The indexes of a segment that somebody else writes to: an entry counts only if the batch at its position agrees with it."""

from bisect import bisect_left
from collections.abc import Callable

from tidelog.disk.disk import Seen
from tidelog.disk.file_pool import FilePool
from tidelog.log.offset_index import ENTRY as OFFSET_ENTRY
from tidelog.log.offset_index import NOWHERE, Located, OffsetIndex, OffsetPosition
from tidelog.log.read_only_entries import BLOCK_ENTRIES, EntryFile
from tidelog.log.read_only_files import KnownFile
from tidelog.log.time_index import ENTRY as TIME_ENTRY
from tidelog.log.time_index import TimeIndex, TimestampOffset
from tidelog.log.txn_index import ENTRY as TXN_ENTRY
from tidelog.log.txn_index import AbortedTxn, TxnIndex, parse_entries
from tidelog.record.kernel.index_search import find_time, locate_offset


class ReadOnlyOffsetIndex(OffsetIndex):
    """One `.index` file of somebody else."""

    __slots__ = ("_agrees", "_file")

    def __init__(self, pool: FilePool, directory: str, base_offset: int, seen: Seen | None, agrees: Callable[[int, int], bool]) -> None:
        file = KnownFile(pool, directory, seen)
        super().__init__(pool, file.path, base_offset)
        self._file = EntryFile(pool, file, OFFSET_ENTRY.size)
        self._agrees = agrees
        """Whether the batch at a position of the log can have this as its last offset."""

    def _counts(self, entry: bytes) -> bool:
        if not entry:
            return False
        relative, position = OFFSET_ENTRY.unpack(entry)
        return relative >= 0 and position > 0 and self._agrees(self.base_offset + relative, position)

    @property
    def entries(self) -> int:
        """Entries in the file that count."""
        return self._file.count(self._counts)

    def locate(self, offset: int) -> Located:
        """Where to look for an offset. An entry that the log does not agree with leads nowhere: then it is walked from its beginning."""
        count = self.entries
        if count == 0:
            return NOWHERE
        relative = offset - self.base_offset
        slot, block = self._file.narrow(0, count, lambda entry: OFFSET_ENTRY.unpack(entry)[0] > relative)
        held = min(len(block) // OFFSET_ENTRY.size, count - slot)
        located = locate_offset(block, held, offset, self.base_offset)
        if located[1] >= 0 and not self._agrees(located[0], located[1]):
            return NOWHERE
        return located

    def last(self) -> OffsetPosition | None:
        """The last entry."""
        entry = self._file.read(count - 1) if (count := self.entries) else b""
        if not entry:
            return None
        relative, position = OFFSET_ENTRY.unpack(entry)
        return OffsetPosition(self.base_offset + relative, position)

    def first_at_or_behind(self, position: int) -> OffsetPosition | None:
        """See `OffsetIndex`."""
        count = self.entries
        slot = bisect_left(range(count), position, key=lambda slot: OFFSET_ENTRY.unpack(self._file.read(slot) or bytes(8))[1])
        entry = self._file.read(slot) if slot < count else b""
        if slot == 0 and entry and OFFSET_ENTRY.unpack(entry)[1] == position:
            entry = self._file.read(1) if count > 1 else b""
        if not entry:
            return None
        relative, found = OFFSET_ENTRY.unpack(entry)
        return OffsetPosition(self.base_offset + relative, found)

    def entry_bytes(self) -> bytes:
        """All entries that count."""
        count = self.entries
        return self._file.read(0, count) if count else b""

    def close(self) -> None:
        """Let go of the file."""
        self._file.file.drop()


class ReadOnlyTimeIndex(TimeIndex):
    """One `.timeindex` file of somebody else."""

    __slots__ = ("_agrees", "_file")

    def __init__(self, pool: FilePool, directory: str, base_offset: int, seen: Seen | None, agrees: Callable[[int, int], bool]) -> None:
        file = KnownFile(pool, directory, seen)
        super().__init__(pool, file.path, base_offset)
        self._file = EntryFile(pool, file, TIME_ENTRY.size)
        self._agrees = agrees
        """Whether the batch with this offset has this largest timestamp."""

    def _counts(self, entry: bytes) -> bool:
        if not entry:
            return False
        timestamp_ms, relative = TIME_ENTRY.unpack(entry)
        return timestamp_ms >= 0 and relative >= 0 and self._agrees(timestamp_ms, self.base_offset + relative)

    @property
    def entries(self) -> int:
        """Entries in the file that count."""
        return self._file.count(self._counts)

    @property
    def is_complete(self) -> bool:
        """Whether the file was finished by its owner: then its last entry has the largest timestamp of the segment."""
        return self._file.is_cut(self.entries)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or before a time; (-1, base offset) if there is none, or the log does not agree with it."""
        count = self.entries
        slot = -1
        found, relative = -1, 0
        if count:
            first, block = self._file.narrow(0, count, lambda entry: TIME_ENTRY.unpack(entry)[0] > timestamp_ms)
            slot, found, relative = find_time(block, min(len(block) // TIME_ENTRY.size, count - first), timestamp_ms)
        if slot < 0 or not self._agrees(found, self.base_offset + relative):
            return TimestampOffset(-1, self.base_offset)
        return TimestampOffset(found, self.base_offset + relative)

    def last(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there is none."""
        entry = self._file.read(count - 1) if (count := self.entries) else b""
        if not entry:
            return TimestampOffset(-1, self.base_offset)
        timestamp_ms, relative = TIME_ENTRY.unpack(entry)
        return TimestampOffset(timestamp_ms, self.base_offset + relative)

    def entry_bytes(self) -> bytes:
        """All entries that count."""
        count = self.entries
        return self._file.read(0, count) if count else b""

    def close(self) -> None:
        """Let go of the file."""
        self._file.file.drop()


class ReadOnlyTxnIndex(TxnIndex):
    """One `.txnindex` file of somebody else, with what the reader has learned from the batches themselves."""

    __slots__ = ("_base_offset", "_file", "_learned")

    def __init__(
        self, pool: FilePool, directory: str, base_offset: int, seen: Seen | None, learned: Callable[[], list[AbortedTxn]]
    ) -> None:
        self._file = KnownFile(pool, directory, seen)
        super().__init__(pool, self._file.path, size_bytes=None if seen is None else seen.size_bytes)
        self._base_offset = base_offset
        self._learned = learned
        """Transactions whose markers lie in the segment, as far as it was replayed: the file may lack them after a crash."""

    def entries(self) -> list[AbortedTxn]:
        """All of them, by the offset of their marker. What lies behind the first entry that cannot be is not looked at."""
        learned = self._learned()
        if not self._file.is_there:
            return learned
        found = self._read() or []
        known = {(entry.producer_id, entry.last_offset) for entry in found}
        learned = [entry for entry in learned if (entry.producer_id, entry.last_offset) not in known]
        return sorted([*found, *learned], key=lambda entry: entry.last_offset) if learned else found

    @property
    def is_sound(self) -> bool:
        """Whether the file could be right. If not, nothing in it counts: what was aborted has to be learned from the batches."""
        return self._read() is not None

    def _read(self) -> list[AbortedTxn] | None:
        entries: list[AbortedTxn] = []
        if not self._file.is_there:
            return entries
        opened = self._file.open()
        position, last_offset = 0, -1
        while piece := self._pool.disk.read(opened.fd, TXN_ENTRY.size * BLOCK_ENTRIES, position):
            for entry in parse_entries(piece):
                if entry.last_offset < self._base_offset:
                    return None  # loading takes this for damage, and builds the index anew
                if entry.last_offset <= last_offset or not 0 <= entry.first_offset < entry.last_offset:
                    return entries
                entries.append(entry)
                last_offset = entry.last_offset
            position += len(piece)
            if len(piece) < TXN_ENTRY.size * BLOCK_ENTRIES:
                break
        return entries

    def close(self) -> None:
        """Let go of the file."""
        self._file.drop()
