"""Executors and their Python workers are killed by SIGKILL during a read, a write, a stream: everything once, nothing twice.

Named by `__main__`, not found by itself.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.killing import Killed, kill_during, wait_for_executors
from tests.cluster.standalone import StandaloneCluster
from tests.cluster.topics_there import SOURCE, TARGET, make_topics, rows_in, staged_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 120_000
SPLITS = 16
SLOW_S = 0.25
"""What a task takes at least, so that one is under way when another has ended."""
BATCHES = 5

VICTIMS = ["python_workers", "executors"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    make_topics(place, ROWS)
    return place


def slow_rows(spark: "SparkSession", directory: Path) -> "DataFrame":
    """The source in many tasks, each of them not too quick."""
    options = {"subscribe": SOURCE, "columns": "key,value,offset", "minPartitions": str(SPLITS)}
    frame = spark.read.format("tidelog").options(**options).load(str(directory))
    return slowed(frame)


def slowed(frame: "DataFrame") -> "DataFrame":
    """The same rows, each task not too quick."""
    pause_s = SLOW_S

    def pause(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":  # in here, so that it goes to executors by value
        time.sleep(pause_s)
        yield from batches

    return frame.mapInArrow(pause, frame.schema)


def first(cluster: StandaloneCluster, victim: str) -> list[int]:
    """One executor, or all Python workers of one: who reads and who slows down are two processes, and either may be in between."""
    if victim == "executors":
        return cluster.executors()[:1]
    return cluster.python_workers()


@pytest.mark.parametrize("victim", VICTIMS)
def test_read(spark: "SparkSession", cluster: StandaloneCluster, directory: Path, victim: str) -> None:
    found: list[tuple[bytes, bytes]] = []
    frame = slow_rows(spark, directory).select("key", "value")
    wait_for_executors(cluster, spark)

    def read() -> None:
        found.extend((bytes(row.key), bytes(row.value)) for row in frame.collect())

    _was_hit(kill_during(spark, f"read-{victim}", read, lambda: first(cluster, victim)))
    assert sorted(found) == rows_in(directory, SOURCE)


@pytest.mark.parametrize("victim", VICTIMS)
def test_write(spark: "SparkSession", cluster: StandaloneCluster, directory: Path, victim: str) -> None:
    frame = slow_rows(spark, directory).select("key", "value")
    wait_for_executors(cluster, spark)

    def write() -> None:
        frame.write.format("tidelog").mode("append").option("topic", TARGET).save(str(directory))

    _was_hit(kill_during(spark, f"write-{victim}", write, lambda: first(cluster, victim)))
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)
    assert staged_files(directory) == []


@pytest.mark.parametrize("victim", VICTIMS)
def test_stream(spark: "SparkSession", cluster: StandaloneCluster, directory: Path, tmp_path: Path, victim: str) -> None:
    """Somebody is killed in each micro-batch but the last."""
    options = {"subscribe": SOURCE, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS // BATCHES), "minPartitions": "6"}
    frame = spark.readStream.format("tidelog").options(**options).load(str(directory))
    copied = slowed(frame.select("key", "value")).writeStream.format("tidelog").option("topic", TARGET)
    wait_for_executors(cluster, spark)
    checkpoint = tmp_path / "checkpoint"
    query = copied.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(directory))
    killed = 0
    while query.isActive:
        if killed <= min(_committed(checkpoint), BATCHES - 2) and (pids := first(cluster, victim)):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(0.3)
    assert query.exception() is None
    assert killed >= 2
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)
    assert _committed(checkpoint) >= BATCHES
    assert staged_files(directory) == []


def _committed(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def _was_hit(killed: Killed) -> None:
    assert killed.pids, "the job was over before anybody was killed"
    assert killed.lost_tasks > 0, f"{killed.pids} were killed, and no task was lost by it"
