"""What a store does by the clock: tasks with a period each, run one at a time, by one thread or by whoever asks.

The clock and the waiting are passed in, so a test lives through a year without sleeping: it opens the store without the thread, moves its
clock and calls `run_due`. A task that was due several times is run once.

A task that raises is logged, counted, and tried again after a second, two, four, up to five minutes or its period, if that is longer;
the others go on. `reports` has all of it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.config import LONG_MAX

FIRST_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 300_000
_LOOK_UP_S = 1.0
"""The thread waits no longer than that at a time: the clock may be moved."""

_log = logging.getLogger("tidelog")


class Task(NamedTuple):
    """Something to do again and again."""

    name: str
    period_ms: int
    """Without end: never."""
    run: Callable[[], object]
    first_ms: int = 0
    """How long after the start it is run first."""


class TaskReport(NamedTuple):
    """How a task is doing."""

    name: str
    period_ms: int
    runs: int
    failures: int
    failures_in_a_row: int
    last_error: str | None
    """What went wrong the last time that something did."""
    last_run_ms: int | None
    total_s: float
    """How long its runs took together."""
    next_ms: int | None
    """When it is due; None: never."""


class Scheduler:
    """Runs tasks when they are due. May be used from any thread; in a forked child it does nothing."""

    def __init__(
        self, tasks: Iterable[Task], clock: Callable[[], int], *, wait: Callable[[threading.Event, float], object] = threading.Event.wait
    ) -> None:
        self._clock = clock
        self._wait = wait
        self._wake = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._runner: int | None = None
        """The thread that runs a task."""
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._pid = os.getpid()
        self._seen_ms = clock()
        self._tasks = [_Scheduled(task, self._seen_ms) for task in tasks]

    def start(self) -> None:
        """Run tasks by a thread from now on."""
        self._thread = threading.Thread(target=self._run, name="tidelog-scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Run nothing more; returns when a task that is running has finished. From inside of a task it does not wait."""
        self._is_stopping = True
        if self._pid != os.getpid():
            return  # its threads and locks are the parent's
        self._wake.set()
        if self._runner == threading.get_ident():
            return
        with self._one_at_a_time:
            pass
        if self._thread is not None and self._thread.is_alive():  # an interrupt may have come before it was started
            self._thread.join()

    def abandon(self) -> None:
        """Run nothing more, and wait for nothing: its store was dropped."""
        self._is_stopping = True
        if self._pid == os.getpid():
            self._wake.set()

    @property
    def is_dead(self) -> bool:
        """Whether its thread has ended although nobody stopped it."""
        return self._thread is not None and not self._is_stopping and self._pid == os.getpid() and not self._thread.is_alive()

    @property
    def next_ms(self) -> int | None:
        """When the next task is due; None: never."""
        return min((task.next_ms for task in self._tasks if task.next_ms is not None), default=None)

    def reports(self) -> list[TaskReport]:
        """How every task is doing."""
        return [task.report() for task in self._tasks]

    def run_due(self, now_ms: int | None = None) -> list[str]:
        """Run what is due, in this thread: the names of what was run, in order. A task that fails does not raise."""
        done: list[str] = []
        if self._pid != os.getpid() or self._runner == threading.get_ident():
            return done
        with self._one_at_a_time:
            self._runner = threading.get_ident()
            try:
                now_ms = self._clock() if now_ms is None else now_ms
                self._keep_step(now_ms)
                for task in self._tasks:
                    if not self._is_stopping and task.is_due(now_ms):
                        task.run(now_ms)
                        done.append(task.name)
            finally:
                self._runner = None
        return done

    def _keep_step(self, now_ms: int) -> None:
        """A clock that was put back takes what is due with it: nothing waits for the time that comes twice."""
        if now_ms < self._seen_ms:
            for task in self._tasks:
                task.shift(now_ms - self._seen_ms)
        self._seen_ms = now_ms

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self.run_due()
            except BaseException:  # not even what no task should raise ends it in silence
                _log.exception("the scheduler goes on after an error")
            next_ms = self.next_ms
            left_s = _LOOK_UP_S if next_ms is None else max(0.0, (next_ms - self._seen_ms) / 1000)
            self._wait(self._wake, min(left_s, _LOOK_UP_S) or 0.001)


class _Scheduled:
    """A task, and how it is doing. Changed by one thread at a time."""

    def __init__(self, task: Task, now_ms: int) -> None:
        self._task = task
        self.name = task.name
        self.next_ms: int | None = None if task.period_ms >= LONG_MAX else now_ms + task.first_ms
        self._report = TaskReport(task.name, task.period_ms, 0, 0, 0, None, None, 0.0, self.next_ms)

    def is_due(self, now_ms: int) -> bool:
        return self.next_ms is not None and self.next_ms <= now_ms

    def shift(self, ms: int) -> None:
        if self.next_ms is not None:
            self.next_ms += ms

    def report(self) -> TaskReport:
        return self._report._replace(next_ms=self.next_ms)

    def run(self, now_ms: int) -> None:
        report, started = self._report, time.perf_counter()
        failures, in_a_row, last_error = report.failures, 0, report.last_error
        delay_ms = max(1, self._task.period_ms)
        try:
            self._task.run()
        except Exception as error:
            in_a_row = report.failures_in_a_row + 1
            failures, last_error = failures + 1, f"{type(error).__name__}: {error}"
            delay_ms = backoff_ms(in_a_row, self._task.period_ms)
            _log.exception("%s failed, %d times in a row; again in %d ms", self.name, in_a_row, delay_ms)
        finally:
            self.next_ms = now_ms + delay_ms
            took_s = time.perf_counter() - started
            self._report = report._replace(
                runs=report.runs + 1,
                failures=failures,
                failures_in_a_row=in_a_row,
                last_error=last_error,
                last_run_ms=now_ms,
                total_s=report.total_s + took_s,
            )


def backoff_ms(failures_in_a_row: int, period_ms: int) -> int:
    """How long to wait after that many failures: twice as long each time."""
    return min(FIRST_BACKOFF_MS << min(failures_in_a_row - 1, 30), max(MAX_BACKOFF_MS, period_ms))
