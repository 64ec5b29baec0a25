"""The asyncio twins: they do the same, never block the loop, and being cancelled they leave nothing broken."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import tidelog
from tests.support.logs import TIME
from tidelog import LATEST, aio, aio_topic
from tidelog.errors import ChecksumError, InvalidRecordTypeError, LockedError, LogClosedError, LogNotFoundError, UnknownTopicError
from tidelog.retention import FreeSpaceFloor
from tidelog.store.loading import LoadProgress
from tidelog.store.topic import Topic
from tidelog.store.topic_rounds import Rounds


def run(test: Callable[[], Awaitable[None]]) -> None:
    """In a loop of its own; one that takes this long hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def a_topic(path: Path, partitions: int = 2) -> AsyncIterator[aio.AsyncTopic]:
    async with await aio.open(path / "store") as store:
        yield await store.create_topic("tide", partitions)


@asynccontextmanager
async def ticking(most_s: float) -> AsyncIterator[None]:
    """The loop goes on all the time: no two ticks are further apart than this."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            worst = max(worst, time.monotonic() - last)
            last = time.monotonic()

    ticks = asyncio.create_task(tick())
    yield
    ticks.cancel()
    assert worst < most_s


async def values(records: Any) -> list[bytes]:
    return [record.value async for record in records]


def test_append_and_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            first = await topic.append(b"0", key=b"k", headers=[("h", b"x")], timestamp_ms=TIME, partition=1)
            assert (first.partition, first.offset, first.timestamp_ms) == (1, 0, TIME)
            await topic.append_many([(b"k%d" % number, b"%d" % number) for number in range(1, 10)])
            assert sorted(await values(topic.read())) == [b"%d" % number for number in range(10)]
            assert await values(topic.read(0, 1, partition=1)) == [b"0"]
            assert [record.headers async for record in topic.read(partition=1, end={1: 1})] == [(("h", b"x"),)]
            assert (await topic.table())[b"k9"] == b"9"
            assert sum([batch.num_rows async for batch in topic.arrow(columns=["key"])]) == 10
            assert (await topic.to_arrow()).num_rows == len(await topic.to_pandas()) == len(await topic.to_polars()) == 10

    run(test)


def test_appends_at_the_same_time_are_all_there_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            appended = await asyncio.gather(*(topic.append(b"%d" % number) for number in range(200)))
            assert len({(done.partition, done.offset) for done in appended}) == 200
            assert sorted(await values(topic.read()), key=int) == [b"%d" % number for number in range(200)]

    run(test)


def test_following_waits_in_the_loop_and_holds_no_thread(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            found: list[bytes] = []

            async def follow() -> None:
                async for record in topic.read(LATEST, follow=True, poll_s=0.005):
                    found.append(record.value or b"")
                    if len(found) == 50:
                        return

            followers = [asyncio.create_task(follow()) for _ in range(1)]
            await asyncio.sleep(0.05)
            for number in range(50):
                await topic.append(b"%d" % number)
            await asyncio.gather(*followers)
            assert sorted(found, key=int) == [b"%d" % number for number in range(50)]

    run(test)


def test_more_followers_than_threads(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "store", threads=2) as store:
            topic = await store.create_topic("tide")

            async def first() -> bytes | None:
                async for record in topic.read(follow=True, poll_s=0.005):
                    return record.value
                return None

            followers = [asyncio.create_task(first()) for _ in range(20)]
            await asyncio.sleep(0.05)
            await topic.append(b"v")
            assert await asyncio.gather(*followers) == [b"v"] * 20

    run(test)


def test_the_loops_thread_does_none_of_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops = threading.get_ident()
    called = set()

    def elsewhere(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def note_and_call(*arguments: Any, **options: Any) -> Any:
            assert threading.get_ident() != loops, name
            called.add(name)
            return call(*arguments, **options)

        return note_and_call

    names = ("append", "append_many", "table", "rounds", "to_arrow", "arrow", "to_pandas", "to_polars")
    for name in names:
        monkeypatch.setattr(Topic, name, elsewhere(name, getattr(Topic, name)))
    for name in ("create_topic", "topics", "delete_topic", "flush", "close"):
        monkeypatch.setattr(tidelog.Store, name, elsewhere(name, getattr(tidelog.Store, name)))
    monkeypatch.setattr(Rounds, "next_round", elsewhere("next_round", Rounds.next_round))
    monkeypatch.setattr(aio_topic._Ahead, "take", elsewhere("take", aio_topic._Ahead.take))

    async def test() -> None:
        async with await aio.open(tmp_path / "store") as store:
            topic = await store.create_topic("tide")
            await topic.append(b"v")
            await topic.append_many([(None, b"w")])
            await topic.table()
            for call in (topic.to_arrow, topic.to_pandas, topic.to_polars, store.flush, store.topics):
                await call()
            assert [batch.num_rows async for batch in topic.arrow()] == [2]
            assert len(await values(topic.read())) == 2
            assert (await anext(topic.read(follow=True))).value == b"v"
            await store.delete_topic("tide")

    run(test)
    assert called == {*names, "create_topic", "topics", "delete_topic", "flush", "close", "next_round", "take"}


def test_many_and_large_records_come_in_chunks(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path, 1) as topic:
            await topic.append_many([(None, b"%d" % number) for number in range(5000)])
            assert await values(topic.read()) == [b"%d" % number for number in range(5000)]
            for _ in range(5):
                await topic.append(bytes(900_000))
            assert [len(value) async for value in _only_values(topic.read(5000))] == [900_000] * 5

    run(test)


async def _only_values(records: Any) -> AsyncIterator[bytes]:
    async for record in records:
        yield record.value


# A writer


def test_a_writer(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            async with topic.writer(linger_ms=1) as writer:
                handles = [await writer.append(b"%d" % number, key=b"k") for number in range(100)]
                assert (await handles[0]).offset == 0
                await writer.flush()
                assert all(handle.done() for handle in handles)
                last = await writer.append(b"last", key=b"k", timestamp_ms=TIME)
            assert (await last).timestamp_ms == TIME
            assert len(await values(topic.read())) == 101

    run(test)


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_what_ends_a_writers_block_is_told_whatever_closing_it_says(tmp_path: Path, error: type[BaseException]) -> None:
    """As without asyncio: a task that was cancelled came to its end with the error of a record instead."""

    async def test() -> None:
        async with await aio.open(tmp_path / "store") as store:
            topic = await store.create_topic("tide")
            handles = []

            async def work() -> None:
                async with topic.writer(linger_ms=60_000) as writer:
                    handles.append(await writer.append(b"v"))
                    await store.delete_topic("tide")
                    raise error

            with pytest.raises(error):
                await work()
            with pytest.raises(UnknownTopicError):
                await handles[0]

    run(test)


def test_a_writer_whose_buffer_is_full_waits_in_the_loop(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path, 1) as topic, ticking(2):
            async with topic.writer(linger_ms=1, buffer_memory=100_000) as writer:
                for _ in range(100):
                    await writer.append(bytes(10_000))
            assert len(await values(topic.read())) == 100

    run(test)


def test_a_writer_that_may_have_to_wait_is_not_called_in_the_loops_thread() -> None:
    class Handle:
        is_done = False

        def done(self) -> bool:
            return self.is_done

    class FakeWriter:
        def __init__(self) -> None:
            self.threads: list[int] = []
            self.handles: list[Handle] = []

        def append(self, value: bytes, *, key: bytes | None) -> Handle:
            self.threads.append(threading.get_ident())
            self.handles.append(Handle())
            return self.handles[-1]

    async def test() -> None:
        fake: Any = FakeWriter()
        writer = aio.AsyncWriter(fake, asyncio.to_thread, buffer_memory=10_000)
        loops = threading.get_ident()
        for _ in range(6):
            await writer.append(bytes(1000))
        assert [thread == loops for thread in fake.threads] == [True, True, True, False, False, False]
        for handle in fake.handles:
            handle.is_done = True
        await writer.append(bytes(1000))
        assert fake.threads[-1] == loops

    run(test)


# Being cancelled


def test_a_follower_that_is_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            await topic.append(b"0")
            found: list[bytes] = []

            async def follow() -> None:
                async for record in topic.read(follow=True, poll_s=0.001):
                    found.append(record.value or b"")

            follower = asyncio.create_task(follow())
            while not found:
                await asyncio.sleep(0.001)
            follower.cancel()
            with suppress(asyncio.CancelledError):
                await follower
            await topic.append(b"1")
            assert sorted(await values(topic.read())) == [b"0", b"1"]
            assert found == [b"0"]

    run(test)


def test_appends_that_are_cancelled_leave_a_whole_log(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "store", threads=2) as store:
            topic = await store.create_topic("tide", 1)
            tasks = [asyncio.create_task(topic.append(b"%d" % number)) for number in range(100)]
            await asyncio.sleep(0.003)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            sure = {b"%d" % number for number, outcome in enumerate(done) if not isinstance(outcome, BaseException)}
            assert (await topic.append(b"after")).offset >= len(sure)
            found = await values(topic.read())
            assert len(found) == len(set(found))
            assert sure < set(found)
            assert [record.offset async for record in topic.read()] == list(range(len(found)))

    run(test)


def test_opening_that_is_cancelled_gives_the_directory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    open_store = tidelog.Store.open.__func__  # type: ignore[attr-defined]

    def slow(*arguments: Any, **options: Any) -> Any:
        store = open_store(tidelog.Store, *arguments, **options)
        begun.set()
        go_on.wait(10)
        return store

    async def test() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(tidelog.Store, "open", slow)
            opening = asyncio.create_task(aio.open(tmp_path / "store"))
            await asyncio.to_thread(begun.wait, 10)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        with pytest.raises(LockedError):
            await aio.open(tmp_path / "store")
        go_on.set()
        async with await aio.open(tmp_path / "store", lock_timeout_s=10):
            pass

    run(test)


def test_closing_goes_on_if_it_is_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        store = await aio.open(tmp_path / "store")
        topic = await store.create_topic("tide")
        appending = asyncio.create_task(topic.append(b"v"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await store.close()
        assert store.store.is_closed
        assert (await appending).offset == 0
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidelog-aio")]

    run(test)


# What is refused


def test_errors_are_those_of_the_store(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(LogNotFoundError):
            await aio.open(tmp_path / "nothing", mode="r")
        async with a_topic(tmp_path) as topic:
            with pytest.raises(LockedError):
                await aio.open(tmp_path / "store")
            with pytest.raises(UnknownTopicError):
                await values(topic.read(partition=7))
            with pytest.raises(TypeError):
                await topic.append("text")  # type: ignore[arg-type]

    run(test)


def test_a_closed_store(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic:
            await topic.append(b"v")
            reading = topic.read(follow=True, poll_s=0.001)
            assert (await anext(reading)).value == b"v"
        for use in (lambda: topic.append(b"v"), lambda: values(topic.read()), lambda: anext(reading), topic.table):
            with pytest.raises(LogClosedError):
                await use()

    run(test)


def test_topics(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "store") as store:
            await store.create_topic("b")
            await store.create_topic("a", 3)
            assert [topic.name for topic in await store.topics()] == ["a", "b"]
            assert (await store.topic("a")).topic.partitions == 3
            await (await store.topic("b")).append(b"v")
            await store.flush()
            async with await aio.open(tmp_path / "store", mode="r") as reader:
                assert [topic.name for topic in await reader.topics()] == ["a", "b"]
                assert await values((await reader.topic("b")).read()) == [b"v"]
                assert not hasattr(await reader.topic("b"), "append")
            await store.delete_topic("b")
            with pytest.raises(UnknownTopicError):
                await store.topic("b")

    run(test)


def test_dropped_without_being_closed(tmp_path: Path) -> None:
    async def test() -> None:
        store = await aio.open(tmp_path / "store")
        inner, threads = store.store, store._executor
        with pytest.warns(ResourceWarning, match="AsyncStore.*was dropped without being closed"):
            del store
        threads.shutdown()
        inner.close()

    run(test)


def test_what_the_store_has_the_twin_has(tmp_path: Path) -> None:
    async def test() -> None:
        topic_id, now_ms = uuid4(), TIME
        loaded: list[LoadProgress] = []
        async with await aio.open(tmp_path / "store", clock=lambda: now_ms) as store:
            topic = await store.create_topic("a", 1, {"retention.ms": 1000}, topic_id=topic_id)
            assert topic.topic.topic_id == topic_id
            await topic.append(b"old")
            topic.topic.log(0).roll()
            now_ms += 5000
            assert [deleted.rule for deleted in (await store.retain("a")).deleted] == ["time"]
            await topic.append(b"new")
            await topic.alter({"retention.ms": 7}, reset=["segment.ms"])
            assert topic.topic.log(0).config.retention_ms == 7
        policy = FreeSpaceFloor(1)
        options: dict[str, Any] = {"policies": [policy], "progress": loaded.append}
        async with await aio.open(tmp_path / "store", clock=lambda: now_ms, **options) as store:
            assert [str(done.partition) for done in loaded] == ["a-0"]
            assert store.store._retention.of_store == (policy,)
            async with (
                await aio.open(tmp_path / "store", "r", clock=lambda: now_ms) as directory,
                await directory.consumer("g", "a", positions=store) as consumer,
            ):
                await consumer.poll()
                await consumer.commit()
                assert len(await directory.group("g", positions=store).positions()) == 1
                assert directory.store._clock() == now_ms

    run(test)


def test_asking_what_would_be_done(tmp_path: Path) -> None:
    async def test() -> None:
        async with await aio.open(tmp_path / "store") as store:
            topic = await store.create_topic("a")
            await topic.append(b"value", key=b"key")
            async with await aio.open(tmp_path / "store", "r") as directory:
                for one in (store, directory):
                    assert [str(found.partition) for found in (await one.explain("a", TIME)).partitions] == ["a-0"]
                    assert len((await one.what_if("a", [{"retention.ms": 5}], now_ms=TIME)).rows) == 1
                    assert (await one.compact("a", dry_run=True)).dry_run
                    assert (await one.metrics()).partitions[0].log_end_offset == 1
            assert await store.remove_deleted() == 0

    run(test)


@pytest.mark.leaves("batch-crc")
def test_records_in_front_of_damage_are_given(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store") as store:
        topic = store.create_topic("tide")
        for number in range(5):
            topic.append(b"%d" % number)
        topic.log(0).roll()
        topic.append(b"behind")
    path = tmp_path / "store" / "tide-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    async def test() -> None:
        async with await aio.open(tmp_path / "store") as store:
            got = []
            with suppress(ChecksumError):
                async for record in (await store.topic("tide")).read():
                    got.append(record.value)
                pytest.fail("nobody was told of the damage")
            assert got == [b"0", b"1", b"2", b"3"]

    run(test)


@pytest.mark.parametrize("record", [{"value": 5}, {"value": b"", "key": 5}, {"value": "text"}])
def test_what_no_record_is_made_of_is_refused_by_a_writer(tmp_path: Path, record: dict[str, Any]) -> None:
    async def test() -> None:
        async with a_topic(tmp_path) as topic, topic.writer() as writer:
            with pytest.raises(InvalidRecordTypeError):
                await writer.append(**record)

    run(test)


def test_what_does_not_go_with_a_mode_is_refused_as_by_the_store(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(ValueError, match="cannot adopt"):
            await aio.open(tmp_path, "r", adopt=True)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="mode must be"):
            await aio.open(tmp_path, "w")  # type: ignore[call-overload]

    run(test)
