# C types of stamping.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t

from tidelog.record.kernel.encode cimport put_int
from tidelog.record.kernel.index_search cimport read_i32
from tidelog.record.kernel.joined_crc cimport multiply

cdef int64_t HEADER_SIZE, CRC_POSITION, ATTRIBUTES_POSITION, LOW_ATTRIBUTES_POSITION, PRODUCER_POSITION, TRANSACTIONAL_BIT
cdef int64_t BYTES, POWERS, MAX_SPAN, MAX_SEQUENCE, UNSIGNED

@cython.locals(
    p="uint8_t*", t="const uint32_t*", header=bytearray, i=int64_t, count=int64_t, payload_size=int64_t, before=uint32_t, change=uint32_t,
    stored=int64_t)
cpdef int64_t stamp_headers(
    list parts, const int64_t[::1] counts, int64_t producer_id, int64_t epoch, int64_t sequence, const uint32_t[::1] table) except -1

@cython.locals(at=int64_t, crc=uint32_t)
cdef uint32_t checksum(const uint8_t* p, const uint32_t* t) noexcept nogil

@cython.locals(step=int64_t)
cdef uint32_t shifted(uint32_t crc, int64_t size_bytes, const uint32_t* t) noexcept nogil
