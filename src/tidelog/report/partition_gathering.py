"""The facts of one partition: what explain says about its segments, and what is in them."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.compaction.choice import CleaningChoice
from tidelog.config import LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.inspection.partition_segments import segments_in
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.inspection.stats import piece_stats
from tidelog.inspection.stats_counting import Watcher
from tidelog.log.log_reading import LogReading
from tidelog.log.segment_piece import SegmentPiece
from tidelog.report.facts import CleaningFacts, PartitionFacts, Stratum
from tidelog.report.fates import fate_of, is_dirty
from tidelog.report.finding_list import FindingList
from tidelog.retention import SegmentOutlook
from tidelog.store.explain import PartitionExplanation


class PartitionSource(NamedTuple):
    """What is known of a partition before anything in it is read."""

    partition: TopicPartition
    directory: str | None
    """None where it is missing."""
    log: LogReading | None
    """None where it cannot be read."""
    explained: PartitionExplanation
    config: LogConfig


class Gathered(NamedTuple):
    """A partition, and all of its figures."""

    facts: PartitionFacts
    figures: SegmentStats


def gather_partition(
    source: PartitionSource, findings: FindingList, watcher: Watcher, now_ms: int, disk: Disk, *, records: bool
) -> Gathered:
    """The facts of a partition, with a stratum for every segment."""
    name = str(source.partition)
    total = SegmentStats(source.directory or "", 0)
    figures: dict[int, SegmentStats] = {}
    for one in _figures(source.directory, disk, watcher, records=records):
        total.add(one)
        one.keys = None  # four kibibytes for each segment, and only all of them together are told
        figures[one.base_offset] = one
    outlooks = {one.segment.base_offset: one for one in source.explained.segments}
    strata = [
        _stratum(base_offset, outlooks.get(base_offset), figures.get(base_offset), source, findings.of_segment(name, base_offset), now_ms)
        for base_offset in sorted({*figures, *outlooks})
    ]
    log, cleaning = source.log, source.explained.cleaning
    facts = PartitionFacts(
        topic=source.partition.topic,
        partition=source.partition.partition,
        log_start_offset=None if log is None else log.log_start_offset,
        high_watermark=None if log is None else log.high_watermark,
        log_end_offset=None if log is None else log.log_end_offset,
        segments=len(strata),
        size_bytes=sum(stratum.size_bytes for stratum in strata),
        records=total.records,
        left_alone=source.explained.left_alone,
        cleaning=_cleaning(cleaning) if cleaning is not None and source.config.is_compacted else None,
        findings=findings.of_partition(name),
        strata=tuple(strata),
    )
    return Gathered(facts, total)


def _figures(directory: str | None, disk: Disk, watcher: Watcher, *, records: bool) -> Iterator[SegmentStats]:
    """Of each segment; one that its owner has removed meanwhile, or that cannot be opened, has none."""
    for segment in segments_in(directory, disk) if directory is not None else ():
        piece = SegmentPiece(segment.directory, segment.base_offset, segment.size_bytes, 0, segment.size_bytes)
        try:
            yield piece_stats(piece, records=records, disk=disk, watcher=watcher)
        except FileNotFoundError:
            continue
        except (TidelogError, OSError):
            yield SegmentStats(segment.directory, segment.base_offset, size_bytes=segment.size_bytes, damaged_bytes=segment.size_bytes)


def _stratum(
    base_offset: int, one: SegmentOutlook | None, figures: SegmentStats | None, source: PartitionSource, findings: int, now_ms: int
) -> Stratum:
    is_left_alone = source.explained.left_alone is not None
    segment = None if one is None else one.segment
    return Stratum(
        base_offset=base_offset,
        end_offset=None if segment is None else segment.end_offset,
        segments=1,
        # What lies in the file: a log that is read ends where its batches do, and what is behind them takes its room too.
        size_bytes=figures.size_bytes if figures is not None else segment.size_bytes if segment is not None else 0,
        records=None if figures is None else figures.records,
        batches=None if figures is None else figures.batches,
        first_timestamp_ms=None if figures is None else figures.first_timestamp_ms,
        last_timestamp_ms=None if figures is None else figures.last_timestamp_ms,
        tombstones=None if figures is None else figures.tombstones,
        damaged_bytes=0 if figures is None else figures.damaged_bytes,
        is_active=segment is not None and segment.is_active,
        is_dirty=None if segment is None else is_dirty(segment, source.config, source.explained.cleaning),
        fate="alone" if one is None else fate_of(one, source.config, now_ms, is_left_alone=is_left_alone),
        goes_by=None if one is None else one.goes_by,
        when_ms=None if one is None else one.when_ms,
        after_bytes=None if one is None else one.after_bytes,
        why=source.explained.left_alone or "it was not there a moment before" if one is None else one.why,
        findings=findings,
    )


def _cleaning(choice: CleaningChoice) -> CleaningFacts:
    return CleaningFacts(
        is_eligible=choice.is_eligible,
        why=choice.why,
        first_dirty_offset=choice.first_dirty_offset,
        dirty_ratio=choice.dirty_ratio,
        clean_bytes=choice.clean_bytes,
        cleanable_bytes=choice.cleanable_bytes,
    )
