"""Encode records into v2 batches, back to back, from Python rows or from Arrow columns.

A call encodes as many batches as fit its output. Each batch takes records until the next would make it larger than `batch_bytes`; a
record that is larger by itself has a batch of its own. Headers are written whole but for the CRC, which the caller adds for all batches
at once, after compressing the payloads if a codec was asked for.

When the output is too small for the batch at hand, that batch is undone and the call ends; the caller makes room and goes on from there.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.errors import InvalidBatchError
from tidelog.record.kernel.header_list import as_bytes, as_timestamp, encode_headers
from tidelog.record.kernel.record import Record
from tidelog.record.slots import Plan

if not cython.compiled:  # compiled, these are C functions, named in encode.pxd
    from tidelog.record.kernel.any_record import long_varint
    from tidelog.record.kernel.records import copy_bytes

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

HEADER_SIZE = 61
MAX_INT32 = 0x7FFFFFFF
NO_HEADERS = b"\x00"

# C globals when compiled (encode.pxd), so that loops without the GIL can use them.
BATCH_BYTES = int(Plan.BATCH_BYTES)
ATTRIBUTES = int(Plan.ATTRIBUTES)
LEADER_EPOCH = int(Plan.LEADER_EPOCH)
PRODUCER_ID = int(Plan.PRODUCER_ID)
PRODUCER_EPOCH = int(Plan.PRODUCER_EPOCH)
APPEND_TIME = int(Plan.APPEND_TIME)
DEFAULT_TIMESTAMP = int(Plan.DEFAULT_TIMESTAMP)
BASE_TIMESTAMP = int(Plan.BASE_TIMESTAMP)
KEEP_OFFSETS = int(Plan.KEEP_OFFSETS)
NEXT_OFFSET = int(Plan.NEXT_OFFSET)
NEXT_SEQUENCE = int(Plan.NEXT_SEQUENCE)
OUTPUT_END = int(Plan.OUTPUT_END)


def encode_rows(rows: list[Any], first: int, output: Any, plan: Any, read_once: dict[int, bytes]) -> int:
    """Encode rows from `first` on; give back the first row that is not in a finished batch.

    A row is a `Record` or a tuple (key, value), (key, value, headers) or (key, value, headers, timestamp_ms). `read_once` keeps encoded
    headers that may be an iterator: a row is looked at again when it begins the next batch, and when the output was too small.
    """
    room = len(output)
    if cython.compiled:
        out = cython.address(output[0])
        s = cython.address(plan[0])
    else:
        out, s = output, plan
    row_count = len(rows)
    default_timestamp = s[DEFAULT_TIMESTAMP]
    keep_offsets = s[KEEP_OFFSETS]
    batch_start = s[OUTPUT_END]
    batch_first = first
    at = batch_start + HEADER_SIZE
    base_timestamp = s[BASE_TIMESTAMP]
    max_timestamp = -1
    last_offset_delta = 0
    index = first
    while index < row_count:
        if len(rows) != row_count:  # by headers that are code of the caller's, or by another thread
            raise RuntimeError("the records have become more or fewer while they were encoded")
        row = rows[index]
        if type(row) is Record:
            record = row
            key = record.key
            value = record.value
            timestamp = record.timestamp_ms
            headers = record.headers
            offset = record.offset
        elif type(row) is tuple and len(row) == 2:
            # What most rows are, without the detour through a tuple of four.
            pair: Any = row
            key = pair[0]
            value = pair[1]
            headers = None
            timestamp = default_timestamp
            offset = -1
        elif type(row) is tuple and len(row) == 4 and type(row[3]) is int:
            pair = row
            key = pair[0]
            value = pair[1]
            headers = pair[2]
            try:
                timestamp = pair[3] if cython.compiled else as_timestamp(pair[3], index)
            except OverflowError:
                timestamp = as_timestamp(pair[3], index)
            offset = -1
        else:
            key, value, headers, timestamp = unpack_row(row, index, default_timestamp)
            offset = -1
        if type(key) is not bytes and key is not None:
            key = as_bytes(key, "key", index)
        if type(value) is not bytes and value is not None:
            value = as_bytes(value, "value", index)
        if not headers:
            tail = NO_HEADERS
        elif isinstance(headers, (tuple, list)):
            tail = encode_headers(headers, index)
        elif index in read_once:
            tail = read_once[index]
        else:
            tail = read_once[index] = encode_headers(headers, index)
        if timestamp < -1:
            as_timestamp(timestamp, index)
        key_length = -1 if key is None else len(key)
        value_length = -1 if value is None else len(value)
        tail_length = len(tail)
        if key_length > MAX_INT32 or value_length > MAX_INT32:
            raise InvalidBatchError(f"size of record {index}", expected=f"at most {MAX_INT32} bytes", found=key_length + value_length)

        # A batch begins with its first record.
        if index == batch_first and s[BASE_TIMESTAMP] < 0:
            base_timestamp = timestamp
        offset_delta = offset - s[NEXT_OFFSET] if keep_offsets else index - batch_first
        if offset_delta < 0 or offset_delta > MAX_INT32:
            raise InvalidBatchError(f"offset of record {index}", expected=f"{s[NEXT_OFFSET]} to 2^31-1 more", found=offset)
        timestamp_delta = wrap64(timestamp - base_timestamp)
        body = body_size(timestamp_delta, offset_delta, key_length, value_length, tail_length)
        total = varint_size(body) + body
        if index > batch_first and at + total - batch_start > s[BATCH_BYTES]:
            finish_batch(out, s, batch_start, at, index - batch_first, last_offset_delta, base_timestamp, max_timestamp)
            batch_start = at
            batch_first = index
            at = batch_start + HEADER_SIZE
            max_timestamp = -1
            if keep_offsets:
                s[NEXT_OFFSET] = offset
            continue
        if at + total - batch_start > MAX_INT32:
            raise InvalidBatchError(f"size of record {index}", expected=f"a batch of at most {MAX_INT32} bytes", found=body)
        if at + total > room:
            return batch_first
        at = put_prefix(out, at, body, timestamp_delta, offset_delta)
        at = put_varint(out, at, key_length)
        if key_length > 0:
            put_bytes(out, at, key, key_length)
            at += key_length
        at = put_varint(out, at, value_length)
        if value_length > 0:
            put_bytes(out, at, value, value_length)
            at += value_length
        put_bytes(out, at, tail, tail_length)
        at += tail_length
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        last_offset_delta = offset_delta
        index += 1
    if index > batch_first:
        finish_batch(out, s, batch_start, at, index - batch_first, last_offset_delta, base_timestamp, max_timestamp)
    return index


def encode_columns(
    key_offsets: Any,
    key_data: Any,
    key_nulls: Any,
    value_offsets: Any,
    value_data: Any,
    value_nulls: Any,
    tail_offsets: Any,
    tail_data: Any,
    timestamps: Any,
    first: int,
    output: Any,
    plan: Any,
) -> int:
    """`encode_rows` for columns. `*_nulls` has a byte a record (1: null), or is empty where there are none.

    `tail_*` is the encoded header list of each record, and `timestamps` its time; both are empty where all records have none.
    """
    row_count = len(key_offsets) - 1
    room = len(output)
    has_key_nulls = len(key_nulls) > 0
    has_value_nulls = len(value_nulls) > 0
    has_tails = len(tail_offsets) > 0
    has_timestamps = len(timestamps) > 0
    if cython.compiled:
        out = cython.address(output[0])
        s = cython.address(plan[0])
        kd = cython.address(key_data[0])
        vd = cython.address(value_data[0])
        td = cython.address(tail_data[0])
    else:
        out, s, kd, vd, td = output, plan, key_data, value_data, tail_data
    batch_start = s[OUTPUT_END]
    batch_first = first
    at = batch_start + HEADER_SIZE
    base_timestamp = s[BASE_TIMESTAMP]
    max_timestamp = -1
    timestamp = s[DEFAULT_TIMESTAMP]
    tail_start = 0
    tail_length = 1
    index = first
    with cython.nogil:
        while index < row_count:
            key_start = key_offsets[index]
            key_length = -1 if has_key_nulls and key_nulls[index] else key_offsets[index + 1] - key_start
            value_start = value_offsets[index]
            value_length = -1 if has_value_nulls and value_nulls[index] else value_offsets[index + 1] - value_start
            if has_tails:
                tail_start = tail_offsets[index]
                tail_length = tail_offsets[index + 1] - tail_start
            if has_timestamps:
                timestamp = timestamps[index]
            if index == batch_first and s[BASE_TIMESTAMP] < 0:
                base_timestamp = timestamp
            timestamp_delta = wrap64(timestamp - base_timestamp)
            body = body_size(timestamp_delta, index - batch_first, key_length, value_length, tail_length)
            total = varint_size(body) + body
            if index > batch_first and at + total - batch_start > s[BATCH_BYTES]:
                finish_batch(out, s, batch_start, at, index - batch_first, index - batch_first - 1, base_timestamp, max_timestamp)
                batch_start = at
                batch_first = index
                at = batch_start + HEADER_SIZE
                max_timestamp = -1
                continue
            if at + total > room:
                index = batch_first
                break
            at = put_prefix(out, at, body, timestamp_delta, index - batch_first)
            at = put_varint(out, at, key_length)
            if key_length > 0:
                copy_bytes(out, at, kd, key_start, key_length)
                at += key_length
            at = put_varint(out, at, value_length)
            if value_length > 0:
                copy_bytes(out, at, vd, value_start, value_length)
                at += value_length
            if tail_length == 1:
                out[at] = 0
            else:
                copy_bytes(out, at, td, tail_start, tail_length)
            at += tail_length
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            index += 1
        if index > batch_first and index == row_count:
            finish_batch(out, s, batch_start, at, index - batch_first, index - batch_first - 1, base_timestamp, max_timestamp)
    return index


def retain_records(payload: Any, timestamps: Any, keep: Any, base_timestamp: int, output: Any) -> int:
    """Copy the records marked in `keep` (a byte each) of a payload that was scanned before; give back the bytes written.

    Everything but the timestamp delta is copied as it stands, offset deltas with their gaps too. The records' `timestamps` are written
    against `base_timestamp`. The caller has made room for deltas that become longer.
    """
    if cython.compiled:
        p = cython.address(payload[0])
        out = cython.address(output[0])
    else:
        p, out = payload, output
    end = len(payload)
    count = len(keep)
    start = 0
    at = 0
    with cython.nogil:
        for index in range(count):
            body_start, length = long_varint(p, start, end, 32)
            start = body_start + length
            if keep[index]:
                rest, _ = long_varint(p, body_start + 1, end, 64)
                delta = wrap64(timestamps[index] - base_timestamp)
                at = put_varint(out, at, start - rest + 1 + varint_size(delta))
                out[at] = 0
                at = put_varint(out, at + 1, delta)
                copy_bytes(out, at, p, rest, start - rest)
                at += start - rest
    return at


def unpack_row(row: Any, index: int, default_timestamp: int) -> tuple[Any, Any, Any, int]:
    """(key, value, headers, timestamp) of a tuple of two to four."""
    if isinstance(row, tuple):
        size = len(row)
        if size == 2:
            return row[0], row[1], None, default_timestamp
        if size == 3:
            return row[0], row[1], row[2], default_timestamp
        if size == 4:
            return row[0], row[1], row[2], default_timestamp if row[3] is None else as_timestamp(row[3], index)
    raise TypeError(f"record {index} must be a Record or a tuple (key, value[, headers[, timestamp_ms]]), not {type(row).__name__}")


def body_size(timestamp_delta: int, offset_delta: int, key_length: int, value_length: int, tail_length: int) -> int:
    """Bytes of a record after its length field."""
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + varint_size(key_length) + varint_size(value_length)
    if key_length > 0:
        size += key_length
    if value_length > 0:
        size += value_length
    return size + tail_length


def varint_size(number: int) -> int:
    """Bytes of a zigzag varint."""
    raw = zigzag(number)
    size = 1
    while raw >= 128:
        raw = raw >> 7
        size += 1
    return size


def put_varint(out: Pointer, at: int, number: int) -> int:
    """Write a zigzag varint; give back the position after it."""
    raw = zigzag(number)
    while raw >= 128:
        out[at] = (raw & 127) | 128
        raw = raw >> 7
        at += 1
    out[at] = raw
    return at + 1


def zigzag(number: int) -> int:
    """Signed to unsigned, small numbers staying small."""
    raw = number
    raw = raw << 1
    if number < 0:
        raw = ~raw
    return raw


def put_prefix(out: Pointer, at: int, body: int, timestamp_delta: int, offset_delta: int) -> int:
    """Length, attributes, and both deltas of a record."""
    at = put_varint(out, at, body)
    out[at] = 0
    at = put_varint(out, at + 1, timestamp_delta)
    return put_varint(out, at, offset_delta)


def put_bytes(out: Pointer, at: int, data: bytes | None, size: int) -> None:
    """Copy a bytes object."""
    if cython.compiled:
        source = data
        memcpy(out + at, source, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        out[at : at + size] = data


def finish_batch(
    out: Pointer, s: Pointer, start: int, end: int, count: int, last_offset_delta: int, base_timestamp: int, max_timestamp: int
) -> None:
    """Write the header of the batch that ends at `end`, all but the CRC, and move offset and sequence on."""
    put_int(out, start, s[NEXT_OFFSET], 8)
    put_int(out, start + 8, end - start - 12, 4)
    put_int(out, start + 12, s[LEADER_EPOCH], 4)
    out[start + 16] = 2
    put_int(out, start + 17, 0, 4)
    put_int(out, start + 21, s[ATTRIBUTES], 2)
    put_int(out, start + 23, last_offset_delta, 4)
    put_int(out, start + 27, base_timestamp, 8)
    put_int(out, start + 35, s[APPEND_TIME] if s[APPEND_TIME] >= 0 else max_timestamp, 8)
    put_int(out, start + 43, s[PRODUCER_ID], 8)
    put_int(out, start + 51, s[PRODUCER_EPOCH], 2)
    put_int(out, start + 53, s[NEXT_SEQUENCE], 4)
    put_int(out, start + 57, count, 4)
    s[NEXT_OFFSET] = wrap64(s[NEXT_OFFSET] + last_offset_delta + 1)
    if s[NEXT_SEQUENCE] >= 0:
        s[NEXT_SEQUENCE] = (s[NEXT_SEQUENCE] + last_offset_delta + 1) & MAX_INT32
    s[OUTPUT_END] = end


def put_int(out: Pointer, at: int, number: int, size: int) -> None:
    """A big-endian integer of `size` bytes."""
    shift = 8 * size
    for i in range(size):
        shift -= 8
        out[at + i] = (number >> shift) & 255


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number
