"""A transaction that is interrupted at every call to the disk: it is decided or it is not, and whoever comes next brings it to its end."""

import contextlib
import shutil
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk, Moment
from tests.support.logs import QuietDisk
from tests.support.small_stores import open_store, tree_of
from tests.support.transactions import committed, fill, write_out
from tidelog.errors import TidelogError, TransactionError
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.store import Store
from tidelog.store.transactions.state_table import StateTable

TWO = [("a", 0), ("b", 0)]
pytestmark = pytest.mark.leaves("open_transaction")  # copies of a directory in use


def a_store(path: Path, disk: FaultyDisk) -> Store:
    path.mkdir()
    store = open_store(path / "data", disk=disk)
    store.create_topic("a", 1)
    store.create_topic("b", 1)
    with store.transaction("id") as tx:
        fill(tx, TWO, b"zero")
    return store


def is_there(store: Store) -> bool:
    """Whether a transaction is there: all of it, or nothing."""
    values = committed(store, "a")
    assert values == committed(store, "b")
    assert values[0] == b"zero"
    assert values[1:] in ([], [b"one"], [b"one", b"two"], [b"two"])
    return b"one" in values


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_at_every_call(tmp_path: Path, moment: Moment, end: str) -> None:
    outcomes = set()
    for number in range(1, 200):
        home = tmp_path / str(number)
        disk = FaultyDisk(QuietDisk())
        with a_store(home, disk) as store:
            tx = store.transaction("id")
            fill(tx, TWO, b"one")
            disk.interrupt(number, moment=moment)
            was_interrupted = False
            try:
                if number % 2:
                    write_out(tx)
                getattr(tx, end)()
            except KeyboardInterrupt:
                was_interrupted = True
            if tx.is_open:
                tx.abort()
            disk.heal()
            shutil.copytree(home / "data", home / "copy", ignore=shutil.ignore_patterns(".lock"))
            with store.transaction("id") as after:
                fill(after, TWO, b"two")
            here = is_there(store)
            assert committed(store, "a")[-1] == b"two"
        with open_store(home / "copy") as copy:
            there = is_there(copy)  # as after a kill
            assert there == here or not was_interrupted
            for partition in (copy.log("a", 0), copy.log("b", 0)):
                assert partition.last_stable_offset == partition.high_watermark
        before = tree_of(home / "copy")
        open_store(home / "copy").close()
        assert _content(tree_of(home / "copy")) == _content(before)
        if end == "abort":
            assert not here
        outcomes.add((was_interrupted, here))
        shutil.rmtree(home)
        if not disk.fired:
            break
    else:
        raise AssertionError("never through")
    assert outcomes >= ({(True, False), (True, True), (False, True)} if end == "commit" else {(True, False), (False, False)})


def _content(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """What opening must not change: what is in the logs."""
    return {name: content for name, content in tree.items() if name.endswith((".log", ".json"))}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_while_the_next_one_settles_it(tmp_path: Path, moment: Moment) -> None:
    for number in range(1, 60):
        home = tmp_path / str(number)
        disk = FaultyDisk(QuietDisk())
        with a_store(home, disk) as store:
            tx = store.transaction("id")
            fill(tx, TWO, b"one")
            disk.interrupt(3, moment=moment, kind="sync", on=".log")  # that of the decision
            with pytest.raises(KeyboardInterrupt):
                tx.commit()
            disk.interrupt(number, moment=moment)
            was_interrupted = False
            try:
                store.transaction("id").abort()
            except KeyboardInterrupt:
                was_interrupted = True
            disk.heal()
            store.transaction("id").abort()
            assert is_there(store)
        shutil.rmtree(home)
        if not disk.fired[1:]:
            assert not was_interrupted
            return
    raise AssertionError("never through")


def test_right_behind_the_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log, and nobody has noted it."""
    with a_store(tmp_path / "home", FaultyDisk(QuietDisk())) as store:
        take_in = StateTable._take_in

        def interrupted(table: StateTable, number: int, name: str, value: TransactionLogValue | None) -> None:
            if value is not None and value.status is TransactionStatus.PREPARE_COMMIT:
                raise KeyboardInterrupt
            take_in(table, number, name, value)

        monkeypatch.setattr(StateTable, "_take_in", interrupted)
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        handle = tx.append("a", b"one", partition=0)
        with pytest.raises(KeyboardInterrupt):
            tx.commit()
        monkeypatch.undo()
        assert not handle.done()
        store.transaction("id").abort()
        assert committed(store, "b") == [b"zero", b"one"]
        assert handle.result().offset == 3
        with pytest.raises(TransactionError):
            tx.commit()


def test_an_interrupt_while_records_are_written_dooms_it(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with a_store(tmp_path / "home", disk) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        disk.interrupt(1, kind="write", on="b-0/00000000000000000000.log")
        with pytest.raises(KeyboardInterrupt):
            write_out(tx)
        with pytest.raises(TransactionError, match="can only be aborted"):
            tx.append("a", b"two", partition=0)
        with pytest.raises(TransactionError, match="can only be aborted"):
            tx.commit()
        assert not is_there(store)
        assert store.log("a", 0).last_stable_offset == store.log("a", 0).log_end_offset


@pytest.mark.parametrize("until_healed", [False, True])
def test_a_disk_that_fails_at_every_call(tmp_path: Path, until_healed: bool) -> None:
    """Whatever commit raises: after opening again it is all there, or nothing is; and if it returned, it is there."""
    for number in range(1, 200):
        home = tmp_path / str(number)
        disk = FaultyDisk(QuietDisk())
        store = a_store(home, disk)
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        disk.fail(number, until_healed=until_healed)
        error = None
        try:
            tx.commit()
        except TidelogError as raised:
            error = raised
        is_through = not disk.fired
        disk.heal()
        with contextlib.suppress(TidelogError, OSError):
            store.close()
        with open_store(home / "data") as again:
            there = is_there(again)
            assert there or error is not None
            with again.transaction("id") as after:
                fill(after, TWO, b"two")
            assert is_there(again) == there
            assert committed(again, "b")[-1] == b"two"
        shutil.rmtree(home)
        if is_through:
            assert error is None
            return
    raise AssertionError("never through")
