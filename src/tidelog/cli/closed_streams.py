"""Standard streams that were closed before the command began, as schedulers of jobs and `>&-` leave them: they lead nowhere then.

The system gives a file the lowest number that is free. Without this the first log that is opened would become the standard output or the
standard error, for whatever writes there by number: the C libraries, a Java that is started.
"""

import os
import sys

_STDERR = 2


def lead_closed_nowhere() -> None:
    """Open what is closed, before anything else is opened."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)  # as the streams of a process are
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as the process lives
