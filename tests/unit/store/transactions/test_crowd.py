"""Transactions beside everything else that a store does: compaction, retention, rolls, deleted topics, readers, other transactions."""

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.small_stores import open_store
from tests.support.transactions import write_out
from tidelog.errors import LogClosedError, OffsetOutOfRangeError, ProducerFencedError, TransactionError, UnknownTopicError
from tidelog.store.store import Store

IDS = 4
ROUNDS = 30
SMALL = {"internal.segment.bytes": 4000, "segment.index.bytes": 1200}


class Crowd:
    """Threads that work until the first of them fails, or all are done."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.is_over = False
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[], object]) -> None:
        """Another thread."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run))

    def run(self, first: int) -> None:
        """Until the first so many are done; then the others are told."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads[:first]:
            thread.join()
        self.is_over = True
        for thread in self._threads[first:]:
            thread.join()
        if self.errors:
            raise self.errors[0]


def test_a_crowd(tmp_path: Path) -> None:
    committed: dict[int, list[int]] = {name: [] for name in range(IDS)}
    with open_store(tmp_path / "data") as store:
        store.create_topic("log", 3, SMALL)
        store.create_topic("table", 2, {**SMALL, "cleanup.policy": "compact"})
        store.create_topic("passing", 1, SMALL)
        crowd = Crowd()
        for name in range(IDS):
            crowd.add(lambda name=name: produce(store, name, committed[name]))  # type: ignore[misc]
        crowd.add(lambda: look_after(store, crowd))
        crowd.add(lambda: come_and_go(store, crowd))
        crowd.add(lambda: read(store, crowd))
        crowd.run(IDS)
        check(store, committed)
    with open_store(tmp_path / "data") as store:
        check(store, committed)
        assert store.hanging_transactions() == []


def produce(store: Store, name: int, done: list[int]) -> None:
    random = Random(name)
    for number in range(ROUNDS):
        try:
            with store.transaction(f"id {name}") as tx:
                for partition in range(3):
                    tx.append("log", b"%d %d" % (name, number), partition=partition)
                    if random.random() < 0.3:
                        write_out(tx)
                tx.append("table", b"%d" % number, key=b"%d" % name, partition=0)
                tx.append("table", b"%d" % number, key=b"%d" % name, partition=1)
                if random.random() < 0.3:
                    tx.append("passing", bytes(300))
                if random.random() < 0.2:
                    write_out(tx)
                    raise ZeroDivisionError
        except (ZeroDivisionError, UnknownTopicError):
            continue
        except (LogClosedError, TransactionError):
            continue  # "passing" was deleted half-way
        done.append(number)


def look_after(store: Store, crowd: Crowd) -> None:
    while not crowd.is_over:
        store.compact(roll=True)
        store.retain()
        store.scheduler.run_due()


def come_and_go(store: Store, crowd: Crowd) -> None:
    while not crowd.is_over:
        store.delete_topic("passing")
        store.create_topic("passing", 1, SMALL)
        try:
            with store.transaction("fenced") as first:
                first.append("log", b"never", partition=0)
                store.transaction("fenced").abort()
        except ProducerFencedError:
            continue
        raise AssertionError("not fenced")


def read(store: Store, crowd: Crowd) -> None:
    """What is seen once is seen again, in its order, and nothing comes before it any more."""
    seen: list[list[bytes | None]] = [[], [], []]
    while not crowd.is_over:
        for partition in range(3):
            values = [record.value for record in store.topic("log").read(partition=partition)]
            assert values[: len(seen[partition])] == seen[partition]
            assert b"never" not in values
            seen[partition] = values


def check(store: Store, committed: dict[int, list[int]]) -> None:
    for partition in range(3):
        values = [record.value for record in store.topic("log").read(partition=partition)]
        for name, numbers in committed.items():
            mine = [value for value in values if value is not None and value.startswith(b"%d " % name)]
            assert mine == [b"%d %d" % (name, number) for number in numbers], partition
    for partition in range(2):
        try:
            table = store.topic("table").table(partition=partition)
        except OffsetOutOfRangeError:
            raise AssertionError("nothing deletes from it") from None
        assert dict(table) == {b"%d" % name: b"%d" % numbers[-1] for name, numbers in committed.items()}
