"""A segment that somebody else owns: found in a listing, never written to, its indexes believed only where its batches agree."""

import struct

from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import INDEX, LOG, TIME_INDEX, TXN_INDEX
from tidelog.errors import LogNotFoundError, TidelogError
from tidelog.log.leftovers import Files
from tidelog.log.read_only_files import KnownFile
from tidelog.log.read_only_index import ReadOnlyOffsetIndex, ReadOnlyTimeIndex, ReadOnlyTxnIndex
from tidelog.log.segment import Segment
from tidelog.log.segment_base import SegmentEnd
from tidelog.log.segment_read import find_last_batch, find_offset, largest_timestamp
from tidelog.log.time_index import TimestampOffset
from tidelog.log.txn_index import AbortedTxn

_HEAD = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta of a v2 batch. Of a legacy message the first is its last offset."""
_NEVER_WRITTEN_MS = -1


class LearnedTxns:
    """Aborted transactions that a reader found by reading batches, for the transaction indexes to ask."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: tuple[AbortedTxn, ...] = ()

    def between(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Those whose abort marker lies in a range of offsets."""
        return [entry for entry in self.found if first_offset <= entry.last_offset < end_offset]


class ReadOnlySegment(Segment):
    """One segment. `end` is replaced by the log when it has found more; everything else stays as it was listed."""

    __slots__ = ("_files", "_learned", "_newest", "_sound_bytes", "next_base")

    time_index: ReadOnlyTimeIndex

    def __init__(self, pool: FilePool, directory: str, base_offset: int, files: Files, learned: LearnedTxns) -> None:
        # Not the constructor of an owner's segment, which would make everything once more: a log may have thousands of them.
        self.pool = pool
        self.directory = directory
        self.base_offset = base_offset
        self.stage = ""
        self._files = files
        self._learned = learned
        self.next_base = 1 << 63
        """Base offset of the segment behind it."""
        self.file = KnownFile(pool, directory, files.get(LOG))
        self.index = ReadOnlyOffsetIndex(pool, directory, base_offset, files.get(INDEX), self._agrees_on_offset)
        self.time_index = ReadOnlyTimeIndex(pool, directory, base_offset, files.get(TIME_INDEX), self._agrees_on_time)
        self.txn_index = ReadOnlyTxnIndex(pool, directory, base_offset, files.get(TXN_INDEX), self._learned_here)
        self.has_index, self.has_time_index = INDEX in files, TIME_INDEX in files
        self.end = SegmentEnd(-1, files[LOG].size_bytes if LOG in files else 0)
        self.created_ms = self.jitter_ms = 0
        self._writer = self._run = self._first_timestamp_ms = self._age = self.headroom = None
        self.is_unsettled = False
        self._newest: TimestampOffset | None = None
        self._sound_bytes = -1

    @property
    def files(self) -> Files:
        """What it was made from."""
        return self._files

    def path_of(self, kind: str) -> str:
        """Where one of its files is; under its final name if it is not there."""
        seen = self._files.get(kind)
        return super().path_of(kind) if seen is None else f"{self.directory}/{seen.name}"

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp: of a segment that was finished what its time index says, else what the batches behind it say."""
        if self._newest is None:
            if LOG not in self._files:
                hint = "its files are lost, or it is just being made: tidelog verify says more"
                raise LogNotFoundError("a partition without a segment", path=self.directory, hint=hint)
            if self.end[0] < 0 and self.has_time_index and self.time_index.is_complete:
                self._newest = self.time_index.last()
            else:
                self._newest = largest_timestamp(self)
        return self._newest

    def saw(self, newest: TimestampOffset) -> None:
        """Batches behind the known end have this largest timestamp."""
        if self._newest is not None and newest.timestamp_ms > self._newest.timestamp_ms:
            self._newest = newest

    def forget_newest(self) -> None:
        """The segment was cut, or is no longer the last: look again."""
        self._newest = None
        self._sound_bytes = -1

    @property
    def sound_bytes(self) -> int:
        """Where its last whole batch ends, by the headers from the last index entry on."""
        if self._sound_bytes < 0:
            found = find_last_batch(self)
            self._sound_bytes = 0 if found is None else found.position + found.size_bytes
        return self._sound_bytes

    @property
    def largest_timestamp_ms(self) -> int:
        """The age of its newest record; without timestamps, when the file was last written, as far as the listing knew."""
        timestamp_ms = self.max_timestamp.timestamp_ms
        if timestamp_ms >= 0:
            return timestamp_ms
        return self._files[LOG].mtime_ns // 1_000_000 if LOG in self._files else _NEVER_WRITTEN_MS

    def _agrees_on_offset(self, offset: int, position: int) -> bool:
        """Whether a batch lies at `position` that ends at `offset`; or before it: Kafka up to 3.9.0 indexed whole calls."""
        opened = self.file.open()
        header = self.pool.disk.read(opened.fd, _HEAD.size, position)
        if len(header) < _HEAD.size:
            return False
        base_offset, length, magic, delta = _HEAD.unpack(header)
        if not (0 <= magic <= 2 and length >= 14):
            return False
        last_offset = base_offset + delta if magic == 2 else base_offset
        return bool(self.base_offset <= last_offset <= offset)

    def _agrees_on_time(self, timestamp_ms: int, offset: int) -> bool:
        """Whether the batch that holds this offset has this largest timestamp."""
        try:
            found = find_offset(self, offset, self.end[1])
        except TidelogError:
            return False
        return found is not None and found.max_timestamp_ms == timestamp_ms

    def _learned_here(self) -> list[AbortedTxn]:
        return self._learned.between(self.base_offset, self.next_base) if self._learned.found else []

    def forget(self) -> None:
        """Let go of its files."""
        super().forget()
        self.txn_index.close_writer()
