"""Groups for tests: positions as records of `__consumer_offsets`, written as a broker or a transaction writes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.logs import TIME
from tests.support.producers import end_of_txn
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.record import BatchSettings, NewBatch
from tidelog.record.kernel.record import Record
from tidelog.schema.consumer_offsets import OffsetCommitKey, OffsetCommitValue, format_offset_key, format_offset_value
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.store import Store

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def offsets_log(store: Store, group: str) -> Log:
    """The log that has the positions of a group."""
    return internal_log(store._state, OFFSETS, group)


def key(group: str, partition: TopicPartition) -> bytes:
    return format_offset_key(OffsetCommitKey(group, *partition))


def write(log: Log, group: str, positions: Mapping[TopicPartition, int | None], *, producer: int | None = None, sequence: int = 0) -> None:
    """Write positions, None for tombstones; with a producer, as part of its transaction."""
    rows = [
        (key(group, partition), None if offset is None else format_offset_value(OffsetCommitValue(offset, 0, "", TIME)))
        for partition, offset in positions.items()
    ]
    settings: dict[str, Any] = {}
    if producer is not None:
        settings = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    log.append(NewBatch(rows, timestamp_ms=TIME, settings=BatchSettings(**settings)).encode())


def end(log: Log, producer: int, kind: str) -> None:
    """End the transaction of a producer."""
    log.append(end_of_txn(producer, kind), origin="coordinator")


def offsets(store: Store, group: str) -> dict[TopicPartition, int]:
    """The positions of a group, offsets only."""
    return {partition: found.offset for partition, found in store.group(group).positions().items()}


def values(records: Iterable[Record]) -> list[bytes | None]:
    return [record.value for record in records]
