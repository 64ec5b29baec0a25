"""Begin a new segment when the active one has had enough, or when asked."""

from functools import partial

from tidelog.disk.names import SEGMENT_KINDS, segment_file
from tidelog.errors import RecordListTooLargeError
from tidelog.log.flushing import Flushing
from tidelog.log.roll import RollReason, headroom, roll_reason
from tidelog.log.segment import Segment
from tidelog.log.segment_files import create_segment
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound, View


class Rolling(Flushing):
    """Roll, on top of what a log is and how it is flushed."""

    def _make_room(self, size_bytes: int, first_offset: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> Segment:
        """The segment that takes these batches, rolled for them if need be."""
        if size_bytes > self._limits.segment_bytes:
            raise self._too_large(size_bytes)
        active = self.view.segments[-1]
        if active.headroom is not None and not active.is_unsettled:
            most_bytes, newest_ms, last = active.headroom
            if (
                active.end[1] + size_bytes <= most_bytes
                and max_timestamp_ms <= newest_ms
                and active.base_offset <= last_offset <= last
                and active.full_index() is None
            ):
                return active  # as nearly always; the rest has the words
        try:
            if active.is_unsettled:
                self._settle()
            reason = self._roll_reason(active, size_bytes, last_offset, max_timestamp_ms, now_ms)
            if reason is None:
                active.headroom = headroom(self._limits, active.age)
            return active if reason is None else self._roll(max(first_offset, active.end[0]), now_ms, reason)
        except OSError as error:
            raise storage_error(error, self.directory, "the append failed before anything was written") from error

    def _too_large(self, size_bytes: int) -> RecordListTooLargeError:
        limit = self._limits.segment_bytes
        return RecordListTooLargeError(
            "one call has more than a segment can hold", expected=f"at most {limit} bytes (segment.bytes)", found=size_bytes
        )

    def _roll_reason(self, active: Segment, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> RollReason | None:
        return roll_reason(self._limits, active.age, active.end[1], active.full_index(), size_bytes, last_offset, max_timestamp_ms, now_ms)

    def _roll(self, base_offset: int, now_ms: int, reason: RollReason) -> Segment:
        """Begin a new segment.

        The old one is finished and, if the log is durable, synced before the new file exists, and the directory before anything in it is
        acknowledged. A crash in between leaves the old segment alone, or an empty one behind it. If a step fails, the old segment stays
        active: its indexes are trimmed, hence full, so that the next append rolls again.
        """
        old = self.view.active
        if base_offset == old.base_offset and old.size_bytes == 0:
            old.created_ms = 0  # as if it were a new one
            old.txn_index.remove()
            self._activate(old, base_offset)
            if self.recovery_point < base_offset:
                self.flush_in_background(base_offset)  # as after any roll: what lies before it need not have been flushed
            return old
        old.finish()
        if self.config.is_durable:
            self._sync_alone(old.sync)
        elif self.recovery_point > old.base_offset:
            self._guard_sync(old.sync_indexes)  # recovery begins behind it: nobody would notice what a crash makes of its last entries
        else:
            # A reader that finds the snapshot asks only the index about aborted transactions before it.
            self._guard_sync(old.txn_index.sync)
        segment = None
        known_snapshots = frozenset(self.producers.snapshots)
        try:
            self._take_snapshot(base_offset, is_durable=self.config.is_durable)
            segment = create_segment(self.pool, self.directory, base_offset)
            self._activate(segment, base_offset)
            self._guard_sync(partial(self.pool.disk.sync_directory, self.directory))
            self.view = View.of((*self.view.segments, segment))
        except BaseException:  # an interrupt too: the files of a segment that nobody uses must not stay
            self._discard(segment, base_offset)
            self._discard_snapshot(base_offset, known_snapshots)
            raise
        old.close_writers()
        if self.config.is_durable:
            # Those who wait for batches of the old segment are let go, so readers must see them.
            self.commit.advance(base_offset, partial(self._show, Bound(base_offset, old.base_offset, old.size_bytes)))
        if self.config.is_durable and self.recovery_point >= old.base_offset:
            self.recovery_point = max(self.recovery_point, base_offset)
            self.home.checkpoint_recovery_point(self.partition, self.recovery_point)
        else:
            # In a durable log too where segments before the old one have indexes that nobody has synced: those that recovery built anew.
            self.flush_in_background(base_offset)
        return segment

    def _discard(self, segment: Segment | None, base_offset: int) -> None:
        """Take back a segment that could not be begun. If its files stay, they would be taken for the end of the log: then it fails."""
        if segment is not None:
            segment.forget()
        try:
            for kind in SEGMENT_KINDS:
                path = f"{self.directory}/{segment_file(base_offset, kind)}"
                if self.pool.disk.exists(path):
                    self.pool.disk.remove(path)
            self.pool.disk.sync_directory(self.directory)  # it must not come back either
        except BaseException as error:
            self.fail(error)
            raise

    def _discard_snapshot(self, offset: int, known: frozenset[int]) -> None:
        """Take back a snapshot for a segment that was not begun: behind a gap it would lie in the future."""
        producers = self.producers
        if offset not in known:
            producers.remove_snapshot(offset)
        producers.map_end_offset = self.view.active.end[0]
        producers.last_snapshot_offset = max(known, default=0)

    def roll(self) -> Segment:
        """See `Log.roll`."""
        with self._lock:
            self._check_writable()
            try:
                self._settle()
                return self._roll(self.view.active.end[0], self.clock(), RollReason.ASKED)
            except OSError as error:
                raise storage_error(error, self.directory, "rolling failed") from error
