"""Copy batches keeping only some of their records: the inner loop of log compaction, for plain batches (v2, not compressed, data).

Which records stay is told in one of two ways: by a bit for every offset of a window, set where an offset is the last one of its key, or by
a byte for every record. A batch none of whose records stays is passed over without a look at them where nothing needs counting, one that
keeps all is copied as it is, of the others the records that stay are copied: in one piece where nothing changes in them, else with new
timestamp deltas. The outcome is that of `tidelog.record.retain`, but for CRCs, which `write_checksums` fills in.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.faults import Fault
from tidelog.record.outcomes import RetainAnswer, RetainRule, RetainStop

if not cython.compiled:  # compiled, these are C functions, named in compact.pxd
    from tidelog.record.kernel.encode import put_int, put_varint, varint_size
    from tidelog.record.kernel.headers import read_i32
    from tidelog.record.kernel.records import copy_bytes, parse_one, report, report_record

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

NEGATIVE_COUNT = int(Fault.NEGATIVE_COUNT)
RECORD_COUNT = int(Fault.RECORD_COUNT)
PAYLOAD_TOO_LONG = int(Fault.PAYLOAD_TOO_LONG)

BY_BITS = int(RetainRule.BY_BITS)
BITS_FIRST = int(RetainRule.BITS_FIRST)
BITS_END = int(RetainRule.BITS_END)
LATEST_OFFSET = int(RetainRule.LATEST_OFFSET)
NOW = int(RetainRule.NOW)
NEW_HORIZON = int(RetainRule.NEW_HORIZON)
COUNTS_ALL = int(RetainRule.COUNTS_ALL)
RULES = len(RetainRule)

OUTPUT_END = int(RetainAnswer.OUTPUT_END)
CHECKSUMS = int(RetainAnswer.CHECKSUMS)
MESSAGES_READ = int(RetainAnswer.MESSAGES_READ)
MESSAGES_WRITTEN = int(RetainAnswer.MESSAGES_WRITTEN)
INVALID_MESSAGES = int(RetainAnswer.INVALID_MESSAGES)
TOMBSTONES_REMOVED = int(RetainAnswer.TOMBSTONES_REMOVED)
KEPT_EMPTY = int(RetainAnswer.KEPT_EMPTY)
STOP = int(RetainAnswer.STOP)
ANSWERS = len(RetainAnswer)

OUTPUT_FULL = int(RetainStop.OUTPUT_FULL)
OUT_OF_WINDOW = int(RetainStop.OUT_OF_WINDOW)
BAD_BYTES = int(RetainStop.BAD_BYTES)

HEADER_SIZE = 61
LOG_OVERHEAD = 12
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MIN_RECORD_SIZE = 7
CODEC_AND_HORIZON = 0x47
TIMESTAMP_TYPE_BIT = 0x08
DELETE_HORIZON_BIT = 0x40
GROWTH = 11  # what a longer timestamp delta and the longer length before it can add to a record

SOME = 0
NONE = 1
ALL = 2


def retain_batches(
    buffer: Any,
    fields: Any,
    capacity: int,
    first: int,
    count: int,
    rules: Any,
    keep_empty: Any,
    keep: Any,
    bits: Any,
    starts: Any,
    timestamps: Any,
    flags: Any,
    output: Any,
    positions: Any,
    answers: Any,
    fault: Any,
) -> int:
    """Copy what stays of `count` batches from `first` on to `output`, from OUTPUT_END of `answers` on: how many batches were done.

    `keep_empty` has a byte a batch, `keep` a byte a record (not used with bits). `starts`, `timestamps` and `flags` are scratch memory for
    the records of one batch. `positions` receives where the batches start that need a new CRC. Fewer batches than asked for were done if
    the output is full, a batch is not within the window of the bits, or its bytes are bad: STOP of `answers` says which.
    """
    if first < 0 or count < 0 or count > capacity - first or 14 * capacity > len(fields) or len(keep_empty) < count:
        raise ValueError(f"no headers {first} to {first + count} in an array for {capacity}")
    if len(rules) < RULES or len(answers) < ANSWERS or len(fault) < 5 or len(positions) < answers[CHECKSUMS] + count:
        raise ValueError("an array of rules, answers or positions is too short")
    if rules[BY_BITS] and rules[BITS_END] - rules[BITS_FIRST] > 8 * len(bits):
        raise ValueError(f"{rules[BITS_END] - rules[BITS_FIRST]} offsets in {len(bits)} bytes")
    answers[STOP] = 0
    if count == 0:
        return 0
    size_bytes = len(buffer)
    room = len(output)
    scratch = min(len(starts), len(timestamps), len(flags))
    keep_room = len(keep)
    if cython.compiled:
        p = cython.address(buffer[0])
        a = cython.address(fields[first])
        out = cython.address(output[0])
        b = cython.address(bits[0])
        k = cython.address(keep[0])
        s = cython.address(starts[0])
        t = cython.address(timestamps[0])
        g = cython.address(flags[0])
        f = cython.address(fault[0])
    else:
        p, a, out, b, k, s, t, g, f = buffer, fields[first:], output, bits, keep, starts, timestamps, flags, fault
    by_bits = rules[BY_BITS]
    bits_first = rules[BITS_FIRST]
    bits_end = rules[BITS_END]
    latest_offset = rules[LATEST_OFFSET]
    now = rules[NOW]
    new_horizon = rules[NEW_HORIZON]
    counts_all = rules[COUNTS_ALL]
    out_at = answers[OUTPUT_END]
    checksums = answers[CHECKSUMS]
    messages_read = 0
    messages_written = 0
    invalid_messages = 0
    tombstones_removed = 0
    kept_empty = 0
    stop = 0
    done = 0
    flag_at = 0
    with cython.nogil:
        while done < count:
            position = a[done]
            size = a[capacity + done]
            attributes = a[3 * capacity + done]
            base_offset = a[4 * capacity + done]
            last_offset = a[5 * capacity + done]
            base_timestamp = a[6 * capacity + done]
            max_timestamp = a[7 * capacity + done]
            records = a[12 * capacity + done]
            if position < 0 or size < HEADER_SIZE or size > size_bytes - position:
                stop = BAD_BYTES
                break
            at = position + HEADER_SIZE
            end = position + size
            if records < 0:
                report(f, NEGATIVE_COUNT, position, records, 0, done)
                stop = BAD_BYTES
                break
            if records > (end - at) // MIN_RECORD_SIZE:
                report(f, RECORD_COUNT, position, records, (end - at) // MIN_RECORD_SIZE, done)
                stop = BAD_BYTES
                break
            if size + GROWTH * records > room - out_at or records >= scratch:
                stop = OUTPUT_FULL
                break
            state = SOME
            if by_bits:
                judged = last_offset if last_offset < latest_offset else latest_offset
                if base_offset <= latest_offset and (base_offset < bits_first or judged >= bits_end or last_offset < base_offset):
                    stop = OUT_OF_WINDOW
                    break
                # One that ends before it begins may begin behind the latest offset, where the window was not asked for.
                if not counts_all and base_offset <= last_offset and last_offset <= latest_offset:
                    state = range_state(b, base_offset - bits_first, last_offset - bits_first)
            elif records > keep_room - flag_at:
                stop = OUT_OF_WINDOW
                break
            is_append_time = attributes & TIMESTAMP_TYPE_BIT
            kept = 0
            tombstones = 0
            invalid = 0
            removed = 0
            first_timestamp = 0
            newest = 0
            as_it_is = is_append_time == 0
            if state == ALL and records == last_offset - base_offset + 1:
                kept = records
            elif state != NONE:
                keeps_tombstones = (attributes & DELETE_HORIZON_BIT) == 0 or now < base_timestamp
                for index in range(records):
                    start = at
                    at, timestamp_delta, offset_delta, key_start, key_length, _, value_length, _, _ = parse_one(p, at, end)
                    if at < 0:
                        report_record(f, start, end, index, records, done, at, timestamp_delta, offset_delta, key_start)
                        stop = BAD_BYTES
                        break
                    if by_bits:
                        offset = wrap64(base_offset + offset_delta)
                        is_kept = 0
                        if offset > latest_offset:
                            is_kept = 1
                        elif key_length >= 0:
                            if offset < bits_first or offset >= bits_end:
                                stop = OUT_OF_WINDOW
                                break
                            offset -= bits_first
                            is_kept = (b[offset >> 3] >> (offset & 7)) & 1
                            if value_length < 0 and not keeps_tombstones:
                                is_kept = 0
                    else:
                        is_kept = k[flag_at + index]
                    s[index] = start
                    g[index] = is_kept
                    if is_kept:
                        timestamp = max_timestamp if is_append_time else wrap64(base_timestamp + timestamp_delta)
                        t[index] = timestamp
                        if not has_plain_start(p, start):
                            as_it_is = False
                        if kept == 0:
                            first_timestamp = timestamp
                            newest = timestamp
                        elif timestamp > newest:
                            newest = timestamp
                        kept += 1
                        if value_length < 0:
                            tombstones += 1
                    elif key_length < 0:
                        invalid += 1
                    elif value_length < 0:
                        removed += 1
                if stop == 0 and at != end:
                    report(f, PAYLOAD_TOO_LONG, at, end - at, at, done)
                    stop = BAD_BYTES
                if stop != 0:
                    break
            has_horizon = attributes & DELETE_HORIZON_BIT
            gets_horizon = tombstones > 0 and has_horizon == 0
            if kept == 0:
                if keep_empty[done]:
                    positions[checksums] = out_at
                    checksums += 1
                    out_at = put_empty(out, out_at, p, position, attributes)
                    kept_empty += 1
            elif kept == records and not gets_horizon:
                copy_bytes(out, out_at, p, position, size)
                out_at += size
            else:
                new_base = first_timestamp
                if gets_horizon:
                    new_base = new_horizon
                elif has_horizon:
                    new_base = base_timestamp
                positions[checksums] = out_at
                checksums += 1
                copy_bytes(out, out_at, p, position, HEADER_SIZE)
                s[records] = end
                if new_base == base_timestamp and as_it_is:
                    at = copy_records(p, s, g, records, out, out_at + HEADER_SIZE)
                else:
                    at = put_records(p, s, t, g, records, new_base, out, out_at + HEADER_SIZE)
                put_int(out, out_at + 8, at - out_at - LOG_OVERHEAD, 4)
                if gets_horizon:
                    put_int(out, out_at + ATTRIBUTES_POSITION, attributes | DELETE_HORIZON_BIT, 2)
                put_int(out, out_at + 27, new_base, 8)
                put_int(out, out_at + 35, newest, 8)
                put_int(out, out_at + 57, kept, 4)
                out_at = at
            messages_read += records
            messages_written += kept
            invalid_messages += invalid
            tombstones_removed += removed
            flag_at += records
            done += 1
    answers[OUTPUT_END] = out_at
    answers[CHECKSUMS] = checksums
    answers[MESSAGES_READ] += messages_read
    answers[MESSAGES_WRITTEN] += messages_written
    answers[INVALID_MESSAGES] += invalid_messages
    answers[TOMBSTONES_REMOVED] += tombstones_removed
    answers[KEPT_EMPTY] += kept_empty
    answers[STOP] = stop
    return done


def write_checksums(crc32c: Any, output: Any, positions: Any, count: int) -> None:
    """Compute and write the CRC of the batches at the first `count` positions."""
    size_bytes = len(output)
    if count > len(positions):
        raise ValueError(f"{count} of {len(positions)} positions")
    if count == 0:
        return
    if cython.compiled:
        out = cython.address(output[0])
        span = memory_view(out, 1)  # type: ignore[name-defined]  # noqa: F821
    else:
        out = output
    for i in range(count):
        position = positions[i]
        if position < 0 or position > size_bytes - HEADER_SIZE:
            raise ValueError(f"no batch at {position} of {size_bytes} bytes")
        size = read_i32(out, position + 8) + LOG_OVERHEAD
        if size < HEADER_SIZE or size > size_bytes - position:
            raise ValueError(f"a batch of {size} bytes at {position} of {size_bytes}")
        if cython.compiled:
            move_view(span, out + position + ATTRIBUTES_POSITION, size - ATTRIBUTES_POSITION)  # type: ignore[name-defined]  # noqa: F821
        else:
            span = output[position + ATTRIBUTES_POSITION : position + size]
        put_int(out, position + CRC_POSITION, crc32c(span), 4)


def range_state(b: Pointer, first: int, last: int) -> int:
    """Whether none, all or some of the bits from `first` to `last` are set."""
    first_byte = first >> 3
    last_byte = last >> 3
    mask = 255 & (255 << (first & 7))
    is_none = True
    is_all = True
    for at in range(first_byte, last_byte + 1):
        if at == last_byte:
            mask = mask & (255 >> (7 - (last & 7)))
        found = b[at] & mask
        if found != 0:
            is_none = False
        if found != mask:
            is_all = False
        if not is_none and not is_all:
            return SOME
        mask = 255
    return NONE if is_none else ALL


def has_plain_start(p: Pointer, at: int) -> bool:
    """Whether length, attributes and timestamp delta of a record are what writing it anew would give: no byte more than needed, no bit."""
    start = at
    while p[at] >= 128:
        at += 1
    if (at > start and p[at] == 0) or p[at + 1] != 0:
        return False
    start = at + 2
    at = start
    while p[at] >= 128:
        at += 1
    return at == start or p[at] != 0


def copy_records(p: Pointer, s: Pointer, g: Pointer, records: int, out: Pointer, out_at: int) -> int:
    """Copy the records that stay as they are, neighbours in one piece: where they end."""
    index = 0
    while index < records:
        if g[index]:
            start = s[index]
            while index < records and g[index]:
                index += 1
            copy_bytes(out, out_at, p, start, s[index] - start)
            out_at += s[index] - start
        else:
            index += 1
    return out_at


def put_records(p: Pointer, s: Pointer, t: Pointer, g: Pointer, records: int, base_timestamp: int, out: Pointer, out_at: int) -> int:
    """Copy the records that stay with timestamp deltas against another base: where they end."""
    for index in range(records):
        if g[index]:
            at = s[index]
            end = s[index + 1]
            while p[at] >= 128:
                at += 1
            at += 2  # the last byte of the length, and the attributes
            while p[at] >= 128:
                at += 1
            at += 1
            delta = wrap64(t[index] - base_timestamp)
            out_at = put_varint(out, out_at, 1 + varint_size(delta) + end - at)
            out[out_at] = 0
            out_at = put_varint(out, out_at + 1, delta)
            copy_bytes(out, out_at, p, at, end - at)
            out_at += end - at
    return out_at


def put_empty(out: Pointer, out_at: int, p: Pointer, position: int, attributes: int) -> int:
    """The header that stays of a batch without records: no codec, no horizon, no base timestamp, all else kept."""
    copy_bytes(out, out_at, p, position, HEADER_SIZE)
    put_int(out, out_at + 8, HEADER_SIZE - LOG_OVERHEAD, 4)
    put_int(out, out_at + ATTRIBUTES_POSITION, attributes & ~CODEC_AND_HORIZON, 2)
    put_int(out, out_at + 27, -1, 8)
    put_int(out, out_at + 57, 0, 4)
    return out_at + HEADER_SIZE


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
