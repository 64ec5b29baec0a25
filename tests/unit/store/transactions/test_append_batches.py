"""Ready batches as part of a transaction."""

from pathlib import Path

import pytest

from tests.support.logs import numbered
from tests.support.small_stores import open_store
from tests.support.transactions import committed
from tidelog.errors import CorruptBatchError, RefusedBatchError, TransactionError, UnknownTopicError
from tidelog.store.store import Store


def a_store(path: Path) -> Store:
    store = open_store(path / "data")
    store.create_topic("a", 2, exist_ok=True)
    return store


def values(first: int, count: int) -> list[bytes]:
    return [str(number).encode().ljust(8, b".") for number in range(first, first + count)]


def test_they_are_seen_with_the_rest_of_it(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            assert tx.append_batches("a", 0, numbered(0, 3) + numbered(3, 4)) == 7
            tx.append("a", b"between", partition=0)
            assert tx.append_batches("a", 1, b"".join(numbered(10 * number, 2) for number in range(9))) == 18
            assert tx.append_batches("a", 0, numbered(7, 1)) == 1
            assert committed(store, "a") == []
        found = committed(store, "a")
        assert found[:9] == [*values(0, 8), b"between"]
        assert len(found) == 9 + 18
        assert store.log("a", 0).open_transactions == ()


def test_an_abort_takes_them_back(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            tx.append_batches("a", 0, numbered(0, 3))
            tx.abort()
        with store.transaction("id") as tx:
            tx.append_batches("a", 0, numbered(3, 2))
        assert committed(store, "a") == values(3, 2)


def test_what_was_left_open_is_aborted_by_opening(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        tx.append_batches("a", 0, numbered(0, 3))
    with a_store(tmp_path) as store:
        assert committed(store, "a") == []
        assert store.log("a", 0).open_transactions == ()


def test_after_a_refusal_it_can_only_be_aborted(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        with pytest.raises(CorruptBatchError):
            tx.append_batches("a", 0, numbered(0, 3) + numbered(3, 2)[:-1] + b"?")
        with pytest.raises(TransactionError, match="can only be aborted"):
            tx.append_batches("a", 0, numbered(0, 3))
        with pytest.raises(TransactionError):
            tx.commit()
        assert committed(store, "a") == []


def test_where_nobody_may_write_they_are_refused_before_anything_is(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, store.transaction("id") as tx:
        for topic, partition, error in (
            ("b", 0, UnknownTopicError),
            ("a", 2, UnknownTopicError),
            ("__tidelog_commits", 0, RefusedBatchError),
        ):
            with pytest.raises(error):
                tx.append_batches(topic, partition, numbered(0, 1))
        assert tx.producer_id == -1
        tx.append_batches("a", 0, numbered(0, 1))
