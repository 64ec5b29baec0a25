"""kill -9 of workers and of the driver: whoever runs the job again gets the very same files, and nothing is left over."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.jobs.test_compact import LATER, compacted_locally
from tests.support.job_topics import copied, files_of, make_topic
from tidelog.errors import JobFailedError
from tidelog.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 1500


def staged_names(root: Path) -> list[str]:
    """What lies in the staging directories beside the store."""
    return [path.name for folder in root.glob(".store.tidelog-staging-*") for path in folder.glob("*")]


def wait_for(check: Callable[[], bool], timeout_s: float = 120) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.001)
    return False


def let_spark_recover(spark: "SparkSession") -> None:
    """Spark replaces a daemon whose forks die, and fails the next query that needs only some rows, by what it knows of the old one."""

    def as_they_are(batches: "Iterator[Any]") -> "Iterator[Any]":
        yield from batches

    done = 0
    for _ in range(30):
        try:
            spark.range(0, 100_000, 1, 2).mapInArrow(as_they_are, "id long").limit(1).collect()
            done += 1
        except Exception:
            done = 0
        if done == 3:
            return


def python_workers() -> list[int]:
    """Processes of ours that run tasks: forked by a daemon of PySpark, which a Java below us has started."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue

    def is_daemon(command: str) -> bool:
        return any(name in command for name in ("pyspark.daemon", "tidelog.spark.worker_daemon"))

    def is_ours(pid: int) -> bool:
        while pid > 1:
            if pid == os.getpid():
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid, command in commands.items() if is_daemon(command) and is_ours(pid) and is_daemon(commands.get(parents[pid], ""))]


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A store, and its files as an undisturbed compaction leaves them."""
    return make_stores(tmp_path)


def make_stores(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    compacted_locally(copied(tmp_path / "store", tmp_path / "expected"), LATER)
    return tmp_path / "store", files_of(tmp_path / "expected")


@pytest.mark.slow
def test_a_killed_worker_leaves_nothing_and_the_next_run_does_it(
    spark: "SparkSession", stores: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    store, expected = stores
    before = {name: data for name, data in files_of(store).items() if name.endswith(".log")}
    killed: list[int] = []

    def kill() -> None:
        if wait_for(lambda: any("-keys-" in name for name in staged_names(tmp_path))):
            for pid in python_workers():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(JobFailedError) as raised:
        jobs.compact(spark, store, now_ms=LATER, piece_bytes=PIECE_BYTES)
    killer.join()
    let_spark_recover(spark)
    assert killed
    assert "tidelog compact" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert {name: data for name, data in files_of(store).items() if name.endswith(".log")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "store"]
    result = jobs.compact(spark, store, roll=True, now_ms=LATER, piece_bytes=PIECE_BYTES)
    assert result.failures == ()
    assert files_of(store) == expected


@pytest.mark.slow
@pytest.mark.parametrize("step", ["-keys-", "-kept-", "-unit-", ".log.cleaned", ".log.swap"])
def test_a_killed_driver_is_followed_by_one_that_finishes(step: str, spark: "SparkSession", tmp_path: Path) -> None:
    """Up to the commit nothing was changed. One that was cut off has cleaned some groups, and the next run cleans all of them: then the
    outcome is that of the local cleaner, run over the same half-cleaned store."""
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
        compacted_locally(copied(store, tmp_path / "again"), LATER)
        expected = files_of(tmp_path / "again")
    result = jobs.compact(spark, store, roll=True, now_ms=LATER, piece_bytes=PIECE_BYTES)
    assert result.failures == ()
    found = files_of(store)
    assert {name: data for name, data in found.items() if name.endswith(".log")} == {
        name: data for name, data in expected.items() if name.endswith(".log")
    }
    assert found.keys() == expected.keys()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "again") == ["expected", "store"]
