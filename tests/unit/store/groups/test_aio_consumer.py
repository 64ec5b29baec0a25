"""The asyncio twin of a consumer: the same, in the loop; what is cancelled has consumed nothing."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.groups import A0, A1, end, offsets_log, values, write
from tests.support.logs import TIME
from tests.unit.store.test_aio import run
from tidelog import EARLIEST, NewBatch, aio
from tidelog.errors import GroupInUseError, LogClosedError, ReadOnlyStoreError, TransactionError, UnknownTopicError
from tidelog.store.groups.consumer import Consumer


async def a_store(path: Path, count: int = 10) -> aio.AsyncStore:
    store = await aio.open(path / "store")
    topic = await store.create_topic("a", 2)
    for number in range(count):
        await topic.append(b"%d" % number, partition=number % 2)
    return store


def test_poll_iterate_commit(tmp_path: Path) -> None:
    async def test() -> None:
        async with await a_store(tmp_path) as store:
            async with await store.consumer("g", "a") as consumer:
                assert len(await consumer.poll(4)) == 4
                await consumer.commit()
                seen = 0
                async for _ in consumer:
                    seen += 1
                    if seen == 2:
                        break
                assert sum(position.offset for position in consumer.consumer.positions().values()) == 6
                assert sum((await consumer.lag()).values()) == 4
                assert [record async for record in consumer][-1] is not None
                assert await consumer.poll(timeout_s=0.01) == []
                await consumer.seek(A0, EARLIEST)
                assert values(await consumer.poll(1)) == [b"0"]
                assert await consumer.position(A0) == 1
                with pytest.raises(GroupInUseError):
                    await store.consumer("g", "a")
                committed = await consumer.committed(A0)
                assert committed is not None
                assert committed.offset == 4
            [group] = await store.groups()
            assert (await group.lag())[A1].lag == 5
            assert await group.reset(EARLIEST) == {A0: 0, A1: 0}
            assert (await store.group("g").positions())[A0].offset == 0
            await group.delete()
            assert await store.groups() == []
            with pytest.raises(UnknownTopicError):
                await store.consumer("g", "nowhere")
        with pytest.raises(LogClosedError):
            await consumer.poll()

    run(test)


def test_a_poll_with_time_waits_until_a_transaction_of_its_positions_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with await a_store(tmp_path) as store, await store.consumer("g", "a") as consumer:
            log = offsets_log(store.store, "g")
            write(log, "g", {A0: 3, A1: 5}, producer=7)
            with pytest.raises(TransactionError, match="not over"):
                await consumer.poll()
            with pytest.raises(TransactionError, match="not over"):
                await consumer.poll(timeout_s=0.01)
            polling = asyncio.create_task(consumer.poll(timeout_s=30))
            await asyncio.sleep(0.01)
            end(log, 7, "commit")
            assert values(await polling) == [b"6", b"8"]

    run(test)


def test_iterating_ends_in_the_middle_of_what_is_read_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with await a_store(tmp_path, 0) as store, await store.consumer("g", "a") as consumer:
            log = store.store.log("a", 0)
            for _ in range(3):
                log.append(NewBatch([(None, b"x" * 1000)] * 450, timestamp_ms=TIME).encode())  # a fetch has less than the three
            count = 0
            async for _ in consumer:
                count += 1
                if count == 1:
                    log.append(NewBatch([(None, b"new")] * 2000, timestamp_ms=TIME).encode())
            assert count == 1350
            assert len([record async for record in consumer]) == 2000

    run(test)


def test_follow_waits_in_the_loop(tmp_path: Path) -> None:
    async def test() -> None:
        async with await a_store(tmp_path, 0) as store, await store.consumer("g", "a", follow=True) as consumer:
            topic = await store.topic("a")

            async def produce() -> None:
                for number in range(3):
                    await asyncio.sleep(0.01)
                    await topic.append(b"%d" % number, partition=0)

            producing = asyncio.create_task(produce())
            seen = []
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 3:
                    break
            assert seen == [b"0", b"1", b"2"]
            await producing

    run(test)


def test_what_is_cancelled_has_consumed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with await a_store(tmp_path) as store, await store.consumer("g", "a") as consumer:
            ready, calls, go = consumer.consumer.ready, [], threading.Event()

            def slow(*arguments: Any) -> Any:
                calls.append(1)
                if len(calls) == 2:
                    go.wait(20)
                return ready(*arguments)

            monkeypatch.setattr(consumer.consumer, "ready", slow)
            polling = asyncio.create_task(consumer.poll(10))
            while len(calls) < 2:
                await asyncio.sleep(0.001)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            go.set()
            assert len(await consumer.poll(10)) == 10
            assert await consumer.poll() == []

    run(test)


def test_who_is_cancelled_while_it_joins_or_leaves_is_no_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with await a_store(tmp_path) as store:
            for name in ("__init__", "close"):
                plain, is_called = getattr(Consumer, name), threading.Event()

                def slow(*arguments: Any, plain: Any = plain, is_called: threading.Event = is_called) -> None:
                    if not is_called.is_set():
                        is_called.set()
                        time.sleep(0.1)
                    plain(*arguments)

                async def work() -> None:
                    async with await store.consumer("g", "a"):
                        pass

                monkeypatch.setattr(Consumer, name, slow)
                task = asyncio.create_task(work())
                while not is_called.is_set():
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError) as cancelled:
                    await task
                assert not store.store.group("g").is_in_use
                await work()
                await asyncio.sleep(0.2)
                del cancelled

    run(test)


def test_one_that_is_only_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            await a_store(tmp_path) as store,
            await aio.open(tmp_path / "kept") as kept,
            await aio.open(tmp_path / "store", "r") as directory,
        ):
            async with await directory.consumer("g", "a") as consumer:
                assert len(await consumer.poll()) == 10
                with pytest.raises(ReadOnlyStoreError):
                    await consumer.commit()
            async with await directory.consumer("g", "a", positions=kept) as consumer:
                assert len(await consumer.poll()) == 10
                await consumer.commit()
            assert len(await kept.group("g").positions()) == 2
            assert await store.groups() == await directory.groups() == []

    run(test)
