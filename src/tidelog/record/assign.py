"""What a leader assigns to the batches it appends: offsets, its epoch, and the timestamp type with the max timestamp that goes with it.

`assign_batches` writes to a private copy of a run of batches. `assign_header` makes a new header for a single batch, whose payload is then
written from where it lies: `pwritev([header, payload])`. Both leave the payload as it is, which is Kafka's way as long as the codec stays.
"""

import crc32c
import numpy as np

from tidelog.record.headers import BatchHeaders, Int64Array
from tidelog.record.kernel import assign as kernel
from tidelog.record.views import view

_NO_TIMESTAMPS = view(np.zeros(1, np.int64))
_crc32c = crc32c.crc32c


def assign_batches(
    buffer: memoryview,
    headers: BatchHeaders,
    *,
    next_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
    max_timestamps: Int64Array | None,
) -> int:
    """Assign offsets from `next_offset` on to v2 batches in a writable buffer; give back the offset after the last of them.

    With `append_time_ms` the batches are stamped with it. Without, they have create time, and their max timestamps become `max_timestamps`
    (as `Surveys.max_timestamp_ms` has them). `headers` are brought up to date with the bytes.
    """
    if append_time_ms is None and max_timestamps is None:
        raise ValueError("without an append time the max timestamps are needed")
    return kernel.assign_batches(
        _crc32c,
        buffer,
        view(headers.flat),
        headers.capacity,
        headers.first,
        len(headers),
        next_offset,
        leader_epoch,
        append_time_ms is not None,
        0 if append_time_ms is None else append_time_ms,
        _NO_TIMESTAMPS if max_timestamps is None else view(np.ascontiguousarray(max_timestamps)),
    )


def assign_header(
    buffer: memoryview,
    position: int,
    size_bytes: int,
    *,
    next_offset: int,
    leader_epoch: int,
    is_append_time: bool,
    max_timestamp_ms: int,
) -> bytearray:
    """The 61 bytes of the header that the v2 batch at `position` gets; nothing is written to `buffer`.

    `max_timestamp_ms` is the append time where `is_append_time`, else the largest timestamp of the records. The last offset becomes
    `next_offset` + count - 1. The payload is read, for a new CRC, only where the timestamp type or the max timestamp changes.
    """
    return kernel.assign_header(_crc32c, buffer, position, size_bytes, next_offset, leader_epoch, is_append_time, max_timestamp_ms)
