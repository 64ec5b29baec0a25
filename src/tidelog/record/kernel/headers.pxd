# C types of headers.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef extern from *:
    """
    #define memory_view(p, size) PyMemoryView_FromMemory((char *)(p), (size), PyBUF_READ)

    static void move_view(PyObject *view, const uint8_t *p, int64_t size) {
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
        buffer->buf = (void *)p;
        buffer->len = (Py_ssize_t)size;
        buffer->shape[0] = (Py_ssize_t)size;
    }
    """
    object memory_view(const uint8_t* p, int64_t size)
    void move_view(object view, const uint8_t* p, int64_t size)

cdef int64_t BATCH_TOO_SMALL, UNKNOWN_MAGIC, LOG_OVERHEAD, MIN_SIZE_V0, MIN_SIZE_V1, MIN_SIZE_V2, MIN_RECORD_SIZE
cdef int64_t NEGATIVE_COUNT, RECORD_COUNT, BATCH_FIELDS

@cython.locals(end=int64_t, done=int64_t, legacy=int64_t, compressed=int64_t, size=int64_t, magic=int64_t, p="const uint8_t*", a="int64_t*", f="int64_t*")
cpdef (int64_t, int64_t) walk_headers(const uint8_t[::1] buffer, int64_t position, int64_t stop, int64_t[::1] fields, int64_t capacity, int64_t[::1] kinds, int64_t[::1] fault)

@cython.locals(base_offset=int64_t)
cdef inline void walk_v2(const uint8_t* p, int64_t position, int64_t* a, int64_t i, int64_t capacity) noexcept nogil

@cython.locals(offset=int64_t, attributes=int64_t, timestamp=int64_t, is_wrapper=int64_t)
cdef void walk_legacy(const uint8_t* p, int64_t position, int64_t magic, int64_t* a, int64_t i, int64_t capacity) noexcept nogil

@cython.locals(good=int64_t, i=int64_t, start=int64_t, end=int64_t, is_v2=bint, checksum=int64_t, p="const uint8_t*")
cpdef int64_t checksum_batches(
    crc32c, crc32, const uint8_t[::1] buffer, const int64_t[::1] fields, int64_t capacity, int64_t first, int64_t count,
    int64_t[::1] checksums,
) except -1

@cython.locals(
    a="const int64_t*", b="int64_t*", f="int64_t*", records=int64_t, payload_bytes=int64_t, compressed=int64_t, ok=bint,
    i=int64_t, position=int64_t, size=int64_t, attributes=int64_t, record_count=int64_t,
)
cpdef bint describe_batches(
    const int64_t[::1] fields, int64_t capacity, int64_t first, int64_t count, int64_t shift, int64_t[::1] batches,
    int64_t[::1] totals, int64_t[::1] fault,
) except? False

cdef void report(int64_t* f, int64_t fault, int64_t position, int64_t found, int64_t expected, int64_t batch) noexcept nogil

@cython.locals(u=uint32_t)
cdef inline int64_t read_u32(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(u=int64_t)
cdef inline int64_t read_i16(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(u=int64_t, sign=int64_t)
cdef int64_t read_i32(const uint8_t* p, int64_t at) noexcept nogil

@cython.locals(high=int64_t)
cdef inline int64_t read_i64(const uint8_t* p, int64_t at) noexcept nogil

cdef inline int64_t wrap64(int64_t number) noexcept nogil
