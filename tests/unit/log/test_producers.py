"""Kafka's rules for producers, one by one: sequence numbers, epochs, duplicates, transactions, markers, expiry."""

from typing import get_args

import pytest

from tidelog.errors import CoordinatorFencedError, InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from tidelog.log.producers import (
    BatchMetadata,
    CompletedTxn,
    Marker,
    Origin,
    ProducerBatch,
    ProducerEntry,
    appended,
    appended_behind,
    decremented,
    find_duplicate,
    incremented,
    is_expired,
    marked,
)

LAST = 2**31 - 1
TIME = 1_700_000_000_000
NEW = ProducerEntry(7)
ORIGINS: tuple[Origin, ...] = get_args(Origin)


def batch(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, time: int = TIME, is_transactional: bool = False
) -> ProducerBatch:
    return ProducerBatch(7, epoch, sequence, offset, offset + count - 1, time, is_transactional)


def marker(*, epoch: int = 0, offset: int = 100, coordinator_epoch: int = 0, is_abort: bool = False) -> Marker:
    return Marker(7, epoch, offset, TIME + 5, coordinator_epoch, is_abort)


def after(*batches: ProducerBatch, entry: ProducerEntry = NEW) -> ProducerEntry:
    for each in batches:
        entry = appended(entry, each, "client")
    return entry


# Sequence numbers


@pytest.mark.parametrize(
    ("sequence", "by", "expected"), [(0, 1, 1), (LAST, 1, 0), (LAST, 0, LAST), (LAST - 2, 5, 2), (0, LAST, LAST), (1, LAST, 0), (-1, 4, -1)]
)
def test_sequence_numbers_wrap_in_31_bits(sequence: int, by: int, expected: int) -> None:
    assert incremented(sequence, by) == expected
    assert decremented(expected, by) == sequence


def test_a_batch_across_the_wrap() -> None:
    entry = after(batch(LAST - 1, 4, offset=10))
    assert entry.batches == (BatchMetadata(1, 13, 3, TIME),)
    assert (entry.batches[0].first_sequence, entry.batches[0].first_offset) == (LAST - 1, 10)
    assert find_duplicate(entry, 0, LAST - 1, 1) == entry.batches[0]
    assert after(batch(2, offset=14), entry=entry).last_sequence == 2


def test_after_the_last_sequence_number_comes_zero() -> None:
    entry = after(batch(LAST))
    assert after(batch(0), entry=entry).last_sequence == 0
    for wrong in (1, LAST):
        with pytest.raises(OutOfOrderSequenceError, match="expected sequence number 0, found"):
            after(batch(wrong), entry=entry)


@pytest.mark.parametrize("known", [1, 3, 5, 7])
def test_many_batches_that_go_on_are_those_batches_one_by_one(known: int) -> None:
    counts = (3, 1, 7, 2, 5, 4, 6)
    batches, sequence, offset = [], LAST - 20, 10
    for number, count in enumerate(counts * 2):
        batches.append(batch(sequence, count, offset=offset, time=TIME - 9 * (number % 2), is_transactional=True))
        sequence, offset = incremented(sequence, count), offset + count
    entry = after(*batches[:known])
    rest = [BatchMetadata(b.last_sequence, b.last_offset, b.last_offset - b.first_offset, b.max_timestamp_ms) for b in batches[known:]]
    one_by_one = [after(*batches[: number + 1]) for number in range(known, len(batches))]
    assert list(appended_behind(entry, rest)) == one_by_one
    assert list(appended_behind(entry, [])) == []


@pytest.mark.parametrize("sequence", [0, 1, 41, LAST])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    assert after(batch(sequence, epoch=3)) == ProducerEntry(7, 3, -1, TIME, -1, (BatchMetadata(sequence, 0, 0, TIME),))


@pytest.mark.parametrize("sequence", [0, 4, 6, LAST])
def test_a_batch_goes_on_where_the_last_one_ended(sequence: int) -> None:
    entry = after(batch(3, 2))
    assert after(batch(5), entry=entry).last_sequence == 5
    with pytest.raises(OutOfOrderSequenceError) as raised:
        after(batch(sequence), entry=entry)
    assert (raised.value.expected, raised.value.found) == ("sequence number 5", sequence)
    assert raised.value.kafka_error == "OUT_OF_ORDER_SEQUENCE_NUMBER"


# Duplicates


def test_five_batches_are_remembered_and_the_sixth_forgets_the_first() -> None:
    five = after(*(batch(2 * number, 2, offset=10 * number) for number in range(5)))
    for number in range(5):
        found = find_duplicate(five, 0, 2 * number, 2 * number + 1)
        assert found is not None
        assert (found.first_offset, found.last_offset) == (10 * number, 10 * number + 1)
    six = after(batch(10, 2, offset=50), entry=five)
    assert len(six.batches) == 5
    assert find_duplicate(six, 0, 0, 1) is None
    assert find_duplicate(six, 0, 2, 3) == five.batches[1]
    with pytest.raises(OutOfOrderSequenceError):
        after(batch(0, 2), entry=six)


@pytest.mark.parametrize(("first", "last"), [(2, 2), (3, 3), (1, 3), (2, 4), (4, 5)])
def test_a_duplicate_has_exactly_the_same_sequence_numbers(first: int, last: int) -> None:
    entry = after(batch(0, 2), batch(2, 2))
    assert find_duplicate(entry, 0, 2, 3) == entry.batches[1]
    assert find_duplicate(entry, 0, first, last) is None


def test_a_duplicate_has_the_same_epoch() -> None:
    entry = after(batch(0), batch(0, epoch=1))
    assert find_duplicate(entry, 1, 0, 0) == entry.batches[0]
    assert find_duplicate(entry, 0, 0, 0) is None
    assert find_duplicate(entry, 2, 0, 0) is None


def test_a_producer_without_batches_has_no_duplicates() -> None:
    assert find_duplicate(NEW, -1, -1, -1) is None


# Epochs


def test_a_new_epoch_begins_at_zero_and_forgets_the_batches() -> None:
    entry = after(batch(0), batch(1))
    for sequence in (1, 2, LAST):
        with pytest.raises(OutOfOrderSequenceError, match="began epoch 1 in the middle"):
            after(batch(sequence, epoch=1), entry=entry)
    newer = after(batch(0, epoch=1, offset=2), entry=entry)
    assert (newer.epoch, newer.batches) == (1, (BatchMetadata(0, 2, 0, TIME),))
    assert after(batch(0, epoch=32767), entry=newer).epoch == 32767


@pytest.mark.parametrize("origin", ["client", "coordinator"])
def test_an_old_epoch_is_fenced(origin: Origin) -> None:
    entry = after(batch(0, epoch=4))
    for sequence in (0, 1):
        with pytest.raises(InvalidProducerEpochError, match="expected epoch 4 or more, found 3") as raised:
            appended(entry, batch(sequence, epoch=3), origin)
    assert raised.value.kafka_error == "INVALID_PRODUCER_EPOCH"


@pytest.mark.parametrize("origin", ["replication", "replay"])
def test_what_is_in_a_leaders_log_is_taken_as_it_is(origin: Origin) -> None:
    """Epochs that go down and sequence numbers that jump: somebody has accepted them."""
    entry = after(batch(0, epoch=4))
    assert appended(entry, batch(9, epoch=3, offset=5), origin) == ProducerEntry(7, 3, -1, TIME, -1, (BatchMetadata(9, 5, 0, TIME),))
    jumped = appended(entry, batch(9, epoch=4, offset=5), origin)
    assert [kept.last_sequence for kept in jumped.batches] == [0, 9]
    assert appended(entry, batch(5, epoch=5), origin).epoch == 5


def test_a_coordinator_writes_in_any_order() -> None:
    assert appended(after(batch(0)), batch(9), "coordinator").last_sequence == 9
    assert appended(after(batch(0)), batch(9, epoch=1), "coordinator").last_sequence == 9


# Transactions


def test_a_transaction_begins_with_its_first_batch() -> None:
    entry = after(batch(0, offset=10), batch(1, offset=11, is_transactional=True), batch(2, offset=15, is_transactional=True))
    assert entry.transaction_start == 11


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_batch_outside_of_the_open_transaction(origin: Origin) -> None:
    entry = after(batch(0, offset=10, is_transactional=True))
    if origin == "replay":
        assert appended(entry, batch(1, offset=11), origin).transaction_start == 10
        return
    with pytest.raises(InvalidTxnStateError, match="transaction that started at offset 10") as raised:
        appended(entry, batch(1, offset=11), origin)
    assert raised.value.kafka_error == "INVALID_TXN_STATE"


def test_sequence_and_epoch_are_looked_at_before_the_transaction() -> None:
    entry = after(batch(0, epoch=2, is_transactional=True))
    with pytest.raises(OutOfOrderSequenceError):
        after(batch(5, epoch=2), entry=entry)
    with pytest.raises(InvalidProducerEpochError):
        after(batch(0, epoch=1), entry=entry)


def test_a_new_epoch_goes_on_in_the_open_transaction() -> None:
    entry = after(batch(0, offset=10, is_transactional=True), batch(0, epoch=1, offset=11, is_transactional=True))
    assert (entry.epoch, entry.transaction_start) == (1, 10)


@pytest.mark.parametrize("is_abort", [False, True])
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_marker_ends_the_transaction(origin: Origin, is_abort: bool) -> None:
    entry = after(batch(0, 2, offset=10, is_transactional=True))
    ended, completed = marked(entry, marker(coordinator_epoch=3, is_abort=is_abort), origin)
    assert completed == CompletedTxn(7, 10, 100, is_abort)
    assert ended == ProducerEntry(7, 0, 3, TIME + 5, -1, entry.batches)
    assert marked(ended, marker(coordinator_epoch=3), origin) == (ended, None)  # once more: harmless
    assert after(batch(2), entry=ended).last_sequence == 2


def test_a_marker_without_data_ends_nothing() -> None:
    entry, completed = marked(NEW, marker(epoch=3, is_abort=True), "coordinator")
    assert completed is None
    assert entry == ProducerEntry(7, 3, 0, TIME + 5, -1, ())


def test_a_marker_of_a_new_epoch_forgets_the_batches() -> None:
    entry = after(batch(0), batch(1, is_transactional=True, offset=4))
    ended, completed = marked(entry, marker(epoch=1), "coordinator")
    assert completed == CompletedTxn(7, 4, 100, False)
    assert (ended.epoch, ended.batches) == (1, ())
    assert after(batch(0, epoch=1), entry=ended).last_sequence == 0
    assert find_duplicate(ended, 0, 1, 1) is None


def test_behind_a_marker_of_a_new_epoch_the_sequence_begins_at_zero() -> None:
    """The producer is known, with no batch: the next sequence number is 0."""
    ended, _ = marked(after(batch(5)), marker(epoch=1), "coordinator")
    assert after(batch(0, epoch=1), entry=ended).last_sequence == 0
    for sequence in (1, 6):
        with pytest.raises(OutOfOrderSequenceError):
            after(batch(sequence, epoch=1), entry=ended)


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_marker_of_an_old_epoch(origin: Origin) -> None:
    entry = after(batch(0, epoch=2, is_transactional=True))
    if origin in ("client", "coordinator"):
        with pytest.raises(InvalidProducerEpochError, match="expected epoch 2 or more, found 1"):
            marked(entry, marker(epoch=1), origin)
    else:
        ended, completed = marked(entry, marker(epoch=1), origin)
        assert (ended.epoch, ended.batches, ended.transaction_start) == (1, (), -1)
        assert completed is not None


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_marker_of_a_replaced_coordinator(origin: Origin) -> None:
    entry, _ = marked(NEW, marker(coordinator_epoch=5), "coordinator")
    assert marked(entry, marker(coordinator_epoch=5), origin)[0].coordinator_epoch == 5
    assert marked(entry, marker(coordinator_epoch=6), origin)[0].coordinator_epoch == 6
    if origin in ("client", "coordinator"):
        with pytest.raises(CoordinatorFencedError, match="expected coordinator epoch 5 or more, found 4") as raised:
            marked(entry, marker(coordinator_epoch=4), origin)
        assert raised.value.kafka_error == "TRANSACTION_COORDINATOR_FENCED"
    else:
        assert marked(entry, marker(coordinator_epoch=4), origin)[0].coordinator_epoch == 4


def test_a_data_batch_keeps_the_coordinator_epoch() -> None:
    entry, _ = marked(after(batch(0)), marker(coordinator_epoch=5), "coordinator")
    assert after(batch(1), entry=entry).coordinator_epoch == 5
    assert after(batch(0, epoch=1), entry=entry).coordinator_epoch == 5


# Expiry


def test_a_producer_expires_by_the_time_of_its_records() -> None:
    entry = after(batch(0, time=TIME), batch(1, time=TIME - 50))
    assert entry.last_timestamp_ms == TIME - 50
    assert not is_expired(entry, TIME + 49, 100)
    assert is_expired(entry, TIME + 50, 100)


def test_a_producer_with_an_open_transaction_never_expires() -> None:
    entry = after(batch(0, is_transactional=True))
    assert not is_expired(entry, TIME + 10**12, 100)
    ended, _ = marked(entry, marker(), "coordinator")
    assert not is_expired(ended, TIME + 5 + 99, 100)
    assert is_expired(ended, TIME + 5 + 100, 100)
