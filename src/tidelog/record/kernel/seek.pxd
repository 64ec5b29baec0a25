# C types of seek.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.index_search cimport read_i32, read_i64
from tidelog.record.kernel.records cimport parse_one

cdef int64_t HIT, MISS, BATCH_TOO_SMALL, UNKNOWN_MAGIC, PAYLOAD_TOO_SHORT, PAYLOAD_TOO_LONG
cdef int64_t LOG_OVERHEAD, MIN_SIZE_V0, MIN_SIZE_V1, MIN_SIZE_V2

@cython.locals(p="const uint8_t*", status=int64_t, size=int64_t, base_offset=int64_t, last_offset=int64_t, max_timestamp=int64_t)
cpdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) find_batch(
    const uint8_t[::1] buffer, int64_t position, int64_t end, int64_t offset)

@cython.locals(p="const uint8_t*", status=int64_t, size=int64_t, base_offset=int64_t, last_offset=int64_t, max_timestamp=int64_t)
cpdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) find_batch_by_time(
    const uint8_t[::1] buffer, int64_t position, int64_t end, int64_t timestamp_ms)

@cython.locals(
    p="const uint8_t*", at=int64_t, index=int64_t, field=int64_t, timestamp_delta=int64_t, offset_delta=int64_t,
    key_start=int64_t, _=int64_t, timestamp=int64_t, offset=int64_t,
)
cpdef (int64_t, int64_t, int64_t, int64_t) find_record_by_time(
    const uint8_t[::1] payload, int64_t start, int64_t end, int64_t count, int64_t base_timestamp_ms, int64_t base_offset,
    bint is_append_time, int64_t append_time_ms, int64_t timestamp_ms, int64_t min_offset)

@cython.locals(left=int64_t, size=int64_t, magic=int64_t, min_size=int64_t, offset=int64_t, timestamp=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) read_header(const uint8_t* p, int64_t position, int64_t end) noexcept nogil

cdef int check_range(int64_t start, int64_t end, int64_t size_bytes) except -1

cdef inline int64_t wrap64(int64_t number) noexcept nogil
