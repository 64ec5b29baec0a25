"""Give a v2 batch the offsets, the leader epoch and the timestamp that a leader stores it with, in a new header.

Only where the timestamp type or the max timestamp changes are these two written, and a new CRC with them; then the attributes lose the bits
that mean nothing (7 to 15), as in Kafka. Offset and epoch lie outside the CRC.
"""

from collections.abc import Callable
from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

if not cython.compiled:  # compiled, these are C functions, named in assign.pxd
    from tidelog.record.kernel.encode import put_int
    from tidelog.record.kernel.index_search import read_i32, read_i64
    from tidelog.record.kernel.records import copy_bytes

Pointer = Any  # a C pointer when compiled, the memoryview itself when not
Checksum = Callable[..., int]

HEADER_SIZE = 61
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
KNOWN_BITS = 0x7F
TIMESTAMP_TYPE_BIT = 0x08


def assign_header(
    crc32c: Checksum,
    buffer: Any,
    position: int,
    size_bytes: int,
    next_offset: int,
    leader_epoch: int,
    is_append_time: int,
    max_timestamp_ms: int,
) -> bytearray:
    """The header of the batch at `position` with what is assigned to it; the batch itself stays as it is."""
    if position < 0 or size_bytes < HEADER_SIZE or size_bytes > len(buffer) - position:
        raise ValueError(f"a batch of {size_bytes} bytes at {position} in a buffer of {len(buffer)}")
    header = bytearray(HEADER_SIZE)
    out: Pointer = header
    p: Pointer = cython.address(buffer[0]) if cython.compiled else buffer
    copy_bytes(out, 0, p, position, HEADER_SIZE)
    if assign(out, next_offset, leader_epoch, is_append_time, max_timestamp_ms):
        payload_size = size_bytes - HEADER_SIZE
        if cython.compiled:
            span = memory_view(out + ATTRIBUTES_POSITION, HEADER_SIZE - ATTRIBUTES_POSITION)  # type: ignore[name-defined]  # noqa: F821
            checksum = crc32c(span)
            move_view(span, p + position + HEADER_SIZE, payload_size)  # type: ignore[name-defined]  # noqa: F821
        else:
            checksum = crc32c(header[ATTRIBUTES_POSITION:])
            span = buffer[position + HEADER_SIZE : position + size_bytes]
        if payload_size > 0:
            checksum = crc32c(span, checksum)
        put_int(out, CRC_POSITION, checksum, 4)
    return header


def assign(p: Pointer, next_offset: int, leader_epoch: int, is_append_time: int, max_timestamp: int) -> bool:
    """Write to the header; give back whether the CRC has to be computed again.

    The last record gets the offset that the count calls for. In a dense batch the first one then gets `next_offset`; one whose last offset
    delta says more than its count starts lower.
    """
    last_offset = next_offset + read_i32(p, 57) - 1
    put_int(p, 0, last_offset - read_i32(p, 23), 8)  # the lowest 64 bits: beyond them it wraps around, as in Java
    put_int(p, 12, leader_epoch, 4)
    attributes = p[22]
    type_bit = TIMESTAMP_TYPE_BIT if is_append_time else 0
    if attributes & TIMESTAMP_TYPE_BIT == type_bit and read_i64(p, 35) == max_timestamp:
        return False
    attributes = (attributes & KNOWN_BITS & ~TIMESTAMP_TYPE_BIT) | type_bit
    put_int(p, ATTRIBUTES_POSITION, attributes, 2)
    put_int(p, 35, max_timestamp, 8)
    return True
