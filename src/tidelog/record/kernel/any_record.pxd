# C types of any_record.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef int64_t TRUNCATED_VARINT, VARINT_TOO_LONG, RECORD_LENGTH, RECORD_SIZE_MISMATCH, KEY_LENGTH, VALUE_LENGTH
cdef int64_t HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH

@cython.locals(
    start=int64_t, length=int64_t, field=int64_t, timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t,
    key_length=int64_t, value_start=int64_t, value_length=int64_t, headers_start=int64_t, header_count=int64_t,
)
cdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) parse_any_record(
    const uint8_t* p, int64_t at, int64_t end) noexcept nogil

@cython.locals(field=int64_t, length=int64_t, _=int64_t)
cdef (int64_t, int64_t, int64_t) skip_headers(const uint8_t* p, int64_t at, int64_t end, int64_t header_count) noexcept nogil

@cython.locals(first=int64_t, second=int64_t)
cdef inline (int64_t, int64_t) varint(const uint8_t* p, int64_t at, int64_t end, int64_t bits) noexcept nogil

@cython.locals(start=int64_t, raw=uint64_t, half=uint64_t, group=uint64_t, shift=int64_t, byte=int64_t, value=int64_t)
cdef (int64_t, int64_t) long_varint(const uint8_t* p, int64_t at, int64_t end, int64_t bits) noexcept nogil
