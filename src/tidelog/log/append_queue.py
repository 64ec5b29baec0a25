"""Appends of many threads to a durable log: one of them writes and syncs for all.

Whoever gets the mutex is the committer. It takes everything that is queued, has it written at once, waits for the disk, and wakes the
others. Threads that append in a loop come back when they are woken, one after the other; without patience the first would sync alone, and
the rest would wait twice. So the committer waits until as many are queued as the last time, for as long as the last commit took at most;
if fewer come, fewer are waited for the next time.

A request stays queued until it has its answer. A committer that is interrupted leaves nothing behind that the next one does not find; and
should nobody be woken, sleepers look up by themselves before long.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from tidelog.errors import StorageError
from tidelog.log.append_info import AppendInfo

_LOOK_UP_S = 0.05
"""How long a thread sleeps that everybody forgot, which takes an interrupt in the one place where it hurts."""
_PATIENCE = 1.0
"""How long a committer waits for company, in commits."""


class AppendRequest:
    """One batch that somebody wants to be appended, and what became of it."""

    __slots__ = ("batch", "bed", "error", "follower", "info", "leader_epoch", "origin", "planned")

    def __init__(self, batch: memoryview, leader_epoch: int | None, origin: Literal["client", "coordinator"]) -> None:
        self.batch = batch
        self.leader_epoch = leader_epoch
        self.origin = origin
        self.planned: AppendInfo | None = None
        """Where it is about to be written."""
        self.info: AppendInfo | None = None
        """Where it was written."""
        self.error: BaseException | None = None
        self.bed: threading.Lock | None = None
        """What its thread sleeps on."""
        self.follower: AppendRequest | None = None
        """Whose thread this one wakes once it is awake itself."""

    def answer(self) -> AppendInfo:
        """Where it was written; what is wrong with it is raised."""
        if self.info is None:
            assert self.error is not None
            raise self.error
        return self.info

    @property
    def is_answered(self) -> bool:
        """Whether it was written or refused."""
        return self.info is not None or self.error is not None


class AppendQueue:
    """The requests of a log. `append_group` answers each of a list of them; `acknowledge` waits until the disk has all up to an offset."""

    __slots__ = ("_acknowledge", "_append_group", "_company", "_gate", "_mutex", "_patience_s", "requests")

    def __init__(self, append_group: Callable[[list[AppendRequest]], None], acknowledge: Callable[[int], None]) -> None:
        self._append_group = append_group
        self._acknowledge = acknowledge
        self._mutex = threading.Lock()
        self.requests: deque[AppendRequest] = deque()
        self._company = 1
        """How many requests the committer hopes for."""
        self._patience_s = 0.0
        self._gate: threading.Lock | None = None
        """What the committer waits on while there are fewer."""

    def append(self, request: AppendRequest) -> AppendInfo:
        """Return when the batch is in the log and durable, or raise what is wrong with it."""
        if self._company == 1 and not self.requests and not self._mutex.locked():
            self._append_without_company(request)
            return request.answer()
        try:
            self.requests.append(request)
            gate = self._gate
            if gate is not None and len(self.requests) >= self._company:
                _release(gate)
            self._wait(request)
        except BaseException as error:
            request.error = error  # nobody is to append it any more
            raise
        finally:
            if request.follower is not None:
                _wake_thread_of(request.follower)
        info = request.answer()
        self._acknowledge(info.last_offset + 1)
        return info

    def _append_without_company(self, request: AppendRequest) -> None:
        """The short way of a thread that is the only one to append: it queues nowhere. Who comes meanwhile queues, and is woken."""
        try:
            with self._mutex:
                self._append_group([request])
                if request.info is not None:
                    self._acknowledge(request.info[1] + 1)
                self._company = 1 + len(self.requests)
        finally:
            if self.requests:
                self._wake([])

    def _wait(self, request: AppendRequest) -> None:
        """Until the request is answered, by this thread or by another one."""
        while not request.is_answered:
            # `with` alone leaves no moment in which an interrupt finds the mutex taken and nobody to give it back.
            if not self._mutex.locked():
                group: list[AppendRequest] = []
                try:
                    with self._mutex:
                        if not request.is_answered:
                            self._await_company()
                            self._commit(group)
                finally:
                    self._wake(group)
            else:
                self._sleep(request)

    def _await_company(self) -> None:
        if len(self.requests) < self._company:
            gate = threading.Lock()
            gate.acquire()
            self._gate = gate
            if len(self.requests) < self._company:
                gate.acquire(timeout=self._patience_s)
            self._gate = None

    def _commit(self, group: list[AppendRequest]) -> None:
        """Answer everything that is queued, and make it durable."""
        start = time.perf_counter()
        group += [request for request in tuple(self.requests) if not request.is_answered]
        self._append_group(group)
        last = max((request.info.last_offset for request in group if request.info is not None), default=-1)
        with suppress(StorageError, OSError):  # everybody hears of it when they ask for their own offset
            self._acknowledge(last + 1)
        self._patience_s = _PATIENCE * (time.perf_counter() - start)
        while self.requests and self.requests[0].is_answered:
            self.requests.popleft()
        self._company = len(group) + len(self.requests)

    def _sleep(self, request: AppendRequest) -> None:
        """Sleep until the committer is done. Who lies down while the mutex is held is seen by the one who releases it."""
        bed = threading.Lock()
        bed.acquire()
        request.bed = bed
        if self._mutex.locked() and not request.is_answered:
            bed.acquire(timeout=_LOOK_UP_S)

    def _wake(self, group: list[AppendRequest]) -> None:
        """Wake one who has no answer, the next committer, and the first of those who have; each of these wakes the next.

        All at once they would only wait again, for the interpreter: that costs half as much again.
        """
        first: AppendRequest | None = None
        for request in reversed(group):
            if request.bed is not None:
                request.follower, first = first, request
        with suppress(IndexError):
            _wake_thread_of(self.requests[0])
        if first is not None:
            _wake_thread_of(first)


def _wake_thread_of(request: AppendRequest) -> None:
    if request.bed is not None:
        _release(request.bed)


def _release(lock: threading.Lock) -> None:
    """Release a lock, unless another thread was first."""
    with suppress(RuntimeError):
        lock.release()
