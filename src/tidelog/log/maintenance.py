"""Checkpoint and close: the whole of a log's writing side.

It is made of layers, each in a module of its own: state and failure, flush, roll, append as follower, append as leader, delete, truncate.
"""

from tidelog.log.storage_errors import storage_error
from tidelog.log.truncating import Truncating


class Maintenance(Truncating):
    """The whole of a log's writing side."""

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
