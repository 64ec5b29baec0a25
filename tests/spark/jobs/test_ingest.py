"""`jobs.ingest`: files and DataFrames become the records that a producer would have written, once."""

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, InvalidRecordTypeError, JobFailedError, LockedError, TidelogError, UnknownTopicError
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.record.kernel.record import Record
from tidelog.spark import jobs
from tidelog.spark.commit_report import read_report
from tidelog.spark.jobs import ingest_job
from tidelog.spark.jobs.ingest_job import WHOLE_ROW
from tidelog.spark.jobs.ingest_outcome import AppendedRange
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
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


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_what_others_append_meanwhile_is_not_its_own(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the commit, in a task, and behind it: neither is in the ranges, nor is a repetition taken for something new."""
    store, rows = str(tmp_path / "store"), spark.createDataFrame([(b"k", b"v")], "key binary, value binary")

    def append_here(directory: str) -> None:
        with Store.open(directory, background=False, lock_timeout_s=30) as opened:
            opened.topic("tide").append(b"of somebody else")

    def append_meanwhile(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":  # in here, so that it goes by value
        from tidelog.store.store import Store

        for batch in batches:
            with Store.open(store, background=False, lock_timeout_s=30) as opened:
                opened.topic("tide").append(b"of somebody else")
            yield batch

    def read_late(*where: Any) -> Any:
        append_here(store)
        return read_report(*where)

    with Store.open(store, background=False) as opened:
        opened.create_topic("tide")
    monkeypatch.setattr(ingest_job, "read_report", read_late)
    slow = rows.mapInArrow(append_meanwhile, rows.schema)
    for is_first in (True, False):
        done = jobs.ingest(spark, slow, store, "tide", transactional_id="load")
        own = (AppendedRange(TopicPartition("tide", 0), 1, 3),) if is_first else ()  # the record, and the end of the transaction
        assert (done.records, done.ranges, done.was_there_already) == (1, own, not is_first)
    found = records(tmp_path / "store", "tide")
    assert [record.offset for record in found if record.value == b"v"] == [1]
    assert len(found) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_run_that_fails_may_have_committed(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame([(b"k", b"v")], "key binary, value binary")
    with pytest.raises(TidelogError, match="it may have been committed: look before you run it again"):
        jobs.ingest(spark, frame.selectExpr("raise_error('broken') as value"), tmp_path / "store", "tide")
    monkeypatch.setattr(ingest_job, "read_report", lambda *_: None)
    with pytest.raises(JobFailedError, match="went through, but what it did could not be written down"):
        jobs.ingest(spark, frame, tmp_path / "store", "tide")
    assert len(records(tmp_path / "store", "tide")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_the_directory_is_said_as_the_sink_takes_it(spark: "SparkSession", tmp_path: Path) -> None:
    """As a URI, and several of one store."""
    frame = spark.createDataFrame([(b"k", b"v")], "key binary, value binary")
    paths = [tmp_path / "one", tmp_path / "two"]
    with Store.open(paths, background=False) as store:
        store.create_topic("tide")
    done = jobs.ingest(spark, frame, ",".join(map(str, paths)), "tide")
    assert done.ranges == (AppendedRange(TopicPartition("tide", 0), 0, 2),)
    assert jobs.ingest(spark, frame, (tmp_path / "new").as_uri(), "tide").records == 1
    assert len(records(tmp_path / "new", "tide")) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "one", "two"]


BAD_FILES = {
    "json": (['{"v": 1}\n{bad\n'], "double-quote"),
    "csv": (["a,b\n1,2\n3\n"], "Malformed CSV record: 3"),
    "csv, a column too many": (["a,b\n1,2\n3,4,5\n"], "Malformed CSV record: 3,4,5"),
    "csv, other columns": (["a,b\n1,2\n", "b,a\n3,4\n"], "header does not conform"),
    "json, no object": (['{"v": 1}\n5\n'], "Expected a STRUCT"),
    "parquet": (["no Parquet"], "is not a Parquet file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_are_read_whole_or_refused(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    form, (texts, said) = case.partition(",")[0], BAD_FILES[case]
    files = [tmp_path / f"no {number}.{form}" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    value = "a" if form == "csv" else WHOLE_ROW
    with pytest.raises(InvalidRecordTypeError, match=said) as failure:
        jobs.ingest(spark, files, tmp_path / "store", "tide", value=value)
    assert "nothing was appended" in (failure.value.hint or "")
    if form == "csv":
        assert failure.value.path == str(files[-1])
    with Store.open(tmp_path / "store", background=False) as store:
        assert "tide" not in [topic.name for topic in store.topics()]
    if form != "parquet" and "other" not in case:
        assert jobs.ingest(spark, files, tmp_path / "store", "tide", options={"Mode": "DROPMALFORMED"}).records == 1


def test_times_keep_their_microseconds(spark: "SparkSession", tmp_path: Path) -> None:
    chosen = "timestamp '2026-11-19 12:00:00.123456Z' a, timestamp_ntz '2026-11-19 12:00:00.000001' b"
    for value in (WHOLE_ROW, "struct(*)"):
        jobs.ingest(spark, spark.sql(f"select {chosen}"), tmp_path / "store", "tide", value=value)
    for record in records(tmp_path / "store", "tide"):
        row = json.loads(record.value or b"")
        assert datetime.fromisoformat(row["a"]) == datetime(2026, 11, 19, 12, 0, 0, 123456, UTC)
        assert row["b"] == "2026-11-19T12:00:00.000001"


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_no_file_loses_a_column_to_another(spark: "SparkSession", tmp_path: Path, form: str) -> None:
    spark.range(1).selectExpr("id a").write.format(form).save(str(tmp_path / "1"))
    spark.range(1).selectExpr("id + 1 a", "id b").write.format(form).save(str(tmp_path / "2"))
    jobs.ingest(spark, [tmp_path / "1", tmp_path / "2"], tmp_path / "store", "tide", format=form)
    found = [json.loads(record.value or b"") for record in records(tmp_path / "store", "tide")]
    assert sorted(found, key=len) == [{"a": 0}, {"a": 1, "b": 0}]


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


def test_rows_are_not_worked_out_to_count_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark runs what comes before a shuffle to say how many partitions there are behind it: a dry run would, and any other twice."""
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    rows = spark.range(100).groupBy((F.col("id") % 7).cast("string").alias("key")).agg(F.sum("id").alias("value"))
    tracker = spark.sparkContext.statusTracker()
    before = [(name, spark.sparkContext.getLocalProperty(name)) for name in ("spark.jobGroup.id", "spark.job.description")]
    spark.sparkContext.setJobGroup("a dry run", "a dry run")
    try:
        planned = jobs.ingest(spark, rows, tmp_path, "tide", dry_run=True)
    finally:
        for name, value in before:
            spark.sparkContext.setLocalProperty(name, value)  # type: ignore[arg-type]
    assert tracker.getJobIdsForGroup("a dry run") == []
    assert planned.stages == (("write", -1),)
    assert jobs.ingest(spark, rows, tmp_path, "tide").records == 7
    assert jobs.ingest(spark, rows.coalesce(1).limit(0), tmp_path, "tide").records == 0
    assert jobs.ingest(spark, spark.range(9, numPartitions=3).selectExpr("id value"), tmp_path, "tide", dry_run=True).stages[0][1] == 3


def test_in_another_thread_than_the_sessions(spark: "SparkSession", tmp_path: Path) -> None:
    """Where no session is active Spark finds no data source in Python."""
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(jobs.ingest, spark, frame, tmp_path, "tide").result().records == 1


def test_what_spark_refuses_is_an_error_of_ours(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    for column in ("timestamp", "partition", "key"):
        expression = "value +" if column == "key" else "array(1)"
        with pytest.raises(JobFailedError, match=r"columns of the source: \[(DATATYPE_MISMATCH|PARSE_SYNTAX_ERROR)"):
            jobs.ingest(spark, frame, tmp_path, "tide", **{column: expression})  # type: ignore[arg-type]
    stream = spark.readStream.schema("value string").text(str(tmp_path))
    with pytest.raises(InvalidConfigError, match="expected rows that are there, found a stream"):
        jobs.ingest(spark, stream, tmp_path, "tide")
    with pytest.raises(InvalidConfigError, match="transactionalId names the job"):
        jobs.ingest(spark, frame, tmp_path, "tide", batch_id=5)
    assert jobs.ingest(spark, frame, tmp_path, "tide", lock_timeout_s=math.inf).records == 1
