"""Executors are killed by SIGKILL in each stage of each job that is shared out: its outcome is that of a run that nobody has disturbed.

Speculation is on, and what the dead had goes to the other. Named by `__main__`, not found by itself. Stages of one or two tasks, which
follow the producers of a log, are left in peace: nobody can tell where they run.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs_to_kill import outcome
from tests.cluster.killing import StageKiller, wait_for_executors
from tests.cluster.standalone import StandaloneCluster
from tests.support.job_topics import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 3
"""A job this small may be over before an executor on a busy machine has taken a task."""
STAGES = {
    "compact": ("hash keys", "rewrite segments"),
    "verify": ("check batches",),
    "reindex": ("read segments",),
    "stats": ("count",),
    "table": ("latest by key",),
    "history": ("versions",),
    "export": ("write files",),
    "copy": ("copy batches",),
    "into_broker": ("copy batches",),
    "restore": ("copy batches",),
    "forget": ("look for keys", "rewrite segments", "prove that nothing is left"),
    "ingest": ("write",),
}
"""Those with several tasks, as they follow each other."""


@pytest.mark.parametrize(
    ("job", "number", "stage"), [(job, number, stage) for job, stages in STAGES.items() for number, stage in enumerate(stages, 1)]
)
def test_the_outcome_is_that_of_an_undisturbed_run_although_an_executor_is_killed(
    spark: "SparkSession", cluster: StandaloneCluster, job: str, number: int, stage: str, tmp_path: Path
) -> None:
    make_topic(tmp_path / "store", "emails" if job == "into_broker" else "tide", batches=300)
    wait_for_executors(cluster, spark)
    expected = outcome(spark, job, tmp_path / "store", tmp_path / "undisturbed")
    for attempt in range(TRIES):
        wait_for_executors(cluster, spark)
        place = tmp_path / f"disturbed-{attempt}"
        with StageKiller(cluster, spark, number) as killer:
            found = outcome(spark, job, tmp_path / "store", place)
        assert found == expected
        assert not [path for path in place.rglob("*") if ".tidelog-staging-" in path.name]
        if killer.lost_tasks:
            break
    assert killer.lost_tasks > 0, f"nobody was killed while he had a task of {stage!r}"
