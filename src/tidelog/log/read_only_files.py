"""Files that somebody else owns, as a reader opens them: for reading only, and only if they still are the files that were listed.

A name does not say which file it is: while a segment is swapped, another file takes the name of the old one, with other bytes at the same
places. So a file is known by its inode, and one that was replaced since it was listed counts as one that is not there.
"""

import errno
import time

from tidelog.disk.disk import Disk, Seen
from tidelog.disk.file_pool import FilePool, OpenFile, PooledFile

_SETTLED_NS = 2_000_000_000
"""A change may leave the modification time as it is if it follows another at once; so a time younger than this proves nothing."""


class KnownFile(PooledFile):
    """A file that was seen in the directory; there is none if it was not."""

    __slots__ = ("inode",)

    def __init__(self, pool: FilePool, directory: str, seen: Seen | None) -> None:
        super().__init__(pool, f"{directory}/{seen.name}" if seen is not None else "")
        self.inode = seen.inode if seen is not None else -1

    @property
    def is_there(self) -> bool:
        """Whether there was such a file."""
        return self.inode >= 0

    def open(self) -> OpenFile:
        """The open file; `FileNotFoundError` if that name has gone, or belongs to another file by now."""
        opened = self._open
        if opened is None:
            opened = open_plain(self._pool, self.path)
            if self._pool.disk.inode(opened.fd) != self.inode:
                raise FileNotFoundError(errno.ENOENT, "replaced by another file since it was listed", self.path)
            self._open = opened
            self._pool.enter(self)
        self.is_recent = True
        return opened


def open_plain(pool: FilePool, path: str) -> OpenFile:
    """Open a file of the directory; if the process has no descriptor left, the pool gives up its own first."""
    try:
        fd = pool.disk.open_plain(path)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        pool.drop_all()
        fd = pool.disk.open_plain(path)
    return OpenFile(pool.disk, fd)


class Watch:
    """Whether a file or a directory has changed since it was last read, by its modification time."""

    __slots__ = ("_disk", "_is_settled", "_mtime_ns", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._mtime_ns = -2
        self._is_settled = False

    def has_changed(self) -> bool:
        """Whether it may have; asked before it is read."""
        try:
            mtime_ns = self._disk.mtime_ns(self.path)
        except FileNotFoundError:
            mtime_ns = -1
        is_same = mtime_ns == self._mtime_ns and (self._is_settled or mtime_ns == -1)
        self._mtime_ns = mtime_ns
        self._is_settled = time.time_ns() - mtime_ns > _SETTLED_NS
        return not is_same

    @property
    def mtime_ns(self) -> int:
        """As of the last time that it was asked."""
        return self._mtime_ns

    def forget(self) -> None:
        """What was read is not to be relied on."""
        self._mtime_ns = -2
