"""Topics are copied into the directory of a stopped broker, which serves them when it starts, and goes on behind them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop.broker.broker import Broker
from interop.broker.clients import Consumed, Read, Row
from interop.broker.judging import ISOLATIONS, complaints, read_all
from interop.broker.scenarios import NEWER
from interop.spark.connector_session import end_session
from tests.spark.jobs.moving import copy_here
from tests.support.job_topics import make_topic
from tests.support.logs import TIME
from tidelog.disk.disk import OS
from tidelog.disk.names import CLEAN_SHUTDOWN, TopicPartition
from tidelog.disk.partition_metadata import format_topic_id, read_metadata
from tidelog.errors import LockedError, NotAStoreError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.spark import jobs, session
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = Row(b"kafka", b"was here", (), TIME)
PARTITIONS = [TopicPartition("tide", 0), TopicPartition("tide", 1), TopicPartition("trimmed", 0), TopicPartition("empty", 0)]


@dataclass
class CopiedIn:
    """A broker that was stopped, copied into, and started."""

    broker: Broker
    store: Path
    topic_ids: dict[str, str]
    consumed: dict[Isolation, dict[TopicPartition, Consumed]] = field(default_factory=dict)
    appended: dict[TopicPartition, int] = field(default_factory=dict)
    again: dict[TopicPartition, Consumed] = field(default_factory=dict)


def make_store(directory: Path) -> None:
    """Keys, codecs and transactions; a log that was trimmed, of a leader of a far later epoch; and one that is empty."""
    make_topic(directory, partitions=2, batches=150)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        log = store.create_topic("trimmed", config={"internal.segment.bytes": 2000}).log(0)
        for number in range(60):
            rows = [(b"%d" % number, b"value" * 10, ((f"header {number}", None),), TIME + number)] * 3
            log.append(NewBatch(rows, settings=BatchSettings(compression=Compression.ZSTD)).encode(), leader_epoch=40 + number // 20)
        log.delete_records_before(100)
        store.create_topic("empty")
        store.create_topic("unknown").append(b"to the broker")


@pytest.fixture(scope="module")
def spark() -> "Iterator[SparkSession]":
    running = session("tidelog interop", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
    yield running
    end_session(running)


@pytest.fixture(scope="module")
def copied(memory: Path, spark: "SparkSession") -> Iterator[CopiedIn]:
    make_store(memory / "store")
    with Broker(memory / "broker", version=NEWER) as broker:
        broker.start()
        ids = broker.clients.create_topics({"tide": {}}, partitions=2) | broker.clients.create_topics({"trimmed": {}, "empty": {}})
        found = CopiedIn(broker, memory / "store", ids)
        with pytest.raises(LockedError):
            jobs.copy(spark, found.store, broker.data, ["tide"], into_broker=True)
        broker.stop()
        with pytest.raises(UnknownTopicError, match="unknown"):
            jobs.copy(spark, found.store, broker.data, into_broker=True)
        result = jobs.copy(spark, found.store, broker.data, ["tide", "trimmed", "empty"], into_broker=True)
        assert {one.partition for one in result.partitions} == set(PARTITIONS)
        assert (broker.data / CLEAN_SHUTDOWN).exists()
        broker.start()
        for isolation, theirs in ISOLATIONS.items():
            found.consumed[isolation] = consume(broker, theirs)
        for topic, number in PARTITIONS:
            config = {"enable.idempotence": "true"}
            (offset,) = broker.clients.produce(topic, [[ROW]], producer="kafka", config=config, partition=number)
            found.appended[TopicPartition(topic, number)] = offset
        broker.stop()
        broker.start()
        found.again = consume(broker, "read_uncommitted")
        broker.stop()
        yield found


def consume(broker: Broker, isolation: str) -> dict[TopicPartition, Consumed]:
    return {
        partition: broker.clients.consume([partition.topic], isolation, partition=partition.partition)[partition.topic]
        for partition in PARTITIONS
    }


def without_epoch(records: list[Read]) -> list[Read]:
    return [record._replace(leader_epoch=None) for record in records]


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_a_consumer_reads_what_was_copied(partition: TopicPartition, copied: CopiedIn) -> None:
    with Log.open(copied.store / str(partition), mode="r") as log:
        for isolation in ISOLATIONS:
            consumed = copied.consumed[isolation][partition]
            assert without_epoch(consumed.records) == without_epoch(read_all(log, isolation))
            assert (consumed.start, consumed.end) == (log.log_start_offset, log.log_end_offset)
            assert {record.leader_epoch for record in consumed.records} <= {0}
        assert bool(consumed.records) == (partition.topic != "empty")


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_the_broker_goes_on_behind_it(partition: TopicPartition, copied: CopiedIn) -> None:
    before = copied.consumed["high_watermark"][partition]
    again = copied.again[partition]
    assert copied.appended[partition] == before.end
    assert again.records[:-1] == before.records
    assert (again.records[-1].key, again.records[-1].offset) == (ROW.key, before.end)
    directory = copied.broker.partition(*partition)
    assert complaints(directory) == []
    topic_id = read_metadata(OS, str(directory))
    assert topic_id is not None
    assert format_topic_id(topic_id) == copied.topic_ids[partition.topic]


def test_the_broker_has_taken_it_for_its_own(copied: CopiedIn) -> None:
    assert not [path for path in copied.broker.data.iterdir() if path.name.endswith(("-stray", "-delete"))]
    assert not list(copied.broker.data.glob("*/copied-in.tidelog"))


def test_data_of_the_brokers_own_is_not_overwritten(copied: CopiedIn) -> None:
    with pytest.raises(NotAStoreError, match="the broker has data in this partition"):
        copy_here(copied.store, copied.broker.data, ["tide"], into_broker=True)
    with pytest.raises(NotAStoreError, match=r"meta\.properties"):
        copy_here(copied.store, copied.store.parent / "nothing", ["tide"], into_broker=True)
