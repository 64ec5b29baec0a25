"""Give v2 batches the offsets, the leader epoch and the timestamp that a leader stores them with, in their headers.

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


def assign_batches(
    crc32c: Checksum,
    buffer: Any,
    fields: Any,
    capacity: int,
    first: int,
    count: int,
    next_offset: int,
    leader_epoch: int,
    is_append_time: int,
    append_time_ms: int,
    max_timestamps: Any,
) -> int:
    """Assign to `count` batches from `first` on, in their bytes and in their headers' array; give back the offset after them.

    `max_timestamps` has an entry a batch and is not looked at where the time is the append time.
    """
    end = len(buffer)
    if count == 0:
        return next_offset
    if not is_append_time and len(max_timestamps) < count:
        raise ValueError(f"{len(max_timestamps)} max timestamps for {count} batches")
    check_batches(fields, capacity, first, count, end)
    max_timestamp = append_time_ms
    if cython.compiled:
        p = cython.address(buffer[0])
        span = memory_view(p, 1)  # type: ignore[name-defined]  # noqa: F821
    else:
        p = buffer
    for i in range(count):
        at = first + i
        position = fields[at]
        if not is_append_time:
            max_timestamp = max_timestamps[i]
        base_offset, last_offset, is_changed = assign(p, position, next_offset, leader_epoch, is_append_time, max_timestamp)
        next_offset = wrap64(last_offset + 1)
        fields[4 * capacity + at] = base_offset
        fields[5 * capacity + at] = last_offset
        fields[11 * capacity + at] = leader_epoch
        if is_changed:
            start = position + ATTRIBUTES_POSITION
            size = fields[capacity + at] - ATTRIBUTES_POSITION
            if cython.compiled:
                move_view(span, p + start, size)  # type: ignore[name-defined]  # noqa: F821
            else:
                span = buffer[start : start + size]
            checksum = crc32c(span)
            put_int(p, position + CRC_POSITION, checksum, 4)
            fields[3 * capacity + at] = p[start + 1]
            fields[7 * capacity + at] = max_timestamp
            fields[13 * capacity + at] = checksum
    return next_offset


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
    _, _, is_changed = assign(out, 0, next_offset, leader_epoch, is_append_time, max_timestamp_ms)
    if is_changed:
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


def assign(p: Pointer, at: int, next_offset: int, leader_epoch: int, is_append_time: int, max_timestamp: int) -> tuple[int, int, bool]:
    """Write to the header at `at`: (base offset, last offset, whether the CRC has to be computed again).

    The last record gets the offset that the count calls for. In a dense batch the first one then gets `next_offset`; one whose last offset
    delta says more than its count starts lower.
    """
    last_offset = wrap64(next_offset + read_i32(p, at + 57) - 1)
    base_offset = wrap64(last_offset - read_i32(p, at + 23))
    put_int(p, at, base_offset, 8)
    put_int(p, at + 12, leader_epoch, 4)
    attributes = p[at + 22]
    type_bit = TIMESTAMP_TYPE_BIT if is_append_time else 0
    if attributes & TIMESTAMP_TYPE_BIT == type_bit and read_i64(p, at + 35) == max_timestamp:
        return base_offset, last_offset, False
    attributes = (attributes & KNOWN_BITS & ~TIMESTAMP_TYPE_BIT) | type_bit
    put_int(p, at + ATTRIBUTES_POSITION, attributes, 2)
    put_int(p, at + 35, max_timestamp, 8)
    return base_offset, last_offset, True


def check_batches(fields: Any, capacity: int, first: int, count: int, end: int) -> None:
    """Refuse headers of another buffer, and legacy messages, before anything is written."""
    if first < 0 or count > capacity - first or 14 * capacity > len(fields):
        raise ValueError(f"no headers {first} to {first + count} in an array for {capacity}")
    for i in range(first, first + count):
        position = fields[i]
        size = fields[capacity + i]
        if fields[2 * capacity + i] != 2:
            raise ValueError(f"a message of magic {fields[2 * capacity + i]} at {position}: only v2 batches are assigned to")
        if position < 0 or size < HEADER_SIZE or size > end - position:
            raise ValueError(f"a batch of {size} bytes at {position} in a buffer of {end}")


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
