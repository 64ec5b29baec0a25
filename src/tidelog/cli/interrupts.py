"""Ctrl-C ends a command, wherever it meets it.

Python raises it at whichever line is being run. If that line is part of a destructor, as where a file is closed that nobody refers to any
more, Python shows the interrupt and forgets it: the command would go on. Such a one comes once more, a moment later.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MOMENT_S = 0.005


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """See to it that an interrupt which a destructor has swallowed is raised where it counts."""
    hook = sys.unraisablehook

    def once_more(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            hook(unraisable)
        elif not sys.is_finalizing():
            signal.setitimer(signal.ITIMER_REAL, _MOMENT_S)

    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = once_more
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
