"""Parse any record of a v2 batch, whatever its fields look like, and say what is wrong with one that is bad.

The layout is drawn in `tidelog.record.layout`. A record's declared length is checked against the payload once, then every read against the
record's end. `tidelog.record.kernel.records` has the short way for common records, and comes here for all others.
"""

from typing import Any

from tidelog.record.faults import Fault

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

# C globals when compiled (any_record.pxd), so that loops without the GIL can use them.
TRUNCATED_VARINT = int(Fault.TRUNCATED_VARINT)
VARINT_TOO_LONG = int(Fault.VARINT_TOO_LONG)
RECORD_LENGTH = int(Fault.RECORD_LENGTH)
RECORD_SIZE_MISMATCH = int(Fault.RECORD_SIZE_MISMATCH)
KEY_LENGTH = int(Fault.KEY_LENGTH)
VALUE_LENGTH = int(Fault.VALUE_LENGTH)
HEADER_COUNT = int(Fault.HEADER_COUNT)
HEADER_KEY_LENGTH = int(Fault.HEADER_KEY_LENGTH)
HEADER_VALUE_LENGTH = int(Fault.HEADER_VALUE_LENGTH)


def parse_any_record(p: Pointer, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """One record: (next position, timestamp delta, offset delta, key start, key length, value start, value length, headers start, count).

    A length of -1 is a null. Bad bytes: (-fault, position, found, expected, 0 …).
    """
    start = at
    at, length = varint(p, at, end, 32)
    if at < 0:
        return at, start, length, 32, 0, 0, 0, 0, 0
    if length < 1 or length > end - at:
        return -RECORD_LENGTH, start, length, end - at, 0, 0, 0, 0, 0
    end = at + length
    field = at + 1  # one byte of attributes, of which none is defined
    at, timestamp_delta = varint(p, field, end, 64)
    if at < 0:
        return at, field, timestamp_delta, 64, 0, 0, 0, 0, 0
    field = at
    at, offset_delta = varint(p, field, end, 32)
    if at < 0:
        return at, field, offset_delta, 32, 0, 0, 0, 0, 0
    field = at
    key_start, key_length = varint(p, field, end, 32)
    if key_start < 0:
        return key_start, field, key_length, 32, 0, 0, 0, 0, 0
    if key_length < -1 or key_length > end - key_start:
        return -KEY_LENGTH, field, key_length, end - key_start, 0, 0, 0, 0, 0
    field = key_start
    if key_length > 0:
        field += key_length
    value_start, value_length = varint(p, field, end, 32)
    if value_start < 0:
        return value_start, field, value_length, 32, 0, 0, 0, 0, 0
    if value_length < -1 or value_length > end - value_start:
        return -VALUE_LENGTH, field, value_length, end - value_start, 0, 0, 0, 0, 0
    field = value_start
    if value_length > 0:
        field += value_length
    headers_start, header_count = varint(p, field, end, 32)
    if headers_start < 0:
        return headers_start, field, header_count, 32, 0, 0, 0, 0, 0
    if header_count < 0 or header_count > end - headers_start:
        return -HEADER_COUNT, field, header_count, end - headers_start, 0, 0, 0, 0, 0
    at = headers_start
    if header_count > 0:
        at, field, length = skip_headers(p, at, end, header_count)
        if at < 0:
            return at, field, length, end - field, 0, 0, 0, 0, 0
    if at != end:
        return -RECORD_SIZE_MISMATCH, start, at - start, end - start, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start, header_count


def skip_headers(p: Pointer, at: int, end: int, header_count: int) -> tuple[int, int, int]:
    """Check `header_count` headers: (next position, 0, 0), or (-fault, position, found)."""
    for _ in range(header_count):
        field = at
        at, length = varint(p, field, end, 32)
        if at < 0:
            return at, field, length
        if length < 0 or length > end - at:
            return -HEADER_KEY_LENGTH, field, length
        field = at + length
        at, length = varint(p, field, end, 32)
        if at < 0:
            return at, field, length
        if length < -1 or length > end - at:
            return -HEADER_VALUE_LENGTH, field, length
        if length > 0:
            at += length
    return at, 0, 0


def varint(p: Pointer, at: int, end: int, bits: int) -> tuple[int, int]:
    """A zigzag varint of at most `bits` bits: (next position, value), or (-fault, bytes read)."""
    if at < end:
        first = p[at]
        if first < 128:
            return at + 1, (first >> 1) ^ -(first & 1)
        if at + 1 < end:
            second = p[at + 1]
            if second < 128:
                first = (first & 127) | (second << 7)
                return at + 2, (first >> 1) ^ -(first & 1)
    return long_varint(p, at, end, bits)


def long_varint(p: Pointer, at: int, end: int, bits: int) -> tuple[int, int]:
    """`varint` for any number of bytes."""
    start = at
    raw = 0
    shift = 0
    while True:
        if at >= end:
            return -TRUNCATED_VARINT, at - start
        byte = p[at]
        at += 1
        # What is left for the last group: one bit of a 64-bit number, four of a 32-bit one.
        if shift + 7 > bits and byte >> (bits - shift) != 0:
            return -VARINT_TOO_LONG, at - start
        group = byte & 127
        raw = raw | (group << shift)
        if byte < 128:
            break
        shift += 7
    half = raw >> 1
    value = half
    if raw & 1:
        value = -value - 1
    return at, value
