"""Build batches by hand, bad ones too."""

import struct
import zlib

import crc32c

TIME = 1700000000000


def with_crc(batch: bytes | bytearray) -> bytes:
    """A v2 batch with the CRC that its bytes call for."""
    fixed = bytearray(batch)
    fixed[17:21] = crc32c.crc32c(bytes(fixed[21:])).to_bytes(4, "big")
    return bytes(fixed)


def patched(batch: bytes, position: int, data: bytes) -> bytes:
    """A v2 batch with some bytes replaced, and the CRC right again."""
    return with_crc(batch[:position] + data + batch[position + len(data) :])


def batch_of_payload(payload: bytes, *, count: int, attributes: int = 0, base_offset: int = 0) -> bytes:
    """A v2 batch around any payload."""
    header = struct.pack(
        ">qiibIhiqqqhii", base_offset, 49 + len(payload), 0, 2, 0, attributes, max(0, count - 1), TIME, TIME, -1, -1, -1, count
    )
    return with_crc(header + payload)


def varint(number: int) -> bytes:
    """A zigzag varint."""
    raw = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while raw >= 128:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def message(offset: int, key: bytes | None, value: bytes | None, *, magic: int = 1, attributes: int = 0, timestamp: int = TIME) -> bytes:
    """A legacy message with its offset and size."""
    body = bytes([magic, attributes]) + (struct.pack(">q", timestamp) if magic == 1 else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body
