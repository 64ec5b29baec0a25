# C types of hashing.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef uint64_t INIT0, INIT1, INIT2, INIT3
cdef uint32_t MURMUR_MULTIPLIER, MURMUR_SEED

@cython.locals(count=int64_t, i=int64_t, low=uint64_t, high=uint64_t, p="const uint8_t*", h="uint64_t*")
cpdef void siphash128_slices(const uint8_t[::1] data, const int32_t[::1] starts, const int32_t[::1] lengths, uint64_t key0, uint64_t key1, uint64_t[::1] hashes)

@cython.locals(v0=uint64_t, v1=uint64_t, v2=uint64_t, v3=uint64_t, word=uint64_t, byte=uint64_t, low=uint64_t, at=int64_t, end=int64_t, i=int64_t, _=int64_t)
cdef (uint64_t, uint64_t) siphash128(const uint8_t* p, int64_t start, int64_t length, uint64_t key0, uint64_t key1) noexcept nogil

@cython.locals(
    v0=uint64_t, v1=uint64_t, v2=uint64_t, v3=uint64_t, w0=uint64_t, w1=uint64_t, w2=uint64_t, w3=uint64_t, word=uint64_t, twin=uint64_t,
    byte=uint64_t, at=int64_t, end=int64_t, i=int64_t, _=int64_t,
)
cdef void siphash128_pair(
    const uint8_t* p, int64_t start, int64_t other, int64_t length, uint64_t key0, uint64_t key1, uint64_t* h, int64_t out_at) noexcept nogil

cdef inline (uint64_t, uint64_t, uint64_t, uint64_t) sip_round(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3) noexcept nogil

cdef inline uint64_t rotate_left(uint64_t word, int64_t bits) noexcept nogil

cdef inline uint64_t low64(uint64_t number) noexcept nogil

cdef inline uint32_t low32(uint32_t number) noexcept nogil

@cython.locals(word=uint64_t)
cdef inline uint64_t read_u64_le(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(count=int64_t, i=int64_t, p="const uint8_t*")
cpdef void murmur2_slices(const uint8_t[::1] data, const int32_t[::1] starts, const int32_t[::1] lengths, uint32_t[::1] hashes)

@cython.locals(p="const uint8_t*", h=uint32_t)
cpdef int64_t partition_for_key(bytes key, int64_t partition_count) except -1

@cython.locals(h=uint32_t, k=uint32_t, byte=uint32_t, at=int64_t, end=int64_t, left=int64_t, i=int64_t)
cdef uint32_t murmur2(const uint8_t* p, int64_t start, int64_t length) noexcept nogil
