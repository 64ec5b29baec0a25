"""`verify` by executors: the findings of the library, all of them, with the reading shared out.

Partitions that are larger than a task are read ahead in pieces: executors prove which stretches of batches are in order (`proofs`). Then
one task for each partition, or for many small ones, walks over the headers and says what is wrong, reading only what was not proven.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.disk import OS
from tidelog.disk.names import CLEAN_SHUTDOWN, parse_partition
from tidelog.errors import LogNotFoundError, UnknownTopicError
from tidelog.inspection.finding import Finding, Severity, printable
from tidelog.inspection.partition_segments import segments_in
from tidelog.inspection.proofs import Proven, prove_piece
from tidelog.inspection.verify import Level, PartitionVerify, check_level
from tidelog.inspection.verify_log_directory import RootVerify
from tidelog.log.segment_piece import SegmentPiece, cut_segments, pack
from tidelog.spark.jobs.details import Details
from tidelog.spark.jobs.running import SparkTasks, check_gone, fair_share, read_once_bytes_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "topic string, partition int, severity string, code string, path string, position long, offset long, what string, mend string, "
    "expected string, found string"
)


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was found."""

    level: Level
    findings: tuple[Finding, ...]
    partitions: int
    size_bytes: int
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""
    rows: Details = field(repr=False, compare=False)

    @property
    def details(self) -> "DataFrame":
        """A row for each finding."""
        return self.rows.frame()

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings of each severity."""
        return dict(Counter(finding.severity for finding in self.findings))

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing but notes."""
        return all(finding.severity == "note" for finding in self.findings)

    def __str__(self) -> str:
        total = ", ".join(f"{count} {severity}s" for severity, count in sorted(self.counts.items())) or "nothing found"
        lines = [*map(str, self.findings), f"{self.partitions} partitions, {self.size_bytes} bytes: {total}"]
        return "\n".join(lines)


class _ProveItem(NamedTuple):
    piece: SegmentPiece
    level: Level


class _WalkItem(NamedTuple):
    directory: str
    level: Level
    now_ms: int | None
    proven: dict[int, Proven]


class _Walked(NamedTuple):
    is_there: bool
    findings: list[Finding]
    first_base: int | None
    end_offset: int


def verify(
    spark: "SparkSession",
    directory: str | PathLike[str],
    topics: Sequence[str] | str | None = None,
    *,
    level: Level = "everything",
    now_ms: int | None = None,
    piece_bytes: int | None = None,
    progress: bool | None = None,
    beside: Sequence[str | PathLike[str]] = (),
) -> VerifyResult:
    """What is wrong with a log directory, or with some topics of it. Takes no lock and changes nothing; see `tidelog.inspection.verify`.

    `beside` are other log directories of the same store, which may have the partitions that this one has not.
    """
    check_level(level)
    names = [topics] if isinstance(topics, str) else topics
    absolute = [os.path.abspath(path) for path in (directory, *beside)]  # noqa: PTH100 - executors are elsewhere; links stay what they are
    root = RootVerify(absolute[0], OS, absolute[1:])
    found = list(root.begin())
    lost = [] if names is None else list(root.missing(names))
    chosen = _chosen(root, names, lost)
    tasks = SparkTasks(spark, f"verify {', '.join(names) if names else root.path}", progress=progress)
    segments = {name: segments_in(f"{root.path}/{name}") for name in chosen}
    sizes = {name: sum(segment.size_bytes for segment in each) for name, each in segments.items()}
    total = sum(sizes.values())
    task_bytes = piece_bytes or read_once_bytes_for(total, tasks.workers)
    share = piece_bytes or fair_share(total, tasks.workers, task_bytes)
    is_closed = OS.exists(f"{root.path}/{CLEAN_SHUTDOWN}")
    items = []
    for name, own in segments.items():
        if level != "headers" and sizes[name] > share:
            # The last segment of a log that somebody may have open can be cut at any time: it is left to who walks over it.
            items += [_ProveItem(piece, level) for piece in cut_segments(own if is_closed else own[:-1], task_bytes)]
    packs = pack(items, [item.piece.size_bytes for item in items], task_bytes, tasks.workers)
    proven: dict[str, dict[int, Proven]] = {name: {} for name in chosen}
    for pieces, answers in zip(packs, tasks.run("check batches", _prove, packs), strict=True):
        for item, stretches in zip(pieces, answers, strict=True):
            of_log = proven[item.piece.directory.rpartition("/")[2]]
            of_log[item.piece.base_offset] = _joined(of_log.get(item.piece.base_offset, ()), stretches)
    walks = [_WalkItem(f"{root.path}/{name}", level, now_ms, proven[name]) for name in chosen]
    walk_packs = pack(walks, [max(1, sizes[name]) for name in chosen], task_bytes, tasks.workers)
    walked = [answer for answers in tasks.run("check logs", _walk, walk_packs) for answer in answers]
    for name, one in zip(chosen, walked, strict=True):
        found += one.findings
        if one.is_there:
            root.note_end(name, one.first_base, one.end_offset)
        else:
            check_gone(f"{root.path}/{name}", f"tidelog {tasks.job}")
    if names is None:
        found += root.finish()
    else:
        found = [*(finding for one in walked for finding in one.findings), *lost]
    rows = Details(spark, [_row((root.path, *root.beside), finding) for finding in found], _SCHEMA)
    return VerifyResult(level, tuple(found), len(chosen), total, tuple(tasks.stages), rows)


def _chosen(root: RootVerify, names: Sequence[str] | None, lost: Sequence[Finding]) -> list[str]:
    if names is None:
        return root.partition_names
    chosen = [name for name in root.partition_names if (own := parse_partition(name)) is not None and own.topic in names]
    known = {own.topic for name in (*chosen, *(one.path.rpartition("/")[2] for one in lost)) if (own := parse_partition(name)) is not None}
    for topic in names:
        if topic not in known:
            raise UnknownTopicError(f"no topic {topic!r}", path=root.path)
    return chosen


def _prove(items: Sequence[_ProveItem], _: str) -> list[Proven]:
    return [prove_piece(item.piece, item.level) for item in items]


def _walk(items: Sequence[_WalkItem], _: str) -> list[_Walked]:
    answers = []
    for item in items:
        checks = PartitionVerify(item.directory, level=item.level, now_ms=item.now_ms, disk=OS, proven=item.proven)
        try:
            findings = list(checks.run())
        except LogNotFoundError:  # deleted meanwhile; if not, the driver finds it
            answers.append(_Walked(False, [], None, 0))
            continue
        answers.append(_Walked(True, findings, checks.first_base, checks.end_offset))
    return answers


def _joined(before: Proven, after: Proven) -> Proven:
    if before and after and before[-1][1] == after[0][0]:
        return (*before[:-1], (before[-1][0], after[0][1]), *after[1:])
    return (*before, *after)


def _row(roots: Sequence[str], finding: Finding) -> tuple[object, ...]:
    """What is missing is told of the first directory of the store, which may be another one than this."""
    root = next((root for root in roots if finding.path.startswith(root + "/")), None)
    name = "" if root is None else finding.path[len(root) + 1 :].partition("/")[0]
    partition = parse_partition(name)
    texts = [None if fact is None else str(fact) for fact in (finding.expected, finding.found)]
    where = (None, None) if partition is None else tuple(partition)
    facts = (finding.severity, finding.code, printable(finding.path), finding.position, finding.offset, finding.what, finding.mend)
    return (*where, *facts, *texts)
