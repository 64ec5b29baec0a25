"""Records that a writer has gathered for one partition, and what those who hold a handle of one of them are told."""

import asyncio
import logging
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple

from tidelog.record.kernel.gathering import RowBatch
from tidelog.record.record_metadata import RecordMetadata

_logger = logging.getLogger(__name__)

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


class WriteBatch(RowBatch):
    """A batch in the making, then on its way, then done. Its one event serves all its handles."""

    __slots__ = ("_callbacks", "_event", "deadline", "is_done", "outcomes", "partition", "size_bytes")

    def __init__(self, partition: int, room_bytes: int, deadline: float) -> None:
        super().__init__(room_bytes)
        self.partition = partition
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
        """Each is called once, whoever comes first. What one of them raises is not for the thread that finds out, which has more to do."""
        while True:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                callback()
            except Exception:
                _logger.exception("who waited for a record could not be told")

    def disown(self, outcomes: list[Outcome]) -> None:
        """In a forked child: nobody here will learn what becomes of it. Locks may be held by threads that do not exist here."""
        self._event, self._callbacks = threading.Lock(), deque()
        self.outcomes = outcomes
        self.is_done = True

    def outcome(self, index: int) -> Outcome:
        """What became of one record."""
        outcomes = self.outcomes
        return outcomes[0] if len(outcomes) == 1 else outcomes[bisect_right(outcomes, index, key=_first_of) - 1]

    def result(self, index: int, timestamp_ms: int, timeout_s: float | None) -> RecordMetadata:
        """See `WriteHandle.result`."""
        if not self.wait(timeout_s):
            raise TimeoutError(f"a record for partition {self.partition} is not written after {timeout_s} s")
        outcome = self.outcome(index)
        if outcome.error is not None:
            raise outcome.error
        append_time_ms = outcome.append_time_ms
        offset = outcome.base_offset + index - outcome.first
        return RecordMetadata(self.partition, offset, timestamp_ms if append_time_ms < 0 else append_time_ms)

    def await_result(self, index: int, timestamp_ms: int) -> Generator[Any, None, RecordMetadata]:
        """The same in asyncio, without a limit."""
        if not self.is_done:
            loop = asyncio.get_running_loop()
            woken = loop.create_future()

            def wake() -> None:
                with suppress(RuntimeError):  # the loop is closed, perhaps this moment: nobody waits there any more
                    loop.call_soon_threadsafe(_set, woken)

            self.when_done(wake)
            yield from woken
        return self.result(index, timestamp_ms, None)


def _first_of(outcome: Outcome) -> int:
    return outcome.first


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
