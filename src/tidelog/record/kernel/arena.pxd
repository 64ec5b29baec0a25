# C types of arena.py.
cimport cython
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define copy_to(target, at, source, size) memcpy(PyByteArray_AS_STRING(target) + (at), PyBytes_AS_STRING(source), (size_t)(size))
    """
    void copy_to(bytearray target, int64_t at, bytes source, int64_t size)

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
