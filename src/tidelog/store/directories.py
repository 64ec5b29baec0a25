"""The log directories of a store: lock them, tell whose they are, and read and write their file.

A directory is a store's if it has `tidelog.json`. One that is missing or empty becomes a store's. Anything else, a broker's directory, a
backup, a folder with something in it, is refused unless it is to be adopted: then it is looked after as far as its settings are known.
What is refused is not touched: everything is looked at before so much as a lock file is made.
"""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tidelog.disk.disk import Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import CLEAN_SHUTDOWN, LOCK, TEMPORARY_SUFFIX
from tidelog.errors import LockedError, LogNotFoundError, NotAStoreError, StorageError
from tidelog.log.storage_errors import storage_error
from tidelog.store.store_file import STORE_FILE, StoreFile, read_store_file, write_store_file

_POLL_S = 0.02
_NOTHING = (LOCK, CLEAN_SHUTDOWN, STORE_FILE + TEMPORARY_SUFFIX)
"""What a first opening that was cut off leaves: with no more than these, a directory is empty."""


def resolve_paths(paths: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]") -> list[str]:
    """One path or several, as absolute ones without links; the same directory twice, or one inside another, is refused."""
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not given or "" in given:
        raise ValueError("a store needs at least one directory, and none has an empty name")
    resolved = [os.path.realpath(path) for path in given]
    for path in resolved:
        if resolved.count(path) > 1:
            raise ValueError(f"the same directory twice: {path}")
        for other in resolved:
            if other != path and Path(other).is_relative_to(path):
                raise ValueError(f"a directory inside another: {other} in {path}")
    return resolved


def check_directories(disk: Disk, paths: Sequence[str], *, adopt: bool) -> StoreFile | None:
    """What the store's file says; None if these become a new store. What must not be touched, or does not belong together, is refused."""
    for path in paths:
        _check_directory(disk, path, adopt=adopt)
    found = read_files(disk, paths)
    if found is not None and found.revision > 1 and not adopt:
        for path in paths:
            _check_has_file(disk, path)
    return found


def has_content(disk: Disk, path: str) -> bool:
    """Whether there is anything in a directory that counts."""
    return any(name not in _NOTHING for name in disk.names(path))


def _check_directory(disk: Disk, path: str, *, adopt: bool) -> None:
    try:
        names = [name for name in disk.names(path) if name not in _NOTHING]
    except FileNotFoundError:
        parent = str(Path(path).parent)
        if not disk.exists(parent):
            raise LogNotFoundError(
                "no such directory", path=parent, hint="make it first: only the last part of a path is created"
            ) from None
        return
    except NotADirectoryError as error:
        raise NotAStoreError("not a directory", path=path) from error
    except OSError as error:
        raise storage_error(error, path, "reading the directory failed") from error
    if names and STORE_FILE not in names and not adopt:
        raise NotAStoreError(
            "not made by Tidelog",
            path=path,
            expected=f"an empty directory, or one with {STORE_FILE}",
            found=f"{', '.join(sorted(names)[:5])}{' …' if len(names) > 5 else ''}",
            hint='mode="r" reads it and changes nothing; adopt=True makes it a store, which leaves topics alone until they are set',
        )


def _check_has_file(disk: Disk, path: str) -> None:
    """Only the very first writing of the file can be cut off before a directory has it."""
    if not disk.exists(path):
        raise LogNotFoundError("a log directory of the store is missing", path=path, hint="put it back, or mount its disk")
    if not disk.exists(f"{path}/{STORE_FILE}"):
        raise NotAStoreError(
            "a log directory of the store that has lost its file",
            path=path,
            expected=STORE_FILE,
            found="nothing",
            hint="is its disk mounted? adopt=True takes the directory as it is",
        )


def read_files(disk: Disk, paths: Sequence[str]) -> StoreFile | None:
    """The file that counts, of those in all directories; None if there is none at all."""
    found = [(content, path) for path in paths if (content := read_store_file(disk, path)) is not None]
    if not found:
        return None
    newest = max((content for content, _ in found), key=lambda content: content.revision)
    for content, path in found:
        if content.store_id != newest.store_id:
            raise NotAStoreError(
                "directories of different stores",
                path=f"{path}/{STORE_FILE}",
                expected=f"store {newest.store_id}",
                found=f"store {content.store_id}",
                hint="open each store by itself",
            )
    if newest.directories != len(paths):
        raise NotAStoreError(
            "a store of another number of directories",
            path=paths[0],
            expected=f"{newest.directories} directories",
            found=len(paths),
            hint="give all of them, in any order",
        )
    return newest


def bring_up_to_date(disk: Disk, paths: Iterable[str], content: StoreFile) -> None:
    """Copy the file that counts to the directories that a crash has left without it. Where all have it, nothing is written."""
    for path in paths:
        if read_store_file(disk, path) != content:
            write_store_file(disk, path, content)


def hold_all(disk: Disk, paths: Sequence[str], lock_timeout_s: float) -> list[LogDirectory]:
    """Lock every directory, waiting as long as that for who has one.

    Always in the same order: two that want the same directories do not wait for each other.
    """
    if not lock_timeout_s >= 0:
        raise ValueError(f"lock_timeout_s must be 0 or more, not {lock_timeout_s!r}")
    deadline = time.monotonic() + lock_timeout_s
    held: dict[str, LogDirectory] = {}
    try:
        for path in sorted(paths):
            held[path] = _hold(disk, path, deadline)
    except BaseException:  # an interrupt too: what was locked is given back
        for directory in held.values():
            with suppress(OSError):  # the first error is the one to tell
                directory.let_go()
        raise
    return [held[path] for path in paths]


def wait_for_owner(disk: Disk, paths: Sequence[str], lock_timeout_s: float) -> None:
    """Return when nobody owns the directories; `LockedError` if somebody does for longer than that. Nothing is taken."""
    deadline = time.monotonic() + lock_timeout_s
    for path in paths:
        while (locked := LogDirectory.find_owner(path, disk=disk)) is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise locked
            time.sleep(min(_POLL_S, left_s))


def _hold(disk: Disk, path: str, deadline: float) -> LogDirectory:
    while True:
        try:
            return LogDirectory.hold(path, disk=disk)
        except LockedError:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise
            time.sleep(min(_POLL_S, left_s))
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise storage_error(error, path, "taking over the log directory failed") from error
