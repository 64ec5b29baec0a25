"""A transaction as its user has it."""

import logging
import os
import warnings
from types import TracebackType
from typing import Any, Self

from tidelog.disk.disk import Buffer
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidRecordTypeError, TidelogError, TransactionError
from tidelog.record.encoding import Headers
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.store.groups.offset_commits import CommitsPositions, offset_commit_records
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.topic import Topic
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.open_transaction import OpenTransaction

_logger = logging.getLogger(__name__)


class Transaction:
    """Made by `Store.transaction`. A context manager: leaving the block commits, an exception aborts and goes on.

    It may be shared between threads. Who begins another one with the same id fences it: then everything here raises `ProducerFencedError`.
    """

    def __init__(self, coordinator: Coordinator, opened: OpenTransaction) -> None:
        self.transactional_id = opened.owner.name
        self._coordinator = coordinator
        self._open = opened
        self._gatherers = opened.topics
        self._is_ended = False

    @property
    def producer_id(self) -> int:
        """By which logs know it; -1 as long as nothing is written."""
        return self._open.producer_id

    @property
    def producer_epoch(self) -> int:
        """Goes up with every transaction of the id; -1 as long as nothing is written."""
        return self._open.epoch

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor aborted, nor fenced."""
        return not self._open.is_ending

    def append(
        self,
        topic: str | Topic,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> WriteHandle:
        """Add a record, to be seen when the transaction is committed. What comes back tells then where it went.

        Records are gathered, and written when there is about a mebibyte of them for a partition, or at the end.
        """
        gatherer = self._gatherers.get(topic) if topic.__class__ is str else None
        if gatherer is None:
            gatherer = self._open.gatherer(self._name_of(topic))
        return gatherer.append(value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition)

    def has_room(self, topic: str | Topic, size_bytes: int) -> bool:
        """Whether a record of about this size is only put into a list, and nothing has to be written for it now."""
        gatherer = self._gatherers.get(self._name_of(topic))
        return gatherer is None or gatherer.room_bytes >= size_bytes

    def append_batches(self, topic: str | Topic, partition: int, batches: Buffer) -> int:
        """Add ready v2 batches to a partition, one behind the other, and write them at once: how many records. None may have a producer.

        They are stored as they are, but for what a leader assigns and for the fields of the producer: no record is decoded.
        """
        target = TopicPartition(self._name_of(topic), partition)
        self._coordinator.targets(target.topic).log(partition)  # raises for a topic or a partition that nobody may write to
        self._open.enlist([target])
        return self._open.append_batches(target, batches)

    def commit_positions(self, consumer: CommitsPositions) -> None:
        """Commit how far a consumer has come as part of the transaction: both are there afterwards, or neither.

        Its positions have to be kept in this store.
        """
        self._open.check_open()
        state = self._coordinator.state
        group, rows = offset_commit_records(consumer, state)
        if rows:
            self._open.add_positions(internal_log(state, OFFSETS, group), rows)

    def commit(self) -> None:
        """End it: when this returns, all of it is on disk, and readers of committed records see it.

        If it cannot be committed, it is aborted, and the error says why; but after `UnfinishedTransactionError` it is committed, and only
        readers of some partition have to wait.
        """
        self._is_ended = True
        self._open.commit()

    def abort(self) -> None:
        """End it: nothing of it is ever seen by readers of committed records."""
        self._is_ended = True
        self._open.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_ended:
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except TidelogError as second:  # what happened first is worth more
            _logger.warning("aborting transaction %s: %s", self.transactional_id, second)

    def __del__(self) -> None:
        opened = getattr(self, "_open", None)
        if opened is not None and not self._is_ended and not opened.is_ending and self._coordinator.state.pid == os.getpid():
            opened.is_abandoned = True
            warnings.warn(f"{self!r} was dropped open: it will be aborted", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"Transaction({self.transactional_id!r}, {'open' if self.is_open else 'over'})"

    def _name_of(self, topic: Any) -> str:
        if isinstance(topic, str):
            return topic
        if not isinstance(topic, Topic):
            raise InvalidRecordTypeError("no topic", expected="the name of a topic, or a Topic", found=type(topic).__name__)
        state = self._coordinator.state
        if topic._state is not state:  # which may have one of the same name
            found = topic._state.paths[0]
            raise TransactionError(f"topic {topic.name!r} is of another store", path=state.paths[0], expected=state.paths[0], found=found)
        return topic.name
