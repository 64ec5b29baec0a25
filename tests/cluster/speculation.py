"""A task that is slow on one executor gets a copy on the other, and the first that ends counts: rows of the other are seen nowhere.

Named by `__main__`, not found by itself. The attempts leave notes in a folder, so that the test knows that there was a copy.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.killing import wait_for_executors
from tests.cluster.standalone import StandaloneCluster
from tests.cluster.topics_there import SOURCE, TARGET, make_topics, rows_in, staged_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 40_000
PATIENCE_S = 300.0
"""How long the slow attempt waits to be let go: longer than any machine takes for the rest."""
GO_ON = "go-on"


def straggling(frame: "DataFrame", notes: Path) -> "DataFrame":
    """The first attempt of the first task waits until it is let go; a copy of it does not. Each notes that it began and that it ended."""
    folder, patience_s, go_on = str(notes), PATIENCE_S, GO_ON

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":  # in here, so that it goes to executors by value
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        name = f"{context.partitionId()}-{context.attemptNumber()}"
        Path(folder, f"{name}.began").touch()
        rows = list(batches)
        yield from rows[:1]
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            end = time.monotonic() + patience_s
            while not Path(folder, go_on).exists() and time.monotonic() < end:
                time.sleep(0.1)
        yield from rows[1:]
        Path(folder, f"{name}.ended").touch()

    return frame.mapInArrow(work, frame.schema)


def test_write_of_two_attempts(spark: "SparkSession", cluster: StandaloneCluster, tmp_path: Path) -> None:
    wait_for_executors(cluster, spark)
    directory, notes = tmp_path / "data", tmp_path / "notes"
    notes.mkdir()
    make_topics(directory, ROWS)
    options = {"subscribe": SOURCE, "columns": "key,value", "minPartitions": "8"}
    frame = spark.read.format("tidelog").options(**options).load(str(directory))
    straggling(frame, notes).write.format("tidelog").mode("append").option("topic", TARGET).save(str(directory))
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)
    assert (notes / "0-1.ended").exists(), f"no copy of the slow task: {sorted(path.name for path in notes.iterdir())}"
    assert not (notes / "0-0.ended").exists(), "the write waited for the slow attempt"
    assert staged_files(directory) == []
    # What the loser does when it wakes up changes nothing.
    (notes / GO_ON).touch()
    time.sleep(2)
    assert rows_in(directory, TARGET) == rows_in(directory, SOURCE)


def test_read_of_two_attempts(spark: "SparkSession", cluster: StandaloneCluster, tmp_path: Path) -> None:
    wait_for_executors(cluster, spark)
    directory, notes = tmp_path / "data", tmp_path / "notes"
    notes.mkdir()
    make_topics(directory, ROWS)
    frame = spark.read.format("tidelog").options(subscribe=SOURCE, columns="key,value", minPartitions="8").load(str(directory))
    found = sorted((bytes(row.key), bytes(row.value)) for row in straggling(frame, notes).collect())
    assert found == rows_in(directory, SOURCE)
    assert (notes / "0-1.ended").exists()
    assert not (notes / "0-0.ended").exists()
    (notes / GO_ON).touch()
