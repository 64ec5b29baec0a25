"""What there is to tell about transactions, and those that nobody will end: found on request, and aborted on request."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError, TransactionError
from tidelog.log.log_reading import LogReading
from tidelog.record.batch import RecordBatch
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.internal_logs import existing_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.decisions import PENDING, IdState, OpenTxn, Settlement, fencing, foreign, settle
from tidelog.store.transactions.finishing import carry_out, unfinished
from tidelog.store.transactions.ids import producer_ids_of
from tidelog.store.transactions.markers import find_open, find_open_of


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The last state of a transactional id, as `__transaction_state` has it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    status: TransactionStatus
    partitions: tuple[TopicPartition, ...]
    """Where it has written; none once it is over."""
    timeout_ms: int
    start_ms: int
    """-1 before the first."""
    last_update_ms: int
    is_ours: bool
    """Whether this store has written it. Otherwise a broker has, or another store."""


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that this store will not end unasked."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    """Readers of committed records see nothing from here on."""
    since_ms: int
    """When its first batch was written, by the batch's own timestamps; -1 if that cannot be told."""
    transactional_id: str | None = None
    """None if no state says whose it is: then no broker will end it either."""
    status: TransactionStatus | None = None
    """What the broker has written about it last. A decided one is finished by the broker when it starts."""


def describe(state: IdState) -> TransactionDescription:
    """A state, for people."""
    value = state.value
    return TransactionDescription(
        state.transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.status,
        value.partitions or (),
        value.timeout_ms,
        value.start_ms,
        value.last_update_ms,
        state.is_ours,
    )


def describe_hanging(txn: OpenTxn, state: IdState | None, log: LogReading) -> HangingTransaction:
    """An open transaction, for people."""
    is_its_own = state is not None and state.value.status in PENDING
    return HangingTransaction(
        txn.partition.topic,
        txn.partition.partition,
        txn.producer_id,
        txn.epoch,
        txn.first_offset,
        _since_ms(log, txn),
        state.transactional_id if state is not None else None,
        state.value.status if state is not None and is_its_own else None,
    )


def _since_ms(log: LogReading, txn: OpenTxn) -> int:
    try:
        for batch in log.batches(max(txn.first_offset, log.log_start_offset), isolation="log_end"):
            if isinstance(batch, RecordBatch) and batch.producer_id == txn.producer_id:
                return batch.base_timestamp_ms
            if batch.last_offset > txn.first_offset:
                break
    except TidelogError:
        pass  # it can be reported all the same
    return -1


def find_hanging(coordinator: Coordinator) -> list[HangingTransaction]:
    """Those in the logs of a store. Logs that nobody has asked for yet are opened for it."""
    state = coordinator.state
    for name, entry in list(state.file.topics.items()):
        for number in entry.partition_ids():
            try:
                state.log(TopicPartition(name, number))
            except TidelogError:
                continue  # `Store.failures` has it
    found = foreign(coordinator.table.all(), find_open(state), producer_ids_of(state.file.store_id))
    return in_order(describe_hanging(txn, known, state.log(txn.partition)) for txn, known in found)


def in_order(hanging: Iterable[HangingTransaction]) -> list[HangingTransaction]:
    """By where they are."""
    return sorted(hanging, key=lambda found: (found.topic, found.partition, found.first_offset))


def abort_hanging(coordinator: Coordinator, hanging: HangingTransaction) -> None:
    """Abort one. If a broker has written a state about it, everywhere, and the state says so; otherwise in its one partition."""
    if not isinstance(hanging, HangingTransaction):
        raise TransactionError("nothing that could be aborted", expected="one of hanging_transactions()", found=repr(hanging))
    state, partition = coordinator.state, TopicPartition(hanging.topic, hanging.partition)
    opened, failures = find_open_of(state, hanging.producer_id, [partition])
    if failures:
        raise failures[partition]
    states, unreadable = coordinator.table.read_all()
    for where, error in unreadable.items():
        raise TransactionError(f"whether it is decided cannot be told: {where} cannot be read: {error}", path=state.paths[0]) from error
    found = foreign(states, opened, producer_ids_of(state.file.store_id))
    if not found or found[0][0].first_offset != hanging.first_offset:
        raise TransactionError(
            f"producer {hanging.producer_id} has no transaction open in {partition} that could be aborted",
            path=state.paths[0],
            expected=f"one from offset {hanging.first_offset} on, of somebody else",
            found=f"one of this store, from {opened[0].first_offset} on" if opened and not found else f"{len(found)} others",
            hint="hanging_transactions() has those that there are now",
        )
    txn, known = found[0]
    if known is None or known.value.status not in PENDING:
        failures = carry_out(coordinator, Settlement(None, txn.producer_id, txn.epoch, False, None, (txn,), (), None), None)
        if failures:
            raise failures[partition]  # its only marker: nothing was changed
        return
    if known.value.status is TransactionStatus.PREPARE_COMMIT:
        raise TransactionError(
            f"the transaction of {known.transactional_id!r} is decided: it is to be committed",
            path=state.paths[0],
            hint="start the broker, which finishes it",
        )
    with coordinator.holding(known.transactional_id):
        if coordinator.table.get(known.transactional_id) != known:  # the same producer id may have a transaction of ours open by now
            raise TransactionError(
                f"the transaction of {known.transactional_id!r} was ended by somebody else meanwhile",
                path=state.paths[0],
                hint="hanging_transactions() has those that there are now",
            )
        _abort_everywhere(coordinator, known, txn)


def _abort_everywhere(coordinator: Coordinator, known: IdState, txn: OpenTxn) -> None:
    """Abort all of a broker's transaction, with the lock of its id held.

    From the state on that says so it is ours, and nobody else ends it: the clock and an opening have to look for it, whatever happens here.
    """
    state, name = coordinator.state, known.transactional_id
    opened, failures = find_open_of(state, txn.producer_id, dict.fromkeys((*(known.value.partitions or ()), txn.partition)))
    log = existing_log(state, TRANSACTIONS, name)
    coordinator.set_ids_apart()
    coordinator.unfinished.add(name)
    for settlement in settle(fencing(known), opened, state.clock()):
        failures |= carry_out(coordinator, settlement, log, is_complete=not failures)
    if failures:
        after = coordinator.table.get(name)
        is_ours = after is not None and after.is_ours
        raise unfinished(name, failures, is_committed=False, hint=None if is_ours else "it still hangs: abort_hanging() it again")
