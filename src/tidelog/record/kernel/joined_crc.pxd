# C types of joined_crc.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef uint32_t POLYNOMIAL, ALL_ONES
cdef int64_t BYTES, POWERS, MAX_SPAN, CRC_START, MAGIC_V2

@cython.locals(byte=int64_t, n=int64_t, _=int64_t, crc=uint32_t, power=uint32_t, step=uint32_t)
cpdef void fill_table(uint32_t[::1] table)

@cython.locals(p="const uint8_t*", a="const int64_t*", t="const uint32_t*", crc=uint32_t, shift=uint32_t, position=int64_t, span=int64_t, i=int64_t, at=int64_t, ok=bint)
cpdef int64_t joined_crc(const uint8_t[::1] buffer, const int64_t[::1] fields, int64_t capacity, int64_t first, int64_t count, const uint32_t[::1] table)

@cython.locals(product=uint32_t, i=int64_t)
cdef inline uint32_t multiply(uint32_t a, uint32_t b) noexcept nogil

cdef inline uint32_t times_x(uint32_t a) noexcept nogil
