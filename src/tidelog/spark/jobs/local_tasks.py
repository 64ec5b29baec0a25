"""The tasks of a job in this process, one behind the other: for who has no Spark, or so little data that starting it would take longer.

A job is written against `Tasks`, and does the same work by the same functions on executors and here.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from tidelog.spark.jobs.running import Work, do_task
from tidelog.store.staging import Staging


class Tasks(Protocol):
    """What runs the tasks of one job: `SparkTasks`, or `LocalTasks`."""

    job: str
    staging: Staging | None
    workers: int
    stages: list[tuple[str, int]]

    def run(self, what: str, function: Work, tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        """The answers to all tasks, in their order."""
        ...


class LocalTasks:
    """Runs tasks here. `job` is how people call it: "export emails"."""

    def __init__(self, job: str, *, staging: Staging | None = None, progress: bool | None = None) -> None:
        self.job = job
        self.staging = staging
        self.workers = 1
        self.stages: list[tuple[str, int]] = []
        """What was run, and in how many tasks."""
        self._shows_progress = sys.stderr.isatty() if progress is None else progress

    def run(self, what: str, function: Work, tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        """The answers to all tasks, in their order. What a task raises is raised as it is."""
        if not tasks:
            return []
        if not here:
            self.stages.append((what, len(tasks)))
        answers = []
        for number, task in enumerate(tasks):
            answers.append(do_task(function, task, self.staging, f"local-{os.getpid()}-{what.replace(' ', '-')}-{number}"))
            if self._shows_progress and not here:
                sys.stderr.write(f"\r{self.job}: {what} {number + 1}/{len(tasks)}" + ("\n" if number + 1 == len(tasks) else ""))
                sys.stderr.flush()
        return answers
