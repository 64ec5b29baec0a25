"""LZ4 as Kafka frames it: the standard frame, independent blocks of 64 KiB, no checksums, no content size.

      0  magic 04 22 4d 18
      4  FLG = 60: version 1, blocks independent       5  BD = 40: blocks of at most 64 KiB
      6  HC = 82: second byte of XXH32 over FLG and BD (magic 0 batches: over the magic too, hence never checked there)
      7  blocks: size u32 (top bit: stored as it is), data;  a size of 0 ends the frame

Sizes are little-endian. The blocks are walked here and given to cramjam's block calls, which is faster than its frame calls. Frames of
other writers may carry a content size and checksums; those with checksums are left to cramjam's frame decoder, which verifies them.
"""

import struct

import cramjam

from tidelog.errors import DecompressionError, PayloadTooLargeError
from tidelog.record.kernel.arena import Arena
from tidelog.record.views import Buffer

MAGIC = b"\x04\x22\x4d\x18"
FRAME_MAGIC = 0x184D2204
HEADER = MAGIC + b"\x60\x40\x82"
END_MARK = b"\x00\x00\x00\x00"
BLOCK_SIZE = 64 * 1024
STORED_BIT = 0x80000000
FAST_LEVEL = 9
"""The level that means "the fast compressor" to Kafka; any other is a level of the high compression one."""

MIN_HIGH_LEVEL, MAX_HIGH_LEVEL = 3, 12
"""What liblz4 has of high compression levels; Kafka's 1 to 17 are clamped to them."""

VERSION_MASK, VERSION_1 = 0xC0, 0x40
INDEPENDENT_BIT = 0x20
BLOCK_CHECKSUM_BIT = 0x10
CONTENT_SIZE_BIT = 0x08
CONTENT_CHECKSUM_BIT = 0x04
RESERVED_BITS = 0x03

_SIZE = struct.Struct("<I")
_decompress_block_into = cramjam.lz4.decompress_block_into


def compress(payload: Buffer, level: int) -> bytearray:
    """One frame, as Kafka writes it."""
    out = bytearray(HEADER)
    view = memoryview(payload)
    for start in range(0, len(view), BLOCK_SIZE):
        raw = view[start : start + BLOCK_SIZE]
        if level == FAST_LEVEL:
            block: Buffer = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        else:
            block = _high_compression_block(raw, level)
        size = len(block)
        if size >= len(raw):
            block, size = raw, len(raw) | STORED_BIT
        out += _SIZE.pack(size)
        out += block
    out += END_MARK
    return out


def _high_compression_block(raw: memoryview, level: int) -> Buffer:
    """One block, taken out of a frame of its own: cramjam's block call knows the fast compressor only."""
    frame = memoryview(bytes(cramjam.lz4.compress(raw, level=min(max(level, MIN_HIGH_LEVEL), MAX_HIGH_LEVEL))))
    at, flags, _ = _read_header(frame, True)
    (size,) = _SIZE.unpack_from(frame, at)
    end = at + 4 + (size & ~STORED_BIT)
    behind = end + 4 if flags & BLOCK_CHECKSUM_BIT else end
    if frame[behind : behind + 4] != END_MARK:  # cramjam before 2.14 made several, and the first alone would lose the rest
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    return raw if size & STORED_BIT else frame[at + 4 : end]


def decompress(payload: memoryview, arena: Arena, max_bytes: int, check_header: bool) -> None:
    """Append one frame to `arena`; nothing may follow it."""
    data: memoryview = payload
    payload_size = len(data)
    if payload_size >= 7 and read_size(data, 0) == FRAME_MAGIC and data[4] == 0x60 and data[5] == 0x40 and data[6] == 0x82:
        at, flags, block_size = 7, 0x60, BLOCK_SIZE  # as Kafka writes it, and most others
    else:
        at, flags, block_size = _read_header(payload, check_header)
    if not flags & INDEPENDENT_BIT:
        raise DecompressionError(
            "an lz4 frame with dependent blocks, which Kafka refuses", expected="independent blocks", found=f"{flags:02x}"
        )
    if flags & (BLOCK_CHECKSUM_BIT | CONTENT_CHECKSUM_BIT):
        _decompress_checked(payload, arena, max_bytes)
        return
    end = arena.size + max_bytes
    while True:
        left = payload_size - at - 4
        if left < 0:
            raise DecompressionError("an lz4 frame is cut off", expected="a block size or end mark of 4 bytes", found=left + 4)
        size = read_size(data, at)
        at += 4
        if size == 0:
            break
        is_stored = size & STORED_BIT != 0
        size &= ~STORED_BIT
        if size > block_size or size > left:
            raise DecompressionError("an lz4 block's size is out of range", expected=f"0 to {min(block_size, left)}", found=size)
        block = payload[at : at + size]
        at += size
        if is_stored:
            arena.append(block)
        else:
            # LZ4 cannot expand more than 255 times, which bounds the room to make.
            room = min(block_size, 255 * size)
            try:
                arena.size += _decompress_block_into(block, arena.reserve(room), room)
            except cramjam.DecompressionError as error:
                raise DecompressionError(f"bad lz4 block ({error})") from error
        if arena.size > end:
            raise PayloadTooLargeError(max_bytes=max_bytes)
    if left:
        raise DecompressionError("bytes follow the lz4 frame", expected=f"its end at byte {payload_size} of the payload", found=at)


def read_size(data: memoryview, at: int) -> int:
    """Four bytes, least significant first."""
    u = data[at + 3]
    u = (u << 8) | data[at + 2]
    u = (u << 8) | data[at + 1]
    return (u << 8) | data[at]


def _read_header(view: memoryview, check_header: bool) -> tuple[int, int, int]:
    """(where the blocks start, the flags, the largest block)."""
    if len(view) < len(HEADER):
        raise DecompressionError("an lz4 frame is cut off in its header", expected=f"at least {len(HEADER)} bytes", found=len(view))
    if view[:4] != MAGIC:
        raise DecompressionError("not an lz4 frame", expected=f"the magic {MAGIC.hex()}", found=bytes(view[:4]).hex())
    flags, descriptor = view[4], view[5]
    if flags & VERSION_MASK != VERSION_1 or flags & RESERVED_BITS or descriptor & 0x8F:
        raise DecompressionError(
            "an lz4 frame with unknown flags", expected="version 1, no reserved bit", found=f"{flags:02x} {descriptor:02x}"
        )
    if not 4 <= descriptor >> 4 <= 7:
        raise DecompressionError("an lz4 frame with an unknown block size", expected="code 4 to 7", found=descriptor >> 4)
    end = 6 + (8 if flags & CONTENT_SIZE_BIT else 0)
    if len(view) <= end:
        raise DecompressionError("an lz4 frame is cut off in its header", expected=f"{end + 1} bytes", found=len(view))
    expected = _xxh32_of_header(bytes(view[4:end])) >> 8 & 0xFF
    if check_header and view[end] != expected:
        raise DecompressionError("an lz4 frame's header checksum does not match", expected=f"{expected:02x}", found=f"{view[end]:02x}")
    return end + 1, flags, 1 << (8 + 2 * (descriptor >> 4))


def _decompress_checked(payload: memoryview, arena: Arena, max_bytes: int) -> None:
    """A frame with checksums. The room for its output grows with what is really there."""
    most = min(max_bytes, 256 * len(payload))
    room = min(most, 8 * len(payload) + BLOCK_SIZE)
    while True:
        try:
            arena.size += cramjam.lz4.decompress_into(payload, arena.reserve(room))
            return
        except cramjam.DecompressionError as error:
            if room < most:
                room = min(most, 8 * room)
            elif room == max_bytes:
                raise PayloadTooLargeError(max_bytes=max_bytes) from error
            else:
                raise DecompressionError(f"bad lz4 frame ({error})") from error


def _xxh32_of_header(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all a frame header needs."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    h = (prime5 + len(data)) & mask
    at = 0
    while at + 4 <= len(data):
        h = (h + int.from_bytes(data[at : at + 4], "little") * prime3) & mask
        h = (((h << 17) | (h >> 15)) & mask) * prime4 & mask
        at += 4
    for byte in data[at:]:
        h = (h + byte * prime5) & mask
        h = (((h << 11) | (h >> 21)) & mask) * prime1 & mask
    h = (h ^ (h >> 15)) * prime2 & mask
    h = (h ^ (h >> 13)) * prime3 & mask
    return h ^ (h >> 16)
