# C types of single_batch.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tidelog.record.kernel.encode cimport body_size, put_bytes, put_int, put_prefix, put_varint, varint_size
from tidelog.record.kernel.headers cimport memory_view

cdef int64_t HEADER_SIZE, LOG_OVERHEAD, ATTRIBUTES_POSITION, MAGIC_POSITION, NO_PRODUCER_POSITION, NO_PRODUCER_BYTES, MAX_INT32

@cython.locals(
    key_length=int64_t, value_length=int64_t, body=int64_t, size=int64_t, batch=bytearray, out="uint8_t*", at=int64_t, i=int64_t,
)
cpdef bytearray encode_single(
    crc32c, bytes key, bytes value, bytes headers, int64_t timestamp_ms, int64_t base_offset, int64_t leader_epoch)
