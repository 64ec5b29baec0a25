"""Streams in a real session: replay with a watermark, restart, limits, errors, and topics that change under the query."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.streams import EARLIEST, fill
from tests.support.logs import TIME
from tests.support.topics import SMALL, open_store
from tidelog.record import NewBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HOUR = 3_600_000
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def quick_session(running_session: "SparkSession") -> "Iterator[SparkSession]":
    """The session with one task behind a shuffle, and no micro-batches without rows."""
    changed = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    before = {name: str(running_session.conf.get(name)) for name in changed}
    for name, value in changed.items():
        running_session.conf.set(name, value)
    yield running_session
    for name, value in before.items():
        running_session.conf.set(name, value)


def load(spark: "SparkSession", home: Path, **options: str) -> "DataFrame":
    return spark.readStream.format("tidelog").options(**{"subscribe": "tide", **EARLIEST, **options}).load(str(home))


def run(frame: "DataFrame", folder: Path, *, sink: str = "parquet", **options: Any) -> "StreamingQuery":
    """Read what is there, into Parquet files beside the checkpoint."""
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = writer.options(path=str(folder / "rows"), **options).start()
    query.awaitTermination(600)
    return query


def rows_in(spark: "SparkSession", folder: Path) -> list[tuple[int, int]]:
    found = spark.read.parquet(str(folder / "rows")).select("partition", "offset").collect()
    return sorted((row[0], row[1]) for row in found)


def append_times(topic: Any, partition: int, times: list[int], batch_records: int) -> None:
    for first in range(0, len(times), batch_records):
        rows = [(b"k", b"v", (), ms) for ms in times[first : first + batch_records]]
        topic.log(partition).append(NewBatch(rows).encode())


@pytest.mark.slow
def test_replaying_history_with_a_watermark_drops_nothing(quick_session: "SparkSession", tmp_path: Path) -> None:
    """Four partitions of very different size and span, 50 micro-batches, a watermark of ten minutes."""
    from pyspark.sql import functions as f

    random.seed(11)
    jitter = [random.randrange(300_000) for _ in range(25_000)]
    spans = [
        ([at * 24 * HOUR // 20_000 for at in range(20_000)], 40),
        ([at * HOUR for at in range(24)], 24),
        ([10 * HOUR + at * HOUR // 4_000 for at in range(4_000)], 250),
        ([20 * HOUR + at * 4 * HOUR // 476 for at in range(476)], 7),
    ]
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic(
            "tide", 4, {"segment.index.bytes": 1 << 16, "internal.segment.bytes": 1 << 17, "index.interval.bytes": 512}
        )
        for partition, (times, batch_records) in enumerate(spans):
            append_times(topic, partition, [TIME - 30 * HOUR + ms + jitter[at] for at, ms in enumerate(times)], batch_records)

    def counted(frame: "DataFrame") -> "DataFrame":
        return frame.groupBy(f.window("timestamp", "1 hour")).count().select(f.col("window.start").alias("hour"), "count")

    stream = load(quick_session, tmp_path / "store", maxOffsetsPerTrigger="490", columns="timestamp").withWatermark(
        "timestamp", "10 minutes"
    )
    writer = counted(stream).writeStream.format("memory").queryName("hours").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination(600)
    progress = query.recentProgress
    assert len([each for each in progress if each["numInputRows"]]) == 50
    assert sum(each["stateOperators"][0]["numRowsDroppedByWatermark"] for each in progress) == 0
    assert max(each["numInputRows"] for each in progress) == 490
    seen: dict[Any, int] = {}
    for row in quick_session.table("hours").collect():
        seen[row["hour"]] = max(row["count"], seen.get(row["hour"], 0))
    batch = quick_session.read.format("tidelog").option("subscribe", "tide").load(str(tmp_path / "store"))
    assert seen == {row["hour"]: row["count"] for row in counted(batch).collect()}
    assert sum(seen.values()) == 24_500


def test_a_query_goes_on_from_its_checkpoint(spark: "SparkSession", tmp_path: Path) -> None:
    """With another limit, with what was appended meanwhile, and with an unfinished batch of the run before."""
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic("tide", 2, SMALL)
        fill(topic, 30)
        fill(topic, 10, partition=1)
        first = run(load(spark, tmp_path / "store", maxOffsetsPerTrigger="25"), tmp_path)
        assert [each["numInputRows"] for each in first.recentProgress if each["numInputRows"]] == [25, 15]
        fill(topic, 20)
        for name in ("checkpoint/commits/1", "checkpoint/commits/.1.crc", "rows/_spark_metadata/1", "rows/_spark_metadata/.1.crc"):
            (tmp_path / name).unlink(missing_ok=True)  # as if it had been killed before it could say that it was done
        second = run(load(spark, tmp_path / "store", maxOffsetsPerTrigger="8"), tmp_path)
        assert second.id == first.id
        assert [each["numInputRows"] for each in second.recentProgress if each["numInputRows"]] == [15, 8, 8, 4]
        assert rows_in(spark, tmp_path) == [(0, offset) for offset in range(50)] + [(1, offset) for offset in range(10)]
    ends = json.loads((tmp_path / "checkpoint" / "offsets" / "4").read_text().splitlines()[-1])
    assert ends["topics"]["tide"]["offsets"] == {"0": 50, "1": 10}
    assert ends["topics"]["tide"]["id"]


@pytest.mark.slow
def test_a_topic_made_again_ends_the_query_with_one_line_that_says_so(spark: "SparkSession", tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store.create_topic("tide", 1, SMALL), 5)
        run(load(spark, tmp_path / "store"), tmp_path)
        store.delete_topic("tide")
        fill(store.create_topic("tide", 1, SMALL), 9)
        with pytest.raises(
            StreamingQueryException, match=r"InconsistentTopicIdError: .*made again since the last micro-batch.*new checkpoint"
        ):
            run(load(spark, tmp_path / "store"), tmp_path)


@pytest.mark.slow
def test_another_process_appends_rolls_compacts_and_trims_meanwhile(spark: "SparkSession", tmp_path: Path) -> None:
    """Every record comes once and in order, and of what was not overtaken by the trimming nothing is missing."""
    home, stop = tmp_path / "store", tmp_path / "stop"
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.busy_writer", str(home), str(stop)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "started\n"
        frame = load(spark, home, failOnDataLoss="false", maxOffsetsPerTrigger="20000", gapReport=str(tmp_path / "gaps.jsonl"))
        starter = frame.selectExpr("partition", "offset", "cast(key as string) key", "cast(value as string) value")
        query = (
            starter.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "rows"))
        )
        deadline = time.monotonic() + 300
        while sum(each["numInputRows"] > 0 for each in query.recentProgress) < 6 and query.isActive and time.monotonic() < deadline:
            time.sleep(0.2)
        stop.touch()
        told = json.loads(writer.stdout.readlines()[-1])
        assert writer.wait(30) == 0
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None
    finally:
        writer.kill()
        writer.communicate()
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    places = [(row["partition"], row["offset"]) for row in rows]
    assert len(set(places)) == len(places)
    assert min(told["rolled"], told["compacted"], told["trimmed"]) > 3
    assert all(row["value"] == f"{row['partition']} {row['offset']}" for row in rows)
    newest: dict[tuple[int, str], int] = {}
    for row in rows:
        at = row["partition"], row["key"]
        newest[at] = max(newest.get(at, -1), row["offset"])
    batch = spark.read.format("tidelog").option("subscribe", "tide").load(str(home)).collect()
    assert len(batch) > 50
    left: dict[tuple[int, str], int] = {}
    for row in batch:
        left[row["partition"], row["key"].decode()] = max(left.get((row["partition"], row["key"].decode()), -1), row["offset"])
    assert left.items() <= newest.items()
