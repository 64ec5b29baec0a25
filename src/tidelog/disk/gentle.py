"""A disk for reading much beside somebody who lives on it: so many bytes a second, and the page cache left as it was found.

What a bulk reader brings into the page cache drives out what a broker has there for its consumers. So before each read the system is asked
which pages are in memory already (`mincore`), and afterwards those that were not are given back (`POSIX_FADV_DONTNEED`). The system's own
reading ahead is turned off, since its pages would look as if somebody else had wanted them. Who may not write to a file is not told by
Linux what is in memory of it: then nothing is given back.

Without a rate nothing of this is done, and the disk only counts.
"""

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable

from tidelog.disk.disk import Disk

_PAGE = mmap.PAGESIZE
_CAN_ADVISE = hasattr(os, "posix_fadvise")
_BURST_S = 0.1
"""As much as this long a time allows may be read at once."""


class GentleDisk(Disk):
    """Reads as the real disk does, and tells `on_read` how much. Any thread may call it.

    With `bytes_per_s`, 0 for any rate, the page cache is left as it was.
    """

    def __init__(
        self,
        bytes_per_s: float | None = None,
        on_read: Callable[[int], None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.given_back_bytes = 0
        """What was read that was not in memory before, and is not any more."""
        self._on_read = on_read
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        self._lock = threading.Lock()

    def open(self, path: str, *, write: bool = False) -> int:
        """See `Disk.open`."""
        return self._advised(super().open(path, write=write))

    def open_plain(self, path: str) -> int:
        """See `Disk.open_plain`."""
        return self._advised(super().open_plain(path))

    def read(self, fd: int, size: int, position: int) -> bytes:
        """See `Disk.read`."""
        if self.bytes_per_s is None:
            data = os.pread(fd, size, position)
            self._count(len(data))
            return data
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self._read_gently(fd, memoryview(buffer), position)])

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """See `Disk.read_into`."""
        if self.bytes_per_s is None:
            done = super().read_into(fd, buffer, position)
            self._count(done)
            return done
        return self._read_gently(fd, buffer, position)

    def _read_gently(self, fd: int, buffer: memoryview, position: int) -> int:
        step = max(1 << 16, int((self.bytes_per_s or (1 << 30)) * _BURST_S))
        done = 0
        while done < len(buffer):
            part = buffer[done : done + step]
            read = self._read_part(fd, part, position + done)
            self._count(read)
            done += read
            if read < len(part):
                break
        return done

    def _read_part(self, fd: int, part: memoryview, position: int) -> int:
        self._wait_for(len(part))
        absent = absent_runs(fd, position, len(part)) if _CAN_ADVISE else []
        read = super().read_into(fd, part, position)
        for start, size in absent:
            os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)
            self.given_back_bytes += size
        return read

    def _wait_for(self, size: int) -> None:
        if not self.bytes_per_s:
            return
        with self._lock:
            now = self._clock()
            wait_s = self._free_at - now
            self._free_at = max(now, self._free_at) + size / self.bytes_per_s
        if wait_s > 0:
            self._sleep(wait_s)

    def _count(self, size: int) -> None:
        if self._on_read is not None:
            self._on_read(size)

    def _advised(self, fd: int) -> int:
        if self.bytes_per_s is not None and _CAN_ADVISE:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return fd


def absent_runs(fd: int, position: int, size: int) -> list[tuple[int, int]]:
    """Where pages of a range of a file are not in memory: start and length, in whole pages. Nothing where that cannot be asked."""
    start = position - position % _PAGE
    length = min(position + size, os.fstat(fd).st_size) - start
    if length <= 0:
        return []
    try:
        mapped = mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=start)
    except (OSError, ValueError):
        return []
    try:
        answer = (ctypes.c_ubyte * -(-length // _PAGE))()
        view = (ctypes.c_ubyte * length).from_buffer(mapped)
        try:
            if _libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(length), answer) != 0:
                return []
        finally:
            del view
    finally:
        mapped.close()
    return _runs(bytes(answer), start)


def _runs(pages: bytes, start: int) -> list[tuple[int, int]]:
    """Runs of pages whose lowest bit is not set."""
    found: list[tuple[int, int]] = []
    flags = bytes(page & 1 for page in pages)
    at = flags.find(0)
    while at >= 0:
        end = flags.find(1, at)
        end = len(flags) if end < 0 else end
        found.append((start + at * _PAGE, (end - at) * _PAGE))
        at = flags.find(0, end)
    return found


_libc = ctypes.CDLL(None, use_errno=True)
