"""Compacted logs for tests of the cleaner: batches with keys to append, passes over them, and what is left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.logs import TIME
from tests.support.producers import open_small
from tidelog.compaction.cleaning import NO_HOOKS, CleanedLog, Hooks, clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import CleaningPlan, plan_cleaning
from tidelog.log.log import Log
from tidelog.record import BatchSettings, NewBatch, Record, read_batches

ENTRY_BYTES = 24
ROOMY = 1000
DELETE_RETENTION_MS = 1000
COMPACTED = {
    "cleanup.policy": "compact",
    "delete.retention.ms": DELETE_RETENTION_MS,
    "file.delete.delay.ms": 0,
    "index.interval.bytes": 100,
    "internal.segment.bytes": 100_000,
}

Row = tuple[bytes | None, bytes | None]


def open_compacted(home: Path, config: dict[str, Any] | None = None, **options: Any) -> Log:
    """A log that is compacted, on a disk that nobody waits for, with a clock that stands still."""
    return open_small(home, COMPACTED | (config or {}), **options)


def keyed(*rows: Row | str, timestamp_ms: int = TIME, base_offset: int = 0, **settings: Any) -> bytes:
    """A batch. "k=v" is a record, "k" alone a tombstone, "=v" a record without a key."""
    made = []
    for row in rows:
        if isinstance(row, str):
            key, equals, value = row.partition("=")
            row = (key.encode() or None, value.encode() if equals else None)
        made.append((*row, (), timestamp_ms))
    return NewBatch(made, base_offset=base_offset, settings=BatchSettings(**settings)).encode()


def fill(log: Log, *batches: Sequence[str] | str, **settings: Any) -> None:
    """Append batches; each is its rows, or a text with the rows separated by blanks. "|" begins a new segment."""
    for batch in batches:
        if batch == "|":
            log.roll()
        else:
            log.append(keyed(*(batch.split() if isinstance(batch, str) else batch), **settings))


def a_map(entries: int = ROOMY, load_factor: float = 1.0) -> OffsetMap:
    """A map that takes exactly so many keys."""
    return OffsetMap(ENTRY_BYTES * entries, load_factor)


def plan(log: Log, checkpoint: int | None = None, now_ms: int = TIME) -> CleaningPlan:
    return plan_cleaning(log, log.config, checkpoint, now_ms)


def clean(
    log: Log,
    checkpoint: int | None = None,
    *,
    now_ms: int = TIME,
    entries: int = ROOMY,
    hooks: Hooks = NO_HOOKS,
    drop_null_keys: bool = False,
    dry_run: bool = False,
) -> CleanedLog:
    """One pass."""
    return clean_log(
        log,
        plan(log, checkpoint, now_ms),
        a_map(entries),
        now_ms,
        hooks=hooks,
        drop_null_keys=drop_null_keys,
        dry_run=dry_run,
    )


def shown(record: Record) -> str:
    """A record as `keyed` takes it."""
    key = "" if record.key is None else record.key.decode()
    return key if record.value is None else f"{key}={record.value.decode()}"


def left(log: Log) -> list[str]:
    """What is left, as "offset:record"."""
    return [f"{record.offset}:{shown(record)}" for record in log.read()]


class LeftBatch(NamedTuple):
    """A batch that is left, by its header."""

    base_offset: int
    last_offset: int
    records: int
    delete_horizon_ms: int | None
    is_control: bool


def left_batches(log: Log) -> list[LeftBatch]:
    """The batches in the files of the rolled segments."""
    return [
        LeftBatch(batch.base_offset, batch.last_offset, batch.count, batch.delete_horizon_ms, batch.is_control)
        for segment in log.segments[:-1]
        for batch in read_batches(Path(segment.path_of(".log")).read_bytes())
    ]


def bases(log: Log) -> list[int]:
    """Base offsets of the segments."""
    return [segment.base_offset for segment in log.segments]


def names(log: Log) -> list[str]:
    """The files of the log's directory, without those of its settings."""
    return sorted(path.name for path in Path(log.directory).iterdir() if path.name[0].isdigit())
