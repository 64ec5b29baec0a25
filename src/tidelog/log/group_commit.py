"""Group commit: many threads wait for the disk, one of them syncs for all.

Whoever gets the mutex is the committer: it syncs everything that was appended until then, not just its own batch. The others sleep on a
lock of their own. When the committer is done it wakes those whose offset is durable now, and one more, who is the next committer. A
committer that is interrupted wakes others all the same; should even that be interrupted, sleepers look up by themselves before long.
"""

import threading
from collections import deque
from collections.abc import Callable

_LOOK_UP_S = 0.05
"""How long a thread sleeps that everybody forgot, which takes an interrupt in the one place where it hurts."""


class GroupCommit:
    """How far a log is durable. May be called from any thread; the log's lock may be held, and is never taken here."""

    __slots__ = ("_mutex", "_waiters", "flushed_end")

    def __init__(self, flushed_end: int) -> None:
        self._mutex = threading.Lock()
        self._waiters: deque[tuple[int, threading.Lock]] = deque()
        self.flushed_end = flushed_end
        """All records below this offset survive a power cut."""

    def wait_for(self, offset: int, sync: Callable[[], int]) -> bool:
        """Return when everything below `offset` is durable. False: the log was cut meanwhile and does not go that far.

        `sync` makes durable what was appended before it is called, and says up to which offset that is. It is called by one thread at a
        time; what it raises goes to the thread that called it.
        """
        while self.flushed_end < offset:
            # `with` alone leaves no moment in which an interrupt finds the mutex taken and nobody to give it back.
            if not self._mutex.locked():
                try:
                    with self._mutex:
                        if self.flushed_end < offset:
                            end = sync()
                            self.flushed_end = max(self.flushed_end, end)
                            if end < offset:
                                return False
                finally:
                    self._wake()
            else:
                self._sleep(offset)
        return True

    def _sleep(self, offset: int) -> None:
        """Sleep until the committer is done. Who lies down while the mutex is held is seen by the one who releases it."""
        bed = threading.Lock()
        bed.acquire()
        self._waiters.append((offset, bed))
        if self._mutex.locked():
            bed.acquire(timeout=_LOOK_UP_S)

    def _wake(self) -> None:
        """Wake all who have what they wait for, and one who has not."""
        has_next = False
        for _ in range(len(self._waiters)):
            try:
                waiter = self._waiters.popleft()
            except IndexError:
                return  # another one wakes too
            if waiter[0] > self.flushed_end:
                if has_next:
                    self._waiters.append(waiter)
                    continue
                has_next = True
            waiter[1].release()

    def advance(self, offset: int, then: Callable[[], None]) -> None:
        """Something else has made the log durable up to `offset`; `then` is done before anybody is let go."""
        try:
            with self._mutex:
                then()
                self.flushed_end = max(self.flushed_end, offset)
        finally:
            self._wake()

    def move_to(self, offset: int) -> None:
        """The log was cut, or begins anew: it is durable up to `offset`, where it ends, or less far if it was before."""
        with self._mutex:
            self.flushed_end = offset
        self._wake()
