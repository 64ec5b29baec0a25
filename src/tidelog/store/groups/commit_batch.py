"""The batch of a commit, quickly: a few small records, not compressed, without headers and without a producer.

The bytes are those of `NewBatch`, which is made for many records: it costs as much as a sync does before the first of them.
"""

from collections.abc import Sequence

import crc32c

from tidelog.record.layout import ATTRIBUTES_POSITION, CRC_POSITION, HEADER, HEADER_SIZE, LOG_OVERHEAD

Rows = Sequence[tuple[bytes, bytes | None]]
"""Keys and values; None is a tombstone."""


def commit_batch(rows: Rows, timestamp_ms: int) -> bytearray:
    """Records with one timestamp as a batch, as a client sends it: offsets from 0 on, no leader epoch."""
    parts = [b""]
    size = HEADER_SIZE
    for delta, (key, value) in enumerate(rows):
        # attributes, timestamp delta, offset delta, key, value, no headers
        body = b"".join(
            (
                b"\x00\x00",
                _varint(delta),
                _varint(len(key)),
                key,
                b"\x01" if value is None else _varint(len(value)),
                value or b"",
                b"\x00",
            )
        )
        length = _varint(len(body))
        parts += (length, body)
        size += len(length) + len(body)
    count = len(rows)
    parts[0] = HEADER.pack(0, size - LOG_OVERHEAD, -1, 2, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    batch = bytearray().join(parts)
    checksum: int = crc32c.crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = checksum.to_bytes(4, "big")
    return batch


def _varint(number: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    if number < 64:
        return _SHORT[number]
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SHORT = [bytes([number << 1]) for number in range(64)]
