# C types of record.py.
cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t

@cython.final
@cython.freelist(256)
cdef class Record:
    cdef readonly object topic, key, value, headers
    cdef readonly int64_t offset, timestamp_ms
    cdef readonly int32_t partition, sequence
    cdef int8_t timestamp_type_id
    cpdef tuple _state(self)
