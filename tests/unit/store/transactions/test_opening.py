"""What opening does about transactions that a crash has left, at each step; and by the clock, what could not be done then."""

import errno
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.groups import offsets_log
from tests.support.logs import FakeClock, QuietDisk
from tests.support.producers import end_of_txn
from tests.support.small_stores import open_store, tree_of
from tests.support.transactions import committed, fill, state_in, write_out
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import DiskFullError, LogNotFoundError, TransactionError, UnfinishedTransactionError
from tidelog.log.log import Log
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.store import Store
from tidelog.store.transactions.transaction import Transaction

TWO = [("a", 0), ("b", 0)]
Status = TransactionStatus


def a_store(path: Path, **options: Any) -> Store:
    store = open_store(path, **options)
    store.create_topic("a", 1, exist_ok=True)
    store.create_topic("b", 1, exist_ok=True)
    return store


def crashed(tmp_path: Path, leave: Callable[[Transaction], object], disk: Disk | None = None) -> Path:
    """A copy of a store as it is while a transaction is at some point."""
    with a_store(tmp_path / "data", **({} if disk is None else {"disk": disk})) as store:
        with store.transaction("id") as tx:
            fill(tx, TWO, b"zero")
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        leave(tx)
        shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        if tx.is_open:
            tx.abort()
    return tmp_path / "copy"


def decide(tx: Transaction) -> None:
    """Up to the decision, and no further."""
    write_out(tx)
    tx._open.write_state(Status.PREPARE_COMMIT)


def decide_and_mark_one(tx: Transaction) -> None:
    """The same, and one of the markers."""
    decide(tx)
    log = tx._coordinator.state.log(next(iter(tx._open.partitions)))
    log.append(end_of_txn(tx.producer_id, "commit", epoch=tx.producer_epoch), origin="coordinator")


@pytest.mark.parametrize(
    ("leave", "there", "status"),
    [
        (lambda tx: None, False, Status.COMPLETE_COMMIT),
        (write_out, False, Status.COMPLETE_ABORT),
        (decide, True, Status.COMPLETE_COMMIT),
        (decide_and_mark_one, True, Status.COMPLETE_COMMIT),
        (Transaction.commit, True, Status.COMPLETE_COMMIT),
        (Transaction.abort, False, Status.COMPLETE_COMMIT),
    ],
)
def test_opening_settles_it(tmp_path: Path, leave: Callable[[Transaction], object], there: bool, status: Status) -> None:
    copy = crashed(tmp_path, leave)
    with open_store(copy) as store:
        values = [b"zero", b"one"] if there else [b"zero"]
        assert (committed(store, "a"), committed(store, "b")) == (values, values)
        assert state_in(store, "id").status is status
        assert all(store.log(*partition).last_stable_offset == store.log(*partition).log_end_offset for partition in TWO)
    before = tree_of(copy)
    open_store(copy).close()
    assert {k: v for k, v in tree_of(copy).items() if k.endswith(".log")} == {k: v for k, v in before.items() if k.endswith(".log")}
    with open_store(copy) as store:
        with store.transaction("id") as tx:
            fill(tx, TWO, b"two")
        assert committed(store, "a") == committed(store, "b") == [*values, b"two"]


def test_a_state_that_the_crash_has_taken(tmp_path: Path) -> None:
    """Nobody waits for Ongoing: the data may be on disk without it, also that of the very first transaction of an id."""
    with a_store(tmp_path / "data") as store:
        with store.transaction("id") as tx:
            fill(tx, TWO, b"zero")
        ends = {"id": state_log(store, "id").log_end_offset, "new": 0}
        held = [store.transaction(name) for name in ends]
        for tx in held:
            fill(tx, TWO, b"one")
            write_out(tx)
        logs = {str(state_log(store, name).partition): end for name, end in ends.items()}
        assert len(logs) == 2
        shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        for tx in held:
            tx.abort()
    for directory, end in logs.items():
        with Log.open(tmp_path / "copy" / directory, pool=FilePool(QuietDisk())) as log:
            log.truncate_to(end)
    with open_store(tmp_path / "copy") as copy:
        assert committed(copy, "a") == committed(copy, "b") == [b"zero"]
        assert all(copy.log(*partition).last_stable_offset == copy.log(*partition).log_end_offset for partition in TWO)
        assert (state_in(copy, "id").status, state_in(copy, "id").producer_epoch) == (Status.COMPLETE_ABORT, 1)
        assert [found.transactional_id for found in copy.transactions()] == ["id"]
        for name in ends:
            with copy.transaction(name) as tx:
                fill(tx, TWO, name.encode())
        assert committed(copy, "a") == committed(copy, "b") == [b"zero", b"id", b"new"]


def state_log(store: Store, name: str) -> Log:
    """Where the states of an id are."""
    return internal_log(store._state, TRANSACTIONS, name)


def test_what_has_no_state_and_cannot_be_ended_yet(tmp_path: Path) -> None:
    with a_store(tmp_path / "data") as store:
        tx = store.transaction("new")
        fill(tx, TWO, b"one")
        write_out(tx)
        directory = str(state_log(store, "new").partition)
        shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        tx.abort()
    with Log.open(tmp_path / "copy" / directory, pool=FilePool(QuietDisk())) as log:
        log.truncate_to(0)
    disk, clock = FaultyDisk(QuietDisk()), FakeClock()
    disk.fail(1, error=errno.ENOSPC, kind="write", on="b-0/00000000000000000000.log", until_healed=True)
    with open_store(tmp_path / "copy", disk=disk, clock=clock) as store:
        assert store.log("a", 0).last_stable_offset == 2
        assert store.log("b", 0).last_stable_offset == 0
        disk.heal()
        clock.advance(10_000)
        store.scheduler.run_due()
        assert store.log("b", 0).last_stable_offset == 2
        assert committed(store, "a") == committed(store, "b") == []


def test_a_marker_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    disk, clock = FaultyDisk(QuietDisk()), FakeClock()
    with a_store(tmp_path / "data", disk=disk, clock=clock) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        handle = tx.append("a", b"one", partition=0)
        write_out(tx)
        disk.fail(1, error=errno.ENOSPC, kind="write", on="b-0/00000000000000000000.log", until_healed=True)
        with pytest.raises(UnfinishedTransactionError, match="is committed, but readers of b-0"):
            tx.commit()
        assert handle.result().offset == 1
        assert committed(store, "a") == [b"one", b"one"]
        assert committed(store, "b") == []
        with pytest.raises(UnfinishedTransactionError):
            store.transaction("id")
        clock.advance(10_000)
        store.scheduler.run_due()
        assert next(report for report in store.scheduler.reports() if report.name == "transactions").failures == 1
        disk.heal()
        clock.advance(10_000)
        store.scheduler.run_due()
        assert committed(store, "b") == [b"one"]
        assert state_in(store, "id").status is Status.COMPLETE_COMMIT
        store.transaction("id").abort()


def test_what_is_committed_is_not_consumed_again_while_its_marker_is_missing(tmp_path: Path) -> None:
    """A consumer that began at the position before it would have the same input handed out twice, and two outcomes."""
    disk, clock = FaultyDisk(QuietDisk()), FakeClock()
    with a_store(tmp_path / "data", disk=disk, clock=clock) as store:
        store.topic("a").append(b"in")
        with store.consumer("group", "a") as consumer:
            assert len(consumer.poll()) == 1
            tx = store.transaction("id")
            tx.append("b", b"out")
            tx.commit_positions(consumer)
            tx._open.write(tx._open._take())
            positions = offsets_log(store, "group")
            disk.fail(1, error=errno.ENOSPC, kind="write", on=f"{positions.partition}/{0:020}.log", until_healed=True)
            with pytest.raises(UnfinishedTransactionError, match="is committed, but readers of __consumer_offsets"):
                tx.commit()
            consumer.rewind()
            with pytest.raises(TransactionError, match="not over"):
                consumer.poll()
            disk.heal()
            clock.advance(10_000)
            store.scheduler.run_due()
            assert consumer.poll() == []
            assert consumer.positions()[TopicPartition("a", 0)].offset == 1


def test_a_full_disk_before_the_decision_aborts(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with a_store(tmp_path / "data", disk=disk) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        handle = tx.append("a", b"one", partition=0)
        disk.fail(1, error=errno.ENOSPC, kind="write", on="b-0/00000000000000000000.log")
        with pytest.raises(DiskFullError):
            tx.commit()
        with pytest.raises(TransactionError, match="aborted"):
            handle.result()
        assert committed(store, "a") == committed(store, "b") == []
        with store.transaction("id") as tx:
            fill(tx, TWO, b"two")
        assert committed(store, "a") == committed(store, "b") == [b"two"]


def test_a_failure_while_records_are_gathered_dooms_it(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with a_store(tmp_path / "data", disk=disk) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        disk.fail(1, error=errno.ENOSPC, kind="write", on="b-0/00000000000000000000.log")
        with pytest.raises(DiskFullError):
            write_out(tx)
        with pytest.raises(TransactionError, match="can only be aborted"):
            tx.append("a", b"more", partition=0)
        with pytest.raises(TransactionError, match="can only be aborted"):
            tx.commit()
        assert not tx.is_open
        assert committed(store, "a") == []


@pytest.mark.leaves
def test_the_sync_of_the_decision_that_fails_leaves_it_to_the_next_opening(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    store = a_store(tmp_path / "data", disk=disk)
    with store.transaction("id") as tx:
        fill(tx, TWO, b"zero")
    number = store._transactions.table._number("id")
    tx = store.transaction("id")
    fill(tx, TWO, b"one")
    handle = tx.append("a", b"one", partition=0)
    disk.fail(1, kind="sync", on=f"__transaction_state-{number}/00000000000000000000.log")
    with pytest.raises(TransactionError, match="is not known") as raised:
        tx.commit()
    assert "open it again" in str(raised.value)
    with pytest.raises(TransactionError):
        handle.result()
    with pytest.raises(Exception, match="takes no more writes"):
        store.transaction("id")
    store.close()
    with open_store(tmp_path / "data") as again:
        assert committed(again, "a") == [b"zero", b"one", b"one"]
        assert committed(again, "b") == [b"zero", b"one"]


def test_a_partition_that_cannot_be_opened_keeps_its_transaction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = crashed(tmp_path, decide)
    shutil.move(copy / "b-0", tmp_path / "aside")
    with open_store(copy) as store:
        assert committed(store, "a") == [b"zero", b"one"]
        assert state_in(store, "id").status is Status.PREPARE_COMMIT
        assert "could not be finished yet" in caplog.text
        with pytest.raises(UnfinishedTransactionError, match="b-0"):
            store.transaction("id")
    shutil.move(tmp_path / "aside", copy / "b-0")
    with open_store(copy) as store:
        assert committed(store, "b") == [b"zero", b"one"]
        assert state_in(store, "id").status is Status.COMPLETE_COMMIT


@pytest.mark.leaves("open_transaction")
def test_while_a_state_cannot_be_read_nothing_is_taken_for_undecided(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = crashed(tmp_path, decide_and_mark_one)
    (states,) = copy.glob("__transaction_state-*")
    shutil.move(states, tmp_path / "aside")
    with open_store(copy) as store:
        assert committed(store, "a") == [b"zero", b"one"]
        assert committed(store, "b") == [b"zero"]
        assert store.log("b", 0).last_stable_offset == 2
        assert "cannot be read" in caplog.text
        with pytest.raises(LogNotFoundError):
            store.transaction("id")
    shutil.move(tmp_path / "aside", states)
    with open_store(copy) as store:
        assert committed(store, "b") == [b"zero", b"one"]


def test_a_topic_that_is_deleted_is_not_waited_for(tmp_path: Path) -> None:
    copy = crashed(tmp_path, decide)
    shutil.move(copy / "b-0", tmp_path / "aside")
    with open_store(copy) as store:
        store.delete_topic("b")
        with store.transaction("id") as tx:
            tx.append("a", b"two")
        assert committed(store, "a") == [b"zero", b"one", b"two"]


def test_a_store_that_never_had_transactions_reads_nothing(tmp_path: Path) -> None:
    a_store(tmp_path / "data").close()
    disk = FaultyDisk(QuietDisk())
    with open_store(tmp_path / "data", disk=disk) as store:
        assert not [call for call in disk.calls if "__transaction_state" in call.path]
        assert (store.transactions(), store.hanging_transactions()) == ([], [])


def test_ids_that_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    clock = FakeClock()
    config = {"transactional.id.expiration.ms": 1_000_000, "transaction.remove.expired.transaction.cleanup.interval.ms": 100_000}
    with a_store(tmp_path / "data", clock=clock, config=config) as store:
        for name in ("old", "held", "used"):
            with store.transaction(name) as tx:
                fill(tx, TWO, b"one")
        held = store.transaction("held")
        clock.advance(900_000)
        with store.transaction("used") as used:
            fill(used, TWO, b"two")
        store.scheduler.run_due()
        assert len(store.transactions()) == 3
        clock.advance(200_000)
        store.scheduler.run_due()
        assert [found.transactional_id for found in store.transactions()] == ["held", "used"]
        with tidelog.open(tmp_path / "data", "r") as reader:
            assert [found.transactional_id for found in reader.transactions()] == ["held", "used"]
        fill(held, TWO, b"three")
        held.commit()
        with store.transaction("old") as tx:
            fill(tx, TWO, b"again")
        assert tx.producer_epoch == 0
    with a_store(tmp_path / "data", clock=clock, config=config) as store:
        assert len(store.transactions()) == 3


def test_ids_that_nothing_is_known_of_take_no_memory(tmp_path: Path) -> None:
    clock = FakeClock()
    config = {"transactional.id.expiration.ms": 1_000_000, "transaction.remove.expired.transaction.cleanup.interval.ms": 100_000}
    with a_store(tmp_path / "data", clock=clock, config=config) as store:
        for number in range(20):
            with store.transaction(f"once {number}") as tx:
                fill(tx, TWO, b"one")
        store.transaction("nothing written").abort()
        held = store.transaction("held")
        clock.advance(1_000_000)
        store.scheduler.run_due()
        assert [owner.name for owner in store._transactions.owners()] == ["held"]
        assert store.transactions() == []
        fill(held, TWO, b"two")
        held.commit()
        assert committed(store, "b")[-1] == b"two"


def test_an_id_that_is_forgotten_while_somebody_waits_for_it(tmp_path: Path) -> None:
    """Who waited has the lock of something that nobody else knows: two would have the id."""
    with a_store(tmp_path / "data") as store:
        coordinator = store._transactions
        begun: list[Transaction] = []
        waiting = threading.Thread(target=lambda: begun.append(store.transaction("id")))
        with coordinator.holding("id") as owner:
            assert owner is not None
            waiting.start()
            while not waits_for_a_lock(waiting):
                time.sleep(0.001)
            coordinator.forget_unused()
        waiting.join()
        assert [found.name for found in coordinator.owners()] == ["id"]
        assert coordinator.owners() == [begun[0]._open.owner]
        begun[0].abort()


def waits_for_a_lock(thread: threading.Thread) -> bool:
    """As far as somebody else can tell: it is in `holding`, for a while."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "holding"
