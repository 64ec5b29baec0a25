"""A named consumer: what it reads, in which order, where it begins and goes on."""

import logging
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

import tidelog
from tests.support.groups import A0, A1, B0, end, offsets_log, values, write
from tests.support.logs import TIME, FakeClock
from tests.support.small_stores import open_store
from tests.support.topics import TopicModel
from tidelog import EARLIEST, LATEST, Time
from tidelog.disk.names import TopicPartition
from tidelog.errors import (
    ChecksumError,
    CorruptBatchError,
    LogClosedError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TransactionError,
    UnknownTopicError,
)
from tidelog.log.log_reading import Isolation
from tidelog.store import Position, Store
from tidelog.store.groups.expiring import expire_positions


def fill(store: Store, topic: str = "a", count: int = 10, partitions: int = 1) -> None:
    made = store.create_topic(topic, partitions, exist_ok=True)
    for number in range(count):
        made.append(b"%d" % number, partition=number % partitions)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_it_goes_on_where_it_has_committed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        with store.consumer("g", "a") as consumer:
            assert values(consumer.poll(4)) == numbers(0, 4)
            consumer.commit()
            assert values(consumer.poll(3)) == numbers(4, 7)  # not committed
        with store.consumer("other", "a") as consumer:
            assert values(consumer) == numbers(0, 10)
    with open_store(tmp_path / "store") as store, store.consumer("g", "a") as consumer:
        assert consumer.position(A0) == 4
        assert values(consumer) == numbers(4, 10)
        assert consumer.poll() == []


def test_a_record_that_was_handed_out_is_consumed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        with store.consumer("g", "a") as consumer:
            for record in consumer:
                if record.value == b"3":
                    break
            assert consumer.position(A0) == 4
            consumer.commit()
            assert values(consumer.poll(2)) == numbers(4, 6)  # what was read ahead is not lost
            assert values(consumer) == numbers(6, 10)
        assert store.group("g").positions()[A0].offset == 4


def test_iterating_ends_where_the_topic_ended_when_it_began(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic("a")
        topic.append(b"0")
        with store.consumer("g", "a") as consumer:
            seen = []
            for record in consumer:
                seen.append(record.value)
                topic.append(b"another")  # which it does not run after for ever
            assert seen == [b"0"]
            assert len(consumer.poll()) == 1


def test_iterating_ends_there_also_in_the_middle_of_what_is_read_at_once(tmp_path: Path) -> None:
    """A fetch may reach further than the end was: what came since is for the next one who asks."""
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic("a", 2)
        for partition in range(2):
            for _ in range(3):
                batch = tidelog.NewBatch([(None, b"x" * 1000)] * 450, timestamp_ms=TIME).encode()
                topic.log(partition).append(batch)  # a fetch has less than the three
        with store.consumer("g", "a") as consumer:
            count = 0
            for record in consumer:
                count += 1
                if count == 1:
                    topic.log(record.partition).append(tidelog.NewBatch([(None, b"new")] * 2000, timestamp_ms=TIME).encode())
            assert count == 2700
            assert [consumer.position(partition) for partition in (A0, A1)] == [1350, 1350]
            assert sum(1 for _ in consumer) == 2000


def test_follow_waits_for_what_comes(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, count=2)
        with store.consumer("g", "a", follow=True) as consumer:
            records = iter(consumer)
            assert values([next(records), next(records)]) == numbers(0, 2)
            store.topic("a").append(b"2")
            assert next(records).value == b"2"


def test_poll_waits_no_longer_than_it_is_told(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, count=0)
        with store.consumer("g", "a") as consumer:
            assert consumer.poll(timeout_s=0.01) == []
            store.topic("a").append(b"0")
            assert values(consumer.poll(timeout_s=30)) == [b"0"]


def test_partitions_have_their_turns(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for topic in ("a", "b"):
            store.create_topic(topic, 2).append_many([(None, b"x" * 20)] * 1)
            for number in range(2):
                store.topic(topic).log(number).append(tidelog.NewBatch([(None, b"x")] * 5000, timestamp_ms=TIME).encode())
        with store.consumer("g", ["a", "b", "a"]) as consumer:
            assert consumer.topics == ("a", "b")
            assert len(consumer.assignment) == 4
            seen: Counter[TopicPartition] = Counter()
            for _ in range(8):
                for record in consumer.poll(100):
                    seen[TopicPartition(record.topic or "", record.partition)] += 1
            assert set(seen.values()) == {200}
            order = [(record.topic, record.partition, record.offset) for record in consumer]
            assert len(order) == 4 * 5000 + 2 - 800
            assert all(
                [offset for *place, offset in order if tuple(place) == partition] == list(range(200, store.log(*partition).log_end_offset))
                for partition in consumer.assignment
            )


@pytest.mark.parametrize("isolation", ["committed", "high_watermark", "log_end"])
def test_the_same_records_as_reading_the_topic(tmp_path: Path, isolation: Isolation) -> None:
    with open_store(tmp_path / "store") as store:
        model = TopicModel(store.create_topic("a", 2))
        for step in range(30):
            partition, producer = step % 2, 5 + step % 3
            model.append(partition, [(b"k", b"%d" % step, TIME + step)] * (1 + step % 4), ("none", "zstd")[step % 2], producer)
            if step % 5 == 4:
                model.append(partition, [(b"p", b"plain%d" % step, TIME + step)])
            if step % 4 == 3:
                model.end(partition, producer, ("commit", "abort")[step % 8 // 4])
        expected = sorted((record.partition, record.offset) for record in store.topic("a").read(isolation=isolation))
        with store.consumer("g", "a", isolation=isolation) as consumer:
            found = [(record.partition, record.offset) for record in consumer]
            assert sorted(found) == expected
            ends = {number: store.log("a", number).last_stable_offset for number in range(2)}
            if isolation == "committed":
                assert {number: consumer.position(("a", number)) for number in range(2)} == ends
                assert set(consumer.lag().values()) == {0}
        with store.consumer("h", "a", isolation=isolation) as consumer:
            polled = []
            while records := consumer.poll(7):
                polled += [(record.partition, record.offset) for record in records]
            assert sorted(polled) == expected


def test_seek(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        topic = store.create_topic("a")
        for number in range(10):
            topic.append(b"%d" % number, timestamp_ms=TIME + number)
        with store.consumer("g", "a") as consumer:
            consumer.seek(("a", 0), 7)
            assert values(consumer.poll()) == numbers(7, 10)
            consumer.seek(A0, EARLIEST)
            assert values(consumer.poll(1)) == [b"0"]
            consumer.seek(A0, Time(TIME + 5))
            assert values(consumer.poll(1)) == [b"5"]
            consumer.seek(A0, datetime.fromtimestamp(TIME / 1000 + 0.002, UTC))
            assert values(consumer.poll(1)) == [b"2"]
            consumer.seek(A0, LATEST)
            assert consumer.poll() == []
            for record in consumer:
                raise AssertionError(record)
            consumer.seek(A0, 0)
            seen = []
            for record in consumer:  # in the middle of what was read ahead
                seen.append(record.value)
                if seen == [b"0"]:
                    consumer.seek(A0, 8)
            assert seen == [b"0", b"8", b"9"]


def test_inside_of_a_batch_and_behind_a_marker(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        model = TopicModel(store.create_topic("a"))
        model.append(0, [(b"k", b"%d" % number, TIME) for number in range(5)], producer=5)
        model.end(0, 5, "commit")
        with store.consumer("g", "a") as consumer:
            consumer.seek(A0, 2)
            assert values(consumer.poll(2)) == numbers(2, 4)
            assert consumer.position(A0) == 4
            assert values(consumer.poll(1)) == [b"4"]
            assert consumer.position(A0) == 6  # nothing but the marker was left
            assert consumer.lag() == {A0: 0}


def test_rewind(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, count=10, partitions=2)
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: 3})
            consumer.seek(A1, 4)
            assert len(consumer.poll(2)) == 2
            consumer.rewind()
            assert (consumer.position(A0), consumer.position(A1)) == (3, 0)
            consumer.rewind()
            assert consumer.positions() == {}  # nothing that could be committed by mistake
            assert len(list(consumer)) == 7
            seen = 0
            for _ in consumer:
                raise AssertionError
            consumer.rewind()
            for _ in consumer:  # in the middle of what was read ahead
                seen += 1
                if seen == 4:
                    consumer.rewind()
            assert seen == 4 + 7


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", numbers(0, 10)),
        ("latest", []),
        ("by_duration:PT0.005S", numbers(4, 10)),
        (timedelta(milliseconds=2), numbers(7, 10)),
        ("by_duration:P1D", numbers(0, 10)),
    ],
)
def test_where_it_begins(tmp_path: Path, reset: str | timedelta, expected: list[bytes]) -> None:
    clock = FakeClock(TIME + 9)
    with open_store(tmp_path / "store", clock=clock) as store:
        topic = store.create_topic("a")
        for number in range(10):
            topic.append(b"%d" % number, timestamp_ms=TIME + number)
        with store.consumer("g", "a", auto_offset_reset=reset) as consumer:
            assert values(consumer.poll()) == expected


def test_latest_is_the_end_at_the_first_poll(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        model = TopicModel(store.create_topic("a"))
        with store.consumer("g", "a", auto_offset_reset="latest") as consumer:
            model.append(0, [(b"k", b"before", TIME)])
            model.append(0, [(b"k", b"open", TIME)], producer=5)
            model.append(0, [(b"k", b"behind", TIME)])
            assert consumer.poll() == []
            assert consumer.position(A0) == 1  # the last stable offset
            model.end(0, 5, "commit")
            assert values(consumer.poll()) == [b"open", b"behind"]


def test_none_raises(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        with store.consumer("g", "a", auto_offset_reset="none") as consumer:
            with pytest.raises(NoOffsetForPartitionError, match="'g' has no position in a-0"):
                consumer.poll()
            consumer.seek(A0, 9)
            assert values(consumer.poll()) == [b"9"]
            consumer.seek(A0, 50)
            with pytest.raises(OffsetOutOfRangeError):
                consumer.poll()
            consumer.commit({A0: 3})
        with store.consumer("g", "a", auto_offset_reset="none") as consumer:
            assert values(consumer.poll(1)) == [b"3"]


def test_it_does_not_begin_in_front_of_what_a_transaction_is_about_to_commit(tmp_path: Path) -> None:
    """KIP-447: the old position would hand out again what has had its effect already."""
    with open_store(tmp_path / "store") as store:
        fill(store, partitions=2)
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1})
        write(log, "g", {A0: 3, A1: 5}, producer=7)
        with store.consumer("g", "a") as consumer:
            for ask in (consumer.poll, consumer.lag, lambda: list(consumer), lambda: consumer.position(A0)):
                with pytest.raises(TransactionError, match="not over"):
                    ask()
            assert consumer.positions() == {}
            consumer.seek(A0, 2)
            consumer.commit({A1: 4})  # behind what the transaction has written: this is what counts now, however that ends
            assert (consumer.position(A0), consumer.position(A1)) == (2, 4)
        with store.consumer("g", "a", isolation="high_watermark") as consumer:
            assert (consumer.position(A0), consumer.position(A1)) == (1, 4)
        end(log, 7, "commit")
        with store.consumer("g", "a") as consumer:
            assert (consumer.position(A0), consumer.position(A1)) == (3, 4)


def test_a_poll_with_time_waits_until_the_transaction_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka's consumer does: as a rule it is being committed right now."""
    with open_store(tmp_path / "store") as store:
        fill(store)
        log = offsets_log(store, "g")
        write(log, "g", {A0: 3}, producer=7)
        with store.consumer("g", "a") as consumer:
            with pytest.raises(TransactionError, match="not over"):
                consumer.poll(timeout_s=0.01)
            monkeypatch.setattr("tidelog.store.groups.consumer.time.sleep", lambda _: end(log, 7, "commit"))
            assert values(consumer.poll(timeout_s=30)) == numbers(3, 10)


def test_out_of_range_is_reset_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: 2})
            store.log("a", 0).delete_records_before(5)
            with caplog.at_level(logging.WARNING):
                assert values(consumer.poll(2)) == numbers(5, 7)
            assert "Fetch position 2 is out of range for partition a-0, resetting to 5" in caplog.text
        with store.consumer("g", "a", auto_offset_reset="latest") as consumer:
            assert consumer.poll() == []
            assert consumer.position(A0) == 10
            store.log("a", 0).truncate_to(7)  # cut under the consumer
            assert consumer.poll() == []
            assert consumer.position(A0) == 7
            store.topic("a").append(b"new")
            assert values(consumer.poll()) == [b"new"]


def test_a_topic_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        fill(store, "b", 3)
        with store.consumer("g", ["a", "b"]) as consumer:
            assert len(list(consumer)) == 13
            consumer.commit()
            store.delete_topic("a")
            assert set(store.group("g").positions()) == {B0}
            with pytest.raises(UnknownTopicError, match="no topic 'a'"):
                consumer.poll()
            with pytest.raises(UnknownTopicError):
                consumer.commit()
            fill(store, "a", 4, partitions=2)
            assert consumer.assignment == (A0, A1, B0)
            assert sorted(record.offset for record in consumer) == [0, 0, 1, 1]
            consumer.commit()
            assert {found.offset for found in store.group("g").positions().values()} == {2, 3}


@pytest.mark.parametrize(("place", "error"), [(-1, ChecksumError), (3, CorruptBatchError)], ids=["record", "offset"])
def test_damage_comes_after_what_lies_before_it(tmp_path: Path, place: int, error: type[Exception]) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, "a", 3)
        fill(store, "b", 2)
        log = store.log("a", 0)
        path = Path(log.segments[0].path_of(".log"))
        sound = path.read_bytes()
        first, second, _ = [batch.size_bytes for batch in log.batches()]
        damaged = bytearray(sound)
        damaged[first + place if place >= 0 else first + second + place] ^= 1
        path.write_bytes(damaged)
        with store.consumer("g", ["a", "b"]) as consumer:
            assert sorted(map(str, values(consumer.poll()))) == ["b'0'", "b'0'", "b'1'"]
            for _ in range(2):
                with pytest.raises(error):
                    consumer.poll()
            assert consumer.position(A0) == 1
            path.write_bytes(sound)
            assert values(consumer.poll()) == numbers(1, 3)


def test_the_leader_epoch_of_the_last_record_is_committed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = store.create_topic("a").log(0)
        batch = tidelog.NewBatch([(b"k", b"v")] * 2, timestamp_ms=TIME).encode()
        for epoch in (3, 4, 7):
            log.append(batch, leader_epoch=epoch)
        with store.consumer("g", "a") as consumer:
            epochs = []
            for _ in range(6):
                consumer.poll(1)
                consumer.commit()
                found = consumer.committed(A0)
                assert found is not None
                epochs.append((found.offset, found.leader_epoch))
            assert epochs == [(1, 3), (2, 3), (3, 4), (4, 4), (5, 7), (6, 7)]
        with store.consumer("g", "a") as consumer:
            assert consumer.position(A0) == 6
            assert consumer.positions() == {A0: Position(6, 7)}
            consumer.seek(A0, 2)
            assert consumer.positions() == {A0: Position(2, -1)}


def test_an_interrupt_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, "a", 10, partitions=2)
        with store.consumer("g", "a") as consumer:
            ready, calls = consumer.ready, []

            def interrupted() -> object:
                calls.append(1)
                if len(calls) == 2:
                    raise KeyboardInterrupt
                return ready()

            monkeypatch.setattr(consumer, "ready", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll()
            monkeypatch.undo()
            assert len(consumer.poll()) == 10


def test_lag(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, count=10, partitions=2)
        with store.consumer("g", "a") as consumer:
            assert consumer.lag() == {A0: 5, A1: 5}
            consumer.poll(3)
            assert sum(consumer.lag().values()) == 7
            list(consumer)
            assert consumer.lag() == {A0: 0, A1: 0}


def test_a_store_that_is_closed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        consumer = store.consumer("g", "a")
        records = iter(consumer)
        next(records)
    for use in (consumer.poll, consumer.commit, consumer.lag, lambda: consumer.position(A0), lambda: list(consumer)):
        with pytest.raises(LogClosedError, match="the store is closed"):
            use()
    with open_store(tmp_path / "store") as store, store.consumer("g", "a") as another:  # the old one is no member any more
        assert values(another) == numbers(0, 10)
        consumer.close()
        assert another.is_live
        assert store.group("g").is_in_use


def test_beside_its_owner(tmp_path: Path) -> None:
    """Positions of a store that is only read are kept in another one."""
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "kept") as kept:
        fill(store, count=6)
        with tidelog.open(tmp_path / "store", "r") as directory:
            with directory.consumer("g", "a", positions=kept) as consumer:
                assert values(consumer.poll(4)) == numbers(0, 4)
                consumer.commit()
            store.topic("a").append(b"6")
            with directory.consumer("g", "a", positions=kept, follow=True) as consumer:
                assert values(islice(consumer, 3)) == numbers(4, 7)
                consumer.commit()
            assert directory.group("g", positions=kept).lag()[A0] == (7, 7, 0)
            assert directory.group("g").positions() == {}
        assert kept.group("g").positions()[A0].offset == 7
        assert kept.group("g").lag()[A0] == (7, None, None)
        assert store.group("g").positions() == {}
        assert [topic.name for topic in kept.topics(internal=False)] == []
        assert [topic.name for topic in kept.topics()] == ["__consumer_offsets"]


def test_a_topic_that_its_owner_deletes_and_makes_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store, tidelog.open(tmp_path / "store", "r") as directory:
        fill(store, count=5)
        with directory.consumer("g", "a") as consumer:
            assert len(consumer.poll()) == 5
            store.delete_topic("a")
            for _ in range(3):
                with pytest.raises(UnknownTopicError):
                    consumer.poll()
            fill(store, count=4, partitions=2)
            found = [record.value for record in consumer]
            assert sorted(map(str, found)) == [f"b'{number}'" for number in range(4)]
            assert consumer.assignment == (A0, A1)


def test_many_threads_with_groups_of_their_own(tmp_path: Path) -> None:
    """Beside them positions expire, are measured, looked at and compacted; nobody loses a position."""
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock, config={"offsets.topic.num.partitions": 2}) as store:
        fill(store, "a", 200, partitions=2)
        store.group("old").reset(0, "a")
        clock.advance(8 * 86_400_000)
        errors: list[BaseException] = []
        done = threading.Event()

        def consume(name: str) -> None:
            try:
                for _ in range(20):
                    with store.consumer(name, "a") as consumer:
                        before = {partition: found.offset for partition, found in store.group(name).positions().items()}
                        assert {partition: consumer.position(partition) for partition in before} == before
                        consumer.poll(10)
                        consumer.commit()
            except BaseException as error:
                errors.append(error)

        def look_after() -> None:
            try:
                while not done.is_set():
                    expire_positions(store._state)
                    store.metrics()
                    store.groups()
                    store.compact("__consumer_offsets", roll=True)
            except BaseException as error:
                errors.append(error)

        caring = threading.Thread(target=look_after)
        caring.start()
        threads = [threading.Thread(target=consume, args=(f"group {number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        caring.join()
        assert errors == []
        for number in range(4):
            assert sum(found.offset for found in store.group(f"group {number}").positions().values()) == 200
