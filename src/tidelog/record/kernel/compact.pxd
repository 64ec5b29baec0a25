# C types of compact.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.record.kernel.encode cimport put_int, put_varint, varint_size
from tidelog.record.kernel.headers cimport memory_view, move_view, read_i32
from tidelog.record.kernel.records cimport copy_bytes, parse_one, report, report_record

cdef int64_t NEGATIVE_COUNT, RECORD_COUNT, PAYLOAD_TOO_LONG
cdef int64_t BY_BITS, BITS_FIRST, BITS_END, LATEST_OFFSET, NOW, NEW_HORIZON, COUNTS_ALL, RULES
cdef int64_t OUTPUT_END, CHECKSUMS, MESSAGES_READ, MESSAGES_WRITTEN, INVALID_MESSAGES, TOMBSTONES_REMOVED, KEPT_EMPTY, STOP, ANSWERS
cdef int64_t OUTPUT_FULL, OUT_OF_WINDOW, BAD_BYTES
cdef int64_t HEADER_SIZE, LOG_OVERHEAD, CRC_POSITION, ATTRIBUTES_POSITION, MIN_RECORD_SIZE, CODEC_AND_HORIZON
cdef int64_t TIMESTAMP_TYPE_BIT, DELETE_HORIZON_BIT, GROWTH
cdef int64_t SOME, NONE, ALL

@cython.locals(
    size_bytes=int64_t, room=int64_t, scratch=int64_t, keep_room=int64_t, p="const uint8_t*", a="const int64_t*", out="uint8_t*",
    b="const uint8_t*", k="const uint8_t*", s="int32_t*", t="int64_t*", g="uint8_t*", f="int64_t*",
    by_bits=int64_t, bits_first=int64_t, bits_end=int64_t, latest_offset=int64_t, now=int64_t, new_horizon=int64_t, counts_all=int64_t,
    out_at=int64_t, checksums=int64_t, messages_read=int64_t, messages_written=int64_t, invalid_messages=int64_t,
    tombstones_removed=int64_t, kept_empty=int64_t, stop=int64_t, done=int64_t, flag_at=int64_t,
    position=int64_t, size=int64_t, attributes=int64_t, base_offset=int64_t, last_offset=int64_t, base_timestamp=int64_t,
    max_timestamp=int64_t, records=int64_t, judged=int64_t, at=int64_t, end=int64_t, state=int64_t, kept=int64_t, tombstones=int64_t, invalid=int64_t,
    removed=int64_t, first_timestamp=int64_t, newest=int64_t, is_append_time=int64_t, as_it_is=bint, keeps_tombstones=bint, index=int64_t,
    start=int64_t, timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t, key_length=int64_t, value_length=int64_t,
    _=int64_t, offset=int64_t, is_kept=int64_t, timestamp=int64_t, has_horizon=int64_t, gets_horizon=bint, new_base=int64_t,
)
cpdef int64_t retain_batches(
    const uint8_t[::1] buffer, const int64_t[::1] fields, int64_t capacity, int64_t first, int64_t count, const int64_t[::1] rules,
    const uint8_t[::1] keep_empty, const uint8_t[::1] keep, const uint8_t[::1] bits, int32_t[::1] starts, int64_t[::1] timestamps,
    uint8_t[::1] flags, uint8_t[::1] output, int64_t[::1] positions, int64_t[::1] answers, int64_t[::1] fault,
) except -1

@cython.locals(size_bytes=int64_t, out="uint8_t*", i=int64_t, position=int64_t, size=int64_t)
cpdef void write_checksums(crc32c, uint8_t[::1] output, const int64_t[::1] positions, int64_t count) except *

@cython.locals(first_byte=int64_t, last_byte=int64_t, mask=int64_t, is_none=bint, is_all=bint, at=int64_t, found=int64_t)
cdef inline int64_t range_state(const uint8_t* b, int64_t first, int64_t last) noexcept nogil

@cython.locals(start=int64_t)
cdef inline bint has_plain_start(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(index=int64_t, start=int64_t)
cdef inline int64_t copy_records(
    const uint8_t* p, const int32_t* s, const uint8_t* g, int64_t records, uint8_t* out, int64_t out_at) noexcept nogil

@cython.locals(index=int64_t, at=int64_t, end=int64_t, delta=int64_t)
cdef inline int64_t put_records(
    const uint8_t* p, const int32_t* s, const int64_t* t, const uint8_t* g, int64_t records, int64_t base_timestamp, uint8_t* out,
    int64_t out_at) noexcept nogil

cdef inline int64_t put_empty(uint8_t* out, int64_t out_at, const uint8_t* p, int64_t position, int64_t attributes) noexcept nogil

cdef inline int64_t wrap64(int64_t number) noexcept nogil
