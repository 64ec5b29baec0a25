"""A broker and Tidelog side by side: one owner of a directory, any number of readers."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from interop.broker.broker import Broker, BrokerError
from interop.broker.cases import CASES, TIME, numbers
from interop.broker.clients import Row
from interop.broker.judging import ISOLATIONS, POOL, assert_same, complaints, read_all, times_within
from interop.broker.kafka_writes import INTERNAL
from interop.broker.scenarios import NEWER, Scenarios
from tests.support.readers import ReadOnlyDisk, open_reader
from tidelog.disk.names import LOCK, OWN_SUFFIX
from tidelog.errors import LockedError
from tidelog.inspection import verify_log_directory
from tidelog.log.log import Log
from tidelog.record import NewBatch

TOPIC = "defaults"
SAID_LAST = b"the end"


@pytest.fixture(scope="module")
def broker(scenarios: Scenarios) -> Iterator[Broker]:
    """Runs on a copy of what Kafka wrote."""
    home = scenarios.home / "together"
    with a_broker(home, scenarios) as broker:
        broker.start()
        yield broker


def a_broker(home: Path, scenarios: Scenarios) -> Broker:
    shutil.copytree(scenarios.kafka_wrote(NEWER).home / "clean", home / "data")
    return Broker(home, version=NEWER)


def test_our_writer_is_refused_and_names_the_broker(broker: Broker) -> None:
    for directory in (broker.partition(TOPIC), broker.data / "new-0"):
        with pytest.raises(LockedError) as refused:
            Log.open(directory)
        assert str(broker.pid) in str(refused.value)
    assert not (broker.data / "new-0").exists()


@pytest.mark.parametrize("lock_timeout_s", [0, 0.5])
def test_a_store_is_refused_and_names_the_broker(lock_timeout_s: float, broker: Broker) -> None:
    names, begun = {path.name for path in broker.data.iterdir()}, time.monotonic()
    with pytest.raises(LockedError) as refused:
        tidelog.open(broker.data, adopt=True, lock_timeout_s=lock_timeout_s)
    assert str(broker.pid) in str(refused.value)
    assert lock_timeout_s <= time.monotonic() - begun < lock_timeout_s + 5
    assert {path.name for path in broker.data.iterdir()} == names


@pytest.mark.parametrize("topic", CASES)
def test_our_readers_read_a_live_directory_and_write_nothing(topic: str, broker: Broker, scenarios: Scenarios) -> None:
    with open_reader(broker.partition(topic)) as log:
        consumed = scenarios.kafka_wrote(NEWER).consumed
        if topic == TOPIC:
            return  # another test writes to it
        for isolation in ISOLATIONS:
            before = consumed[isolation][topic]
            assert_same(log, isolation, before._replace(times=times_within(before)))
    assert complaints(broker.partition(topic)) == []


def test_a_store_opened_to_read_reads_a_live_directory(broker: Broker, scenarios: Scenarios) -> None:
    names = {path.name for path in broker.data.iterdir()}
    with tidelog.open(broker.data, mode="r") as store:
        assert {topic.name for topic in store.topics()} >= {*CASES, *INTERNAL}
        for topic in CASES.keys() - {TOPIC}:
            for isolation in ISOLATIONS:
                assert read_all(store.log(topic, 0), isolation) == scenarios.kafka_wrote(NEWER).consumed[isolation][topic].records
    assert {path.name for path in broker.data.iterdir()} == names


def test_a_reader_follows_what_the_broker_appends(broker: Broker) -> None:
    with open_reader(broker.partition(TOPIC)) as log:
        start, found = log.log_end_offset, []

        def follow() -> None:
            for record in log.read(start=start, follow=True, poll_s=0.02):
                found.append((record.offset, record.value))
                if record.value == SAID_LAST:
                    return

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        offsets = []
        for batch in (*numbers(0, 30, batch=3), (Row(None, SAID_LAST, (), TIME),)):
            offsets += broker.clients.produce(TOPIC, [batch], producer="followed", config={})
        reader.join(20)
        assert not reader.is_alive(), found
    assert [offset for offset, _ in found] == offsets
    assert [value for _, value in found] == [*(b"number %d" % number for number in range(30)), SAID_LAST]
    assert complaints(broker.partition(TOPIC)) == []


def test_nothing_of_ours_is_left_in_the_live_directory(broker: Broker) -> None:
    list(verify_log_directory(broker.data, disk=ReadOnlyDisk()))
    assert [path.name for path in broker.data.rglob(f"*{OWN_SUFFIX}")] == []
    assert broker.is_running


def test_a_broker_does_not_start_where_our_writer_is(scenarios: Scenarios) -> None:
    with a_broker(scenarios.home / "held", scenarios) as broker, Log.open(broker.partition(TOPIC), pool=POOL) as log:
        end = log.log_end_offset
        with pytest.raises(BrokerError, match=r"Failed to acquire lock on file \.lock"):
            broker.start()
        assert log.append(NewBatch([(None, b"still here")]).encode()).first_offset == end


def test_a_broker_does_not_start_where_a_store_is_and_a_store_waits_for_a_broker(scenarios: Scenarios) -> None:
    with a_broker(scenarios.home / "held-by-a-store", scenarios) as broker:
        with tidelog.open(broker.data, adopt=True) as store:
            end = store.log(TOPIC, 0).log_end_offset
            with pytest.raises(BrokerError, match=r"Failed to acquire lock on file \.lock"):
                broker.start()
            assert store.log(TOPIC, 0).append(NewBatch([(None, b"still here")]).encode()).first_offset == end
            assert (broker.data / LOCK).stat().st_size == 0
        broker.start()
        with pytest.raises(LockedError) as refused:
            tidelog.open(broker.data)
        assert str(broker.pid) in str(refused.value)
        os.kill(broker.pid, signal.SIGTERM)
        with tidelog.open(broker.data, lock_timeout_s=60) as store:
            assert store.log(TOPIC, 0).log_end_offset == end + 1
            assert store.log(TOPIC, 0).load_report.was_clean
