"""A disk that fails when it is told to, over the real one or over another test disk.

    disk.fail(3)                                   the third call from now on raises EIO
    disk.fail(1, kind="sync", on=".log")           the next sync of a .log file does
    disk.fail(5, error=errno.ENOSPC, until_healed=True)
    disk.fail(1, kind="rename", moment="after")    the rename happens, and is reported as failed
    disk.shorten(2, size=10, then=errno.ENOSPC)    the second write takes ten bytes, the one after it fails
    disk.interrupt(4, moment="after")              KeyboardInterrupt behind the fourth call
    disk.run(1, release.wait, kind="sync")         anything else, as to hold a thread there
    disk.limit(4096)                               room for so many bytes more; what is cut or removed gives its room back
    disk.heal()                                    all of this is over

Each of these counts from the moment it is said, and only the calls that it is about. `calls` has all of them.
"""

import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from tidelog.disk.disk import OS, Buffer, Disk, Entry, Seen
from tidelog.errors import LockedError

KINDS = (
    "open",
    "create",
    "size",
    "read",
    "write",
    "truncate",
    "sync",
    "sync_directory",
    "rename",
    "link",
    "remove",
    "remove_directory",
    "make_directory",
    "list",
    "mtime",
    "set_mtime",
    "map",
    "lock",
)
"""What can fail. `close` can too, but only by name: the file is closed all the same."""

ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EDQUOT)
BLOCK_BYTES = 512

Moment = Literal["before", "after"]
T = TypeVar("T")


class Call(NamedTuple):
    """A call, and the path that it was about."""

    kind: str
    path: str


@dataclass(slots=True)
class _Order:
    """What to do at a call, and how many of the calls that it is about are left until then."""

    left: int
    kind: str | None
    on: str
    moment: Moment
    until_healed: bool
    action: Callable[[], object] | None
    """Usually raises."""
    short: int | None = None
    """Of a write: how many bytes it takes."""
    then: int | None = None

    def is_about(self, call: Call) -> bool:
        return (call.kind == self.kind if self.kind else call.kind in KINDS) and call.path.endswith(self.on)


class FaultyDisk(Disk):
    """Passes every call on to `inner`, and fails as ordered. Any thread may call it."""

    def __init__(self, inner: Disk = OS) -> None:
        self._inner = inner
        self._lock = threading.RLock()
        self._orders: list[_Order] = []
        self._opened: dict[int, str] = {}
        self._room = _Room()
        self.calls: list[Call] = []
        self.fired: list[Call] = []
        """The calls at which something happened."""

    def fail(
        self,
        nth: int,
        *,
        error: int = errno.EIO,
        kind: str | None = None,
        on: str = "",
        until_healed: bool = False,
        moment: Moment = "before",
    ) -> None:
        """Let the nth call (of a kind, of paths that end in `on`) raise `error`, and all such calls after it if `until_healed`."""

        def raise_error() -> None:
            raise OSError(error, f"{os.strerror(error)} (ordered by a test)")

        self._order(_Order(nth, kind, on, moment, until_healed, raise_error))

    def interrupt(self, nth: int, *, kind: str | None = None, on: str = "", moment: Moment = "before") -> None:
        """Raise KeyboardInterrupt before or behind the nth call. What the call returned is lost; a file that it opened is closed."""

        def raise_interrupt() -> None:
            raise KeyboardInterrupt

        self._order(_Order(nth, kind, on, moment, False, raise_interrupt))

    def run(self, nth: int, action: Callable[[], object], *, kind: str | None = None, on: str = "", moment: Moment = "before") -> None:
        """Call something before or behind the nth call, in its thread."""
        self._order(_Order(nth, kind, on, moment, False, action))

    def shorten(self, nth: int, *, size: int, on: str = "", then: int | None = None) -> None:
        """Let the nth write take only `size` bytes; the next one of the same path raises `then`, or goes on if that is None."""
        self._order(_Order(nth, "write", on, "before", False, None, short=size, then=then))

    def limit(self, free_bytes: int) -> None:
        """Leave room for so many bytes, in blocks of 512. A write takes what fits, and raises ENOSPC when nothing does."""
        with self._lock:
            self._room.free_blocks = free_bytes // BLOCK_BYTES

    def heal(self) -> None:
        """Forget all orders and the limit."""
        with self._lock:
            self._orders = []
            self._room.free_blocks = None

    def count(self, kind: str | None = None, on: str = "") -> int:
        """How many calls there were that an order without number would be about."""
        order = _Order(0, kind, on, "before", False, None)
        return sum(order.is_about(call) for call in tuple(self.calls))

    def open(self, path: str, *, write: bool = False) -> int:
        return self._opening(Call("open", path), lambda: self._inner.open(path, write=write))

    def open_plain(self, path: str) -> int:
        return self._opening(Call("open", path), lambda: self._inner.open_plain(path))

    def inode(self, fd: int) -> int:
        return self._inner.inode(fd)

    def create(self, path: str, *, exclusive: bool = True) -> int:
        def work() -> int:
            with self._lock:
                self._room.file_at(path)
                fd = self._inner.create(path, exclusive=exclusive)
                self._room.cut(fd, 0)
                return fd

        return self._opening(Call("create", path), work)

    def lock(self, path: str) -> int:
        return self._opening(Call("lock", path), lambda: self._inner.lock(path))

    def close(self, fd: int) -> None:
        def work() -> None:
            with self._lock:
                self._opened.pop(fd, None)
                self._room.close(fd)
                self._inner.close(fd)

        call = Call("close", self._path(fd))
        order = self._begin(call, "before", "after")
        work()
        self._act(order)

    def size(self, fd: int) -> int:
        return self._calling(Call("size", self._path(fd)), lambda: self._inner.size(fd))

    def read(self, fd: int, size: int, position: int) -> bytes:
        return self._calling(Call("read", self._path(fd)), lambda: self._inner.read(fd, size, position))

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        return self._calling(Call("read", self._path(fd)), lambda: self._inner.read_into(fd, buffer, position))

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        call = Call("write", self._path(fd))
        before = self._begin(call, "before")
        short: int | None = None
        if before is not None and before.short is not None:
            short = before.short
            if before.then is not None:
                self.fail(1, error=before.then, kind="write", on=call.path)
        else:
            self._act(before)
        written = self._write(fd, parts, position, short)
        self._act(self._begin(call, "after"))
        return written

    def truncate(self, fd: int, size: int) -> None:
        def work() -> None:
            with self._lock:
                self._room.see(fd)
                self._inner.truncate(fd, size)
                self._room.cut(fd, size)

        self._calling(Call("truncate", self._path(fd)), work)

    def sync(self, fd: int) -> None:
        self._calling(Call("sync", self._path(fd)), lambda: self._inner.sync(fd))

    def sync_directory(self, path: str) -> None:
        self._calling(Call("sync_directory", path), lambda: self._inner.sync_directory(path))

    def rename(self, source: str, target: str) -> None:
        def work() -> None:
            with self._lock:
                replaced = self._room.file_at(target)
                self._inner.rename(source, target)
                self._room.unlink(replaced)
                for fd, path in self._opened.items():
                    if path == source:
                        self._opened[fd] = target

        self._calling(Call("rename", target), work)

    def link(self, path: str, name: str) -> None:
        self._calling(Call("link", name), lambda: self._inner.link(path, name))

    def remove(self, path: str) -> None:
        def work() -> None:
            with self._lock:
                removed = self._room.file_at(path)
                self._inner.remove(path)
                self._room.unlink(removed)

        self._calling(Call("remove", path), work)

    def remove_directory(self, path: str) -> None:
        self._calling(Call("remove_directory", path), lambda: self._inner.remove_directory(path))

    def make_directory(self, path: str) -> None:
        self._calling(Call("make_directory", path), lambda: self._inner.make_directory(path))

    def entries(self, path: str) -> Iterator[Entry]:
        return self._calling(Call("list", path), lambda: iter(list(self._inner.entries(path))))

    def names(self, path: str) -> Iterator[str]:
        return self._calling(Call("list", path), lambda: iter(list(self._inner.names(path))))

    def look(self, path: str) -> Iterator[Seen]:
        return self._calling(Call("list", path), lambda: iter(list(self._inner.look(path))))

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def is_link(self, path: str) -> bool:
        return self._inner.is_link(path)

    def mtime_ns(self, path: str) -> int:
        return self._calling(Call("mtime", path), lambda: self._inner.mtime_ns(path))

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        self._calling(Call("set_mtime", path), lambda: self._inner.set_mtime_ns(path, mtime_ns))

    def keep_rights(self, path: str, like: str) -> None:
        self._inner.keep_rights(path, like)

    def is_trusted(self, path: str, like: Sequence[str]) -> bool:
        return self._inner.is_trusted(path, like)

    def has_rights_of(self, path: str, like: str) -> bool:
        return self._inner.has_rights_of(path, like)

    def map(self, fd: int, size: int) -> mmap.mmap:
        return self._calling(Call("map", self._path(fd)), lambda: self._inner.map(fd, size))

    def hold(self, fd: int) -> bool:
        return self._inner.hold(fd)

    def is_held(self, fd: int) -> bool:
        return self._inner.is_held(fd)

    def find_lock(self, path: str) -> LockedError | None:
        return self._inner.find_lock(path)

    def is_named(self, fd: int, path: str) -> bool:
        return self._inner.is_named(fd, path)

    def free_bytes(self, path: str) -> int:
        free_blocks = self._room.free_blocks
        return self._inner.free_bytes(path) if free_blocks is None else free_blocks * BLOCK_BYTES

    def file_system(self, path: str) -> int:
        return self._inner.file_system(path)

    def can_rename_into(self, path: str, directory: str) -> bool:
        return self._inner.can_rename_into(path, directory)

    def count_of_names(self, fd: int) -> int:
        return self._inner.count_of_names(fd)

    def _order(self, order: _Order) -> None:
        assert order.left >= 1, "the first call has number 1"
        assert order.kind is None or order.kind in (*KINDS, "close"), order.kind
        with self._lock:
            self._orders.append(order)

    def _path(self, fd: int) -> str:
        return self._opened.get(fd, "")

    def _begin(self, call: Call, *moments: Moment) -> _Order | None:
        """Count a call at its first moment, and find the order that is due at it."""
        due = None
        with self._lock:
            if "before" in moments:
                self.calls.append(call)
            for order in self._orders:
                if order.moment not in moments or not order.is_about(call):
                    continue
                order.left -= 1
                if order.left == 0 or (order.left < 0 and order.until_healed):
                    due = due or order
            if due is not None:
                self.fired.append(call)
        return due

    def _act(self, order: _Order | None) -> None:
        if order is not None and order.action is not None:
            order.action()

    def _calling(self, call: Call, work: Callable[[], T]) -> T:
        self._act(self._begin(call, "before"))
        result = work()
        self._act(self._begin(call, "after"))
        return result

    def _opening(self, call: Call, work: Callable[[], int]) -> int:
        self._act(self._begin(call, "before"))
        fd = work()
        with self._lock:
            self._opened[fd] = call.path
            self._room.see(fd)
        try:
            self._act(self._begin(call, "after"))
        except BaseException:
            with self._lock:
                self._opened.pop(fd, None)
                self._room.close(fd)
                self._inner.close(fd)
            raise
        return fd

    def _write(self, fd: int, parts: Sequence[Buffer], position: int, short: int | None) -> int:
        with self._lock:
            size = sum(len(part) for part in parts)
            taken = size if short is None else min(short, size)
            room = self._room.take(fd, position, taken)
            if room == size:
                return self._inner.write_some(fd, parts, position)
            if room == 0 and taken > 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._inner.write_some(fd, [b"".join(parts)[:room]], position) if room else 0


class _Room:
    """Which blocks of which file are taken. A file is known by device and inode; one that is new to us has all of its blocks."""

    def __init__(self) -> None:
        self.free_blocks: int | None = None
        self._blocks: dict[tuple[int, int], set[int]] = {}
        self._opened: dict[int, tuple[int, int]] = {}
        self._unlinked: set[tuple[int, int]] = set()

    def see(self, fd: int) -> tuple[int, int]:
        if fd not in self._opened:
            self._opened[fd] = self._file(os.fstat(fd))
        return self._opened[fd]

    def file_at(self, path: str) -> tuple[int, int] | None:
        try:
            return self._file(Path(path).stat())
        except OSError:
            return None

    def take(self, fd: int, position: int, size: int) -> int:
        """How many bytes of a write fit; their blocks are taken."""
        blocks = self._blocks[self.see(fd)]
        end = position + size
        for block in range(position // BLOCK_BYTES, -(-end // BLOCK_BYTES)):
            if block not in blocks:
                if self.free_blocks == 0:
                    return max(block * BLOCK_BYTES - position, 0)
                self._give(-1)
                blocks.add(block)
        return size

    def cut(self, fd: int, size: int) -> None:
        blocks = self._blocks[self.see(fd)]
        gone = {block for block in blocks if block * BLOCK_BYTES >= size}
        blocks -= gone
        self._give(len(gone))

    def unlink(self, file: tuple[int, int] | None) -> None:
        if file is not None:
            self._unlinked.add(file)
            self._free_unlinked()

    def close(self, fd: int) -> None:
        self._opened.pop(fd, None)
        self._free_unlinked()

    def _free_unlinked(self) -> None:
        for file in self._unlinked - set(self._opened.values()):
            self._give(len(self._blocks.pop(file, ())))
            self._unlinked.remove(file)

    def _file(self, status: os.stat_result) -> tuple[int, int]:
        file = (status.st_dev, status.st_ino)
        if file not in self._blocks:
            self._blocks[file] = set(range(-(-status.st_size // BLOCK_BYTES)))
        return file

    def _give(self, blocks: int) -> None:
        if self.free_blocks is not None:
            self.free_blocks += blocks
