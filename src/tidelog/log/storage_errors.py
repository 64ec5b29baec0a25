"""What the operating system refuses, as errors of ours that say what happened to the log."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.disk.disk import Disk
from tidelog.errors import DiskFullError, StorageError, TidelogError

REOPEN_HINT = "make room, close the log and open it again"
"""On a full disk, where the log has failed with it."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_GOES_ON_HINT = "nothing was changed; the log goes on when there is room"


def storage_error(error: OSError, path: str | None, what: str, *, hint: str = _GOES_ON_HINT) -> StorageError:
    """The error to raise for `error`; the hint is for a full disk. Those that are ours already stay."""
    if isinstance(error, StorageError):
        return error
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        raised: StorageError = DiskFullError(f"{what}: {reason}", path=path, hint=hint)
    else:
        raised = StorageError(f"{what}: {reason}", path=path)
    raised.errno = error.errno
    return raised


@contextmanager
def typed_refusals(path: str | None, what: str) -> Iterator[None]:
    """Within it, what the operating system refuses is raised as an error of ours. It names the file if it is known, otherwise `path`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TidelogError):
            raise
        raise storage_error(error, error.filename if isinstance(error.filename, str) else path, what) from error


def check_space(
    disk: Disk,
    path: str,
    size_bytes: int,
    what: str = "not enough space for what is to be written",
    *,
    hint: str = "nothing was changed",
) -> None:
    """Raise if so many bytes do not fit beside a path."""
    with typed_refusals(path, "asking for free space failed"):
        free_bytes = disk.free_bytes(path)
    if free_bytes < size_bytes:
        raise DiskFullError(
            what,
            path=path,
            expected=f"{size_bytes} bytes free",
            found=free_bytes,
            hint=f"{size_bytes - free_bytes} bytes are missing; {hint}",
        )
