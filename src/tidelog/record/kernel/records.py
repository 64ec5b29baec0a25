"""Parse the records of v2 batches: into columns or into slices; one by one for `tidelog.record.kernel.objects`.

The layout is drawn in `tidelog.record.layout`. One parser serves them all: here is the short way through it, which most records take; the
long one is `tidelog.record.kernel.any_record`. It trusts no length: a record's declared length is checked against the payload once, then
every read against the record's end. Nothing is allocated here.

*Columns* are Arrow's: int32 offsets, data back to back, a validity bitmap that the caller has filled with ones. *Slices* say where
key, value and headers lie in the payload, without a copy: one flat int32 array of six rows, each as long as the array of offsets:
key start, key length, value start, value length, headers start, header count. A length of -1 is a null.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record import slots
from tidelog.record.faults import Fault

if not cython.compiled:  # compiled, it is a C function, named in records.pxd
    from tidelog.record.kernel.any_record import parse_any_record

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

# C globals when compiled (records.pxd), so that loops without the GIL can use them.
NEGATIVE_COUNT = int(Fault.NEGATIVE_COUNT)
RECORD_COUNT = int(Fault.RECORD_COUNT)
PAYLOAD_TOO_SHORT = int(Fault.PAYLOAD_TOO_SHORT)
PAYLOAD_TOO_LONG = int(Fault.PAYLOAD_TOO_LONG)
COLUMN_FULL = int(Fault.COLUMN_FULL)

MIN_RECORD_SIZE = 7

# How far ahead of the record at hand memory is asked for: some records, and less than the processor's first cache.
PREFETCH_DISTANCE = 2048
PREFETCH_STEP = 128  # as much as one call asks for

BATCH_FIELDS = slots.BATCH_FIELDS
WANT_KEYS = int(slots.Want.KEYS)
WANT_VALUES = int(slots.Want.VALUES)
WANT_SLICES = int(slots.Want.SLICES)
DONE = int(slots.Totals.DONE)
KEY_BYTES = int(slots.Totals.KEY_BYTES)
KEY_NULLS = int(slots.Totals.KEY_NULLS)
VALUE_BYTES = int(slots.Totals.VALUE_BYTES)
VALUE_NULLS = int(slots.Totals.VALUE_NULLS)


def decode_batches(
    payload: Any,
    batches: Any,
    want: int,
    offsets: Any,
    timestamps: Any,
    key_offsets: Any,
    key_data: Any,
    key_validity: Any,
    value_offsets: Any,
    value_data: Any,
    value_validity: Any,
    slices: Any,
    totals: Any,
    fault: Any,
) -> bool:
    """Decode many batches into columns. False: bad bytes, with (fault, position, found, expected, batch) in `fault`.

    `batches` has `BATCH_FIELDS` numbers a batch. The caller has made room for as many records as the batches declare. Room for key and
    value bytes is a guess; when it is too small the fault is COLUMN_FULL.
    """
    batch_count = len(batches) // BATCH_FIELDS
    if batch_count == 0:
        return True
    capacity = len(offsets)
    key_room = len(key_data)
    value_room = len(value_data)
    if cython.compiled:
        p = cython.address(payload[0])
        b = cython.address(batches[0])
        o = cython.address(offsets[0])
        t = cython.address(timestamps[0])
        ko = cython.address(key_offsets[0])
        kd = cython.address(key_data[0])
        kv = cython.address(key_validity[0])
        vo = cython.address(value_offsets[0])
        vd = cython.address(value_data[0])
        vv = cython.address(value_validity[0])
        s = cython.address(slices[0])
        f = cython.address(fault[0])
    else:
        p, b, o, t, s, f = payload, batches, offsets, timestamps, slices, fault
        ko, kd, kv, vo, vd, vv = key_offsets, key_data, key_validity, value_offsets, value_data, value_validity
    wants_keys = want & WANT_KEYS
    wants_values = want & WANT_VALUES
    wants_slices = want & WANT_SLICES
    done = 0
    key_at = 0
    key_nulls = 0
    value_at = 0
    value_nulls = 0
    ok = True
    with cython.nogil:
        for batch in range(batch_count):
            at = b[batch * BATCH_FIELDS]
            end = b[batch * BATCH_FIELDS + 1]
            count = b[batch * BATCH_FIELDS + 2]
            base_offset = b[batch * BATCH_FIELDS + 3]
            base_timestamp = b[batch * BATCH_FIELDS + 4]
            is_append_time = b[batch * BATCH_FIELDS + 5]
            append_time = b[batch * BATCH_FIELDS + 6]
            for index in range(count):
                start = at
                if cython.compiled:
                    prefetch(p + at + PREFETCH_DISTANCE)  # type: ignore[name-defined]  # noqa: F821
                at, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start, header_count = (
                    parse_record(p, at, end)
                )
                if at < 0:
                    ok = report_record(f, start, end, index, count, batch, at, timestamp_delta, offset_delta, key_start)
                    break
                o[done] = wrap64(base_offset + offset_delta)
                t[done] = append_time if is_append_time else wrap64(base_timestamp + timestamp_delta)
                if wants_keys:
                    ko[done] = key_at
                    if key_length > 0:
                        if key_length > key_room - key_at:
                            ok = report(f, COLUMN_FULL, at, key_at, key_room, batch)
                            break
                        copy_bytes(kd, key_at, p, key_start, key_length)
                        key_at += key_length
                    elif key_length < 0:
                        kv[done >> 3] = kv[done >> 3] & (255 - (1 << (done & 7)))
                        key_nulls += 1
                if wants_values:
                    vo[done] = value_at
                    if value_length > 0:
                        if value_length > value_room - value_at:
                            ok = report(f, COLUMN_FULL, at, value_at, value_room, batch)
                            break
                        copy_bytes(vd, value_at, p, value_start, value_length)
                        value_at += value_length
                    elif value_length < 0:
                        vv[done >> 3] = vv[done >> 3] & (255 - (1 << (done & 7)))
                        value_nulls += 1
                if wants_slices:
                    s[done] = key_start
                    s[capacity + done] = key_length
                    s[2 * capacity + done] = value_start
                    s[3 * capacity + done] = value_length
                    s[4 * capacity + done] = headers_start
                    s[5 * capacity + done] = header_count
                done += 1
            if ok and at != end:
                ok = report(f, PAYLOAD_TOO_LONG, at, end - at, at, batch)
            if not ok:
                break
    if wants_keys:
        ko[done] = key_at
    if wants_values:
        vo[done] = value_at
    totals[DONE] = done
    totals[KEY_BYTES] = key_at
    totals[KEY_NULLS] = key_nulls
    totals[VALUE_BYTES] = value_at
    totals[VALUE_NULLS] = value_nulls
    return ok


def survey(
    p: Pointer, at: int, end: int, count: int, base_timestamp: int, lowest: int, highest: int, ahead: Pointer, f: Pointer
) -> tuple[bool, int, int, int, int, int]:
    """Visit the records of one batch as a leader does: (whether they parse, and the answers told in `tidelog.record.kernel.survey`).

    It is here because the compiler can then weave the parser into the loop. `ahead` is memory that will be wanted soon: the next batch.
    """
    max_timestamp = -1
    keyless = 0
    out_of_range = 0
    untimed = 0
    is_dense = 1
    if count < 0:
        return report(f, NEGATIVE_COUNT, at, count, 0, 0), 0, 0, 0, 0, 0
    if count > (end - at) // MIN_RECORD_SIZE:
        return report(f, RECORD_COUNT, at, count, (end - at) // MIN_RECORD_SIZE, 0), 0, 0, 0, 0, 0
    for index in range(count):
        start = at
        if cython.compiled:
            prefetch(ahead + index * PREFETCH_STEP)  # type: ignore[name-defined]  # noqa: F821
        at, timestamp_delta, offset_delta, key_start, key_length, _, _, _, _ = parse_record(p, at, end)
        if at < 0:
            return report_record(f, start, end, index, count, 0, at, timestamp_delta, offset_delta, key_start), 0, 0, 0, 0, 0
        timestamp = wrap64(base_timestamp + timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if timestamp == -1:
            untimed += 1
        elif timestamp < lowest or timestamp > highest:
            out_of_range += 1
        if key_length < 0:
            keyless += 1
        if offset_delta != index:
            is_dense = 0
    if at != end:
        return report(f, PAYLOAD_TOO_LONG, at, end - at, at, 0), 0, 0, 0, 0, 0
    return True, max_timestamp, keyless, out_of_range, untimed, is_dense


def parse_one(p: Pointer, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """`parse_record`, for other modules of the kernel: a C function that is not inlined."""
    return parse_record(p, at, end)


def parse_record(p: Pointer, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """`parse_any_record`, by a shorter way for what most records are.

    That is: key and value there, no headers, every number of one or two bytes. Sixteen bytes are known to be there, and a record of twelve
    or more holds all numbers before the key, so that bounds are checked three times instead of at every byte. Whatever is not so is left
    to `parse_any_record`, errors too.
    """
    if end - at < 16:
        return parse_any_record(p, at, end)
    field = at + 1
    length = p[at]
    if length >= 128:
        high = p[field]
        length = (length & 127) | (high << 7)
        field += 1
    # Zigzag: an odd number is negative, and 16384 or more did not end after two bytes.
    next_record = field + (length >> 1)
    if length & 1 or length >= 16384 or length < 24 or next_record > end or p[next_record - 1] != 0:
        return parse_any_record(p, at, end)
    timestamp_delta = p[field + 1]
    field += 2
    if timestamp_delta >= 128:
        high = p[field]
        timestamp_delta = (timestamp_delta & 127) | (high << 7)
        field += 1
    offset_delta = p[field]
    field += 1
    if offset_delta >= 128:
        high = p[field]
        offset_delta = (offset_delta & 127) | (high << 7)
        field += 1
    key_length = p[field]
    field += 1
    if key_length >= 128:
        high = p[field]
        key_length = (key_length & 127) | (high << 7)
        field += 1
    key_start = field
    field += key_length >> 1
    if (timestamp_delta | offset_delta | key_length) >= 16384 or key_length & 1 or field + 2 > next_record:
        return parse_any_record(p, at, end)
    value_length = p[field]
    field += 1
    if value_length >= 128:
        high = p[field]
        value_length = (value_length & 127) | (high << 7)
        field += 1
    if value_length & 1 or value_length >= 16384 or field + (value_length >> 1) + 1 != next_record:
        return parse_any_record(p, at, end)
    return (
        next_record,
        (timestamp_delta >> 1) ^ -(timestamp_delta & 1),
        (offset_delta >> 1) ^ -(offset_delta & 1),
        key_start,
        key_length >> 1,
        field,
        value_length >> 1,
        next_record,
        0,
    )


def report_record(
    f: Pointer, start: int, end: int, index: int, count: int, batch: int, fault: int, position: int, found: int, expected: int
) -> bool:
    """What `parse_record` found wrong; a payload that ended is told apart from a record that is bad."""
    if start == end:
        return report(f, PAYLOAD_TOO_SHORT, start, index, count, batch)
    return report(f, -fault, position, found, expected, batch)


def report(f: Pointer, fault: int, position: int, found: int, expected: int, batch: int) -> bool:
    """Write down what is wrong, for `tidelog.record.faults`."""
    f[0] = fault
    f[1] = position
    f[2] = found
    f[3] = expected
    f[4] = batch
    return False


def copy_bytes(target: Pointer, target_at: int, source: Pointer, source_at: int, size: int) -> None:
    """Copy `size` bytes."""
    if cython.compiled:
        copy_memory(target + target_at, source + source_at, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        target[target_at : target_at + size] = source[source_at : source_at + size]


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
