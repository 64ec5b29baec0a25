"""The lock on a file that Java's FileChannel takes too: a POSIX record lock, which excludes a running broker, both ways.

A lock of the process says to others who has it, but is gone when any descriptor of the file in the process is closed, as by a copy of the
directory. So, where there is such a thing, the first byte is locked for one descriptor alone.
"""

import errno
import fcntl
import os
import struct
import sys

from tidelog.errors import LockedError

_FLOCK = "hhqqi0q"
"""Type, whence, start, length, process: as the C library of 64-bit Linux has it."""


def take_lock(fd: int, path: str) -> None:
    """Lock an open file until its descriptor is closed; raises `LockedError` if somebody has it."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 1)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        else:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise _locked(path, _holder_of_lock(fd)) from error


def lock_of_others(fd: int, path: str) -> LockedError | None:
    """What `take_lock` would raise now; None if it would not, or if the system does not say."""
    if sys.platform != "linux":
        return None
    kind, holder = _lock_on(fd)
    return None if kind == fcntl.F_UNLCK else _locked(path, holder)


def _locked(path: str, holder: int | None) -> LockedError:
    who = "another process" if holder is None else f"process {holder}"
    return LockedError(f"locked by {who}", path=path, hint="a broker or another program has it open")


def _holder_of_lock(fd: int) -> int | None:
    """The process that holds a POSIX lock on a file; None where the system does not say (as across containers)."""
    if sys.platform != "linux":
        return None
    try:
        kind, holder = _lock_on(fd)
    except OSError:
        return None
    return holder if kind != fcntl.F_UNLCK else None


def _lock_on(fd: int) -> tuple[int, int | None]:
    """What kind of POSIX lock others have on a file, and which process, if it can be told."""
    answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 1, 0, 0))
    kind, _, _, _, holder = struct.unpack(_FLOCK, answer)
    return kind, holder if holder > 0 else None
