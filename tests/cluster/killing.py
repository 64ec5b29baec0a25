"""Kill a process of an executor by SIGKILL while a job runs, and tell whether it was hit.

The job runs in the thread that asks, since Spark finds data sources in Python only by the session of a thread. Another looks on: as soon as
some tasks of the job have ended and others are running, it kills the process that it is told. The job goes on, since Spark gives the tasks
to somebody else. Spark has noted whether a task was lost: if none was, nothing was shown.

The jobs of `tidelog.spark.jobs` have a group for each stage, unless the caller has one: `StageKiller` looks at stages instead.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.standalone import HOSTS, StandaloneCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEVERAL_TASKS = 3
"""Of a stage with fewer nobody can tell whether an executor has one."""
AGAIN_S = 2.0
"""Who was killed between two tasks has lost none: then again, after so long."""


@dataclass(frozen=True, slots=True)
class Killed:
    """Whom it hit, and what that cost."""

    pids: tuple[int, ...]
    lost_tasks: int


def kill_during(spark: "SparkSession", group: str, run: Callable[[], object], choose: Callable[[], list[int]], *, after: int = 2) -> Killed:
    """Run a job; when so many of its tasks have ended, kill those that `choose` names, until a task is lost by it."""
    from pyspark import InheritableThread

    pids: list[int] = []
    is_over = threading.Event()

    def look_on() -> None:
        next_s = 0.0
        while not is_over.wait(0.02) and _lost(spark, group) == 0:
            if time.monotonic() > next_s and _ended_and_active(spark, group, after):
                chosen = choose()
                for pid in chosen:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                pids.extend(chosen)
                next_s = time.monotonic() + AGAIN_S

    thread = InheritableThread(look_on)
    spark.sparkContext.setJobGroup(group, group)
    try:
        thread.start()
        run()
    finally:
        is_over.set()
        thread.join()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return Killed(tuple(pids), _lost(spark, group))


class StageKiller(threading.Thread):
    """Kills an executor in one stage of a job, counted among those with several tasks, when a task has ended and both have one.

    A stage that is over too soon is passed by, and the next one meant: whether it has hit is in `lost_tasks`.
    """

    def __init__(self, cluster: StandaloneCluster, spark: "SparkSession", number: int) -> None:
        super().__init__()
        self._cluster = cluster
        self._tracker = spark.sparkContext.statusTracker()
        self._to_pass = number - 1
        self._is_over = threading.Event()
        self._stage: int | None = None

    def run(self) -> None:
        """Look every few milliseconds, until it is done or the block is left."""
        before, begun = set(self._tracker.getActiveStageIds()), list[int]()
        while not self._is_over.wait(0.002) and self._stage is None:
            for stage in self._tracker.getActiveStageIds():
                state = self._tracker.getStageInfo(stage)
                if stage in before or state is None or state.numTasks < SEVERAL_TASKS:
                    continue
                if stage not in begun:
                    begun.append(stage)
                if len(begun) > self._to_pass and state.numCompletedTasks > 0 and state.numActiveTasks >= len(HOSTS):
                    with suppress(ProcessLookupError):
                        os.kill(self._cluster.executors()[0], signal.SIGKILL)
                    self._stage = stage
                    break

    @property
    def lost_tasks(self) -> int:
        """How many tasks of that stage have failed by it."""
        state = None if self._stage is None else self._tracker.getStageInfo(self._stage)
        return 0 if state is None else int(state.numFailedTasks)

    def __enter__(self) -> "StageKiller":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def wait_for_executors(cluster: StandaloneCluster, spark: "SparkSession") -> None:
    """Both are there, and the driver knows them: one that a test before has killed is started again, which takes a while."""
    deadline = time.monotonic() + 90
    while len(cluster.executors()) < len(HOSTS) or _known(spark) < len(HOSTS):
        assert time.monotonic() < deadline, "an executor does not come, or does not come back"
        time.sleep(0.2)


def _known(spark: "SparkSession") -> int:
    """How many executors the driver has heard of; it counts itself, too."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _stages(spark: "SparkSession", group: str) -> list[tuple[int, int, int]]:
    """Of each stage of the group, how many tasks are completed, active, failed."""
    tracker = spark.sparkContext.statusTracker()
    found = []
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            state = tracker.getStageInfo(stage)
            if state is not None:
                found.append((state.numCompletedTasks, state.numActiveTasks, state.numFailedTasks))
    return found


def _ended_and_active(spark: "SparkSession", group: str, after: int) -> bool:
    return any(completed >= after and active > 0 for completed, active, _ in _stages(spark, group))


def _lost(spark: "SparkSession", group: str) -> int:
    return sum(failed for _, _, failed in _stages(spark, group))
