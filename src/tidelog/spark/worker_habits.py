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
from typing import TextIO

DAEMON = "pyspark.daemon"
_is_frozen = False
"""Whether `collect` has looked once. The collector knows, too, but counts what is frozen one by one to say so: 5 ms a task."""


def print_fault() -> None:
    """Print the exception that ends a worker, unless Spark has ended it."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


def print_note(*values: object, file: TextIO | None = None) -> None:
    """Print what the daemon says about a worker, unless it is about a pipe that Spark has closed."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        print(*values, file=file)


def collect() -> int:
    """Collect garbage; what is alive after the first time is not looked at again."""
    global _is_frozen
    found = gc.collect()
    if not _is_frozen:
        gc.freeze()
        _is_frozen = True
    return found


def hush(daemon: ModuleType) -> None:
    """No traceback where Spark has had enough. PySpark's module gets its own view of what it calls; the rest of the process has not."""
    daemon.traceback = SimpleNamespace(print_exc=print_fault, format_exc=traceback.format_exc)  # type: ignore[attr-defined]
    # What is left of a worker's rows is flushed when it ends, and of a failure of that the daemon prints the traceback itself.
    daemon.print = print_note  # type: ignore[attr-defined]


def collect_once(daemon: ModuleType) -> None:
    """No second look at what stays. Only for sessions that are ours: who keeps large rings of objects may want them seen."""
    daemon.gc = SimpleNamespace(collect=collect)  # type: ignore[attr-defined]


def hush_this_worker() -> None:
    """The same for the process this runs in, if it is a worker: those that plan a query are always forked by PySpark's own daemon."""
    main = sys.modules.get("__main__")
    if main is not None and getattr(getattr(main, "__spec__", None), "name", None) == DAEMON:
        hush(main)
