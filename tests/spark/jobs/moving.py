"""What tests of `copy`, `restore` and `forget` share: the jobs without Spark, and what records a store has."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tidelog
from tidelog.disk.names import TopicPartition
from tidelog.inspection.verify_log_directory import verify_log_directory
from tidelog.spark.jobs.copy_job import CopyOptions, CopyOutcome, run_copy
from tidelog.spark.jobs.forget_job import ForgetOptions, ForgetOutcome, run_forget
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.restore_job import RestoreOutcome, run_restore
from tidelog.spark.jobs.running import staged
from tidelog.store.copy_plan import Until, UntilPoint
from tidelog.store.key_match import KeyMatch, Keys
from tidelog.store.store import Store

PIECE_BYTES = 6000
Rows = list[tuple[int, bytes | None, bytes | None, int]]


def copy_here(
    source: Path | Sequence[Path],
    target: Path,
    topics: Sequence[str] | None = None,
    *,
    until: Until = None,
    keys: Keys | None = None,
    past_stable: bool = False,
    cluster_metadata: bool = False,
    into_broker: bool = False,
    piece_bytes: int = PIECE_BYTES,
) -> CopyOutcome:
    """`jobs.copy` in this process."""
    match = None if keys is None else KeyMatch.of(keys)
    options = CopyOptions(UntilPoint.of(until), match, past_stable, cluster_metadata, piece_bytes)
    with staged(str(target)) as made:
        tasks = LocalTasks("copy", staging=made)
        return run_copy(tasks, source, str(target.resolve()), topics, options, into_broker=into_broker)


def restore_here(backup: Path | Sequence[Path], target: Path, *, until: Until = None, **options: Any) -> RestoreOutcome:
    """`jobs.restore` in this process."""
    with staged(str(target)) as made:
        tasks = LocalTasks("restore", staging=made)
        return run_restore(tasks, backup, str(target.resolve()), None, UntilPoint.of(until), **({"piece_bytes": PIECE_BYTES} | options))


def forget_here(
    directory: Path, keys: Sequence[bytes], topics: Sequence[str] = ("tide",), *, clock: Any = None, **options: Any
) -> ForgetOutcome:
    """`jobs.forget` in this process."""
    with Store.open(directory, background=False, clock=clock) as store, staged(str(directory)) as made:
        tasks = LocalTasks("forget", staging=made)
        return run_forget(tasks, store, topics, frozenset(keys), ForgetOptions(**({"piece_bytes": PIECE_BYTES} | options)))


def rows_of(directory: Path | Sequence[Path], isolation: Any = "high_watermark") -> dict[TopicPartition, Rows]:
    """All records of a store, whoever owns it."""
    with tidelog.open(directory, mode="r") as store:
        return {
            partition: [
                (record.offset, record.key, record.value, record.timestamp_ms) for record in store.log(*partition).read(isolation=isolation)
            ]
            for topic in store.topics()
            for partition in (TopicPartition(topic.name, number) for number in topic.partition_ids())
        }


def findings(directory: Path) -> list[str]:
    """What verify says about a store, but for notes."""
    return [str(finding) for finding in verify_log_directory(directory, level="records") if finding.severity != "note"]


def kill_at(what: str, *places: Path, ending: str, count: int = 1, how: str = "local") -> None:
    """Run a job in a process of its own until it dies by kill -9, at its n-th rename of a file with an ending."""
    command = [sys.executable, "-m", "tests.spark.jobs.move_process", what, *map(str, places), ending, str(count), how]
    driver = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=180, check=False)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
