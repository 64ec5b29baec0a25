"""What could not be read on opening is looked for again by the clock, while others are at work: theirs is not touched."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.small_stores import open_store
from tests.support.transactions import committed, fill, state_in, write_out
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.state import StoreState
from tidelog.store.store import Store
from tidelog.store.transactions import finishing, markers
from tidelog.store.transactions.decisions import OpenTxn
from tidelog.store.transactions.expiring import end_overdue
from tidelog.store.transactions.transaction import Transaction

ONE = [("a", 0)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "data") as opened:
        opened.create_topic("a", 1)
        with opened.transaction("used") as tx:
            fill(tx, ONE, b"zero")
        opened._transactions.has_strays = True  # as if a state could not be read
        yield opened


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Something happens when the states are read already, and the logs are not."""
    find_open = markers.find_open

    def late(state: StoreState) -> list[OpenTxn]:
        monkeypatch.undo()
        act()
        return find_open(state)

    monkeypatch.setattr(finishing, "find_open", late)


def begin(store: Store, name: str) -> Transaction:
    tx = store.transaction(name)
    fill(tx, ONE, b"one")
    return tx


@pytest.mark.parametrize("name", ["used", "new"])
def test_one_that_begins_to_write_goes_on(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = begin(store, name)
    meanwhile(monkeypatch, lambda: write_out(tx))
    end_overdue(store._transactions)
    assert store._transactions.has_strays, "it is looked at again"
    tx.commit()
    assert committed(store, "a") == [b"zero", b"one"]
    assert state_in(store, name).status is TransactionStatus.COMPLETE_COMMIT
    end_overdue(store._transactions)
    assert not store._transactions.has_strays
    assert committed(store, "a") == [b"zero", b"one"]


@pytest.mark.parametrize("name", ["used", "new"])
def test_one_that_is_committed_meanwhile_stays_so(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = begin(store, name)
    find_open, end_offset = markers.find_open, 0

    def late(state: StoreState) -> list[OpenTxn]:
        nonlocal end_offset
        monkeypatch.undo()
        write_out(tx)
        found = find_open(state)
        tx.commit()
        end_offset = store.log("a", 0).log_end_offset
        return found

    monkeypatch.setattr(finishing, "find_open", late)
    end_overdue(store._transactions)
    assert store.log("a", 0).log_end_offset == end_offset, "no marker behind its end"
    assert committed(store, "a") == [b"zero", b"one"]
    assert state_in(store, name).status is TransactionStatus.COMPLETE_COMMIT
    with store.transaction(name) as after:
        fill(after, ONE, b"two")
    assert committed(store, "a") == [b"zero", b"one", b"two"]
