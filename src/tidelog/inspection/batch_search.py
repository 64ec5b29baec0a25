"""Find the next batch behind damage.

Where a size or the magic cannot be, nothing says where the next batch starts. So every byte is tried: a magic, a size that fits the file,
an offset that fits the segment, and then the CRC, which is the proof: CRC-32C of a v2 batch, CRC-32 of an old message. Only the CRC costs
more than a look, and a budget bounds it, since somebody may have written a file in which every byte looks like the start of a batch.
"""

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.log.batch_checksum import MAGIC_POSITION, checksums_in_file
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.layout import ATTRIBUTES_POSITION, HEADER, HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD

WINDOW = 1 << 20
CRC_BYTES_PER_BYTE = 16
"""How many bytes may be checked by their CRC for each byte that is searched, beside the first megabytes."""
MIN_LEGACY_SIZE = 26
_FREE_CRC_BYTES = 16 << 20
_MIN_SIZES = np.array((MIN_LEGACY_SIZE, 34, HEADER_SIZE), np.int64)
"""Of a batch by its magic."""
_LEGACY_ATTRIBUTES = 17
_LEGACY_KEYS = np.array((18, 26), np.int64)
"""Where the length of the key stands, by magic: version 1 has a timestamp before it."""
_LEGACY_ATTRIBUTE_VALUES = (4, 12)
"""Attributes are below: three codecs, and the type of the timestamp from version 1 on."""


class Search:
    """Searches of one file, which share their budget."""

    def __init__(self, disk: Disk, fd: int, base_offset: int) -> None:
        self._disk = disk
        self._fd = fd
        self._highest = base_offset + MAX_RELATIVE_OFFSET
        self._left = _FREE_CRC_BYTES
        """Bytes whose CRC may still be worked out; earned by the bytes that are gone through."""

    def find(self, start: int, stop: int, end: int, *, above: int, with_legacy: bool) -> int | None:
        """The position of the first sound batch that starts in [start, stop) and ends by `end`; None if there is none.

        Its offset must lie above `above` and within reach of the segment's base. Old messages count only if they are asked for.
        """
        while start < stop:
            window = self._disk.read(self._fd, min(WINDOW, stop - start) + HEADER_SIZE, start)
            here = min(len(window) - MIN_LEGACY_SIZE + 1, WINDOW, stop - start)
            if here <= 0:
                return None
            self._left += CRC_BYTES_PER_BYTE * here
            for at in _candidates(window, here, end - start, above, self._highest, with_legacy):
                header = window[at : at + HEADER_SIZE]
                size = int.from_bytes(header[LENGTH_POSITION : LENGTH_POSITION + 4], "big") + LOG_OVERHEAD
                self._left -= size
                if self._left < 0:
                    return None
                if has_good_crc(self._disk, self._fd, header, start + at, size, magic=header[MAGIC_POSITION]):
                    return start + at
            start += here
        return None


def has_good_crc(disk: Disk, fd: int, header: bytes, position: int, size: int, *, magic: int) -> bool:
    """Whether the CRC of a batch in a file matches, if it is one of this magic: that of a v2 batch is not covered by it."""
    stored, computed = checksums_in_file(disk, fd, header, position, size, magic=magic)
    return stored == computed


def is_plausible(header: bytes, *, above: int, highest: int) -> bool:
    """Whether a v2 batch could begin so: nothing that its CRC covers is known to be right."""
    if len(header) < HEADER_SIZE:
        return False
    base_offset, length, _, magic, _, _, delta, *_, count = HEADER.unpack_from(header)
    return bool(magic == 2 and length >= HEADER_SIZE - LOG_OVERHEAD and above < base_offset <= highest and delta >= 0 and count >= 0)


def is_plausible_message(header: bytes, left: int, *, above: int, highest: int) -> bool:
    """Whether an old message could begin so, with so many bytes left of the file."""
    return bool(_candidates(header, 1, left, above, highest, True)) and header[MAGIC_POSITION] < 2


def _candidates(window: bytes, here: int, left: int, above: int, highest: int, with_legacy: bool) -> list[int]:
    """Where in the window a batch may start, by everything but its CRC; `left` is what the file has from the window's beginning on."""
    padded = window + bytes(HEADER_SIZE)  # the last message of a file may be shorter than a header of today
    data = np.frombuffer(padded, np.uint8)
    magic = data[MAGIC_POSITION : MAGIC_POSITION + here]
    lengths = np.ndarray(here, ">i4", padded, LENGTH_POSITION, (1,))  # the four bytes at each place, wherever it lies
    at = np.flatnonzero((magic <= 2 if with_legacy else magic == 2) & (lengths >= MIN_LEGACY_SIZE - LOG_OVERHEAD) & (lengths <= left))
    at = at[data[at] < 128]
    if len(at) == 0:
        return []
    magics = data[at + MAGIC_POSITION]
    offsets, sizes = _number(data, at, 8), lengths[at].astype(np.int64) + LOG_OVERHEAD
    fits = (offsets > above) & (offsets <= highest) & (sizes >= _MIN_SIZES[magics]) & (at + sizes <= left)
    v2 = fits & (magics == 2) & (data[at + ATTRIBUTES_POSITION + 2] < 128)  # the last offset delta is not negative
    legacy = fits & (magics < 2)
    if legacy.any():
        legacy &= _may_be_message(data, at, np.minimum(magics, 1), sizes)
    found: list[int] = at[v2 | legacy].tolist()
    return found


def _may_be_message(data: np.ndarray, at: np.ndarray, magics: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    key_length = _number(data, at + _LEGACY_KEYS[magics], 4).astype(np.uint32).astype(np.int32)
    holds: np.ndarray = (
        (data[at + _LEGACY_ATTRIBUTES] < np.array(_LEGACY_ATTRIBUTE_VALUES)[magics])
        & (data[at + _LEGACY_ATTRIBUTES] & 7 < 4)
        & (key_length >= -1)
        & (key_length <= sizes - _MIN_SIZES[magics])
    )
    return holds


def _number(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """Big-endian numbers without a sign at many places."""
    number = np.zeros(len(at), np.int64)
    for byte in range(size):
        number = (number << 8) | data[at + byte]
    return number
