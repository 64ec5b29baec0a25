# C types of offset_map.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define prefetch_slot(p) (__builtin_prefetch((p), 1), __builtin_prefetch((p) + 2, 1))
    #else
    #define prefetch_slot(p) ((void)(p))
    #endif
    """
    void prefetch_slot(const uint64_t* p) noexcept nogil

cdef int64_t WORDS, BLOCK

@cython.locals(
    count=int64_t, done=int64_t, end=int64_t, i=int64_t, at=int64_t, is_full=bint, t="uint64_t*", h="const uint64_t*",
    n="const int32_t*", o="const int64_t*",
)
cpdef (int64_t, int64_t) put_hashes(
    uint64_t[::1] table, int64_t slots, const uint64_t[::1] hashes, const int32_t[::1] lengths, const int64_t[::1] offsets,
    int64_t entries, int64_t limit)

@cython.locals(
    count=int64_t, done=int64_t, end=int64_t, i=int64_t, at=int64_t, offset=int64_t, t="const uint64_t*", h="const uint64_t*",
    n="const int32_t*", f="int64_t*",
)
cpdef void get_hashes(
    const uint64_t[::1] table, int64_t slots, const uint64_t[::1] hashes, const int32_t[::1] lengths, int64_t[::1] found) except *

@cython.locals(t="const uint64_t*", b="uint8_t*", marked=int64_t, slot=int64_t, offset=int64_t)
cpdef int64_t mark_offsets(const uint64_t[::1] table, int64_t slots, int64_t first, int64_t end, uint8_t[::1] bits) except -1

cdef int check_table(const uint64_t[::1] table, int64_t slots, const uint64_t[::1] hashes, int64_t count) except -1

cdef inline int64_t slot_of(uint64_t word, int64_t slots) noexcept nogil

@cython.locals(slot=int64_t, at=int64_t, _=int64_t)
cdef inline int64_t find_slot(const uint64_t* t, int64_t slots, uint64_t low, uint64_t high) noexcept nogil
