"""Change what a log holds: cut its end, move its start, delete segments, replace them, close it.

Deleted segments leave the view at once; their files are renamed to `.deleted` and removed when `file.delete.delay.ms` has passed, so
that a reader in another process can finish. Readers in this process hold the files open and do not care.
"""

from collections.abc import Iterable, Sequence

from tidelog.disk.names import DELETED
from tidelog.errors import OffsetOutOfRangeError, RefusedBatchError
from tidelog.log.producer_replay import rebuild
from tidelog.log.roll import RollReason
from tidelog.log.segment import Segment
from tidelog.log.segment_files import create_segment
from tidelog.log.segment_read import find_offset, largest_timestamp
from tidelog.log.storage_errors import storage_error
from tidelog.log.swap import cleaned_to_swap, old_to_deleted, remove_deleted, rename_segment, swap_to_final
from tidelog.log.view import Bound, View
from tidelog.log.writing import Writing


class Maintenance(Writing):
    """The whole of a log's writing side."""

    # Truncation

    def truncate_to(self, offset: int) -> bool:
        """See `Log.truncate_to`."""
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        with self._lock:
            self._check_writable()
            end_offset = self.view.end.offset
            try:
                if offset >= end_offset:
                    self.epochs.truncate_end(offset)
                    return False
                self._settle()
                if offset < self.recovery_point:
                    # Before anything is cut: what is appended behind the cut is not flushed yet.
                    self.home.checkpoint_recovery_point(self.partition, offset)
                if self.view.base_offsets[0] > offset:
                    self._withhold(Bound(offset, offset, 0))
                    self._start_at(offset)
                else:
                    self._cut_at(offset)
                self.epochs.truncate_end(offset)
                self._lower(offset)
                self._reload_producers(end_offset)
                self._publish_again()
            except OSError as error:
                self.fail(error)
                raise storage_error(error, self.directory, "truncating failed") from error
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """See `Log.truncate_fully_and_start_at`."""
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        with self._lock:
            self._check_writable()
            try:
                self._settle()
                self._withhold(Bound(offset, offset, 0))
                self._start_at(offset)
                self.epochs.clear()
                self.producers.truncate_fully_and_start_at(offset)
                self.log_start_offset = offset
                self._high_watermark = self.view.end
                self._lower(offset)
                self.commit.move_to(offset)  # there is nothing below it that could be lost
                self._publish_again()
            except OSError as error:
                self.fail(error)
                raise storage_error(error, self.directory, "truncating failed") from error

    def _reload_producers(self, old_end_offset: int) -> None:
        """Go back to what producers had done up to the new end."""
        self.producers.map_end_offset = old_end_offset
        rebuild(
            self.producers,
            self.view.segments,
            self.log_start_offset,
            self.view.end.offset,
            self.clock(),
            is_clean=False,
            high_watermark=self.high_watermark.offset,
        )

    def _cut_at(self, offset: int) -> None:
        """Drop segments above `offset`, and cut the one that holds it before the batch that does."""
        view = self.view
        place = view.floor(offset)
        segment = view.segments[place]
        found = find_offset(segment, offset, segment.size_bytes)
        position = segment.size_bytes if found is None else found.position
        end = Bound(offset, segment.base_offset, position)
        if self.high_watermark.offset > offset:
            self._high_watermark = end  # before anything goes that readers could see
        self._withhold(end)
        self.view = View.of(view.segments[: place + 1])
        self._delete_files(view.segments[:place:-1])  # from the end, so that a crash leaves no hole
        if segment is not view.active:
            self._activate(segment, offset)
        segment.truncate_to_position(offset, position, self.clock())
        segment.resume(largest_timestamp(segment))
        self._guard_sync(segment.sync)

    def _start_at(self, offset: int) -> None:
        """An empty log that begins at `offset`.

        The start is written down first: if a crash leaves only some of the old segments, they end before it and do not count, and if it
        leaves none, the log begins there.
        """
        old = self.view.segments
        self.recovery_point = min(self.recovery_point, offset)
        self.home.checkpoint(self.partition, recovery_point=self.recovery_point, log_start_offset=offset, high_watermark=offset)
        if old[0].base_offset == offset:
            # Same file names: the first segment itself is emptied.
            self.view = View.of(old[:1])
            self._delete_files(old[:0:-1])
            if old[0] is not old[-1]:
                self._activate(old[0], offset)
            old[0].truncate_to_position(offset, 0, self.clock())
            self._guard_sync(old[0].sync)
            return
        self._delete_files(old[::-1])
        segment = create_segment(self.pool, self.directory, offset)
        self._activate(segment, offset)
        self.view = View.of([segment])
        self._guard_sync(lambda: self.pool.disk.sync_directory(self.directory))

    def _lower(self, offset: int) -> None:
        """No bound lies above the new end, and the checkpoint says so before anything is appended again."""
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.commit.move_to(min(offset, self.commit.flushed_end))
        if self._high_watermark.offset >= offset:
            self._high_watermark = self.view.end
        self._write_checkpoint()

    # Deletion

    def delete_records_before(self, offset: int) -> int:
        """See `Log.delete_records_before`."""
        with self._lock:
            self._check_writable()
            if self.config.is_compacted and not self.config.is_deleted_by_age:
                raise RefusedBatchError(
                    "a log that is only compacted keeps its records", kafka_error="POLICY_VIOLATION", hint="cleanup.policy=compact,delete"
                )
            high_watermark = self.high_watermark.offset
            target = high_watermark if offset == -1 else offset
            if not 0 <= target <= high_watermark:
                raise OffsetOutOfRangeError(
                    offset=offset, log_start_offset=self.log_start_offset, log_end_offset=high_watermark, path=self.directory
                )
            if target > self.log_start_offset:
                self._raise_start(target)
            return self.log_start_offset

    def _raise_start(self, offset: int) -> None:
        try:
            self.log_start_offset = offset
            self.recovery_point = max(self.recovery_point, offset)
            # Written down before the epochs are trimmed, which loading repeats: batches that can be read always have their epoch.
            self._write_checkpoint()
            self.epochs.truncate_start(offset)
            self.producers.map_end_offset = self.view.end.offset
            self.producers.start_moved(offset)
            self._publish_again()
        except OSError as error:
            raise storage_error(error, self.directory, "writing down the new start failed") from error

    def delete_segments(self, count: int, reason: str) -> int:
        """See `Log.delete_segments`."""
        with self._lock:
            self._check_writable()
            count = self._deletable(count)
            if count == 0:
                return 0
            try:
                if count == len(self.view.segments):
                    if self.view.active.size_bytes == 0:
                        count -= 1  # an empty active segment stays
                    else:
                        self._settle()
                        self._roll(self.view.end.offset, self.clock(), RollReason.ASKED)
                gone, stay = self.view.segments[:count], self.view.segments[count:]
                if not gone:
                    return 0
                # The start moves before any file is touched: a crash in between leaves segments below it, which go later.
                self._raise_start(max(self.log_start_offset, stay[0].base_offset))
                for segment in gone:
                    self._delete_first(segment)
                self.pool.disk.sync_directory(self.directory)
                self.remove_due()
            except OSError as error:
                raise storage_error(error, self.directory, f"deleting segments failed ({reason})") from error
            return count

    def _delete_first(self, segment: Segment) -> None:
        """Let the first segment go. It leaves the view when its `.log` has another name: if that fails, it stays, below the start."""
        try:
            rename_segment(self.pool.disk, segment, DELETED)
        finally:
            if segment.stage == DELETED:
                self.view = View.of(self.view.segments[1:])
                self._to_remove = [*self._to_remove, (self.clock() + self.config.file_delete_delay_ms, segment)]
        self.producers.set_aside([segment.base_offset])

    def _deletable(self, count: int) -> int:
        """How many of the first `count` segments lie below the high watermark as a whole."""
        bases, watermark = self.view.base_offsets, self.high_watermark.offset
        count = min(count, len(bases))
        ends = [*bases[1:], self.view.end.offset]
        while count and ends[count - 1] > watermark:
            count -= 1
        return count

    def _delete_files(self, segments: Sequence[Segment], replaced: Iterable[int] = ()) -> None:
        if not segments:
            return
        for segment in segments:
            segment.close_writers()
        old_to_deleted(self.pool.disk, self.directory, segments)
        self.producers.set_aside({segment.base_offset for segment in segments} - set(replaced))
        due_ms = self.clock() + self.config.file_delete_delay_ms
        self._to_remove = [*self._to_remove, *((due_ms, segment) for segment in segments)]
        self.remove_due()

    def remove_due(self) -> None:
        """Remove the files of deleted segments whose delay has passed."""
        now_ms = self.clock()
        due = [segment for due_ms, segment in self._to_remove if due_ms <= now_ms]
        self._to_remove = [(due_ms, segment) for due_ms, segment in self._to_remove if due_ms > now_ms]
        for segment in due:
            remove_deleted(self.pool.disk, segment)

    def replace_segments(self, new: Sequence[Segment], old: Iterable[Segment]) -> None:
        """See `Log.replace_segments`."""
        with self._lock:
            self._check_writable()
            old = list(old)
            gone = {id(segment) for segment in old}
            view = self.view
            assert id(view.active) not in gone, "the active segment is never replaced"
            kept = [segment for segment in view.segments if id(segment) not in gone]
            disk = self.pool.disk
            try:
                cleaned_to_swap(disk, self.directory, new)
                self.view = View.of(sorted([*kept, *new], key=lambda segment: segment.base_offset))
                self._delete_files(old, [segment.base_offset for segment in new])
                swap_to_final(disk, self.directory, new)
            except BaseException as error:
                # Half-way through the swap only a load can say which files count.
                self.fail(error)
                if isinstance(error, OSError):
                    raise storage_error(error, self.directory, "replacing segments failed") from error
                raise

    # Checkpoint and close

    def _write_checkpoint(self) -> None:
        start = self.log_start_offset
        self.home.checkpoint(
            self.partition,
            recovery_point=self.recovery_point,
            log_start_offset=start if start > self.view.base_offsets[0] else None,
            high_watermark=self.high_watermark.offset,
        )

    def checkpoint(self) -> None:
        """See `Log.checkpoint`."""
        self.flush()
        with self._lock:
            try:
                self._write_checkpoint()
                self.remove_due()
            except OSError as error:
                raise storage_error(error, self.directory, "writing the checkpoint failed") from error

    def close(self) -> None:
        """See `Log.close`."""
        if self._deadline is not None:
            self._deadline.cancel()
        for task in self._pending:
            task.exception()
        is_last = is_clean = False
        try:
            if self.failure is None and not self.is_closed:
                self.flush()
            with self._lock:
                if self.is_closed:
                    return
                self.is_closed = is_last = True
                if self.failure is None:
                    active = self.view.active
                    active.finish()
                    active.sync()
                    self._take_snapshot(self.view.end.offset, is_durable=True)
                    self.pool.disk.sync_directory(self.directory)
                    self._write_checkpoint()
                    if self._published is not None:
                        self._published.withdraw()  # from here on the checkpoints say the same
                        self.pool.disk.sync_directory(self.directory)
                    is_clean = True
        except OSError as error:
            if not self.is_closed:
                self.is_closed = is_last = True
            self.fail(error)
            raise storage_error(error, self.directory, "closing failed; the log will be recovered when it is opened") from error
        finally:
            if is_last:
                self._published = None
                for segment in self.view.segments:
                    segment.forget()
                try:
                    self.home.release(self.partition, clean=is_clean)
                except OSError as error:
                    raise storage_error(error, self.home.path, "letting go of the log directory failed") from error
