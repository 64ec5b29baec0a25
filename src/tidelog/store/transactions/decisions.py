"""What is to be done about transactions that somebody has left: pure functions of their states and of what is open in the logs.

    state of ours          open in logs      what is done
    Prepare commit         some or none      COMMIT markers where it is open · Complete commit
    Prepare abort          some or none      ABORT markers where it is open · Complete abort
    Ongoing                some              Prepare abort · ABORT markers · Complete abort
    Ongoing                none              Complete abort
    Empty, Complete        none              nothing
    Empty, Complete, none  some              as Ongoing: the crash has taken the state, which nobody waited for

A broker's are never touched. Ours is what has our header in its last state record; and without any state record, what has a producer id
that only this store gives out.

A transaction is complete when its markers are durable, not when they are there: with Complete on disk, and a marker lost in a power cut,
what is open would be taken for something that nobody has decided.

An abort writes its state before its markers, and waits for it: the epoch that is in the logs must be in the state too, or a later
transaction could begin with the same one, and its first batch be taken for a repetition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.transactions.ids import MAX_EPOCH

PREPARED = frozenset((TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT))
PENDING = PREPARED | {TransactionStatus.ONGOING, TransactionStatus.PREPARE_EPOCH_FENCE}
"""While a transaction is in one of these, its id cannot begin another."""


_LAST_EPOCH = MAX_EPOCH + 1
"""Given to nobody: a producer of the epoch before it is fenced by it."""


class IdState(NamedTuple):
    """The last state of a transactional id."""

    transactional_id: str
    value: TransactionLogValue
    is_ours: bool


class OpenTxn(NamedTuple):
    """A transaction that is open in a log."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int


class Settlement(NamedTuple):
    """How a transaction is brought to its end."""

    transactional_id: str | None
    """None where no state says whose it is."""
    producer_id: int
    epoch: int
    """Of the markers."""
    is_commit: bool
    prepare: TransactionLogValue | None
    """The decision, to be durable before the first marker; None if it is already."""
    markers: tuple[OpenTxn, ...]
    """Where one is missing."""
    partitions: tuple[TopicPartition, ...]
    """All of it, also where the marker is there: before it is complete, every marker has to be durable."""
    complete: TransactionLogValue | None
    """What is written when all markers are; None if there is nobody to write it about."""


def settle(state: IdState, opened: Sequence[OpenTxn], now_ms: int) -> list[Settlement]:
    """What is left to do about an id of ours, or of a broker whose transaction is to be aborted. `opened` are those of its producer id."""
    value, name = state.value, state.transactional_id
    if value.status is not TransactionStatus.PREPARE_COMMIT:
        found = _abort(state, opened, now_ms)
        return [] if found is None else [found]
    decided = set(value.partitions or ())
    markers = tuple(txn for txn in opened if txn.epoch == value.producer_epoch and txn.partition in decided)
    complete = replace(value, status=TransactionStatus.COMPLETE_COMMIT, partitions=(), last_update_ms=now_ms)
    commit = Settlement(name, value.producer_id, value.producer_epoch, True, None, markers, value.partitions or (), complete)
    # Nothing else of it should be open. If it is, nobody has ever decided to commit it.
    others = _abort(state._replace(value=complete), [txn for txn in opened if txn not in markers], now_ms)
    return [commit] if others is None else [commit, others]


def _abort(state: IdState, opened: Sequence[OpenTxn], now_ms: int) -> Settlement | None:
    value = state.value
    if not opened and value.status not in PENDING:
        return None
    epoch = max((value.producer_epoch, *(txn.epoch for txn in opened)))
    partitions = tuple(dict.fromkeys((*(value.partitions or ()), *(txn.partition for txn in opened))))
    prepare = replace(value, status=TransactionStatus.PREPARE_ABORT, producer_epoch=epoch, partitions=partitions, last_update_ms=now_ms)
    # A broker's decision is written once more: what a crash leaves between two markers is only ended here if the last state is ours.
    is_prepared = state.is_ours and value.status is TransactionStatus.PREPARE_ABORT and value.producer_epoch == epoch
    decision = None if is_prepared or not opened else prepare
    complete = replace(prepare, status=TransactionStatus.COMPLETE_ABORT, partitions=())
    return Settlement(state.transactional_id, value.producer_id, epoch, False, decision, tuple(opened), partitions, complete)


def settle_all(states: Iterable[IdState], opened: Iterable[OpenTxn], own_ids: range, now_ms: int) -> list[Settlement]:
    """What is left to do about everything of ours, on opening a store."""
    states, by_producer = list(states), _by_producer(opened)
    settlements: list[Settlement] = []
    known: dict[int, bool] = {}
    for state in states:
        producer_id = state.value.producer_id
        known[producer_id] = state.is_ours and known.get(producer_id, True)
    for state in states:
        if state.is_ours and known[state.value.producer_id]:
            settlements += settle(state, by_producer.get(state.value.producer_id, ()), now_ms)
    for producer_id, transactions in by_producer.items():
        if producer_id in own_ids and producer_id not in known:
            epoch = max(txn.epoch for txn in transactions)
            settlements.append(Settlement(None, producer_id, epoch, False, None, tuple(transactions), (), None))
    return settlements


def _by_producer(opened: Iterable[OpenTxn]) -> dict[int, list[OpenTxn]]:
    found: dict[int, list[OpenTxn]] = {}
    for txn in opened:
        found.setdefault(txn.producer_id, []).append(txn)
    return found


def foreign(states: Iterable[IdState], opened: Iterable[OpenTxn], own_ids: range) -> list[tuple[OpenTxn, IdState | None]]:
    """The open transactions that are not ours, each with the state that a broker has written about it, if there is one."""
    by_producer: Mapping[int, IdState] = {state.value.producer_id: state for state in states}
    found = []
    for txn in opened:
        state = by_producer.get(txn.producer_id)
        is_ours = txn.producer_id in own_ids if state is None else state.is_ours
        if not is_ours:
            found.append((txn, state))
    return found


def fencing(state: IdState) -> IdState:
    """A broker's transaction to be aborted, with the epoch that fences its producer, as the coordinator's own: that of a timeout.

    A producer that lives on would otherwise write the rest of it behind the abort marker, as a transaction of its own (KIP-890). What is
    decided has its epoch.
    """
    value = state.value
    if value.status in PREPARED:
        return state
    return state._replace(value=replace(value, producer_epoch=min(value.producer_epoch + 1, _LAST_EPOCH)))


def next_identity(value: TransactionLogValue | None, floor_epoch: int) -> tuple[int, int] | None:
    """The producer id and epoch of the next transaction of an id; None: a new producer id, with epoch 0.

    The epoch goes up each time, above `floor_epoch` too, which some log may know of. As in Kafka the last one is not given out.
    """
    if value is None or value.producer_id < 0:
        return None
    epoch = max(value.producer_epoch, floor_epoch)
    return None if epoch >= MAX_EPOCH else (value.producer_id, epoch + 1)


def is_id_expired(state: IdState, now_ms: int, expiration_ms: int) -> bool:
    """Whether an id is forgotten: nobody has used it for long, and nothing is left to do about it. Kafka's rule."""
    return state.value.status not in PENDING and now_ms - state.value.last_update_ms >= expiration_ms
