"""Readers of other people's directories: a disk on which nothing can be changed, and what a directory looks like from outside."""

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tidelog.disk.disk import Buffer, Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.log.read_only import ReadOnlyLog, open_read_only


class ReadOnlyDisk(Disk):
    """The real one, but every call that changes anything raises, and so does mapping: the owner may cut what was mapped."""

    def open(self, path: str, *, write: bool = False) -> int:
        return self._refuse("open for writing") if write else super().open(path)

    def create(self, path: str, *, exclusive: bool = True) -> int:
        self._refuse("create")

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        self._refuse("write")

    def truncate(self, fd: int, size: int) -> None:
        self._refuse("truncate")

    def sync(self, fd: int) -> None:
        self._refuse("sync")

    def sync_directory(self, path: str) -> None:
        self._refuse("sync_directory")

    def rename(self, source: str, target: str) -> None:
        self._refuse("rename")

    def remove(self, path: str) -> None:
        self._refuse("remove")

    def make_directory(self, path: str) -> None:
        self._refuse("make_directory")

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        self._refuse("set_mtime")

    def map(self, fd: int, size: int) -> mmap.mmap:
        self._refuse("map")

    def lock(self, path: str) -> int:
        self._refuse("lock")

    def _refuse(self, what: str) -> NoReturn:
        raise AssertionError(f"a reader must not {what}")


class BrokersDisk(ReadOnlyDisk):
    """The same, but that a broker owns the directory, which publishes nothing of its own."""

    def open_plain(self, path: str) -> int:
        if path.endswith(PUBLISHED_END):
            raise vanished(path)
        return super().open_plain(path)


def open_reader(directory: Path, *, disk: Disk | None = None, max_open: int = 400, **options: Any) -> ReadOnlyLog:
    """A reader on a disk that refuses every change."""
    return open_read_only(directory, pool=FilePool(ReadOnlyDisk() if disk is None else disk, max_open), **options)


def state_of_files(directory: Path) -> dict[str, tuple[bytes | None, int, int]]:
    """Everything below a directory: content, modification time and inode; of directories the last two."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(directory))] = (content, status.st_mtime_ns, status.st_ino)
    return found


def checkpoint_watermark(directory: Path, offset: int) -> None:
    """Write the high watermark of a partition as a broker checkpoints it."""
    topic, _, partition = directory.name.rpartition("-")
    temporary = directory.parent / "replication-offset-checkpoint.tmp"
    temporary.write_text(f"0\n1\n{topic} {partition} {offset}\n")
    temporary.replace(directory.parent / "replication-offset-checkpoint")


def vanished(path: str) -> FileNotFoundError:
    """What opening a file says that has gone."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
