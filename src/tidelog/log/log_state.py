"""What a log is while it is open, and what happens when something fails.

A write that fails, or that is interrupted, is rolled back: the file is cut to the last whole batch, the epochs are put back, and the log
goes on. After a failed sync nobody knows what the disk has, and after a failed roll-back nobody knows what the file has: then the log
takes no more writes, and says why, until it is opened again and recovered.
"""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import Any, NoReturn
from weakref import WeakSet

from tidelog.config import LONG_MAX, LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import TopicPartition
from tidelog.disk.published_end import PublishedEnd
from tidelog.errors import ForkedError, LogClosedError, LogFailedError, OffsetOutOfRangeError, TidelogError
from tidelog.log.group_commit import GroupCommit
from tidelog.log.loader import LoadedLog
from tidelog.log.producer_state import Effect
from tidelog.log.roll import RollLimits, draw_jitter
from tidelog.log.segment import Segment
from tidelog.log.segment_base import SegmentEnd
from tidelog.log.segment_read import find_offset
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound, ForkedView, View, forked
from tidelog.record.survey import Scratch


class LogState:
    """Everything of a log that changes. `_lock` is held for each change; `commit` has a mutex of its own, taken after `_lock` or alone."""

    def __init__(
        self,
        home: LogDirectory,
        partition: TopicPartition,
        directory: str,
        config: LogConfig,
        clock: Callable[[], int],
        pool: FilePool,
        loaded: LoadedLog,
        random: Random,
    ) -> None:
        self.home = home
        self.partition = partition
        self.directory = directory
        self.clock = clock
        self.pool = pool
        self.view = View.of(loaded.segments)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.commit = GroupCommit(loaded.recovery_point)
        self.follows = True
        """Whether the high watermark goes up by itself; not any more once its owner has set it."""
        self.failure: BaseException | None = None
        """Why the log takes no more writes."""
        self._random = random
        self._lock = threading.Lock()
        self.is_closed = False
        self._scratch = Scratch()
        self._last_flush_ms = clock()
        self.opened_at = (loaded.next_offset, sum(segment.size_bytes for segment in loaded.segments))
        """The log end offset and the bytes that were found: what came since is counted from here."""
        self.removed_bytes = 0
        """Of segments that were deleted or replaced since, less what replaced them."""
        self.flush_stats = (0, 0.0, 0.0)
        """Syncs of `.log` files: how many, how long together, the longest, in milliseconds. Replaced whole."""
        self.flush_errors: dict[str, Exception] = {}
        """What is in the way of flushes that nobody waits for, by kind. Replaced whole."""
        self._deadline: threading.Timer | None = None
        self._pending: list[Future[Any]] = []
        self._ahead: Future[Any] | None = None
        self._is_start_unsure = False
        """Whether the start moved, and writing that down has failed."""
        self._to_remove: list[tuple[int, Segment]] = []
        """Deleted segments, with the time at which their files go."""
        self._take_settings(config)
        for segment in loaded.segments:
            segment.created_ms = self._last_flush_ms
        self._activate(self.view.active, loaded.next_offset)
        self._high_watermark = self.view.end
        self._published: PublishedEnd | None = None
        self._stable_place: tuple[int, View | None, Bound] = (-1, None, self._high_watermark)
        """Where the first unstable offset lies, for the view in which it was looked up."""
        _open_here.add(self)

    def _take_settings(self, config: LogConfig) -> None:
        """What is worked out from the settings once."""
        self.config = config
        self._limits = RollLimits(config.segment_size_limit, config.max_segment_ms)
        self.view.active.headroom = None
        self._takes_plain = config.compression_type in ("producer", "uncompressed")
        self._waits_for_disk = config.flush_messages < LONG_MAX or config.flush_ms < LONG_MAX

    def _activate(self, segment: Segment, next_offset: int) -> None:
        config = self.config
        segment.activate(
            next_offset,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            created_ms=self.clock(),
            jitter_ms=draw_jitter(self._random, segment_jitter_ms=config.segment_jitter_ms, segment_ms=config.segment_ms),
            file_bytes=config.segment_size_limit if config.preallocate else 0,
        )

    # Failure

    def disown(self) -> None:
        """In a forked child: the log is its parent's. Nothing is read or written; locks may be held by threads that do not exist here."""
        self._lock = threading.Lock()
        self.commit = GroupCommit(self.commit.flushed_end)
        self._pending, self._ahead = [], None  # the thread that would do it does not exist either
        self.failure = forked(self.directory)
        self.view = ForkedView.instead_of(self.view, self.directory)

    def _check_writable(self) -> None:
        if self.is_closed:
            raise LogClosedError("the log is closed", path=self.directory)
        if self.failure is not None:
            raise self._failed()

    def _failed(self) -> TidelogError:
        if isinstance(self.failure, ForkedError):
            return self.failure
        error = LogFailedError(
            f"the log takes no more writes: {self.failure}", path=self.directory, hint="close it and open it again to recover"
        )
        error.__cause__ = self.failure
        return error

    def fail(self, reason: BaseException) -> None:
        """Take no more writes."""
        if self.failure is None:
            self.failure = reason

    def _guard_sync(self, sync: Callable[[], Any]) -> None:
        """Do something that must not fail: if it does, what the disk holds is unknown. Without a descriptor it is not even tried."""
        try:
            sync()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            self.fail(error)
            raise self._failed() from error

    def _sync_alone(self, sync: Callable[[], Any]) -> None:
        """The same, of a file that others may be syncing: while they are not, and unless one of them has failed.

        The system tells of a failed write once, to whoever syncs next. If that is another thread, the sync after it succeeds, and what it
        was to make durable is lost all the same.
        """

        def sync_unless_failed() -> None:
            if self.failure is not None:
                raise self._failed()
            self._guard_sync(sync)

        self.commit.advance(0, sync_unless_failed)

    def _settle(self) -> None:
        """Cut off what an interrupted append left. If that fails, nobody knows what the file has."""
        if self.view.active.is_unsettled:
            self._sync_alone(self.view.active.settle)

    def _announce(self, active: Segment, effects: Sequence[Effect]) -> None:
        """Say what batches will change, before they are written.

        Aborted transactions are written down, since an entry too many can be taken back, and a marker cannot. Those that begin are open
        from now on: once a batch is written another thread may sync it and show it to readers, who have to know what is not for them.
        """
        self.producers.announce(effects)
        for entry in self.producers.aborted_by(effects):
            active.txn_index.append(entry)

    def _apply(self, effects: Sequence[Effect]) -> None:
        """Take over what the batches that were written change about their producers."""
        producers = self.producers
        producers.apply(effects)
        if producers.unstable:
            producers.forget_stable(self.high_watermark.offset)

    def _take_snapshot(self, offset: int, *, is_durable: bool) -> None:
        """Write down what is known about producers, now that the log goes up to `offset`."""
        self.producers.map_end_offset = offset
        try:
            self.producers.take_snapshot(is_durable=is_durable)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self.pool.drop_all()
            self.producers.take_snapshot(is_durable=is_durable)

    def _roll_back(self, active: Segment, end: SegmentEnd, epochs: Any, effects: Sequence[Effect], error: BaseException) -> NoReturn:
        """Undo an append that raised `error`, and raise it. `end` and `epochs` are what there was before."""
        if active.end is not end:
            self._apply(effects)
            raise error  # an interrupt behind the write: the batch is in, and stays
        try:
            if active.is_unsettled:
                self.commit.advance(0, partial(self._settle_or_fail, active))
            if effects:
                self.producers.take_back(effects)
                active.txn_index.truncate_to(end[0])
            self._restore_epochs(epochs)
        except BaseException as second:
            self.fail(second)
            if isinstance(second, OSError) and isinstance(error, OSError):
                raise self._failed() from second
            raise
        if isinstance(error, OSError):
            raise storage_error(error, self.directory, "the append failed and was rolled back") from error
        raise error

    def _settle_or_fail(self, active: Segment) -> None:
        """With the mutex of `commit` held: who commits next must see that it failed."""
        try:
            active.settle()
        except BaseException as error:
            self.fail(error)
            raise

    def _restore_epochs(self, epochs: Any) -> None:
        try:
            self.epochs.restore(epochs)
        except OSError as error:
            # In memory it is done. On a full disk the file has one epoch too many, without a batch; it is written again with the next.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    # High watermark

    @property
    def high_watermark(self) -> Bound:
        """The first offset that readers do not see, with its place."""
        return self.view.end if self.follows and not self.config.is_durable else self._high_watermark

    @property
    def last_stable(self) -> Bound:
        """The first offset that readers of committed records do not see, with its place: no further than the first open transaction."""
        while True:
            watermark = self.high_watermark
            first = self.producers.first_unstable_offset(watermark.offset)
            if self.high_watermark.offset == watermark.offset:
                break  # otherwise a transaction that ends between the two may have been forgotten
        if first is None or first >= watermark.offset:
            return watermark
        view = self.view
        first = max(first, self.log_start_offset)
        known_first, known_view, place = self._stable_place
        if known_first != first or known_view is not view:
            place = self._place(first)
            self._stable_place = (first, view, place)
        return place

    def wait_for_writer(self) -> None:
        """Wait until nobody changes the log, who may be half-way through renaming files."""
        with self._lock:
            pass

    def _stop_following(self) -> None:
        """Leave the high watermark where it is, until its owner sets it."""
        if self.follows:
            self._high_watermark = self.high_watermark
            self.follows = False

    def _place(self, offset: int) -> Bound:
        """An offset with its place in the log."""
        view = self.view
        if offset >= view.end.offset:
            return view.end
        if offset < view.base_offsets[0]:
            raise OffsetOutOfRangeError(
                offset=offset, log_start_offset=self.log_start_offset, log_end_offset=view.end.offset, path=self.directory
            )
        for segment in view.segments[view.floor(offset) :]:
            found = find_offset(segment, offset, segment.size_bytes)
            if found is not None:
                return Bound(offset, segment.base_offset, found.position)
        return view.end._replace(offset=offset)


_open_here: "WeakSet[LogState]" = WeakSet()


def _disown_all() -> None:
    for state in list(_open_here):
        state.disown()


os.register_at_fork(after_in_child=_disown_all)
