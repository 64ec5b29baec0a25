"""A driver of its own on the cluster, which dies by kill -9 at a step of a job: all of its processes, and none of the executors.

    stage:hash keys       the first task runs twice: its first attempt waits before its work, the copy of it after. Then the driver dies
    frame                 the same of a job whose executors run a DataFrame
    rename:.log.swap:2    at the second rename of a file with that ending
    report                when a commit has left its report, before anybody has read it
    never                 somebody else kills it

The first attempt has left the group of processes that ends with its executor, as one on a machine that hangs would: when it is let go, long
after its driver, it does its work all the same, and notes how that has ended. Each works by value: executors know nothing of this module.

Arguments, as JSON: master, settings, job, store, place, step, notes.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.jobs_to_kill import run
from tidelog.disk.disk import Disk
from tidelog.spark import session
from tidelog.spark.jobs import ingest_job
from tidelog.spark.jobs.running import SparkTasks, Work

if TYPE_CHECKING:
    import pyarrow as pa

PATIENCE_S = 300.0
"""How long anybody waits to be killed or let go: longer than any machine takes for the rest."""
WAITS, COPIED, GO_ON, LATE = "first-waits", "copy-worked", "go-on", "late"
"""What attempts note: that the first one waits, that the copy has done its work; what lets both go on; and how it ended for the first."""

Held = Callable[[Callable[[], Any]], Any]


def die() -> None:
    """Everything in this process group goes by kill -9: Spark's JVM too, and the Python below it when that has noticed."""
    os.killpg(0, signal.SIGKILL)


def held_at(notes: str) -> Held:
    """Do the work of a task, held up if it is one of the two attempts of the first."""
    patience_s, waits, copied, go_on, late = PATIENCE_S, WAITS, COPIED, GO_ON, LATE

    def held(work: Callable[[], Any]) -> Any:  # in here, so that it goes to executors by value
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None

        def wait() -> None:
            end = time.monotonic() + patience_s
            while not Path(notes, go_on).exists() and time.monotonic() < end:
                time.sleep(0.02)

        if context.partitionId() != 0:
            return work()
        if context.attemptNumber() > 0:
            answer = work()
            Path(notes, copied).touch()
            wait()
            return answer
        os.setpgid(0, 0)
        Path(notes, waits).touch()
        wait()
        how = "done"
        try:
            answer = work()
            errors = [one for one in answer if isinstance(one, Exception)] if isinstance(answer, list) else []
            how = f"answered by {errors[0]}" if errors else how
            return answer
        except BaseException as error:
            how = f"{type(error).__name__}: {error}"
            raise
        finally:
            Path(notes, f"{late}.tmp").write_text(f"{os.getpid()} {how}")
            Path(notes, f"{late}.tmp").rename(Path(notes, late))

    return held


def die_when_the_copy_has_worked(notes: str) -> None:
    """In a thread: both attempts are there then."""

    def look_on() -> None:
        while not (Path(notes, WAITS).exists() and Path(notes, COPIED).exists()):
            time.sleep(0.005)
        die()

    threading.Thread(target=look_on, daemon=True).start()


def hold_stage(stage: str, notes: str) -> None:
    """Of a job that shares out tasks. What is done on the driver is done, and then it dies."""
    run_tasks = SparkTasks.run

    def run_or_die(self: SparkTasks, what: str, function: Work, tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        if what != stage:
            return run_tasks(self, what, function, tasks, here=here)
        if here:
            run_tasks(self, what, function, tasks, here=True)
            die()
        held = held_at(notes)

        def work(task: Any, prefix: str) -> Any:
            return held(lambda: function(task, prefix))

        die_when_the_copy_has_worked(notes)
        return run_tasks(self, what, work, tasks)

    SparkTasks.run = run_or_die  # type: ignore[method-assign]


def hold_frame(notes: str) -> None:
    """Of a job whose executors run a function of Arrow batches."""
    from pyspark.sql.classic.dataframe import DataFrame

    map_in_arrow = DataFrame.mapInArrow

    def hold_and_map(self: DataFrame, function: Any, schema: Any, *more: Any, **options: Any) -> Any:
        held = held_at(notes)

        def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            yield from held(lambda: list(function(batches)))

        die_when_the_copy_has_worked(notes)
        return map_in_arrow(self, work, schema, *more, **options)

    DataFrame.mapInArrow = hold_and_map  # type: ignore[method-assign,assignment]


def die_at_rename(ending: str, count: int) -> None:
    """Of what the driver renames."""
    rename = Disk.rename
    seen = 0

    def rename_or_die(disk: Disk, source: str, target: str) -> None:
        nonlocal seen
        seen += source.endswith(ending)
        if seen == count:
            die()
        rename(disk, source, target)

    Disk.rename = rename_or_die  # type: ignore[method-assign,assignment]


def arm(step: str, notes: str) -> None:
    """Make it die there."""
    match step.split(":"):
        case ["stage", stage]:
            hold_stage(stage, notes)
        case ["frame"]:
            hold_frame(notes)
        case ["rename", ending, count]:
            die_at_rename(ending, int(count))
        case ["report"]:
            ingest_job.read_report = lambda *_: die()  # type: ignore[attr-defined]
        case ["never"]:
            pass
        case _:
            raise ValueError(step)


def main() -> None:
    """Until it dies: who has got through waits to be killed, so that nobody is too late for it."""
    asked = json.loads(sys.argv[1])
    spark = session("tidelog driver to kill", asked["master"], asked["settings"], memory="512m")
    arm(asked["step"], asked["notes"])
    print("ready", flush=True)  # noqa: T201 - for who waits
    run(spark, asked["job"], Path(asked["store"]), Path(asked["place"]))
    print("done", flush=True)  # noqa: T201
    time.sleep(PATIENCE_S)


if __name__ == "__main__":
    main()
