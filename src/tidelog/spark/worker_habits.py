"""Two habits of the process that forks Spark's Python workers, changed.

Spark closes the pipe of a worker once it has enough (`first()`, `limit`, `show()`) or has read its error, and PySpark prints a traceback
for each worker that this happens to, over what the query itself prints. It is no fault, and nothing is said here.

After each task PySpark has the garbage collector look at everything there is, mostly modules that stay for ever: a tenth of what a small
task costs. Here it looks once, and from then on only at what came later.
"""

import gc
import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

DAEMON = "pyspark.daemon"
_is_frozen = False
"""Whether `collect` has looked once. The collector knows, too, but counts what is frozen one by one to say so: 5 ms a task."""


def print_fault(*values: Any, **options: Any) -> None:
    """Print the exception that ends a worker, unless Spark has ended it."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc(*values, **options)


def print_note(*values: Any, **options: Any) -> None:
    """Print what the daemon says about a worker, unless it is about a pipe that Spark has closed."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        print(*values, **options)  # noqa: T201 - what the daemon prints


def collect(generation: int = 2) -> int:
    """Collect garbage; what is alive after the first time is not looked at again."""
    global _is_frozen
    found = gc.collect(generation)
    if not _is_frozen:
        gc.freeze()
        _is_frozen = True
    return found


def hush(daemon: ModuleType) -> None:
    """No traceback where Spark has had enough. PySpark's module gets its own view of what it calls; the rest of the process has not."""
    daemon.traceback = _changed(traceback, print_exc=print_fault)  # type: ignore[attr-defined]
    # What is left of a worker's rows is flushed when it ends, and of a failure of that the daemon prints the traceback itself.
    daemon.print = print_note  # type: ignore[attr-defined]


def collect_once(daemon: ModuleType) -> None:
    """No second look at what stays. Only for sessions that are ours: who keeps large rings of objects may want them seen."""
    daemon.gc = _changed(gc, collect=collect)  # type: ignore[attr-defined]


def _changed(module: ModuleType, **names: object) -> SimpleNamespace:
    """A view of a module in which some names are others: a later PySpark may call more of it, and finds it."""
    return SimpleNamespace(**{**vars(module), **names})


def hush_this_worker() -> None:
    """The same for the process this runs in, if it is a worker: those that plan a query are always forked by PySpark's own daemon."""
    main = sys.modules.get("__main__")
    if main is not None and getattr(getattr(main, "__spec__", None), "name", None) == DAEMON:
        hush(main)
