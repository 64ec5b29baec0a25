# C types of encode.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from tidelog.record.kernel.header_list cimport as_bytes, as_timestamp, encode_headers
from tidelog.record.kernel.record cimport Record
from tidelog.record.kernel.any_record cimport long_varint
from tidelog.record.kernel.records cimport copy_bytes

cdef int64_t HEADER_SIZE, MAX_INT32, BATCH_BYTES, ATTRIBUTES, LEADER_EPOCH, PRODUCER_ID, PRODUCER_EPOCH, APPEND_TIME
cdef int64_t DEFAULT_TIMESTAMP, BASE_TIMESTAMP, KEEP_OFFSETS, NEXT_OFFSET, NEXT_SEQUENCE, OUTPUT_END
cdef bytes NO_HEADERS

@cython.locals(
    room=int64_t, out="uint8_t*", s="int64_t*", row_count=int64_t, default_timestamp=int64_t, keep_offsets=int64_t,
    batch_start=int64_t, batch_first=int64_t, at=int64_t, base_timestamp=int64_t, max_timestamp=int64_t,
    last_offset_delta=int64_t, index=int64_t, record=Record, pair=tuple, tail=bytes, timestamp=int64_t, timestamp_delta=int64_t, offset=int64_t, offset_delta=int64_t,
    key_length=int64_t, value_length=int64_t, tail_length=int64_t, body=int64_t, total=int64_t,
)
cpdef int64_t encode_rows(list rows, int64_t first, uint8_t[::1] output, int64_t[::1] plan, dict read_once) except -1

@cython.locals(
    row_count=int64_t, room=int64_t, has_key_nulls=bint, has_value_nulls=bint, has_tails=bint,
    has_timestamps=bint, out="uint8_t*", s="int64_t*", kd="const uint8_t*", vd="const uint8_t*", td="const uint8_t*",
    batch_start=int64_t, batch_first=int64_t, at=int64_t, base_timestamp=int64_t, max_timestamp=int64_t, timestamp=int64_t,
    timestamp_delta=int64_t, tail_start=int64_t, tail_length=int64_t, index=int64_t, key_start=int64_t, key_length=int64_t,
    value_start=int64_t, value_length=int64_t, body=int64_t, total=int64_t,
)
cpdef int64_t encode_columns(
    const int32_t[::1] key_offsets, const uint8_t[::1] key_data, const uint8_t[::1] key_nulls,
    const int32_t[::1] value_offsets, const uint8_t[::1] value_data, const uint8_t[::1] value_nulls,
    const int32_t[::1] tail_offsets, const uint8_t[::1] tail_data, const int64_t[::1] timestamps,
    int64_t first, uint8_t[::1] output, int64_t[::1] plan,
) except -1

@cython.locals(
    p="const uint8_t*", out="uint8_t*", end=int64_t, count=int64_t, start=int64_t, at=int64_t, index=int64_t,
    body_start=int64_t, length=int64_t, rest=int64_t, delta=int64_t, _=int64_t,
)
cpdef int64_t retain_records(
    const uint8_t[::1] payload, const int64_t[::1] timestamps, const uint8_t[::1] keep, int64_t base_timestamp, uint8_t[::1] output,
) except -1

cpdef tuple unpack_row(row, int64_t index, default_timestamp)

@cython.locals(size=int64_t)
cdef inline int64_t body_size(
    int64_t timestamp_delta, int64_t offset_delta, int64_t key_length, int64_t value_length, int64_t tail_length) noexcept nogil

@cython.locals(raw=uint64_t, size=int64_t)
cdef inline int64_t varint_size(int64_t number) noexcept nogil

@cython.locals(raw=uint64_t)
cdef inline int64_t put_varint(uint8_t* out, int64_t at, int64_t number) noexcept nogil

@cython.locals(raw=uint64_t)
cdef inline uint64_t zigzag(int64_t number) noexcept nogil

cdef inline int64_t put_prefix(
    uint8_t* out, int64_t at, int64_t body, int64_t timestamp_delta, int64_t offset_delta) noexcept nogil

@cython.locals(source="const uint8_t*")
cdef inline void put_bytes(uint8_t* out, int64_t at, bytes data, int64_t size) noexcept

cdef void finish_batch(
    uint8_t* out, int64_t* s, int64_t start, int64_t end, int64_t count, int64_t last_offset_delta,
    int64_t base_timestamp, int64_t max_timestamp) noexcept nogil

@cython.locals(shift=int64_t, i=int64_t)
cdef void put_int(uint8_t* out, int64_t at, int64_t number, int64_t size) noexcept nogil

cdef inline int64_t wrap64(int64_t number) noexcept nogil
