"""Bring transactions to their end: what this process has begun, and on opening what a crash has left.

One way for all: the state in the log of `__transaction_state` says whether it is decided, the data logs say where it is still open, and
`decisions` says what follows. So an interrupted call, a crash at any point, and an abort in good order end alike.
"""

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError, TransactionError, UnfinishedTransactionError
from tidelog.log.log import Log
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.internal_logs import existing_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.transactions.decisions import IdState, Settlement, settle, settle_all
from tidelog.store.transactions.ids import producer_ids_of
from tidelog.store.transactions.markers import Failures, coordinator_epoch_of, find_open, find_open_of, write_markers

if TYPE_CHECKING:
    from tidelog.store.transactions.coordinator import Coordinator
    from tidelog.store.transactions.open_transaction import OpenTransaction
    from tidelog.store.transactions.transactional_id import TransactionalId

_logger = logging.getLogger(__name__)
COMMITTED = frozenset((TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT))


def settle_id(coordinator: "Coordinator", owner: "TransactionalId", *, aborted: TidelogError | None = None) -> bool:
    """Bring the last transaction of an id to its end, with the lock of the id held: whether it was committed.

    If some partition cannot be written, `UnfinishedTransactionError`: what is decided stays so. `aborted` is told to who waits for a record
    of a transaction that turns out not to be decided.
    """
    current = owner.current
    if current is not None and current.log is None:
        return _end(owner, current, is_committed=not current.is_stopped and aborted is None, aborted=aborted)  # nothing was written
    try:
        return _settle(coordinator, owner, current, aborted)
    except TidelogError:
        if current is not None and not current.is_in_doubt and coordinator.is_undecided(current):
            current.tell(aborted or _aborted(owner))  # it will be, whatever is in the way now
        raise


def _settle(coordinator: "Coordinator", owner: "TransactionalId", current: "OpenTransaction | None", aborted: TidelogError | None) -> bool:
    state = _state_of(coordinator, owner, current)
    if state is None:
        return False
    partitions = dict.fromkeys((*(state.value.partitions or ()), *(current.partitions if current is not None else ())))
    opened, failures = find_open_of(coordinator.state, state.value.producer_id, partitions)
    is_committed = state.value.status in COMMITTED
    log = existing_log(coordinator.state, TRANSACTIONS, owner.name)
    for settlement in settle(state, opened, coordinator.state.clock()):
        failures |= carry_out(coordinator, settlement, log, is_complete=not failures)
    if failures:
        coordinator.unfinished.add(owner.name)
        if current is not None:
            current.tell(None if is_committed else aborted or _aborted(owner))
        raise unfinished(owner.name, failures, is_committed=is_committed)
    return is_committed if current is None else _end(owner, current, is_committed=is_committed, aborted=aborted)


def _state_of(coordinator: "Coordinator", owner: "TransactionalId", current: "OpenTransaction | None") -> IdState | None:
    """The state to go by: that of the log, or where the log does not know the transaction, one in which nothing is decided."""
    if current is None:
        state = coordinator.table.get(owner.name)
        return state if state is not None and state.is_ours else None
    if current.is_in_doubt:
        log = existing_log(coordinator.state, TRANSACTIONS, owner.name)
        if log is not None:  # otherwise its topic is gone, and with it what may have been decided
            coordinator.table.look_again(log, owner.name, current.state_from)
        current.is_in_doubt = False
    state = coordinator.table.get(owner.name)
    if state is not None and (state.value.producer_id, state.value.producer_epoch) == (current.producer_id, current.epoch):
        return state
    # Somebody has deleted the topic of the states: what is decided stays so.
    status = TransactionStatus.PREPARE_COMMIT if current.is_decided else TransactionStatus.EMPTY
    now_ms = coordinator.state.clock()
    value = TransactionLogValue(current.producer_id, current.epoch, current.timeout_ms, status, tuple(current.partitions), now_ms)
    return IdState(owner.name, value, True)


def _end(owner: "TransactionalId", current: "OpenTransaction", *, is_committed: bool, aborted: TidelogError | None) -> bool:
    owner.current = None
    current.tell(None if is_committed else aborted or _aborted(owner))
    return is_committed


def _aborted(owner: "TransactionalId") -> TransactionError:
    return TransactionError("the transaction was aborted", path=owner.name)


def carry_out(coordinator: "Coordinator", settlement: Settlement, log: Log | None, *, is_complete: bool = True) -> Failures:
    """Do what was decided; `log` is that of the state. Where a marker could not be written, and why; then it is not complete."""
    name, state = settlement.transactional_id, coordinator.state
    if log is not None and name is not None:
        if settlement.prepare is not None:
            coordinator.table.append(log, name, settlement.prepare)
        if settlement.markers:
            coordinator.syncing.wait(log, log.log_end_offset)
    failures = write_markers(state, coordinator.syncing, settlement, 0 if log is None else coordinator_epoch_of(log))
    if log is not None and name is not None and settlement.complete is not None and is_complete and not failures:
        try:
            coordinator.table.append(log, name, settlement.complete)
            coordinator.unfinished.discard(name)
        except TidelogError as error:  # nobody has to wait for it: all markers are there
            coordinator.unfinished.add(name)
            _logger.warning("transaction %s is over, but that could not be written down yet: %s", name, error)
    return failures


def unfinished(name: str, failures: Failures, *, is_committed: bool, hint: str | None = None) -> UnfinishedTransactionError:
    """What is told when a marker could not be written; a `hint` where nobody tries it again."""
    partition, error = next(iter(failures.items()))
    others = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    raised = UnfinishedTransactionError(
        f"the transaction is {'committed' if is_committed else 'aborted'}, but readers of {partition}{others} do not know yet: {error}",
        path=name,
        hint=hint or "it is tried again by the clock, by the next transaction of this id, and when the store is opened",
    )
    raised.__cause__ = error
    return raised


def finish_all(coordinator: "Coordinator") -> None:
    """On opening: finish what is decided, and abort what is not. What cannot be done yet is left for later, and said.

    By the clock it is done again if something could not be read. Then others are at work meanwhile, so what is found here is looked at once
    more before anything is done about it: with the lock of the id held, which who begins and who commits a transaction has.
    """
    state = coordinator.state
    if state.file.next_producer_id == 0:
        return  # transactions were never used here: nothing can be ours
    held = {current.producer_id for owner in coordinator.owners() if (current := owner.current) is not None}
    found_states, unreadable = coordinator.table.read_all()
    states = [found for found in found_states if found.value.producer_id not in held]
    opened = {(txn.partition, txn.producer_id): txn for txn in find_open(state) if txn.producer_id not in held}
    unreachable: dict[str, Failures] = {}
    for found in states:
        # Topics whose settings are not known are not open yet.
        wanted = [partition for partition in found.value.partitions or () if partition not in state.logs] if found.is_ours else []
        more, failures = find_open_of(state, found.value.producer_id, wanted)
        opened |= {(txn.partition, txn.producer_id): txn for txn in more}
        if failures:
            unreachable[found.transactional_id] = failures
    own_ids = producer_ids_of(state.file.store_id)
    if unreadable:
        # What looks as if it had no state may be decided there.
        own_ids = range(0)
        _logger.warning("states of transactions that cannot be read: %s", "; ".join(f"{where}: {why}" for where, why in unreadable.items()))
    coordinator.has_strays = bool(unreadable)
    before = {found.transactional_id: found for found in states}
    for name, settlements in groupby(settle_all(states, opened.values(), own_ids, state.clock()), lambda found: found.transactional_id):
        if name is None:
            _finish_strays(coordinator, list(settlements))
            continue
        with coordinator.holding(name, wait=False) as owner:
            if owner is None or not _is_as_found(coordinator, owner, before[name]):
                coordinator.has_strays = True  # what there is now is looked at the next time
                continue
            for settlement in settlements:
                _finish(coordinator, settlement, unreachable.get(name, {}))


def _is_as_found(coordinator: "Coordinator", owner: "TransactionalId", before: IdState) -> bool:
    """Whether nothing has happened to an id: a transaction would be open, or have left a state of a later epoch."""
    try:
        return owner.current is None and coordinator.table.get(owner.name) == before
    except TidelogError:
        return False


def _finish_strays(coordinator: "Coordinator", settlements: Sequence[Settlement]) -> None:
    """Abort transactions without a state, those that have none now either. One of this process has written it before its first batch."""
    held = {current.producer_id for owner in coordinator.owners() if (current := owner.current) is not None}
    states, unreadable = coordinator.table.read_all()
    known = held | {found.value.producer_id for found in states}
    for settlement in settlements:
        if unreadable or settlement.producer_id in known:
            coordinator.has_strays = True
        else:
            _finish(coordinator, settlement, {})


def _finish(coordinator: "Coordinator", settlement: Settlement, failures: Failures) -> None:
    name = settlement.transactional_id
    _logger.info(
        "transaction %s of producer %d is %s, in %s",
        name or "(of no known id)",
        settlement.producer_id,
        "committed: its decision is durable" if settlement.is_commit else "aborted: it was not decided",
        ", ".join(str(txn.partition) for txn in settlement.markers) or "no partition",
    )
    try:
        log = None if name is None else existing_log(coordinator.state, TRANSACTIONS, name)
        failures = failures | carry_out(coordinator, settlement, log, is_complete=not failures)
    except TidelogError as error:
        failures = {**failures, TopicPartition(TRANSACTIONS.name, 0): error}
    if failures:
        if name is None:
            coordinator.has_strays = True
        else:
            coordinator.unfinished.add(name)
        _logger.warning(
            "transaction %s could not be finished yet: %s",
            name or f"of producer {settlement.producer_id}",
            "; ".join(f"{partition}: {error}" for partition, error in failures.items()),
        )
