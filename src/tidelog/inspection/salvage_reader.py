"""Read a damaged file: what the disk refuses is zeros, and the CRC of any stretch costs the same, however long it is.

A sector that cannot be read is damage like any other. It is asked for once; its place is remembered, and its bytes count as zeros. A batch
that lies over it does not have the CRC it should have, unless it was zeros there.

Behind damage, a length that lies may claim any number of bytes. To check the CRC of what it claims by reading all of it would cost the
size of the file for every lie. So the CRC of everything before each block is kept, from which that of any stretch follows:

    crc(B) = crc(A B) xor crc(A) * x^(8 * len(B))        in the polynomials over GF(2), modulo the CRC's own

Every byte of a file is then read once for all lies together, and each of them costs two blocks.
"""

import errno
import zlib
from bisect import bisect_right
from collections.abc import Sequence

from crc32c import crc32c

from tidelog.disk.disk import Disk

SECTOR_BYTES = 4096
BLOCK_BYTES = 128 * 1024
_UNREADABLE = (errno.EIO, errno.EBADMSG)
_CRC32C_POLYNOMIAL, _CRC32_POLYNOMIAL = 0x82F63B78, 0xEDB88320
_POWERS = 40


class SalvageReader:
    """One file, open for reading. Close it."""

    def __init__(self, disk: Disk, path: str, unreadable: Sequence[tuple[int, int]] = ()) -> None:
        self._disk = disk
        self.path = path
        self._fd = disk.open(path)
        self.size_bytes = disk.size(self._fd)
        self._bad_sectors = {sector for start, end in unreadable for sector in range(start // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1)}
        """Not asked for again: a disk may take seconds to refuse."""
        self.crc32c = RangeChecksum(self, is_legacy=False)
        """Of v2 batches."""
        self.crc32 = RangeChecksum(self, is_legacy=True)
        """Of legacy messages."""

    def close(self) -> None:
        """Let go of the file."""
        self._disk.close(self._fd)

    def read(self, position: int, size: int) -> bytes:
        """The bytes from `position` on, fewer at the end of the file; zeros where the disk refuses."""
        size = max(0, min(size, self.size_bytes - position))
        if self._bad_sectors and self._touches_bad(position, size):
            return self._read_around(position, size)
        try:
            data = self._read_all(position, size)
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            return self._read_around(position, size)
        return data

    def unreadable(self) -> list[tuple[int, int]]:
        """Where the disk refused: first byte and the one behind the last, of each stretch."""
        ranges: list[tuple[int, int]] = []
        for sector in sorted(self._bad_sectors):
            start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, self.size_bytes)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
        return ranges

    def _touches_bad(self, position: int, size: int) -> bool:
        first, last = position // SECTOR_BYTES, (position + size) // SECTOR_BYTES
        if last - first > len(self._bad_sectors):
            return any(first <= sector <= last for sector in self._bad_sectors)
        return any(sector in self._bad_sectors for sector in range(first, last + 1))

    def _read_all(self, position: int, size: int) -> bytes:
        parts, done = [], 0
        while done < size:
            part = self._disk.read(self._fd, size - done, position + done)
            if not part:
                parts.append(bytes(size - done))  # the file was cut while it is read
                break
            parts.append(part)
            done += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_around(self, position: int, size: int) -> bytes:
        """Halve what cannot be read until it is a sector; that is left out."""
        if size == 0:
            return b""
        first, last = position // SECTOR_BYTES, (position + size - 1) // SECTOR_BYTES
        if first == last and first in self._bad_sectors:
            return bytes(size)
        if first == last or not self._touches_bad(position, size):
            try:
                return self._read_all(position, size)
            except OSError as error:
                if error.errno not in _UNREADABLE:
                    raise
                if first == last:
                    self._bad_sectors.add(first)
                    return bytes(size)
        middle = (first + last + 1) // 2 * SECTOR_BYTES
        return self._read_around(position, middle - position) + self._read_around(middle, position + size - middle)


class RangeChecksum:
    """The CRC of any stretch of a file."""

    def __init__(self, reader: SalvageReader, *, is_legacy: bool) -> None:
        self._reader = reader
        self._is_legacy = is_legacy
        self._prefixes = [0]
        """The CRC of everything before each block, as far as it was asked for."""
        self._shift = _Shift(_CRC32_POLYNOMIAL if is_legacy else _CRC32C_POLYNOMIAL)

    def of(self, start: int, end: int) -> int:
        """The CRC of the bytes from `start` up to `end`."""
        if end - start <= BLOCK_BYTES:
            return self._continue(0, self._reader.read(start, end - start))
        return self._before(end) ^ self._shift.by(self._before(start), end - start)

    def _continue(self, checksum: int, data: bytes) -> int:
        return zlib.crc32(data, checksum) if self._is_legacy else int(crc32c(data, checksum))

    def _before(self, position: int) -> int:
        block = position // BLOCK_BYTES
        prefixes = self._prefixes
        while len(prefixes) <= block:
            start = (len(prefixes) - 1) * BLOCK_BYTES
            prefixes.append(self._continue(prefixes[-1], self._reader.read(start, BLOCK_BYTES)))
        start = block * BLOCK_BYTES
        return self._continue(prefixes[block], self._reader.read(start, position - start))


class _Shift:
    """Multiply a CRC by x^(8 n), which is what n bytes behind it do to it. Bits are reflected: the highest is x^0."""

    def __init__(self, polynomial: int) -> None:
        self._polynomial = polynomial
        power = 1 << 23  # x^8: one byte
        self._powers = [power]
        for _ in range(_POWERS):
            power = self._times(power, power)
            self._powers.append(power)

    def by(self, checksum: int, size: int) -> int:
        place = 0
        while size:
            if size & 1:
                checksum = self._times(self._powers[place], checksum)
            size >>= 1
            place += 1
        return checksum

    def _times(self, a: int, b: int) -> int:
        product = 0
        while a:
            if a & 0x80000000:
                product ^= b
            a = (a << 1) & 0xFFFFFFFF
            b = (b >> 1) ^ self._polynomial if b & 1 else b >> 1
        return product


def merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order, those that touch each other as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def overlaps(ranges: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether any of the stretches, which are in order, has a byte in [start, end)."""
    place = bisect_right(ranges, (start, 1 << 63))
    return (place > 0 and ranges[place - 1][1] > start) or (place < len(ranges) and ranges[place][0] < end)
