"""`Topic.append`: one record."""

import errno
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from crc32c import crc32c

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock
from tidelog.disk.file_pool import FilePool
from tidelog.errors import (
    DiskFullError,
    InvalidRecordTypeError,
    InvalidTimestampError,
    LogClosedError,
    LogFailedError,
    MessageTooLargeError,
    RefusedBatchError,
    UnknownTopicError,
)
from tidelog.log.log import Log
from tidelog.record import NewBatch, partitions_for_keys
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.record.kernel.single_batch import encode_single
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store import Store, Topic

SMALL = {"log.index.size.max.bytes": 1 << 16}


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


def rows(log: Log) -> list[tuple[bytes | None, bytes | None, Any, int]]:
    return [(record.key, record.value, record.headers, record.timestamp_ms) for record in log.read()]


def test_a_record_is_there_with_everything_it_has(store: Store) -> None:
    topic = store.create_topic("emails", 2)
    where = topic.append(b"bill@gmail.com", key=b"123", headers=[("source", b"signup"), ("none", None)], timestamp_ms=TIME - 5)
    assert where == RecordMetadata(int(partitions_for_keys([b"123"], 2)[0]), 0, TIME - 5)
    assert rows(topic.log(where.partition)) == [(b"123", b"bill@gmail.com", (("source", b"signup"), ("none", None)), TIME - 5)]
    assert topic.append(None, key=b"123") == RecordMetadata(where.partition, 1, TIME)


def test_the_bytes_are_those_of_the_encoder(store: Store) -> None:
    topic = store.create_topic("emails")
    topic.append(b"value", key=b"key", headers=[("name", b"x")], timestamp_ms=TIME)
    expected = bytearray(NewBatch([(b"key", b"value", [("name", b"x")], TIME)]).encode())
    expected[12:16] = bytes(4)  # the leader epoch, which a log assigns
    assert bytes(topic.log(0).fetch(0, 1 << 20).data) == expected


def test_it_is_on_disk_when_append_returns(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    syncs = disk.count("sync", ".log")
    topic.append(b"x")
    assert disk.count("sync", ".log") == syncs + 1
    assert topic.log(0).flushed_end == 1
    weak = store.create_topic("weak", config={"flush.messages": 1 << 60})
    syncs = disk.count("sync", ".log")
    weak.append(b"x")
    assert disk.count("sync", ".log") == syncs


def test_without_a_time_it_is_the_clocks(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("emails")
    clock.advance(7)
    assert topic.append(b"a").timestamp_ms == TIME + 7
    assert topic.append(b"a", timestamp_ms=-1).timestamp_ms == TIME + 7
    assert [row[3] for row in rows(topic.log(0))] == [TIME + 7] * 2


def test_a_topic_that_stamps_answers_with_its_own_time(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("emails", config={"message.timestamp.type": "LogAppendTime"})
    clock.advance(9)
    assert topic.append(b"a", timestamp_ms=5).timestamp_ms == TIME + 9
    assert rows(topic.log(0))[0][3] == TIME + 9


def test_a_topic_that_compresses(store: Store) -> None:
    topic = store.create_topic("emails", config={"compression.type": "zstd"})
    topic.append(b"a" * 500, key=b"k")
    assert rows(topic.log(0)) == [(b"k", b"a" * 500, (), TIME)]


def test_buffers_are_copied(store: Store) -> None:
    topic = store.create_topic("emails")
    value = bytearray(b"mutable")
    topic.append(value, key=memoryview(b"key"))  # type: ignore[arg-type]
    value[0] = 0
    assert rows(topic.log(0)) == [(b"key", b"mutable", (), TIME)]


@pytest.mark.parametrize(
    "record",
    [
        {"value": "text"},
        {"value": b"", "key": "text"},
        {"value": 5},
        {"value": b"", "headers": [("name", "text")]},
        {"value": b"", "headers": [(b"name", b"")]},
        {"value": b"", "headers": [("\ud800", b"")]},
        {"value": b"", "headers": [5]},
        {"value": b"", "headers": 5},
        {"value": b"", "timestamp_ms": 1.5},
        {"value": b"", "timestamp_ms": "now"},
        {"value": b"", "partition": "0"},
    ],
)
def test_what_no_record_is_made_of(store: Store, record: dict[str, Any]) -> None:
    topic = store.create_topic("emails")
    with pytest.raises(InvalidRecordTypeError) as caught:
        topic.append(**record)
    assert isinstance(caught.value, TypeError)
    assert pickle.loads(pickle.dumps(caught.value)).what == caught.value.what
    assert topic.log(0).log_end_offset == 0


def test_text_is_the_callers_to_encode(store: Store) -> None:
    with pytest.raises(TypeError, match=r"a value that is not bytes: expected bytes or None, found str \(encode it"):
        store.create_topic("emails").append("text")  # type: ignore[arg-type]


@pytest.mark.parametrize("timestamp_ms", [-2, 1 << 63])
def test_times_that_no_record_can_have(store: Store, timestamp_ms: int) -> None:
    with pytest.raises(InvalidTimestampError):
        store.create_topic("emails").append(b"", timestamp_ms=timestamp_ms)


def test_what_the_log_refuses_names_the_partition(store: Store) -> None:
    topic = store.create_topic("emails", 3, config={"max.message.bytes": 1000, "cleanup.policy": "compact"})
    refused: list[tuple[type[Exception], Callable[[], object]]] = [
        (MessageTooLargeError, lambda: topic.append(bytes(1000), key=b"k", partition=2)),
        (InvalidTimestampError, lambda: topic.append(b"", key=b"k", timestamp_ms=TIME + 3_600_001, partition=2)),
        (RefusedBatchError, lambda: topic.append(b"no key", partition=2)),
    ]
    for kind, append in refused:
        with pytest.raises(kind) as caught:
            append()
        assert "/emails-2: " in str(caught.value)
    assert topic.log(2).log_end_offset == 0


def test_partitions_that_are_not_there(store: Store) -> None:
    topic = store.create_topic("emails", 2)
    for partition in (2, -1):
        with pytest.raises(UnknownTopicError):
            topic.append(b"", partition=partition)


def test_a_deleted_topic_a_new_one_of_its_name_and_a_closed_store(store: Store) -> None:
    topic = store.create_topic("emails", 5)
    for partition in range(5):
        topic.append(b"old", partition=partition)
    store.delete_topic("emails")
    with pytest.raises(UnknownTopicError):
        topic.append(b"nowhere", key=b"k")
    store.create_topic("emails", 3)
    key = next(key for key in (b"%d" % n for n in range(99)) if partition_for_key(key, 3) != partition_for_key(key, 5) < 3)
    assert topic.append(b"new", key=key) == (partition_for_key(key, 3), 0, TIME)
    store.close()
    for append in (lambda: topic.append(b"late"), lambda: topic.append_many([(b"k", b"v")]), lambda: topic.writer()):
        with pytest.raises(LogClosedError, match="the store is closed"):
            append()


@pytest.mark.parametrize("count", [2, 7])
def test_keys_go_where_they_belong_in_a_topic_that_was_made_again(store: Store, count: int) -> None:
    topic = store.create_topic("emails", 5, topic_id=(topic_id := uuid4()))
    topic.append(b"old", partition=0)
    store.delete_topic("emails")
    store.create_topic("emails", count, topic_id=topic_id)
    for key in (b"%d" % number for number in range(50)):
        assert topic.append(b"new", key=key).partition == partition_for_key(key, count)


def test_a_full_disk_loses_nothing_and_appends_go_on_when_there_is_room(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    topic.append(b"first")
    disk.limit(0)
    with pytest.raises(DiskFullError) as caught:
        topic.append(bytes(4000))
    assert "emails-0" in str(caught.value)
    assert [row[1] for row in rows(topic.log(0))] == [b"first"]
    disk.heal()
    assert topic.append(b"second").offset == 1
    assert [row[1] for row in rows(topic.log(0))] == [b"first", b"second"]


def test_after_a_failed_sync_nothing_is_taken(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    disk.fail(1, error=errno.EIO, kind="sync", on=".log")
    with pytest.raises(LogFailedError):
        topic.append(b"lost?")
    with pytest.raises(LogFailedError):
        topic.append(b"refused")


def test_keyless_records_fill_a_partition_then_go_to_another(store: Store) -> None:
    topic = store.create_topic("emails", 4, config={"flush.messages": 1 << 60})
    places = [topic.append(bytes(931)).partition for _ in range(160)]  # a thousand bytes each as a batch
    runs = list(_runs(places))
    assert set(runs[:-1]) == {17}  # with the 17th, 16384 bytes are there
    assert set(places) == {0, 1, 2, 3}


def _runs(places: list[int]) -> Iterator[int]:
    length = 0
    for place, following in zip(places, [*places[1:], -1], strict=True):
        length += 1
        if place != following:
            yield length
            length = 0


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4000, 4095, 4096, 8191, 8192, 1_000_000])
def test_sizes_about_the_lengths_of_varints(size: int) -> None:
    for key, value in ((bytes(size), None), (None, bytes(size)), (bytes(size), bytes(size))):
        assert encode_single(crc32c, key, value, b"\x00", TIME, 0, -1) == NewBatch([(key, value, (), TIME)]).encode()


def test_topics_are_the_same_however_they_are_got(store: Store) -> None:
    store.create_topic("emails")
    assert [Topic(store._state, "emails").append(b"").offset, store.topic("emails").append(b"").offset] == [0, 1]
