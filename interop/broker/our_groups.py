"""What our store does in a directory that it has adopted from a broker: positions and transactions of every kind."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from interop.broker.live_groups import COPIES, DECIDED, ORDERS, PARTITIONS, SHARED, UNDECIDED, Positions
from interop.broker.store_moves import STORE_CONFIG
from tests.support.recording_disk import Recording, RecordingDisk, Write
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.record import read_batches
from tidelog.schema.transaction_state import TransactionStatus, parse_key, parse_value
from tidelog.store.store import Store

LARGE = 700_000
"""Two of these do not wait together for the end of their transaction."""


@dataclass
class Ours:
    """What our store did in the adopted directory."""

    positions: dict[str, Positions] = field(default_factory=dict)
    """By group, where our consumers stopped."""
    committed: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    """What a reader of committed records gets if it is closed in order, undecided ones left out."""
    epochs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and epoch of our last transaction of an id."""


def let_store_work(data: Path) -> tuple[Ours, Recording]:
    """Everything that positions and transactions can be; the last thing that it does is what is cut off."""
    disk = RecordingDisk(data)
    ours = Ours()
    with Store.open(data, config=STORE_CONFIG, adopt="cluster-metadata", pool=FilePool(disk), background=False) as store:
        for group, count in (("ours", 7), ("classic-left", 0)):
            with store.consumer(group, ORDERS) as consumer:
                taken = consumer.poll(max_records=count) if count else []
                assert len(taken) == count
                consumer.commit()
                ours.positions[group] = {place: consumer.position(place) for place in consumer.assignment}
        for transactional_id in ("our-tx", "our-tx", "tx-committed"):
            with store.transaction(transactional_id) as transaction:
                for number in range(6):
                    transaction.append(COPIES, b"%s %d" % (transactional_id.encode(), number), partition=number % 2)
        transaction = store.transaction("our-tx")
        transaction.append(COPIES, b"aborted", partition=0)
        transaction.abort()
        with store.consumer("our-tx-group", ORDERS) as consumer, store.transaction("our-tx") as transaction:
            for record in consumer.poll(max_records=11):
                transaction.append(COPIES, b"of " + (record.value or b""), partition=0)
            transaction.commit_positions(consumer)
            ours.positions["our-tx-group"] = {place: consumer.position(place) for place in consumer.assignment}
            transaction.append(SHARED, b"before", partition=0)
        undecided = store.transaction("undecided", timeout_ms=900_000)
        for topic in (UNDECIDED, SHARED):
            for _ in range(3):
                undecided.append(topic, bytes(LARGE), partition=0)
        disk.note("deciding")
        with store.consumer("decided-group", ORDERS) as consumer, store.transaction("decided", timeout_ms=900_000) as transaction:
            for number in range(3):
                transaction.append(DECIDED, b"decided %d" % number, partition=0)
                transaction.append(COPIES, b"decided %d" % number, partition=1)
                transaction.append(SHARED, b"decided %d" % number, partition=0)
            consumer.seek((ORDERS, 1), 5)
            transaction.commit_positions(consumer)
            ours.positions["decided-group"] = {(ORDERS, 1): 5}  # where it has not been yet it has no position
        recording = disk.recording()
        ours.epochs = epochs_of(store)
        undecided.abort()
        ours.committed = committed_in(store)
    shutil.rmtree(data)
    return ours, recording


def epochs_of(store: Store) -> dict[str, tuple[int, int]]:
    """Producer id and epoch of each transactional id."""
    return {one.transactional_id: (one.producer_id, one.producer_epoch) for one in store.transactions()}


def cuts_of(recording: Recording) -> tuple[int, int]:
    """Right behind the decision of the last transaction, and right behind the first of its markers."""
    decision = 0
    for number, event in enumerate(recording.events, 1):
        if not isinstance(event, Write) or not event.path.endswith(".log"):
            continue
        batches = list(read_batches(event.data))
        if event.path.startswith("__transaction_state"):
            for record in (record for batch in batches for record in batch):
                is_decided = parse_key(record.key or b"") == "decided" and record.value is not None
                if is_decided and parse_value(record.value or b"").status == TransactionStatus.PREPARE_COMMIT:
                    decision = number
        elif decision and any(batch.is_control for batch in batches):
            return decision, number
    raise AssertionError("there is no such moment")


def committed_in(store: Store) -> dict[TopicPartition, list[bytes]]:
    """What a reader of committed records gets."""
    places = [TopicPartition(name, number) for name, count in PARTITIONS.items() for number in range(count)]
    return {place: [record.value or b"" for record in store.topic(place.topic).read(partition=place.partition)] for place in places}
