"""The job groups of stages: their own, or the caller's, who may want to cancel what is done for it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.jobs.workers import wait_for
from tidelog.errors import JobFailedError
from tidelog.spark import jobs
from tidelog.spark.jobs.progress import Progress
from tidelog.spark.jobs.running import SparkTasks, named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "spark.job.tags")


def properties(spark: "SparkSession") -> list[str | None]:
    return [spark.sparkContext.getLocalProperty(name) or None for name in PROPERTIES]


@contextmanager
def group_of_mine(spark: "SparkSession", name: str) -> Iterator[None]:
    before = [(one, spark.sparkContext.getLocalProperty(one)) for one in PROPERTIES]
    spark.sparkContext.setJobGroup(name, "what I do")
    try:
        yield
    finally:
        for one, value in before:
            spark.sparkContext.setLocalProperty(one, value)  # type: ignore[arg-type]


def one_more(task: Any, name: str) -> Any:
    return task + 1


def test_each_stage_has_a_group_of_its_own(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nobody has given the thread one. Of two with one name the second would begin with the progress of the first."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    before, groups = properties(spark), []
    for _ in range(3):
        with named(spark, "looking") as watched:
            assert watched is not None
            groups.append(watched[1])
            progress = Progress("looking", watched, 2)
            assert progress._completed() == 0
            assert spark.sparkContext.parallelize(range(2), 2).count() == 2
            assert wait_for(lambda own=progress: own._completed() == 2, timeout_s=20)  # type: ignore[misc]
        assert properties(spark) == before
    assert len(set(groups)) == 3


def test_a_group_of_the_caller_is_kept(spark: "SparkSession") -> None:
    tracker = spark.sparkContext.statusTracker()
    with group_of_mine(spark, "mine"):
        before = properties(spark)
        assert SparkTasks(spark, "count").run("one more", one_more, [1, 2, 3]) == [2, 3, 4]
        assert properties(spark) == before
        first = tracker.getJobIdsForGroup("mine")
        assert first
        with pytest.raises(JobFailedError), named(spark, "failing"):
            raise JobFailedError("no")
        assert properties(spark) == before


def test_who_cancels_the_group_cancels_the_job(spark: "SparkSession") -> None:
    from pyspark import InheritableThread

    def sleep(task: Any, name: str) -> None:  # in here, so that it goes to executors by value
        time.sleep(task)

    tracker = spark.sparkContext.statusTracker()

    def cancel() -> None:
        wait_for(lambda: bool(set(tracker.getJobIdsForGroup("mine too")) & set(tracker.getActiveJobsIds())), timeout_s=60)
        spark.sparkContext.cancelJobGroup("mine too")

    started_s = time.monotonic()
    with group_of_mine(spark, "mine too"):
        canceller = InheritableThread(target=cancel)
        canceller.start()
        try:
            with pytest.raises(JobFailedError, match="cancel"):
                SparkTasks(spark, "wait").run("sleep", sleep, [50, 50])
        finally:
            canceller.join()
    assert time.monotonic() - started_s < 45


def test_a_stream_that_calls_a_job_keeps_its_group(spark: "SparkSession", tmp_path: Path) -> None:
    """A query that is stopped cancels its group, which is named after its run."""
    rows = tmp_path / "rows"
    spark.createDataFrame([("a", "x"), ("b", "y")], "key string, value string").write.json(str(rows))
    seen: list[tuple[list[str | None], list[str | None], int]] = []

    def ingest(frame: "DataFrame", batch_id: int) -> None:
        before = properties(spark)
        done = jobs.ingest(frame.sparkSession, frame, tmp_path / "store", "tide", transactional_id="stream", batch_id=batch_id)
        jobs_of_run = spark.sparkContext.statusTracker().getJobIdsForGroup(str(before[0]))
        seen.append((before, properties(spark), len(jobs_of_run) * (done.records == 2)))

    stream = spark.readStream.schema("key string, value string").json(str(rows)).writeStream.foreachBatch(ingest)
    query = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120)
    [(before, after, jobs_of_run)] = seen
    assert before[0] == str(query.runId)
    assert after[:3] == before[:3]  # Spark itself is not so careful with its tags
    assert jobs_of_run >= 1
