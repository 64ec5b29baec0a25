"""Drivers are killed by SIGKILL at each step of each job, with tasks that run twice: whoever runs the job again gets what an undisturbed
run gives, byte for byte, and nothing is left over, neither at once nor when an attempt that has outlived its driver does its work at last.

Named by `__main__`, not found by itself. The drivers are applications of their own beside the session of the tests.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.driver_to_kill import GO_ON, LATE, PATIENCE_S, WAITS
from tests.cluster.jobs_to_kill import LOOKING, made, outcome, prepare, run
from tests.cluster.killing import wait_for_executors
from tests.cluster.standalone import HOSTS, StandaloneCluster, command_line
from tests.spark.jobs.workers import wait_for
from tests.spark.long_sink import Driver
from tests.support.job_topics import make_topic
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.task.duration.threshold": "300ms",
}
"""So that whatever waits gets a copy soon, the only task of a stage too."""
STEPS = {
    "compact": (
        "stage:hash keys",
        "stage:follow transactions",
        "stage:find the last of each key",
        "stage:rewrite segments",
        "stage:put segments together",
        "rename:.log.cleaned:1",
        "rename:.log.swap:1",
    ),
    "reindex": ("stage:read segments", "stage:follow producers", "rename:.index.tmp:1", "rename:.timeindex.tmp:3"),
    "forget": (
        "stage:look for keys",
        "stage:rewrite segments",
        "rename:.log.cleaned:2",
        "rename:.log.swap:1",
        "stage:prove that nothing is left",
    ),
    "restore": ("stage:copy batches", "stage:put segments together", "stage:follow producers", "rename:.log:2", "rename:/store:1"),
    "copy": ("stage:copy batches", "stage:put segments together", "stage:follow producers", "rename:.log:2", "rename:/store:1"),
    "into_broker": ("stage:copy batches", "stage:follow producers", "rename:-built:1", "rename:recovery-point-offset-checkpoint.tmp:1"),
    "export": ("stage:write files", "rename:.json:3", "rename:/tree:1"),
    "ingest": ("frame", "never", "report"),
    "verify": ("stage:check batches",),
    "stats": ("stage:count",),
    "table": ("frame",),
    "history": ("frame",),
}
ON_DRIVER = [("reindex", "stage:follow producers")]
"""Where executors have it only if it is much, besides putting segments together."""
WRITING = (
    "hash keys",
    "follow transactions",
    "find the last of each key",
    "rewrite segments",
    "copy batches",
    "read segments",
    "write files",
)
"""Stages whose tasks write files: late ones have to fail at it."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> "Callable[[SparkSession, str], tuple[Path, Path, Any]]":
    """For each job the store that it is about, and the place and the outcome of a run that nobody disturbs."""
    root = tmp_path_factory.mktemp("undisturbed")
    known: dict[str, tuple[Path, Path, Any]] = {}

    def of(spark: "SparkSession", job: str) -> tuple[Path, Path, Any]:
        topic = "emails" if job == "into_broker" else "tide"
        if not (root / topic).exists():
            make_topic(root / topic, topic, batches=300)
        if job not in known:
            place = tmp_path_factory.mktemp(job) / "undisturbed"
            known[job] = (root / topic, place, outcome(spark, job, root / topic, place))
        return known[job]

    return of


@pytest.mark.parametrize(("job", "step"), [(job, step) for job, steps in STEPS.items() for step in steps])
def test_the_outcome_is_that_of_an_undisturbed_run_although_the_driver_is_killed(
    spark: "SparkSession",
    cluster: StandaloneCluster,
    undisturbed: "Callable[[SparkSession, str], tuple[Path, Path, Any]]",
    job: str,
    step: str,
    tmp_path: Path,
) -> None:
    wait_for_executors(cluster, spark)
    store, expected_place, expected = undisturbed(spark, job)
    place, notes = tmp_path / "place", tmp_path / "notes"
    notes.mkdir()
    prepare(job, store, place)
    try:
        kill_a_driver(cluster, spark, job, store, place, step, notes)
        found = run(spark, job, store, place)  # at once: executors of the dead may be there yet
        check(job, found, expected, place, expected_place, step)
        wait_until_it_is_given_up(cluster)
        check(job, found, expected, place, expected_place, step)
        assert (notes / WAITS).exists() == is_on_executors(job, step)
    finally:
        (notes / GO_ON).touch()
    if (notes / WAITS).exists():
        how = late_end(notes)
        assert how != "done" or step.rpartition(":")[2] not in WRITING, "there was a place to write to"
        check(job, found, expected, place, expected_place, step)


def is_on_executors(job: str, step: str) -> bool:
    """Whether it is a step of tasks; what is little is done by the driver."""
    return step.startswith(("stage:", "frame")) and (job, step) not in ON_DRIVER and not step.endswith("put segments together")


def kill_a_driver(cluster: StandaloneCluster, spark: "SparkSession", job: str, store: Path, place: Path, step: str, notes: Path) -> None:
    """Start one, and wait until it is dead, with all of its own processes."""
    settings = dict(spark.sparkContext.getConf().getAll())
    asked = {name: settings[name] for name in cluster.settings} | SPECULATION | {"spark.sql.shuffle.partitions": "2"}
    words = {"master": cluster.url, "settings": asked, "job": job, "store": str(store), "place": str(place), "step": step}
    with (notes / "said.txt").open("wb") as messages:
        driver = Driver(json.dumps(words | {"notes": str(notes)}), module="tests.cluster.driver_to_kill", messages=messages)
        try:
            driver.wait_for("ready")
            if step == "never":
                assert wait_for(lambda: driver.process.poll() is not None or LogDirectory.find_owner(str(place / "store")) is not None)
                driver.kill()
            driver.process.wait(PATIENCE_S)
        finally:
            driver.end()
    assert driver.process.returncode == -signal.SIGKILL, (notes / "said.txt").read_text()


def wait_until_it_is_given_up(cluster: StandaloneCluster) -> None:
    """By the master, and its executors are gone."""
    assert wait_for(lambda: len(cluster.applications()) == 1 and len(cluster.executors()) <= len(HOSTS)), "the master keeps a dead driver"


def late_end(notes: Path) -> str:
    """How it ended for the attempt that has outlived its driver; it is gone then."""
    assert wait_for((notes / LATE).exists), "the late attempt does not end"
    pid, _, how = (notes / LATE).read_text().partition(" ")
    assert wait_for(lambda: command_line(int(pid)) == ""), "the late attempt does not go"
    return how


def check(job: str, found: Any, expected: Any, place: Path, expected_place: Path, step: str) -> None:
    """The same outcome, and the same files; no other beside them."""
    if job in LOOKING:
        assert found == expected
    elif job == "ingest" and step == "never":  # a transaction that was cut off and aborted has taken offsets
        assert rows_without_offsets(made(job, place)) == rows_without_offsets(expected)
    else:
        assert made(job, place) == expected
        # Who is killed while he owns a directory has not shut it down cleanly, and these leave it to the next open to recover it.
        unclean = {f"store/{CLEAN_SHUTDOWN}"} if job in ("reindex", "into_broker") else set()
        assert names_in(place) - unclean == names_in(expected_place) - unclean
    assert [path.name for path in place.iterdir()] == ["store"] * (job not in LOOKING)


def rows_without_offsets(found: dict[Any, list[tuple[Any, ...]]]) -> dict[Any, list[tuple[Any, ...]]]:
    """What is in the partitions, in order."""
    return {partition: [row[1:] for row in own] for partition, own in found.items()}


def names_in(place: Path) -> set[str]:
    """Files and directories."""
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.name != ".lock"}
