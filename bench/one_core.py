"""Both sides of a row on one core: issue 5 states what its peers do so.

It matters where threads take turns: to wake one on another core of a virtual machine costs more than what it is woken for.

Reproduce: `.venv/bin/python -m bench --only '5-*'`
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.data import Inputs
from bench.timing import Measurement, Pace

Measure = Callable[[Inputs, Pace], Measurement]


def on_one_core(measure: Measure) -> Measure:
    """The same measurement, with every thread of this process on one core meanwhile."""

    def measure_there(inputs: Inputs, pace: Pace) -> Measurement:
        with _one_core():
            return measure(inputs, pace)

    return measure_there


@contextmanager
def _one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    _move({max(cores)})
    try:
        yield
    finally:
        _move(cores)


def _move(cores: set[int]) -> None:
    """Pools of threads that libraries have made before come along; new threads inherit."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it ended just now
            os.sched_setaffinity(int(thread.name), cores)
