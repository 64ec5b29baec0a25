"""Open files and maps, at most so many at a time, however many segments a log has.

To use a file is to hold a reference to its `OpenFile` or `OpenMap`: that is the pin. The pool only ever drops its own reference, so a
file that somebody is reading stays open until the reading is done, also when it was deleted meanwhile, and no lock is taken to read.
A name is not a file: while a segment is swapped another one takes its name. Who renames a file says so to its owner before anything else
gets the name it had, so what was opened by a name that the owner still has is the owner's (`FilePool.open_own`).
Files that are written to are opened by `open_for_writing` and belong to whoever holds them; the pool does not count them.
"""

import errno
import mmap
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

from tidelog.disk.disk import OS, Disk

DEFAULT_MAX_OPEN = 400
"""Files and maps together. A map holds a descriptor too; 1,024 descriptors is the usual limit of a process."""


class OpenFile:
    """A descriptor that is closed when nobody refers to it any more: keep the object in a variable while using its `fd`."""

    __slots__ = ("_disk", "fd")

    def __init__(self, disk: Disk, fd: int) -> None:
        self.fd = fd
        self._disk = disk

    def __del__(self) -> None:
        self._disk.close(self.fd)


class OpenMap:
    """The beginning of a file in memory, to read."""

    __slots__ = ("_map", "view")

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self.view = memoryview(mapped)


class Named(Protocol):
    """Who owns a file, and knows what it is called now."""

    path: str


class PooledFile:
    """A file by its path, open or not. The owner changes `path` when it renames the file."""

    __slots__ = ("_open", "_pool", "is_recent", "path")

    def __init__(self, pool: "FilePool", path: str) -> None:
        self._pool = pool
        self.path = path
        self._open: OpenFile | None = None
        self.is_recent = False

    def open(self) -> OpenFile:
        """The open file; hold it while using it. Raises `FileNotFoundError` if it was deleted before it was opened."""
        opened = self._open
        if opened is None:
            opened = self._pool.open_own(self)
            self._open = opened
            self._pool.enter(self)
        self.is_recent = True
        return opened

    def keep(self, opened: OpenFile) -> None:
        """Go on with a file that is open already, the writer's, and let the pool close it in time."""
        self._open = opened
        self._pool.enter(self)

    def drop(self) -> None:
        """Let go of the open file."""
        self._open = None


class PooledMap:
    """The map of a file, made anew when more of the file is asked for than was mapped."""

    __slots__ = ("_open", "_pool", "is_recent", "path")

    def __init__(self, pool: "FilePool", path: str) -> None:
        self._pool = pool
        self.path = path
        self._open: OpenMap | None = None
        self.is_recent = False

    def view(self, size: int) -> memoryview:
        """At least the first `size` bytes, which the file must have; hold the view while using it."""
        opened = self._open
        if opened is None or len(opened.view) < size:
            opened = self._pool.open_map(self, size)
            self._open = opened
            self._pool.enter(self)
        self.is_recent = True
        return opened.view

    def drop(self) -> None:
        """Let go of the map."""
        self._open = None


class FilePool:
    """The pool, shared by all logs of a process. Its methods may be called from any thread."""

    def __init__(self, disk: Disk = OS, max_open: int = DEFAULT_MAX_OPEN) -> None:
        self.disk = disk
        self.max_open = max_open
        self._lock = threading.Lock()
        self._owners: deque[PooledFile | PooledMap] = deque()
        _pools.add(self)

    def disown(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()

    def open_file(self, path: str) -> OpenFile:
        """Open for reading; if the process has no descriptor left, the pool gives up its own first."""
        try:
            fd = self.disk.open(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self.drop_all()
            fd = self.disk.open(path)
        return OpenFile(self.disk, fd)

    def open_own(self, owner: Named) -> OpenFile:
        """Open the file of an owner for reading, whatever it is called by then."""
        while True:
            path = owner.path
            opened = self.open_file(path)
            if owner.path == path:
                return opened

    def open_for_writing(self, path: str) -> OpenFile:
        """Open for reading and writing."""
        try:
            fd = self.disk.open(path, write=True)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self.drop_all()
            fd = self.disk.open(path, write=True)
        return OpenFile(self.disk, fd)

    def create(self, path: str, *, exclusive: bool = True) -> OpenFile:
        """Create a file and open it for reading and writing."""
        try:
            fd = self.disk.create(path, exclusive=exclusive)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self.drop_all()
            fd = self.disk.create(path, exclusive=exclusive)
        return OpenFile(self.disk, fd)

    def open_map(self, owner: Named, size: int) -> OpenMap:
        """Map the file of an owner up to its end, which must not lie before `size`."""
        opened = self.open_own(owner)
        while True:
            mapped_size = self.disk.size(opened.fd)
            if mapped_size < size:
                raise OSError(errno.EIO, f"the file ends at {mapped_size}, not at {size}", owner.path)
            try:
                return OpenMap(self.disk.map(opened.fd, mapped_size))
            except ValueError:
                continue  # what was preallocated has been cut off just now: it is shorter

    def enter(self, owner: PooledFile | PooledMap) -> None:
        """Count one more; close those that were not used for longest. An owner that was used since it was last looked at stays."""
        with self._lock:
            self._owners.append(owner)
            while len(self._owners) > self.max_open:
                oldest = self._owners.popleft()
                if oldest.is_recent and oldest is not owner:
                    oldest.is_recent = False
                    self._owners.append(oldest)
                else:
                    oldest.drop()

    def drop_all(self) -> None:
        """Let go of everything that is not in use."""
        with self._lock:
            while self._owners:
                self._owners.popleft().drop()

    @contextmanager
    def reading_by(self, disk: Disk) -> Iterator[None]:
        """By another disk while it lasts. For a process with one thing to do: what others have open goes on by the disk it had."""
        before, self.disk = self.disk, disk
        self.drop_all()
        try:
            yield
        finally:
            self.disk = before
            self.drop_all()

    @property
    def open_count(self) -> int:
        """How many files and maps the pool refers to, at most."""
        return len(self._owners)


_pools: "WeakSet[FilePool]" = WeakSet()


def _disown_all() -> None:
    for pool in list(_pools):
        pool.disown()


os.register_at_fork(after_in_child=_disown_all)

SHARED = FilePool()
"""The pool of this process."""
