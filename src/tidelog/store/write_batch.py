"""Records that a writer has gathered for one partition, and the handles of those who wait for them."""

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple

from tidelog.store.appended import RecordMetadata

Row = tuple[bytes | None, bytes | None, Any, int]
"""Key, value, headers, timestamp."""


class Outcome(NamedTuple):
    """What became of the records of a batch from index `first` on, up to the next outcome."""

    first: int
    base_offset: int
    """Of the record `first`."""
    append_time_ms: int
    """-1 where the topic keeps the records' own times."""
    error: BaseException | None


class WriteBatch:
    """A batch in the making, then on its way, then done. Its one event serves all its handles."""

    __slots__ = ("_callbacks", "_event", "deadline", "is_done", "outcomes", "partition", "room_bytes", "rows", "size_bytes")

    def __init__(self, partition: int, room_bytes: int, deadline: float) -> None:
        self.partition = partition
        self.rows: list[Row] = []
        self.room_bytes = room_bytes
        """What may still be added."""
        self.size_bytes = 0
        """About what it takes in memory; known once it is full."""
        self.deadline = deadline
        """When it is sent, full or not."""
        self.outcomes: list[Outcome] = []
        self.is_done = False
        """Whether it is known what became of it."""
        self._event = threading.Lock()  # held until it is done; a `threading.Event` takes ten times as long to make
        self._event.acquire()
        self._callbacks: deque[Callable[[], object]] = deque()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it is done; False if it is not by then."""
        if not self.is_done and self._event.acquire(timeout=-1 if timeout_s is None else max(0.0, min(timeout_s, threading.TIMEOUT_MAX))):
            self._event.release()  # for the next who waits
        return self.is_done

    def finish(self) -> None:
        """Its outcomes are known."""
        self.rows = []
        self.is_done = True
        self._event.release()
        self._call_back()

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back when it is done, from the thread that finds out; at once if it is."""
        self._callbacks.append(callback)
        if self.is_done:
            self._call_back()

    def _call_back(self) -> None:
        """Each is called once, whoever comes first."""
        with suppress(IndexError):
            while True:
                self._callbacks.popleft()()

    def disown(self, outcomes: list[Outcome]) -> None:
        """In a forked child: nobody here will learn what becomes of it. Locks may be held by threads that do not exist here."""
        self._event, self._callbacks = threading.Lock(), deque()
        self.outcomes = outcomes
        self.is_done = True

    def outcome(self, index: int) -> Outcome:
        """What became of one record."""
        outcomes = self.outcomes
        return outcomes[0] if len(outcomes) == 1 else outcomes[bisect_right(outcomes, index, key=_first_of) - 1]


def _first_of(outcome: Outcome) -> int:
    return outcome.first


class WriteHandle:
    """One record on its way. `result` waits for it; in asyncio, `await` does."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: WriteBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether it is known what became of it."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went, once it is as durable as the topic's settings ask for; or what went wrong, raised.

        `timeout` in seconds; after it, `TimeoutError`: the record is still on its way.
        """
        batch = self._batch
        if not batch.wait(timeout):
            raise TimeoutError(f"a record for partition {batch.partition} is not written after {timeout} s")
        outcome = batch.outcome(self._index)
        if outcome.error is not None:
            raise outcome.error
        offset = outcome.base_offset + self._index - outcome.first
        timestamp_ms = self._timestamp_ms if outcome.append_time_ms < 0 else outcome.append_time_ms
        return RecordMetadata(batch.partition, offset, timestamp_ms)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            loop = asyncio.get_running_loop()
            woken = loop.create_future()

            def wake() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_set, woken)

            self._batch.when_done(wake)
            yield from woken
        return self.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else "on its way"
        return f"WriteHandle(partition {self._batch.partition}, {state})"


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
