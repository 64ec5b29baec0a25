"""Checkpoint and close: the whole of a log's writing side.

It is made of layers, each in a module of its own: state and failure, flush, roll, append as follower, append as leader, take over whole
files, delete, truncate.
"""

from contextlib import suppress

from tidelog.config import LogConfig
from tidelog.errors import LogClosedError
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error
from tidelog.log.truncating import Truncating


class Maintenance(Truncating):
    """The whole of a log's writing side."""

    def reconfigure(self, config: LogConfig) -> None:
        """Go on with other settings. What is shown already stays shown; what was appended is made as durable as they ask for."""
        with self._lock:
            self._check_writable()
            if self.follows:
                self._high_watermark = self.high_watermark
            self._take_settings(config)
            end_offset = self.view.end.offset
            deadline, self._deadline = self._deadline, None  # it may be later than the new one
        if deadline is not None:
            deadline.cancel()
        if self.commit.flushed_end < end_offset:
            self._acknowledge(end_offset)

    def checkpoint(self) -> None:
        """See `Log.checkpoint`."""
        self.flush()
        with self._lock:
            try:
                self._write_checkpoint()
                self.remove_due()
            except OSError as error:
                raise storage_error(error, self.directory, "writing the checkpoint failed") from error

    # For the keeper of many logs

    def checkpoint_offsets(self, *, with_recovery_point: bool = False) -> None:
        """See `LogUpkeep`. The start goes first: a recovery point moves up with it over batches that were never flushed."""
        start = self.log_start_offset
        if self.home.is_checkpointed(
            self.partition,
            log_start_offset=start if start > self.view.base_offsets[0] else None,
            recovery_point=self.recovery_point if with_recovery_point else None,
        ):
            return  # as nearly always: who appends need not wait for that
        with self._lock:
            if self.is_closed or self.failure is not None:
                return
            try:
                start = self.log_start_offset
                self.home.checkpoint_log_start(self.partition, start if start > self.view.base_offsets[0] else None)
                if with_recovery_point:
                    self.home.checkpoint_recovery_point(self.partition, self.recovery_point)
            except OSError as error:
                raise storage_error(error, self.directory, "writing the checkpoint failed") from error

    def expire_producers(self) -> int:
        """See `LogUpkeep`."""
        if not self.producers.entries:
            return 0
        with self._lock:
            if self.is_closed or self.failure is not None:
                return 0
            before = len(self.producers.entries)
            self.producers.remove_expired(self.clock())
            return before - len(self.producers.entries)

    @property
    def to_remove(self) -> list[tuple[int, Segment]]:
        """Deleted segments, with the time at which their files go."""
        return self._to_remove

    def remove_deleted(self, *, at_once: bool = False) -> int:
        """See `LogUpkeep`."""
        if not self._to_remove:
            return 0
        with self._lock:
            if self.is_closed or self.failure is not None:
                return 0
            waiting = len(self._to_remove)
            try:
                self.remove_due(at_once=at_once)
            except OSError as error:
                raise storage_error(error, self.directory, "removing deleted segments failed") from error
            return waiting - len(self._to_remove)

    def close(self) -> None:
        """See `Log.close`."""
        if self._deadline is not None:
            self._deadline.cancel()
        for task in (*self._pending, *filter(None, (self._ahead,))):
            task.exception()
        is_last = is_clean = False
        try:
            if self.failure is None and not self.is_closed:
                with suppress(LogClosedError):  # by another thread, since it was asked
                    self.flush()
            with self._lock:
                if self.is_closed:
                    return
                self.is_closed = is_last = True
                if self.failure is None:
                    active = self.view.active
                    active.finish()
                    self._sync_alone(active.sync)
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
            what = "closing failed; the log will be recovered when it is opened"
            raise storage_error(error, self.directory, what, hint="make room before that") from error
        finally:
            if is_last:
                self._published = None
                for segment in self.view[0]:  # by its place: a forked child may close, though it may not look
                    segment.forget()
                try:
                    self.home.release(self.partition, clean=is_clean)
                except OSError as error:
                    raise storage_error(error, self.home.path, "letting go of the log directory failed") from error
