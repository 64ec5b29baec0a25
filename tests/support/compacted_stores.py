"""Compacted topics for tests: small segments, one record a batch, and what is left of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.logs import TIME
from tidelog.compaction import cleaning
from tidelog.log.log import Log
from tidelog.record import NewBatch
from tidelog.store import Store, cleaning_passes

Pair = tuple[bytes | None, bytes | None]

PAIR_BYTES = len(NewBatch([(b"k", b"v0", (), TIME)]).encode())


def compacted(**changes: object) -> Mapping[str, object]:
    """Settings with which two records fill a segment, and removed files go at once."""
    base: dict[str, object] = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": 2 * PAIR_BYTES,
        "file.delete.delay.ms": 0,
        "message.timestamp.after.max.ms": 2**62,
    }
    return base | {name.replace("_", "."): value for name, value in changes.items()}


def put(log: Log, *pairs: Pair, timestamp_ms: int = TIME) -> None:
    """A batch for each key and value."""
    for key, value in pairs:
        log.append(NewBatch([(key, value, (), timestamp_ms)]).encode())


def pairs(letters: str) -> list[Pair]:
    """A record for each letter, which is its key; its value is of two bytes, and says which in the row it is."""
    return [(letter.encode(), f"v{number % 10}".encode()) for number, letter in enumerate(letters)]


def left_in(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    return [(record.offset, record.key, record.value) for record in log.read()]


def offsets_in(log: Log) -> list[int]:
    """The offsets of the records that are left."""
    return [record.offset for record in log.read()]


def checkpoint_of(store: Store) -> list[str]:
    """The lines of the cleaner's checkpoint, without its head."""
    return Path(store.paths[0], "cleaner-offset-checkpoint").read_text().splitlines()[2:]


def before_each_pass(monkeypatch: Any, act: Callable[[Log], object]) -> None:
    """Do something when a pass begins, in the thread that makes it."""
    real = cleaning.clean_log

    def clean_log(log: Log, *arguments: Any, **options: Any) -> cleaning.CleanedLog:
        act(log)
        return real(log, *arguments, **options)

    monkeypatch.setattr(cleaning_passes, "clean_log", clean_log)


def names_in(log: Log, suffix: str) -> list[str]:
    """Files of a log that end so."""
    return sorted(path.name for path in Path(log.directory).iterdir() if path.name.endswith(suffix))
