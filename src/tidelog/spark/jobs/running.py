"""Run the tasks of a job on executors: functions of small values, whose answers come back to the driver.

A task is pickled, and becomes one Spark task: of an RDD, which needs no planning, or of `mapInArrow` where there are none (Spark Connect).
Few bytes of tasks go with the function, which is the quickest; many are shared out, so that nobody holds all of them. Only answers cross
to the JVM, in rows of at most `ROW_BYTES`; what is large goes through files in the staging directory of the job, which all executors
share. An attempt gets a name that no other attempt has, so that it may die, run twice or speculate: what it wrote counts only if its
answer came back.

Where there is a `sparkContext` each stage has a description that people understand, and is a job group, unless the caller has one: who
cancels that, as a stream that is stopped does, means what is done for it too. Spark Connect has neither, and does without.
"""

import itertools
import logging
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidelog.disk.disk import OS
from tidelog.disk.process_identity import ProcessIdentity
from tidelog.errors import JobFailedError
from tidelog.log.storage_errors import typed_refusals
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.progress import progress_of
from tidelog.spark.jobs.task_errors import typed_error
from tidelog.store.staging import Staging, sweep_staging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ROW_BYTES = 8 << 20
SENT_WITH_FUNCTION_BYTES = 256 << 10
"""So many bytes of tasks, all together, may every executor have: Spark would broadcast more."""
_logger = logging.getLogger(__name__)
_SCHEMA = "task long, part int, answer binary"
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_numbers = itertools.count(1)

Work = Callable[[Any, str], Any]
"""A function of a module, so that it can be found by its name: it gets a task, and how the paths of its files begin."""


class SparkTasks:
    """Runs tasks of one job. `job` is how people call it: "compact emails"."""

    def __init__(self, spark: "SparkSession", job: str, *, staging: Staging | None = None, progress: bool | None = None) -> None:
        self.spark = spark
        self.job = job
        self.staging = staging
        self.workers = workers_of(spark)
        self.stages: list[tuple[str, int]] = []
        """What was run, and in how many tasks."""
        self._shows_progress = progress

    def run(self, what: str, function: Work, tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        """The answers to all tasks, in their order; what is little is done `here`. What a task raises in the end is raised, typed."""
        if not tasks:
            return []
        if here:
            return [
                do_task(function, task, self.staging, f"driver-{os.getpid()}-{what.replace(' ', '-')}-{n}") for n, task in enumerate(tasks)
            ]
        self.stages.append((what, len(tasks)))
        description = f"tidelog {self.job}: {what}"
        pickled = [pickle.dumps(task) for task in tasks]
        try:
            with named(self.spark, description) as watched, progress_of(description, watched, len(tasks), asked=self._shows_progress):
                rows = _collected(self.spark, _Worker(function, self.staging), pickled)
        except Exception as error:
            raise typed_error(error, description) from error
        return _answers(rows, len(tasks))


class _Worker:
    """What executors run: pickled with everything it needs."""

    def __init__(self, function: Work, staging: Staging | None, tasks: Sequence[bytes] = ()) -> None:
        self._function = function
        self._staging = staging
        self._tasks = tasks

    def with_tasks(self, tasks: Sequence[bytes]) -> "_Worker":
        """The same, with all tasks in it."""
        return _Worker(self._function, self._staging, tasks)

    def numbered(self, numbers: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
        """The answers of tasks that came along."""
        return self.rows((number, self._tasks[number]) for number in numbers)

    def rows(self, tasks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
        """The answers of tasks, in parts."""
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = f"{context.stageId()}-{context.taskAttemptId()}" if context is not None else f"p{os.getpid()}"
        for number, task in tasks:
            answer = pickle.dumps(do_task(self._function, pickle.loads(task), self._staging, attempt))  # noqa: S301
            for part, start in enumerate(range(0, len(answer), ROW_BYTES)):
                yield number, part, answer[start : start + ROW_BYTES]

    def batches(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The same as `mapInArrow` has it."""
        import pyarrow as pa

        types = (pa.int64(), pa.int32(), pa.binary())
        for row in self.numbered(number for batch in batches for number in batch.column(0).to_pylist()):
            arrays = [pa.array([fact], kind) for fact, kind in zip(row, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["task", "part", "answer"])


@contextmanager
def staged(data_directory: str, *, within: str | None = None) -> Iterator[Staging]:
    """A staging directory for a job, which goes when the job is over, however that ends. Those of killed drivers are swept before."""
    sweep_staging(OS, [data_directory], wall_clock(), within=within)
    staging = Staging.make(OS, data_directory, ProcessIdentity.of(os.getpid()), within=within)
    try:
        yield staging
    finally:
        try:
            staging.discard(OS)
        except OSError as error:  # of a file that a late task has open: what the job has done is done, and an error of its own goes first
            _logger.warning("what a job had staged could not be removed yet: %s: %s", staging.path, error)


def workers_of(spark: "SparkSession") -> int:
    """How many tasks run at a time, as far as the session tells."""
    context = context_of(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    said = spark.conf.get("spark.default.parallelism", None)
    return int(said) if said and said.isdigit() else max(2, os.cpu_count() or 2)


def context_of(spark: "SparkSession") -> "SparkContext | None":
    """The context of a session; None of one that is connected to a server."""
    try:
        return spark.sparkContext
    except Exception:  # Spark Connect refuses by an error of its own
        return None


READ_ONCE_BYTES = 1 << 30
"""The most for a task that keeps nothing of what it reads: some tenths of a second of work, where a task costs tens of milliseconds."""


def task_bytes_for(total_bytes: int, workers: int, *, least: int = 16 << 20, most: int = 128 << 20, turns: int = 2) -> int:
    """How many bytes a task should have: all workers busy to the end, and no task so small that starting it takes longer than its work.

    Each worker gets some `turns`, so that one that is slow has fewer.
    """
    return max(least, min(most, -(-total_bytes // (turns * max(1, workers)))))


def read_once_bytes_for(total_bytes: int, workers: int) -> int:
    """The same for tasks that keep nothing of what they read: little work is not worth a second turn."""
    return task_bytes_for(total_bytes, workers, most=READ_ONCE_BYTES, turns=1)


def fair_share(total_bytes: int, workers: int, task_bytes: int) -> int:
    """What is not larger than that need not be cut: there is enough besides to keep all workers busy.

    A quarter more than an even share, so that partitions which are all alike are not cut for the few bytes in which they differ.
    """
    return max(task_bytes, 5 * total_bytes // (8 * max(1, workers)))


def do_task(function: Work, task: Any, staging: Staging | None, attempt: str) -> Any:
    """Do one task, wherever that is: `attempt` is how the names of its files begin, and no other attempt's do."""
    with typed_refusals(None if staging is None else staging.path, "a task failed"):
        if staging is None:
            return function(task, "")
        staging.check(OS)
        return function(task, staging.file(attempt))


def check_gone(directory: str, job: str) -> None:
    """Raise if a log that a task did not find is here all the same: its executor sees another disk, and nobody has looked at the log."""
    if OS.exists(directory):
        raise JobFailedError(
            f"{job}: an executor does not find this directory, which is here",
            path=directory,
            hint="the data directory has to be on a file system that the driver and all executors share, under the same path",
        )


def _collected(spark: "SparkSession", worker: _Worker, tasks: Sequence[bytes]) -> list[Any]:
    context, count = context_of(spark), len(tasks)
    if context is not None and sum(map(len, tasks)) > SENT_WITH_FUNCTION_BYTES:
        return context.parallelize(list(enumerate(tasks)), count).mapPartitions(worker.rows).collect()
    along = worker.with_tasks(tasks)
    if context is not None:
        return context.parallelize(range(count), count).mapPartitions(along.numbered).collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark about the version of pandas, which is not used here
        frame = spark.range(0, count, 1, count).mapInArrow(along.batches, _SCHEMA)
        return frame.collect()


def _answers(rows: Sequence[Any], count: int) -> list[Any]:
    parts: dict[int, dict[int, bytes]] = {number: {} for number in range(count)}
    for number, part, answer in rows:
        parts[number][part] = bytes(answer)
    return [pickle.loads(b"".join(own[part] for part in sorted(own))) for own in parts.values()]  # noqa: S301 - our own workers


@contextmanager
def named(spark: "SparkSession", description: str) -> "Iterator[tuple[SparkContext, str] | None]":
    """Give the Spark jobs of this thread a description while it lasts, and a group if they have none; cancel them if it is interrupted."""
    context = context_of(spark)
    if context is None:
        yield None
        return
    before = [(name, context.getLocalProperty(name)) for name in _GROUP_PROPERTIES]
    own = f"tidelog-{os.getpid()}-{next(_numbers)}"
    group = before[0][1]
    if group is None:
        group = own
        context.setJobGroup(group, description, True)
    else:
        context.setJobDescription(description)
    context.addJobTag(own)
    try:
        yield context, group
    except BaseException as error:
        if not isinstance(error, Exception):
            context.cancelJobsWithTag(own)  # not the group: the caller may have other jobs in it
        raise
    finally:
        context.removeJobTag(own)
        for name, value in before:
            context.setLocalProperty(name, value)  # type: ignore[arg-type]
