# C types of zstd_frame.py.
cimport cython
from libc.stdint cimport int64_t

from tidelog.record.kernel.arena cimport Arena

@cython.locals(guess=int64_t)
cpdef decompress(payload, Arena arena, int64_t max_bytes)

@cython.locals(end=int64_t)
cdef _decompress_stream(decompressor, payload, Arena arena, int64_t max_bytes)

@cython.locals(at=int64_t)
cdef _check_frames(payload)

@cython.locals(header=int64_t, kind=int64_t, size=int64_t, header_size=int64_t, has_checksum=bint)
cdef int64_t _frame_end(payload, int64_t at) except -1
