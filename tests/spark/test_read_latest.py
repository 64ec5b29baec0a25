"""`latestByKey`: tasks leave out what a later record of the same key supersedes, and the latest value of a key is what it was."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidelog
from tidelog.errors import InvalidConfigError
from tidelog.record import NewBatch
from tidelog.spark import latest_by_key, split_reading
from tidelog.spark.latest_by_key import KeyedReading, read_keyed
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.splits import Split

TIME = 1_700_000_000_000
Row = tuple[int, int, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Partition, offset, key, value: some keys in both partitions, some records without a key, some tombstones."""
    chance = random.Random(8)
    found: list[Row] = []
    for partition in range(2):
        for offset in range(600):
            key = None if chance.random() < 0.03 else b"key-%d" % chance.randrange(40)
            found.append((partition, offset, key, None if chance.random() < 0.1 else b"value-%d-%d" % (partition, offset)))
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> Path:
    path = tmp_path_factory.mktemp("latest") / "store"
    with tidelog.open(path) as store:
        topic = store.create_topic("emails", partitions=2, config={"internal.segment.bytes": 4000, "index.interval.bytes": 300})
        for partition in range(2):
            own = [row for row in rows if row[0] == partition]
            for first in range(0, len(own), 7):
                records: list[Any] = [(key, value, [], TIME + offset) for _, offset, key, value in own[first : first + 7]]
                topic.log(partition).append(NewBatch(records).encode())
    return path


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("tidelog").options(subscribe="emails", latestByKey="true", **options).load(str(path))


def as_rows(frame: DataFrame) -> list[Row]:
    found = frame.select("partition", "offset", "key", "value").collect()
    assert all(isinstance(row.offset, int) for row in found)
    return sorted((row.partition, row.offset, _bytes(row.key), _bytes(row.value)) for row in found)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def last_of_each(rows: list[Row], below: int = 600) -> list[Row]:
    chosen = [row for row in rows if row[1] < below]
    last = {(partition, key): offset for partition, offset, key, _ in chosen if key is not None}
    return [row for row in chosen if row[2] is None or last[row[0], row[2]] == row[1]]


def test_of_a_partition_that_is_not_cut_the_last_of_each_key_is_left(spark: SparkSession, path: Path, rows: list[Row]) -> None:
    assert as_rows(load(spark, path, splitPartitions="false")) == last_of_each(rows)


def test_bounds_come_first(spark: SparkSession, path: Path, rows: list[Row]) -> None:
    bounds = '{"emails": {"0": 333, "1": 333}}'
    assert as_rows(load(spark, path, splitPartitions="false", endingOffsets=bounds)) == last_of_each(rows, 333)
    assert as_rows(load(spark, path, splitPartitions="false", keys="key-7")) == [row for row in last_of_each(rows) if row[2] == b"key-7"]


def test_the_latest_values_are_the_same(spark: SparkSession, path: Path, rows: list[Row]) -> None:
    """Also where a partition is cut into many tasks, each of which knows its own part alone."""
    cut = load(spark, path, bytesPerPartition="2000")
    found = as_rows(cut)
    assert len(last_of_each(rows)) < len(found) < len(rows)
    assert set(found) >= set(last_of_each(rows))

    def latest(frame: DataFrame) -> list[Any]:
        chosen = frame.where("key IS NOT NULL").groupBy("key").agg(f.max_by("value", f.struct("timestamp", "partition")).alias("value"))
        return sorted(chosen.collect(), key=lambda row: bytes(row.key))

    assert latest(cut) == latest(spark.read.format("tidelog").options(subscribe="emails").load(str(path)))


def test_columns_without_a_key(spark: SparkSession, path: Path, rows: list[Row]) -> None:
    frame = load(spark, path, splitPartitions="false", columns="value")
    assert frame.columns == ["value"]
    assert sorted(_bytes(row.value) or b"" for row in frame.collect()) == sorted(row[3] or b"" for row in last_of_each(rows))


def test_where_it_is_refused(spark: SparkSession, path: Path) -> None:
    with pytest.raises(AnalysisException, match="latestByKey is not for a read with pushFilters=true"):
        load(spark, path, pushFilters="true").count()
    with pytest.raises(InvalidConfigError, match="latestByKey is not for streams"):
        ReadOptions.of({"path": str(path), "subscribe": "emails", "latestByKey": "true"}, is_stream=True)


def test_what_is_noted_of_a_split_is_bounded_also_of_records_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidelog.open(tmp_path) as store:
        topic = store.create_topic("emails")
        for first in range(0, 1000, 20):
            rows: list[Any] = [(None if offset % 5 else b"key-%d" % offset, b"v", [], TIME) for offset in range(first, first + 20)]
            topic.log(0).append(NewBatch(rows).encode())
    sizes: list[int] = []
    found = latest_by_key._Look.found

    def noted(look: latest_by_key._Look) -> Any:
        offsets = found(look)
        sizes.append(len(offsets))
        return offsets

    monkeypatch.setattr(latest_by_key._Look, "found", noted)
    monkeypatch.setattr(latest_by_key, "MOST_KEYS", 100)
    monkeypatch.setattr(split_reading, "FETCH_BYTES", 1000)
    monkeypatch.setattr(split_reading, "SLACK_BYTES", 1000)
    split = Split("emails", 0, str(tmp_path / "emails-0"), 0, 1000)
    reading = KeyedReading(("key", "value", "offset", "timestamp"), keeps_null_keys=True)
    assert [offset for batch in read_keyed(split, reading) for offset in batch.column("offset").to_pylist()] == list(range(1000))
    assert max(sizes) < 300, "as many as a fetch brings may come on top"
