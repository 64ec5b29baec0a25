# C types of lz4_frame.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.arena cimport Arena

cdef int64_t FRAME_MAGIC, BLOCK_SIZE, STORED_BIT, INDEPENDENT_BIT, BLOCK_CHECKSUM_BIT, CONTENT_CHECKSUM_BIT

@cython.locals(
    data="const uint8_t[::1]", at=int64_t, flags=int64_t, block_size=int64_t, end=int64_t, payload_size=int64_t, left=int64_t, size=int64_t,
    is_stored=bint, room=int64_t,
)
cpdef decompress(payload, Arena arena, int64_t max_bytes, bint check_header)

@cython.locals(u=int64_t)
cdef inline int64_t read_size(const uint8_t[::1] data, int64_t at) noexcept

@cython.locals(flags=int64_t, descriptor=int64_t, end=int64_t, expected=int64_t)
cdef tuple _read_header(view, bint check_header)

@cython.locals(most=int64_t, room=int64_t)
cdef _decompress_checked(payload, Arena arena, int64_t max_bytes)
