"""`--spark [MASTER]`: the same work by the executors of Spark. PySpark is loaded here, and nowhere else in the command line.

The layers keep the command line and the jobs apart, so that neither needs the other: they are found by their names, when somebody asks.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from tidelog.cli.output import is_debugging, is_quiet
from tidelog.cli.sources import reading_disk
from tidelog.errors import InvalidConfigError, JobFailedError, TidelogError

_CONNECT, _LOCAL = "sc://", "local"
_STDERR = 2


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """A session on a master: the one that runs in this process already, or a new one, which is stopped in the end."""
    sessions = import_module("tidelog.spark.sessions")
    sessions.check_packages()
    running = import_module("pyspark.sql").SparkSession.getActiveSession()
    if running is not None:
        yield sessions.session()
        return
    with warnings.catch_warnings():
        if not is_debugging():
            warnings.simplefilter("ignore")  # PySpark about the versions of others
        started = _start(sessions, master)
        try:
            yield started
        finally:
            started.stop()


def _start(sessions: Any, master: str) -> Any:
    remote = master if master.startswith(_CONNECT) else None
    if master.startswith(_LOCAL):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else is to talk to it
    try:
        with nullcontext() if is_debugging() else _without_chatter():
            return sessions.session("tidelog", "local[*]" if remote else master, remote=remote)
    except TidelogError:
        raise
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise JobFailedError(
            f"Spark does not start on {master}: {first}", hint="is the master right? --debug shows what it says"
        ) from error


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Java inherits a stderr that leads nowhere: it greets with ten lines of its own. What goes wrong in tasks comes back as an error."""
    sys.stderr.flush()
    kept, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(nowhere)


def job(name: str) -> Any:
    """A job by its name; see `tidelog.spark.jobs`."""
    return getattr(import_module("tidelog.spark.jobs"), name)


def job_module(name: str) -> Any:
    """The module of a job: what it does by any tasks, with and without Spark."""
    return import_module(f"tidelog.spark.jobs.{name}_job")


@contextmanager
def tasks_for(
    master: str | None, title: str, staged_beside: str | None = None, *, io_limit: str | None = None, total_bytes: int | None = None
) -> Iterator[Any]:
    """What runs the tasks of a job: this process, or the executors of a master. What they write is staged beside a path.

    How far this process is, is told by what it reads, of `total_bytes`; with a limit it keeps to that. Of executors none is taken.
    """
    if master is not None:
        refuse_io_limit(io_limit)
    running = import_module("tidelog.spark.jobs.running")
    with ExitStack() as stack:
        if master is None:
            disk = stack.enter_context(reading_disk(title, io_limit, total_bytes=total_bytes))
            stack.enter_context(import_module("tidelog.disk.file_pool").SHARED.reading_by(disk))
        staging = None if staged_beside is None else stack.enter_context(running.staged(staged_beside))
        if master is None:
            local = import_module("tidelog.spark.jobs.local_tasks")
            yield local.LocalTasks(title, staging=staging, progress=False)
        else:
            session = stack.enter_context(spark_session(master))
            yield running.SparkTasks(session, title, staging=staging, progress=shows_progress())


def shows_progress() -> bool | None:
    """Whether a job tells how far it is: where stderr is a terminal, unless `-q` was given."""
    return False if is_quiet() else None


def refuse_io_limit(io_limit: str | None) -> None:
    """Executors are other processes: what they read is nothing that we could slow down."""
    if io_limit is not None:
        raise InvalidConfigError("--io-limit is about what this process reads, not about Spark's executors", hint="leave out one of them")
