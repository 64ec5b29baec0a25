# C types of indexing.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.encode cimport put_int

cdef int64_t OFFSET_OUT_OF_RANGE, OFFSET_INDEX_FULL, TIME_INDEX_FULL, POSITION_OUT_OF_RANGE, OFFSET_NOT_INCREASING
cdef int64_t OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, MAX_INT32

@cython.final
cdef class IndexRun:
    cdef public int64_t base_offset, interval_bytes, bytes_since_last_entry, last_time_entry_ms, max_timestamp_ms
    cdef public int64_t offset_of_max_timestamp, last_entry_offset

    cpdef IndexRun copy(self)

    @cython.locals(entries=bytearray, out="uint8_t*", written=int64_t)
    cpdef tuple add_batch(
        self, int64_t position, int64_t size_bytes, int64_t last_offset, int64_t max_timestamp_ms, int64_t free_offset_slots,
        int64_t free_time_slots)

    @cython.locals(
        a="const int64_t*", o="uint8_t*", t="uint8_t*", done=int64_t, offset_count=int64_t, time_count=int64_t, stop=int64_t,
        written=int64_t,
    )
    cpdef (int64_t, int64_t, int64_t, int64_t) add_batches(
        self, const int64_t[::1] fields, int64_t capacity, int64_t first, int64_t count, int64_t shift, uint8_t[::1] offset_entries,
        uint8_t[::1] time_entries, int64_t free_offset_slots, int64_t free_time_slots)

    @cython.locals(relative_offset=int64_t, running_max=int64_t, running_offset=int64_t, written=int64_t)
    cdef int64_t advance(
        self, int64_t position, int64_t size, int64_t last_offset, int64_t max_timestamp, uint8_t* o, int64_t offset_at, uint8_t* t,
        int64_t time_at, int64_t free_offset_slots, int64_t free_time_slots) noexcept nogil

    @cython.locals(entry=bytearray, out="uint8_t*")
    cpdef bytes last_time_entry(self)

cdef inline bytes take(const uint8_t* p, int64_t start, int64_t size)
