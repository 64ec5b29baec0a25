"""`df.writeStream.format("tidelog")`: every micro-batch exactly once, however often Spark brings it."""

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import tidelog
from tests.spark.sink_support import assert_nothing_staged, values_of
from tidelog.disk.disk import OS
from tidelog.spark.sink_writers import COMMIT_MODULE
from tidelog.store.staging import find_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


class Pipeline:
    """Lines of text files, a file a micro-batch, into topic `t`."""

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.data, self.input, self.checkpoint = root / "data", root / "in", root / "checkpoint"
        self.input.mkdir()
        with tidelog.open(self.data) as store:
            store.create_topic("t", 2)

    def put(self, name: str, *lines: str) -> None:
        """A file for the next micro-batch."""
        (self.input / f"{name}.tmp").write_text("".join(f"{line}\n" for line in lines))
        (self.input / f"{name}.tmp").rename(self.input / f"{name}.txt")

    def frame(self) -> "DataFrame":
        files = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).option("pathGlobFilter", "*.txt")
        return files.load(str(self.input)).selectExpr("value as key", "value")

    def writing(self, frame: "DataFrame | None" = None, **options: object) -> "DataStreamWriter":
        writer = (self.frame() if frame is None else frame).writeStream.format("tidelog").trigger(availableNow=True)
        name = Path(str(options.get("checkpointLocation", self.checkpoint))).name
        writer = writer.queryName(f"{self.data.parent.name}, {name}")  # which Spark passes on as an option
        for name, value in {"topic": "t", "lockTimeout": "20s", "checkpointLocation": self.checkpoint, **options}.items():
            if value is not None:
                writer = writer.option(name, str(value))
        return writer

    def run(self, **options: object) -> "StreamingQuery":
        """Until nothing is left to do."""
        query = self.writing(None, **options).start(str(self.data))
        query.awaitTermination(120)
        assert not query.isActive
        return query

    def forget_commit(self, batch_id: int) -> None:
        """As if the driver had died behind the sink's commit, before Spark has written down its own."""
        for path in (self.checkpoint / "commits").glob(f"*{batch_id}*"):
            path.unlink()

    def ledger(self) -> dict[str, dict[str, object]]:
        with tidelog.open(self.data, "r") as store:
            if "__tidelog_commits" not in [topic.name for topic in store.topics()]:
                return {}
            return {(record.key or b"").decode(): json.loads(record.value or b"") for record in store.topic("__tidelog_commits").read()}


@pytest.fixture
def pipeline(spark: "SparkSession", tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)


def test_batches_are_there_once_through_restarts_and_repetitions(pipeline: Pipeline) -> None:
    pipeline.put("1", "a", "b")
    pipeline.put("2", "c")
    query = pipeline.run()
    assert values_of(pipeline.data) == ["a", "b", "c"]
    entry = pipeline.ledger()[f"stream/{query.id}"]  # the name that tasks know the query by is the checkpoint's
    assert (entry["batch_id"], entry["origin"]) == (1, str(query.id))
    assert entry["records"] in (1, 2)  # files of the same moment come in any order
    pipeline.put("3", "d")
    pipeline.run()
    pipeline.forget_commit(2)
    pipeline.run()
    assert values_of(pipeline.data) == ["a", "b", "c", "d"]
    pipeline.put("4", "e")
    pipeline.run()
    assert values_of(pipeline.data) == ["a", "b", "c", "d", "e"]
    assert {name: entry["batch_id"] for name, entry in pipeline.ledger().items()} == {f"stream/{query.id}": 3}
    assert_nothing_staged(pipeline.data)


def test_an_upstream_that_answers_differently(pipeline: Pipeline) -> None:
    """A batch that was committed stays what it was; one that failed is what the repetition brings."""
    pipeline.put("1", "a")
    pipeline.run()
    pipeline.put("2", "first answer")
    with tidelog.open(pipeline.data) as store:
        store.topic("t").alter({"message.timestamp.before.max.ms": "1000"})
    late = pipeline.frame().selectExpr("key", "value", "timestamp_seconds(1600000000) as timestamp")
    query = pipeline.writing(late).start(str(pipeline.data))
    with pytest.raises(StreamingQueryException, match="timestamps that the log does not take"):
        query.awaitTermination(120)
    assert values_of(pipeline.data) == ["a"]
    assert_nothing_staged(pipeline.data)
    (pipeline.input / "2.txt").write_text("second\nanswer\n")
    pipeline.run()
    assert values_of(pipeline.data) == ["a", "answer", "second"]
    pipeline.forget_commit(1)
    (pipeline.input / "2.txt").write_text("third answer\n")
    pipeline.run()
    assert values_of(pipeline.data) == ["a", "answer", "second"]


def test_a_task_that_fails_leaves_nothing(pipeline: Pipeline) -> None:
    pipeline.put("1", *[f"line {number}" for number in range(100)])
    bad = pipeline.frame().selectExpr("key", "if(value = 'line 50', raise_error('no more'), value) as value")
    query = pipeline.writing(bad).start(str(pipeline.data))
    with pytest.raises(StreamingQueryException, match="no more"):
        query.awaitTermination(120)
    assert values_of(pipeline.data) == []
    assert_nothing_staged(pipeline.data)
    pipeline.run()
    assert len(values_of(pipeline.data)) == 100


def test_two_streams_side_by_side(pipeline: Pipeline, tmp_path: Path) -> None:
    for number in range(4):
        pipeline.put(str(number), f"line {number}")
    other = Path(tmp_path / "other")
    queries = [pipeline.writing(checkpointLocation=checkpoint).start(str(pipeline.data)) for checkpoint in (pipeline.checkpoint, other)]
    for query in queries:
        query.awaitTermination(120)
        assert query.exception() is None
    assert values_of(pipeline.data) == sorted(f"line {number}" for number in range(4) for _ in queries)
    assert {name: entry["batch_id"] for name, entry in pipeline.ledger().items()} == {f"stream/{query.id}": 3 for query in queries}
    assert_nothing_staged(pipeline.data)


def test_an_id_of_ones_own_is_bound_to_its_checkpoint(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.put("1", "a")
    query = pipeline.run(queryId="mine")
    assert pipeline.ledger()["stream/mine"]["origin"] == str(query.id)
    again = pipeline.writing(queryId="mine", checkpointLocation=tmp_path / "another").start(str(pipeline.data))
    with pytest.raises(StreamingQueryException, match="another checkpoint"):
        again.awaitTermination(120)
    assert values_of(pipeline.data) == ["a"]


def test_batches_without_rows_write_nothing(pipeline: Pipeline) -> None:
    pipeline.put("1", "a")
    query = pipeline.writing(pipeline.frame().where("value = 'never'")).start(str(pipeline.data))
    query.awaitTermination(120)
    assert query.exception() is None
    assert pipeline.ledger() == {}
    assert find_staging(OS, str(pipeline.data)) == []


@pytest.mark.parametrize(
    ("options", "mode", "expected"),
    [
        ({"transactionalId": "x"}, "append", "option transactionalId is not for streams"),
        ({}, "complete", 'expected outputMode("append") or "update"'),
        ({"topic": "missing"}, "append", "no topic 'missing'"),
    ],
)
def test_what_is_wrong_is_told(pipeline: Pipeline, options: dict[str, object], mode: str, expected: str) -> None:
    pipeline.put("1", "a")
    frame = (
        pipeline.frame() if mode == "append" else pipeline.frame().groupBy("key").agg({"value": "max"}).selectExpr("key", "key as value")
    )
    query = pipeline.writing(frame, **options).outputMode(mode).start(str(pipeline.data))
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(120)
    assert expected in str(caught.value)
    assert values_of(pipeline.data) == []
    assert_nothing_staged(pipeline.data)


def test_the_name_of_sparks_own_that_the_sink_knows_is_there() -> None:
    assert importlib.util.find_spec(COMMIT_MODULE) is not None
