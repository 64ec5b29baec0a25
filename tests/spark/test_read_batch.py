"""Batch reads by Spark itself: its Kafka source's schema, every way to ask, filters pushed down or not, and errors in one line."""

import logging
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

import tidelog
from tests.support.golden import GOLDEN
from tests.support.spark_reads import as_row, engine_rows
from tests.support.transactions import fill, write_out
from tidelog.record import NewBatch
from tidelog.spark.source import PUSHING_MODULE, TidelogDataSource

TIME = 1_700_000_000_000
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
BROKER = GOLDEN / "broker" / "data"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions of records whose times go back and forth, and a topic without any."""
    path = tmp_path_factory.mktemp("read") / "store"
    chance = random.Random(3)
    with tidelog.open(path) as store:
        topic = store.create_topic("emails", partitions=3, config={"internal.segment.bytes": 3000, "index.interval.bytes": 200})
        store.create_topic("empty", partitions=2)
        for number in range(60):
            rows: list[Any] = []
            for row in range(5):
                headers = [("n", b"%d" % row), ("none", None)][: row % 3]
                rows.append((b"k%d" % chance.randrange(9), b"v%d" % number, headers, TIME + chance.randrange(3000)))
            topic.log(number % 3).append(NewBatch(rows).encode())
    return path


def load(spark: SparkSession, path: Path, topic: str = "emails", **options: object) -> DataFrame:
    reader = spark.read.format("tidelog").option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


@contextmanager
def pushing(spark: SparkSession, is_on: bool) -> Iterator[None]:
    before = spark.conf.get(PUSH_DOWN) or "true"
    spark.conf.set(PUSH_DOWN, str(is_on).lower())
    try:
        yield
    finally:
        spark.conf.set(PUSH_DOWN, before)


def in_ms(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows by partition and offset, with times in milliseconds."""
    rows = frame.withColumn("timestamp", f.unix_millis("timestamp")).collect()
    found = sorted((row.asDict(recursive=True) for row in rows), key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return [{**row, "key": _bytes(row["key"]), "value": _bytes(row["value"])} for row in found]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def test_the_schema_is_that_of_sparks_kafka_source(spark: SparkSession, path: Path) -> None:
    assert load(spark, path).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = load(spark, path, includeHeaders=True).schema
    assert with_headers["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in with_headers.fields)


def test_every_record_comes_as_the_engine_reads_it(spark: SparkSession, path: Path) -> None:
    found = in_ms(load(spark, path, includeHeaders=True, bytesPerPartition=4000))
    expected = engine_rows(path, "emails-0", "emails-1", "emails-2")
    assert len(found) == 300
    assert [{**row, "headers": _plain(row["headers"])} for row in found] == expected


def _plain(headers: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": header["key"], "value": _bytes(header["value"])} for header in headers]


def test_a_brokers_directory(spark: SparkSession) -> None:
    frame = (
        spark.read.format("tidelog").option("subscribePattern", "emails|profiles|plain").option("includeHeaders", "true").load(str(BROKER))
    )
    names = ("emails-0", "emails-1", "emails-2", "plain-0", "profiles-0", "profiles-1")
    assert [{**row, "headers": _plain(row["headers"])} for row in in_ms(frame)] == engine_rows(BROKER, *names)


def test_columns_make_the_schema_smaller(spark: SparkSession, path: Path) -> None:
    frame = load(spark, path, columns="offset,key")
    assert frame.columns == ["offset", "key"]
    assert frame.count() == 300
    own = spark.read.schema("partition int, offset bigint").format("tidelog").option("subscribe", "emails").load(str(path))
    assert {(row.partition, row.offset) for row in own.collect()} == {(part, offset) for part in range(3) for offset in range(100)}


def test_nothing_to_read(spark: SparkSession, path: Path) -> None:
    assert load(spark, path, "empty").collect() == []
    assert load(spark, path, startingOffsets='{"emails": {"0": 100, "1": 100, "2": 100}}').count() == 0
    assert spark.read.format("tidelog").option("subscribePattern", "nobody").load(str(path)).count() == 0


def test_offsets_and_times(spark: SparkSession, path: Path) -> None:
    frame = load(
        spark, path, startingOffsets='{"emails": {"0": 90, "1": -2, "2": 95}}', endingOffsets='{"emails": {"0": 95, "1": 3, "2": -1}}'
    )
    assert frame.groupBy("partition").agg(f.min("offset"), f.max("offset")).orderBy("partition").collect() == [
        (0, 90, 94),
        (1, 0, 2),
        (2, 95, 99),
    ]
    expected = []
    with tidelog.open(path, mode="r") as store:
        for number in range(3):
            log = store.log("emails", number)
            first, last = log.offset_for_time(TIME + 1000), log.offset_for_time(TIME + 2990)
            assert first is not None
            expected.append((number, first.offset, (last.offset if last is not None else 100) - 1))
    frame = load(spark, path, startingTimestamp=TIME + 1000, endingTimestamp=TIME + 2990)
    assert frame.groupBy("partition").agg(f.min("offset"), f.max("offset")).orderBy("partition").collect() == [
        row for row in expected if row[1] <= row[2]
    ]


CONDITIONS = (
    "timestamp >= timestamp'2023-11-14 22:13:21.500'",
    "timestamp > timestamp'2023-11-14 22:13:20.100' and timestamp <= timestamp'2023-11-14 22:13:20.900'",
    "timestamp < timestamp'2023-11-14 22:13:20.5'",
    "to_date(timestamp) = date'2023-11-14' and offset between 20 and 30",
    "key = X'6b33' or offset = 4",
    "key in (X'6b31', X'6b32') and partition = 1",
    "partition in (0, 2) and offset >= 97 and topic = 'emails'",
    "topic like 'em%' and offset < 3 and not (partition = 1)",
    "topic = 'other'",
)


def test_filters_pushed_down_or_not_find_the_same(spark: SparkSession, path: Path) -> None:
    def found(frames: Callable[[], DataFrame]) -> Counter[tuple[int, int, int]]:
        parts = [frames().where(condition).select(f.lit(number), "partition", "offset") for number, condition in enumerate(CONDITIONS)]
        return Counter(tuple(row) for row in reduce(DataFrame.unionAll, parts).collect())

    plain, same = load(spark, path).localCheckpoint(), load(spark, path, minPartitions=2)
    expected = found(lambda: plain)  # filtered by Spark alone
    assert {number for number, _, _ in expected} == {*range(len(CONDITIONS))} - {CONDITIONS.index("topic = 'other'")}
    with pushing(spark, True):
        assert found(lambda: load(spark, path, pushFilters=True)) == expected
        assert found(lambda: same) == expected  # one DataFrame, many filters
    with pushing(spark, False):
        assert found(lambda: load(spark, path, pushFilters=True)) == expected


def test_spark_still_mixes_up_the_plans_of_one_dataframe(spark: SparkSession, path: Path) -> None:
    """Why filters are pushed only on request: what one has left of the plan is taken for the next query, which has none.

    When this fails, Spark keeps them apart, and the option `pushFilters` can be on by default.
    """
    with pushing(spark, True):
        frame = load(spark, path, pushFilters=True, columns="partition")
        assert frame.where("partition = 2").count() == 100
        assert frame.count() == 100  # 300 would be right
        frame = load(spark, path, columns="partition")
        assert frame.where("partition = 2").count() == 100
        assert frame.count() == 300


def test_pushed_filters_reach_the_plan(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """A partition that is damaged is not looked at where a filter leaves it out; that it is noticed otherwise shows that it would be."""
    shutil.copytree(path, tmp_path / "store")
    damaged = min((tmp_path / "store" / "emails-1").glob("*.log"))
    content = bytearray(damaged.read_bytes())
    content[100] ^= 0xFF
    damaged.write_bytes(content)
    with pushing(spark, True):
        assert load(spark, tmp_path / "store", pushFilters=True).where("partition = 2").count() == 100
    with pushing(spark, False), pytest.raises(PySparkException, match="the CRC of a batch does not match"):
        load(spark, tmp_path / "store", pushFilters=True).where("partition = 2").count()


def test_the_process_that_plans_with_filters_is_still_known_by_its_module() -> None:
    assert find_spec(PUSHING_MODULE) is not None


def test_keys(spark: SparkSession, path: Path) -> None:
    frame = load(spark, path, keys='["k1", {"base64": "azI="}]', columns="offset,partition")
    with tidelog.open(path, mode="r") as store:
        expected = {(record.partition, record.offset) for record in store.topic("emails").read() if record.key in (b"k1", b"k2")}
    assert {(row.partition, row.offset) for row in frame.collect()} == expected
    assert expected


def test_in_sql(spark: SparkSession, path: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW mails USING tidelog OPTIONS (path '{path}', subscribe 'emails', columns 'partition,offset')"
    )
    assert spark.sql("SELECT partition, count(*), max(offset) FROM mails GROUP BY 1 ORDER BY 1").collect() == [
        (number, 100, 99) for number in range(3)
    ]


def test_a_dataframe_is_planned_once(spark: SparkSession, tmp_path: Path) -> None:
    """What comes later is in the next one: two queries of one DataFrame see the same."""
    with tidelog.open(tmp_path / "store") as store:
        store.create_topic("orders").append_many([(None, b"v")] * 5)
    frame = load(spark, tmp_path / "store", "orders")
    assert frame.count() == 5
    with tidelog.open(tmp_path / "store") as store:
        store.topic("orders").append_many([(None, b"v")] * 5)
    assert (frame.count(), load(spark, tmp_path / "store", "orders").count()) == (5, 10)


def test_joined_with_itself(spark: SparkSession, path: Path) -> None:
    frame = load(spark, path, columns="partition,offset")
    assert frame.alias("a").join(frame.alias("b"), ["partition", "offset"]).count() == 300


def test_transactions(spark: SparkSession, tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store") as store:
        store.create_topic("orders", partitions=2)
        for number in range(3):
            with store.transaction("id") as tx:
                fill(tx, [("orders", 0), ("orders", 1)], b"committed-%d" % number)
            with suppress(KeyError), store.transaction("id") as tx:
                fill(tx, [("orders", 0), ("orders", 1)], b"aborted-%d" % number)
                write_out(tx)
                raise KeyError
    values = sorted(bytes(row.value) for row in load(spark, tmp_path / "store", "orders", maxRecordsPerPartition=2).collect())
    assert values == [b"committed-%d" % number for number in (0, 0, 1, 1, 2, 2)]
    uncommitted = load(spark, tmp_path / "store", "orders", **{"kafka.isolation.level": "read_uncommitted"})
    found = sorted(bytes(row.value) for row in uncommitted.collect())
    assert found == [b"aborted-%d" % number for number in (0, 0, 1, 1, 2, 2)] + values


def one_line(error: PySparkException) -> str:
    """What is said, without what Spark prints in front of and behind it."""
    return next(line for line in str(error).splitlines() if "tidelog.errors." in line).partition("tidelog.errors.")[2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOfsets": "earliest"}, "InvalidConfigError: unknown option startingofsets (did you mean startingOffsets"),
        ({"minPartitions": "none"}, "InvalidConfigError: option minPartitions: expected a whole number of 1 or more, found 'none'"),
        ({"columns": "offset,colour"}, "InvalidConfigError: option columns: expected some of key, value"),
    ],
)
def test_a_wrong_option_is_told_at_once_in_one_line(spark: SparkSession, path: Path, options: dict[str, str], expected: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, path, **options)
    assert one_line(caught.value).startswith(expected)
    with pytest.raises(AnalysisException) as caught:
        spark.read.schema("offset bigint").format("tidelog").options(subscribe="emails", **options).load(str(path)).count()
    assert one_line(caught.value).startswith(expected)


def test_what_only_a_query_can_notice(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    for frame, expected in (
        (load(spark, path, "mails"), "UnknownTopicError: "),
        (load(spark, tmp_path / "none"), "LogNotFoundError: "),
        (load(spark, path, startingOffsets="latest"), "InvalidConfigError: option startingOffsets: expected earliest or offsets"),
        (load(spark, path, startingOffsets='{"emails": {"0": 1}}'), "InvalidConfigError: option startingOffsets: expected every partition"),
        (
            load(spark, path, startingTimestamp=TIME + 10**9),
            "InvalidConfigError: option startingTimestamp: no record of emails-0 is at or after",
        ),
    ):
        with pytest.raises(AnalysisException) as caught:
            frame.count()
        assert one_line(caught.value).startswith(expected)
    assert load(spark, path, startingTimestamp=TIME + 10**9, startingOffsetsByTimestampStrategy="latest").count() == 0
    with pytest.raises(AnalysisException, match=r"column offset of the schema: expected some of key binary, .* found offset string"):
        spark.read.schema("offset string").format("tidelog").option("subscribe", "emails").load(str(path)).count()
    with pytest.raises(AnalysisException, match="a schema without columns"):  # which would be counted as nothing
        spark.read.schema(StructType([])).format("tidelog").option("subscribe", "emails").load(str(path)).count()
    with pytest.raises(AnalysisException, match="a path or a file: URI, found 's3a://bucket/data'"):
        load(spark, Path("x")).sparkSession.read.format("tidelog").option("subscribe", "emails").load("s3a://bucket/data").count()


def test_the_source_by_itself(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = TidelogDataSource({"path": str(path), "subscribe": "emails", "kafka.bootstrap.servers": "nowhere:1", "columns": "offset"})
    assert source.schema() == "offset bigint"
    assert TidelogDataSource.name() == "tidelog"
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        assert TidelogDataSource({"path": str(path), "subscribe": "emails", "topic": "emails", "startingOffsets": "latest"}).schema()
    assert not caplog.records


def test_a_record_without_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark's Kafka source shows it: Kafka's -1 is a millisecond before 1970."""
    with tidelog.open(tmp_path / "store") as store:
        store.create_topic("old").log(0).append(NewBatch([(None, b"v", (), -1)]).encode())
        expected = [as_row(record) for record in store.topic("old").read()]
    frame = load(spark, tmp_path / "store", "old", includeHeaders=True)
    assert in_ms(frame) == expected
    assert frame.select(f.date_format("timestamp", "yyyy-MM-dd HH:mm:ss.SSS")).first() == ("1969-12-31 23:59:59.999",)
