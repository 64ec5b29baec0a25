"""Plain v2 batches, checked and assigned in one go: the common case of a leader's append, where every microsecond counts.

Plain means that nothing is to be refused, rebuilt or explained: not compressed, no control batch, create time, offsets from 0 without
gaps, CRC right, every record sound and in its time. Anything else is answered with None, and the caller takes the way that has the words.
"""

from collections.abc import Callable
from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

if not cython.compiled:  # compiled, these are C functions, named in plain_batch.pxd
    from tidelog.record.kernel.assign import assign_header
    from tidelog.record.kernel.index_search import read_i32, read_i64
    from tidelog.record.kernel.records import survey

Pointer = Any  # a C pointer when compiled, the memoryview itself when not
Checksum = Callable[..., int]

HEADER_SIZE = 61
ATTRIBUTES_POSITION = 21
PRODUCER_ID_POSITION = 43  # its first byte has the sign
NOT_PLAIN_BITS = 0x2F  # codec, append time, control
UNSIGNED = 0x100000000


def assign_plain(
    crc32c: Checksum,
    batch: Any,
    max_bytes: int,
    lowest_ms: int,
    highest_ms: int,
    needs_keys: int,
    next_offset: int,
    leader_epoch: int,
    append_time_ms: int,
    fault: Any,
) -> Any:
    """The batch's new header, its record count and its largest timestamp; or None if it is not plain.

    `append_time_ms` of -1 leaves create time. Records without a key are not plain where `needs_keys`.
    """
    return assign_before(
        crc32c, batch, batch, max_bytes, lowest_ms, highest_ms, needs_keys, next_offset, leader_epoch, append_time_ms, fault
    )


def assign_before(
    crc32c: Checksum,
    batch: Any,
    following: Any,
    max_bytes: int,
    lowest_ms: int,
    highest_ms: int,
    needs_keys: int,
    next_offset: int,
    leader_epoch: int,
    append_time_ms: int,
    fault: Any,
) -> Any:
    """`assign_plain`, while the batch that follows is fetched from memory."""
    size = len(batch)
    if size < HEADER_SIZE or size > max_bytes:
        return None
    p: Pointer = cython.address(batch[0]) if cython.compiled else batch
    ahead: Pointer = p
    if cython.compiled and len(following):
        ahead = cython.address(following[0])
    f: Pointer = cython.address(fault[0]) if cython.compiled else fault
    count = read_i32(p, 57)
    if (
        p[16] != 2
        or read_i32(p, 8) != size - 12
        or read_i64(p, 0) != 0
        or p[22] & NOT_PLAIN_BITS
        or count <= 0
        or read_i32(p, 23) != count - 1
        or (read_i64(p, 43) >= 0 and read_i32(p, 53) < 0)
    ):
        return None
    if cython.compiled:
        span = memory_view(p + ATTRIBUTES_POSITION, size - ATTRIBUTES_POSITION)  # type: ignore[name-defined]  # noqa: F821
    else:
        span = batch[ATTRIBUTES_POSITION:]
    checksum = read_i32(p, 17)
    if checksum < 0:
        checksum += UNSIGNED
    if crc32c(span) != checksum:
        return None
    ok, max_timestamp, keyless, out_of_range, _, is_dense = survey(
        p, HEADER_SIZE, size, count, read_i64(p, 27), lowest_ms, highest_ms, ahead, f
    )
    if not ok or out_of_range > 0 or not is_dense or (needs_keys and keyless > 0):
        return None
    is_append_time = append_time_ms >= 0
    if is_append_time:
        max_timestamp = append_time_ms
    return assign_header(crc32c, batch, 0, size, next_offset, leader_epoch, is_append_time, max_timestamp), count, max_timestamp


def assign_plain_run(
    crc32c: Checksum,
    batches: list[Any],
    first: int,
    max_bytes: int,
    lowest_ms: int,
    highest_ms: int,
    needs_keys: int,
    next_offset: int,
    leader_epoch: int,
    append_time_ms: int,
    parts: list[Any],
    fields: Any,
    fault: Any,
) -> int:
    """Assign to `batches` from `first` on, up to the first that is not plain, or has a producer id: its place, or how many there are.

    Whether a producer may append depends on what it appended before, and a duplicate is not appended at all: that is not for here.

    The bytes to write go into `parts`, a header and a payload for each. The rows of `fields`, a header array with a column for each batch
    of `batches`, become size, offsets and largest timestamp.
    """
    capacity = len(batches)
    if first < 0 or 14 * capacity > len(fields):
        raise ValueError(f"no room for the headers of {capacity} batches from {first} on")
    at = first
    following = batches[at] if at < capacity else b""
    while at < capacity:
        batch = following
        if at + 1 < capacity:
            following = batches[at + 1]
        if len(batch) > PRODUCER_ID_POSITION and batch[PRODUCER_ID_POSITION] < 0x80:
            break
        plain = assign_before(
            crc32c,
            batch,
            following,
            max_bytes,
            lowest_ms,
            highest_ms,
            needs_keys,
            next_offset,
            leader_epoch,
            append_time_ms,
            fault,
        )
        if plain is None:
            break
        header, count, max_timestamp = plain
        parts.append(header)
        parts.append(memoryview(batches[at])[HEADER_SIZE:])
        fields[capacity + at] = len(batch)
        fields[4 * capacity + at] = next_offset
        next_offset += count
        fields[5 * capacity + at] = next_offset - 1
        fields[7 * capacity + at] = max_timestamp
        at += 1
    return at
