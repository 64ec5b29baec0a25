"""The versions of keys without Spark: what `history` says, worked out in this process.

The rule is that of `history_job`, key by key. All rows are in memory, as Arrow columns, and sorted by key; a history that is larger than
that is for Spark.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.jobs.keyed_frame import KeyedItem, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

_READ = ("topic", "key", "value", "partition", "offset", "timestamp")
_ROWS = 4096
"""So many at a time become objects."""


class Row(NamedTuple):
    """A record, and what the task that read it knows about it."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int
    is_tombstone: bool
    is_complete: bool
    is_version: bool
    """False of what the key had as of the start, of all that this task has seen."""


class Version(NamedTuple):
    """A row of a history."""

    row: Row
    version: int
    """Counted from 1; a tombstone has the number of the version that it ends."""
    valid_to_ms: int | None
    """None: it holds still."""

    @property
    def valid_from_ms(self) -> int:
        """Its own time."""
        return self.row.timestamp_ms


def local_history(tasks: Sequence[Sequence[KeyedItem]], *, include_tombstones: bool) -> Iterator[Version]:
    """The versions of all keys that the tasks of `plan_history` read, by topic, key and version."""
    for _, rows in groupby(_sorted_rows(tasks), itemgetter(0, 1)):
        found = [one for one in versions_of(list(rows)) if include_tombstones or not one.row.is_tombstone]
        yield from sorted(found, key=lambda one: (one.version, one.valid_from_ms))


def versions_of(rows: Sequence[Row]) -> list[Version]:
    """Number the versions of one key, and find out until when each held. See `history_job` for what that means."""
    at_start: dict[int, int] = {}  # what a key had then each task has found for itself: the last one of them counts
    for row in rows:
        if not row.is_version:
            at_start[row.partition] = max(row.offset, at_start.get(row.partition, row.offset))
    counting = [row for row in rows if row.is_version or row.offset == at_start[row.partition]]
    is_spread = len({row.partition for row in counting}) > 1
    counting.sort(key=lambda row: (row.timestamp_ms if is_spread else 0, row.offset, row.partition))
    numbers, number = [], 0
    for row in counting:
        number += not row.is_tombstone
        numbers.append(number)
    found: list[Version] = []
    behind_ms: int | None = None
    for row, version in zip(reversed(counting), reversed(numbers), strict=True):
        found.append(Version(row, version, None if behind_ms is None else max(behind_ms, row.timestamp_ms)))
        behind_ms = row.timestamp_ms if behind_ms is None else min(behind_ms, row.timestamp_ms)
    return found[::-1]


def _sorted_rows(tasks: Sequence[Sequence[KeyedItem]]) -> Iterator[Row]:
    import pyarrow as pa

    batches = [batch for items in tasks for batch in rows_of(items, _READ)]
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    del batches
    ordered = table.take(_order(table))
    for batch in ordered.to_batches(max_chunksize=_ROWS):
        columns = [column.to_pylist() for column in batch.drop_columns(["timestamp"]).columns]
        times = (batch.column("timestamp").view("int64").to_numpy() // 1000).tolist()
        yield from map(Row, *columns[:5], times, *columns[5:])


def _order(table: "pa.Table") -> "pa.Array":
    import pyarrow.compute as pc

    return pc.sort_indices(table, sort_keys=[("topic", "ascending"), ("key", "ascending")])
