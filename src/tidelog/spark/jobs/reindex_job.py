"""`reindex` by executors: all indexes and producer snapshots anew, as a recovery of the whole log would leave them.

    scan     executors read segments, and put indexes that are not right into staged files
    replay   one task a log follows its producers through all segments: transaction indexes and snapshots
    commit   the driver puts the files that differ in their places; it holds the lock of the log directory all the time

With `dry_run` the same is done without the lock and without the commit: the result says which files would change.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.disk import OS, Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import TopicPartition, parse_partition
from tidelog.errors import TidelogError
from tidelog.inspection.partition_segments import partitions_in, segments_in
from tidelog.inspection.reindex import (
    PRODUCER_EXPIRATION_MS,
    RebuiltFile,
    ReindexFacts,
    ReindexReport,
    index_files,
    reindex_facts,
    replace_with,
    replay_files,
)
from tidelog.inspection.reindex_scan import SegmentIndexed, check_settled, check_sound, indexed, scan_for_index
from tidelog.log.segment_piece import SegmentPiece, pack
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.details import Details
from tidelog.spark.jobs.running import SparkTasks, read_once_bytes_for, staged
from tidelog.store.read_only_store import ReadOnlyStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "topic string, partition int, file string, why string, outcome string"

_HERE_BYTES = 1 << 20
"""What producers did, as long as it is no more than that, is followed on the driver: to start tasks for it takes longer."""


@dataclass(frozen=True, slots=True)
class ReindexResult:
    """What was built anew; of a dry run, what would be."""

    dry_run: bool
    reports: tuple[ReindexReport, ...]
    failures: tuple[tuple[TopicPartition, TidelogError], ...]
    """Logs that are as they were, and why."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""
    rows: Details = field(repr=False, compare=False)

    @property
    def details(self) -> "DataFrame":
        """A row for each file that was not right."""
        return self.rows.frame()

    @property
    def files(self) -> int:
        """How many files were, or would be, built anew."""
        return sum(len(report.changed) for report in self.reports)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.reports), *(f"{partition}: failed, {error}" for partition, error in self.failures)])


class _ScanItem(NamedTuple):
    log: int
    piece: SegmentPiece
    index_interval_bytes: int


class _ReplayItem(NamedTuple):
    log: int
    facts: ReindexFacts
    outlines: tuple[SegmentIndexed, ...]
    scanned: tuple[str, ...]
    """For each, where what producers did is written down."""


class _Staged(NamedTuple):
    """A file that is to be put in place: where its content lies; None: it is to be removed."""

    name: str
    why: str
    path: str | None


class _Scanned(NamedTuple):
    path: str
    """Where what producers did is written down."""
    path_bytes: int
    files: list[_Staged]
    outline: SegmentIndexed
    """Without what producers did."""


def reindex(
    spark: "SparkSession",
    directory: str | PathLike[str],
    topics: Sequence[str] | str | None = None,
    *,
    dry_run: bool = False,
    now_ms: int | None = None,
    piece_bytes: int | None = None,
    staging: str | None = None,
    progress: bool | None = None,
) -> ReindexResult:
    """Build the indexes and producer snapshots of topics anew, or of all. Batches are never touched; damaged logs are left as they are.

    `piece_bytes` says how much a task reads; no segment is cut for it.
    """
    root = os.path.abspath(directory)  # noqa: PTH100 - executors are elsewhere; links stay what they are
    names = [topics] if isinstance(topics, str) else topics
    job = f"reindex {', '.join(names) if names else root}"
    partitions = partitions_in(root, names)
    with _owned(root, dry_run=dry_run), staged(root, within=staging) as made:
        tasks = SparkTasks(spark, job, staging=made, progress=progress)
        run = _Run(root, partitions, tasks, wall_clock() if now_ms is None else now_ms, piece_bytes)
        run.scan()
        run.replay()
        reports = run.commit(dry_run=dry_run)
    failures = tuple((_partition(name), error) for name, error in run.failures.items())
    outcome = "would change" if dry_run else "built anew"
    rows: list[tuple[object, ...]] = [
        (*_partition(report.directory.rpartition("/")[2]), *file, outcome) for report in reports for file in report.changed
    ]
    rows += [(*partition, None, str(error), "failed") for partition, error in failures]
    return ReindexResult(dry_run, tuple(reports), failures, tuple(tasks.stages), Details(spark, rows, _SCHEMA))


class _Run:
    def __init__(self, root: str, names: list[str], tasks: SparkTasks, now_ms: int, piece_bytes: int | None) -> None:
        self.root = root
        self.names = names
        self.tasks = tasks
        self.now_ms = now_ms
        self.segments = {name: segments_in(f"{root}/{name}") for name in names}
        self.scanned: dict[str, list[_Scanned]] = {name: [] for name in names}
        self.replayed: dict[str, list[_Staged]] = {name: [] for name in names}
        self.failures: dict[str, TidelogError] = {}
        self.notes: dict[str, str | None] = {}
        total = sum(segment.size_bytes for own in self.segments.values() for segment in own)
        self.task_bytes = piece_bytes or read_once_bytes_for(total, tasks.workers)
        with ReadOnlyStore.open(root) as store:
            self.settings = {topic: store.settings_of(topic).config for topic in {_partition(name).topic for name in names}}

    def scan(self) -> None:
        items = []
        for number, name in enumerate(self.names):
            try:
                check_settled(OS, f"{self.root}/{name}")
            except TidelogError as error:
                self.failures[name] = error
                continue
            interval = self.settings[_partition(name).topic].index_interval_bytes
            for segment in self.segments[name]:
                piece = SegmentPiece(segment.directory, segment.base_offset, segment.size_bytes, 0, segment.size_bytes)
                items.append(_ScanItem(number, piece, interval))
        packs = pack(items, [item.piece.size_bytes for item in items], self.task_bytes, self.tasks.workers)
        for own, answers in zip(packs, self.tasks.run("read segments", _scan, packs), strict=True):
            for item, answer in zip(own, answers, strict=True):
                self.scanned[self.names[item.log]].append(answer)
        for name in self._left():
            try:
                self.notes[name] = check_sound(f"{self.root}/{name}", [scanned.outline for scanned in self.scanned[name]])
            except TidelogError as error:
                self.failures[name] = error

    def replay(self) -> None:
        items = []
        for number, name in enumerate(self.names):
            if name not in self.failures:
                config = self.settings[_partition(name).topic]
                facts = reindex_facts(f"{self.root}/{name}", config.index_interval_bytes, self.now_ms, PRODUCER_EXPIRATION_MS, OS)
                scanned = self.scanned[name]
                items.append(_ReplayItem(number, facts, tuple(one.outline for one in scanned), tuple(one.path for one in scanned)))
        packs = pack(items, [max(1, len(item.scanned)) for item in items], 1000, self.tasks.workers)
        is_little = sum(one.path_bytes for own in self.scanned.values() for one in own) <= _HERE_BYTES
        for own, answers in zip(packs, self.tasks.run("follow producers", _replay, packs, here=is_little), strict=True):
            for item, answer in zip(own, answers, strict=True):
                self.replayed[self.names[item.log]] = answer

    def commit(self, *, dry_run: bool) -> list[ReindexReport]:
        reports = []
        for name in self._left():
            files = [file for scanned in self.scanned[name] for file in scanned.files] + self.replayed[name]
            for file in files if not dry_run else ():
                content = None if file.path is None else OS.read_file(file.path)
                replace_with(OS, f"{self.root}/{name}", RebuiltFile(file.name, file.why, content))
            changed = tuple((file.name, file.why) for file in files)
            segments = self.segments[name]
            size_bytes = sum(segment.size_bytes for segment in segments)
            reports.append(ReindexReport(f"{self.root}/{name}", dry_run, len(segments), size_bytes, changed, self.notes[name]))
        return reports

    def _left(self) -> list[str]:
        return [name for name in self.names if name not in self.failures]


def _scan(items: Sequence[_ScanItem], name: str) -> list[_Scanned]:
    answers = []
    for item in items:
        segment = item.piece.open()
        found = scan_for_index(segment, item.index_interval_bytes)
        prefix = f"{name}-{item.log}-{item.piece.base_offset}"
        files = [_put_aside(OS, prefix, file) for file in index_files(OS, segment, found)]
        scanned = indexed(found)
        producers = pickle.dumps(scanned)
        _write(OS, f"{prefix}-producers", producers)
        answers.append(_Scanned(f"{prefix}-producers", len(producers), files, scanned.outline()))
        segment.forget()
    return answers


def _replay(items: Sequence[_ReplayItem], name: str) -> list[list[_Staged]]:
    answers = []
    for item in items:
        # One segment at a time: what producers did in a whole partition may be more than a worker has memory for.
        scanned = (pickle.loads(OS.read_file(path)) for path in item.scanned)  # noqa: S301 - our own staging
        files = replay_files(OS, item.facts, item.outlines, scanned)
        answers.append([_put_aside(OS, f"{name}-{item.log}", file) for file in files])
    return answers


def _put_aside(disk: Disk, prefix: str, file: RebuiltFile) -> _Staged:
    if file.content is None:
        return _Staged(file.name, file.why, None)
    path = f"{prefix}-{file.name}"
    _write(disk, path, file.content)
    return _Staged(file.name, file.why, path)


def _write(disk: Disk, path: str, content: bytes) -> None:
    fd = disk.create(path)
    try:
        disk.write(fd, [content], 0)
    finally:
        disk.close(fd)


@contextmanager
def _owned(root: str, *, dry_run: bool) -> Iterator[None]:
    if dry_run:
        yield
        return
    home = LogDirectory.hold(root)
    try:
        yield
    finally:
        home.let_go()


def _partition(name: str) -> TopicPartition:
    partition = parse_partition(name)
    assert partition is not None
    return partition
