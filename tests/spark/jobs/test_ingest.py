"""`jobs.ingest`: files and DataFrames become the records that a producer would have written, once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, LockedError, TidelogError, UnknownTopicError
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.record.kernel.record import Record
from tidelog.spark import jobs
from tidelog.spark.jobs import ingest_job
from tidelog.spark.jobs.ingest_job import WHOLE_ROW
from tidelog.spark.jobs.ingest_outcome import ends_of
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def records(directory: Path, topic: str) -> list[Record]:
    with ReadOnlyStore.open(directory) as store:
        return list(store.topic(topic).read())


def test_files_of_rows(spark: "SparkSession", tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "mail.csv").write_text("id,name,at\n1,bill,1700000000000\n2,,1700000001000\n")
    done = jobs.ingest(spark, tmp_path / "mail.csv", store, "mail", key="id", timestamp="cast(at as bigint)", partitions=3)
    assert (done.records, done.was_there_already) == (2, False)
    found = {record.key: record for record in records(store, "mail")}
    assert {key: json.loads(record.value or b"") for key, record in found.items()} == {
        b"1": {"id": "1", "name": "bill", "at": "1700000000000"},
        b"2": {"id": "2", "at": "1700000001000"},
    }
    assert found[b"2"].timestamp_ms == TIME + 1000
    for key, record in found.items():
        assert record.partition == partition_for_key(key or b"", 3)
    assert sum(one.end_offset - one.start_offset for one in done.ranges) >= 2
    assert done.details.count() == len(done.ranges)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    jobs.ingest(spark, [tmp_path / "lines.txt"], store, "lines")
    assert [(record.key, record.value) for record in records(store, "lines")] == [(None, b"one"), (None, b"two")]
    planned = jobs.ingest(spark, tmp_path / "mail.csv", store, "other", key="id", value="name", dry_run=True)
    assert "key string, value string" in str(planned)
    with ReadOnlyStore.open(store) as opened:
        assert [topic.name for topic in opened.topics(internal=False)] == ["lines", "mail"]


def test_a_run_that_is_made_again_appends_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(number, "left" if number % 2 else "right", [number]) for number in range(20)], "n int, side string, all array<int>"
    )
    for is_first in (True, False):
        done = jobs.ingest(
            spark,
            frame,
            tmp_path,
            topic_column="side",
            key="n",
            value="all",
            partitions=2,
            transactional_id="load",
            config={"cleanup.policy": "compact"},
        )
        assert (done.records, done.was_there_already) == (20, not is_first)
        assert {one.partition.topic for one in done.ranges} == ({"left", "right"} if is_first else set())
    for topic in ("left", "right"):
        own = records(tmp_path, topic)
        assert sorted(int(record.key or b"") for record in own) == [number for number in range(20) if (topic == "left") == bool(number % 2)]
        assert {record.value for record in own} == {b"[%d]" % int(record.key or b"") for record in own}
    with Store.open(tmp_path, background=False) as store:
        assert store.log("left", 0).config.is_compacted
    again = jobs.ingest(
        spark, frame, tmp_path, topic_column="side", key="n", value=WHOLE_ROW, transactional_id="load", batch_id=1, create=False
    )
    assert len(again.ranges) > 0
    assert json.loads(records(tmp_path, "left")[-1].value or b"")["side"] == "left"


def test_a_repetition_is_known_whoever_writes_meanwhile(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ledger, and not by what has grown."""
    frame = spark.createDataFrame([(b"k", b"v")], "key binary, value binary")
    assert not jobs.ingest(spark, frame, tmp_path, "tide", transactional_id="load").was_there_already

    def busy(directory: str) -> dict[TopicPartition, int]:
        found = ends_of(directory)
        with Store.open(directory, background=False) as store:
            store.topic("tide").append(b"of somebody else")
        return found

    monkeypatch.setattr(ingest_job, "ends_of", busy)
    again = jobs.ingest(spark, frame, tmp_path, "tide", transactional_id="load")
    assert (again.records, again.ranges, again.was_there_already) == (1, (), True)
    with pytest.raises(TidelogError, match="it may have been committed: look before you run it again"):
        jobs.ingest(spark, frame.selectExpr("raise_error('broken') as value"), tmp_path, "tide")


def test_what_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.createDataFrame([(b"k", b"v")], "key binary, value binary")
    with pytest.raises(InvalidConfigError, match="a topic, or a topic_column"):
        jobs.ingest(spark, frame, tmp_path / "store")
    with pytest.raises(InvalidConfigError, match="one of parquet"):
        jobs.ingest(spark, tmp_path / "no-suffix", tmp_path / "store", "tide")
    with pytest.raises(TidelogError, match="columns of the source"):
        jobs.ingest(spark, frame, tmp_path / "store", "tide", key="nobody")
    with Store.open(tmp_path / "store", background=False) as store:
        store.create_topic("tide")
        with pytest.raises(UnknownTopicError, match="no topic 'tidal'"):
            jobs.ingest(spark, frame, tmp_path / "store", "tidal", create=False)
        with pytest.raises(LockedError):
            jobs.ingest(spark, frame, tmp_path / "store", "tide", lock_timeout_s=0)
    assert records(tmp_path / "store", "tide") == []
    assert jobs.ingest(spark, frame, tmp_path / "store", "tide").records == 1
