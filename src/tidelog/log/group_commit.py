"""Group commit: many threads wait for the disk, one of them syncs for all.

Whoever gets the mutex syncs everything that was appended until then, not just its own batch. Those who queued meanwhile find, one after
the other, that their offset is durable already and leave. There is no hand-over that could be lost: a thread that is interrupted
releases the mutex, and the next one does the work.
"""

import threading
from collections.abc import Callable


class GroupCommit:
    """How far a log is durable. May be called from any thread; the log's lock may be held, and is never taken here."""

    __slots__ = ("_mutex", "flushed_end")

    def __init__(self, flushed_end: int) -> None:
        self._mutex = threading.Lock()
        self.flushed_end = flushed_end
        """All records below this offset survive a power cut."""

    def wait_for(self, offset: int, sync: Callable[[], int]) -> None:
        """Return when everything below `offset` is durable.

        `sync` makes durable what was appended before it is called, and says up to which offset that is. It is called by one thread at a
        time; what it raises goes to the thread that called it.
        """
        while self.flushed_end < offset:
            with self._mutex:
                if self.flushed_end < offset:
                    self.flushed_end = max(self.flushed_end, sync())

    def advance(self, offset: int, then: Callable[[], None]) -> None:
        """Something else has made the log durable up to `offset`; `then` is done before anybody is let go."""
        with self._mutex:
            then()
            self.flushed_end = max(self.flushed_end, offset)

    def lower(self, offset: int) -> None:
        """The log was cut: it ends at `offset` or before."""
        with self._mutex:
            self.flushed_end = min(self.flushed_end, offset)
