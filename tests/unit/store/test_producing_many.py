"""`Topic.append_many`: lists, iterators, Arrow tables; all checked first; what is durable when the disk fails."""

import errno
import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock
from tidelog.config import LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.errors import (
    InvalidBatchError,
    InvalidRecordTypeError,
    InvalidTimestampError,
    LogFailedError,
    MessageTooLargeError,
    RefusedBatchError,
    StorageError,
    TidelogError,
    UnknownTopicError,
    UnsupportedCodecError,
)
from tidelog.log import leader
from tidelog.log.log import Log
from tidelog.record import Record, partitions_for_keys
from tidelog.store import Store, Topic
from tidelog.store.appended import AppendSummary, PartitionAppended
from tidelog.store.arrow_chunks import is_surely_fine

SMALL = {"log.index.size.max.bytes": 1 << 16}


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Iterator[Store]:
    with Store.open(tmp_path / "store", config=SMALL, clock=FakeClock(), pool=FilePool(disk), random=Random(1)) as opened:
        yield opened


def rows(topic: Topic, partition: int = 0) -> list[tuple[bytes | None, bytes | None, Any, int]]:
    return [(record.key, record.value, record.headers, record.timestamp_ms) for record in topic.log(partition).read()]


def end_offsets(topic: Topic) -> list[int]:
    return [topic.log(partition).log_end_offset for partition in range(topic.partitions)]


def numbers(count: int, *, size: int = 10) -> list[tuple[bytes, bytes]]:
    return [(b"%d" % (number % 97), b"%d" % number + bytes(size)) for number in range(count)]


def test_all_kinds_of_rows(store: Store) -> None:
    topic = store.create_topic("emails")
    record = Record(b"5", key=b"r", headers=(("a", b"b"),), timestamp_ms=TIME + 5, offset=77, topic="other", partition=9)
    summary = topic.append_many(
        [
            (b"k", b"1"),
            (None, b"2", [("h", None)]),
            (b"k", None, (), TIME + 1),
            (b"k", b"4", (), None),
            record,
            Record(b"6"),
            (b"k", b"7", (), -1),
            (bytearray(b"k"), memoryview(b"8")),
        ]
    )
    assert rows(topic) == [
        (b"k", b"1", (), TIME),
        (None, b"2", (("h", None),), TIME),
        (b"k", None, (), TIME + 1),
        (b"k", b"4", (), TIME),
        (b"r", b"5", (("a", b"b"),), TIME + 5),
        (None, b"6", (), TIME),
        (b"k", b"7", (), TIME),
        (b"k", b"8", (), TIME),
    ]
    assert summary == AppendSummary({0: PartitionAppended(8, 1, topic.log(0).size_bytes, 0, 7)})
    assert (summary.records, summary.batches, summary.size_bytes) == (8, 1, topic.log(0).size_bytes)
    assert str(summary) == f"8 records in 1 batch, {summary.size_bytes} bytes, in 1 partition"


@pytest.mark.parametrize("kind", ["list", "iterator", "table", "record batch"])
def test_many_go_to_their_partitions_in_order(store: Store, kind: str) -> None:
    topic = store.create_topic("emails", 3, config={"flush.messages": 1 << 60})
    given = numbers(30_000, size=200)  # some chunks
    columns = {"key": pa.array([key for key, _ in given], pa.binary()), "value": pa.array([value for _, value in given], pa.binary())}
    records: Any = {
        "list": given,
        "iterator": iter(given),
        "table": pa.table(columns),
        "record batch": pa.RecordBatch.from_pydict(columns),
    }[kind]
    summary = topic.append_many(records, batch_bytes=5000)
    places = partitions_for_keys([key for key, _ in given], 3).tolist()
    for partition in range(3):
        expected = [(key, value, (), TIME) for (key, value), place in zip(given, places, strict=True) if place == partition]
        assert rows(topic, partition) == expected
        part = summary.partitions[partition]
        assert (part.records, part.first_offset, part.last_offset) == (len(expected), 0, len(expected) - 1)
        assert part.size_bytes == topic.log(partition).size_bytes
    assert summary.records == 30_000
    assert max(batch.size_bytes for batch in topic.log(0).batches()) <= 5000


def test_nothing_is_nothing(store: Store) -> None:
    topic = store.create_topic("emails", 2)
    nothings: list[Any] = [[], (), iter(()), pa.table({"value": pa.array([], pa.binary())})]
    for nothing in nothings:
        assert topic.append_many(nothing) == AppendSummary()


def test_a_table_with_all_columns(store: Store) -> None:
    topic = store.create_topic("emails", 3)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([b"a", None, b"c", b"d"], pa.binary()),
            "value": pa.array([b"1", b"2", None, b"4"], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], None, [], None], headers),
            "timestamp_ms": pa.array([TIME + 1, None, -1, TIME + 4], pa.int64()),
            "partition": pa.array([2, 2, 0, 2], pa.int64()),
            "more": [1, 2, 3, 4],
        }
    )
    summary = topic.append_many(table)
    assert rows(topic, 2) == [(b"a", b"1", (("h", b"x"),), TIME + 1), (None, b"2", (), TIME), (b"d", b"4", (), TIME + 4)]
    assert rows(topic, 0) == [(b"c", None, (), TIME)]
    assert {partition: part.records for partition, part in summary.partitions.items()} == {0: 1, 2: 3}


def test_what_was_read_can_be_appended(store: Store) -> None:
    source, target = store.create_topic("source"), store.create_topic("target")
    source.append_many(numbers(1000))
    target.append_many(source.log(0).read())
    assert rows(target) == rows(source)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_as_asked_for_or_as_the_topic_has_it(store: Store, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_rebuild", lambda *_, **__: pytest.fail("compressed twice"))
    asked, has = store.create_topic("asked"), store.create_topic("has", config={"compression.type": compression})
    given = numbers(500)
    asked.append_many(given, compression=compression)
    has.append_many(given)
    for topic in (asked, has):
        assert {str(batch.compression) for batch in topic.log(0).batches()} == {compression}
        assert [row[:2] for row in rows(topic)] == given


def test_settings_that_cannot_be(store: Store) -> None:
    topic = store.create_topic("emails")
    with pytest.raises(UnsupportedCodecError):
        topic.append_many([(b"", b"")], compression="rar")
    with pytest.raises(InvalidBatchError):
        topic.append_many([(b"", b"")], batch_bytes=0)


_BAD: list[tuple[Any, type[TidelogError], str]] = [
    ((b"k", "text"), InvalidRecordTypeError, "record 40000: a value that is not bytes"),
    (("text", b"v"), InvalidRecordTypeError, "record 40000: a key that is not bytes"),
    ((b"k", b"v", [("h", "text")]), InvalidRecordTypeError, "record 40000: headers that are none"),
    ((b"k", b"v", (), "now"), InvalidRecordTypeError, "record 40000: a timestamp that is no number"),
    ((b"k", b"v", (), -2), InvalidTimestampError, "record 40000: a timestamp out of range"),
    ((b"k", b"v", (), 1 << 64), InvalidTimestampError, "record 40000: a timestamp out of range"),
    ((b"k", b"v", (), TIME + 3_600_001), InvalidTimestampError, "record 40000 "),
    ((b"k",), InvalidRecordTypeError, "record 40000"),
    (5, InvalidRecordTypeError, "record 40000"),
    ((b"k", bytes(20_000)), MessageTooLargeError, "max.message.bytes.* record 40000 "),
    ((None, b"no key"), RefusedBatchError, "record 40000 "),
]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("bad", "kind", "text"), _BAD)
def test_one_bad_record_in_a_list_and_nothing_is_written(
    store: Store, partitions: int, bad: Any, kind: type[TidelogError], text: str
) -> None:
    topic = store.create_topic("emails", partitions, config={"cleanup.policy": "compact", "max.message.bytes": 10_000})
    with pytest.raises(kind, match=text) as caught:
        topic.append_many([*numbers(40_000), bad, *numbers(10)])
    assert end_offsets(topic) == [0] * partitions
    assert caught.value.durable == AppendSummary()  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(caught.value)).durable == AppendSummary()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ({"value": pa.array(["text"] * 3)}, InvalidRecordTypeError),
        ({"value": pa.array([1, 2, 3])}, InvalidRecordTypeError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "key": pa.array(["a", "b", "c"])}, InvalidRecordTypeError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "timestamp_ms": pa.array([1.5, 2.0, 3.0])}, InvalidRecordTypeError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "timestamp_ms": pa.array([5, -2, 5])}, InvalidBatchError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "timestamp_ms": pa.array([5, TIME * 2, 5])}, InvalidTimestampError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "partition": pa.array([0, 1, 2])}, UnknownTopicError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "partition": pa.array([0, None, 1])}, InvalidRecordTypeError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "partition": pa.array([0, 1 << 40, 1])}, InvalidRecordTypeError),
        ({"value": pa.array([b"", b"", b""], pa.binary()), "partition": pa.array(["0", "1", "1"])}, InvalidRecordTypeError),
        ({"values": pa.array([b"", b"", b""], pa.binary())}, InvalidBatchError),
    ],
)
@pytest.mark.parametrize("partitions", [1, 2])
def test_tables_that_are_no_records(store: Store, column: dict[str, Any], kind: type[TidelogError], partitions: int) -> None:
    topic = store.create_topic("emails", partitions)
    with pytest.raises(kind):
        topic.append_many(pa.table(column))
    assert end_offsets(topic) == [0] * partitions


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"a", b"b", b"a"], pa.large_binary()),
        pa.array([b"a", b"b", b"a"], pa.binary_view()),
        pa.array([b"a", b"b", b"a"]).dictionary_encode(),
        pa.nulls(3),
    ],
    ids=["large", "view", "dictionary", "null"],
)
@pytest.mark.parametrize("partitions", [1, 2])
def test_values_of_all_kinds_of_columns(store: Store, values: Any, partitions: int) -> None:
    topic = store.create_topic("emails", partitions)
    keys = pa.array([b"k", None, b"k"])
    assert topic.append_many(pa.table({"key": keys, "value": values})).records == 3
    found = [(record.key, record.value) for record in topic.read()]
    assert sorted(found, key=repr) == sorted(zip(keys.to_pylist(), values.to_pylist(), strict=True), key=repr)


@pytest.mark.parametrize("nonsense", [5, None, "text", b"bytes", {"key": "value"}, pa.array([1])])
def test_what_is_no_records_at_all(store: Store, nonsense: Any) -> None:
    with pytest.raises(InvalidRecordTypeError):
        store.create_topic("emails").append_many(nonsense)


def test_what_the_iterator_itself_raises_tells_what_is_durable(store: Store) -> None:
    """What was written before it was neither counted nor waited for: readers did not see it until somebody else appended."""

    def rows() -> Iterator[tuple[bytes, bytes]]:
        yield from numbers(40_000)
        raise ConnectionError("the source is gone")

    topic = store.create_topic("emails", 2)
    with pytest.raises(ConnectionError, match="the source is gone") as caught:
        topic.append_many(rows())
    durable = caught.value.durable  # type: ignore[attr-defined]
    assert 0 < durable.records < 40_000
    assert end_offsets(topic) == [durable.partitions[0].records, durable.partitions[1].records]
    assert [topic.log(number).flushed_end for number in (0, 1)] == end_offsets(topic)
    assert len(list(topic.read())) == durable.records


def test_an_iterator_is_checked_chunk_by_chunk(store: Store) -> None:
    topic = store.create_topic("emails", 2, config={"flush.messages": 1 << 60})
    given = [*numbers(40_000), (b"k", "text")]
    with pytest.raises(InvalidRecordTypeError, match="record 40000") as caught:
        topic.append_many(iter(given))
    durable = caught.value.durable  # type: ignore[attr-defined]
    assert 0 < durable.records < 40_000
    assert end_offsets(topic) == [durable.partitions[0].records, durable.partitions[1].records]


def test_an_iterator_is_not_taken_as_a_whole(store: Store) -> None:
    topic = store.create_topic("emails", config={"flush.messages": 1 << 60})
    ahead: list[int] = []

    def source() -> Iterator[tuple[bytes, bytes]]:
        for number in range(60):
            ahead.append(number - topic.log(0).log_end_offset)
            yield b"k", bytes(1 << 19)

    assert topic.append_many(source()).records == 60
    assert max(ahead) == 15  # the first chunk does not know yet how large records are


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_what_is_durable_when_the_disk_fails(store: Store, disk: FaultyDisk, nth: int) -> None:
    topic = store.create_topic("emails", 2)
    given = numbers(60_000, size=100)
    disk.fail(nth, error=errno.EIO, kind="write", on=".log", until_healed=True)
    with pytest.raises(StorageError) as caught:
        topic.append_many(given)
    disk.heal()
    durable = caught.value.durable  # type: ignore[attr-defined]
    assert [durable.partitions[partition].records if partition in durable.partitions else 0 for partition in (0, 1)] == end_offsets(topic)
    assert sum(end_offsets(topic)) == durable.records < 60_000
    assert [topic.log(partition).flushed_end for partition in (0, 1)] == end_offsets(topic)
    assert topic.append_many(given).records == 60_000


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_what_is_durable_when_a_sync_fails(store: Store, disk: FaultyDisk, nth: int) -> None:
    """Chunks are synced behind the back of the call: what it counts as durable was synced all the same."""
    topic = store.create_topic("emails", config={"retention.ms": "-1"})
    disk.fail(nth, error=errno.EIO, kind="sync", on=".log", until_healed=True)
    with pytest.raises(StorageError) as caught:
        topic.append_many(numbers(200_000, size=100))
    disk.heal()
    log = topic.log(0)
    durable = caught.value.durable  # type: ignore[attr-defined]
    assert durable.records <= log.flushed_end < 200_000
    with pytest.raises(LogFailedError):
        topic.append(b"x")


def test_much_is_waited_for_on_the_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.store.append_many._MAX_AHEAD_BYTES", 3 << 20)
    topic = store.create_topic("emails", 2)
    ahead: list[int] = []

    def source() -> Iterator[tuple[bytes, bytes]]:
        for number in range(80):
            ahead.append(sum(topic.log(place).log_end_offset - topic.log(place).flushed_end for place in (0, 1)))
            yield b"%d" % number, bytes(1 << 18)

    summary = topic.append_many(source())
    assert [summary.partitions[place].records for place in (0, 1)] == end_offsets(topic)
    assert max(ahead) <= 24
    assert [topic.log(place).flushed_end for place in (0, 1)] == end_offsets(topic)


def test_part_of_a_run_is_in_the_log_when_the_disk_fails(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails", config={"segment.bytes": 1 << 20})
    given = [(b"k", bytes(60_000))] * 30  # more than a segment
    disk.fail(4, error=errno.EIO, kind="write", on=".log", until_healed=True)
    with pytest.raises(StorageError) as caught:
        topic.append_many(given)
    disk.heal()
    assert 16 < caught.value.durable.records == topic.log(0).log_end_offset == topic.log(0).flushed_end < 30  # type: ignore[attr-defined]


def test_a_topic_that_is_altered_meanwhile(store: Store) -> None:
    topic = store.create_topic("emails")

    def source() -> Iterator[tuple[bytes | None, bytes]]:
        yield from numbers(16)
        topic.alter({"cleanup.policy": "compact"})
        yield from numbers(300)
        yield None, b"no key"

    with pytest.raises(RefusedBatchError, match="record 316") as caught:
        topic.append_many(source())
    assert caught.value.durable.records == topic.log(0).log_end_offset == 144  # type: ignore[attr-defined]


def test_a_look_at_columns_tells_what_is_surely_fine() -> None:
    compacted = LogConfig.of({"cleanup.policy": "compact"})
    small = LogConfig.of({"max.message.bytes": 1000})
    stamped = LogConfig.of({"message.timestamp.type": "LogAppendTime"})
    key, value = pa.array([b"a", b"b"], pa.binary()), pa.array([b"a", bytes(900)], pa.binary())
    fine: list[tuple[dict[str, Any], LogConfig]] = [
        ({"value": value}, LogConfig()),
        ({"key": key, "value": value}, compacted),
        ({"key": key, "value": key}, small),
        ({"value": value, "timestamp_ms": pa.array([TIME, None])}, LogConfig()),
        ({"value": value, "timestamp_ms": pa.array([None, None], pa.int64())}, LogConfig()),
        ({"value": value}, stamped),
    ]
    doubtful: list[tuple[dict[str, Any], LogConfig]] = [
        ({"value": value}, compacted),
        ({"key": pa.array([None, b"a"], pa.binary()), "value": value}, compacted),
        ({"value": value}, small),
        ({"value": pa.array(["a", "b"])}, LogConfig()),
        ({"key": pa.array(["a", "b"]), "value": value}, LogConfig()),
        ({"key": key}, LogConfig()),
        ({"value": value}, LogConfig.of({"compression.type": "zstd"})),
        ({"value": value, "timestamp_ms": pa.array([TIME, -2])}, LogConfig()),
        ({"value": value, "timestamp_ms": pa.array([TIME, TIME + 3_600_001])}, LogConfig()),
        ({"value": value, "timestamp_ms": pa.array([1.5, 2.5])}, LogConfig()),
    ]
    for columns, config in fine:
        assert is_surely_fine(pa.table(columns), config, TIME), (columns, config)
    for columns, config in doubtful:
        assert not is_surely_fine(pa.table(columns), config, TIME), (columns, config)


def test_arrow_in_many_chunks_and_slices(store: Store) -> None:
    topic = store.create_topic("emails", config={"flush.messages": 1 << 60})
    values = [b"%d" % number for number in range(1000)]
    table = pa.concat_tables([pa.table({"value": pa.array(values[at : at + 100], pa.large_binary())}) for at in range(0, 1000, 100)])
    topic.append_many(table.slice(50, 900))
    assert [row[1] for row in rows(topic)] == values[50:950]
    assert np.all(np.diff([record.offset for record in topic.log(0).read()]) == 1)


def test_every_log_is_waited_for_though_one_fails(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = store.create_topic("emails", 3)
    acknowledge = Log.acknowledge

    def failing(log: Log, *arguments: Any) -> None:
        if log.partition.partition == 0:
            raise StorageError("the disk is gone", path=log.directory)
        acknowledge(log, *arguments)

    monkeypatch.setattr(Log, "acknowledge", failing)
    with pytest.raises(StorageError, match="the disk is gone") as caught:
        topic.append_many(numbers(300))
    durable = caught.value.durable  # type: ignore[attr-defined]
    assert {number: part.records for number, part in durable.partitions.items()} == dict(enumerate(end_offsets(topic)[1:], 1))
