"""How a log becomes durable: group commit, deadlines, the recovery point, and the end that others may read up to.

An acknowledgement needs the `.log` synced; the recovery point moves once indexes and directory are synced too. Both are written down only
afterwards, and taken back before anything is cut.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from tidelog.config import LONG_MAX
from tidelog.disk.published_end import PublishedEnd
from tidelog.errors import StorageError, TidelogError
from tidelog.log.log_state import LogState
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound

_logger = logging.getLogger(__name__)
_background = ThreadPoolExecutor(1, "tidelog-flush")
"""Syncs rolled segments of logs that do not wait for the disk."""
_MAX_TIMER_MS = 86_400_000
"""A timer takes no time without end; who wakes too early goes to sleep again."""
_RETRY_MS = 1_000
"""A flush by the clock that could not be done is tried again after so long, at the earliest."""


class Flushing(LogState):
    """Flush, on top of the state."""

    def settle_in(self, *, was_clean: bool) -> None:
        """Make durable what was found, before readers are shown it: after a crash it may be in the page cache only.

        A recovery point above the end of the log, which a crash in a truncation leaves, is taken back first, and so is a high watermark:
        what is appended from here on would count as flushed, and be shown before it is. So is a start above that of the log: after a crash
        what is appended would count as deleted.
        """
        if (self.home.recovery_point(self.partition) or 0) > self.recovery_point:
            self.home.checkpoint_recovery_point(self.partition, self.recovery_point)
        if (self.home.high_watermark(self.partition) or 0) > self.view.end.offset:
            self.home.checkpoint_high_watermark(self.partition, self.view.end.offset)
        start = self.log_start_offset
        if (self.home.log_start_offset(self.partition) or 0) > start:
            self.home.checkpoint_log_start(self.partition, start if start > self.view.base_offsets[0] else None)
        if not was_clean:
            # A process that was killed in a roll leaves a segment whose name only the page cache knows: its batches would be lost with it.
            self._guard_sync(partial(self.pool.disk.sync_directory, self.directory))
        if self.config.is_durable:
            self.commit.wait_for(self.view.end.offset, self._sync_batches)
        # A crash may have left a higher end than there is now.
        self._publish_again(is_durable=True)

    def set_high_watermark(self, offset: int) -> None:
        """See `Log.high_watermark`. What a durable log shows is made durable first."""
        if self.config.is_durable:
            self._sync_up_to(min(offset, self.view.end.offset))
        with self._lock:
            try:
                self._high_watermark = self._place(max(self.log_start_offset, min(offset, self.view.end.offset)))
            except OSError as error:
                raise storage_error(error, self.directory, "finding the place of the high watermark failed") from error
            self.follows = False
            self.producers.forget_stable(self._high_watermark.offset)

    def _acknowledge(self, end_offset: int) -> None:
        """Wait for the disk as long as the settings ask for."""
        config = self.config
        if config.is_durable or end_offset - self.commit.flushed_end >= config.flush_messages:
            self._wait_for_disk(end_offset)
        elif config.flush_ms < LONG_MAX:
            if self._is_flush_due():
                self._wait_for_disk(end_offset)
            elif self._deadline is None:
                self._set_deadline()

    def acknowledge(self, end_offset: int) -> None:
        """See `Log.acknowledge`."""
        if self.is_closed and self.commit.flushed_end < end_offset:
            self._check_writable()
        self._acknowledge(end_offset)

    def sync_ahead(self) -> None:
        """See `Log.sync_ahead`. What goes wrong fails the log, and is told to whoever waits."""
        if self._ahead is None or self._ahead.done():
            end_offset = self.view.end.offset
            self._ahead = _background.submit(self._flush_unasked, "ahead", partial(self.commit.wait_for, end_offset, self._sync_batches))

    def wait_until_durable(self, end_offset: int) -> None:
        """See `Log.wait_until_durable`."""
        if self.commit.flushed_end < end_offset:
            if self.is_closed:
                self._check_writable()
            self._wait_for_disk(end_offset)

    def _sync_up_to(self, end_offset: int) -> bool:
        """Return when everything below is durable; False: the log was cut meanwhile and does not go that far."""
        try:
            return self.commit.wait_for(end_offset, self._sync_batches)
        except OSError as error:  # without a descriptor nothing was tried
            raise storage_error(error, self.directory, "what was appended could not be made durable yet") from error

    def _wait_for_disk(self, end_offset: int) -> None:
        if not self._sync_up_to(end_offset):
            raise StorageError("what was appended has been cut off by a truncation before it was durable", path=self.directory)

    def _set_deadline(self, min_ms: int = 1) -> None:
        """Flush when `flush.ms` is over, whether or not anything is appended until then."""
        flush_ms = self.config.flush_ms
        left_ms = min(self._last_flush_ms + flush_ms - self.clock(), flush_ms, _MAX_TIMER_MS)  # a clock may have been set back
        self._deadline = threading.Timer(max(min_ms, left_ms) / 1000, self._keep_deadline)
        self._deadline.daemon = True
        self._deadline.start()

    def _keep_deadline(self) -> None:
        self._deadline = None
        is_done = self._flush_unasked("deadline", self.flush_if_due)
        is_over = self.is_closed or self.failure is not None or self.commit.flushed_end >= self.view.end.offset
        if not is_over and self._deadline is None:
            # Not yet: a clock that is not the wall's; or a refusal, which may pass.
            self._set_deadline(1 if is_done else _RETRY_MS)

    def _flush_unasked(self, what: str, flush: Callable[[], object]) -> bool:
        """Flush where nobody waits for the answer: whether that went well. If not, `flush_error` says so until it does.

        After a failed sync the log takes no more writes, and the same holds for what nobody has foreseen.
        """
        try:
            flush()
        except Exception as error:
            if self.is_closed:
                return True  # it was closed meanwhile, which flushes
            if not isinstance(error, (TidelogError, OSError)):
                self.fail(error)
            self.flush_errors = {**self.flush_errors, what: error}
            _logger.warning("%s: flushing in the background failed: %s", self.partition, error)
            return False
        if what in self.flush_errors and self.failure is None:
            self.flush_errors = {other: error for other, error in self.flush_errors.items() if other != what}
        return True

    def _is_flush_due(self) -> bool:
        """Also by a clock that was set back: how long it has been nobody knows then."""
        return not 0 <= self.clock() - self._last_flush_ms < self.config.flush_ms

    def _sync_batches(self) -> int:
        """Make the `.log` files durable up to the end, as far as they are not; called with the mutex of `commit` held."""
        if self.failure is not None:
            raise self._failed()
        now_ms = self.clock()
        view = self.view
        end = view.end
        first = max(0, view.floor(self.commit.flushed_end))
        started = time.perf_counter()
        for segment in view.segments[first:]:
            self._guard_sync(segment.sync_batches)
        took_ms = (time.perf_counter() - started) * 1000
        count, total_ms, max_ms = self.flush_stats
        self.flush_stats = (count + 1, total_ms + took_ms, max(max_ms, took_ms))
        self._last_flush_ms = now_ms
        self._show(end)
        return end.offset

    def _show(self, end: Bound) -> None:
        """Everything below `end` is durable: readers may see it, in other processes too. Called with the mutex of `commit` held."""
        if self.follows and end.offset > self._high_watermark.offset:
            self._high_watermark = end
        with suppress(OSError):  # what is not published is not seen by others yet, and will be with the next commit
            self._publish(end)

    def _publish(self, end: Bound, *, is_durable: bool = False) -> None:
        if self._published is None:
            self._published = PublishedEnd.open_for_writing(self.pool.disk, self.directory)
        self._published.publish(*end, self.log_start_offset, is_durable=is_durable)

    def _publish_again(self, *, is_durable: bool = False) -> None:
        """The log starts or ends elsewhere."""
        # What was deleted before it was ever flushed is not waited for.
        self.commit.advance(
            0, lambda: self._publish(self._place(max(self.commit.flushed_end, self.view.base_offsets[0])), is_durable=is_durable)
        )

    def _withhold(self, end: Bound) -> None:
        """The log is about to be cut at `end`: nobody may be shown more, also after a crash."""
        if end.offset < self.commit.flushed_end:
            self.commit.advance(0, partial(self._publish, end, is_durable=True))

    def flush_if_due(self) -> bool:
        """Flush if `flush.ms` has passed since the last time and there is something to flush: whether it did."""
        end = self.view.end.offset
        if self.is_closed or self.failure is not None or self.commit.flushed_end >= end or not self._is_flush_due():
            return False
        self._sync_up_to(end)
        return True

    def flush(self) -> None:
        """See `Log.flush`."""
        with self._lock:
            self._check_writable()
            self._settle()
            end_offset = self.view.end.offset
        try:
            self.commit.wait_for(end_offset, self._sync_batches)
            self._flush_up_to(end_offset)
        except OSError as error:
            raise storage_error(error, self.directory, "flushing failed") from error
        self.flush_errors = {}

    def _flush_up_to(self, offset: int) -> None:
        """Make batches, indexes and names below `offset` durable, then move the recovery point there."""
        start = self.recovery_point
        if offset <= start or self.failure is not None:
            return
        if not self.commit.wait_for(offset, self._sync_batches):
            return  # cut off meanwhile
        view = self.view
        with self._lock:
            if self.is_closed:
                return
            # Entries that are pending are written under the lock, the rest does not need it.
            to_sync = [segment for segment in view.segments[max(0, view.floor(start)) :] if segment.base_offset < offset]
            for segment in to_sync:
                try:
                    segment.index.write_pending()
                    segment.time_index.write_pending()
                except OSError as error:
                    raise storage_error(error, self.directory, "writing the indexes failed") from error
        for segment in to_sync:
            self._guard_sync(segment.sync_indexes)
        if any(segment.base_offset >= start for segment in to_sync):
            self._guard_sync(lambda: self.pool.disk.sync_directory(self.directory))
        with self._lock:
            if self.is_closed:
                return  # its directory may be another log's by now
            # If the log was cut and went on in the meantime, what is there now need not be flushed as far.
            self.recovery_point = max(self.recovery_point, min(offset, self.commit.flushed_end))
            self.home.checkpoint_recovery_point(self.partition, self.recovery_point)

    def flush_in_background(self, offset: int) -> None:
        """Flush everything below `offset` some time soon. What goes wrong is in `flush_errors`, and tried again with the next roll."""
        self._pending = [task for task in self._pending if not task.done()]
        self._pending.append(_background.submit(self._flush_unasked, "roll", partial(self._flush_up_to, offset)))


def _begin_anew() -> None:
    """In a forked child: the thread stays with the parent, and who waits for it here would wait for ever."""
    global _background
    _background = ThreadPoolExecutor(1, "tidelog-flush")


os.register_at_fork(after_in_child=_begin_anew)
