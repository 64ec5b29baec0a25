# C types of plain_batch.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.assign cimport assign_header
from tidelog.record.kernel.headers cimport memory_view
from tidelog.record.kernel.index_search cimport read_i32, read_i64
from tidelog.record.kernel.survey cimport survey

cdef int64_t HEADER_SIZE, ATTRIBUTES_POSITION, NOT_PLAIN_BITS, UNSIGNED

@cython.locals(
    p="const uint8_t*", f="int64_t*", size=int64_t, count=int64_t, checksum=int64_t, ok=bint, max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t,
    _=int64_t, is_dense=int64_t, is_append_time=bint,
)
cpdef assign_plain(
    crc32c, const uint8_t[::1] batch, int64_t max_bytes, int64_t lowest_ms, int64_t highest_ms, bint needs_keys, int64_t next_offset,
    int64_t leader_epoch, int64_t append_time_ms, int64_t[::1] fault)
