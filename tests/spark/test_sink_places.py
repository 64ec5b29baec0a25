"""Where a write lies while it is under way: directories as the driver has them, staging that is nobody else's, and what is told once."""

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

import tidelog
from tests.spark.sink_support import assert_nothing_staged, records_of, values_of
from tidelog.disk.disk import OS
from tidelog.disk.process_identity import ProcessIdentity
from tidelog.errors import InvalidRecordTypeError, StagingError
from tidelog.spark import sink_writers, write_options
from tidelog.spark.sink_writers import TidelogStreamWriter, TidelogWriter
from tidelog.spark.source import TidelogDataSource
from tidelog.spark.write_options import WriteOptions
from tidelog.store.staging import Staging, find_staging

SCHEMA = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
    return tmp_path / "data"


def options(path: Path | str, *, is_stream: bool = False, **more: str) -> WriteOptions:
    return WriteOptions.of({"path": str(path), "topic": "t", "lockTimeout": "100ms", **more}, is_stream)


def a_stream(path: Path | str, **more: str) -> TidelogStreamWriter:
    return TidelogStreamWriter(options(path, is_stream=True, **more), SCHEMA)


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"key": list(values), "value": pa.array([value.encode() for value in values], pa.binary())})])


def sent(writer: Any) -> Any:
    """The writer as it arrives elsewhere."""
    return pickle.loads(pickle.dumps(writer))


def test_a_path_means_what_it_means_on_the_driver(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors have another working directory, and may have another store by that name in it."""
    (tmp_path / "executor").mkdir()
    with tidelog.open(tmp_path / "executor" / "data") as store:
        store.create_topic("t", 1)
    for path in ("data", "file:data", '["data"]'):
        monkeypatch.chdir(tmp_path)
        writer = TidelogWriter(options(path), SCHEMA)
        there = sent(writer)
        monkeypatch.chdir(tmp_path / "executor")
        message = sent(there.write(rows("a", "b", "c", "d")))
        assert {topic.partitions for file in message.files for topic in file.topics} == {2}
        monkeypatch.chdir(tmp_path)
        writer.commit([message])
    assert len(values_of(data)) == 12
    assert values_of(tmp_path / "executor" / "data") == []


def test_who_does_not_share_the_directory_is_told_that_and_not_that_topics_are_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = sent(TidelogWriter(options(data), SCHEMA))
    monkeypatch.setattr(sink_writers, "COMMIT_MODULE", "none")
    data.rename(tmp_path / "elsewhere")
    Path(writer._staging.path).rename(tmp_path / ".elsewhere")
    for batches in (rows("a"), rows(), iter(())):
        with pytest.raises(StagingError, match="this executor does not share the directory"):
            writer.write(batches)


# Streams that do not get in each other's way


def test_another_driver_with_a_checkpoint_of_the_same_name_is_left_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = sent(a_stream(data, checkpointLocation="checkpoint", queryId="one"))
    message = one.write(rows("a"))
    with monkeypatch.context() as patched:
        patched.setattr(sink_writers, "_owner", lambda: ProcessIdentity.of(1))
        other = sent(a_stream(data, checkpointLocation="checkpoint", queryId="other"))
        a_stream(data, checkpointLocation="checkpoint", queryId="other").abort([None], 0)
        assert find_staging(OS, str(data)) == [one._staging.path], "its own is gone, without a message"
        assert not Path(other._staging.path).exists()
    a_stream(data, checkpointLocation="checkpoint", queryId="one").commit([message], 0)
    assert values_of(data) == ["a"]
    assert_nothing_staged(data)


def test_a_stream_whose_checkpoint_is_a_setting_of_the_session_is_known_by_its_name(data: Path) -> None:
    """Where all tasks have failed, nothing else says what is to be removed."""
    begun = sent(a_stream(data, queryName="mine"))
    other = sent(a_stream(data, queryName="other"))
    a_stream(data, queryName="mine").abort([None, None], 0)
    assert find_staging(OS, str(data)) == [other._staging.path]
    assert not Path(begun._staging.path).exists()
    assert options(data, is_stream=True).label is None
    assert options(data, queryName="mine").label is None, "of a batch it is nobody else's"


# What is told


def test_what_is_wrong_with_staging_is_told_before_the_writer_is_pickled(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark says of an error in a pickle how it pickles, in forty lines."""

    def fail(*_: object, **__: object) -> None:
        raise StagingError("no room for a staging directory", path=str(data))

    monkeypatch.setattr(Staging, "make", fail)
    source = TidelogDataSource({"path": str(data), "topic": "t"})
    for make in (source.writer, source.streamWriter):
        with pytest.raises(StagingError, match="no room for a staging directory") as caught:
            make(SCHEMA, False)
        assert caught.value.__cause__ is None
        assert len(caught.traceback) <= 3


def test_a_source_makes_staging_once_and_not_to_commit(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = TidelogDataSource({"path": str(data), "topic": "t"})
    writer = source.streamWriter(SCHEMA, False)
    assert len(find_staging(OS, str(data))) == 1
    sent(writer)
    assert len(find_staging(OS, str(data))) == 1
    monkeypatch.setattr(sink_writers, "COMMIT_MODULE", "sys")  # as where Spark commits
    source.streamWriter(SCHEMA, False)
    assert len(find_staging(OS, str(data))) == 1


def test_options_of_kafka_are_told_once_and_not_by_who_commits(
    data: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_options, "_told", set())
    given = {"kafka.acks": "all", "kafka.bootstrap.servers": "host:1"}
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        monkeypatch.setattr(sink_writers, "COMMIT_MODULE", "sys")  # as where Spark commits
        a_stream(data, **given)
        assert not caplog.records
        monkeypatch.setattr(sink_writers, "COMMIT_MODULE", "none")
        for _ in range(3):
            a_stream(data, **given)
    assert [record.getMessage() for record in caplog.records] == [
        "tidelog: these options mean nothing here and are ignored: kafka.acks, kafka.bootstrap.servers"
    ]


def test_a_batch_that_is_skipped_is_a_warning(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        message = sent(a_stream(data, queryId="q")).write(rows("a"))
        with caplog.at_level(logging.WARNING, "tidelog.spark"):
            a_stream(data, queryId="q").commit([message], 3)
    assert [record.getMessage() for record in caplog.records] == ["tidelog: batch 3 of query q was there already: skipped"]
    assert values_of(data) == ["a"]


def test_a_record_without_a_timestamp_can_be_written_back(data: Path) -> None:
    """It is read as a millisecond before 1970, which is no time that a record can have."""
    schema = StructType([*SCHEMA.fields, StructField("timestamp", TimestampType())])
    writer = sent(TidelogWriter(options(data), schema))
    micros = pa.array([-1000, 1_600_000_000_000_000, None], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"key": ["a", "b", "c"], "value": pa.array([b"a", b"b", b"c"], pa.binary()), "timestamp": micros})
    writer.commit([writer.write(iter([batch]))])
    found = {record.key: record.timestamp_ms for record in records_of(data)}
    assert found[b"b"] == 1_600_000_000_000
    assert found[b"a"] == found[b"c"] > 1_700_000_000_000
    for wrong in (-1, -999, -1001, -2000):
        micros = pa.array([wrong], pa.timestamp("us", "UTC"))
        batch = pa.record_batch({"key": ["a"], "value": pa.array([b"a"], pa.binary()), "timestamp": micros})
        writer = sent(TidelogWriter(options(data), schema))
        with pytest.raises(InvalidRecordTypeError, match=f"found {wrong} microseconds"):
            writer.write(iter([batch]))
        writer.abort([])
