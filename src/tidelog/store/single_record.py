"""A batch of one record, quickly: what `append` of a single record writes.

The bytes are those of `BatchEncoder`. That one is made for many records: it costs forty times as much before the first of them.
"""

import struct

from crc32c import crc32c

NO_HEADERS = b"\x00"
"""The encoded list of no headers."""

_FRONT = struct.Struct(
    ">"
    "q"  # base offset
    "i"  # batch length
    "i"  # partition leader epoch
    "b"  # magic
    "I"  # crc
)
_TIMES = struct.Struct(">qq")  # base and max timestamp
_ATTRIBUTES_AND_LAST_DELTA = bytes(6)
_NO_PRODUCER_ONE_RECORD = b"\xff" * 8 + b"\xff" * 2 + b"\xff" * 4 + b"\x00\x00\x00\x01"
_DELTAS = bytes(3)  # attributes, timestamp delta, offset delta
_UNCOUNTED_BYTES = 9
"""Of the front, what the batch length counts."""


def _varint(number: int) -> bytes:
    """A zigzag varint."""
    raw = number << 1 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while raw >= 128:
        out.append((raw & 127) | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_NULL = _varint(-1)
_TABLE = [_varint(number) for number in range(4096)]
_IN_TABLE = len(_TABLE)


def encode_single(key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> bytes:
    """One record as a batch, as a client sends it: no offset, no producer, not compressed. `headers` is the encoded list."""
    if key is None:
        key, key_size = b"", _NULL
    else:
        size = len(key)
        key_size = _TABLE[size] if size < _IN_TABLE else _varint(size)
    if value is None:
        value, value_size = b"", _NULL
    else:
        size = len(value)
        value_size = _TABLE[size] if size < _IN_TABLE else _varint(size)
    record = b"".join((_DELTAS, key_size, key, value_size, value, headers))
    size = len(record)
    rest = b"".join(
        (
            _ATTRIBUTES_AND_LAST_DELTA,
            _TIMES.pack(timestamp_ms, timestamp_ms),
            _NO_PRODUCER_ONE_RECORD,
            _TABLE[size] if size < _IN_TABLE else _varint(size),
            record,
        )
    )
    return _FRONT.pack(0, len(rest) + _UNCOUNTED_BYTES, -1, 2, crc32c(rest)) + rest
