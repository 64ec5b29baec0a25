"""What a writer has gathered and its thread has not sent yet.

Batches are open while records are added to them, one for each partition; then ready; then on their way. Their bytes together are bounded:
who adds beyond that waits. The one thread that takes batches sleeps until one is ready or its time to linger is over.
"""

import os
import threading
import time
from collections import deque
from weakref import WeakSet

from tidelog.errors import ForkedError, LogClosedError
from tidelog.record.kernel.gathering import RowBuffer
from tidelog.store.write_batch import Outcome, WriteBatch

BATCH_OVERHEAD = 61


class WriteBuffer(RowBuffer):
    """Shared by the threads that append and the one that sends. Whoever touches `open` holds `lock`."""

    __slots__ = (
        "_batch_bytes",
        "_forked",
        "_in_flight",
        "_linger_s",
        "_max_bytes",
        "_ready",
        "_ready_bytes",
        "_space",
        "_work",
        "is_closed",
    )

    open: dict[int, WriteBatch]

    def __init__(self, linger_s: float, batch_bytes: int, max_bytes: int) -> None:
        super().__init__(threading.Lock())
        self.is_closed = False
        self._forked: ForkedError | None = None
        self._linger_s = linger_s
        self._batch_bytes = batch_bytes
        self._max_bytes = max_bytes
        self._ready: deque[WriteBatch] = deque()
        self._ready_bytes = 0
        """Of what is ready or on its way."""
        self._in_flight: list[WriteBatch] = []
        self._work = threading.Condition(self.lock)
        """For the sender: there may be something to do."""
        self._space = threading.Condition(self.lock)
        """For those who wait to add."""
        _buffers.add(self)

    # For those who append, with the lock held

    def begin(self, partition: int) -> WriteBatch:
        """A new open batch; waits, without the lock meanwhile, while there is too much to be sent."""
        while self._ready_bytes > 0 and self._ready_bytes + self._batch_bytes > self._max_bytes and not self.is_closed:
            self._space.wait()
        self.check_open()
        found = self.open.get(partition)
        if found is not None:
            return found  # another thread was here while this one waited
        batch = WriteBatch(partition, self._batch_bytes - BATCH_OVERHEAD, time.monotonic() + self._linger_s)
        if not self.open:
            self._work.notify()
        self.open[partition] = batch
        return batch

    def check_open(self) -> None:
        """Raise if nothing more may be added."""
        self.check_owned()
        if self.is_closed:
            raise LogClosedError("the writer is closed")

    def check_owned(self) -> None:
        """Raise if the thread that would send is another process's."""
        if self._forked is not None:
            raise self._forked

    def full(self, batch: WriteBatch) -> None:
        """Nothing more goes into a batch."""
        del self.open[batch.partition]
        batch.size_bytes = self._batch_bytes - batch.room_bytes
        self._ready.append(batch)
        self._ready_bytes += batch.size_bytes
        self._work.notify()

    # For anybody

    def flush(self) -> list[WriteBatch]:
        """Send everything that is there now: the batches to wait for."""
        with self.lock:
            for batch in list(self.open.values()):
                self.full(batch)
            return [*self._in_flight, *self._ready]

    def close(self) -> None:
        """Take no more; what is there is still sent."""
        with self.lock:
            self.is_closed = True
            for batch in list(self.open.values()):
                self.full(batch)
            self._work.notify_all()
            self._space.notify_all()

    def take_error(self) -> BaseException | None:
        """What went wrong since the last time somebody asked."""
        with self.lock:
            error, self.error = self.error, None
            return error

    # For the sender

    def take(self, max_bytes: int) -> list[WriteBatch]:
        """Wait for batches to send: about so many bytes of them. Empty once it is closed and all is sent."""
        with self.lock:
            while True:
                now = time.monotonic()
                for batch in [batch for batch in self.open.values() if batch.deadline <= now]:
                    self.full(batch)
                if self._ready:
                    return self._pop(max_bytes)
                if self.is_closed:
                    return []
                deadlines = [batch.deadline for batch in self.open.values()]
                self._work.wait(min(deadlines) - now if deadlines else None)

    def _pop(self, max_bytes: int) -> list[WriteBatch]:
        taken: list[WriteBatch] = []
        while self._ready and max_bytes > 0:
            batch = self._ready.popleft()
            max_bytes -= batch.size_bytes
            taken.append(batch)
        self._in_flight = taken
        return taken

    def sent(self, batches: list[WriteBatch], error: BaseException | None) -> None:
        """They have their outcomes."""
        if error is not None:
            with self.lock:
                self.error = error  # first: whoever flushes waits for the batches, and asks for it then
        for batch in batches:
            batch.finish()
        with self.lock:
            self._in_flight = [batch for batch in self._in_flight if not batch.is_done]
            self._ready_bytes -= sum(batch.size_bytes for batch in batches)
            self._space.notify_all()

    # After a fork

    def disown(self) -> None:
        """In a forked child: the thread that sends is the parent's, and so is what it has to send."""
        error = ForkedError("a writer of the process that this one was forked from", hint="make one in the child")
        self.lock = threading.Lock()
        self._work, self._space = threading.Condition(self.lock), threading.Condition(self.lock)
        self.is_closed, self._forked = True, error
        for batch in (*self._in_flight, *self._ready, *self.open.values()):
            batch.disown([Outcome(0, -1, -1, error)])
        self.open, self._in_flight = {}, []
        self._ready.clear()


_buffers: "WeakSet[WriteBuffer]" = WeakSet()


def _disown_all() -> None:
    for buffer in list(_buffers):
        buffer.disown()


os.register_at_fork(after_in_child=_disown_all)
