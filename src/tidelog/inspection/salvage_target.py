"""Where a salvage goes: a directory that is new or empty, and that is as it was before if the salvage does not come to its end."""

import contextlib
import errno
import os

from tidelog.disk.disk import Disk
from tidelog.disk.log_directory import make_durable_directory
from tidelog.errors import StorageError, TidelogError
from tidelog.log.storage_errors import storage_error


def missing_above(disk: Disk, path: str) -> list[str]:
    """Of a directory and those above it the ones that are not there, the innermost first."""
    found = []
    while not disk.exists(path):
        found.append(path)
        path = os.path.dirname(path)  # noqa: PTH120
    return found


def take_back(disk: Disk, target: str, made: list[str]) -> None:
    """Remove what is in the target, which was empty, and the directories that were made for it."""
    with contextlib.suppress(OSError):
        for name in list(disk.names(target)):
            disk.remove(f"{target}/{name}")
        for path in made:
            disk.remove_directory(path)


def claim_target(disk: Disk, source: str, target: str) -> None:
    """Make the target, or find it empty."""
    if target == source or target.startswith(source + "/"):
        raise StorageError("the target lies in the directory that is to be salvaged", path=target)
    try:
        if disk.exists(target) and any(disk.entries(target)):
            error = StorageError("the target is not empty", path=target, hint="salvage never overwrites: name a new directory")
            error.errno = errno.EEXIST
            raise error
        make_durable_directory(disk, target)
        disk.keep_rights(target, source)  # whoever could open the old log can open the new one
    except OSError as error:
        if isinstance(error, TidelogError):
            raise
        raise storage_error(error, target, "the target cannot be made") from error
