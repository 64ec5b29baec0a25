"""Reading a topic as records: from where to where, all partitions or one, merged, following, and what is refused."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import TIME, FakeClock
from tests.support.topics import SMALL, TopicModel, open_store, plain
from tidelog import EARLIEST, LATEST, Time
from tidelog.errors import ChecksumError, LogClosedError, OffsetOutOfRangeError, UnknownTopicError
from tidelog.record import Record
from tidelog.store.store import Store
from tidelog.store.topic import Topic


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def topic(store: Store) -> Topic:
    """Two partitions of three records each, at times that take turns."""
    topic = store.create_topic("tide", 2, SMALL)
    model = TopicModel(topic)
    model.append(0, [(b"a", b"0", TIME), (b"b", b"2", TIME + 20), (b"c", b"4", TIME + 40)])
    model.append(1, [(b"d", b"1", TIME + 10), (b"e", b"3", TIME + 30), (b"f", b"5", TIME + 50)])
    return topic


def values(records: Any) -> list[bytes]:
    return [record.value for record in records]


def add(topic: Topic, partition: int, *numbers: int) -> None:
    TopicModel(topic).append(partition, [(b"k", str(number).encode(), TIME + number) for number in numbers])


def test_records_know_where_they_are_from(topic: Topic) -> None:
    assert sorted((record.topic, record.partition, record.offset) for record in topic.read()) == [
        ("tide", partition, offset) for partition in (0, 1) for offset in range(3)
    ]


def test_one_partition(topic: Topic) -> None:
    assert values(topic.read(partition=1)) == [b"1", b"3", b"5"]


def test_offsets_of_one_partition_the_end_is_exclusive(topic: Topic) -> None:
    assert values(topic.read(1, 2, partition=0)) == [b"2"]
    assert values(topic.read(1, partition=0)) == [b"2", b"4"]
    assert values(topic.read(3, partition=0)) == []


def test_offsets_by_partition_and_those_not_named_are_read_whole(topic: Topic) -> None:
    assert sorted(values(topic.read({0: 2}))) == [b"1", b"3", b"4", b"5"]
    assert sorted(values(topic.read({0: 1, 1: LATEST}, {0: 2}))) == [b"2"]
    assert values(topic.read({0: 2, 1: 1}, partition=1)) == [b"3", b"5"]


def test_times_apply_to_every_partition(topic: Topic) -> None:
    assert sorted(values(topic.read(Time(TIME + 20), Time(TIME + 50)))) == [b"2", b"3", b"4"]
    when = datetime.fromtimestamp((TIME + 30) / 1000, UTC)
    assert sorted(values(topic.read(when))) == [b"3", b"4", b"5"]


def test_the_ends(topic: Topic) -> None:
    assert values(topic.read(LATEST)) == []
    assert values(topic.read(EARLIEST, EARLIEST)) == []


def test_a_topic_of_one_partition_takes_an_offset(store: Store) -> None:
    topic = store.create_topic("one")
    add(topic, 0, 1, 2, 3)
    assert values(topic.read(1, 2)) == [b"2"]


def test_merged_by_time(topic: Topic) -> None:
    assert values(topic.read(merge="time")) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert values(topic.read(Time(TIME + 20), merge="time")) == [b"2", b"3", b"4", b"5"]


def test_equal_times_come_by_partition_and_a_partition_keeps_its_order(store: Store) -> None:
    topic = store.create_topic("ties", 3)
    model = TopicModel(topic)
    model.append(2, [(None, b"a", TIME), (None, b"b", TIME - 9), (None, b"c", TIME)])
    model.append(0, [(None, b"d", TIME), (None, b"e", TIME + 1)])
    assert values(topic.read(merge="time")) == [b"d", b"a", b"b", b"c", b"e"]


def test_what_comes_after_the_call_is_not_read(topic: Topic) -> None:
    reading = topic.read(partition=0)
    assert next(reading).value == b"0"
    add(topic, 0, 6)
    assert values(reading) == [b"2", b"4"]
    not_begun = topic.read()
    add(topic, 1, 7)
    assert b"7" not in values(not_begun)


# Following


def test_following_goes_on_with_what_comes(topic: Topic) -> None:
    reading = topic.read(follow=True, poll_s=0.001)
    assert sorted(values(islice(reading, 6))) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    add(topic, 1, 6)
    assert next(reading).value == b"6"
    add(topic, 0, 7)
    add(topic, 1, 8)
    assert sorted(values(islice(reading, 2))) == [b"7", b"8"]


def test_from_now_on_means_from_the_call_on(topic: Topic) -> None:
    reading = topic.read(LATEST, follow=True, poll_s=0.001)
    add(topic, 1, 6)
    assert next(reading).value == b"6"


def test_following_up_to_offsets_ends_there(topic: Topic) -> None:
    reading = topic.read(end={0: 4, 1: 2}, follow=True, poll_s=0.001)
    assert sorted(values(islice(reading, 5))) == [b"0", b"1", b"2", b"3", b"4"]
    add(topic, 0, 6, 7)
    add(topic, 1, 8)
    assert values(reading) == [b"6"]


def test_following_up_to_a_time_ends_when_every_partition_has_reached_it(topic: Topic) -> None:
    reading = topic.read(end=Time(TIME + 60), follow=True, poll_s=0.001)
    assert len(list(islice(reading, 6))) == 6
    add(topic, 0, 55, 60, 61)
    assert next(reading).value == b"55"
    add(topic, 1, 56, 70)
    assert values(reading) == [b"56"]


def test_following_in_another_thread_sees_every_record_once(topic: Topic) -> None:
    found: list[Record] = []

    def follow() -> None:
        found.extend(topic.read(LATEST, {0: 203, 1: 203}, follow=True, poll_s=0.001))

    reader = threading.Thread(target=follow)
    reading = topic.read(LATEST, {0: 203, 1: 203}, follow=True, merge="time", poll_s=0.001)
    reader.start()
    for number in range(200):
        for partition in (0, 1):
            add(topic, partition, number)
    merged = list(reading)
    reader.join(10)
    # The thread may have come late, but what it has is whole from there on.
    for records in (merged, found):
        for partition in (0, 1):
            offsets = [record.offset for record in records if record.partition == partition]
            assert offsets == list(range(203 - len(offsets), 203))
    assert len(merged) == 400


def test_each_round_is_merged_by_itself(topic: Topic) -> None:
    reading = topic.read(follow=True, merge="time", poll_s=0.001)
    assert values(islice(reading, 6)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    add(topic, 1, 90)
    add(topic, 0, 80, 95)
    assert values(islice(reading, 3)) == [b"80", b"90", b"95"]
    add(topic, 0, 5)  # older than what was given: it comes when it is there
    assert next(reading).value == b"5"


def test_following_a_store_that_is_closed_says_so(topic: Topic, store: Store) -> None:
    reading = topic.read(LATEST, follow=True, poll_s=0.001)
    closing = threading.Timer(0.05, store.close)
    closing.start()
    with pytest.raises(LogClosedError):
        next(reading)
    closing.join()


def test_the_wait_is_as_long_as_asked_for(topic: Topic) -> None:
    reading = topic.read(LATEST, follow=True, poll_s=0.2)
    threading.Timer(0.05, add, (topic, 0, 9)).start()
    begin = time.monotonic()
    assert next(reading).value == b"9"
    assert 0.15 < time.monotonic() - begin < 5


# Transactions


def test_committed_is_the_default(store: Store) -> None:
    topic = store.create_topic("txn")
    model = TopicModel(topic)
    model.append(0, [(b"k", b"plain", TIME)])
    model.append(0, [(b"k", b"gone", TIME)], producer=1)
    model.append(0, [(b"k", b"kept", TIME)], producer=2)
    model.end(0, 1, "abort")
    model.end(0, 2, "commit")
    model.append(0, [(b"k", b"open", TIME)], producer=1)
    model.append(0, [(b"k", b"behind", TIME)])
    assert values(topic.read()) == [b"plain", b"kept"]
    everything = [b"plain", b"gone", b"kept", b"open", b"behind"]
    assert values(topic.read(isolation="high_watermark")) == everything
    assert values(topic.read(isolation="log_end")) == everything
    assert plain(topic.read()) == model.committed(0)


# What is overtaken


def test_overtaken_by_the_start_of_the_log(store: Store) -> None:
    topic = store.create_topic("old", 1, SMALL)
    for number in range(8):
        add(topic, 0, number)
    topic.log(0).delete_records_before(5)
    assert values(topic.read()) == [b"5", b"6", b"7"]
    with pytest.raises(OffsetOutOfRangeError) as raised:
        list(topic.read(2))
    assert raised.value.log_start_offset == 5
    assert values(topic.read(2, when_overtaken="skip")) == [b"5", b"6", b"7"]
    assert values(islice(topic.read(2, follow=True, when_overtaken="skip"), 3)) == [b"5", b"6", b"7"]


def test_the_beginning_is_where_it_is_when_it_is_read(topic: Topic) -> None:
    reading = topic.read()
    topic.log(1).delete_records_before(2)
    assert values(reading) == [b"0", b"2", b"4", b"5"]


def test_following_from_beyond_the_end_is_refused(topic: Topic) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        topic.read(99, partition=0, follow=True)


@pytest.mark.leaves
def test_damage_is_told_with_file_and_place_after_what_is_before_it(store: Store) -> None:
    topic = store.create_topic("rotten")
    for number in range(3):
        add(topic, 0, number)
    path = Path(topic.log(0).directory) / "00000000000000000000.log"
    rotten = bytearray(path.read_bytes())
    size = len(rotten) // 3
    rotten[2 * size - 1] ^= 1
    path.write_bytes(rotten)
    reading = topic.read(1)
    with pytest.raises(ChecksumError) as raised:
        next(reading)
    assert (raised.value.path, raised.value.position) == (str(path), size)
    assert values(islice(topic.read(), 1)) == [b"0"]


# What is refused, at the call and not at the first record


def test_an_offset_for_several_partitions(topic: Topic) -> None:
    with pytest.raises(ValueError, match=r"start=1 is an offset, and the topic has 2 partitions: give partition=…"):
        topic.read(1)
    with pytest.raises(ValueError, match=r"end=1 is an offset"):
        topic.read(end=1)


@pytest.mark.parametrize("position", [datetime(2026, 1, 1), {0: datetime(2026, 1, 1)}])
def test_a_time_without_a_zone(topic: Topic, position: Any) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        topic.read(position)
    with pytest.raises(ValueError, match="has no time zone"):
        topic.read(end=position)


@pytest.mark.parametrize("position", [True, "0", 1.5, None, {0: "0"}])
def test_what_is_no_position(topic: Topic, position: Any) -> None:
    with pytest.raises(TypeError, match="a position is an offset, a Time, a datetime"):
        topic.read(position)


def test_partitions_that_are_not_there(topic: Topic) -> None:
    with pytest.raises(UnknownTopicError, match="no partition 2"):
        topic.read(partition=2)
    with pytest.raises(UnknownTopicError, match="start names a partition that is not here: expected some of 0, 1, found 5"):
        topic.read({5: 0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge": "offset"}, "merge is None or 'time', not 'offset'"),
        ({"when_overtaken": "stop"}, "when_overtaken is 'raise' or 'skip'"),
        ({"isolation": "dirty"}, "isolation is 'high_watermark', 'committed' or 'log_end'"),
        ({"poll_s": 0}, "poll_s is a time in seconds above 0"),
    ],
)
def test_options_that_do_not_exist(topic: Topic, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topic.read(**options)


def test_a_closed_store(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", clock=FakeClock()) as store:
        topic = store.create_topic("tide")
        add(topic, 0, 1)
        reading = topic.read()
    with pytest.raises(LogClosedError):
        topic.read()
    with pytest.raises(LogClosedError):
        next(reading)
