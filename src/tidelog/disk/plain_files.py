"""Opening names in a directory that may come from somebody else, where a name may be anything.

Nothing is opened for writing through a link, which could lead to a file that is none of the directory's; nobody waits for a pipe; and
what the superuser makes is given to whom the directory belongs, never a file that somebody has linked there.
"""

import errno
import os
import stat

READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""A pipe that nobody writes to is opened at once."""


def open_no_link(path: str, flags: int) -> int:
    """Open a file that is to be written: by its own name, and not through a link."""
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, f"{os.path.basename(path)} is a link, through which nothing is written", path) from error


def checked_plain(fd: int, path: str) -> int:
    """The descriptor, if it is that of a plain file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, f"{os.path.basename(path)} is not a plain file", path)
    return fd


def give_to_owner_of(directory: str, made: int | str) -> None:
    """Let what was made belong to whom its directory does. Only what is the superuser's is given away, and no file with a second name."""
    home, found = os.stat(directory or "."), os.stat(made)
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        return  # somebody has linked it here, and it may be anybody's
    if found.st_uid == 0 and (home.st_uid, home.st_gid) != (found.st_uid, found.st_gid):
        os.chown(made, home.st_uid, home.st_gid)
