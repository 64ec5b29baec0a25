"""`df.write.format("tidelog")`: which columns become what, what is refused, and what is left when something fails."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import tidelog
from tests.spark.sink_support import assert_nothing_staged, keyed, records_of, values_of, writing
from tidelog.record.hashing import partitions_for_keys
from tidelog.store.sink_commit import LEAST_SEGMENT_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
HEADERS = "array<struct<key:string,value:binary>>"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("t", 4)
        store.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    return tmp_path / "data"


def told(act: Callable[[], object], kind: type[PySparkException] = PySparkException) -> str:
    """What the user is told, without what Spark says around it."""
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def test_rows_become_records_by_key(spark: "SparkSession", data: Path) -> None:
    writing(keyed(spark, 1000)).save(str(data))
    records = records_of(data)
    assert sorted(int(record.value or b"") for record in records) == list(range(1000))
    keys = [record.key or b"" for record in records]
    assert [record.partition for record in records] == partitions_for_keys(keys, 4).tolist()
    assert_nothing_staged(data)
    with tidelog.open(data) as store:  # in order, and nothing is open
        assert store.hanging_transactions() == []


def test_within_a_key_the_order_is_that_of_the_frame(spark: "SparkSession", data: Path) -> None:
    frame = spark.range(0, 3000, 1, 3).selectExpr("cast(id % 7 as string) as key", "cast(id as string) as value")
    writing(frame).save(str(data))
    by_key: dict[bytes | None, list[int]] = {}
    for record in records_of(data):
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert by_key == {str(key).encode(): list(range(key, 3000, 7)) for key in range(7)}


def test_every_column(spark: "SparkSession", data: Path) -> None:
    moment = datetime(2020, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
    rows = [
        ("t", 3, b"k", "text", [("h", b"1"), ("n", None)], moment),
        ("compacted", None, b"c", None, None, moment),
        ("t", None, None, "", [], None),
    ]
    schema = f"topic string, partition int, key binary, value string, headers {HEADERS}, timestamp timestamp, offset long"
    before_ms = int(datetime.now(UTC).timestamp() * 1000)
    frame = spark.createDataFrame([(*row, 7) for row in rows], schema).coalesce(1)
    writing(frame, topic=None).save(str(data))
    (first, other) = sorted(records_of(data), key=lambda record: record.key is None)
    assert (first.partition, first.key, first.value, first.headers) == (3, b"k", b"text", (("h", b"1"), ("n", None)))
    assert first.timestamp_ms == 1_577_881_815_123
    assert (other.key, other.value, other.headers) == (None, b"", ())
    assert other.timestamp_ms >= before_ms
    assert [(record.key, record.value) for record in records_of(data, "compacted")] == [(b"c", None)]


def test_rows_without_a_key_go_everywhere(spark: "SparkSession", data: Path) -> None:
    frame = spark.range(0, 4000, 1, 2).select(f.lpad(f.col("id").cast("string"), 500, "0").alias("value"))
    writing(frame, batchBytes="16k").save(str(data))
    found = [record.partition for record in records_of(data)]
    assert len(found) == 4000
    assert set(found) == {0, 1, 2, 3}


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed(spark: "SparkSession", data: Path, codec: str) -> None:
    with tidelog.open(data) as store:
        store.topic("t").alter({"compression.type": codec} if codec == "lz4" else {})
    writing(keyed(spark, 500), compression="zstd").save(str(data))
    assert values_of(data) == sorted(map(str, range(500)))
    with tidelog.open(data, "r") as store:
        batches = [batch for number in range(4) for batch in store.log("t", number).batches()]
        assert {str(batch.compression) for batch in batches if not batch.is_control} == {codec}


WRONG = [
    (["cast(id as int) as value"], {}, "column value has a type that cannot be written: expected binary or string, found int"),
    (["cast(id as string) as key"], {}, "no column value: expected a column value, binary or string, found key"),
    (["'x' as value", "id as key"], {}, "column key has a type"),
    (["'x' as value", "'now' as timestamp"], {}, "expected timestamp, found string"),
    (["'x' as value", "'1' as partition"], {}, "expected int, found string"),
    (["'x' as value", "array('a') as headers"], {}, "expected array<struct<key:string,value:binary>>"),
    (["'x' as value"], {"topic": None}, "which topic to write to is not said"),
    (["'x' as value"], {"topic": "tt"}, "no topic 'tt' (there are: compacted, t; createTopics=true makes it)"),
    (["'x' as value"], {"topic": "__tidelog_commits"}, "takes no records from outside"),
    (["'x' as value"], {"topci": "t"}, "unknown option topci (did you mean topic"),
    (["'x' as value"], {"partitions": 3}, "option partitions is for topics that are made (createTopics=true"),
    (["'x' as value"], {"createTopics": "true", "partitions": 10_000_000}, "option partitions: expected at most 1000000, found"),
    (["'x' as value"], {"lockTimeout": "soon"}, "option lockTimeout: expected a time span"),
    (["'x' as value"], {"queryId": "q"}, "option queryId is not for batches"),
    (["'x' as value"], {"batchId": 3}, "option batchId says which run of a job it is"),
    (["'x' as value"], {"commitReport": ""}, "option commitReport: expected a name"),
    (["'x' as value"], {"compression": "rar"}, "option compression: expected one of none, gzip"),
    (["'x' as value"], {"createTopics": "true", "topic": "new", "topicConfig": "{"}, "option topicConfig: expected JSON"),
    (["'x' as value"], {"createTopics": "true", "topic": "new", "topicConfig": '{"retention": 1}'}, "option topicConfig: unknown setting"),
    (["'x' as value"], {"createTopics": "true", "topic": "a/b"}, "a topic's name with a character"),
    (["'x' as value"], {"stagingDirectory": "/no/such/place"}, "staging needs a directory that can be written"),
]


@pytest.mark.parametrize(("columns", "options", "expected"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_is_told_on_the_driver_in_a_line(
    spark: "SparkSession", data: Path, columns: list[str], options: dict[str, object], expected: str
) -> None:
    text = told(lambda: writing(spark.range(3).selectExpr(*columns), **options).save(str(data)), AnalysisException)
    assert expected in text
    assert len([line for line in text.splitlines() if line.strip()]) <= 2, text
    assert values_of(data) == []
    assert_nothing_staged(data)


def test_nothing_is_overwritten(spark: "SparkSession", data: Path) -> None:
    writer = spark.range(3).selectExpr("'x' as value").write.format("tidelog").option("topic", "t").mode("overwrite")
    assert 'a log is not overwritten: expected mode("append")' in told(lambda: writer.save(str(data)), AnalysisException)


def test_a_directory_that_is_not_ours_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"")
    frame = spark.range(3).selectExpr("'x' as value")
    assert "not made by Tidelog" in told(lambda: writing(frame).save(str(tmp_path / "other")), AnalysisException)
    assert "no store is here" in told(lambda: writing(frame).save(str(tmp_path / "missing")), AnalysisException)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["other"]


def bad_rows(spark: "SparkSession") -> dict[str, "DataFrame"]:
    """Frames with good rows, and one that cannot be written."""
    good = "cast(id as string) as key", "'x' as value"
    return {
        "no topic 'missing'": spark.range(100).selectExpr(*good, "if(id = 77, 'missing', 't') as topic"),
        "no partition 9 of topic 't'": spark.range(100).selectExpr(*good, "'t' as topic", "if(id = 77, 9, 1) as partition"),
        "no partition 9000000000 of topic 't': expected one of": spark.range(100).selectExpr(
            *good, "'t' as topic", "if(id = 77, 9000000000, 1) as partition"
        ),
        "no partition -7 of topic 't'": spark.range(100).selectExpr(
            *good, "'t' as topic", "if(id < 50, null, if(id = 77, -7, 1)) as partition"
        ),
        "a row without a topic": spark.range(100).selectExpr(*good, "if(id = 77, null, 't') as topic"),
        "is compacted and takes no records without a key": spark.range(100).selectExpr(
            "if(id = 77, null, 'k') as key", "'x' as value", "if(id = 77, 'compacted', 't') as topic"
        ),
        "larger than max.message.bytes": spark.range(100).selectExpr(
            "'k' as key", "repeat('x', if(id = 77, 2000000, 1)) as value", "'t' as topic"
        ),
        "expected from 1970 on": spark.range(100).selectExpr(*good, "'t' as topic", "timestamp_seconds(id - 50) as timestamp"),
    }


def test_a_bad_row_leaves_nothing_to_be_seen(spark: "SparkSession", data: Path) -> None:
    for expected, frame in bad_rows(spark).items():
        text = told(lambda frame=frame: writing(frame, topic=None).save(str(data)))  # type: ignore[misc]
        assert expected in text
    assert values_of(data) == values_of(data, "compacted") == []
    assert_nothing_staged(data)


def test_topics_and_the_store_are_made_on_request(spark: "SparkSession", tmp_path: Path) -> None:
    config = '{"cleanup.policy": "compact", "segment.bytes": 1048576}'
    frame = keyed(spark, 100).withColumn("topic", f.when(f.col("key") < 5, "one").otherwise("two"))
    writing(frame, topic=None, createTopics="true", partitions=3, topicConfig=config).save(str(tmp_path / "new"))
    with tidelog.open(tmp_path / "new") as store:
        for name in ("one", "two"):
            described = store.topic(name).describe()
            assert described.partitions == 3
            assert {setting.name: setting.value for setting in described.settings}["cleanup.policy"] == "compact"
    assert len(records_of(tmp_path / "new", "one")) + len(records_of(tmp_path / "new", "two")) == 100


def test_a_job_with_an_id_is_done_once(spark: "SparkSession", data: Path) -> None:
    for count in (10, 20):
        writing(keyed(spark, count), transactionalId="nightly").save(str(data))
    assert len(values_of(data)) == 10
    writing(keyed(spark, 5), transactionalId="nightly", batchId=1).save(str(data))
    writing(keyed(spark, 5), transactionalId="nightly", batchId=1).save(str(data))
    writing(keyed(spark, 5), transactionalId="another").save(str(data))
    assert len(values_of(data)) == 20
    assert_nothing_staged(data)


def test_an_owner_that_does_not_let_go_is_named_before_anything_runs(spark: "SparkSession", data: Path) -> None:
    with tidelog.open(data) as store:
        text = told(lambda: writing(keyed(spark, 10), lockTimeout="200ms").save(str(data)), AnalysisException)
        assert "locked by process" in text
        assert "a broker or another program has it open" in text
        assert list(store.topic("t").read()) == []
    writing(keyed(spark, 10), lockTimeout="200ms").save(str(data))
    assert len(values_of(data)) == 10


def test_an_empty_frame_writes_nothing(spark: "SparkSession", data: Path) -> None:
    before = (data / "tidelog.json").read_bytes()
    writing(keyed(spark, 0), transactionalId="empty").save(str(data))
    assert (data / "tidelog.json").read_bytes() == before
    assert_nothing_staged(data)
    writing(keyed(spark, 3), transactionalId="empty").save(str(data))
    assert len(values_of(data)) == 3


@pytest.mark.slow
def test_a_view_is_inserted_into(spark: "SparkSession", data: Path) -> None:
    spark.sql(f"create or replace temporary view sunk using tidelog options (path '{data}', topic 't', subscribe 't')")
    spark.sql("insert into sunk (select binary('k'), binary('v'), 't', 2, 0L, timestamp_seconds(1600000000), 0)")
    assert [(record.partition, record.key, record.value, record.timestamp_ms) for record in records_of(data)] == [
        (2, b"k", b"v", 1_600_000_000_000)
    ]
    assert spark.sql("select count(*) from sunk").first()[0] == 1  # type: ignore[index]


def test_what_large_tasks_stage_becomes_segments(spark: "SparkSession", data: Path) -> None:
    """Files of their own for each partition, which nobody copies: a segment for each task, and none of them small."""
    rows = 640_000
    frame = spark.range(0, rows, 1, 2).selectExpr("cast(id as string) as key", "lpad(cast(id as string), 240, '.') as value")
    writing(frame).save(str(data))
    assert_nothing_staged(data)
    for number in range(4):
        sizes = [path.stat().st_size for path in sorted((data / f"t-{number}").glob("*.log"))]
        assert len(sizes) == 2
        assert all(size >= LEAST_SEGMENT_BYTES for size in sizes)
    with tidelog.open(data, "r") as store:
        topic = store.topic("t")
        for number in range(4):
            found = [int(key) for batch in topic.arrow(partition=number, columns=["key"]) for key in batch.column("key").to_pylist()]
            assert found == sorted(found), "each task's rows in their order, task behind task"
        assert sum(batch.num_rows for batch in topic.arrow(columns=["offset"])) == rows
