"""Find the next batch behind damage.

Where a size or the magic cannot be, nothing says where the next batch starts. So every byte is tried: magic 2, a size that fits the file, a
base offset that fits the segment, and then the CRC. Only the last costs more than a look, and a budget bounds it, since somebody may have
written a file in which every byte looks like the start of a batch.
"""

import numpy as np
from crc32c import crc32c

from tidelog.disk.disk import Disk
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.layout import ATTRIBUTES_POSITION, CRC_POSITION, HEADER, HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD

WINDOW = 1 << 20
CRC_BYTES_PER_BYTE = 16
"""How many bytes may be checked by their CRC for each byte that is searched, beside the first megabytes."""
_FREE_CRC_BYTES = 16 << 20
_MAGIC_POSITION = 16


class Budget:
    """Work that may still be done on a file; it is earned by the bytes that are gone through."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _FREE_CRC_BYTES

    def earn(self, size_bytes: int) -> None:
        """So many bytes were searched."""
        self.left += CRC_BYTES_PER_BYTE * size_bytes

    def spend(self, size_bytes: int) -> bool:
        """Whether so many bytes may be read."""
        self.left -= size_bytes
        return self.left >= 0


def find_batch(disk: Disk, fd: int, start: int, stop: int, end: int, *, base_offset: int, above: int, budget: Budget) -> int | None:
    """The position of the first sound v2 batch that starts in [start, stop) and ends by `end`; None if there is none.

    Its base offset must lie above `above` and within reach of the segment's.
    """
    highest = base_offset + MAX_RELATIVE_OFFSET
    while start < stop:
        window = disk.read(fd, min(WINDOW, stop - start) + HEADER_SIZE, start)
        here = len(window) - HEADER_SIZE
        if here < 0:
            return None
        here = min(here + 1, stop - start)
        budget.earn(here)
        for at in _candidates(window, here, start, end, above, highest):
            size = int.from_bytes(window[at + LENGTH_POSITION : at + LENGTH_POSITION + 4], "big") + LOG_OVERHEAD
            if not budget.spend(size):
                return None
            checksum = int.from_bytes(window[at + CRC_POSITION : at + ATTRIBUTES_POSITION], "big")
            if checksum_of_file(disk, fd, start + at + ATTRIBUTES_POSITION, start + at + size) == checksum:
                return start + at
        start += here
    return None


def checksum_of_file(disk: Disk, fd: int, start: int, end: int) -> int:
    """The CRC-32C of a part of a file, a piece at a time. A file that ends before gives another one."""
    checksum = 0
    while start < end:
        piece = disk.read(fd, min(WINDOW, end - start), start)
        if not piece:
            return -1
        checksum = crc32c(piece, checksum)
        start += len(piece)
    return checksum


def is_plausible(header: bytes, *, above: int, highest: int) -> bool:
    """Whether a v2 batch could begin so: nothing that its CRC covers is known to be right."""
    if len(header) < HEADER_SIZE:
        return False
    base_offset, length, _, magic, _, _, delta, *_, count = HEADER.unpack_from(header)
    return bool(magic == 2 and length >= HEADER_SIZE - LOG_OVERHEAD and above < base_offset <= highest and delta >= 0 and count >= 0)


def _candidates(window: bytes, here: int, start: int, end: int, above: int, highest: int) -> list[int]:
    """Where in the window a batch may start, by everything but its CRC."""
    data = np.frombuffer(window, np.uint8)
    at = np.flatnonzero(data[_MAGIC_POSITION : _MAGIC_POSITION + here] == 2)
    at = at[(data[at] < 128) & (data[at + LENGTH_POSITION] < 128) & (data[at + ATTRIBUTES_POSITION + 2] < 128)]
    if len(at) == 0:
        return []
    base_offsets = _number(data, at, 8)
    sizes = _number(data, at + LENGTH_POSITION, 4) + LOG_OVERHEAD
    fits = (base_offsets > above) & (base_offsets <= highest) & (sizes >= HEADER_SIZE) & (start + at + sizes <= end)
    found: list[int] = at[fits].tolist()
    return found


def _number(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """Big-endian numbers without a sign at many places."""
    number = np.zeros(len(at), np.int64)
    for byte in range(size):
        number = (number << 8) | data[at + byte]
    return number
