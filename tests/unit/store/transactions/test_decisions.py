"""What is to be done about transactions that somebody has left: every state, with and without something open in logs."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.transactions.decisions import IdState, OpenTxn, foreign, is_id_expired, next_identity, settle, settle_all
from tidelog.store.transactions.ids import FIRST_PRODUCER_ID, MAX_EPOCH, producer_ids_of

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OWN = range(1000, 2000)
NOW = TIME + 500
Status = TransactionStatus


def value(status: Status, *partitions: TopicPartition, producer_id: int = 1000, epoch: int = 4) -> TransactionLogValue:
    return TransactionLogValue(producer_id, epoch, 60_000, status, partitions or None, last_update_ms=TIME, start_ms=TIME - 5)


def ours(status: Status, *partitions: TopicPartition, name: str = "id", **options: int) -> IdState:
    return IdState(name, value(status, *partitions, **options), is_ours=True)


def opened(partition: TopicPartition, *, producer_id: int = 1000, epoch: int = 4, first: int = 7) -> OpenTxn:
    return OpenTxn(partition, producer_id, epoch, 0, first)


def test_a_decided_commit_gets_markers_where_it_is_open() -> None:
    (found,) = settle(ours(Status.PREPARE_COMMIT, A, B), [opened(B)], NOW)
    assert (found.is_commit, found.epoch, found.prepare, found.markers) == (True, 4, None, (opened(B),))
    expected = replace(value(Status.COMPLETE_COMMIT), partitions=(), last_update_ms=NOW)
    assert found.complete == expected
    assert found.partitions == (A, B)


def test_a_decided_commit_that_has_all_its_markers_is_completed() -> None:
    (found,) = settle(ours(Status.PREPARE_COMMIT, A, B), [], NOW)
    assert found.is_commit
    assert not found.markers
    assert found.complete is not None


def test_what_a_decided_commit_does_not_name_is_not_committed() -> None:
    commit, abort = settle(ours(Status.PREPARE_COMMIT, A), [opened(A), opened(C), opened(B, epoch=5)], NOW)
    assert (commit.is_commit, commit.markers) == (True, (opened(A),))
    assert (abort.is_commit, abort.epoch, abort.markers) == (False, 5, (opened(C), opened(B, epoch=5)))


def test_a_decided_abort_is_not_decided_again() -> None:
    (found,) = settle(ours(Status.PREPARE_ABORT, A), [opened(A)], NOW)
    assert (found.is_commit, found.prepare, found.markers) == (False, None, (opened(A),))


def test_an_abort_that_a_broker_has_decided_is_made_ours_first() -> None:
    (found,) = settle(IdState("theirs", value(Status.PREPARE_ABORT, A), is_ours=False), [opened(A)], NOW)
    assert (found.is_commit, found.epoch, found.markers) == (False, 4, (opened(A),))
    assert found.prepare == replace(value(Status.PREPARE_ABORT, A), last_update_ms=NOW)


@pytest.mark.parametrize("status", [Status.ONGOING, Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT, Status.DEAD])
def test_what_is_open_and_not_decided_is_aborted_and_that_is_written_first(status: Status) -> None:
    (found,) = settle(ours(status, A), [opened(A), opened(B)], NOW)
    assert not found.is_commit
    assert found.prepare == replace(value(Status.PREPARE_ABORT, A, B), last_update_ms=NOW)
    assert found.complete == replace(value(Status.COMPLETE_ABORT), partitions=(), last_update_ms=NOW)


@pytest.mark.parametrize("status", [Status.ONGOING, Status.PREPARE_ABORT, Status.COMPLETE_COMMIT])
def test_an_abort_takes_the_highest_epoch_that_a_log_knows(status: Status) -> None:
    (found,) = settle(ours(status, A), [opened(A, epoch=9), opened(B, epoch=4)], NOW)
    assert found.epoch == 9
    assert found.prepare is not None
    assert found.prepare.producer_epoch == 9
    assert found.complete is not None
    assert found.complete.producer_epoch == 9


def test_ongoing_with_nothing_open_is_only_completed() -> None:
    (found,) = settle(ours(Status.ONGOING, A), [], NOW)
    assert not found.is_commit
    assert found.prepare is None
    assert not found.markers
    assert found.complete is not None
    assert found.complete.status is Status.COMPLETE_ABORT


@pytest.mark.parametrize("status", [Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT])
def test_with_nothing_open_nothing_is_done_about_what_is_over(status: Status) -> None:
    assert settle(ours(status), [], NOW) == []


def test_all_a_brokers_are_left_alone() -> None:
    states = [IdState("theirs", value(Status.PREPARE_COMMIT, A, producer_id=5), is_ours=False)]
    assert settle_all(states, [opened(A, producer_id=5), opened(B, producer_id=6)], OWN, NOW) == []


def test_all_of_an_id_that_a_broker_has_taken_over_is_the_brokers() -> None:
    states = [IdState("id", value(Status.ONGOING, A), is_ours=False)]
    assert settle_all(states, [opened(A)], OWN, NOW) == []


def test_all_producers_of_ours_without_a_state_are_aborted() -> None:
    (found,) = settle_all([], [opened(A, producer_id=1500, epoch=2), opened(B, producer_id=1500, epoch=3)], OWN, NOW)
    assert (found.transactional_id, found.producer_id, found.epoch, found.is_commit) == (None, 1500, 3, False)
    assert found.prepare is None
    assert found.complete is None
    assert len(found.markers) == 2


def test_all_keeps_producers_apart() -> None:
    states = [ours(Status.PREPARE_COMMIT, A, name="one"), ours(Status.ONGOING, A, name="two", producer_id=1001)]
    one, two = settle_all(iter(states), [opened(A), opened(A, producer_id=1001, first=9)], OWN, NOW)
    assert (one.transactional_id, one.is_commit, one.markers) == ("one", True, (opened(A),))
    assert (two.transactional_id, two.is_commit, two.markers) == ("two", False, (opened(A, producer_id=1001, first=9),))


def test_foreign_are_those_of_others() -> None:
    theirs = IdState("theirs", value(Status.ONGOING, A, producer_id=5), is_ours=False)
    taken = IdState("taken", value(Status.ONGOING, A, producer_id=1001), is_ours=False)
    known = [theirs, taken, ours(Status.ONGOING, A, producer_id=6)]
    transactions = [opened(A, producer_id=number) for number in (5, 6, 7, 1001, 1002)]
    assert [(txn.producer_id, state) for txn, state in foreign(known, transactions, OWN)] == [(5, theirs), (7, None), (1001, taken)]


def test_the_epoch_goes_up_until_a_new_producer_id_is_needed() -> None:
    assert next_identity(None, -1) is None
    assert next_identity(value(Status.EMPTY), -1) == (1000, 5)
    assert next_identity(value(Status.EMPTY), 8) == (1000, 9)
    assert next_identity(value(Status.EMPTY, epoch=MAX_EPOCH - 1), -1) == (1000, MAX_EPOCH)
    assert next_identity(value(Status.EMPTY, epoch=MAX_EPOCH), -1) is None
    assert next_identity(value(Status.EMPTY), MAX_EPOCH) is None


@pytest.mark.parametrize("status", list(Status))
def test_only_what_is_over_expires(status: Status) -> None:
    is_over = status in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT, Status.DEAD)
    assert is_id_expired(ours(status), TIME + 10, 10) is is_over
    assert not is_id_expired(ours(status), TIME + 9, 10)


def test_producer_ids_are_exact_in_json_and_differ_by_store() -> None:
    first, second = producer_ids_of(UUID(int=5)), producer_ids_of(UUID(int=6 + (1 << 100)))
    assert first.start >= FIRST_PRODUCER_ID
    assert first.stop <= second.start
    assert producer_ids_of(UUID(int=(1 << 128) - 1)).stop == 1 << 53
