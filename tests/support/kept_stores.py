"""Stores that are looked after, for tests: without a thread, on a clock that goes on when told to, on a disk as full as it is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import SMALL_INDEX_BYTES, FakeClock, numbered
from tidelog.disk.disk import OS
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log
from tidelog.store import Store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BATCH_BYTES = len(numbered(0))


class SpaceDisk(FaultyDisk):
    """A faulty disk that says how much is free, and which paths share a file system."""

    def __init__(self) -> None:
        super().__init__()
        self.free: dict[str, int] = {}
        self.file_systems: dict[str, int] = {}

    def free_bytes(self, path: str) -> int:
        return self.free[path] if path in self.free else OS.free_bytes(path)

    def file_system(self, path: str) -> int:
        return self.file_systems.get(path, 1)


def open_store(path: Path | list[Path], clock: FakeClock, *, disk: FaultyDisk | None = None, **options: Any) -> Store:
    """A store that does nothing by itself, with small indexes."""
    config = {"log.index.size.max.bytes": SMALL_INDEX_BYTES, **options.pop("config", {})}
    paths = path if isinstance(path, list) else [path]
    return Store.open(paths, config=config, clock=clock, background=False, pool=FilePool(FaultyDisk() if disk is None else disk), **options)


def small_segments(**changes: object) -> Mapping[str, object]:
    """Settings with which two batches of `numbered` fill a segment; nothing goes unless `changes` say so."""
    keep = {"internal.segment.bytes": 2 * BATCH_BYTES, "retention.ms": -1, "message.timestamp.after.max.ms": 2**62}
    return keep | {name.replace("_", "."): value for name, value in changes.items()}


def fill(log: Log, times_ms: list[int]) -> None:
    """A batch for each of the times; two of them are a segment."""
    for number, timestamp_ms in enumerate(times_ms):
        log.append(numbered(number, timestamp_ms=timestamp_ms))


def advance(store: Store, clock: FakeClock, ms: int, step_ms: int) -> None:
    """Let time pass in steps, and do what is due after each."""
    end_ms = clock.now_ms + ms
    while clock.now_ms < end_ms:
        clock.advance(min(step_ms, end_ms - clock.now_ms))
        store.scheduler.run_due()
