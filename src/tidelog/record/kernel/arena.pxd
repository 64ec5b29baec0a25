# C types of arena.py.
cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Arena:
    cdef readonly bytearray buffer
    cdef object _memory
    cdef public int64_t size

    cpdef clear(self)

    @cython.locals(needed=int64_t, grown=bytearray)
    cpdef reserve(self, int64_t size)

    @cython.locals(size=int64_t)
    cpdef append(self, data)
