"""Transactions for tests: what readers of committed records see, and what somebody else than the store has left."""

from collections.abc import Iterable
from typing import Any

from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.record import BatchSettings, NewBatch
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus, format_key, format_value
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store
from tidelog.store.transactions.hanging import TransactionDescription
from tidelog.store.transactions.transaction import Transaction


def committed(store: Any, topic: str) -> list[bytes | None]:
    """The values that readers of committed records see, partition by partition."""
    found = store.topic(topic)
    return [record.value for number in found.partition_ids() for record in found.read(partition=number)]


def fill(transaction: Transaction, topics: Iterable[tuple[str, int]], value: bytes) -> None:
    """One record for each of some partitions."""
    for topic, partition in topics:
        transaction.append(topic, value, key=b"key", partition=partition)


def write_out(transaction: Transaction) -> None:
    """Write what is gathered, as if there were a mebibyte of it."""
    inside = transaction._open
    with inside.lock:
        batches = [batch for gatherer in inside.topics.values() for batch in gatherer.buffer.open.values()]
        inside.write(batches)
        for gatherer in inside.topics.values():
            gatherer.buffer.open.clear()


def state_in(store: Store | ReadOnlyStore, transactional_id: str) -> TransactionDescription:
    """The last state of an id."""
    return next(found for found in store.transactions() if found.transactional_id == transactional_id)


def brokers_state(
    store: Store,
    transactional_id: str,
    status: TransactionStatus,
    *,
    producer_id: int = 7,
    epoch: int = 3,
    partitions: Iterable[TopicPartition] | None = None,
) -> None:
    """Write a state as a broker does: without our header."""
    value = TransactionLogValue(
        producer_id, epoch, 60_000, status, None if partitions is None else tuple(partitions), last_update_ms=TIME, start_ms=TIME
    )
    log = internal_log(store._state, TRANSACTIONS, transactional_id)
    log.append(NewBatch([(format_key(transactional_id), format_value(value), (), TIME)]).encode())


def brokers_data(
    store: Store, partition: TopicPartition, *, producer_id: int = 7, epoch: int = 3, value: bytes = b"theirs", sequence: int = 0
) -> None:
    """Write a batch of an open transaction as a broker's producer does."""
    settings = BatchSettings(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)
    store.log(*partition).append(NewBatch([(b"key", value, (), TIME)], settings=settings).encode())
