# C types of payloads.py.
cimport cython
from libc.stdint cimport int64_t

from tidelog.record.kernel.arena cimport Arena
from tidelog.record.kernel.lz4_frame cimport decompress as decompress_lz4
from tidelog.record.kernel.zstd_frame cimport decompress as decompress_zstd

cdef int64_t BATCH_FIELDS

@cython.locals(count=int64_t, index=int64_t, field=int64_t, codec=int64_t, start=int64_t, end=int64_t)
cpdef int64_t decompress_payloads(
    chunk, int64_t[::1] batches, const int64_t[::1] attributes, int64_t first, Arena arena, int64_t max_bytes,
    int64_t enough_bytes, decompress_other, int64_t[::1] progress,
) except -1
