# C types of index_search.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef int64_t OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE

@cython.locals(p="const uint8_t*")
cpdef int64_t find_offset(const uint8_t[::1] view, int64_t entries, int64_t relative_offset) except? -1

@cython.locals(p="const uint8_t*", slot=int64_t, found=int64_t, position=int64_t, next_offset=int64_t, next_position=int64_t)
cpdef (int64_t, int64_t, int64_t, int64_t) locate_offset(const uint8_t[::1] view, int64_t entries, int64_t offset, int64_t base_offset)

@cython.locals(p="const uint8_t*")
cpdef int64_t find_offset_from(const uint8_t[::1] view, int64_t entries, int64_t relative_offset) except -1

@cython.locals(p="const uint8_t*", slot=int64_t)
cpdef (int64_t, int64_t, int64_t) find_position(const uint8_t[::1] view, int64_t entries, int64_t position)

@cython.locals(p="const uint8_t*")
cpdef (int64_t, int64_t) offset_entry(const uint8_t[::1] view, int64_t slot)

@cython.locals(p="const uint8_t*", slot=int64_t)
cpdef (int64_t, int64_t, int64_t) find_time(const uint8_t[::1] view, int64_t entries, int64_t timestamp_ms)

@cython.locals(p="const uint8_t*")
cpdef int64_t find_time_by_offset(const uint8_t[::1] view, int64_t entries, int64_t relative_offset) except -1

@cython.locals(p="const uint8_t*")
cpdef (int64_t, int64_t) time_entry(const uint8_t[::1] view, int64_t slot)

@cython.locals(slot=int64_t, left=int64_t, half=int64_t)
cdef inline int64_t last_up_to(const uint8_t* p, int64_t entries, int64_t entry_size, int64_t column, int64_t target) noexcept nogil

@cython.locals(slot=int64_t, left=int64_t, half=int64_t)
cdef inline int64_t last_up_to_time(const uint8_t* p, int64_t entries, int64_t target) noexcept nogil

@cython.locals(low=int64_t, high=int64_t, middle=int64_t)
cdef int64_t first_from(const uint8_t* p, int64_t entries, int64_t entry_size, int64_t column, int64_t target) noexcept nogil

cdef int check_entries(int64_t entries, int64_t size_bytes, int64_t entry_size) except -1

cdef int check_slot(int64_t slot, int64_t size_bytes, int64_t entry_size) except -1

@cython.locals(u=uint32_t)
cdef int64_t read_i32(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(u=int64_t, high=int64_t)
cdef int64_t read_i64(const uint8_t* p, int64_t at) noexcept nogil

cdef inline int32_t as_i32(uint32_t number) noexcept nogil
