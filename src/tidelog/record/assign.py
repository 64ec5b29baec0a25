"""What a leader assigns to a batch it appends: offsets, its epoch, and the timestamp type with the max timestamp that goes with it.

The batch gets a new header and keeps its payload, which is written from where it lies: `pwritev([header, payload])`. That is Kafka's way
as long as the codec stays.
"""

import crc32c

from tidelog.record.kernel import assign as kernel

_crc32c = crc32c.crc32c


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
