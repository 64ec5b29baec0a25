# C types of survey.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.records cimport parse_one, report, report_record

cdef int64_t NEGATIVE_COUNT, RECORD_COUNT, PAYLOAD_TOO_LONG, BATCH_FIELDS, SURVEY_FIELDS, MIN_RECORD_SIZE, LARGE_BYTES

@cython.locals(
    p="const uint8_t*", b="const int64_t*", a="int64_t*", f="int64_t*", count=int64_t, size_bytes=int64_t, batch=int64_t, field=int64_t,
    ok=bint, max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, untimed=int64_t, is_dense=int64_t,
)
cpdef bint survey_batches(
    const uint8_t[::1] payload, const int64_t[::1] batches, int64_t lowest_ms, int64_t highest_ms, int64_t[::1] answers,
    int64_t[::1] fault,
) except? False

@cython.locals(
    p="const uint8_t*", f="int64_t*", size_bytes=int64_t,
    ok=bint, max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, untimed=int64_t, is_dense=int64_t,
)
cpdef (int64_t, int64_t, int64_t, int64_t, int64_t) survey_records(
    const uint8_t[::1] payload, int64_t start, int64_t end, int64_t count, int64_t base_timestamp_ms, int64_t lowest_ms,
    int64_t highest_ms, int64_t[::1] fault)

@cython.locals(
    max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, untimed=int64_t, is_dense=int64_t, index=int64_t, start=int64_t,
    timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t, key_length=int64_t, _=int64_t, timestamp=int64_t,
)
cdef (bint, int64_t, int64_t, int64_t, int64_t, int64_t) survey(
    const uint8_t* p, int64_t at, int64_t end, int64_t count, int64_t base_timestamp, int64_t lowest, int64_t highest, int64_t batch,
    int64_t* f) noexcept nogil

cdef inline int64_t wrap64(int64_t number) noexcept nogil
