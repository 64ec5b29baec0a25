"""kill -9 of workers and of the driver: whoever runs the job again gets the very same files, and nothing is left over."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import SharedSession
from tests.spark.jobs.moving import kill_at, rows_of
from tests.spark.jobs.test_compact import LATER, compacted_locally
from tests.spark.jobs.workers import WorkerKiller, wait_for
from tests.spark.long_sink import Driver
from tests.spark.sink_driver import ingest
from tests.support.job_topics import copied, files_of, make_topic
from tests.support.logs import TIME
from tests.unit.inspection.test_reindex import BUILT, built, recovered
from tidelog.disk.log_directory import LogDirectory
from tidelog.errors import JobFailedError
from tidelog.spark import jobs
from tidelog.store.staging import STAGED_SUFFIX
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 1500
INGESTED_ROWS = 400_000


def staged_names(root: Path) -> list[str]:
    """What lies in the staging directories beside the store."""
    return [path.name for folder in root.glob(".store.tidelog-staging-*") for path in folder.glob("*")]


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A store, and its files as an undisturbed compaction leaves them."""
    return make_stores(tmp_path)


def make_stores(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    compacted_locally(copied(tmp_path / "store", tmp_path / "expected"), LATER)
    return tmp_path / "store", files_of(tmp_path / "expected")


@pytest.mark.slow
def test_a_compaction_whose_workers_are_killed_changes_nothing_and_the_next_run_does_it(
    session_to_break: SharedSession, stores: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    store, expected = stores
    before = {name: data for name, data in files_of(store).items() if name.endswith(".log")}
    with (
        WorkerKiller(lambda: any("-keys-" in name for name in staged_names(tmp_path))) as killer,
        pytest.raises(JobFailedError) as raised,
    ):
        jobs.compact(session_to_break.get(), store, now_ms=LATER, piece_bytes=PIECE_BYTES)
    assert killer.killed
    assert "tidelog compact" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert {name: data for name, data in files_of(store).items() if name.endswith(".log")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "store"]
    result = jobs.compact(session_to_break.renewed(), store, roll=True, now_ms=LATER, piece_bytes=PIECE_BYTES)
    assert result.failures == ()
    assert files_of(store) == expected


@pytest.mark.slow
def test_a_copy_whose_workers_are_killed_leaves_nothing_and_the_next_run_does_it(session_to_break: SharedSession, tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    with (
        WorkerKiller(lambda: any("-copy-" in path.name for path in tmp_path.glob(".copy.tidelog-staging-*/*"))) as killer,
        pytest.raises(JobFailedError) as raised,
    ):
        jobs.copy(session_to_break.get(), tmp_path / "store", tmp_path / "copy", piece_bytes=PIECE_BYTES)
    assert killer.killed
    assert "copy batches" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    done = jobs.copy(session_to_break.renewed(), tmp_path / "store", tmp_path / "copy")
    assert done.records == sum(map(len, rows_of(tmp_path / "store").values()))


def test_an_export_whose_workers_are_killed_leaves_nothing(session_to_break: SharedSession, tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    with (
        WorkerKiller(lambda: any(tmp_path.glob(".out.tidelog-staging-*/*-*.json"))) as killer,
        pytest.raises(JobFailedError, match="tidelog export tide: write files"),
    ):
        jobs.export(session_to_break.get(), tmp_path / "store", "tide", tmp_path / "out", format="json", piece_bytes=700)
    assert killer.killed
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["-keys-", "-kept-", "-unit-", ".log.cleaned", ".log.swap"])
def test_a_killed_driver_is_followed_by_one_that_finishes(step: str, spark: "SparkSession", tmp_path: Path) -> None:
    """Up to the commit nothing was changed. One that was cut off is finished, as it was decided, by whoever opens the store next."""
    store, expected = make_stores(tmp_path)
    is_in_commit = step.startswith(".")
    command = [sys.executable, "-m", "tests.spark.jobs.compact_process", str(store), str(LATER), str(PIECE_BYTES)]
    command += [step] * is_in_commit
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert driver.stdout is not None

    def is_there() -> bool:
        return any(step in name for name in staged_names(tmp_path)) or driver.poll() is not None

    assert driver.stdout.readline() == "ready\n"
    if not is_in_commit:
        assert wait_for(is_there)
        os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL
    if is_in_commit:
        assert any(path.suffix in (".cleaned", ".swap") for path in store.glob("*/*"))
        assert any(name.startswith("commit-") for name in staged_names(tmp_path))
    result = jobs.compact(spark, store, roll=True, now_ms=LATER, piece_bytes=PIECE_BYTES)
    assert result.failures == ()
    found = files_of(store)
    assert {name: data for name, data in found.items() if name.endswith(".log")} == {
        name: data for name, data in expected.items() if name.endswith(".log")
    }
    assert found.keys() == expected.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "store"]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "count"), [(".index.tmp", 1), (".timeindex.tmp", 3), (".snapshot.tmp", 1)])
def test_a_killed_reindex_has_built_some_and_the_next_run_builds_the_rest(
    ending: str, count: int, spark: "SparkSession", tmp_path: Path
) -> None:
    make_topic(tmp_path / "store")
    expected = recovered(tmp_path / "store", tmp_path / "recovered")
    store = tmp_path / "store"
    for path in (store / "tide-0").iterdir():
        if path.suffix in BUILT:
            path.unlink()
    logs = {name: data for name, data in files_of(store).items() if name.endswith(".log")}
    kill_at("reindex", store, ending=ending, count=count, how="spark")
    assert built(store / "tide-0") != expected
    done = jobs.reindex(spark, store, now_ms=TIME)
    assert done.failures == ()
    assert built(store / "tide-0") == expected
    assert {name: data for name, data in files_of(store).items() if name.endswith(".log")} == logs
    assert [name for name in files_of(store) if name.endswith(".tmp")] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recovered", "store"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["tasks", "commit", "report"])
def test_a_killed_ingest_is_made_again_and_every_row_is_there_once(step: str, spark: "SparkSession", tmp_path: Path) -> None:
    """With all processes of its driver: while tasks write, while the commit has the store, and when the commit has left its report."""
    data = tmp_path / "store"
    with Store.open(data, background=False) as store:
        store.create_topic("t", 2)
    driver = Driver("ingest", data, str(INGESTED_ROWS))

    def is_there() -> bool:
        if driver.process.poll() is not None:
            return True
        if step == "commit":
            return LogDirectory.find_owner(str(data)) is not None
        ending = STAGED_SUFFIX if step == "tasks" else "committed.json"
        return any(name.endswith(ending) for name in staged_names(tmp_path))

    try:
        driver.wait_for("ready")
        assert wait_for(is_there)
        driver.kill()
    finally:
        driver.end()
    if step != "report":  # it is over very soon after that
        assert driver.process.returncode == -signal.SIGKILL
    done = ingest(spark, str(data), str(INGESTED_ROWS))
    assert done.records == INGESTED_ROWS
    if step != "commit":
        assert done.was_there_already == (step == "report")
    found = [int(record[1] or b"") for partition, rows in rows_of(data, "committed").items() if partition.topic == "t" for record in rows]
    assert sorted(found) == list(range(INGESTED_ROWS))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
