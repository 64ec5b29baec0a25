"""`Topic.writer`: batches from records one by one."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock
from tidelog.disk.file_pool import FilePool
from tidelog.errors import (
    ForkedError,
    InvalidConfigError,
    InvalidRecordTypeError,
    InvalidTimestampError,
    LogClosedError,
    MessageTooLargeError,
    RefusedBatchError,
    UnknownTopicError,
    UnsupportedCodecError,
)
from tidelog.record import partitions_for_keys
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store import Store, Topic
from tidelog.store.write_batch import WriteBatch

SMALL = {"log.index.size.max.bytes": 1 << 16}
NEVER_MS = 10_000_000
SOON_S = 10


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock, disk: FaultyDisk) -> Iterator[Store]:
    with Store.open(tmp_path / "store", config=SMALL, clock=clock, pool=FilePool(disk), random=Random(1)) as opened:
        yield opened


def values(topic: Topic, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in topic.log(partition).read()]


def batch_of(handle: WriteHandle) -> Any:
    return handle.batch


def test_records_are_there_in_order_with_everything(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("emails", 3)
    with topic.writer() as writer:
        first = writer.append(b"1", key=b"k", headers=[("h", b"x")], timestamp_ms=TIME - 1)
        clock.advance(5)
        others = [
            writer.append(b"2", key=b"k"),
            writer.append(None, key=b"k"),
            writer.append(bytearray(b"4"), key=memoryview(b"k")),  # type: ignore[arg-type]
        ]
        there = writer.append(b"there", partition=2)
    place = int(partitions_for_keys([b"k"], 3)[0])
    assert first.result() == RecordMetadata(place, 0, TIME - 1)
    assert [handle.result() for handle in others] == [RecordMetadata(place, offset, TIME + 5) for offset in (1, 2, 3)]
    assert there.result().partition == 2
    records = list(topic.log(place).read())[:4]
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in records] == [
        (b"k", b"1", (("h", b"x"),), TIME - 1),
        (b"k", b"2", (), TIME + 5),
        (b"k", None, (), TIME + 5),
        (b"k", b"4", (), TIME + 5),
    ]


def test_a_batch_is_sent_when_its_time_to_linger_is_over(store: Store) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=30) as writer:
        start = time.monotonic()
        handles = [writer.append(b"%d" % number) for number in range(3)]
        assert not handles[0].done()
        assert handles[2].result(SOON_S).offset == 2
        assert time.monotonic() - start >= 0.03
        assert all(handle.done() for handle in handles)
    assert [batch.count for batch in topic.log(0).batches()] == [3]


def test_a_batch_is_sent_when_it_is_full(store: Store) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS, batch_bytes=1000) as writer:
        handles = [writer.append(bytes(200), key=b"k") for _ in range(5)]
        assert handles[3].result(SOON_S).offset == 3
        assert not handles[4].done()
        with pytest.raises(TimeoutError):
            handles[4].result(0.01)
        writer.flush()
        assert handles[4].result(0).offset == 4
    assert [batch.count for batch in topic.log(0).batches()] == [4, 1]
    assert all(batch.size_bytes <= 1000 for batch in topic.log(0).batches())


def test_the_handles_of_a_batch_share_its_event(store: Store) -> None:
    with store.create_topic("emails").writer(linger_ms=NEVER_MS) as writer:
        handles = [writer.append(b"x") for _ in range(50)]
        assert len({id(batch_of(handle)) for handle in handles}) == 1
        assert len(handles[0].__slots__) == 3
        assert repr(handles[0]) == "WriteHandle(partition 0, on its way)"
    assert repr(handles[0]) == "WriteHandle(partition 0, done)"
    assert not batch_of(handles[0]).rows  # who keeps a handle does not keep the records


def test_a_record_larger_than_a_batch_has_one_of_its_own(store: Store) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS, batch_bytes=100) as writer:
        for size in (10, 5000, 10):
            writer.append(bytes(size))
    assert [batch.count for batch in topic.log(0).batches()] == [1, 1, 1]


def test_durable_means_synced_before_the_result(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS) as writer:
        handles = [writer.append(b"x") for _ in range(100)]
        syncs = disk.count("sync", ".log")
        writer.flush()
        assert handles[99].done()
        assert topic.log(0).flushed_end == 100
        assert disk.count("sync", ".log") == syncs + 1


def test_many_threads_one_writer(store: Store) -> None:
    topic = store.create_topic("emails", 2, config={"flush.messages": 1 << 60})
    found: list[list[tuple[bytes, WriteHandle]]] = [[] for _ in range(4)]
    with topic.writer(linger_ms=1, batch_bytes=700) as writer:

        def work(number: int) -> None:
            for at in range(1500):
                value = b"%d-%d" % (number, at)
                found[number].append((value, writer.append(value, key=b"%d" % (at % 5))))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = {(partition, offset): value for partition in (0, 1) for offset, value in enumerate(values(topic, partition))}
    assert len(stored) == 6000
    for mine in found:
        places = [handle.result(0) for _, handle in mine]
        assert [stored[place.partition, place.offset] for place in places] == [value for value, _ in mine]
        for partition in (0, 1):
            offsets = [place.offset for place in places if place.partition == partition]
            assert offsets == sorted(offsets)  # each thread's in its own order


def test_a_topic_that_stamps(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("emails", config={"message.timestamp.type": "LogAppendTime"})
    with topic.writer(linger_ms=NEVER_MS) as writer:
        handle = writer.append(b"x", timestamp_ms=5)
        clock.advance(100)
    assert handle.result().timestamp_ms == TIME + 100


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(store: Store, compression: str) -> None:
    asked, has = store.create_topic("asked"), store.create_topic("has", config={"compression.type": compression})
    for topic, option in ((asked, compression), (has, None)):
        with topic.writer(compression=option) as writer:
            handles = [writer.append(b"%d" % number * 50) for number in range(500)]
        assert {str(batch.compression) for batch in topic.log(0).batches()} == {compression}
        assert [handle.result().offset for handle in handles] == list(range(500))
        assert values(topic) == [b"%d" % number * 50 for number in range(500)]


def test_producer_ids(store: Store) -> None:
    topic = store.create_topic("emails")
    for idempotent in (True, True, False):
        with topic.writer(idempotent=idempotent, batch_bytes=100) as writer:
            for _ in range(3):
                writer.append(bytes(80))
    batches = list(topic.log(0).batches())
    ids = [batch.producer_id for batch in batches]
    assert len({*ids[:3]}) == len({*ids[3:6]}) == 1
    assert ids[0] != ids[3]
    assert all(0 <= producer_id < 1 << 62 for producer_id in ids[:6])
    assert ids[6:] == [-1] * 3
    assert [batch.base_sequence for batch in batches] == [0, 1, 2, 0, 1, 2, -1, -1, -1]


def test_what_cannot_be_a_record_is_said_at_once_and_harms_no_other(store: Store) -> None:
    topic = store.create_topic("emails", 2, config={"cleanup.policy": "compact", "max.message.bytes": 5000})
    bad: list[tuple[type[Exception], dict[str, Any]]] = [
        (InvalidRecordTypeError, {"value": "text", "key": b"k"}),
        (InvalidRecordTypeError, {"value": b"", "key": "text"}),
        (InvalidRecordTypeError, {"value": b"", "key": b"k", "headers": [("h", "text")]}),
        (InvalidRecordTypeError, {"value": b"", "key": b"k", "timestamp_ms": "now"}),
        (InvalidTimestampError, {"value": b"", "key": b"k", "timestamp_ms": -2}),
        (InvalidTimestampError, {"value": b"", "key": b"k", "timestamp_ms": TIME + 3_600_001}),
        (MessageTooLargeError, {"value": bytes(4990), "key": b"k"}),
        (RefusedBatchError, {"value": b"no key"}),
        (UnknownTopicError, {"value": b"", "key": b"k", "partition": 2}),
    ]
    with topic.writer() as writer:
        handles = [writer.append(b"before", key=b"k")]
        for kind, record in bad:
            with pytest.raises(kind):
                writer.append(**record)
        handles += [writer.append(bytes(4900), key=b"k")]
    assert [handle.result().offset for handle in handles] == [0, 1]


@pytest.mark.parametrize(
    "setting", [{"linger_ms": -1}, {"batch_bytes": 0}, {"buffer_memory": 0}, {"retries": -1}, {"retry_backoff_ms": -1}]
)
def test_settings_that_cannot_be(store: Store, setting: dict[str, Any]) -> None:
    topic = store.create_topic("emails")
    with pytest.raises(InvalidConfigError):
        topic.writer(**setting)
    with pytest.raises(UnsupportedCodecError):
        topic.writer(compression="rar")


def test_closing(store: Store) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    handle = writer.append(b"x")
    writer.close()
    assert writer.is_closed
    assert handle.result(0).offset == 0
    writer.close()
    writer.flush()
    with pytest.raises(LogClosedError, match="the writer is closed"):
        writer.append(b"y")
    assert threading.active_count() == 1 or not any(thread.name.startswith("tidelog-writer") for thread in threading.enumerate())


def test_closing_the_store_writes_what_its_writers_have(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", config=SMALL) as store:
        writer = store.create_topic("emails").writer(linger_ms=NEVER_MS)
        handle = writer.append(b"x")
    assert handle.result(0).offset == 0
    with pytest.raises(LogClosedError):
        writer.append(b"y")


def test_a_writer_that_is_dropped_says_so_and_writes_what_it_has(store: Store) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    handle = writer.append(b"x")
    with pytest.warns(ResourceWarning, match="dropped without being closed"):  # noqa: PT031
        del writer
        gc.collect()
    assert handle.result(SOON_S).offset == 0


def test_asyncio(store: Store) -> None:
    topic = store.create_topic("emails", 3, config={"flush.messages": 1 << 60})

    async def produce() -> list[RecordMetadata]:
        with topic.writer(linger_ms=1, batch_bytes=500) as writer:
            handles = [writer.append(b"%d" % number) for number in range(200)]
            done: list[RecordMetadata] = await asyncio.gather(*(wait(handle) for handle in handles))
            assert await handles[0] == done[0]  # once it is done, too
            return done

    async def wait(handle: WriteHandle) -> RecordMetadata:
        return await handle

    places = asyncio.run(produce())
    assert [values(topic, place.partition)[place.offset] for place in places] == [b"%d" % number for number in range(200)]


def test_a_loop_that_is_gone_does_not_stop_the_writer(store: Store) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS) as writer:
        handle = writer.append(b"x")

        async def impatient() -> None:
            async def wait() -> RecordMetadata:
                return await handle

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wait(), 0.01)

        asyncio.run(impatient())
    assert handle.result(0).offset == 0


def test_a_forked_child_changes_nothing(store: Store) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS) as writer:
        handle = writer.append(b"parent's")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (lambda: writer.append(b"child's"), writer.flush, lambda: handle.result(1)):
                    with pytest.raises(ForkedError):
                        call()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert handle.result(0).offset == 0
    assert values(topic) == [b"parent's"]


def test_a_loop_that_closes_this_moment_does_not_stop_the_writer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS) as writer:
        handle = writer.append(b"first")

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await handle

        loop = asyncio.new_event_loop()
        loop.run_until_complete(give_up())
        loop.close()
        monkeypatch.setattr(loop, "is_closed", lambda: False)  # it was open when it was asked
        with pytest.raises(RuntimeError, match="closed"):
            loop.call_soon_threadsafe(print)
        writer.buffer.flush()  # which waits for nobody
        assert handle.result(SOON_S).offset == 0
        second = writer.append(b"second")
        writer.buffer.flush()
        assert second.result(SOON_S).offset == 1


def test_what_one_who_waits_raises_is_told_in_the_log_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    batch, called = WriteBatch(0, 100, 0.0), []

    def fail() -> None:
        raise IndexError("somebody's own")

    for callback in (fail, lambda: called.append(1)):
        batch.when_done(callback)
    batch.finish()
    assert called == [1]
    assert "somebody's own" in caplog.text
