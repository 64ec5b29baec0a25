"""The asyncio twin of a transaction."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import a_batch
from tests.support.transactions import committed
from tidelog import aio
from tidelog.errors import LogClosedError, ProducerFencedError, TransactionError
from tidelog.store.store import Store
from tidelog.store.transactions.transaction import Transaction


def run(test: Callable[[], Awaitable[None]]) -> None:
    """In a loop of its own; one that takes this long hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def test_commit_and_abort(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            topic = await store.create_topic("a", 2)
            async with store.transaction("id") as tx:
                handle = await tx.append("a", b"one", key=b"key", headers=[("name", b"x")])
                await tx.append(topic, b"two", key=b"key")
                assert not handle.done()
            assert (await handle).offset == 0
            assert committed(store.store, "a") == [b"one", b"two"]
            with pytest.raises(ZeroDivisionError):
                await fail_inside(store)
            assert committed(store.store, "a") == [b"one", b"two"]
            assert [found.transactional_id for found in await store.transactions()] == ["id"]
            assert await store.hanging_transactions() == []

    run(test)


def test_ready_batches(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            topic = await store.create_topic("a", 1)
            async with store.transaction("id") as tx:
                assert await tx.append_batches(topic, 0, a_batch(2) + a_batch(3)) == 5
                assert committed(store.store, "a") == []
            assert committed(store.store, "a") == [b"value"] * 5

    run(test)


async def fail_inside(store: aio.AsyncStore) -> None:
    async with store.transaction("id") as tx:
        await tx.append("a", b"three")
        raise ZeroDivisionError


def test_by_hand_and_fenced(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await store.create_topic("a", 1)
            with pytest.raises(TransactionError, match="has not begun"):
                await store.transaction("id").append("a", b"one")
            async with store.transaction("id") as first:
                await first.append("a", b"one")
                async with store.transaction("id") as second:
                    await second.append("a", b"two")
                    await second.commit()
                with pytest.raises(ProducerFencedError):
                    await first.append("a", b"three")
                with pytest.raises(ProducerFencedError):
                    await first.commit()
            assert committed(store.store, "a") == [b"two"]

    run(test)


def test_more_than_is_gathered_is_written_by_a_thread(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await store.create_topic("a", 1)
            async with store.transaction("id") as tx:
                for _ in range(30):
                    await tx.append("a", bytes(100_000))
                assert store.store.log("a", 0).log_end_offset >= 20
            assert len(committed(store.store, "a")) == 30

    run(test)


def test_a_commit_that_is_cancelled_goes_through(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await store.create_topic("a", 1)
            async with store.transaction("id") as tx:
                await tx.append("a", b"one")
                task = asyncio.ensure_future(tx.commit())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            store.store.transaction("id").abort()  # waits for it
            assert committed(store.store, "a") == [b"one"]

    run(test)


def test_a_commit_that_is_cancelled_is_over_when_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise who begins again begins in front of what is about to be committed, and commits it twice."""

    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await (await store.create_topic("a", 1)).append(b"in")
            await store.create_topic("b", 1)
            commit = Transaction.commit

            def slow(transaction: Transaction) -> None:
                time.sleep(0.1)
                commit(transaction)

            async def work() -> None:
                async with await store.consumer("group", "a") as consumer:
                    for record in await consumer.poll():
                        async with store.transaction("id") as tx:
                            await tx.append("b", record.value)
                            await tx.commit_positions(consumer)
                            monkeypatch.setattr(Transaction, "commit", slow)

            task = asyncio.ensure_future(work())
            while Transaction.commit is not slow:
                await asyncio.sleep(0.001)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0.01)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert committed(store.store, "b") == [b"in"]
            await work()
            assert committed(store.store, "b") == [b"in"]

    run(test)


def test_a_beginning_that_is_cancelled_fences_nobody_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await store.create_topic("a", 1)
            begin, has_begun = Store.transaction, threading.Event()

            def slow(*arguments: Any, **options: Any) -> Transaction:
                has_begun.set()
                time.sleep(0.1)
                return begin(*arguments, **options)

            monkeypatch.setattr(Store, "transaction", slow)
            task = asyncio.ensure_future(store.transaction("id").__aenter__())
            while not has_begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.setattr(Store, "transaction", begin)
            async with store.transaction("id") as tx:
                await tx.append("a", b"one")
                await asyncio.sleep(0.2)
            assert committed(store.store, "a") == [b"one"]

    run(test)


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_what_ends_a_block_is_told_whatever_the_abort_says(
    tmp_path: Path, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """As without asyncio: a task that was cancelled came to its end with an error about a closed store instead."""

    async def test() -> None:
        store = await aio.open(tmp_path / "data")
        await store.create_topic("a", 1)

        async def work(*, is_fine: bool) -> None:
            async with store.transaction("id") as tx:
                await tx.append("a", b"one")
                await store.close()
                if not is_fine:
                    raise error

        with pytest.raises(error):
            await work(is_fine=False)
        store = await aio.open(tmp_path / "data")
        with pytest.raises(LogClosedError):  # who goes on as if nothing were wrong has to hear that it was not committed
            await work(is_fine=True)

    run(test)
    assert "aborting transaction id" in caplog.text


def test_a_task_that_is_cancelled_aborts(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            await store.create_topic("a", 1)
            inside = asyncio.Event()

            async def work() -> None:
                async with store.transaction("id") as tx:
                    await tx.append("a", b"one")
                    inside.set()
                    await asyncio.sleep(1000)

            task = asyncio.ensure_future(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert committed(store.store, "a") == []
            async with store.transaction("id") as tx:
                await tx.append("a", b"two")
            assert committed(store.store, "a") == [b"two"]

    run(test)


def test_positions(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            topic = await store.create_topic("a", 1)
            await store.create_topic("b", 1)
            await topic.append(b"in")
            async with await store.consumer("group", "a") as consumer:
                async with store.transaction("id") as tx:
                    async for record in consumer:
                        await tx.append("b", record.value)
                    await tx.commit_positions(consumer)
                assert await consumer.lag() == dict.fromkeys(consumer.consumer.assignment, 0)
            assert committed(store.store, "b") == [b"in"]

    run(test)


def test_positions_of_a_poll_that_was_cancelled_are_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "data") as store:
            topic = await store.create_topic("a", 2)
            for partition in (0, 1):
                await topic.append(b"in", partition=partition)
            async with await store.consumer("group", "a") as consumer:
                ready, calls, go = consumer.consumer.ready, [], threading.Event()

                def slow(*arguments: Any) -> Any:
                    calls.append(1)
                    if len(calls) == 2:
                        go.wait(20)
                    return ready(*arguments)

                monkeypatch.setattr(consumer.consumer, "ready", slow)
                polling = asyncio.create_task(consumer.poll(2))
                while len(calls) < 2:  # the record of one partition is taken
                    await asyncio.sleep(0.001)
                polling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await polling
                go.set()
                async with store.transaction("id") as tx:
                    await tx.commit_positions(consumer)
                assert {position.offset for position in (await store.group("group").positions()).values()} == {0}
                assert {position.offset for position in (await consumer.positions()).values()} == {0}
                assert len(await consumer.poll(2)) == 2

    run(test)
