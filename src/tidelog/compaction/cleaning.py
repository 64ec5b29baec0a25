"""Clean one log: one round of Kafka's Cleaner, with the same outcome.

The offset map is filled from the dirty part, as far as it goes. Then all segments below that, the ones cleaned before too, are rewritten
group by group; each group is swapped in as soon as it is complete. A crash in between leaves some groups cleaned and others not, which is
a sound log, and the checkpoint is not written before all are done: the next pass does it again.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.compaction.cleaned_segment import CleanedSegment, Nowhere, OffsetOverflowError
from tidelog.compaction.grouping import SegmentGroup, group_segments
from tidelog.compaction.hooks import NO_HOOKS, Hooks
from tidelog.compaction.key_scan import scan_keys
from tidelog.compaction.last_records import last_records_of
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.pass_facts import KeyScan, PassFacts
from tidelog.compaction.plan import CleaningPlan, sizes_of
from tidelog.compaction.rewriting import Rewriter
from tidelog.compaction.rules import keeps_legacy_tombstones
from tidelog.compaction.segment_chunks import ChunkReader
from tidelog.compaction.stats import CleanerStats, Counts, estimate_passes
from tidelog.disk.names import LOG, TopicPartition
from tidelog.errors import CleaningAbortedError, LogClosedError, LogFailedError, NullKeysError
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.log.segment import Segment
from tidelog.log.split import check_pieces, cleaned_pieces
from tidelog.log.storage_errors import storage_error
from tidelog.log.swap import remove_cleaned
from tidelog.log.txn_index import AbortedTxn, collect_aborted

__all__ = ["NO_HOOKS", "CleanedLog", "CleanerStats", "Hooks", "clean_log"]

_NO_CHANGE_HINT = "nothing of this group was changed; the log is whole"


class CleanedLog(NamedTuple):
    """What one pass did, or, if it was only tried, would do."""

    partition: TopicPartition
    next_dirty_offset: int
    """The new checkpoint, for the caller to write."""
    plan: CleaningPlan
    stats: CleanerStats
    dry_run: bool
    null_key_offsets: tuple[int, ...]
    """The first hundred records without a key, which were dropped."""


def clean_log(
    log: LogReading,
    plan: CleaningPlan,
    offset_map: OffsetMap,
    now_ms: int,
    *,
    hooks: Hooks = NO_HOOKS,
    drop_null_keys: bool = False,
    dry_run: bool = False,
) -> CleanedLog:
    """One pass over a log, as planned. With `dry_run` not a byte is written, and a log that is only read will do.

    Records without a key in what is to be cleaned raise `NullKeysError`, before anything is changed, unless they may be dropped.
    """
    started = time.perf_counter()
    if plan.is_empty:
        return CleanedLog(plan.partition, plan.first_dirty_offset, plan, CleanerStats(), dry_run, ())
    return _Pass(log, plan, offset_map, now_ms, hooks, drop_null_keys=drop_null_keys, dry_run=dry_run).run(started)


class _Pass:
    def __init__(
        self,
        log: LogReading,
        plan: CleaningPlan,
        offset_map: OffsetMap,
        now_ms: int,
        hooks: Hooks,
        *,
        drop_null_keys: bool,
        dry_run: bool,
    ) -> None:
        self.log = log
        self.plan = plan
        self.config = plan.config
        self.map = offset_map
        self.now_ms = now_ms
        self.hooks = hooks
        self.drop_null_keys = drop_null_keys
        self.dry_run = dry_run
        self.counts = Counts()
        self.written_bytes = self.replaced_bytes = 0
        self.deleted_before = log.deleted_bytes if isinstance(log, Log) else 0
        self.reader = ChunkReader()
        # Asked once: for each of ten thousand segments all behind it would be looked at. What is aborted below the bound is known by now.
        self.has_aborted = any(segment.txn_index.size_bytes for segment in log.segments)

    def run(self, started: float) -> CleanedLog:
        scan = self.scan()
        map_ms = (time.perf_counter() - started) * 1000
        self.check_null_keys()
        sources = [segment for segment in self.log.segments[:-1] if segment.base_offset < scan.end_offset]
        groups = group_segments([sizes_of(segment) for segment in sources], self.config, self.plan.bound)
        self.rewrite(groups, {segment.base_offset: segment for segment in sources}, scan)
        stats = self.stats(scan, len(sources), len(groups))
        stats = stats._replace(map_ms=map_ms, elapsed_ms=(time.perf_counter() - started) * 1000)
        return CleanedLog(self.plan.partition, scan.end_offset, self.plan, stats, self.dry_run, tuple(self.counts.null_key_offsets))

    def scan(self) -> KeyScan:
        first, bound = self.plan.first_dirty_offset, self.plan.bound
        segments = self.log.segments
        dirty = [
            segment
            for segment, end in zip(segments[:-1], (later.base_offset for later in segments[1:]), strict=True)
            if end > first and segment.base_offset < bound
        ]
        aborted = aborted_from(segments, first, self.log.log_start_offset, bound)
        end_offset = self.end_of(dirty[-1]) if dirty else bound
        return scan_keys(dirty, first, bound, aborted, self.map, self.counts, self.hooks, self.reader, end_offset)

    def check_null_keys(self) -> None:
        counts = self.counts
        if counts.null_keys and not self.drop_null_keys:
            raise NullKeysError(
                self.plan.partition,
                offsets=tuple(counts.null_key_offsets),
                count=counts.null_keys,
                path=self.log.directory,
            )

    def rewrite(self, groups: Sequence[SegmentGroup], sources: Mapping[int, Segment], scan: KeyScan) -> None:
        facts = PassFacts(
            self.now_ms, self.config.delete_retention_ms, self.plan.bound, self.plan.first_dirty_offset, scan, self.map.latest_offset
        )
        rewriter = Rewriter(facts, self.map, self.counts, self.hooks, self.reader)
        clean_mtimes = [mtime_ms(segment) for segment in self.log.segments if segment.base_offset < self.plan.first_dirty_offset][-1:]
        last_clean_mtime_ms = clean_mtimes[0] if clean_mtimes else None
        if not self.dry_run:
            self.remove_left_over()
        for group in groups:
            members = [sources[base_offset] for base_offset in group.base_offsets]
            if self.dry_run:
                self.copy(rewriter, members, Nowhere(), last_clean_mtime_ms)
            else:
                self.hooks.check_space(group.most_bytes)
                self.replace(rewriter, members, last_clean_mtime_ms)

    def remove_left_over(self) -> None:
        """What an earlier pass could not remove must not be there when segments are swapped. Once a pass: a log may have ten thousand."""
        try:
            remove_cleaned(self.log.segments[0].pool.disk, self.log.directory)
        except OSError as error:
            raise storage_error(error, self.log.directory, "removing what an earlier cleaning left failed") from error

    def replace(self, rewriter: Rewriter, members: list[Segment], last_clean_mtime_ms: int | None) -> None:
        """One group: write the new segment, swap it in."""
        log, counts = self.log, self.counts
        assert isinstance(log, Log), "a log that is only read is not cleaned"
        # What was replaced waits out its delay, unless somebody who is short of space removes it.
        before = counts.extra_bytes = self.written_bytes - self.replaced_bytes + log.deleted_bytes - self.deleted_before
        try:
            target = CleanedSegment(members[0], self.config, counts)
        except OSError as error:
            raise storage_error(error, log.directory, "cleaning failed") from error
        try:
            self.copy(rewriter, members, target, last_clean_mtime_ms)
            new = target.finish(log_mtime_ns(members[-1]))
            self.hooks.check_done()
        except BaseException as error:
            target.abandon()
            if isinstance(error, OffsetOverflowError) and error.source is not None:
                self.split(error.source)
            if isinstance(error, OSError):
                raise storage_error(error, log.directory, f"cleaning failed; {_NO_CHANGE_HINT}") from error
            raise
        try:
            log.replace_segments([new], members)
        except (CleaningAbortedError, LogClosedError, LogFailedError):
            target.abandon()  # nothing was renamed; after any other error only a load can say which files count
            raise
        self.written_bytes += counts.extra_bytes - before
        self.replaced_bytes += sum(segment.size_bytes for segment in members)

    def copy(self, rewriter: Rewriter, members: list[Segment], target: CleanedSegment | Nowhere, last_clean_mtime_ms: int | None) -> None:
        log = self.log
        rewriter.begin_group(target, last_records_of(log))
        for place, segment in enumerate(members):
            end = members[place + 1].base_offset if place + 1 < len(members) else self.end_of(segment)
            if self.has_aborted:
                rewriter.tracker.add_aborted(aborted_from(log.segments, segment.base_offset, log.log_start_offset, end))
            keeps_legacy = keeps_legacy_tombstones(mtime_ms(segment), last_clean_mtime_ms, self.config.delete_retention_ms)
            try:
                rewriter.rewrite(segment, target, keeps_legacy=keeps_legacy)
            except OffsetOverflowError as error:
                error.source = segment
                raise
            self.check_null_keys()

    def end_of(self, segment: Segment) -> int:
        """The offset behind a segment, by the one that follows it."""
        return next(later.base_offset for later in self.log.segments if later.base_offset > segment.base_offset)

    def split(self, segment: Segment) -> None:
        """A segment whose offsets are too far apart is split first; the next pass cleans the parts."""
        log = self.log
        assert isinstance(log, Log)
        check_pieces(segment, self.end_of(segment))
        self.remove_left_over()
        log.replace_segments(cleaned_pieces(segment, self.config), [segment])
        raise CleaningAbortedError(
            "a segment has offsets too far apart for one: it was split, and is cleaned next time", path=log.directory
        )

    def stats(self, scan: KeyScan, segments_before: int, segments_after: int) -> CleanerStats:
        counts = self.counts
        passes = estimate_passes(self.map, is_full=scan.is_full, read_bytes=counts.map_bytes_read, dirty_bytes=self.plan.cleanable_bytes)
        return CleanerStats(
            bytes_read=counts.bytes_read,
            bytes_written=counts.bytes_written,
            messages_read=counts.messages_read,
            messages_written=counts.messages_written,
            map_bytes_read=counts.map_bytes_read,
            map_messages_read=counts.map_messages_read,
            invalid_messages_read=counts.invalid_messages_read,
            tombstones_removed=counts.tombstones_removed,
            markers_removed=counts.markers_removed,
            aborted_messages_removed=counts.aborted_messages_removed,
            batches_kept_empty=counts.batches_kept_empty,
            segments_before=segments_before,
            segments_after=segments_after,
            buffer_utilization=self.map.utilization,
            map_entries=self.map.entries,
            map_was_full=scan.is_full,
            passes_needed=passes.passes_needed,
            memory_for_one_pass=passes.memory_for_one_pass,
            peak_extra_bytes=counts.peak_extra_bytes,
        )


def aborted_from(segments: Sequence[Segment], offset: int, log_start_offset: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions of the segment that has `offset` and those behind it, as far as they reach below `end`."""
    found: list[AbortedTxn] = []
    first = max((place for place, segment in enumerate(segments) if segment.base_offset <= offset), default=0)
    for segment in segments[first:]:
        entries = segment.txn_index.entries()
        if entries:
            collected = collect_aborted(entries, log_start_offset, end)
            found += collected.found
            if collected.is_complete:
                break
    return found


def log_mtime_ns(segment: Segment) -> int:
    """When a segment was last written."""
    return segment.pool.disk.mtime_ns(segment.path_of(LOG))


def mtime_ms(segment: Segment) -> int:
    """The same in milliseconds."""
    return log_mtime_ns(segment) // 1_000_000
