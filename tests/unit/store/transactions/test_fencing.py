"""One transaction of an id at a time: whoever comes later is right, and who came before is told."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import FakeClock
from tests.support.small_stores import file_of, open_store
from tests.support.transactions import committed, fill, state_in, write_out
from tests.unit.store.test_store_fork import in_child, raised_by
from tidelog.errors import ProducerFencedError, TransactionError
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.store import Store
from tidelog.store.transactions.ids import BLOCK, MAX_EPOCH, producer_ids_of

TWO = [("a", 0), ("a", 1)]


def a_store(path: Path, **options: Any) -> Store:
    store = open_store(path / "data", **options)
    store.create_topic("a", 2, exist_ok=True)
    return store


@pytest.mark.parametrize("has_written", [False, True])
def test_the_later_one_fences_the_earlier(tmp_path: Path, has_written: bool) -> None:
    with a_store(tmp_path) as store:
        first = store.transaction("id")
        fill(first, TWO, b"first")
        handle = first.append("a", b"first", key=b"key")
        if has_written:
            write_out(first)
        second = store.transaction("id")
        assert not first.is_open
        for use in (lambda: first.append("a", b"x"), lambda: first.append("b", b"x"), first.commit, first.abort):
            with pytest.raises(ProducerFencedError, match="taken by a later transaction"):
                use()
        with pytest.raises(ProducerFencedError):
            handle.result()
        with second:
            fill(second, TWO, b"second")
        assert committed(store, "a") == [b"second", b"second"]
        assert second.producer_epoch == int(has_written)


def nested(store: Store) -> None:
    """The inner block takes the id away from the outer one."""
    with store.transaction("id") as first:
        fill(first, TWO, b"first")
        with store.transaction("id") as second:
            fill(second, TWO, b"second")


def test_fenced_inside_of_its_block_it_says_so_at_the_end(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with pytest.raises(ProducerFencedError):
            nested(store)
        assert committed(store, "a") == [b"second", b"second"]


def test_the_epoch_goes_on_after_opening_again(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, store.transaction("id") as tx:
        fill(tx, TWO, b"one")
    with a_store(tmp_path) as store, store.transaction("id") as again:
        fill(again, TWO, b"two")
    assert (again.producer_id, again.producer_epoch) == (tx.producer_id, 1)


def test_at_the_last_epoch_there_is_a_new_producer_id(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            fill(tx, TWO, b"one")
        log = internal_log(store._state, TRANSACTIONS, "id")
        value = TransactionLogValue(tx.producer_id, MAX_EPOCH - 1, 1, TransactionStatus.EMPTY, None, 0)
        store._transactions.table.append(log, "id", value)
        with store.transaction("id") as last:
            fill(last, TWO, b"two")
        assert (last.producer_id, last.producer_epoch) == (tx.producer_id, MAX_EPOCH)
        with store.transaction("id") as new:
            fill(new, TWO, b"three")
        assert (new.producer_id, new.producer_epoch) == (tx.producer_id + 1, 0)
        assert committed(store, "a") == [b"one", b"two", b"three"] * 2


def test_producer_ids_are_set_apart_in_blocks_and_never_given_twice(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(2):
        with a_store(tmp_path) as store:
            for number in range(2):
                with store.transaction(f"id {len(seen)} {number}") as tx:
                    fill(tx, TWO, b"one")
                seen.append(tx.producer_id - producer_ids_of(store._state.file.store_id).start)
    assert seen == [0, 1, BLOCK, BLOCK + 1]


def test_a_block_is_written_down_before_its_first_id_is_used(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        ids = store._transactions._ids
        for block in range(1, 4):
            assert ids.take() - producer_ids_of(store._state.file.store_id).start == (block - 1) * BLOCK
            assert file_of(tmp_path / "data").next_producer_id == block * BLOCK
            ids._next = ids._end


def test_a_log_that_knows_a_later_epoch_than_the_state(tmp_path: Path) -> None:
    """As when `__transaction_state` was put back from an older backup: a batch must not be taken for one that was there before."""
    with a_store(tmp_path) as store:
        for number in range(4):
            with store.transaction("id") as tx:
                fill(tx, TWO, b"%d" % number)
        log = internal_log(store._state, TRANSACTIONS, "id")
        value = TransactionLogValue(tx.producer_id, 1, 60_000, TransactionStatus.COMPLETE_COMMIT, (), 0)
        store._transactions.table.append(log, "id", value)
        tx = store.transaction("id")
        fill(tx, TWO, b"new")
        with pytest.raises(ProducerFencedError, match="a later transaction"):
            tx.commit()
        with store.transaction("id") as tx:
            fill(tx, TWO, b"new")
        assert tx.producer_epoch == 4
        assert committed(store, "a") == [b"0", b"1", b"2", b"3", b"new"] * 2


def test_open_for_too_long(tmp_path: Path) -> None:
    clock = FakeClock()
    with a_store(tmp_path, clock=clock) as store:
        silent, tx = store.transaction("silent", timeout_ms=20_000), store.transaction("id", timeout_ms=20_000)
        silent.append("a", b"nobody waits for it", key=b"key")
        fill(tx, TWO, b"one")
        write_out(tx)
        clock.advance(20_000)
        store.scheduler.run_due()
        assert tx.is_open
        clock.advance(10_000)
        store.scheduler.run_due()
        with pytest.raises(ProducerFencedError, match="more than 20000 ms"):
            fill(tx, TWO, b"two")
        assert state_in(store, "id").status is TransactionStatus.COMPLETE_ABORT
        silent.commit()
        assert committed(store, "a") == [b"nobody waits for it"]


def test_two_threads_that_want_the_same_id(tmp_path: Path) -> None:
    """Exactly those whose commit returned are there, whoever fenced whom."""
    with a_store(tmp_path) as store:
        done: list[bytes] = []

        def work(name: int) -> None:
            for number in range(40):
                value = b"%d %d" % (name, number)
                try:
                    with store.transaction("id") as tx:
                        fill(tx, TWO, value)
                        if number % 3 == 0:
                            write_out(tx)
                except ProducerFencedError:
                    continue
                except TransactionError:
                    continue  # fenced while it was writing
                done.append(value)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(2):
            assert sorted(r.value or b"" for r in store.topic("a").read(partition=number)) == sorted(done)


def test_many_ids_at_the_same_time_on_the_same_partitions(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        errors: list[BaseException] = []

        def work(name: int) -> None:
            try:
                for number in range(25):
                    with store.transaction(f"id {name}") as tx:
                        fill(tx, TWO, b"%d %d" % (name, number))
                        if number % 5 == 4:
                            tx.abort()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        for partition in range(2):
            values = [record.value for record in store.topic("a").read(partition=partition)]
            for name in range(4):
                mine = [value for value in values if value is not None and value.startswith(b"%d " % name)]
                assert mine == [b"%d %d" % (name, number) for number in range(25) if number % 5 != 4]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_child_it_is_the_parents(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        write_out(tx)
        raised = in_child(
            lambda: raised_by(
                lambda: tx.append("a", b"two", partition=0), tx.commit, tx.abort, lambda: store.transaction("id"), store.transactions
            )
        )
        assert raised == ["ForkedError"] * 5
        assert os.getpid() == store._state.pid
        tx.commit()
        assert committed(store, "a") == [b"one", b"one"]
