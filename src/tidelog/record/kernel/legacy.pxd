# C types of legacy.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.record.kernel.headers cimport read_i32
from tidelog.record.kernel.records cimport report

cdef int64_t KEY_LENGTH, VALUE_LENGTH, MESSAGE_SIZE

@cython.locals(count=int64_t, ok=bint, i=int64_t, end=int64_t, field=int64_t, key_start=int64_t, key_length=int64_t, value_start=int64_t, value_length=int64_t, p="const uint8_t*", f="int64_t*")
cpdef bint scan_messages(const uint8_t[::1] buffer, const int64_t[::1] positions, const int64_t[::1] sizes, const int64_t[::1] magics, int32_t[::1] slices, int64_t[::1] fault) except? False
