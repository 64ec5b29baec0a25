# C types of buckets.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t WORDS

@cython.locals(count=int64_t, buckets=int64_t, i=int64_t, bucket=int64_t, e="const uint64_t*", c="int64_t*")
cpdef void count_entries(const uint64_t[::1] entries, int64_t[::1] counts) except *

@cython.locals(
    count=int64_t, buckets=int64_t, room=int64_t, i=int64_t, bucket=int64_t, at=int64_t, is_full=bint, e="const uint64_t*",
    p="int64_t*", o="uint64_t*",
)
cpdef void place_entries(const uint64_t[::1] entries, int64_t[::1] places, uint64_t[::1] out) except *

cdef int check_buckets(int64_t buckets) except -1

@cython.locals(low=uint64_t)
cdef inline int64_t bucket_of(uint64_t word, int64_t buckets) noexcept nogil
