"""A segment: one `.log` file of batches, with its offset index and its time index.

Only the active segment, the last of its log, is written to. What has been appended is `end`: the next offset and the size of the file in
one tuple, replaced whole. Bytes behind that size are a write that failed or is under way: nobody reads them, and they are cut off before
anything else is written. Index entries, running timestamp and counters follow `end`; losing one of them to an interrupt is harmless.
"""

import errno
from collections.abc import Callable, Sequence

from tidelog.disk.disk import Buffer
from tidelog.disk.file_pool import OpenFile, PooledFile
from tidelog.log.roll import RollReason, SegmentAge
from tidelog.log.segment_base import SegmentBase, SegmentEnd
from tidelog.log.time_index import TimestampOffset
from tidelog.record.headers import BatchHeaders
from tidelog.record.indexing import IndexRun, index_batches

_COPY_BYTES = 4 << 20


class Segment(SegmentBase):
    """One segment. Reading may be done from any thread; the log's lock is held for everything that changes it."""

    __slots__ = ()

    def activate(
        self,
        next_offset: int,
        *,
        segment_index_bytes: int,
        index_interval_bytes: int,
        created_ms: int,
        jitter_ms: int,
        file_bytes: int = 0,
    ) -> None:
        """Make it the segment that is appended to: files open for writing, indexes at their full size.

        `file_bytes` is the size to which the `.log` is preallocated.
        """
        if self._writer is None:
            self._writer = self.pool.open_for_writing(self.file.path)
            self.file.keep(self._writer)
        self.index.preallocate(segment_index_bytes)
        self.time_index.preallocate(segment_index_bytes)
        if file_bytes > self.size_bytes:
            self.pool.disk.truncate(self._writer.fd, file_bytes)
        self._start_run(index_interval_bytes)
        self.created_ms = self.created_ms or created_ms  # a truncation that makes it the last one again does not make it young
        self.jitter_ms = jitter_ms
        self._age = self.headroom = None
        self.end = SegmentEnd(next_offset, self.end[1])

    def resume(self, running: TimestampOffset) -> None:
        """Go on with this running maximum, which is larger than what the time index knows."""
        assert self._run is not None
        self._run.max_timestamp_ms, self._run.offset_of_max_timestamp = running

    def _start_run(self, interval_bytes: int) -> None:
        """Count bytes since the last entry from here on, as Kafka does whenever it opens or cuts a segment."""
        timestamp_ms, offset = self.time_index.last()
        last_entry = self.index.last()
        self._run = IndexRun(
            self.base_offset,
            interval_bytes,
            last_entry_offset=-1 if last_entry is None else last_entry.offset,
            last_time_entry_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
            offset_of_max_timestamp=offset,
        )

    @property
    def age(self) -> SegmentAge:
        """By what its age is counted."""
        if self._age is None:
            age = SegmentAge(self.base_offset, self.first_timestamp_ms, self.created_ms, self.jitter_ms)
            if age.first_timestamp_ms is None:
                return age
            self._age = age
        return self._age

    def full_index(self) -> RollReason | None:
        """Which index has no room for another entry, if one has not."""
        if self.index.is_full:
            return RollReason.OFFSET_INDEX_FULL
        return RollReason.TIME_INDEX_FULL if self.time_index.is_full else None

    @property
    def writer(self) -> OpenFile:
        """The file, open for writing."""
        assert self._writer is not None, "only the active segment is written to"
        return self._writer

    def append(self, parts: Sequence[Buffer], size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Append one batch. If anything is raised, nothing was appended once `settle` has been called."""
        index, time_index, run = self.index, self.time_index, self._run
        assert run is not None, "only the active segment is written to"
        writer = self.writer
        if index.is_crowded or time_index.is_crowded:
            index.make_room()
            time_index.make_room()
        position = self.end[1]
        self.is_unsettled = True
        self.pool.disk.write(writer.fd, parts, position, size_bytes)
        self.end = tuple.__new__(SegmentEnd, (last_offset + 1, position + size_bytes))
        self.is_unsettled = False
        if position == 0:
            self._first_timestamp_ms = max_timestamp_ms
        # Room was checked before the roll was decided: an active segment takes at least one entry more.
        _, offset_entry, time_entry = run.add_batch(position, size_bytes, last_offset, max_timestamp_ms, 1, 1)
        if offset_entry:
            index.append_bytes(offset_entry)
            if time_entry:
                time_index.append_bytes(time_entry)

    def append_batches(self, parts: Sequence[Buffer], headers: BatchHeaders) -> None:
        """Append batches, whose bytes are `parts` one behind the other, as one write."""
        run = self._run
        assert run is not None, "only the active segment is written to"
        writer = self.writer
        self.index.make_room()
        self.time_index.make_room()
        position = self.end[1]
        self.is_unsettled = True
        self.pool.disk.write(writer.fd, parts, position)
        self.end = SegmentEnd(int(headers.last_offset[-1]) + 1, position + headers.end_position - int(headers.position[0]))
        self.is_unsettled = False
        if position == 0:
            self._first_timestamp_ms = int(headers.max_timestamp_ms[0])
        self._index_batches(headers, run, position)

    def take_over(self, path: str, opened: OpenFile, runs: Sequence[BatchHeaders], sync_names: Callable[[], None]) -> None:
        """Have a file as the `.log`, in which there is nothing so far: durable, open for writing, with batches of these headers.

        `sync_names` is done before anybody can see them. If anything is raised and the segment is unsettled, nobody knows which file has
        the name: nothing was appended once `reopen`, the same sync and `settle` have been done. Between directories with quotas of their
        own the system renames nothing, though they are on one file system: then the bytes are copied, and are as durable as an append.
        """
        run = self._run
        assert run is not None, "only the active segment is written to"
        assert self.end[1] == 0, "what is in it would be lost"
        self.index.make_room()
        self.time_index.make_room()
        sizes = [headers.end_position - int(headers.position[0]) for headers in runs]
        self.is_unsettled = True
        try:
            self.pool.disk.rename(path, self.file.path)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(opened, sum(sizes))
        else:
            sync_names()
            self._go_on_with(opened)
        self.end = SegmentEnd(int(runs[-1].last_offset[-1]) + 1, sum(sizes))
        self.is_unsettled = False
        self._first_timestamp_ms = int(runs[0].max_timestamp_ms[0])
        position = 0
        for headers, size_bytes in zip(runs, sizes, strict=True):
            self._index_batches(headers, run, position)
            position += size_bytes

    def _copy(self, opened: OpenFile, size_bytes: int) -> None:
        """Write what another file has to the beginning of the `.log`."""
        disk, fd = self.pool.disk, self.writer.fd
        buffer, position = memoryview(bytearray(min(size_bytes, _COPY_BYTES))), 0
        while position < size_bytes:
            count = disk.read_into(opened.fd, buffer[: size_bytes - position], position)
            if not count:
                raise OSError(errno.EIO, f"a file that is copied ends at {position}, not at {size_bytes}")
            disk.write(fd, [buffer[:count]], position)
            position += count

    def reopen(self) -> None:
        """Go on with whichever file has the name of its `.log` now."""
        self._go_on_with(self.pool.open_for_writing(self.file.path))

    def _go_on_with(self, opened: OpenFile) -> None:
        before = self.file
        self._writer = opened
        # Another object, not the same with another file: a reader that is about to open the old one would put it back.
        self.file = PooledFile(self.pool, before.path)
        self.file.keep(opened)
        before.drop()

    def _index_batches(self, headers: BatchHeaders, run: IndexRun, position: int) -> None:
        """Entries for batches that lie at `position`, as far as there is room."""
        entries = index_batches(
            headers,
            run,
            position,
            free_offset_slots=self.index.slots - self.index.entries,
            free_time_slots=self.time_index.slots - 1 - self.time_index.entries,
        )
        if entries.count_of_batches < len(headers):
            # An index is full in the middle of the call: the rest gets no entries, but counts for the largest timestamp.
            rest = headers[entries.count_of_batches :]
            at = position + int(rest.position[0]) - int(headers.position[0])
            index_batches(rest, run, at, free_offset_slots=len(rest), free_time_slots=len(rest))
        self.index.append_bytes(entries.offset_entries)
        self.time_index.append_bytes(entries.time_entries)

    def _append_last_time_entry(self) -> None:
        """The running maximum at the end of the segment, for which the time index has kept a slot."""
        timestamp_ms, offset = self.max_timestamp
        last_ms = self.time_index.last().timestamp_ms
        if timestamp_ms > last_ms:
            if self._run is not None:
                self._run.last_time_entry_ms = timestamp_ms
            self.time_index.maybe_append(timestamp_ms, offset, last_ms)

    def settle(self) -> None:
        """Cut off what a failed append left behind `end`, durably: what is written next must not have remains behind it."""
        if self.is_unsettled:
            self.pool.disk.truncate(self.writer.fd, self.end[1])
            self.pool.disk.sync(self.writer.fd)
            self.is_unsettled = False

    def finish(self) -> None:
        """No more batches will come, or the log is closed: the last time entry, and files cut to what is in them."""
        self.settle()
        self._append_last_time_entry()
        self.index.trim()
        self.time_index.trim()
        writer = self.writer
        if self.pool.disk.size(writer.fd) != self.end[1]:
            self.pool.disk.truncate(writer.fd, self.end[1])

    def sync(self) -> None:
        """Make all its files durable."""
        self.sync_batches()
        self.sync_indexes()

    def sync_batches(self) -> None:
        """Make the `.log` durable. One that was deleted need not be."""
        opened = self._writer
        if opened is None:
            try:
                opened = self.file.open()
            except FileNotFoundError:
                return
        self.pool.disk.sync(opened.fd)

    def sync_indexes(self) -> None:
        """Make its indexes durable, as far as they are written."""
        self.index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def close_writers(self) -> None:
        """It is no longer active."""
        self._writer = None
        self.index.close_writer()
        self.time_index.close_writer()
        self.txn_index.close_writer()

    def truncate_to_position(self, offset: int, position: int, now_ms: int) -> None:
        """Cut the `.log` at `position`, and drop index entries at or above `offset`, which is where the log goes on."""
        disk = self.pool.disk
        self.is_unsettled = True
        self.end = SegmentEnd(offset, position)
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        disk.truncate(self.writer.fd, position)
        self.is_unsettled = False
        if self._run is not None:
            self._start_run(self._run.interval_bytes)
        if position == 0:
            self._first_timestamp_ms = self._age = self.headroom = None
            self.created_ms = now_ms

    def cut_file(self, position: int) -> None:
        """Cut the `.log` at `position`, durably; only while loading, when nobody reads and nothing is active."""
        opened = self.pool.open_for_writing(self.file.path)
        self.pool.disk.truncate(opened.fd, position)
        self.pool.disk.sync(opened.fd)
        self.end = SegmentEnd(-1, position)

    def forget(self) -> None:
        """Let go of its files."""
        self.close_writers()
        self.file.drop()
        self.index.close()
        self.time_index.close()
