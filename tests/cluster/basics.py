"""A read, a write and a stream on the cluster; named by `__main__`, not found by itself."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.killing import wait_for_executors
from tests.cluster.standalone import StandaloneCluster
from tests.cluster.topics_there import PARTITIONS, SOURCE, TARGET, make_topics, rows_in, staged_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000


def test_executors_read(spark: "SparkSession", cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Both of them: a split is a task, and there are more tasks than one executor takes at a time."""
    wait_for_executors(cluster, spark)
    directory = tmp_path / "data"
    make_topics(directory, ROWS)
    frame = spark.read.format("tidelog").option("subscribe", SOURCE).option("minPartitions", "8").load(str(directory))
    assert frame.rdd.getNumPartitions() == 8
    found = sorted((bytes(row.key), bytes(row.value), row.partition) for row in frame.select("key", "value", "partition").collect())
    assert [row[:2] for row in found] == rows_in(directory, SOURCE)
    assert {row[2] for row in found} == set(range(PARTITIONS))
    assert len(cluster.executors()) == 2
    assert len(cluster.python_daemons()) >= 2  # a worker may be gone: one that is slow to start loses its task to a copy


def test_executors_write_and_the_driver_commits(spark: "SparkSession", tmp_path: Path) -> None:
    directory = tmp_path / "data"
    make_topics(directory, ROWS)
    frame = spark.read.format("tidelog").options(subscribe=SOURCE, columns="key,value").load(str(directory))
    frame.repartition(6).write.format("tidelog").mode("append").option("topic", TARGET).save(str(directory))
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)
    assert staged_files(directory) == []


def test_streams_from_topic_to_topic(spark: "SparkSession", tmp_path: Path) -> None:
    """In several micro-batches."""
    directory, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    make_topics(directory, ROWS)
    stream = spark.readStream.format("tidelog").options(subscribe=SOURCE, startingOffsets="earliest", maxOffsetsPerTrigger=str(ROWS // 3))
    copied = stream.load(str(directory)).select("key", "value").writeStream.format("tidelog").option("topic", TARGET)
    copied = copied.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    copied.start(str(directory)).awaitTermination()
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)
    assert len(list((checkpoint / "commits").glob("[0-9]*"))) >= 3
    assert staged_files(directory) == []
