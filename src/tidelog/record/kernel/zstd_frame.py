"""Zstd as Kafka frames it: one frame, without content size and checksum. Others are read too, also several in a row.

frame header      2 to 18 bytes, the library knows
blocks            3 bytes each, little-endian: bit 0 last, bits 1-2 type (0 raw, 1 one byte repeated, 2 compressed), then size; data
checksum          4 bytes, if the header's descriptor has bit 2
"""

import threading

import zstandard

from tidelog.errors import DecompressionError, PayloadTooLargeError
from tidelog.record.kernel.arena import Arena
from tidelog.record.views import Buffer

SKIPPABLE_MAGIC, SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
CHECKSUM_BIT = 0x04
DESCRIPTOR_POSITION = 4
BLOCK_HEADER_SIZE = 3
REPEATED, RESERVED = 1, 3


class _Contexts(threading.local):
    """Contexts are costly to make and must not be shared between threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_contexts = _Contexts()


def compress(payload: Buffer, level: int) -> bytes:
    """One frame, as Kafka writes it."""
    compressor = _contexts.compressors.get(level)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False)
        _contexts.compressors[level] = compressor
    return compressor.compress(payload)


def decompress(payload: memoryview, arena: Arena, max_bytes: int) -> None:
    """Append the content of all frames to `arena`."""
    # A Kafka batch seldom shrinks to less than an eighth: one call with that much room serves nearly all of them.
    guess = min(max_bytes, max(32768, 8 * len(payload)))
    decompressor = _contexts.decompressor
    try:
        declared = zstandard.frame_content_size(payload)  # any 64 bits, so it has no C type; -1: not declared, as Kafka writes it
        if declared > max_bytes:
            raise PayloadTooLargeError(max_bytes=max_bytes, found=declared)
        if declared <= guess and declared != 0:  # the library looks no further than an empty frame
            # By position, since names cost a dictionary: not across frames, and nothing may follow.
            arena.append(decompressor.decompress(payload, guess, False, False))
            return
    except zstandard.ZstdError:
        pass  # no room, several frames, or bad bytes: the stream below tells which
    _decompress_stream(decompressor, payload, arena, max_bytes)


def _decompress_stream(decompressor: zstandard.ZstdDecompressor, payload: memoryview, arena: Arena, max_bytes: int) -> None:
    """Any number of frames, in pieces: a few bytes may stand for many, so the limit is looked at after each."""
    end = arena.size + max_bytes
    try:
        _check_frames(payload)
        with decompressor.stream_reader(payload, read_across_frames=True) as reader:
            while piece := reader.read(zstandard.BLOCKSIZE_MAX):
                arena.append(piece)
                if arena.size > end:
                    raise PayloadTooLargeError(max_bytes=max_bytes)
    except zstandard.ZstdError as error:
        raise DecompressionError(f"bad zstd stream ({error})") from error


def _check_frames(payload: memoryview) -> None:
    """Raise unless `payload` is whole frames and nothing else: the stream reader takes a frame that is cut off for the end."""
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
