"""Find the next batch behind damage.

Every byte may be where one begins. What the header says is looked at for all of them at once: a length that fits the file, a format that
exists, a codec that exists, counts that can be. What passes is checked by its CRC, in order; the first that matches is the batch. Random
bytes pass about once in ten thousand, so the CRC, and only the CRC, decides, and little time goes into it.

The magic lies outside the CRC of a v2 batch. One with a rotten magic is found too, where its offset is one that the segment may have.
"""

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.record.layout import CRC_POSITION, HEADER_SIZE, LOG_OVERHEAD

_FIRST_WINDOW_BYTES, _WINDOW_BYTES = 1 << 14, 1 << 20
"""The next batch is near, mostly."""
_LEGACY_CRC_POSITION, _LEGACY_CRC_START, _CRC_START = 12, 16, 21
_SMALLEST = (26, 34, HEADER_SIZE)
"""A batch of magic 0, 1, 2."""
_MAX_BATCH_BYTES = (1 << 31) - 1 + LOG_OVERHEAD
_HEAD = struct.Struct(">qi4xb")


class FoundAt(NamedTuple):
    """A batch whose CRC is right."""

    position: int
    size_bytes: int
    magic: int
    """What it is; the byte in the file may be another."""
    is_magic_rotten: bool


def batch_at(reader: SalvageReader, position: int) -> FoundAt | None:
    """The batch that begins right here, if its CRC matches; also one whose magic is rotten."""
    head = reader.read(position, HEADER_SIZE)
    if len(head) < _SMALLEST[0]:
        return None
    _, length, magic = _HEAD.unpack_from(head)
    size = length + LOG_OVERHEAD
    if not _SMALLEST[0] <= size <= reader.size_bytes - position:
        return None
    if magic in (0, 1) and size >= _SMALLEST[magic]:
        wanted = int.from_bytes(head[_LEGACY_CRC_POSITION:16], "big")
        if reader.crc32.of(position + _LEGACY_CRC_START, position + size) == wanted:
            return FoundAt(position, size, magic, False)
    if size >= HEADER_SIZE and reader.crc32c.of(position + _CRC_START, position + size) == int.from_bytes(head[CRC_POSITION:21], "big"):
        return FoundAt(position, size, 2, magic != 2)
    return None


def find_batch_behind(reader: SalvageReader, position: int, lowest_offset: int, highest_offset: int) -> FoundAt | None:
    """The first batch from `position` on. Offsets are those that the segment may have; they bound what a rotten magic may hide."""
    size = _FIRST_WINDOW_BYTES
    while position + _SMALLEST[0] <= reader.size_bytes:
        window = reader.read(position, size + HEADER_SIZE)
        places = _plausible(window, reader.size_bytes - position, lowest_offset, highest_offset)
        for place in places.tolist():
            if place >= size:
                break
            found = batch_at(reader, position + place)
            if found is not None:
                return found
        position += size
        size = min(2 * size, _WINDOW_BYTES)
    return None


def _plausible(window: bytes, file_bytes: int, lowest_offset: int, highest_offset: int) -> NDArray[np.int64]:
    """Where in the window a batch may begin; `file_bytes` is what is left of the file from the window's beginning on."""
    padded = np.frombuffer(window + bytes(HEADER_SIZE), np.uint8)
    count = len(window) - _SMALLEST[0] + 1
    if count <= 0:
        return np.empty(0, np.int64)
    lengths = np.ndarray(count, ">i4", window, 8, (1,))  # the four bytes at each place, wherever it lies
    starts = np.flatnonzero((lengths >= _SMALLEST[0] - LOG_OVERHEAD) & (lengths <= min(file_bytes, _MAX_BATCH_BYTES) - LOG_OVERHEAD))
    starts = starts[lengths[starts] <= file_bytes - LOG_OVERHEAD - starts]
    size, magic = _int32(padded, starts + 8) + LOG_OVERHEAD, padded[starts + 16]
    legacy = starts[(magic < 2) & _may_be_legacy(padded, starts, size, magic)]
    is_v2 = (size >= HEADER_SIZE) & _may_be_v2(padded, starts, size)
    has_magic = starts[is_v2 & (magic == 2)]
    rotten = starts[is_v2 & (magic != 2)]
    offsets = _int64(padded, rotten)
    rotten = rotten[(offsets >= lowest_offset) & (offsets < highest_offset)]
    return np.unique(np.concatenate((legacy, has_magic, rotten)))


def _may_be_v2(padded: NDArray[np.uint8], starts: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    codec = padded[starts + 22] & 7
    delta = _int32(padded, starts + 23)
    count = _int32(padded, starts + 57)
    holds: NDArray[np.bool_] = (codec <= 4) & (delta >= 0) & (count >= 0) & ((codec > 0) | (count * 7 <= size - HEADER_SIZE))
    return holds


def _may_be_legacy(
    padded: NDArray[np.uint8], starts: NDArray[np.int64], size: NDArray[np.int64], magic: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    attributes = padded[starts + 17]
    key_length = _int32(padded, starts + np.where(magic == 1, 26, 18))
    holds: NDArray[np.bool_] = (
        (attributes < 16)
        & (attributes & 7 <= 3)
        & (key_length >= -1)
        & (key_length <= size)
        & (size >= np.where(magic == 1, _SMALLEST[1], _SMALLEST[0]))
    )
    return holds


def _int32(padded: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    raw = (padded[at].astype(np.uint32) << 24) | (padded[at + 1].astype(np.uint32) << 16)
    raw |= (padded[at + 2].astype(np.uint32) << 8) | padded[at + 3]
    return raw.view(np.int32).astype(np.int64)


def _int64(padded: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    return (_int32(padded, at) << 32) | (_int32(padded, at + 4) & 0xFFFFFFFF)
