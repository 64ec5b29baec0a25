"""A disk that counts the calls that change something, and fails at one of them."""

import errno
from collections.abc import Sequence

from tidelog.disk.disk import Buffer, Disk


class FailingDisk(Disk):
    """`calls` lists what was asked for; call number `fail_at` raises, and so do those behind it while `goes_on`."""

    def __init__(self, fail_at: int | None = None, *, goes_on: bool = False) -> None:
        self.fail_at = fail_at
        self.goes_on = goes_on
        self.calls: list[str] = []

    def _count(self, call: str) -> None:
        number = len(self.calls)
        self.calls.append(call)
        if self.fail_at is not None and (number == self.fail_at or (self.goes_on and number > self.fail_at)):
            raise OSError(errno.EIO, f"no {call}")

    def create(self, path: str, *, exclusive: bool = True) -> int:
        self._count("create")
        return super().create(path, exclusive=exclusive)

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        self._count("write")
        return super().write_some(fd, parts, position)

    def sync(self, fd: int) -> None:
        self._count("sync")
        super().sync(fd)

    def sync_directory(self, path: str) -> None:
        self._count("sync_directory")
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._count("remove")
        super().remove(path)

    def make_directory(self, path: str) -> None:
        self._count("make_directory")
        super().make_directory(path)

    def lock(self, path: str) -> int:
        self._count("lock")
        return super().lock(path)

    def read_file(self, path: str) -> bytes:
        self._count("read_file")
        return super().read_file(path)


REPLACE = ["create", "write", "sync", "rename", "sync_directory"]
"""What it takes to replace a small file."""
