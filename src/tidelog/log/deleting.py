"""Move the start of a log, delete segments, replace them.

Deleted segments leave the view at once; their files are renamed to `.deleted` and removed when `file.delete.delay.ms` has passed, so
that a reader in another process can finish. Readers in this process hold the files open and do not care.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidelog.config import LONG_MAX
from tidelog.disk.names import DELETED
from tidelog.errors import CleaningAbortedError, OffsetOutOfRangeError, RefusedBatchError
from tidelog.log.roll import RollReason
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import REOPEN_HINT, storage_error
from tidelog.log.swap import cleaned_to_swap, keep_rights, old_to_deleted, remove_deleted, rename_segment, swap_to_final
from tidelog.log.taking_over import TakingOver
from tidelog.log.view import Bound, View

_NEXT_TIME_HINT = "what is still there goes the next time; the log goes on when there is room"


class Deleting(TakingOver):
    """Delete and replace, on top of appending."""

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
            if target > self.log_start_offset or self._is_start_unsure:
                self._raise_start(max(target, self.log_start_offset))
            return self.log_start_offset

    def _raise_start(self, offset: int) -> None:
        self._is_start_unsure = True
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
            hint = f"the log starts at offset {offset} already; make room and ask again, lest a crash forgets it"
            raise storage_error(error, self.directory, "writing down the new start failed", hint=hint) from error
        self._is_start_unsure = False

    def delete_segments(self, count: int, reason: str, end_offset: int | None = None) -> int:
        """See `Log.delete_segments`."""
        with self._lock:
            self._check_writable()
            count = self._deletable(count, end_offset)
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
                raise storage_error(error, self.directory, f"deleting segments failed ({reason})", hint=_NEXT_TIME_HINT) from error
            return count

    def _delete_first(self, segment: Segment) -> None:
        """Let the first segment go. It leaves the view when its `.log` has another name: if that fails, it stays, below the start."""
        self._supersede({segment.base_offset})
        try:
            rename_segment(self.pool.disk, segment, DELETED)
        finally:
            if segment.stage == DELETED:
                self.view = View.of(self.view.segments[1:])
                self.removed_bytes += segment.size_bytes
                self._remove_later([segment])
        self.producers.set_aside([segment.base_offset])

    def _deletable(self, count: int, end_offset: int | None) -> int:
        """How many of the first `count` segments lie below the high watermark, and below `end_offset`, as a whole."""
        bases, watermark = self.view.base_offsets, self.high_watermark.offset
        limit = watermark if end_offset is None else min(watermark, end_offset)
        count = min(count, len(bases))
        ends = [*bases[1:], self.view.end.offset]
        while count and ends[count - 1] > limit:
            count -= 1
        return count

    def _delete_files(self, segments: Sequence[Segment], replaced: Iterable[int] = ()) -> None:
        if not segments:
            return
        for segment in segments:
            segment.close_writers()
        self._supersede({segment.base_offset for segment in segments})
        old_to_deleted(self.pool.disk, self.directory, segments)
        self.producers.set_aside({segment.base_offset for segment in segments} - set(replaced))
        self.removed_bytes += sum(segment.size_bytes for segment in segments)
        self._remove_later(segments)

    def _supersede(self, base_offsets: set[int]) -> None:
        """Segments with these base offsets are about to be deleted, and `.deleted` files of their names may wait for their time already.

        A reader with an old view that opens a file of the first only then must not get that of the second: it finds none, and looks again.
        """
        for _, segment in self._to_remove:
            if segment.base_offset in base_offsets:
                segment.unnamed()

    def _remove_later(self, segments: Sequence[Segment]) -> None:
        """These are `.deleted` now; who had these names before went with that, and what is left of it goes with them."""
        due_ms = self.clock() + self.config.file_delete_delay_ms
        names = {segment.base_offset for segment in segments}
        others = []
        for item in self._to_remove:
            if item[1].base_offset in names:
                item[1].forget()  # nobody removes it later: as long as its files were open, the system would keep what was in them
            else:
                others.append(item)
        self._to_remove = [*others, *((due_ms, segment) for segment in segments)]

    def remove_due(self, *, at_once: bool = False) -> None:
        """Remove the files of deleted segments whose delay has passed; `at_once`: of all.

        What the system refuses stays for the next time, and is raised when the others are gone.
        """
        now_ms = LONG_MAX if at_once else self.clock()
        due = deque(item for item in self._to_remove if item[0] <= now_ms)
        later = [item for item in self._to_remove if item[0] > now_ms]
        refused: list[tuple[int, Segment]] = []
        first: OSError | None = None
        try:
            while due:
                try:
                    remove_deleted(self.pool.disk, due[0][1])
                except OSError as error:
                    refused.append(due[0])
                    first = first or error
                due.popleft()
        finally:
            self._to_remove = [*refused, *due, *later]
        if first is not None:
            raise first

    def _try_remove_due(self) -> None:
        """The same after something that has been done, whatever becomes of old files: who looks after the log tells of those that stay."""
        with suppress(OSError):
            self.remove_due()

    def replace_segments(self, new: Sequence[Segment], old: Iterable[Segment]) -> None:
        """See `Log.replace_segments`.

        What the new segments leave out may be left out for something behind them: a newer value, a marker. A power cut must not take that
        too, so it is made durable first where flushing is weakened. In a durable log everything that is shown is.
        """
        if not self.config.is_durable and not self.is_closed:
            try:
                self.commit.wait_for(self.high_watermark.offset, self._sync_batches)
            except OSError as error:
                raise storage_error(error, self.directory, "flushing failed before segments were replaced") from error
        with self._lock:
            self._check_writable()
            old = list(old)
            gone = {id(segment) for segment in old}
            view = self.view
            if not gone <= {id(segment) for segment in view.segments[:-1]}:
                raise CleaningAbortedError(
                    "segments that were to be replaced are gone, or take appends", path=self.directory, hint="the log was cut meanwhile"
                )
            kept = [segment for segment in view.segments if id(segment) not in gone]
            disk = self.pool.disk
            self.commit.advance(0, self._step_over)
            keep_rights(disk, new, old[0] if old else view.active)
            try:
                cleaned_to_swap(disk, self.directory, new)
                self.view = View.of(sorted([*kept, *new], key=lambda segment: segment.base_offset))
                self.removed_bytes -= sum(segment.size_bytes for segment in new)
                self._delete_files(old, [segment.base_offset for segment in new])
                swap_to_final(disk, self.directory, new)
            except BaseException as error:
                # Half-way through the swap only a load can say which files count.
                self.fail(error)
                if isinstance(error, OSError):
                    raise storage_error(error, self.directory, "replacing segments failed", hint=REOPEN_HINT) from error
                raise
            self._try_remove_due()

    def _step_over(self) -> None:
        """A high watermark at the very end of a segment is told as the beginning of the next, before what takes its place has another size.

        Called with the mutex of `commit` held, as whoever moves it has it. Both say the same to a reader, of the old view and of the new.
        """
        watermark, view = self._high_watermark, self.view
        if watermark.base_offset != watermark.offset == view.base_offsets[max(0, view.floor(watermark.offset))]:
            self._high_watermark = Bound(watermark.offset, watermark.offset, 0)

    def _write_checkpoint(self) -> None:
        start = self.log_start_offset
        self.home.checkpoint(
            self.partition,
            recovery_point=self.recovery_point,
            log_start_offset=start if start > self.view.base_offsets[0] else None,
            high_watermark=self.high_watermark.offset,
        )
