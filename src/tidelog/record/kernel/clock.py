"""The wall clock, which is looked at for every record."""

import time

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    if cython.compiled:
        return wall_clock_ms()  # type: ignore[name-defined, no-any-return]  # noqa: F821
    return time.time_ns() // 1_000_000
