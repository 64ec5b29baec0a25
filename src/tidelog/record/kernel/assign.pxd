# C types of assign.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.encode cimport put_int
from tidelog.record.kernel.headers cimport memory_view, move_view
from tidelog.record.kernel.index_search cimport read_i32, read_i64
from tidelog.record.kernel.records cimport copy_bytes

cdef int64_t HEADER_SIZE, CRC_POSITION, ATTRIBUTES_POSITION, KNOWN_BITS, TIMESTAMP_TYPE_BIT

@cython.locals(p="const uint8_t*", out="uint8_t*", header=bytearray, payload_size=int64_t, checksum=int64_t)
cpdef bytearray assign_header(
    crc32c, const uint8_t[::1] buffer, int64_t position, int64_t size_bytes, int64_t next_offset, int64_t leader_epoch,
    bint is_append_time, int64_t max_timestamp_ms)

@cython.locals(last_offset=int64_t, attributes=int64_t, type_bit=int64_t)
cdef bint assign(
    uint8_t* p, int64_t next_offset, int64_t leader_epoch, bint is_append_time, int64_t max_timestamp) noexcept nogil
