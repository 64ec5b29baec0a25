"""Transactions of others: reported, never touched unasked; and ids that a broker has used."""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.crash_images import FEWEST, crash_images, materialise
from tests.support.faulty_disk import FaultyDisk, Moment
from tests.support.logs import TIME, FakeClock, QuietDisk
from tests.support.recording_disk import RecordingDisk
from tests.support.small_stores import open_store, tree_of
from tests.support.transactions import brokers_data, brokers_state, committed, fill, state_in, write_out
from tidelog.disk.names import TopicPartition
from tidelog.errors import (
    DiskFullError,
    InvalidGroupError,
    InvalidProducerEpochError,
    ReadOnlyStoreError,
    TransactionError,
    UnfinishedTransactionError,
)
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.store import Store
from tidelog.store.transactions.hanging import HangingTransaction
from tidelog.store.transactions.state_table import StateTable
from tidelog.store.transactions.transaction import Transaction

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TWO = [("a", 0), ("a", 1)]
Status = TransactionStatus


def a_store(path: Path, **options: Any) -> Store:
    store = open_store(path / "data", **options)
    store.create_topic("a", 2, exist_ok=True)
    store.create_topic("b", 1, exist_ok=True)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with a_store(tmp_path) as opened:
        yield opened


@pytest.fixture
def used(store: Store) -> Store:
    """A store with transactions of its own, so that opening looks for leftovers."""
    with store.transaction("mine") as tx:
        fill(tx, TWO, b"mine")
    return store


@pytest.mark.leaves("open_transaction")
def test_of_a_broker_it_is_reported_and_left_alone(used: Store, tmp_path: Path) -> None:
    brokers_data(used, A0)
    brokers_data(used, B0, producer_id=8, epoch=1)
    brokers_state(used, "theirs", Status.ONGOING, partitions=[A0])
    expected = [
        HangingTransaction("a", 0, 7, 3, 2, TIME, "theirs", Status.ONGOING),
        HangingTransaction("b", 0, 8, 1, 0, TIME, None, None),
    ]
    for _ in range(2):
        used.close()
        before = tree_of(tmp_path)
        used = a_store(tmp_path)
        assert {name: data for name, data in tree_of(tmp_path).items() if name.endswith(".log")} == {
            name: data for name, data in before.items() if name.endswith(".log")
        }
        assert used.hanging_transactions() == expected
    with tidelog.open(tmp_path / "data", "r") as other:
        assert other.hanging_transactions() == expected
        assert [(found.transactional_id, found.is_ours) for found in other.transactions()] == [("mine", True), ("theirs", False)]
        with pytest.raises(ReadOnlyStoreError):
            other.abort_hanging(expected[0])
    used.close()


def test_our_own_are_not_hanging(used: Store, tmp_path: Path) -> None:
    tx = used.transaction("mine")
    fill(tx, TWO, b"more")
    write_out(tx)
    assert used.hanging_transactions() == []
    with tidelog.open(tmp_path / "data", "r") as other:
        assert other.hanging_transactions() == []
    tx.commit()


def test_one_without_a_state_is_aborted_where_it_is(store: Store) -> None:
    brokers_data(store, A0)
    brokers_data(store, A1)
    store.topic("a").append(b"behind", partition=0)
    first, second = store.hanging_transactions()
    assert committed(store, "a") == []
    store.abort_hanging(first)
    assert committed(store, "a") == [b"behind"]
    assert store.hanging_transactions() == [second]
    with pytest.raises(TransactionError, match="no transaction open"):
        store.abort_hanging(first)
    store.abort_hanging(second)
    assert store.hanging_transactions() == []


def test_one_with_a_state_is_aborted_everywhere_and_its_id_can_be_used(store: Store) -> None:
    brokers_data(store, A0)
    brokers_data(store, A1)
    brokers_state(store, "theirs", Status.ONGOING, partitions=[A0, A1])
    with pytest.raises(TransactionError, match="abort_hanging"):
        store.transaction("theirs")
    store.abort_hanging(store.hanging_transactions()[0])
    assert store.hanging_transactions() == []
    assert (state_in(store, "theirs").status, state_in(store, "theirs").producer_epoch) == (Status.COMPLETE_ABORT, 4)
    with pytest.raises(InvalidProducerEpochError):  # its producer, if it lives on, does not write the rest of it
        brokers_data(store, A1, sequence=1)
    with store.transaction("theirs") as tx:
        fill(tx, TWO, b"ours now")
    assert (tx.producer_id, tx.producer_epoch) == (7, 5)
    assert committed(store, "a") == [b"ours now"] * 2


def test_one_that_somebody_else_aborts_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id can be used then, with the same producer id: what is open of that is not what was to be aborted."""
    brokers_data(store, A0)
    brokers_state(store, "theirs", Status.ONGOING, partitions=[A0])
    (hanging,) = store.hanging_transactions()
    table = store._transactions.table
    read_all = table.read_all

    def late() -> Any:
        monkeypatch.undo()
        found = read_all()
        store.abort_hanging(hanging)
        begun.append(store.transaction("theirs"))
        fill(begun[0], TWO, b"ours now")
        write_out(begun[0])
        return found

    begun: list[Transaction] = []
    monkeypatch.setattr(table, "read_all", late)
    with pytest.raises(TransactionError, match="meanwhile"):
        store.abort_hanging(hanging)
    begun[0].commit()
    assert committed(store, "a") == [b"ours now"] * 2
    assert state_in(store, "theirs").status is Status.COMPLETE_COMMIT


@pytest.mark.parametrize("later", ["by the clock", "by asking again", "by opening"])
@pytest.mark.parametrize("status", [Status.ONGOING, Status.PREPARE_ABORT, None])
def test_an_abort_that_is_cut_off_is_ended_later(tmp_path: Path, status: Status | None, later: str) -> None:
    """Once the state that says so is ours, nobody else would end it: also where the store has had no transaction of its own before."""
    disk, clock = FaultyDisk(QuietDisk()), FakeClock()
    with a_store(tmp_path, disk=disk, clock=clock) as store:
        brokers_data(store, A0)
        store.topic("a").append(b"behind", partition=0)
        if status is not None:
            brokers_state(store, "theirs", status, partitions=[A0])
        (hanging,) = store.hanging_transactions()
        disk.fail(1, error=errno.ENOSPC, kind="write", on="a-0/00000000000000000000.log", until_healed=True)
        is_ours = status is not None
        error, hint = (UnfinishedTransactionError, "by the clock") if is_ours else (DiskFullError, "when there is room")
        with pytest.raises(error, match=hint):
            store.abort_hanging(hanging)
        assert store.hanging_transactions() == ([] if is_ours else [hanging])
        disk.heal()
        if later == "by the clock":
            clock.advance(10_000)
            store.scheduler.run_due()
        elif later == "by asking again":
            if is_ours:
                store.transaction("theirs").abort()
            else:
                store.abort_hanging(hanging)
    with a_store(tmp_path, clock=clock) as store:
        if not is_ours and later != "by asking again":  # it is a broker's as before
            assert store.hanging_transactions() == [hanging]
            store.abort_hanging(hanging)
        assert committed(store, "a") == [b"behind"]
        assert store.hanging_transactions() == []
        assert status is None or state_in(store, "theirs").status is Status.COMPLETE_ABORT


@pytest.mark.parametrize("later", ["by the clock", "by its id", "by opening"])
@pytest.mark.parametrize(
    ("status", "at"),
    [(status, at) for status in (Status.ONGOING, Status.PREPARE_ABORT) for at in (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)],
)
def test_an_interrupt_between_a_state_and_its_being_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, at: Status, later: str
) -> None:
    """The log says that it is ours, and nobody has noted it: what is known has to be read again, or only an opening would end it."""
    clock, take_in = FakeClock(), StateTable._take_in

    def interrupted(table: StateTable, number: int, name: str, value: TransactionLogValue | None) -> None:
        if value is not None and value.status is at:
            raise KeyboardInterrupt
        take_in(table, number, name, value)

    with a_store(tmp_path, clock=clock) as store:
        brokers_data(store, A0)
        store.topic("a").append(b"behind", partition=0)
        brokers_state(store, "theirs", status, partitions=[A0])
        (hanging,) = store.hanging_transactions()
        monkeypatch.setattr(StateTable, "_take_in", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.abort_hanging(hanging)
        monkeypatch.undo()
        assert store.hanging_transactions() == []
        if later == "by the clock":
            clock.advance(10_000)
            store.scheduler.run_due()
            assert not store._transactions.unfinished
        elif later == "by its id":
            store.transaction("theirs").abort()
        if later != "by opening":
            assert committed(store, "a") == [b"behind"]
            assert state_in(store, "theirs").status is Status.COMPLETE_ABORT
    with a_store(tmp_path, clock=clock) as store:
        assert committed(store, "a") == [b"behind"]
        assert state_in(store, "theirs").status is Status.COMPLETE_ABORT


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("status", [Status.ONGOING, Status.PREPARE_ABORT])
def test_an_abort_that_is_interrupted_at_every_call(tmp_path: Path, status: Status, moment: Moment) -> None:
    """It hangs as before; or the clock ends it, and the id can be used: with its markers written and its state a broker's, nobody could."""
    for number in range(1, 60):
        disk, clock, home = FaultyDisk(QuietDisk()), FakeClock(), tmp_path / str(number)
        home.mkdir()
        with a_store(home, disk=disk, clock=clock) as store:
            brokers_data(store, A0)
            store.topic("a").append(b"behind", partition=0)
            brokers_state(store, "theirs", status, partitions=[A0])
            (hanging,) = store.hanging_transactions()
            disk.interrupt(number, moment=moment)
            with contextlib.suppress(KeyboardInterrupt):
                store.abort_hanging(hanging)
            disk.heal()
            left = store.hanging_transactions()
            assert left in ([], [hanging])
            clock.advance(10_000)
            store.scheduler.run_due()
            if left:
                store.abort_hanging(hanging)
            assert committed(store, "a") == [b"behind"]
            assert state_in(store, "theirs").status is Status.COMPLETE_ABORT
            store.transaction("theirs").abort()
        shutil.rmtree(home)
        if not disk.fired:
            return
    raise AssertionError("never through")


@pytest.mark.parametrize("status", [Status.ONGOING, Status.PREPARE_ABORT])
def test_the_power_is_cut_at_every_moment_of_an_abort(tmp_path: Path, status: Status) -> None:
    """It hangs as before, in both partitions, and can be asked for again; or it is aborted in both."""
    (tmp_path / "root").mkdir()
    disk = RecordingDisk(tmp_path / "root")
    store = a_store(tmp_path / "root", disk=disk)
    for partition in (A0, A1):
        brokers_data(store, partition)
        store.topic("a").append(b"behind", partition=partition.partition)
    brokers_state(store, "theirs", status, partitions=[A0, A1])
    first = len(disk.recording().events) + 1
    store.abort_hanging(store.hanging_transactions()[0])
    recording = disk.recording()
    store.close()
    outcomes, images = set(), crash_images(recording, bounds=FEWEST, cuts=range(first, len(recording.events) + 1))
    for image in list({image.digest: image for image in images}.values())[::3]:
        materialise(image, tmp_path / "image")
        with open_store(tmp_path / "image" / "data") as opened:
            left = opened.hanging_transactions()
            outcomes.add(len(left))
            assert (len(left), committed(opened, "a")) in ((2, []), (0, [b"behind"] * 2)), image.label
            if left:
                opened.abort_hanging(left[-1])
            assert (opened.hanging_transactions(), committed(opened, "a")) == ([], [b"behind"] * 2)
            assert state_in(opened, "theirs").status is Status.COMPLETE_ABORT
            assert not any(opened.log(*partition).open_transactions for partition in (A0, A1))
        shutil.rmtree(tmp_path / "image")
    assert outcomes == {0, 2}


@pytest.mark.parametrize(("status", "epoch", "expected"), [(Status.PREPARE_ABORT, 4, 4), (Status.ONGOING, 0x7FFF - 1, 0x7FFF)])
def test_the_epoch_of_an_abort(store: Store, status: Status, epoch: int, expected: int) -> None:
    """What is decided has it; the last one is only there to fence."""
    brokers_data(store, A0, epoch=min(epoch, 0x7FFF - 1))
    brokers_state(store, "theirs", status, epoch=epoch, partitions=[A0])
    store.abort_hanging(store.hanging_transactions()[0])
    assert (state_in(store, "theirs").status, state_in(store, "theirs").producer_epoch) == (Status.COMPLETE_ABORT, expected)
    with store.transaction("theirs") as tx:
        fill(tx, TWO, b"ours now")
    assert ((tx.producer_id, tx.producer_epoch) == (7, expected + 1)) == (expected < 0x7FFF)


@pytest.mark.leaves("open_transaction")
def test_one_that_a_broker_has_decided_to_commit_is_not_aborted(store: Store) -> None:
    brokers_data(store, A0)
    brokers_state(store, "theirs", Status.PREPARE_COMMIT, partitions=[A0])
    (hanging,) = store.hanging_transactions()
    assert hanging.status is Status.PREPARE_COMMIT
    with pytest.raises(TransactionError, match="to be committed"):
        store.abort_hanging(hanging)
    with pytest.raises(TransactionError, match="start the broker"):
        store.transaction("theirs")


@pytest.mark.parametrize("wrong", [None, "theirs", ("a", 0)])
def test_what_is_none_is_not_aborted(store: Store, wrong: Any) -> None:
    with pytest.raises(TransactionError, match="hanging_transactions"):
        store.abort_hanging(wrong)


def test_ours_is_not_aborted_as_hanging(store: Store) -> None:
    tx = store.transaction("mine")
    fill(tx, TWO, b"one")
    write_out(tx)
    wrong = HangingTransaction("a", 0, tx.producer_id, 0, 0, TIME)
    with pytest.raises(TransactionError, match="no transaction open"):
        store.abort_hanging(wrong)
    tx.commit()
    assert committed(store, "a") == [b"one"] * 2


@pytest.mark.parametrize("status", [Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT])
def test_an_id_of_a_broker_goes_on_with_the_next_epoch(store: Store, tmp_path: Path, status: Status) -> None:
    brokers_state(store, "theirs", status, partitions=None if status is Status.EMPTY else ())
    tx = store.transaction("theirs")
    fill(tx, TWO, b"one")
    write_out(tx)
    assert (tx.producer_id, tx.producer_epoch) == (7, 4)
    assert state_in(store, "theirs").is_ours
    assert store._state.file.next_producer_id > 0
    log = store._transactions.table._state.log(tx._open.log.partition)  # type: ignore[union-attr]
    assert log.flushed_end >= 2  # that the id is ours is durable before anything else is
    tx.commit()
    assert committed(store, "a") == [b"one"] * 2


def test_a_broker_that_takes_our_id_over_has_it(used: Store, tmp_path: Path) -> None:
    mine = state_in(used, "mine")
    brokers_data(used, A0, producer_id=mine.producer_id, epoch=mine.producer_epoch + 1)
    brokers_state(used, "mine", Status.ONGOING, producer_id=mine.producer_id, epoch=mine.producer_epoch + 1, partitions=[A0])
    used.close()
    with a_store(tmp_path) as again:
        (hanging,) = again.hanging_transactions()
        assert (hanging.producer_id, hanging.transactional_id) == (mine.producer_id, "mine")
        again.abort_hanging(hanging)
        with again.transaction("mine") as tx:
            fill(tx, TWO, b"back")
        assert tx.producer_epoch == mine.producer_epoch + 3  # the abort took one
        assert committed(again, "a") == [b"mine", b"back"] * 2


def test_state_records_that_cannot_be_parsed_are_passed_over(used: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    partition = used._transactions.table._number("mine")
    assert partition is not None
    log = used.log("__transaction_state", partition)
    log.append_record(b"\x00\x09?", b"?", b"\x00", TIME)
    log.append_record(b"\x00\x00\x00\x02ab", b"\x00\x00?", b"\x00", TIME)
    used.close()
    with a_store(tmp_path) as again:
        assert [found.transactional_id for found in again.transactions()] == ["mine"]
        assert "passed over" in caplog.text
        again.transaction("mine").abort()


def test_the_other_internal_topic_takes_part_as_any(store: Store) -> None:
    assert OFFSETS.name not in store._state.file.topics
    with store.consumer("group", "a") as consumer, store.transaction("mine") as tx:
        store.topic("a").append(b"in", partition=0)
        assert [record.value for record in consumer] == [b"in"]
        tx.append("b", b"out")
        tx.commit_positions(consumer)
        assert store.group("group").positions() == {}
    assert {partition: found.offset for partition, found in store.group("group").positions().items() if found.offset} == {A0: 1}
    assert committed(store, "b") == [b"out"]


def test_positions_of_an_aborted_transaction_do_not_count(store: Store) -> None:
    store.topic("a").append(b"in", partition=0)
    with store.consumer("group", "a") as consumer:
        assert len(list(consumer)) == 1
        tx = store.transaction("mine")
        tx.commit_positions(consumer)
        tx.abort()
        assert store.group("group").positions() == {}
        tx = store.transaction("mine")
        tx.commit_positions(consumer)
        tx._open.write(tx._open._take())
        tx.abort()
        assert store.group("group").positions() == {}
        with store.transaction("mine") as tx:
            tx.commit_positions(consumer)
    assert store.group("group").positions()[A0].offset == 1
    assert store.hanging_transactions() == []


def test_positions_of_what_is_no_consumer(store: Store) -> None:
    wrong: list[Any] = ["group", store.group("group"), None]
    tx = store.transaction("mine")
    for found in wrong:
        with pytest.raises(InvalidGroupError, match="expected a consumer"):
            tx.commit_positions(found)
    tx.commit()  # nothing of it was taken


def test_positions_that_are_kept_elsewhere(store: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as other, store.consumer("group", "a", positions=other) as consumer:
        tx = store.transaction("mine")
        with pytest.raises(TransactionError, match="another store"):
            tx.commit_positions(consumer)
        tx.abort()
