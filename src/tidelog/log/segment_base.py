"""What every segment is, active or not: one `.log` file of batches with its indexes, how far it goes, and how old it is."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.disk.file_pool import FilePool, OpenFile, PooledFile
from tidelog.disk.names import INDEX, LOG, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.log.offset_index import OffsetIndex
from tidelog.log.roll import Headroom, SegmentAge
from tidelog.log.time_index import TimeIndex, TimestampOffset
from tidelog.log.txn_index import TxnIndex
from tidelog.record.indexing import IndexRun
from tidelog.record.layout import HEADER

_MAGIC_POSITION, _V1_TIMESTAMP = 16, slice(18, 26)


class SegmentEnd(NamedTuple):
    """How far a segment goes."""

    next_offset: int
    """Known of the active segment only; -1 of the others, whose successor tells."""
    size_bytes: int


class SegmentBase:
    """The files of one segment, and what is known of them."""

    __slots__ = (
        "_age",
        "_first_timestamp_ms",
        "_run",
        "_writer",
        "base_offset",
        "created_ms",
        "directory",
        "end",
        "file",
        "has_index",
        "has_time_index",
        "headroom",
        "index",
        "is_unsettled",
        "jitter_ms",
        "pool",
        "stage",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        pool: FilePool,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int,
        index_bytes: int,
        time_index_bytes: int,
        txn_index_bytes: int | None = None,
    ) -> None:
        self.pool = pool
        self.directory = directory
        self.base_offset = base_offset
        self.stage = ""
        """The suffix of its files: nothing, `.cleaned`, `.swap`, `.deleted`."""
        self.file = PooledFile(pool, self.path_of(LOG))
        self.index = OffsetIndex(pool, self.path_of(INDEX), base_offset, size_bytes=index_bytes)
        self.time_index = TimeIndex(pool, self.path_of(TIME_INDEX), base_offset, size_bytes=time_index_bytes)
        self.txn_index = TxnIndex(pool, self.path_of(TXN_INDEX), size_bytes=txn_index_bytes)
        self.has_index = self.has_time_index = True
        """Whether the files were there when the segment was loaded."""
        self.end = SegmentEnd(-1, size_bytes)
        self.created_ms = 0
        """When this process opened, made or emptied it; the age of a segment without timestamps is counted from here. 0: not known yet."""
        self.jitter_ms = 0
        self._writer: OpenFile | None = None
        self._run: IndexRun | None = None
        self.is_unsettled = False
        """Whether bytes of a failed append may lie behind `end`."""
        self._first_timestamp_ms: int | None = None
        self._age: SegmentAge | None = None
        self.headroom: Headroom | None = None
        """Up to where it grows without a roll, once that was worked out; None if that is to be done again."""

    def path_of(self, kind: str) -> str:
        """Where one of its files is."""
        return f"{self.directory}/{segment_file(self.base_offset, kind, self.stage)}"

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return self.end[1]

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp so far, with the last offset of its batch; (-1, base offset) if there is none.

        Of a segment that was found on disk it is what the time index says.
        """
        if self._run is not None:
            return TimestampOffset(self._run.max_timestamp_ms, self._run.offset_of_max_timestamp)
        return self.time_index.last()

    @property
    def largest_timestamp_ms(self) -> int:
        """The age of its newest record for retention and time look-up; without timestamps, when the file was last written."""
        timestamp_ms = self.time_index.last()[0] if self._run is None else self._run.max_timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.pool.disk.mtime_ns(self.file.path) // 1_000_000

    @property
    def first_timestamp_ms(self) -> int | None:
        """The largest timestamp of its first batch, by which its age is counted; None while it is empty."""
        if self._first_timestamp_ms is None and self.end[1] > 0:
            # Lazily: only the active segment is ever asked.
            opened = self.file.open()
            header = self.pool.disk.read(opened.fd, HEADER.size, 0)
            # A v1 message has its timestamp elsewhere than a v2 batch, and may be shorter than the header of one; v0 has none.
            magic = header[_MAGIC_POSITION] if len(header) > _MAGIC_POSITION else None
            if magic == 0:
                self._first_timestamp_ms = -1
            elif magic == 1 and len(header) >= _V1_TIMESTAMP.stop:
                self._first_timestamp_ms = int.from_bytes(header[_V1_TIMESTAMP], "big", signed=True)
            elif magic is not None and magic >= 2 and len(header) == HEADER.size:
                self._first_timestamp_ms = HEADER.unpack(header)[8]
        return self._first_timestamp_ms

    def reindexed(self, index_bytes: int, time_index_bytes: int, txn_index_bytes: int | None = None) -> None:
        """Its index files are others now, of these sizes."""
        self.index.close()
        self.time_index.close()
        self.index = OffsetIndex(self.pool, self.path_of(INDEX), self.base_offset, size_bytes=index_bytes)
        self.time_index = TimeIndex(self.pool, self.path_of(TIME_INDEX), self.base_offset, size_bytes=time_index_bytes)
        self.txn_index = TxnIndex(self.pool, self.path_of(TXN_INDEX), size_bytes=txn_index_bytes)

    def restaged(self, stage: str, kinds: Sequence[str] = SEGMENT_KINDS) -> None:
        """Its files have another suffix now, or those of some kinds: the others follow."""
        self.stage = stage
        for kind in kinds:
            self._renamed(kind, self.path_of(kind))

    def unnamed(self) -> None:
        """Its files are about to be removed, or written over: it has none that could still be opened, whoever takes their names."""
        for kind in SEGMENT_KINDS:
            self._renamed(kind, "")

    def _renamed(self, kind: str, path: str) -> None:
        if kind == LOG:
            self.file.path = path
        elif kind == INDEX:
            self.index.renamed(path)
        elif kind == TIME_INDEX:
            self.time_index.renamed(path)
        else:
            self.txn_index.path = path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_offset}, {self.size_bytes} bytes)"
