"""A batch of one record, quickly: what `append` of a single record writes.

The bytes are those of `encode_rows`, which is made for many records: it costs forty times as much before the first of them.
"""

from collections.abc import Callable
from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.errors import InvalidBatchError

if not cython.compiled:  # compiled, these are C functions, named in single_batch.pxd
    from tidelog.record.kernel.encode import body_size, put_bytes, put_int, put_prefix, put_varint, varint_size

Pointer = Any  # a C pointer when compiled, the bytearray itself when not
Checksum = Callable[..., int]

HEADER_SIZE = 61
LOG_OVERHEAD = 12
ATTRIBUTES_POSITION = 21
MAGIC_POSITION = 16
NO_PRODUCER_POSITION = 43
NO_PRODUCER_BYTES = 14
MAX_INT32 = 0x7FFFFFFF
NO_HEADERS = b"\x00"
SINGLE_OVERHEAD = 68
"""About what such a batch takes beside key, value and headers."""


def encode_single(
    crc32c: Checksum,
    key: bytes | None,
    value: bytes | None,
    headers: bytes,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> bytearray:
    """One record as a batch: no producer, not compressed. `headers` is the encoded list.

    A client sends it with offset 0 and leader epoch -1; a leader stores it with its own.
    """
    key_length = -1 if key is None else len(key)
    value_length = -1 if value is None else len(value)
    body = body_size(0, 0, key_length, value_length, len(headers))
    size = HEADER_SIZE + varint_size(body) + body
    if size - LOG_OVERHEAD > MAX_INT32:
        raise InvalidBatchError("a record is too large for a batch", expected=f"less than {MAX_INT32} bytes", found=body)
    batch = bytearray(size)
    out: Pointer = batch
    put_int(out, 0, base_offset, 8)
    put_int(out, 8, size - LOG_OVERHEAD, 4)
    put_int(out, 12, leader_epoch, 4)
    out[MAGIC_POSITION] = 2
    put_int(out, 27, timestamp_ms, 8)
    put_int(out, 35, timestamp_ms, 8)
    for i in range(NO_PRODUCER_BYTES):
        out[NO_PRODUCER_POSITION + i] = 255
    out[60] = 1  # a single record
    at = put_prefix(out, HEADER_SIZE, body, 0, 0)
    at = put_varint(out, at, key_length)
    if key_length > 0:
        put_bytes(out, at, key, key_length)
        at += key_length
    at = put_varint(out, at, value_length)
    if value_length > 0:
        put_bytes(out, at, value, value_length)
        at += value_length
    put_bytes(out, at, headers, len(headers))
    if cython.compiled:
        span = memory_view(out + ATTRIBUTES_POSITION, size - ATTRIBUTES_POSITION)  # type: ignore[name-defined]  # noqa: F821
    else:
        span = memoryview(batch)[ATTRIBUTES_POSITION:]
    put_int(out, 17, crc32c(span), 4)
    return batch
