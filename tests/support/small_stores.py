"""Stores for tests: small, with a clock that stands still, and with nothing done in the background."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.logs import SMALL_INDEX_BYTES, FakeClock, QuietDisk
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.store.state import StoreState
from tidelog.store.store import Store
from tidelog.store.store_file import StoreFile, parse_store_file

QUIET = QuietDisk()
"""Shared, as the real one is: by its disk a directory that this process has open is known."""
SMALL: Mapping[str, object] = {"log.index.size.max.bytes": SMALL_INDEX_BYTES}


def open_store(*paths: Path, config: Mapping[str, object] | None = None, disk: Disk = QUIET, **options: Any) -> Store:
    """A store in one directory, or several."""
    options.setdefault("clock", FakeClock())
    options.setdefault("background", False)
    return Store.open(list(paths), config={**SMALL, **(config or {})}, pool=FilePool(disk), **options)


def state_of(store: Store) -> StoreState:
    """The inside of a store."""
    return store._state


def file_of(path: Path) -> StoreFile:
    """What the file of a log directory says."""
    return parse_store_file((path / "tidelog.json").read_bytes(), str(path))


def tree_of(path: Path) -> dict[str, bytes | None]:
    """Everything below a directory, with its content; None for directories, and for `.lock`: who closes it loses the lock on it."""
    return {
        str(found.relative_to(path)): None if found.is_dir() or found.name == ".lock" else found.read_bytes()
        for found in sorted(path.rglob("*"))
    }


def values_of(log: Log) -> list[bytes | None]:
    """The values in a log."""
    return [record.value for record in log.read()]


def partitions_in(path: Path) -> set[str]:
    """The partition directories of a log directory."""
    return {found.name for found in path.iterdir() if found.is_dir() and not found.name.endswith("-delete")}


def failed(store: Store) -> set[str]:
    """The partitions that could not be opened."""
    return {str(TopicPartition(*partition)) for partition in store.failures}
