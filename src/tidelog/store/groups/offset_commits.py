"""Positions as records of `__consumer_offsets`: keys of version 1, values of version 3, all of one commit in one batch."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidGroupError, TransactionError
from tidelog.log.log import Log
from tidelog.record.kernel.single_batch import NO_HEADERS
from tidelog.schema.consumer_offsets import OffsetCommitKey, OffsetCommitValue, format_offset_key, format_offset_value
from tidelog.store.groups.commit_batch import commit_batch
from tidelog.store.groups.position import Position
from tidelog.store.groups.source import Source
from tidelog.store.state import StoreState

Rows = list[tuple[bytes, bytes]]
"""Keys and values of records."""


class CommitsPositions(Protocol):
    """A consumer, as whoever commits for it sees it."""

    group: str

    @property
    def keeper(self) -> Source:
        """The store that keeps its positions."""

    def positions(self) -> dict[TopicPartition, Position]:
        """Where it goes on in each partition that it has begun to read."""


def offset_commit_records(consumer: CommitsPositions, state: StoreState | None = None) -> tuple[str, Rows]:
    """The group of a consumer, and what it would commit now as keys and values of records.

    With `state` the positions have to be kept in that store, since a transaction cannot reach into another one.
    """
    keeper = getattr(consumer, "keeper", None)
    if keeper is None:
        raise InvalidGroupError("nothing that has positions to commit", expected="a consumer", found=type(consumer).__name__)
    if state is not None and keeper.owned() is not state:
        raise TransactionError(
            f"the positions of group {consumer.group!r} are kept in another store",
            path=state.paths[0],
            expected=state.paths[0],
            found=keeper.paths[0],
        )
    return consumer.group, commit_rows(consumer.group, consumer.positions(), keeper.now_ms())


def commit_rows(group: str, positions: Mapping[TopicPartition, Position], now_ms: int) -> Rows:
    """Positions as keys and values of records."""
    return [
        (key_of(group, *partition), format_offset_value(OffsetCommitValue(found.offset, found.leader_epoch, found.metadata, now_ms)))
        for partition, found in positions.items()
    ]


@lru_cache(4096)
def key_of(group: str, topic: str, partition: int) -> bytes:
    """The key of a position."""
    return format_offset_key(OffsetCommitKey(group, topic, partition))


def append_rows(log: Log, rows: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> None:
    """Append records as one batch, durable when this returns. None takes back what the key had."""
    if len(rows) == 1:
        key, value = rows[0]
        log.append_record(key, value, NO_HEADERS, now_ms)
    elif rows:
        log.append(commit_batch(rows, now_ms))
