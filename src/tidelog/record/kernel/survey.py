"""Visit every record of a v2 batch, as a leader does before it appends: check that all parse, and count what its rules ask for.

The answers are five numbers: max timestamp, records without a key, records whose timestamp is out of range, records without a timestamp
(-1), and 1 if the offset deltas are 0, 1, 2 … else 0. Timestamps are base plus delta, whatever the type bit says; the largest of none is
-1, and so is the largest of those below -1.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

if not cython.compiled:  # compiled, these are C functions, named in survey.pxd
    from tidelog.record.kernel.records import survey

# From this many bytes on other threads may run in the meantime; for less, letting them costs more than the survey.
LARGE_BYTES = 65536


def survey_records(
    payload: Any, start: int, end: int, count: int, base_timestamp_ms: int, lowest_ms: int, highest_ms: int, fault: Any
) -> tuple[int, int, int, int, int]:
    """Survey one batch, whose records lie in `payload` from `start` to `end`. An `is_dense` of -1: bad bytes, told in `fault`."""
    size_bytes = len(payload)
    if start < 0 or end < start or end > size_bytes:
        raise ValueError(f"payload from byte {start} to {end} of a buffer of {size_bytes}")
    if cython.compiled:
        p = cython.address(payload[0]) if size_bytes else cython.NULL
        f = cython.address(fault[0])
    else:
        p, f = payload, fault
    if end - start < LARGE_BYTES:
        ok, max_timestamp, keyless, out_of_range, untimed, is_dense = survey(
            p, start, end, count, base_timestamp_ms, lowest_ms, highest_ms, p, f
        )
    else:
        with cython.nogil:
            ok, max_timestamp, keyless, out_of_range, untimed, is_dense = survey(
                p, start, end, count, base_timestamp_ms, lowest_ms, highest_ms, p, f
            )
    return max_timestamp, keyless, out_of_range, untimed, is_dense if ok else -1
