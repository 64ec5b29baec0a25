"""The driver's side of a stream, on real logs and without Spark: where it begins, how far it goes, and what it does when topics change."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from tests.spark.streams import EARLIEST, fill, next_batch, offsets_in, read_all, read_tasks, rows_of, stream, tasks_of
from tests.support.logs import TIME
from tests.support.producers import abort, commit, sent
from tests.support.topics import SMALL, open_store
from tidelog.errors import (
    CorruptFileError,
    DataLossError,
    InconsistentTopicIdError,
    InvalidConfigError,
    LogNotFoundError,
    TidelogError,
    UnknownTopicError,
    UnsupportedError,
)
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.spark import catalog, stream_logs
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.stream_offsets import StreamOffset


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_everything_once_in_offset_order(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 3, SMALL)
        for partition in range(3):
            fill(topic, 20, partition=partition)
        with stream(home, **EARLIEST) as reader:
            assert read_all(reader) == [[("tide", partition, offset) for partition in range(3) for offset in range(20)]]
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="7") as reader:
            batches = read_all(reader)
    assert [len(batch) for batch in batches] == [7] * 8 + [4]
    for partition in range(3):
        assert [row[2] for batch in batches for row in batch if row[1] == partition] == list(range(20))


def test_the_beginning_is_the_latest_by_default_and_stays_the_same(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 5)
        with stream(home) as reader:
            start = reader.initialOffset()
            fill(topic, 3)
            assert reader.initialOffset() == start
            assert offsets_in(start) == {0: 5}
            assert rows_of(reader, start, next_batch(reader, start)) == [("tide", 0, offset) for offset in (5, 6, 7)]


def test_a_first_batch_that_was_cut_short_is_repeated_from_where_it_began(home: Path) -> None:
    """Spark asks for the beginning again, and the latest offset is another one by then."""
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 5)
        with stream(home) as reader:
            start = reader.initialOffset()
            fill(topic, 3)
            end = next_batch(reader, start)
        fill(topic, 10)
        with stream(home) as reader:
            again = reader.initialOffset()
            assert offsets_in(again) == {0: 18}
            assert rows_of(reader, again, end) == [("tide", 0, offset) for offset in (5, 6, 7)]
            after = next_batch(reader, end)
            assert rows_of(reader, end, after) == [("tide", 0, offset) for offset in range(8, 18)]


def test_nothing_new_is_the_same_offset_to_the_letter(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 2, SMALL), 3)
        with stream(home, **EARLIEST) as reader:
            first = next_batch(reader, reader.initialOffset())
            again = next_batch(reader, json.loads(json.dumps(first)))
            assert json.dumps(again) == json.dumps(first)


def test_open_transactions_are_not_read_and_aborted_ones_are_left_out(home: Path) -> None:
    with open_store(home) as store:
        log = store.create_topic("tide", 1, SMALL).log(0)
        log.append(sent(1, 0, 2, is_transactional=True))
        log.append(sent(2, 0, 2, is_transactional=True))
        abort(log, 1)
        with stream(home, **EARLIEST) as reader, stream(home, **EARLIEST, isolation="uncommitted") as uncommitted:
            start = next_batch(reader, reader.initialOffset())
            assert offsets_in(start) == {0: 2}
            assert rows_of(reader, reader.initialOffset(), start) == []
            everything = next_batch(uncommitted, uncommitted.initialOffset())
            assert [row[2] for row in rows_of(uncommitted, uncommitted.initialOffset(), everything)] == [0, 1, 2, 3]
            commit(log, 2)
            end = next_batch(reader, start)
            assert offsets_in(end) == {0: 6}
            assert rows_of(reader, start, end) == [("tide", 0, 2), ("tide", 0, 3)]


def test_what_can_be_cut_off_is_not_streamed(home: Path) -> None:
    with open_store(home) as store:
        store.create_topic("tide", 1, SMALL)
        with pytest.raises(InvalidConfigError, match="isolation: expected committed or high_watermark"), stream(home, isolation="log_end"):
            pass


# Limits


def test_a_limit_of_the_engine_is_obeyed(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 30)
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="10", maxBytesPerTrigger="100000") as reader:
            assert reader.getDefaultReadLimit() == ReadMaxRows(10)
            start = reader.initialOffset()
            assert offsets_in(next_batch(reader, start, ReadMaxRows(4))) == {0: 4}
            assert offsets_in(next_batch(reader, start, ReadMaxRows(40))) == {0: 10}
            assert offsets_in(next_batch(reader, start, ReadAllAvailable())) == {0: 30}
        with stream(home, **EARLIEST, maxBytesPerTrigger="1") as reader:
            assert reader.getDefaultReadLimit() == ReadMaxBytes(1)
            assert [len(batch) for batch in read_all(reader)] == [1] * 30  # a batch each: the least that gets on
        with stream(home, **EARLIEST, minOffsetsPerTrigger="3") as reader:
            assert reader.getDefaultReadLimit() == ReadMinRows(3)
        with stream(home, **EARLIEST) as reader:
            assert reader.getDefaultReadLimit() == ReadAllAvailable()


def test_bytes_are_counted_in_whole_batches(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 30)
        batch_bytes = topic.log(0).size_bytes // 30
        with stream(home, **EARLIEST, maxBytesPerTrigger=str(batch_bytes * 8 + 20)) as reader:
            assert [len(batch) for batch in read_all(reader)] == [8, 8, 8, 6]
        with stream(home, **EARLIEST, maxBytesPerTrigger=str(batch_bytes * 8 + 20), maxOffsetsPerTrigger="5") as reader:
            assert {len(batch) for batch in read_all(reader)} == {5}


def test_few_offsets_wait_for_more_or_for_the_delay(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 2)
        with stream(home, **EARLIEST, minOffsetsPerTrigger="5", maxTriggerDelay="300ms") as reader:
            start = next_batch(reader, reader.initialOffset())
            assert offsets_in(start) == {0: 2}  # the first one waits for nothing, as with Kafka's source
            fill(topic, 3)
            assert next_batch(reader, start) == start
            fill(topic, 2)
            start = next_batch(reader, start)
            assert offsets_in(start) == {0: 7}
            fill(topic, 1)
            assert next_batch(reader, start) == start
            time.sleep(0.35)
            assert offsets_in(next_batch(reader, start)) == {0: 8}


def test_a_partition_that_joins_waits_with_the_others(home: Path) -> None:
    """It would begin a micro-batch of its own, and with it the delay anew."""
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 2)
        options = {"subscribePattern": "ti.*", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "400ms"}
        with stream(home, **EARLIEST, **options) as reader:
            start = next_batch(reader, reader.initialOffset())
            began = time.monotonic()
            for number in range(3):
                store.create_topic(f"tin-{number}", 2, SMALL)
                assert next_batch(reader, start) == start
                time.sleep(0.06)
            fill(store.topic("tin-0"), 1)
            assert next_batch(reader, start) == start
            assert time.monotonic() - began < 0.4, "this machine is too slow for the test"
            time.sleep(0.4)
            assert offsets_in(next_batch(reader, start), "tin-0") == {0: 1, 1: 0}


def test_available_now_ends_where_it_was_though_writers_go_on(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 2, SMALL)
        fill(topic, 10)
        fill(topic, 4, partition=1)
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5", maxTriggerDelay="1h") as reader:
            reader.prepareForTriggerAvailableNow()
            sizes: list[int] = []
            start = reader.initialOffset()
            while (end := next_batch(reader, start)) != start and len(sizes) < 10:
                sizes.append(len(rows_of(reader, start, end)))
                start = end
                fill(topic, 3)
            assert sizes == [6, 6, 2]
            assert offsets_in(start) == {0: 10, 1: 4}
            latest = reader.reportLatestOffset()
            assert latest is not None
            assert offsets_in(latest) == {0: 19, 1: 4}


def test_a_limit_changed_between_runs(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 30)
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="7") as reader:
            start = next_batch(reader, reader.initialOffset())
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="11") as reader:
            end = next_batch(reader, start)
            assert offsets_in(end) == {0: 18}
            assert [row[2] for row in rows_of(reader, start, end)] == list(range(7, 18))


# Tasks


def test_a_partition_is_one_task_unless_more_are_asked_for(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 2, SMALL)
        fill(topic, 40)
        fill(topic, 10, partition=1)
        wanted = [("tide", 0, offset) for offset in range(40)] + [("tide", 1, offset) for offset in range(10)]
        for options, tasks in [({}, 2), ({"minPartitions": "5"}, 5), ({"maxRecordsPerPartition": "10"}, 5)]:
            with stream(home, **EARLIEST, **options) as reader:
                start = reader.initialOffset()
                end = next_batch(reader, start)
                assert len(reader.partitions(start, end)) == tasks
                assert rows_of(reader, start, end) == wanted
        with stream(home, **EARLIEST, bytesPerPartition="600") as reader:
            start = reader.initialOffset()
            end = next_batch(reader, start)
            assert len(reader.partitions(start, end)) > 4
            assert rows_of(reader, start, end) == wanted


def test_keys_are_looked_for_where_a_java_producer_puts_them(home: Path) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 4, SMALL)
        for number in range(40):
            topic.append(b"value", key=b"key-%d" % (number % 8), timestamp_ms=TIME)  # by murmur2
        at = partition_for_key(b"key-3", 4)
        for partition in range(4):
            topic.append(b"stray", key=b"key-3", partition=partition, timestamp_ms=TIME)
        with (
            stream(home, **EARLIEST, keys="key-3") as everywhere,
            stream(home, **EARLIEST, keys="key-3", keyPartitioner="murmur2") as there,
        ):
            start = there.initialOffset()
            end = next_batch(there, start)
            assert len(tasks_of(there, start, end)) == 1
            found = rows_of(there, start, end)
            assert {row[1] for row in found} == {at}
            assert [row for row in rows_of(everywhere, start, end) if row[1] == at] == found
            assert len(rows_of(everywhere, start, end)) == len(found) + 3
            assert sum(offsets_in(end).values()) == 44, "what is not read is passed all the same"


# Between planning and reading


def test_what_is_planned_is_found_again_by_its_offsets(home: Path) -> None:
    """Whatever its owner does to the files between planning and reading; but what was trimmed is gone."""
    settings = {**SMALL, "cleanup.policy": "compact,delete", "file.delete.delay.ms": 0}
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, settings)
        log = topic.log(0)
        for number in range(40):
            topic.append(str(number).encode(), key=str(number % 4).encode(), timestamp_ms=TIME)
        with stream(home, **EARLIEST) as reader, stream(home, **EARLIEST, failOnDataLoss="false") as careless:
            start = reader.initialOffset()
            end = next_batch(reader, start)
            planned, planned_carelessly = tasks_of(reader, start, end), tasks_of(careless, start, end)
            fill(topic, 3)
            log.roll()
            assert read_tasks(reader, planned) == list(range(40))
            store.compact("tide")
            left = [record.offset for record in log.read(0, 40)]
            assert 4 <= len(left) < 20
            assert read_tasks(reader, planned) == left
            log.delete_records_before(38)
            with pytest.raises(DataLossError, match="offsets 0 to 37 of tide-0 are not there any more: the log starts at 38"):
                read_tasks(reader, planned)
            assert read_tasks(careless, planned_carelessly) == [38, 39]
            store.delete_topic("tide")
            store.create_topic("tide", 1, settings)
            for each, tasks in ((reader, planned), (careless, planned_carelessly)):
                with pytest.raises(InconsistentTopicIdError, match="made again, since the query was planned"):
                    read_tasks(each, tasks)


# Topics that change


def test_new_partitions_and_topics_are_picked_up_from_their_start(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 3)
        with stream(home, subscribePattern="ti.*", **EARLIEST) as reader:
            start = next_batch(reader, reader.initialOffset())
            other = store.create_topic("tin", 2, SMALL)
            fill(other, 4, partition=1)
            other.log(1).delete_records_before(1)
            end = next_batch(reader, start)
            assert rows_of(reader, start, end) == [("tin", 1, offset) for offset in (1, 2, 3)]
            assert end["topics"]["tin"]["from"] == {"0": 0, "1": 1}
            assert next_batch(reader, end) == end
            other.log(1).delete_records_before(2)
            with pytest.raises(DataLossError, match="offsets from 1 to 1 of tin-1 are gone: they have expired, the log starts at 2"):
                reader.partitions(start, end)


@pytest.mark.parametrize("missing", [None, UnknownTopicError("partitions are not in data: tide-1"), LogNotFoundError("no such directory")])
def test_a_look_between_two_partitions_that_are_made_looks_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, missing: TidelogError | None
) -> None:
    """As a broker makes them, or takes them away: one directory after the other."""
    with open_store(home) as store:
        fill(store.create_topic("tide", 2, SMALL), 3)
    (home / "tide-1").rename(home / "later")
    find, looks = catalog.find_partitions, []

    def found(options: ReadOptions) -> Any:
        looks.append(time.monotonic())
        if len(looks) == 8:
            (home / "later").rename(home / "tide-1")
        elif missing is not None:
            raise missing
        return find(options)

    monkeypatch.setattr(stream_logs, "find_partitions", found)
    with stream(home, **EARLIEST) as reader:
        assert offsets_in(reader.initialOffset()) == {0: 0, 1: 0}
    assert len(looks) == 8
    (home / "tide-1").rename(home / "later")
    with stream(home, **EARLIEST) as reader, pytest.raises(TidelogError):
        reader.initialOffset()
    assert 0.9 < looks[-1] - looks[8] < 5, "one that stays away is told after a second"


def test_a_topic_deleted_and_made_again_is_another_topic(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 3)
        for options in ({}, {"failOnDataLoss": "false"}):
            with stream(home, **EARLIEST, **options) as reader:
                start = reader.initialOffset()
                end = next_batch(reader, start)
                store.delete_topic("tide")
                fill(store.create_topic("tide", 1, SMALL), 9)
                with pytest.raises(InconsistentTopicIdError, match=r"deleted and made again.*new checkpoint"):
                    next_batch(reader, end)
                with pytest.raises(InconsistentTopicIdError, match="deleted and made again"):
                    reader.partitions(start, end)


def test_a_deleted_topic(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 3)
        fill(store.create_topic("tin", 1, SMALL), 3)
        with (
            stream(home, **EARLIEST) as named,
            stream(home, subscribePattern="ti.*", **EARLIEST) as reader,
            stream(home, subscribePattern="ti.*", **EARLIEST, failOnDataLoss="false") as careless,
        ):
            starts = {each: next_batch(each, each.initialOffset()) for each in (named, reader, careless)}
            store.delete_topic("tide")
            with pytest.raises(UnknownTopicError, match="no topic 'tide'"):
                next_batch(named, starts[named])
            with pytest.raises(DataLossError, match="offsets from 3 and all behind them of tide-0 are gone: the partition was deleted"):
                next_batch(reader, starts[reader])
            with caplog.at_level(logging.WARNING):
                assert set(next_batch(careless, starts[careless])["topics"]) == {"tin"}
            assert "tide-0 are gone: the partition was deleted; failOnDataLoss=false goes on" in caplog.text


def test_a_log_that_was_cut_off_is_an_error_and_not_an_empty_batch(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 10)
        with stream(home, **EARLIEST) as reader, stream(home, **EARLIEST, failOnDataLoss="false") as careless:
            start = reader.initialOffset()
            end = next_batch(reader, start)
            topic.log(0).truncate_to(6)
            with pytest.raises(
                DataLossError, match="offsets from 6 to 9 of tide-0 are gone: the log was cut off at 6, and the stream has read"
            ):
                next_batch(reader, end)
            with pytest.raises(DataLossError, match="offsets from 6 to 9 of tide-0 are gone: the log was cut off at 6"):
                reader.partitions(start, end)  # a batch that was planned before
            with caplog.at_level(logging.WARNING):
                after = next_batch(careless, end)
                assert [row[2] for row in rows_of(careless, start, end)] == list(range(6))
            assert offsets_in(after) == {0: 6}
            assert "the log was cut off at 6" in caplog.text
            fill(topic, 2)
            assert rows_of(careless, after, next_batch(careless, after)) == [("tide", 0, 6), ("tide", 0, 7)]


def test_what_was_trimmed_under_the_query(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(home) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 10)
        with stream(home, **EARLIEST) as reader, stream(home, **EARLIEST, failOnDataLoss="false", maxOffsetsPerTrigger="3") as careless:
            start = reader.initialOffset()
            assert careless.initialOffset() == start
            topic.log(0).delete_records_before(4)
            with pytest.raises(DataLossError, match=r"offsets from 0 to 3 of tide-0 are gone: they have expired.*failOnDataLoss=false"):
                reader.partitions(start, next_batch(reader, start))
            with caplog.at_level(logging.WARNING):
                end = next_batch(careless, start)
                assert offsets_in(end) == {0: 7}  # what is gone does not count
                assert [row[2] for row in rows_of(careless, start, end)] == [4, 5, 6]
            assert "offsets from 0 to 3 of tide-0 are gone" in caplog.text


def test_a_start_that_the_log_does_not_have(home: Path) -> None:
    with open_store(home) as store:
        fill(store.create_topic("tide", 1, SMALL), 3)
        given = {"startingOffsets": '{"tide": {"0": 9}}'}
        with (
            stream(home, **given) as reader,
            pytest.raises(InvalidConfigError, match="startingOffsets: expected at most 3 for tide-0, found '9'"),
        ):
            reader.initialOffset()
        with stream(home, **given, failOnDataLoss="false") as reader:
            assert offsets_in(reader.initialOffset()) == {0: 3}


# Offsets


def test_offsets_are_read_as_they_were_written() -> None:
    text = {"version": 1, "topics": {"a": {"id": None, "offsets": {"0": 1, "10": 2}, "from": {"10": 1}}, "b": {"id": "x", "offsets": {}}}}
    assert StreamOffset.of_json(text).to_json() == text


@pytest.mark.parametrize(
    "document", [{}, {"version": 1}, {"version": 0, "topics": {}}, {"version": 1, "topics": {"a": {"0": 1}}}, {"tide": {"0": 5}}]
)
def test_a_checkpoint_of_something_else_is_said_to_be(document: dict[str, object]) -> None:
    with pytest.raises(CorruptFileError, match=r"not the offsets of a stream.*new one"):
        StreamOffset.of_json(document)


def test_offsets_of_a_later_release() -> None:
    with pytest.raises(UnsupportedError, match="later release: expected version 1, found 2"):
        StreamOffset.of_json({"version": 2})


def test_history_with_markers_of_today_goes_by_the_time_of_its_records(home: Path) -> None:
    """A transaction that writes history ends with a marker of the time of the writing; by that no partition may be held back."""
    with open_store(home) as store:
        topic = store.create_topic("tide", 2, SMALL)
        for partition, first_ms, count in ((0, TIME - 10**9, 30), (1, TIME - 10**9 + 400_000, 10)):
            for number in range(count):
                old_ms = first_ms + number * 20_000
                topic.log(partition).append(sent(1, 2 * number, 2, timestamp_ms=old_ms, is_transactional=True))
                commit(topic.log(partition), 1)
        with stream(home, **EARLIEST, maxOffsetsPerTrigger="12") as reader:
            ends, start = [], reader.initialOffset()
            while (end := next_batch(reader, start)) != start:
                ends.append(offsets_in(end))
                start = end
        assert len(ends) == 10
        newest = -1
        logs = [list(topic.log(partition).read()) for partition in (0, 1)]
        begins = {0: 0, 1: 0}
        for end_of in ends:
            read = [record.timestamp_ms for at in (0, 1) for record in logs[at] if begins[at] <= record.offset < end_of[at]]
            assert min(read, default=newest) >= newest
            newest, begins = max([newest, *read]), end_of
