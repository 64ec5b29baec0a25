"""The new segment of a group while it is written: `.cleaned` files, which count for nothing until they are swapped in."""

from contextlib import suppress
from typing import NamedTuple, Protocol

from tidelog.compaction.stats import Counts
from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEANED, INDEX, LOG, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.log.segment import Segment
from tidelog.log.time_index import ENTRY as TIME_ENTRY
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.headers import walk_headers
from tidelog.record.indexing import IndexRun, IndexStop, index_batches

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = TIME_ENTRY.size


class OffsetOverflowError(Exception):
    """Offsets too far apart for the indexes of one segment: the source segment has to be split."""

    source: Segment | None = None


class Target(Protocol):
    """Where the batches of a group go."""

    size_bytes: int

    def append(self, batches: memoryview) -> None:
        """Batches that stay, one behind the other."""

    def note_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Aborted transactions whose marker stays."""


class Nowhere:
    """For a cleaning that is only tried."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def append(self, batches: memoryview) -> None:
        """See `Target`."""
        self.size_bytes += len(batches)

    def note_aborted(self, transactions: list[AbortedTxn]) -> None:
        """See `Target`."""


class CleanedSizes(NamedTuple):
    """The bytes of the files of a new segment."""

    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int | None
    """None: there is no such file."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The files that there are."""
        return (LOG, INDEX, TIME_INDEX) if self.txn_index_bytes is None else (LOG, INDEX, TIME_INDEX, TXN_INDEX)


def cleaned_segment(pool: FilePool, directory: str, base_offset: int, sizes: CleanedSizes) -> Segment:
    """The segment whose files are `N.*.cleaned`."""
    segment = Segment(pool, directory, base_offset, size_bytes=sizes.size_bytes, index_bytes=0, time_index_bytes=0)
    segment.restaged(CLEANED)
    segment.reindexed(sizes.index_bytes, sizes.time_index_bytes, sizes.txn_index_bytes)
    return segment


class CleanedSegment:
    """The files `N.*.cleaned`. `finish` makes them durable and gives the segment; `abandon` removes them."""

    def __init__(self, source: Segment, config: LogConfig, counts: Counts, staged: str | None = None) -> None:
        """`source` is the first segment of the group. `staged` puts the files elsewhere: it is how their paths begin, kinds follow."""
        self._source = source
        self._staged = staged
        self._config = config
        self._counts = counts
        self._disk = source.pool.disk
        self._run = IndexRun(source.base_offset, config.index_interval_bytes)
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._txn_entries = bytearray()
        self._opened: list[int] = []
        self.size_bytes = 0
        self._remove_left_over()
        self._log_fd = self._create(LOG)

    def append(self, batches: memoryview) -> None:
        """Batches that stay, one behind the other: written, and entered into the indexes."""
        if len(batches) == 0:
            return
        headers = walk_headers(batches)
        self._disk.write(self._log_fd, [batches], self.size_bytes)
        self._counts.extra_on_disk(len(batches))
        slots = self._config.segment_index_bytes // OFFSET_ENTRY_BYTES
        time_slots = self._config.segment_index_bytes // TIME_ENTRY_BYTES - 1
        entries = index_batches(
            headers,
            self._run,
            self.size_bytes,
            free_offset_slots=max(0, slots - len(self._offset_entries) // OFFSET_ENTRY_BYTES),
            free_time_slots=max(0, time_slots - len(self._time_entries) // TIME_ENTRY_BYTES),
        )
        if entries.stop is IndexStop.OFFSET_OUT_OF_RANGE:
            raise OffsetOverflowError
        self._offset_entries += entries.offset_entries
        self._time_entries += entries.time_entries
        if entries.count_of_batches < len(headers):
            # An index is full: the rest gets no entries, but counts for the largest timestamp.
            rest = headers[entries.count_of_batches :]
            at = self.size_bytes + int(rest.position[0]) - int(headers.position[0])
            index_batches(rest, self._run, at, free_offset_slots=len(rest), free_time_slots=len(rest))
        self.size_bytes += len(batches)

    def note_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Aborted transactions whose marker stays: the transaction index."""
        for transaction in transactions:
            self._txn_entries += transaction.pack()

    def finish(self, mtime_ns: int) -> Segment:
        """Make everything durable, as old as the last segment it was made of."""
        sizes = self.seal(mtime_ns)
        self._disk.sync_directory(self._source.directory)
        return cleaned_segment(self._source.pool, self._source.directory, self._source.base_offset, sizes)

    def seal(self, mtime_ns: int) -> CleanedSizes:
        """Write the indexes and make all files durable, but for their names."""
        # Not by what the run takes for its last entry: it has counted some that a full index did not get.
        run, last_entry = self._run, self._time_entries[-TIME_ENTRY_BYTES:]
        if run.max_timestamp_ms > (TIME_ENTRY.unpack(last_entry)[0] if last_entry else -1):
            self._time_entries += TIME_ENTRY.pack(run.max_timestamp_ms, run.offset_of_max_timestamp - self._source.base_offset)
        disk = self._disk
        contents: list[tuple[str, Buffer]] = [(INDEX, self._offset_entries), (TIME_INDEX, self._time_entries)]
        if self._txn_entries:
            contents.append((TXN_INDEX, self._txn_entries))
        for kind, content in contents:
            disk.write(self._create(kind), [content], 0)
            self._counts.extra_on_disk(len(content))
        for kind in (LOG, INDEX, TIME_INDEX):
            disk.set_mtime_ns(self._path(kind), mtime_ns)
        for fd in self._opened:
            disk.sync(fd)
        self._close()
        return CleanedSizes(self.size_bytes, len(self._offset_entries), len(self._time_entries), len(self._txn_entries) or None)

    def abandon(self) -> None:
        """Remove the files. If that fails too, they are removed when the log is opened."""
        self._close()
        with suppress(OSError):
            self._remove_left_over()

    def _create(self, kind: str) -> int:
        fd = self._disk.create(self._path(kind), exclusive=False)
        self._opened.append(fd)
        return fd

    def _close(self) -> None:
        while self._opened:
            self._disk.close(self._opened.pop())

    def _path(self, kind: str) -> str:
        if self._staged is not None:
            return f"{self._staged}{kind}"
        return f"{self._source.directory}/{segment_file(self._source.base_offset, kind, CLEANED)}"

    def _remove_left_over(self) -> None:
        for kind in SEGMENT_KINDS:
            if self._disk.exists(self._path(kind)):
                self._disk.remove(self._path(kind))
