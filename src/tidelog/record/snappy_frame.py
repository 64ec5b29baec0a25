"""Snappy as Kafka frames it: the stream of the xerial library.

      0  magic 82 53 4e 41 50 50 59 00
      8  version = 1, compatible version = 1          i32 each
     16  chunks: compressed length i32, raw snappy block; each holds 32 KiB of input, the last one less

All integers are big-endian. Without the magic the whole payload is one raw snappy block, as some other clients write it.
"""

import struct

import cramjam

from tidelog.errors import DecompressionError, PayloadTooLargeError
from tidelog.record.kernel.arena import Arena
from tidelog.record.views import Buffer

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + struct.pack(">ii", 1, 1)
BLOCK_SIZE = 32 * 1024
MAX_EXPANSION = 64
"""A block's own length field is believed up to this ratio; the format itself cannot do better than about 22 to 1."""


def compress(payload: Buffer) -> bytearray:
    """One xerial stream."""
    out = bytearray(HEADER)
    view = memoryview(payload)
    for start in range(0, len(view), BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + BLOCK_SIZE]))
        out += len(block).to_bytes(4, "big")
        out += block
    return out


def decompress(payload: memoryview, arena: Arena, max_bytes: int) -> None:
    """Append a xerial stream, or one raw block, to `arena`."""
    end = arena.size + max_bytes
    if bytes(payload[: len(MAGIC)]) != MAGIC:
        _decompress_block(payload, arena, end, max_bytes)
        return
    if len(payload) < len(HEADER):
        raise DecompressionError("a snappy stream is cut off in its header", expected=f"{len(HEADER)} bytes", found=len(payload))
    at = len(HEADER)
    while at < len(payload):
        left = len(payload) - at - 4
        if left < 0:
            raise DecompressionError("a snappy stream is cut off", expected="a chunk length of 4 bytes", found=left + 4)
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        if size < 0 or size > left:
            raise DecompressionError("a snappy chunk's length is out of range", expected=f"0 to {left}", found=size)
        at += 4
        _decompress_block(payload[at : at + size], arena, end, max_bytes)
        at += size


def _decompress_block(block: memoryview, arena: Arena, end: int, max_bytes: int) -> None:
    if len(block) == 0:
        raise DecompressionError("an empty snappy block", expected="at least 1 byte", found=0)
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if arena.size + size > end:
            raise PayloadTooLargeError(max_bytes=max_bytes, found=arena.size + size - end + max_bytes)
        if size > MAX_EXPANSION * len(block):
            raise DecompressionError(
                "a snappy block's length cannot be", expected=f"at most {MAX_EXPANSION * len(block)} bytes", found=size
            )
        written: int = cramjam.snappy.decompress_raw_into(block, arena.reserve(size)) if size else 0
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"bad snappy block ({error})") from error
    if written != size:
        raise DecompressionError("a snappy block is short", expected=f"{size} bytes", found=written)
    arena.size += size
