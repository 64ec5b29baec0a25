# C types of columns.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.record.kernel.any_record cimport long_varint
from tidelog.record.kernel.records cimport copy_bytes

@cython.locals(count=int64_t, nulls=int64_t, at=int64_t, i=int64_t, length=int64_t, p="const uint8_t*", d="uint8_t*")
cpdef int64_t gather(
    const uint8_t[::1] payload, const int32_t[::1] starts, const int32_t[::1] lengths,
    int32_t[::1] offsets, uint8_t[::1] data, uint8_t[::1] validity,
) except? -1

@cython.locals(record_count=int64_t, end=int64_t, done=int64_t, capacity=int64_t, record=int64_t, at=int64_t, length=int64_t, _=int64_t, p="const uint8_t*")
cpdef int64_t locate_headers(const uint8_t[::1] payload, const int32_t[::1] starts, const int32_t[::1] counts, int32_t[::1] slices)
