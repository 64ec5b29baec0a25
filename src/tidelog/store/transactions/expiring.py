"""What is done about transactions by the clock: those that are open for too long, those that could not be ended, and ids nobody uses."""

from collections.abc import Callable
from functools import partial

from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.store.internal_logs import existing_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.scheduler import Task
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.decisions import PENDING, is_id_expired
from tidelog.store.transactions.finishing import settle_id
from tidelog.store.transactions.open_transaction import OpenTransaction
from tidelog.store.transactions.transactional_id import TransactionalId

CHECK_PERIOD_MS = 10_000
"""Kafka's `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""


def tasks_of_transactions(coordinator: Coordinator) -> list[Task]:
    """What the scheduler of a store does about transactions."""
    expiry_ms = coordinator.state.config.transaction_remove_expired_transaction_cleanup_interval_ms
    return [
        Task("transactions", CHECK_PERIOD_MS, partial(end_overdue, coordinator), CHECK_PERIOD_MS),
        Task("transactional ids", expiry_ms, partial(expire_ids, coordinator), expiry_ms),
    ]


def end_overdue(coordinator: Coordinator) -> None:
    """Abort transactions that are open for longer than they may be, or that nobody holds any more, and end what could not be ended."""
    coordinator.state.check()
    errors: list[TidelogError] = []
    for owner in coordinator.owners():
        if owner.current is not None:
            _with_lock(coordinator, owner.name, partial(_end_overdue, coordinator), errors)
    for name in list(coordinator.unfinished):
        _with_lock(coordinator, name, partial(_finish, coordinator), errors)
    if coordinator.has_strays:
        coordinator.finish_all()
    if errors:
        for other in errors[1:]:
            errors[0].add_note(f"also: {other}")
        raise errors[0]


def _with_lock(coordinator: Coordinator, name: str, act: Callable[[TransactionalId], object], errors: list[TidelogError]) -> None:
    """Do something to an id, unless somebody is at it."""
    with coordinator.holding(name, wait=False) as owner:
        if owner is not None:
            try:
                act(owner)
            except TidelogError as error:
                errors.append(error)


def _end_overdue(coordinator: Coordinator, owner: TransactionalId) -> None:
    current = owner.current
    if current is None:
        return
    if current.is_ending:
        settle_id(coordinator, owner)
    elif current.is_abandoned:
        coordinator.fence(owner, "the transaction was dropped open")
    elif is_overdue(current, coordinator.state.clock()):
        coordinator.fence(owner, f"the transaction was open for more than {current.timeout_ms} ms, and was aborted")


def is_overdue(transaction: OpenTransaction, now_ms: int) -> bool:
    """Whether it keeps readers waiting for longer than it may. One that has written nothing keeps nobody."""
    return transaction.started_ms >= 0 and now_ms - transaction.started_ms > transaction.timeout_ms


def _finish(coordinator: Coordinator, owner: TransactionalId) -> None:
    known = coordinator.table.get(owner.name)
    if owner.current is None and known is not None and known.is_ours and known.value.status in PENDING:
        settle_id(coordinator, owner)
    elif owner.current is None:
        coordinator.unfinished.discard(owner.name)


def expire_ids(coordinator: Coordinator) -> int:
    """Forget ids that nobody has used for `transactional.id.expiration.ms`, by tombstones: how many."""
    coordinator.state.check()
    try:
        return _expire_ids(coordinator)
    finally:
        coordinator.forget_unused()


def _expire_ids(coordinator: Coordinator) -> int:
    state = coordinator.state
    entry = state.file.topics.get(TRANSACTIONS.name)
    if entry is None or not entry.is_set:
        return 0  # of a broker's topic whose settings are not known nothing is removed
    now_ms, expiration_ms = state.clock(), state.config.transactional_id_expiration_ms
    errors: list[TidelogError] = []
    ends: dict[int, tuple[Log, int]] = {}
    count = 0
    for found in list(coordinator.table.all()):
        if not is_id_expired(found, now_ms, expiration_ms):
            continue
        with coordinator.holding(found.transactional_id) as owner:
            try:
                if owner is None or owner.current is not None or coordinator.table.get(owner.name) != found:
                    continue
                log = existing_log(state, TRANSACTIONS, owner.name)
                if log is not None:
                    ends[log.partition.partition] = log, coordinator.table.append(log, owner.name, None)
                    count += 1
            except TidelogError as error:
                errors.append(error)
    errors += [error for _, error in coordinator.syncing.sync(list(ends.values()))]
    if errors:
        raise errors[0]
    return count
