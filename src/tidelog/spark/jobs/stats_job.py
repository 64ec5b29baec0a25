"""`stats` by executors: what is in the segments, by headers, or by every record if that is asked for.

A log may be written to meanwhile: a segment may be gone by the time that a task comes to it, or be another one, which a cleaner has put in
its place. Such a log is listed again, and what has changed is counted once more; what goes again until then is left out.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.disk import OS
from tidelog.disk.names import parse_partition
from tidelog.inspection.partition_segments import partitions_in, segments_in
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.inspection.stats import merged, piece_stats
from tidelog.log.segment import Segment
from tidelog.log.segment_piece import SegmentPiece, cut_segment, pack
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import SparkTasks, check_gone, task_bytes_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "topic string, partition int, base_offset long, first_offset long, last_offset long, records long, batches long, markers long, "
    "transactional_batches long, size_bytes long, damaged_bytes long, smallest_batch_bytes long, average_batch_bytes double, "
    "largest_batch_bytes long, first_timestamp_ms long, last_timestamp_ms long, codecs map<string,long>, magics map<int,long>, "
    "tombstones long, null_keys long, key_bytes long, value_bytes long, distinct_keys long"
)
_NO_LOG = "no log"
"""What a task answers about a piece of a log whose directory is not there."""
_BYTES_OF_HEADERS = 32
"""A walk over headers takes about so much less than reading everything."""


@dataclass(frozen=True, slots=True)
class StatsResult:
    """The figures of topics."""

    segments: tuple[SegmentStats, ...]
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""
    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each segment."""

    @property
    def total(self) -> SegmentStats:
        """Of all segments together; its keys are distinct over all of them."""
        whole = SegmentStats("", 0)
        for segment in self.segments:
            whole.add(segment)
        return whole

    @property
    def records(self) -> int:
        """Exactly how many there are, without markers."""
        return sum(segment.records for segment in self.segments)

    def __str__(self) -> str:
        total = self.total
        codecs = ", ".join(f"{count} {name}" for name, count in sorted(total.codecs.items()))
        text = f"{total.records} records and {total.markers} markers in {total.batches} batches, {total.size_bytes} bytes ({codecs})"
        if total.distinct_keys is not None:
            text += f"; about {total.distinct_keys} keys, {total.tombstones} tombstones"
        return text + (f"; {total.damaged_bytes} bytes are damaged" if total.damaged_bytes else "")


class _Item(NamedTuple):
    piece: SegmentPiece
    records: bool


def stats(
    spark: "SparkSession",
    directory: str | PathLike[str],
    topics: Sequence[str] | str | None = None,
    *,
    records: bool = False,
    piece_bytes: int | None = None,
    progress: bool | None = None,
) -> StatsResult:
    """The figures of all segments of topics, or of all. Takes no lock and changes nothing. By headers, unless `records` is asked for."""
    root = os.path.abspath(directory)  # noqa: PTH100 - executors are elsewhere; links stay what they are
    names = [topics] if isinstance(topics, str) else topics
    tasks = SparkTasks(spark, f"stats of {', '.join(names) if names else root}", progress=progress)
    figures = run_stats(tasks, root, names, records=records, piece_bytes=piece_bytes)
    details = details_frame(spark, [_row(one) for one in figures], _SCHEMA)
    return StatsResult(tuple(figures), tuple(tasks.stages), details)


def run_stats(
    tasks: Tasks, root: str, topics: Sequence[str] | None, *, records: bool = False, piece_bytes: int | None = None
) -> list[SegmentStats]:
    """The figures, by whatever runs the tasks: one for each segment, in order."""
    segments = [segment for name in partitions_in(root, topics) for segment in segments_in(f"{root}/{name}")]
    total = sum(segment.size_bytes for segment in segments)
    most = (128 << 20) * (1 if records else _BYTES_OF_HEADERS)
    task_bytes = piece_bytes or task_bytes_for(total, tasks.workers, least=(16 << 20) * (1 if records else _BYTES_OF_HEADERS), most=most)
    found = _counted(tasks, "count", [piece for segment in segments for piece in _cut(segment, task_bytes)], task_bytes, records=records)
    # A log whose segments have changed. Or an index leads astray: then a piece does not end where the next one begins.
    odd = {_key(piece) for piece, one in found if one is None or one.size_bytes != piece.size_bytes}
    if odd:
        segments, again = _listed_again(segments, odd)
        good = {_key(segment) for segment in segments} - {_key(segment) for segment in again}
        found = [pair for pair in found if _key(pair[0]) in good]
        found += _counted(tasks, "count again", [_whole(segment) for segment in again if segment.size_bytes], task_bytes, records=records)
    empty = [SegmentStats(segment.directory, segment.base_offset) for segment in segments if segment.size_bytes == 0]
    figures = merged([one for _, one in found if one is not None] + empty)
    return sorted(figures, key=lambda one: (_partition(one), one.base_offset))


_Key = tuple[str, int]
"""The directory of a segment, and its base offset."""


def _listed_again(segments: Sequence[Segment], odd: set[_Key]) -> tuple[list[Segment], list[Segment]]:
    """The segments as they are now, and those of them that are to be counted again: as a whole."""
    logs = {directory for directory, _ in odd}
    now = [segment for segment in segments if segment.directory not in logs]
    now += [segment for directory in sorted(logs) for segment in segments_in(directory)]
    sizes = {_key(segment): segment.size_bytes for segment in segments}
    return now, [one for one in now if one.directory in logs and (_key(one) in odd or sizes.get(_key(one)) != one.size_bytes)]


def _cut(segment: Segment, task_bytes: int) -> list[SegmentPiece]:
    """Its pieces. One that is gone since it was listed is left to the tasks, which find it so."""
    try:
        return cut_segment(segment, task_bytes)
    except FileNotFoundError:
        return [_whole(segment)]


def _whole(segment: Segment) -> SegmentPiece:
    return SegmentPiece(segment.directory, segment.base_offset, segment.size_bytes, 0, segment.size_bytes)


def _key(one: Segment | SegmentPiece) -> _Key:
    return one.directory, one.base_offset


def _counted(
    tasks: Tasks, what: str, pieces: Sequence[SegmentPiece], task_bytes: int, *, records: bool
) -> list[tuple[SegmentPiece, SegmentStats | None]]:
    packs = pack([_Item(piece, records) for piece in pieces], [piece.size_bytes for piece in pieces], task_bytes, tasks.workers)
    found: list[tuple[SegmentPiece, SegmentStats | None]] = []
    for items, answers in zip(packs, tasks.run(what, _count, packs), strict=True):
        for item, answer in zip(items, answers, strict=True):
            if answer == _NO_LOG:
                check_gone(item.piece.directory, f"tidelog {tasks.job}")
            found.append((item.piece, None if answer == _NO_LOG else answer))
    return found


def _count(items: Sequence[_Item], _: str) -> list[SegmentStats | str | None]:
    return [_of_piece(item) for item in items]


def _of_piece(item: _Item) -> SegmentStats | str | None:
    try:
        return piece_stats(item.piece, records=item.records, disk=OS)
    except FileNotFoundError:  # so it is in every attempt of the task: only the driver can do something about it
        return None if OS.exists(item.piece.directory) else _NO_LOG


def _partition(one: SegmentStats) -> tuple[str, int]:
    partition = parse_partition(one.directory.rpartition("/")[2])
    assert partition is not None
    return partition.topic, partition.partition


def _row(one: SegmentStats) -> tuple[object, ...]:
    return (
        *_partition(one),
        one.base_offset,
        one.first_offset,
        one.last_offset,
        one.records,
        one.batches,
        one.markers,
        one.transactional_batches,
        one.size_bytes,
        one.damaged_bytes,
        one.smallest_batch_bytes,
        one.average_batch_bytes,
        one.largest_batch_bytes,
        one.first_timestamp_ms,
        one.last_timestamp_ms,
        dict(one.codecs),
        dict(one.magics),
        one.tombstones,
        one.null_keys,
        one.key_bytes,
        one.value_bytes,
        one.distinct_keys,
    )
