"""Topics of stores for tests: a store that nobody waits for, and a plain model of what readers have to find."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.logs import SMALL_INDEX_BYTES, FakeClock, QuietDisk
from tests.support.producers import end_of_txn
from tidelog.disk.file_pool import FilePool
from tidelog.record import BatchSettings, NewBatch
from tidelog.store.store import Store
from tidelog.store.topic import Topic

SMALL = {"segment.index.bytes": SMALL_INDEX_BYTES, "internal.segment.bytes": 600, "index.interval.bytes": 100}
"""Settings of a topic whose segments hold a few batches."""


def open_store(home: Path | list[Path], **options: Any) -> Store:
    """A store on a disk that nobody waits for, with a clock that stands still."""
    options.setdefault("clock", FakeClock())
    return Store.open(home, pool=FilePool(QuietDisk()), **options)


class Stored(NamedTuple):
    """A record as a reader has to find it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


Fields = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp."""


@dataclass
class TopicModel:
    """Appends batches and markers to a topic, and knows what has to be read from it."""

    topic: Topic
    stored: dict[int, list[Stored]] = field(default_factory=dict)
    producers: dict[tuple[int, int], int] = field(default_factory=dict)
    """Next sequence number by partition and producer."""
    pending: dict[tuple[int, int], list[Stored]] = field(default_factory=dict)
    """Records of transactions that are open, by partition and producer."""
    ends: dict[int, int] = field(default_factory=dict)

    def append(self, partition: int, rows: Iterable[Fields], compression: str = "none", producer: int | None = None) -> None:
        """Append a batch; with a producer, as part of its transaction."""
        batch = [(key, value, (), timestamp_ms) for key, value, timestamp_ms in rows]
        settings: dict[str, Any] = {"compression": compression}
        if producer is not None:
            sequence = self.producers.get((partition, producer), 0)
            self.producers[partition, producer] = sequence + len(batch)
            settings |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        info = self.topic.log(partition).append(NewBatch(batch, settings=BatchSettings(**settings)).encode())
        found = [
            Stored(partition, offset, timestamp_ms, key, value)
            for offset, (key, value, _, timestamp_ms) in enumerate(batch, info.first_offset)
        ]
        if producer is not None:
            self.pending.setdefault((partition, producer), []).extend(found)
        else:
            self.stored.setdefault(partition, []).extend(found)
        self.ends[partition] = info.last_offset + 1

    def end(self, partition: int, producer: int, kind: str) -> None:
        """Commit or abort the transaction of a producer, if one is open."""
        if (partition, producer) not in self.pending:
            return
        info = self.topic.log(partition).append(end_of_txn(producer, kind), origin="coordinator")
        ended = self.pending.pop((partition, producer))
        if kind == "commit":
            self.stored[partition] = sorted(self.stored.get(partition, []) + ended)
        self.ends[partition] = info.last_offset + 1

    def stable(self, partition: int) -> int:
        """The first offset that readers of committed records do not see."""
        return min(
            (found[0].offset for (number, _), found in self.pending.items() if number == partition), default=self.ends.get(partition, 0)
        )

    def committed(self, partition: int, start: int = 0, end: int | None = None) -> list[Stored]:
        """What they see."""
        stop = self.stable(partition) if end is None else min(end, self.stable(partition))
        found = self.stored.get(partition, [])
        return found[bisect_left(found, (partition, start)) : bisect_left(found, (partition, stop))]

    def table(self, until: dict[int, int] | None = None, until_ms: int | None = None) -> dict[bytes, bytes]:
        """The latest values; by time, offset and partition where a key is in several."""
        newest: dict[bytes, tuple[int, int, bytes | None]] = {}
        for partition in range(self.topic.partitions):
            own: dict[bytes, tuple[int, int, bytes | None]] = {}
            for record in self.committed(partition, 0, None if until is None else until[partition] + 1):
                if record.key is not None and (until_ms is None or record.timestamp_ms <= until_ms):
                    own[record.key] = (record.timestamp_ms, record.offset, record.value)
            for key, found in own.items():
                if key not in newest or found[:2] >= newest[key][:2]:
                    newest[key] = found
        return {key: value for key, (_, _, value) in newest.items() if value is not None}


def plain(records: Iterable[Any]) -> list[Stored]:
    """Records as plain values."""
    return [Stored(record.partition, record.offset, record.timestamp_ms, record.key, record.value) for record in records]


def plain_rows(batches: Iterable[Any]) -> list[Stored]:
    """The rows of Arrow record batches as plain values."""
    columns = ("partition", "offset", "timestamp_ms", "key", "value")
    return [Stored(*(row[column] for column in columns)) for batch in batches for row in batch.to_pylist()]
