# C types of survey.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.records cimport survey

cdef int64_t LARGE_BYTES

@cython.locals(
    p="const uint8_t*", f="int64_t*", size_bytes=int64_t,
    ok=bint, max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, untimed=int64_t, is_dense=int64_t,
)
cpdef (int64_t, int64_t, int64_t, int64_t, int64_t) survey_records(
    const uint8_t[::1] payload, int64_t start, int64_t end, int64_t count, int64_t base_timestamp_ms, int64_t lowest_ms,
    int64_t highest_ms, int64_t[::1] fault)
