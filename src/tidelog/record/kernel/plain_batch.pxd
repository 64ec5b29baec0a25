# C types of plain_batch.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.assign cimport assign_header
from tidelog.record.kernel.headers cimport memory_view
from tidelog.record.kernel.index_search cimport read_i32, read_i64
from tidelog.record.kernel.records cimport survey

cdef int64_t HEADER_SIZE, ATTRIBUTES_POSITION, PRODUCER_ID_POSITION, NOT_PLAIN_BITS, UNSIGNED

cpdef assign_plain(
    crc32c, const uint8_t[::1] batch, int64_t max_bytes, int64_t lowest_ms, int64_t highest_ms, bint needs_keys, int64_t next_offset,
    int64_t leader_epoch, int64_t append_time_ms, int64_t[::1] fault)

@cython.locals(
    p="const uint8_t*", ahead="const uint8_t*", f="int64_t*", size=int64_t, count=int64_t, checksum=int64_t, ok=bint,
    max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, _=int64_t, is_dense=int64_t, is_append_time=bint,
)
cdef assign_before(
    crc32c, const uint8_t[::1] batch, const uint8_t[::1] following, int64_t max_bytes, int64_t lowest_ms, int64_t highest_ms,
    bint needs_keys, int64_t next_offset, int64_t leader_epoch, int64_t append_time_ms, int64_t[::1] fault)

@cython.locals(
    capacity=int64_t, at=int64_t, count=int64_t, max_timestamp=int64_t, batch="const uint8_t[::1]", following="const uint8_t[::1]",
)
cpdef int64_t assign_plain_run(
    crc32c, list batches, int64_t first, int64_t max_bytes, int64_t lowest_ms, int64_t highest_ms, bint needs_keys, int64_t next_offset,
    int64_t leader_epoch, int64_t append_time_ms, list parts, int64_t[::1] fields, int64_t[::1] fault) except -1
