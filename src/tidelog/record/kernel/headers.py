"""Walk the headers of batches in a buffer, of any format, into one array; ask many batches at once for their CRC and their payloads.

The array is flat int64, `capacity` numbers a field, in the order of `tidelog.record.headers.FIELDS`. Only framing is checked here:
sizes and magic. What does not fit the buffer any more is a torn tail or simply the end of what was read, and ends the walk in peace.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record import slots
from tidelog.record.faults import Fault

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

BATCH_TOO_SMALL = int(Fault.BATCH_TOO_SMALL)
UNKNOWN_MAGIC = int(Fault.UNKNOWN_MAGIC)
NEGATIVE_COUNT = int(Fault.NEGATIVE_COUNT)
RECORD_COUNT = int(Fault.RECORD_COUNT)
BATCH_FIELDS = slots.BATCH_FIELDS

# Offset and size, which every format starts with; then the smallest batch of magic 0, 1 and 2 with them.
LOG_OVERHEAD = 12
MIN_SIZE_V0 = 26
MIN_SIZE_V1 = 34
MIN_SIZE_V2 = 61
MIN_RECORD_SIZE = 7


def walk_headers(buffer: Any, position: int, stop: int, fields: Any, capacity: int, kinds: Any, fault: Any) -> tuple[int, int]:
    """Fill `fields` with the batches that start from `position` on and before `stop`: (batches walked, where the next one starts).

    Bad framing ends the walk, with (fault, position, found, expected, batch) in `fault`. `kinds` receives how many are legacy messages,
    and how many are compressed.
    """
    end = len(buffer)
    kinds[0] = kinds[1] = 0
    if end == 0:
        return 0, position
    if cython.compiled:
        p = cython.address(buffer[0])
        a = cython.address(fields[0])
        f = cython.address(fault[0])
    else:
        p, a, f = buffer, fields, fault
    done = 0
    legacy = 0
    compressed = 0
    with cython.nogil:
        # Kafka's own rule for "a batch may start here": offset, size, CRC or leader epoch, and magic are there.
        while done < capacity and position < stop and position + 17 < end:
            size = read_i32(p, position + 8) + LOG_OVERHEAD
            if size < MIN_SIZE_V0:
                report(f, BATCH_TOO_SMALL, position, size, MIN_SIZE_V0, done)
                break
            if size > end - position:
                break
            magic = p[position + 16]
            if magic == 2:
                if size < MIN_SIZE_V2:
                    report(f, BATCH_TOO_SMALL, position, size, MIN_SIZE_V2, done)
                    break
                walk_v2(p, position, a, done, capacity)
            elif magic < 2:
                if magic == 1 and size < MIN_SIZE_V1:
                    report(f, BATCH_TOO_SMALL, position, size, MIN_SIZE_V1, done)
                    break
                walk_legacy(p, position, magic, a, done, capacity)
                legacy += 1
            else:
                report(f, UNKNOWN_MAGIC, position + 16, magic, 2, done)
                break
            a[done] = position
            a[capacity + done] = size
            a[2 * capacity + done] = magic
            if a[3 * capacity + done] & 7:
                compressed += 1
            position += size
            done += 1
    kinds[0] = legacy
    kinds[1] = compressed
    return done, position


def walk_v2(p: Pointer, position: int, a: Pointer, i: int, capacity: int) -> None:
    """The fields of a v2 header."""
    base_offset = read_i64(p, position)
    a[3 * capacity + i] = read_i16(p, position + 21)
    a[4 * capacity + i] = base_offset
    a[5 * capacity + i] = wrap64(base_offset + read_i32(p, position + 23))
    a[6 * capacity + i] = read_i64(p, position + 27)
    a[7 * capacity + i] = read_i64(p, position + 35)
    a[8 * capacity + i] = read_i64(p, position + 43)
    a[9 * capacity + i] = read_i16(p, position + 51)
    a[10 * capacity + i] = read_i32(p, position + 53)
    a[11 * capacity + i] = read_i32(p, position + 12)
    a[12 * capacity + i] = read_i32(p, position + 57)
    a[13 * capacity + i] = read_u32(p, position + 17)


def walk_legacy(p: Pointer, position: int, magic: int, a: Pointer, i: int, capacity: int) -> None:
    """The fields of a v0 or v1 message. Of a compressed wrapper, base offset and count are known only inside: both are -1."""
    offset = read_i64(p, position)
    attributes = p[position + 17]
    timestamp = -1
    if magic == 1:
        timestamp = read_i64(p, position + 18)
    is_wrapper = attributes & 7
    a[3 * capacity + i] = attributes
    a[4 * capacity + i] = -1 if is_wrapper else offset
    a[5 * capacity + i] = offset
    a[6 * capacity + i] = timestamp
    a[7 * capacity + i] = timestamp
    a[8 * capacity + i] = -1
    a[9 * capacity + i] = -1
    a[10 * capacity + i] = -1
    a[11 * capacity + i] = -1
    a[12 * capacity + i] = -1 if is_wrapper else 1
    a[13 * capacity + i] = read_u32(p, position + 12)


def checksum_batches(crc32c: Any, crc32: Any, buffer: Any, fields: Any, capacity: int, first: int, count: int, checksums: Any) -> int:
    """The CRC of `count` batches from `first` on: `crc32c` for v2, `crc32` for legacy messages.

    Gives back how many from the first one on are as their headers say.
    """
    good = 0
    if cython.compiled:
        p = cython.address(buffer[0])
        # One view of our own is moved from batch to batch: making one for each costs a quarter of the speed.
        span = memory_view(p, 1)  # type: ignore[name-defined]  # noqa: F821
    for i in range(count):
        start = fields[first + i]
        end = start + fields[capacity + first + i]
        is_v2 = fields[2 * capacity + first + i] == 2
        start += 21 if is_v2 else 16
        if cython.compiled:
            move_view(span, p + start, end - start)  # type: ignore[name-defined]  # noqa: F821
        else:
            span = buffer[start:end]
        checksum = crc32c(span) if is_v2 else crc32(span)
        checksums[i] = checksum
        if good == i and checksum == fields[13 * capacity + first + i]:
            good += 1
    return good


def describe_batches(fields: Any, capacity: int, first: int, count: int, shift: int, batches: Any, totals: Any, fault: Any) -> bool:
    """What `decode_batches` wants to know of v2 batches, with positions `shift` bytes less. False: a count that cannot be, in `fault`.

    `totals`: records, payload bytes, and how many batches are compressed. The counts of those are checked when their size is known.
    """
    if cython.compiled:
        a = cython.address(fields[first])
        b = cython.address(batches[0])
        f = cython.address(fault[0])
    else:
        a, b, f = fields[first:], batches, fault
    records = 0
    payload_bytes = 0
    compressed = 0
    ok = True
    with cython.nogil:
        for i in range(count):
            position = a[i]
            size = a[capacity + i] - MIN_SIZE_V2
            attributes = a[3 * capacity + i]
            record_count = a[12 * capacity + i]
            if attributes & 7:
                compressed += 1
            elif record_count > size // MIN_RECORD_SIZE:
                report(f, RECORD_COUNT, position, record_count, size // MIN_RECORD_SIZE, i)
                ok = False
                break
            if record_count < 0:
                report(f, NEGATIVE_COUNT, position, record_count, 0, i)
                ok = False
                break
            b[BATCH_FIELDS * i] = position + MIN_SIZE_V2 - shift
            b[BATCH_FIELDS * i + 1] = position + MIN_SIZE_V2 + size - shift
            b[BATCH_FIELDS * i + 2] = record_count
            b[BATCH_FIELDS * i + 3] = a[4 * capacity + i]
            b[BATCH_FIELDS * i + 4] = a[6 * capacity + i]
            b[BATCH_FIELDS * i + 5] = 1 if attributes & 8 else 0
            b[BATCH_FIELDS * i + 6] = a[7 * capacity + i]
            records += record_count
            payload_bytes += size
    totals[0] = records
    totals[1] = payload_bytes
    totals[2] = compressed
    return ok


def report(f: Pointer, fault: int, position: int, found: int, expected: int, batch: int) -> None:
    """Write down what is wrong, for `tidelog.record.faults`."""
    f[0] = fault
    f[1] = position
    f[2] = found
    f[3] = expected
    f[4] = batch


def read_u32(p: Pointer, at: int) -> int:
    """Four bytes, unsigned. Shifting in a wide local keeps C from sign-extending a byte."""
    u = p[at]
    u = (u << 8) | p[at + 1]
    u = (u << 8) | p[at + 2]
    return (u << 8) | p[at + 3]  # type: ignore[no-any-return]


def read_i16(p: Pointer, at: int) -> int:
    """Two bytes, signed."""
    u = p[at]
    u = (u << 8) | p[at + 1]
    return u - 0x10000 if u >= 0x8000 else u  # type: ignore[no-any-return]


def read_i32(p: Pointer, at: int) -> int:
    """Four bytes, signed."""
    u = read_u32(p, at)
    sign = u >> 31
    return u - (sign << 32)


def read_i64(p: Pointer, at: int) -> int:
    """Eight bytes, signed."""
    high = read_i32(p, at)
    return (high << 32) | read_u32(p, at + 4)


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
