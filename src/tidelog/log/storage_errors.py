"""What the operating system refuses, as errors of ours that say what happened to the log."""

import errno

from tidelog.errors import DiskFullError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def storage_error(error: OSError, path: str, what: str) -> StorageError:
    """The error to raise for `error`. Those that are ours already stay."""
    if isinstance(error, StorageError):
        return error
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        raised: StorageError = DiskFullError(f"{what}: {reason}", path=path, hint="nothing was changed; the log goes on when there is room")
    else:
        raised = StorageError(f"{what}: {reason}", path=path)
    raised.errno = error.errno
    return raised
