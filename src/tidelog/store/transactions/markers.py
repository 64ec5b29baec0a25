"""Transactions as the logs of a store have them: which are open, and the markers that end them."""

import logging
from collections.abc import Iterable

from tidelog.disk.names import TopicPartition
from tidelog.errors import LogClosedError, TidelogError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.log.producers import ProducerEntry
from tidelog.log.storage_errors import storage_error
from tidelog.record.control import ControlType
from tidelog.record.new_batch import transaction_marker
from tidelog.store.state import StoreState
from tidelog.store.transactions.decisions import OpenTxn, Settlement
from tidelog.store.transactions.syncing import Syncing

_logger = logging.getLogger(__name__)

Failures = dict[TopicPartition, TidelogError]
"""Partitions in which something could not be done, and why."""


def open_txn(partition: TopicPartition, entry: ProducerEntry) -> OpenTxn:
    """What a log remembers of a producer, if its transaction is open there."""
    return OpenTxn(partition, entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.transaction_start)


def find_open(state: StoreState) -> list[OpenTxn]:
    """Every open transaction in the logs that are open."""
    return [open_txn(log.partition, entry) for log in list(state.logs.values()) if not log.is_closed for entry in log.open_transactions]


def find_open_of(state: StoreState, producer_id: int, partitions: Iterable[TopicPartition]) -> tuple[list[OpenTxn], Failures]:
    """Where a producer has its transaction open, of some partitions; and those that cannot be looked at. A deleted topic has none."""
    found: list[OpenTxn] = []
    failures: Failures = {}
    for partition in partitions:
        try:
            log = _log(state, partition)
        except TidelogError as error:
            failures[partition] = error
            continue
        entry = None if log is None else log.producer_entry(producer_id)
        if entry is not None and entry.transaction_start >= 0:
            found.append(open_txn(partition, entry))
    return found, failures


def _log(state: StoreState, partition: TopicPartition) -> Log | None:
    """The log of a partition; None if its topic is gone, or is another by now that has no such partition."""
    entry = state.file.topics.get(partition.topic)
    if entry is None or partition.partition >= entry.partitions or (entry.is_lazy and partition.partition in entry.absent):
        return None
    try:
        return state.log(partition)
    except UnknownTopicError:
        if partition.topic not in state.file.topics:
            return None  # deleted this moment
        raise


def write_markers(state: StoreState, syncing: Syncing, settlement: Settlement, coordinator_epoch: int) -> Failures:
    """End a transaction wherever it is open, and wait until that is durable everywhere; where it could not be done, and why."""
    failures: Failures = {}
    ends: dict[TopicPartition, tuple[Log, int]] = {}
    marker: tuple[int, bytes] = (-1, b"")
    for txn in settlement.markers:
        try:
            log = _log(state, txn.partition)
            if log is None:
                continue
            wanted = max(coordinator_epoch, txn.coordinator_epoch)
            if marker[0] != wanted:
                marker = (wanted, _marker(settlement, wanted, state.clock()))
            info = log.append(marker[1], origin="coordinator", wait=False)
            ends[txn.partition] = log, info.last_offset + 1
        except TidelogError as error:
            if not _is_gone(state, txn.partition, error):
                failures[txn.partition] = error
        except OSError as error:
            failures[txn.partition] = storage_error(error, str(txn.partition), "writing a marker failed")
    for partition in settlement.partitions:
        if partition not in ends and partition not in failures:
            try:
                log = _log(state, partition)
            except TidelogError as error:
                failures[partition] = error
                continue
            if log is not None:
                ends[partition] = log, log.log_end_offset  # somebody was interrupted behind the marker
    for log, failure in syncing.sync(list(ends.values())):
        if not _is_gone(state, log.partition, failure):
            failures[log.partition] = failure
    for partition, failure in failures.items():
        _logger.warning("%s: the marker of a transaction could not be written yet: %s", partition, failure)
    return failures


def _marker(settlement: Settlement, coordinator_epoch: int, now_ms: int) -> bytes:
    return transaction_marker(
        ControlType.COMMIT if settlement.is_commit else ControlType.ABORT,
        producer_id=settlement.producer_id,
        producer_epoch=settlement.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=now_ms,
    )


def _is_gone(state: StoreState, partition: TopicPartition, error: TidelogError) -> bool:
    """Whether it failed because the topic was deleted meanwhile: then there is nothing to end."""
    return isinstance(error, (LogClosedError, UnknownTopicError)) and partition.topic not in state.file.topics


def coordinator_epoch_of(log: Log) -> int:
    """The epoch of the coordinator that a state's log belongs to: that of the log's leader."""
    epochs = log.leader_epochs
    return epochs[-1][0] if epochs else 0
