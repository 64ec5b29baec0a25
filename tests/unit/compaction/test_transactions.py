"""What transactions let a cleaning discard: data of aborted ones at once, markers when nothing of theirs is left."""

import pytest

from tests.support.batches import with_crc
from tests.support.logs import TIME
from tests.support.producers import end_of_txn
from tidelog.compaction.transactions import TransactionTracker, control_type_of
from tidelog.errors import InvalidRecordError
from tidelog.log.txn_index import AbortedTxn
from tidelog.record import ControlType, NewBatch, empty_batch, read_batches
from tidelog.record.encoding import BatchSettings

ABORTED = AbortedTxn(7, 10, 15, 16)


def tracker(*aborted: AbortedTxn) -> TransactionTracker:
    made = TransactionTracker()
    made.add_aborted(aborted)
    return made


def data(tracked: TransactionTracker, last_offset: int, producer_id: int = 7, *, is_transactional: bool = True) -> bool:
    return tracked.discards_data(last_offset, producer_id, is_transactional=is_transactional)


def test_data_of_an_aborted_transaction_goes_and_its_marker_stays() -> None:
    tracked = tracker(ABORTED)
    assert not data(tracked, 9)  # an earlier transaction, committed
    assert not tracked.discards_control(9, 7, ControlType.COMMIT)
    assert data(tracked, 10)
    assert not data(tracked, 12, 8)
    assert not data(tracked, 13, is_transactional=False)
    assert not tracked.discards_control(15, 7, ControlType.ABORT)
    assert tracked.take_kept() == [ABORTED]
    assert tracked.take_kept() == []
    assert not data(tracked, 20)


def test_an_abort_marker_without_data_may_go() -> None:
    tracked = tracker(ABORTED)
    assert tracked.discards_control(15, 7, ControlType.ABORT)
    assert tracked.take_kept() == []
    assert tracked.discards_control(20, 7, ControlType.ABORT)


def test_a_batch_that_reaches_into_the_transaction_belongs_to_it() -> None:
    assert not data(tracker(ABORTED), 9)
    assert data(tracker(ABORTED), 10)


def test_a_commit_marker_may_go_when_no_data_was_met_since_the_last_marker() -> None:
    tracked = tracker()
    assert tracked.discards_control(1, 7, ControlType.COMMIT)
    assert not data(tracked, 2)
    assert tracked.discards_control(3, 8, ControlType.COMMIT)
    assert not tracked.discards_control(4, 7, ControlType.COMMIT)
    assert tracked.discards_control(5, 7, ControlType.COMMIT)


def test_empty_control_batches_may_go_and_unknown_types_stay() -> None:
    tracked = tracker()
    assert tracked.discards_control(1, 7, None)
    assert not tracked.discards_control(1, 7, ControlType.UNKNOWN)
    assert not tracked.discards_control(1, -1, ControlType.LEADER_CHANGE)


def test_a_transaction_that_is_named_for_two_segments_counts_once() -> None:
    tracked = tracker(ABORTED)
    assert data(tracked, 10)
    tracked.add_aborted([ABORTED])
    assert data(tracked, 12)
    assert not tracked.discards_control(15, 7, ControlType.ABORT)
    assert tracked.take_kept() == [ABORTED]
    assert not data(tracked, 16)


def test_aborted_transactions_of_one_producer_come_one_after_the_other() -> None:
    later = AbortedTxn(7, 20, 25, 26)
    tracked = tracker(later, ABORTED)
    assert data(tracked, 10)
    assert not tracked.discards_control(15, 7, ControlType.ABORT)
    assert not data(tracked, 19)
    assert data(tracked, 20)
    assert not tracked.discards_control(25, 7, ControlType.ABORT)
    assert tracked.take_kept() == [ABORTED, later]


def test_what_a_control_batch_says() -> None:
    for kind, control_type in (("commit", ControlType.COMMIT), ("abort", ControlType.ABORT)):
        (batch,) = read_batches(end_of_txn(7, kind))
        assert control_type_of(batch) is control_type  # type: ignore[arg-type]
    empty = empty_batch(base_offset=1, last_offset=1, partition_leader_epoch=0, attributes=0x30, max_timestamp_ms=TIME, producer_id=7)
    (batch,) = read_batches(empty)
    assert control_type_of(batch) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "expected"), [(b"\0\0\0\7", ControlType.UNKNOWN), (b"\0\5\0\1more", ControlType.COMMIT)])
def test_keys_of_other_versions_are_read_as_the_first(key: bytes, expected: ControlType) -> None:
    settings = BatchSettings(producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    (batch,) = read_batches(with_crc(NewBatch([(key, b"")], settings=settings).encode()))
    assert control_type_of(batch) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_control_key_that_cannot_be_raises(key: bytes | None) -> None:
    settings = BatchSettings(producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    (batch,) = read_batches(NewBatch([(key, b"")], settings=settings).encode())
    with pytest.raises(InvalidRecordError, match="control record"):
        control_type_of(batch)  # type: ignore[arg-type]
