# C types of gathering.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.hashing cimport murmur2

cdef int64_t OVERHEAD

cdef class RowBatch:
    cdef object __weakref__
    cdef public list rows
    cdef public int64_t room_bytes

cdef class RowBuffer:
    cdef object __weakref__
    cdef public object lock, error
    cdef public dict open

@cython.final
@cython.freelist(64)
cdef class WriteHandle:
    cdef readonly object batch, timestamp_ms
    cdef readonly int64_t index

cdef class RowGatherer:
    cdef object __weakref__
    cdef public RowBuffer buffer
    cdef public object clock
    cdef public int64_t partition_count, plain_bytes

    cpdef append_checked(self, value, key, headers, timestamp_ms, partition)

    @cython.locals(
        buffer=RowBuffer, size=int64_t, place=int64_t, p="const uint8_t*", batch=RowBatch, rows=list, index=int64_t, handle=WriteHandle,
    )
    cdef add_plain(self, bytes key, bytes value)
