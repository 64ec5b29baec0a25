# C types of records.py. The source itself stays plain Python, and runs as it is where there is no compiler.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from tidelog.record.kernel.any_record cimport parse_any_record

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define prefetch(p) (__builtin_prefetch(p), __builtin_prefetch((p) + 64))
    #else
    #define prefetch(p) ((void)(p))
    #endif
    """
    void prefetch(const uint8_t* p) noexcept nogil

cdef int64_t PREFETCH_DISTANCE, PREFETCH_STEP

cdef int64_t NEGATIVE_COUNT, RECORD_COUNT, MIN_RECORD_SIZE
cdef int64_t PAYLOAD_TOO_SHORT, PAYLOAD_TOO_LONG, COLUMN_FULL
cdef int64_t BATCH_FIELDS, WANT_KEYS, WANT_VALUES, WANT_SLICES, DONE, KEY_BYTES, KEY_NULLS, VALUE_BYTES, VALUE_NULLS

@cython.locals(
    batch_count=int64_t, capacity=int64_t, key_room=int64_t, value_room=int64_t, wants_keys=int64_t, wants_values=int64_t, wants_slices=int64_t,
    p="const uint8_t*", b="const int64_t*", o="int64_t*", t="int64_t*", s="int32_t*", f="int64_t*",
    ko="int32_t*", kd="uint8_t*", kv="uint8_t*", vo="int32_t*", vd="uint8_t*", vv="uint8_t*",
    done=int64_t, key_at=int64_t, key_nulls=int64_t, value_at=int64_t, value_nulls=int64_t, ok=bint,
    batch=int64_t, field=int64_t, at=int64_t, end=int64_t, count=int64_t, index=int64_t, start=int64_t,
    base_offset=int64_t, base_timestamp=int64_t, is_append_time=int64_t, append_time=int64_t,
    timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t, key_length=int64_t,
    value_start=int64_t, value_length=int64_t, headers_start=int64_t, header_count=int64_t,
)
cpdef bint decode_batches(
    const uint8_t[::1] payload, const int64_t[::1] batches, int64_t want, int64_t[::1] offsets, int64_t[::1] timestamps,
    int32_t[::1] key_offsets, uint8_t[::1] key_data, uint8_t[::1] key_validity,
    int32_t[::1] value_offsets, uint8_t[::1] value_data, uint8_t[::1] value_validity,
    int32_t[::1] slices, int64_t[::1] totals, int64_t[::1] fault,
) except? False

@cython.locals(
    max_timestamp=int64_t, keyless=int64_t, out_of_range=int64_t, untimed=int64_t, is_dense=int64_t, index=int64_t, start=int64_t,
    timestamp_delta=int64_t, offset_delta=int64_t, key_start=int64_t, key_length=int64_t, _=int64_t, timestamp=int64_t,
)
cdef (bint, int64_t, int64_t, int64_t, int64_t, int64_t) survey(
    const uint8_t* p, int64_t at, int64_t end, int64_t count, int64_t base_timestamp, int64_t lowest, int64_t highest,
    const uint8_t* ahead, int64_t* f) noexcept nogil

cdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) parse_one(
    const uint8_t* p, int64_t at, int64_t end) noexcept nogil

@cython.locals(
    field=int64_t, length=int64_t, high=int64_t, next_record=int64_t, timestamp_delta=int64_t, offset_delta=int64_t,
    key_length=int64_t, key_start=int64_t, value_length=int64_t,
)
cdef inline (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) parse_record(
    const uint8_t* p, int64_t at, int64_t end) noexcept nogil

cdef bint report_record(
    int64_t* f, int64_t start, int64_t end, int64_t index, int64_t count, int64_t batch,
    int64_t fault, int64_t position, int64_t found, int64_t expected) noexcept nogil

cdef bint report(
    int64_t* f, int64_t fault, int64_t position, int64_t found, int64_t expected, int64_t batch) noexcept nogil

cdef extern from *:
    """
    /* Most keys are short: two overlapping words are copied sooner than memcpy is called. */
    static inline void copy_memory(uint8_t *target, const uint8_t *source, int64_t size) {
        uint64_t a, b, c, d;
        if (size > 32 || size < 8) {
            memcpy(target, source, (size_t)size);
        } else if (size <= 16) {
            memcpy(&a, source, 8);
            memcpy(&b, source + size - 8, 8);
            memcpy(target, &a, 8);
            memcpy(target + size - 8, &b, 8);
        } else {
            memcpy(&a, source, 8);
            memcpy(&b, source + 8, 8);
            memcpy(&c, source + size - 16, 8);
            memcpy(&d, source + size - 8, 8);
            memcpy(target, &a, 8);
            memcpy(target + 8, &b, 8);
            memcpy(target + size - 16, &c, 8);
            memcpy(target + size - 8, &d, 8);
        }
    }
    """
    void copy_memory(uint8_t* target, const uint8_t* source, int64_t size) nogil

cdef inline void copy_bytes(uint8_t* target, int64_t target_at, const uint8_t* source, int64_t source_at, int64_t size) noexcept nogil

cdef inline int64_t wrap64(int64_t number) noexcept nogil
