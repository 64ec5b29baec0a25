# C types of objects.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.record.kernel.record cimport Record
from tidelog.record.kernel.any_record cimport long_varint
from tidelog.record.kernel.records cimport parse_one

cdef int64_t PAYLOAD_TOO_SHORT, PAYLOAD_TOO_LONG

@cython.final
cdef class RecordIterator:
    cdef const uint8_t[::1] payload
    cdef int64_t at, end, index, count, base_offset, base_timestamp, is_append_time, append_time, base_sequence, batch_position
    cdef object topic
    cdef int32_t partition

    cdef finish(self)

    @cython.locals(
        p="const uint8_t*", record=Record, at=int64_t, timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t,
        key_length=int64_t, value_start=int64_t, value_length=int64_t, headers_start=int64_t, header_count=int64_t,
    )
    cdef Record advance(self)

@cython.locals(length=int64_t, _=int64_t)
cdef tuple read_headers(const uint8_t* p, int64_t at, int64_t end, int64_t header_count)

cdef inline bytes take(const uint8_t* p, int64_t start, int64_t size)

cdef inline int64_t wrap64(int64_t number) noexcept nogil
