"""The CRC of a batch that lies in a file, whatever its size: it is read piece by piece."""

import zlib
from collections.abc import Callable

from crc32c import crc32c

from tidelog.disk.disk import Disk
from tidelog.record.layout import ATTRIBUTES_POSITION, CRC_POSITION

MAGIC_POSITION = 16
_LEGACY_CRC_POSITION, _LEGACY_CRC_START = 12, 16
_READ_BYTES = 1 << 20


def checksums_in_file(disk: Disk, fd: int, header: bytes, position: int, size_bytes: int, *, magic: int) -> tuple[int, int]:
    """The CRC of a batch as its header has it, and as its bytes in the file have it."""
    if magic < 2:
        stored = int.from_bytes(header[_LEGACY_CRC_POSITION:_LEGACY_CRC_START], "big")
        return stored, _checksum(disk, fd, position + _LEGACY_CRC_START, position + size_bytes, zlib.crc32)
    stored = int.from_bytes(header[CRC_POSITION:ATTRIBUTES_POSITION], "big")
    return stored, _checksum(disk, fd, position + ATTRIBUTES_POSITION, position + size_bytes, crc32c)


def _checksum(disk: Disk, fd: int, start: int, end: int, crc: Callable[[bytes, int], int]) -> int:
    """Of a part of a file. One that ends before has none: -1."""
    checksum = 0
    while start < end:
        piece = disk.read(fd, min(_READ_BYTES, end - start), start)
        if not piece:
            return -1
        checksum = crc(piece, checksum)
        start += len(piece)
    return checksum
