"""`export`: the records of topics as files that others read: Parquet, lines of JSON, CSV; Delta and Iceberg where their packages are.

    plan      partitions and splits, from indexes
    write     each task writes its records into staged files beside the target, without the JVM
    commit    the driver moves them into folders, notes that all are there (`_SUCCESS`), and renames the whole to the target: one step

So the target is there with everything, or it is not there. One that exists is never touched. Nothing is locked.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.disk import OS
from tidelog.errors import StorageError
from tidelog.log.positions import EARLIEST, LATEST
from tidelog.log.storage_errors import typed_refusals
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.export_plan import ExportOptions
from tidelog.spark.jobs.export_work import ExportItem, write_task
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.record_lines import BytesAs
from tidelog.spark.jobs.running import SparkTasks, staged
from tidelog.spark.jobs.table_formats import check_path, note_delta, note_iceberg
from tidelog.spark.jobs.topic_plan import Directory, Positions, TopicPlan, directory_path, plan_topics, topic_names
from tidelog.store.staging import sweep_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.log.log_reading import Isolation
    from tidelog.spark.jobs.part_files import PartFile

SUCCESS = "_SUCCESS"
_TREE = "tree"
_SCHEMA = "path string, topic string, records long, size_bytes long"


class ExportedFile(NamedTuple):
    """A file of an export."""

    path: str
    """Below the target."""
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has written; of a dry run, what it would read."""

    target: str
    options: ExportOptions
    dry_run: bool
    plan: TopicPlan
    files: tuple[ExportedFile, ...]
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""

    @property
    def records(self) -> int:
        """In all files."""
        return sum(file.records for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        if self.dry_run:
            return f"{self.plan}\nwould be written to {self.target} as {self.options.format}"
        return f"{self.target}: {self.records} records in {len(self.files)} files of {self.options.format}, {self.size_bytes} bytes"


@dataclass(frozen=True, slots=True)
class ExportResult(Exported):
    """The same, with a row for each file."""

    details: "DataFrame" = field(repr=False, compare=False)


def export(
    spark: "SparkSession",
    directory: Directory,
    topics: Sequence[str] | str | None,
    target: str | PathLike[str],
    *,
    format: str = "parquet",  # noqa: A002 - the word for it
    columns: Sequence[str] | None = None,
    start: Positions = EARLIEST,
    end: Positions = LATEST,
    isolation: "Isolation" = "committed",
    partition_by: Sequence[str] | str | None = ("topic", "date"),
    compression: str | None = None,
    bytes_as: BytesAs = "base64",
    dry_run: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> ExportResult:
    """Write the records of topics, or of all, as files into a new directory that the driver and all executors share.

    From `start` up to, not including, `end`: offsets, times or the ends, for all or by partition. Files lie in folders as Hive has them,
    `topic=emails/date=2026-01-31/`, by `partition_by`; dates are those of the timestamps, in UTC. Lines of JSON are those of `cat --json`.
    """
    names = topic_names(topics)
    tasks = SparkTasks(spark, f"export {', '.join(names) if names else directory_path(directory)}", progress=progress)
    options = ExportOptions.of(format, columns, partition_by, compression, bytes_as, isolation)
    done = run_export(tasks, directory, topics, target, options, start=start, end=end, dry_run=dry_run, piece_bytes=piece_bytes)
    rows = [(file.path, _topic_of(file.path, done.plan), file.records, file.size_bytes) for file in done.files]
    details = details_frame(spark, rows, _SCHEMA)
    return ExportResult(done.target, options, dry_run, done.plan, done.files, done.stages, details)


def run_export(
    tasks: Tasks,
    directory: Directory,
    topics: Sequence[str] | str | None,
    target: str | PathLike[str],
    options: ExportOptions,
    *,
    start: Positions = EARLIEST,
    end: Positions = LATEST,
    dry_run: bool = False,
    piece_bytes: int | None = None,
) -> Exported:
    """The same by any tasks: needs no Spark."""
    path = str(Path(target).resolve())
    check_target(path)
    check_path(path, options.format)
    plan = plan_topics(directory, topics, workers=tasks.workers, start=start, end=end, isolation=options.isolation, piece_bytes=piece_bytes)
    check_outside(path, plan)
    if dry_run:
        return Exported(path, options, True, plan, (), tuple(tasks.stages))
    sweep_staging(OS, [path], wall_clock())
    with staged(path) as made:
        tasks.staging = made
        written = tasks.run("write files", write_task, [ExportItem(splits, options) for splits in plan.tasks])
        files = _commit(made.file(_TREE), path, options, written)
    return Exported(path, options, False, plan, files, tuple(tasks.stages))


def check_target(path: str) -> None:
    """Raise if something is there already."""
    if OS.exists(path):
        error = StorageError("the target is there already", path=path, hint="an export never overwrites: name a new directory")
        error.errno = errno.EEXIST
        raise error


def check_outside(path: str, plan: TopicPlan) -> None:
    """Raise if the target would lie in a data directory: a broker does not start on one with a folder that it does not know."""
    for home in {Path(one.source.directory).parent for one in plan.partitions}:
        if Path(path).is_relative_to(home):
            raise StorageError("the target lies in the data directory", path=path, expected=f"a path outside of {home}", found=path)


def _commit(tree: str, target: str, options: ExportOptions, written: "Sequence[Sequence[PartFile]]") -> tuple[ExportedFile, ...]:
    """Put the files where they belong, all of it under the target's name in one step."""
    with typed_refusals(target, "putting the files in their place failed; it is not there"):
        return _put_in_place(tree, target, options, written)


def _put_in_place(tree: str, target: str, options: ExportOptions, written: "Sequence[Sequence[PartFile]]") -> tuple[ExportedFile, ...]:
    OS.make_directory(tree)
    files = []
    for task, parts in enumerate(written):
        for number, part in enumerate(parts):
            name = f"part-{task:05d}-{number:03d}{options.suffix}"
            path = f"{part.folder}/{name}" if part.folder else name
            OS.make_directory(f"{tree}/{part.folder}" if part.folder else tree)
            OS.rename(part.path, f"{tree}/{path}")
            files.append(ExportedFile(path, part.records, part.size_bytes))
    if options.format == "delta":
        note_delta(tree, options, files)
    if options.format != "iceberg":
        OS.close(OS.create(f"{tree}/{SUCCESS}"))
    check_target(target)
    OS.rename(tree, target)
    if options.format == "iceberg":
        try:
            note_iceberg(target, options, files)
            OS.close(OS.create(f"{target}/{SUCCESS}"))
        except BaseException:
            OS.rename(target, tree)  # what is staged goes with the job
            raise
    OS.sync_directory(target.rpartition("/")[0] or "/")
    return tuple(files)


def _topic_of(path: str, plan: TopicPlan) -> str | None:
    """The topic of a file, if its folder or the plan says it."""
    for part in path.split("/")[:-1]:
        if part.startswith("topic="):
            return part.removeprefix("topic=")
    return plan.topics[0] if len(plan.topics) == 1 else None
