# C types of header_list.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

cpdef bytes as_bytes(data, str what, int64_t index)

cpdef as_timestamp(number, int64_t index)

@cython.locals(out=bytearray)
cpdef bytes encode_headers(headers, int64_t index)

@cython.locals(raw=uint64_t)
cdef append_varint(bytearray out, int64_t number)
