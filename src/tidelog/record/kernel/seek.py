"""Find a batch by offset or by time in bytes read from a file, and a record by time in a payload.

Batches of every format are walked by their headers alone, by the rules of `tidelog.record.kernel.headers`; only the header of a batch has
to lie in the buffer, not the whole batch. An answer starts with a status:

    FOUND        then position, size, base offset (-1 for a compressed legacy wrapper), last offset, max timestamp
    RAN_OUT      then the position of the next header, which the buffer does not hold, perhaps behind its end
    -fault       framing that cannot be, for `tidelog.record.faults`: then position, found, expected
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.faults import Fault
from tidelog.record.outcomes import Seek

if not cython.compiled:  # compiled, these are C functions, named in seek.pxd
    from tidelog.record.kernel.index_search import read_i32, read_i64
    from tidelog.record.kernel.records import parse_one

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

FOUND = int(Seek.FOUND)
RAN_OUT = int(Seek.RAN_OUT)
# The same as C globals, which are not to be seen from outside.
HIT = FOUND
MISS = RAN_OUT

BATCH_TOO_SMALL = int(Fault.BATCH_TOO_SMALL)
UNKNOWN_MAGIC = int(Fault.UNKNOWN_MAGIC)
PAYLOAD_TOO_SHORT = int(Fault.PAYLOAD_TOO_SHORT)
PAYLOAD_TOO_LONG = int(Fault.PAYLOAD_TOO_LONG)

LOG_OVERHEAD = 12
MIN_SIZE_V0 = 26
MIN_SIZE_V1 = 34
MIN_SIZE_V2 = 61


def find_batch(buffer: Any, position: int, end: int, offset: int) -> tuple[int, int, int, int, int, int]:
    """The first batch from `position` on, with its header before `end`, whose last offset is `offset` or more."""
    check_range(position, end, len(buffer))
    if position >= end:
        return MISS, position, 0, 0, 0, 0
    p: Pointer = cython.address(buffer[0]) if cython.compiled else buffer
    while True:
        status, position, size, base_offset, last_offset, max_timestamp = read_header(p, position, end)
        if status != HIT or last_offset >= offset:
            return status, position, size, base_offset, last_offset, max_timestamp
        position += size


def find_batch_by_time(buffer: Any, position: int, end: int, timestamp_ms: int) -> tuple[int, int, int, int, int, int]:
    """The first batch from `position` on, with its header before `end`, whose max timestamp is `timestamp_ms` or more.

    The max timestamp of a legacy message is its own, of a wrapper the wrapper's; magic 0 has none, which is -1.
    """
    check_range(position, end, len(buffer))
    if position >= end:
        return MISS, position, 0, 0, 0, 0
    p: Pointer = cython.address(buffer[0]) if cython.compiled else buffer
    while True:
        status, position, size, base_offset, last_offset, max_timestamp = read_header(p, position, end)
        if status != HIT or max_timestamp >= timestamp_ms:
            return status, position, size, base_offset, last_offset, max_timestamp
        position += size


def find_record_by_time(
    payload: Any,
    start: int,
    end: int,
    count: int,
    base_timestamp_ms: int,
    base_offset: int,
    is_append_time: int,
    append_time_ms: int,
    timestamp_ms: int,
    min_offset: int,
) -> tuple[int, int, int, int]:
    """The first record of a v2 batch with a timestamp of `timestamp_ms` or more and an offset of `min_offset` or more.

    The records lie in `payload` from `start` to `end`, not compressed. The answer is (1, offset, timestamp, 0); (0, -1, -1, 0) if there is
    none; or (-fault, position, found, expected). Records behind the one found are not looked at.
    """
    check_range(start, end, len(payload))
    at = start
    if start < end:
        p: Pointer = cython.address(payload[0]) if cython.compiled else payload
        for index in range(count):
            field = at
            at, timestamp_delta, offset_delta, key_start, _, _, _, _, _ = parse_one(p, at, end)
            if at < 0:
                if field == end:
                    return -PAYLOAD_TOO_SHORT, field, index, count
                return at, timestamp_delta, offset_delta, key_start
            timestamp = append_time_ms if is_append_time else wrap64(base_timestamp_ms + timestamp_delta)
            offset = wrap64(base_offset + offset_delta)
            if timestamp >= timestamp_ms and offset >= min_offset:
                return HIT, offset, timestamp, 0
    elif count > 0:
        return -PAYLOAD_TOO_SHORT, start, 0, count
    if at != end:
        return -PAYLOAD_TOO_LONG, at, end - at, at
    return 0, -1, -1, 0


def read_header(p: Pointer, position: int, end: int) -> tuple[int, int, int, int, int, int]:
    """The header at `position`, if it lies before `end`: an answer as the module describes it."""
    left = end - position
    if left < 18:
        return MISS, position, 0, 0, 0, 0
    size = read_i32(p, position + 8) + LOG_OVERHEAD
    if size < MIN_SIZE_V0:
        return -BATCH_TOO_SMALL, position, size, MIN_SIZE_V0, 0, 0
    magic = p[position + 16]
    if magic > 2:
        return -UNKNOWN_MAGIC, position + 16, magic, 2, 0, 0
    min_size = MIN_SIZE_V2 if magic == 2 else MIN_SIZE_V1 if magic == 1 else MIN_SIZE_V0
    if size < min_size:
        return -BATCH_TOO_SMALL, position, size, min_size, 0, 0
    if left < min_size:
        return MISS, position, 0, 0, 0, 0
    offset = read_i64(p, position)
    if magic == 2:
        return HIT, position, size, offset, wrap64(offset + read_i32(p, position + 23)), read_i64(p, position + 35)
    timestamp = -1
    if magic == 1:
        timestamp = read_i64(p, position + 18)
    return HIT, position, size, -1 if p[position + 17] & 7 else offset, offset, timestamp


def check_range(start: int, end: int, size_bytes: int) -> None:
    """Refuse to look beyond the bytes that are there."""
    if start < 0 or end > size_bytes:
        raise ValueError(f"bytes {start} to {end} of a buffer of {size_bytes}")


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
