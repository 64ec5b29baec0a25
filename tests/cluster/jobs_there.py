"""Jobs on the cluster: the work of one partition is spread over both workers, and of two attempts of a task one counts.

Named by `__main__`, not found by itself.
"""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.job_kills import TRIES
from tests.cluster.jobs_to_kill import PIECE_BYTES, into_broker, some_rows
from tests.cluster.killing import wait_for_executors
from tests.cluster.standalone import HOSTS, StandaloneCluster
from tests.spark.jobs.test_compact import LATER
from tests.spark.jobs.test_copy_into_broker import make_broker
from tests.support.job_topics import make_topic
from tidelog.disk.disk import OS
from tidelog.spark import jobs
from tidelog.spark.jobs.running import SparkTasks, staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 300.0
"""How long the slow attempt waits to be let go: longer than any machine takes for the rest."""


def tasks_by_executor(spark: "SparkSession") -> dict[str, int]:
    """How many tasks each executor has ended since it was started, as Spark has counted."""
    summaries = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    found = [summaries.apply(number) for number in range(summaries.size())]
    return {one.id(): one.completedTasks() for one in found if one.id() != "driver"}


def busy_executors(spark: "SparkSession", run: Callable[[], Any]) -> tuple[Any, int]:
    """What a job gives back, and how many executors have ended tasks of it."""
    before = tasks_by_executor(spark)
    result = run()
    time.sleep(0.5)  # Spark counts behind the fact
    return result, sum(count > before.get(name, 0) for name, count in tasks_by_executor(spark).items())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One partition, in pieces for many tasks."""
    make_topic(tmp_path / "store", batches=300)
    return tmp_path / "store"


def test_one_partition_uses_both_workers(spark: "SparkSession", cluster: StandaloneCluster, store: Path, tmp_path: Path) -> None:
    wait_for_executors(cluster, spark)
    make_topic(tmp_path / "emails", "emails", batches=300)
    numbers = itertools.count()
    reading: dict[str, Callable[[], Any]] = {
        "stats": lambda: jobs.stats(spark, store, records=True, piece_bytes=PIECE_BYTES),
        "verify": lambda: jobs.verify(spark, store, level="records", piece_bytes=PIECE_BYTES),
        "table": lambda: jobs.table(spark, store, "tide", piece_bytes=PIECE_BYTES).table.count(),
        "history": lambda: jobs.history(spark, store, "tide", piece_bytes=PIECE_BYTES).history.count(),
        "export": lambda: jobs.export(spark, store, "tide", tmp_path / f"exported-{next(numbers)}", piece_bytes=PIECE_BYTES),
        "copy": lambda: jobs.copy(spark, store, tmp_path / f"copied-{next(numbers)}", piece_bytes=PIECE_BYTES),
        "restore": lambda: jobs.restore(spark, store, tmp_path / f"restored-{next(numbers)}", piece_bytes=PIECE_BYTES),
        "reindex": lambda: jobs.reindex(spark, store, dry_run=True, piece_bytes=PIECE_BYTES),
        "into_broker": lambda: into_broker(spark, tmp_path / "emails", make_broker(tmp_path / f"broker-{next(numbers)}")),
        "ingest": lambda: jobs.ingest(spark, some_rows(spark), tmp_path / f"ingested-{next(numbers)}", "tide"),
    }
    changing: dict[str, Callable[[], Any]] = {
        "compact": lambda: jobs.compact(spark, store, now_ms=LATER, piece_bytes=PIECE_BYTES),
        "forget": lambda: jobs.forget(spark, store, "tide", [b"key-7"], piece_bytes=PIECE_BYTES),
    }
    idle = {}
    for name, run in (reading | changing).items():
        for _ in range(TRIES if name in reading else 1):
            wait_for_executors(cluster, spark)
            _, busy = busy_executors(spark, run)
            if busy == len(HOSTS):
                break
        else:
            idle[name] = busy
    assert idle == {}


def dawdling(notes: Path) -> Callable[[int, str], str]:
    """The first attempt of the first task waits until it is let go, a copy of it does not. Each writes a file of its own."""
    folder, patience_s = str(notes), PATIENCE_S

    def work(number: int, prefix: str) -> str:  # in here, so that it goes to executors by value
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        Path(folder, f"{number}-{context.attemptNumber()}").touch()
        path = f"{prefix}-dawdled"
        Path(path).write_text(str(context.attemptNumber()))
        end = time.monotonic() + patience_s
        while number == 0 and context.attemptNumber() == 0 and not Path(folder, "go-on").exists() and time.monotonic() < end:
            time.sleep(0.1)
        return path

    return work


def test_of_two_attempts_the_first_that_ends_counts(spark: "SparkSession", cluster: StandaloneCluster, tmp_path: Path) -> None:
    wait_for_executors(cluster, spark)
    (tmp_path / "data").mkdir()
    notes = tmp_path / "notes"
    notes.mkdir()
    with staged(str(tmp_path / "data")) as staging:
        paths = SparkTasks(spark, "dawdle", staging=staging).run("dawdle", dawdling(notes), range(8))
        assert (notes / "0-1").exists(), "no copy of the slow task was started"
        assert len(set(paths)) == 8
        assert Path(paths[0]).read_text() == "1", "the job waited for the slow attempt"
        assert len([*OS.names(os.path.dirname(paths[0]))]) > 8  # noqa: PTH120 - what the loser wrote is there as well, and nobody's
    (notes / "go-on").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "notes"]
