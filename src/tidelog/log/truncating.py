"""Cut the end of a log, or begin it anew at another offset.

Whatever says how far the log goes to others, or after a crash, is taken back before anything is cut: the checkpoint of the recovery point,
the published end, what readers see. What this process counts by, the flushed end above all, follows when it is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.config import LONG_MAX
from tidelog.log.deleting import Deleting
from tidelog.log.producer_replay import rebuild
from tidelog.log.segment_files import create_segment
from tidelog.log.segment_read import find_offset, largest_timestamp
from tidelog.log.storage_errors import REOPEN_HINT, storage_error
from tidelog.log.view import Bound, View


class Truncating(Deleting):
    """Truncate, on top of deleting."""

    def truncate_to(self, offset: int) -> bool:
        """See `Log.truncate_to`."""
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        with self._lock:
            self._check_writable()
            end_offset = self.view.end.offset
            with self._cutting():
                if offset >= end_offset:
                    self.epochs.truncate_end(end_offset)  # what begins there, a leader that never wrote, goes too
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
            self._try_remove_due()
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """See `Log.truncate_fully_and_start_at`."""
        if not 0 <= offset <= LONG_MAX:
            raise ValueError(f"an offset is 0 or more, and at most {LONG_MAX}, not {offset}")
        with self._lock:
            self._check_writable()
            with self._cutting():
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
            self._try_remove_due()

    @contextmanager
    def _cutting(self) -> Iterator[None]:
        """Within it, any error fails the log, an interrupt too.

        The file may be cut, and bounds above its end not be taken back yet: what would be appended there would count as flushed.
        """
        try:
            yield
        except BaseException as error:
            self.fail(error)
            if isinstance(error, OSError):
                raise storage_error(error, self.directory, "truncating failed", hint=REOPEN_HINT) from error
            raise

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
        self._sync_alone(segment.sync)

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
            self._sync_alone(old[0].sync)
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
