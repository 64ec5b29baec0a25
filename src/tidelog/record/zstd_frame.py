"""Zstd frames, walked block by block without decompressing: the library's stream reader takes a frame that is cut off for the end.

frame header      2 to 18 bytes, the library knows
blocks            3 bytes each, little-endian: bit 0 last, bits 1-2 type (0 raw, 1 one byte repeated, 2 compressed), then size; data
checksum          4 bytes, if the header's descriptor has bit 2
"""

import zstandard

from tidelog.errors import DecompressionError

SKIPPABLE_MAGIC, SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
CHECKSUM_BIT = 0x04
DESCRIPTOR_POSITION = 4
BLOCK_HEADER_SIZE = 3
REPEATED, RESERVED = 1, 3


def check_zstd_frames(payload: memoryview) -> None:
    """Raise unless `payload` is whole frames and nothing else."""
    at = 0
    while True:
        at = _frame_end(payload, at)
        if at > len(payload):
            raise DecompressionError("a zstd stream is cut off", expected=f"at least {at} bytes", found=len(payload))
        if at == len(payload):
            return


def _frame_end(payload: memoryview, at: int) -> int:
    """Where the frame at `at` ends, or would end."""
    magic = int.from_bytes(payload[at : at + 4], "little")
    if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC:
        return at + 8 + int.from_bytes(payload[at + 4 : at + 8], "little")
    header_size = zstandard.frame_header_size(payload[at:])
    has_checksum = payload[at + DESCRIPTOR_POSITION] & CHECKSUM_BIT
    at += header_size
    while True:
        header = int.from_bytes(payload[at : at + BLOCK_HEADER_SIZE], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == RESERVED:
            raise DecompressionError("bad zstd stream (a block of the reserved type)", expected="type 0, 1 or 2", found=kind)
        at += BLOCK_HEADER_SIZE + (1 if kind == REPEATED else size)
        if at > len(payload):
            return at
        if header & 1:
            return at + (4 if has_checksum else 0)
