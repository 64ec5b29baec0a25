"""The only code that calls the operating system for files.

Everything above takes a `Disk`, so that a test can put one under it that records every call, tears writes or fails. Files are plain
descriptors, paths plain strings: a log has thousands of files, and an append a budget of microseconds.

Writes go to an explicit position. What is mapped into memory is only ever read: a store through a map on a full disk would kill the
process instead of raising an error.

A directory may come from somebody else, and a name in it may be anything. So nothing is written, locked or removed through a link, which
could lead to a file that is none of the directory's, and nobody waits for a pipe.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.disk.file_locks import lock_of_others, take_lock
from tidelog.disk.plain_files import READING, checked_plain, give_to_owner_of, open_no_link
from tidelog.errors import LockedError

Buffer = bytes | bytearray | memoryview


MAX_SMALL_FILE_BYTES = 1 << 30
"""What is read whole has less: checkpoints, settings, snapshots, what a task hands on. A file with a hole can be of any size."""
_MAX_PARTS = 1024  # the system takes no more in one call


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    mtime_ns: int


class Seen(NamedTuple):
    """A name in a directory that nobody vouches for: what lies there itself, not what a link leads to."""

    name: str
    kind: str
    """file, directory, link or other (a pipe, a device, a socket)."""
    size_bytes: int
    mtime_ns: int = 0
    inode: int = 0
    """By which a file is known again, whatever its name has become."""


_sync_data = getattr(os, "fdatasync", os.fsync)
"""macOS has no call that leaves out the times of a file."""


class Disk:
    """The real one. Every method raises `OSError` where the operating system refuses."""

    def open(self, path: str, *, write: bool = False) -> int:
        """Open a plain file that is there."""
        return checked_plain(open_no_link(path, os.O_RDWR | os.O_NONBLOCK) if write else os.open(path, READING), path)

    def create(self, path: str, *, exclusive: bool = True) -> int:
        """Create a file and open it for reading and writing; it must not be there yet, or is emptied if not `exclusive`.

        One that has a second name, as in a backup made of hard links, is not emptied: this name goes, and a new file gets it. It belongs
        to whom its directory belongs to: what the superuser makes in a broker's directory, the broker has to open.
        """
        fd = open_no_link(path, os.O_RDWR | os.O_CREAT | (os.O_EXCL if exclusive else os.O_NONBLOCK))
        try:
            if not exclusive:
                if os.fstat(fd).st_nlink > 1:
                    os.unlink(path)
                    fd, linked = open_no_link(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), fd
                    os.close(linked)
                os.ftruncate(fd, 0)
            if os.geteuid() == 0:
                give_to_owner_of(os.path.dirname(path), fd)
        except BaseException:  # whatever it is: nobody else knows of the descriptor
            os.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        """Close a file."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """Bytes in an open file."""
        return os.fstat(fd).st_size

    def inode(self, fd: int) -> int:
        """Which file it is, by number."""
        return os.fstat(fd).st_ino

    def count_of_names(self, fd: int) -> int:
        """How many names an open file has."""
        return os.fstat(fd).st_nlink

    def read(self, fd: int, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file."""
        return os.pread(fd, size, position)

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill `buffer` as far as the file goes: how many bytes."""
        done = os.preadv(fd, [buffer], position)
        while 0 < done < len(buffer):
            more = os.preadv(fd, [buffer[done:]], position + done)
            if more == 0:
                break
            done += more
        return done

    def write(self, fd: int, parts: Sequence[Buffer], position: int, size_bytes: int | None = None) -> None:
        """Write all parts one behind the other. A write that the system cuts short goes on, or raises what stopped it.

        `size_bytes` is what they have together, if that is known.
        """
        total = sum(map(len, parts)) if size_bytes is None else size_bytes
        if len(parts) > _MAX_PARTS:
            parts = [b"".join(parts)]
        done = self.write_some(fd, parts, position)
        while done < total:
            rest = memoryview(b"".join(parts))[done:]
            written = self.write_some(fd, [rest], position + done)
            if written == 0:
                raise OSError(errno.EIO, "the write of a file does not go on")
            done += written

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        """One system call: how many bytes it took."""
        return os.pwritev(fd, parts, position)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file, or extend it with zeros that take no space yet."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make the bytes and the size of a file durable."""
        _sync_data(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing what has the name."""
        os.replace(source, target)

    def link(self, path: str, name: str) -> None:
        """Give a file a second name, which nobody has yet, on the same file system. There are some that know no such thing."""
        os.link(path, name, follow_symlinks=False)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory of files, and make that durable; nothing if it is not there. Of a link only the link goes."""
        if self.is_link(path):
            self.remove(path)
        else:
            try:
                names = list(self.names(path))
            except FileNotFoundError:
                return
            for name in names:
                self.remove(f"{path}/{name}")
            self.remove_directory(path)
        self.sync_directory(os.path.dirname(path))

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty."""
        os.rmdir(path)

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it that are missing. They belong to whom the one belongs to in which they are made."""
        missing = []
        while path and not os.path.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        for new in reversed(missing):
            os.makedirs(new, exist_ok=True)
            if os.geteuid() == 0:
                give_to_owner_of(os.path.dirname(new), new)

    def entries(self, path: str) -> Iterator[Entry]:
        """What is in a directory, one by one and in no order. What vanishes meanwhile, or leads nowhere, is left out."""
        with os.scandir(path) as scan:
            for entry in scan:
                try:
                    status = entry.stat()
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ELOOP):
                        raise
                    continue
                yield Entry(entry.name, entry.is_dir(), status.st_size, status.st_mtime_ns)

    def names(self, path: str) -> Iterator[str]:
        """The names in a directory, one by one, with nothing said about what they are."""
        with os.scandir(path) as scan:
            for entry in scan:
                yield entry.name

    def look(self, path: str) -> Iterator[Seen]:
        """What is in a directory, one by one: links are not followed, and what cannot be asked about is other."""
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
        with os.scandir(path) as scan:
            for entry in scan:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError:
                    yield Seen(entry.name, "other", 0)
                    continue
                kind = kinds.get(stat.S_IFMT(status.st_mode), "other")
                yield Seen(entry.name, kind, status.st_size, status.st_mtime_ns, status.st_ino)

    def open_plain(self, path: str) -> int:
        """Open a file for reading that nobody vouches for: never waits for a pipe, and raises for all but plain files."""
        return checked_plain(os.open(path, READING), path)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return os.path.exists(path)

    def is_link(self, path: str) -> bool:
        """Whether the name is a symbolic link, wherever that leads."""
        return os.path.islink(path)

    def mtime_ns(self, path: str) -> int:
        """When a file was last written."""
        return os.stat(path).st_mtime_ns

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        """Say when a file was last written."""
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def keep_rights(self, path: str, like: str) -> None:
        """Give a file or a directory the owner, group and mode of another one, whose place it takes; nothing if that is not there.

        What only the superuser may give away stays as it is for others.
        """
        try:
            wanted = os.stat(like)
        except FileNotFoundError:
            return
        found = os.stat(path)
        with contextlib.nullcontext() if os.geteuid() == 0 else contextlib.suppress(PermissionError):
            if stat.S_IMODE(found.st_mode) != stat.S_IMODE(wanted.st_mode):
                os.chmod(path, stat.S_IMODE(wanted.st_mode))
            if (found.st_uid, found.st_gid) != (wanted.st_uid, wanted.st_gid):
                os.chown(path, wanted.st_uid, wanted.st_gid)

    def has_rights_of(self, path: str, like: str) -> bool:
        """Whether a file has the owner, group and mode of another one."""
        found, wanted = os.stat(path), os.stat(like)
        return (found.st_uid, found.st_gid, found.st_mode) == (wanted.st_uid, wanted.st_gid, wanted.st_mode)

    def is_trusted(self, path: str, like: Sequence[str]) -> bool:
        """Whether a directory is of this user, of root, or of whom one of some others is: not if anybody can have made it."""
        return os.lstat(path).st_uid in {0, os.geteuid(), *(os.stat(one).st_uid for one in like)}

    def map(self, fd: int, size: int) -> mmap.mmap:
        """Map the first `size` bytes for reading."""
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)

    def lock(self, path: str) -> int:
        """Create a file if need be and lock it as Java's FileChannel does: against other processes, until it is closed."""
        fd = open_no_link(path, os.O_RDWR | os.O_CREAT)
        try:
            if os.geteuid() == 0:
                give_to_owner_of(os.path.dirname(path), fd)
            take_lock(fd, path)
        except BaseException:  # whatever it is: nobody else knows of the descriptor
            os.close(fd)
            raise
        return fd

    def find_lock(self, path: str) -> LockedError | None:
        """What `lock` would raise now; None if it would not, or if the system does not say. Takes nothing.

        Not for a file that this process has locked: to close a descriptor of it gives the lock back.
        """
        try:
            fd = os.open(path, READING)
        except FileNotFoundError:
            return None
        try:
            return lock_of_others(fd, path)
        finally:
            os.close(fd)

    def hold(self, fd: int) -> bool:
        """Show others that an open file belongs to a living process, until it is closed; False where that cannot be shown."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def is_held(self, fd: int) -> bool:
        """Whether somebody else, of this process or another, shows that by `hold`."""
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EAGAIN)
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

    def is_named(self, fd: int, path: str) -> bool:
        """Whether an open file still has this name: it was not removed, nor replaced by another."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(path))
        except FileNotFoundError:
            return False

    def free_bytes(self, path: str) -> int:
        """Space left for us on the file system of `path`."""
        return shutil.disk_usage(path).free

    def file_system(self, path: str) -> int:
        """On which file system `path` lies, by number."""
        return os.stat(path).st_dev

    def can_rename_into(self, path: str, directory: str) -> bool:
        """Whether a file can get a name in a directory: on one file system, and not by another mount of it."""
        return self.file_system(path) == self.file_system(directory) and _mount(path) == _mount(directory)

    def read_file(self, path: str) -> bytes:
        """A whole small file. One that is far from small is refused before it takes all memory."""
        fd = self.open(path)
        try:
            size = self.size(fd)
            if size > MAX_SMALL_FILE_BYTES:
                raise OSError(errno.EFBIG, f"{os.path.basename(path)} has {size} bytes, which no such file has", path)
            return self.read(fd, size, 0)
        finally:
            self.close(fd)

    def replace_file(self, directory: str, name: str, content: bytes) -> None:
        """Write a small file so that after a crash there is the old one or the new one, whole: temporary file, sync, rename, sync.

        The new one has the owner, group and mode of the old one.
        """
        temporary = f"{directory}/{name}.tmp"
        fd = self.create(temporary, exclusive=False)
        try:
            self.keep_rights(temporary, f"{directory}/{name}")
            self.write(fd, [content], 0)
            self.sync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, f"{directory}/{name}")
        self.sync_directory(directory)


def _mount(path: str) -> str | None:
    """By which mount a path is reached; None where the system does not say."""
    if not hasattr(os, "O_PATH"):
        return None
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{fd}") as lines:
            return next((line for line in lines if line.startswith("mnt_id:")), None)
    except OSError:
        return None
    finally:
        os.close(fd)


OS = Disk()
"""The disk of this machine."""
