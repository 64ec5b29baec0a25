"""How far a stage is: a line on stderr, drawn again and again where that is a terminal."""

import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOOK_S = 0.3
_BAR = 24


def progress_of(
    description: str, watched: "tuple[SparkContext, str] | None", tasks: int, *, asked: bool | None
) -> AbstractContextManager[object]:
    """That of a stage; without being asked for, or refused, where stderr is a terminal."""
    is_shown = sys.stderr.isatty() if asked is None else asked
    return Progress(description, watched, tasks) if is_shown else nullcontext()


class Progress:
    """Shows a stage from its beginning to its end. Where Spark does not tell how far it is, only those two."""

    def __init__(self, description: str, watched: "tuple[SparkContext, str] | None", tasks: int) -> None:
        self._description = description
        self._watched = watched
        self._tasks = tasks
        self._is_terminal = sys.stderr.isatty()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._jobs_before: frozenset[int] = frozenset()
        """Of the same group: the caller's own."""
        self._started_s = 0.0

    def __enter__(self) -> "Progress":
        self._started_s = time.perf_counter()
        if self._is_terminal and self._watched is not None:
            self._jobs_before = self._jobs()
            self._thread = threading.Thread(target=self._look, name="tidelog-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        took_s = time.perf_counter() - self._started_s
        tasks = f"{self._tasks} {'task' if self._tasks == 1 else 'tasks'}, " if self._tasks >= 0 else ""  # Spark may not say how many
        outcome = f"{tasks}{took_s:.1f} s" if error is None else "stopped here"
        start = "\r\x1b[K" if self._thread is not None else ""
        sys.stderr.write(f"{start}{self._description}: {outcome}\n")
        sys.stderr.flush()

    def _look(self) -> None:
        while not self._done.wait(_LOOK_S):
            sys.stderr.write(f"\r\x1b[K{bar(self._description, self._completed(), self._tasks)}")
            sys.stderr.flush()

    def _jobs(self) -> frozenset[int]:
        assert self._watched is not None
        context, group = self._watched
        try:
            return frozenset(context.statusTracker().getJobIdsForGroup(group))
        except Exception:  # as below
            return frozenset()

    def _completed(self) -> int:
        assert self._watched is not None
        context, _ = self._watched
        try:
            tracker = context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in self._jobs() - self._jobs_before]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        except Exception:  # the session may be on its way out; a bar is not worth an error
            return 0
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def bar(description: str, done: int, tasks: int) -> str:
    """The line, as it is drawn; where nobody knows how many tasks there will be, without how far it is."""
    if tasks < 0:
        return f"{description} {done}"
    full = _BAR * min(done, tasks) // max(1, tasks)
    return f"{description} [{'#' * full}{'.' * (_BAR - full)}] {done}/{tasks}"
