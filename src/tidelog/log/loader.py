"""Load a partition directory: Kafka's order of work, and what is different where Kafka would throw data away.

    1  leftovers of replaced and deleted segments are finished or undone      (`swap`)
    2  index files without a `.log` go      (`segment_files`)
    3  segments from the recovery point on, after an unclean stop, and those whose index is missing or damaged are read and checked, and
       get new indexes      (`recovery`)
    4  the end of the log is found in its last segment
    5  leader epochs are cut to the log
    6  the state of producers is read from the newest snapshot, and from the batches behind it      (`producer_replay`)

A torn tail of the last segment is what a crash leaves: it is cut off, kept aside in a file, and reported. A bad batch with data behind it
is not: a roll makes the old segment durable before anything in the new one is acknowledged. Then loading stops with `DamagedLogError`
before it has changed anything. In the mode "kafka" everything from the bad batch on goes, as in a broker, but is kept aside too.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import LOG, OWN_SUFFIX, SEGMENT_KINDS, SNAPSHOT, cut_file
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.log.leader_epoch_cache import LeaderEpochCache
from tidelog.log.load_report import Cut, LoadReport, Progress
from tidelog.log.producer_replay import rebuild, replay
from tidelog.log.producer_state import ProducerState
from tidelog.log.recovery import ScannedSegment, ScanSpace, keep_aside, scan_segment, write_indexes
from tidelog.log.segment import Segment
from tidelog.log.segment_files import are_plausible, create_segment, find_segments, find_snapshots, list_files
from tidelog.log.segment_read import find_last_batch, find_last_batch_in_order
from tidelog.log.split import check_pieces, split_segment
from tidelog.log.swap import finish_or_undo


@dataclass(slots=True)
class LoadedLog:
    """A partition directory in order, ready to be appended to."""

    segments: list[Segment]
    next_offset: int
    log_start_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerState


@dataclass(slots=True)
class Loader:
    """Loads one directory, once."""

    pool: FilePool
    directory: str
    config: LogConfig
    is_kafka_mode: bool
    """Exactly Kafka's outcome, though what it removes is kept aside."""
    drops_behind_damage: bool
    """Whether what follows damage goes, as in Kafka; also where flushing was weakened, since there a crash can leave such a log."""
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    report: LoadReport
    """Filled while loading, so that what was done is known also when it raises."""
    now_ms: int
    producer_expiration_ms: int
    workers: int = 1
    progress: Callable[[Progress], None] | None = None
    _snapshots: set[int] = field(default_factory=set)
    """Offsets of the producer snapshots that there are."""
    _spaces: list[ScanSpace] = field(default_factory=list)
    """Of workers that are done with a segment."""

    def load(self) -> LoadedLog:
        """All the steps."""
        report = self.report
        report.was_clean = self.is_clean
        disk = self.pool.disk
        epochs = LeaderEpochCache.load(disk, self.directory)
        while True:
            entries = list_files(disk, self.directory)
            done = finish_or_undo(self.pool, self.directory, entries)
            report.actions += done
            if done:
                entries = list_files(disk, self.directory)
            segments = find_segments(self.pool, self.directory, entries, report.actions)
            self._snapshots = find_snapshots(entries)
            if not self._recover(segments, epochs, report):
                break  # otherwise a segment was split, and all begins again
        next_offset = self._find_end(segments, epochs, report)
        if next_offset < self.log_start_offset:
            self._start_over(segments, epochs, report)
            next_offset = self.log_start_offset
        if not segments:
            segments.append(create_segment(self.pool, self.directory, self.log_start_offset))
            disk.sync_directory(self.directory)
            next_offset = self.log_start_offset
        # An epoch that starts at the very end has no batch any more. Kafka drops it; kept, it keeps later appends from using a lower one.
        epochs.truncate_end(next_offset if self.is_kafka_mode else next_offset + 1)
        epochs.truncate_start(self.log_start_offset)
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        recovery_point = next_offset if self.is_clean else min(self.recovery_point, next_offset)
        for segment in segments:
            # A recovery point inside of the last segment, or a log start that takes it along, is past new indexes that are not synced:
            # once a segment follows, nobody builds them again.
            if segment.base_offset in report.recovered_segments and segment.base_offset < max(recovery_point, log_start_offset):
                segment.sync()
        producers = self._producer_state()
        producers.remove_strays(segment.base_offset for segment in segments)
        rebuild(producers, segments, log_start_offset, next_offset, self.now_ms, is_clean=self.is_clean)
        return LoadedLog(segments, next_offset, log_start_offset, max(recovery_point, log_start_offset), epochs, producers)

    def _producer_state(self) -> ProducerState:
        return ProducerState(self.pool.disk, self.directory, self._snapshots, expiration_ms=self.producer_expiration_ms)

    def _reaches(self, segments: list[Segment], place: int) -> bool:
        """Whether a segment has offsets at or above the recovery point."""
        return place + 1 == len(segments) or segments[place + 1].base_offset > self.recovery_point

    def _has_good_indexes(self, segments: list[Segment], place: int) -> bool:
        """Whether the indexes can be used as they are. Kafka believes whatever there is, and only misses an `.index`."""
        segment = segments[place]
        if any(entry.last_offset < segment.base_offset for entry in segment.txn_index.entries()):
            return False
        if self.is_kafka_mode:
            return segment.has_index
        if segment.size_bytes == 0 and not segment.has_index:
            return True
        next_base = segments[place + 1].base_offset if place + 1 < len(segments) else None
        return segment.has_index and segment.has_time_index and are_plausible(segment, next_base)

    def _recover(self, segments: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> bool:
        """Read and check what has to be. True if a segment was split, so that everything has to be looked at again."""
        to_check = [
            segment
            for place, segment in enumerate(segments)
            if (not self.is_clean and self._reaches(segments, place)) or not self._has_good_indexes(segments, place)
        ]
        total, done_bytes = sum(segment.size_bytes for segment in to_check), 0
        for done, (segment, scanned) in enumerate(self._scan_all(to_check), 1):
            place = segments.index(segment)
            if scanned.has_overflow:
                if not self.is_kafka_mode:
                    self._judge_split(scanned, segment, segments[place + 1 :])
                split_segment(self.pool, segment, self.config)
                report.actions.append(f"split segment {segment.base_offset}: offsets too far from its base")
                return True
            self._judge(scanned, segment, segments[place + 1 :])
            is_after_crash = not self.is_clean and self._reaches(segments, place)
            if not scanned.is_whole and is_after_crash:
                # From the end, and before the damage itself is cut out: a crash in between finds it again.
                for later in segments[:place:-1]:
                    self._set_aside(later, f"behind the damage in segment {segment.base_offset}", report)
                del segments[place + 1 :]
            known = segments if is_after_crash else segments[:place]
            self._apply(segment, scanned, known, epochs, report, is_after_crash=is_after_crash)
            (report.recovered_segments if is_after_crash else report.rebuilt_indexes).append(segment.base_offset)
            report.recovered_bytes += scanned.size_bytes
            done_bytes += scanned.size_bytes
            if self.progress is not None:
                self.progress(Progress(done, len(to_check), done_bytes, total))
            if not scanned.is_whole and is_after_crash:
                break
        return False

    def _judge(self, scanned: ScannedSegment, segment: Segment, behind: list[Segment]) -> None:
        """Stop before anything is changed, if what is wrong is not what a crash leaves."""
        if scanned.is_below_base:
            error = scanned.error
            assert error is not None
            raise DamagedLogError(
                error.what, path=error.path, position=error.position, expected=error.expected, found=error.found, hint="use salvage"
            )
        if not scanned.is_whole and any(later.size_bytes for later in behind) and not self.drops_behind_damage:
            raise self._damaged(segment, scanned, behind)

    def _judge_split(self, scanned: ScannedSegment, segment: Segment, behind: list[Segment]) -> None:
        """The same before a segment is split: a single base offset gone bad, which no CRC covers, looks like offsets too far apart."""
        error = scanned.error
        if error is not None:
            raise DamagedLogError(
                error.what, path=error.path, position=error.position, expected=error.expected, found=error.found, hint="use salvage"
            )
        check_pieces(segment, behind[0].base_offset if behind else None)

    def _scan(self, segment: Segment) -> ScannedSegment:
        try:
            space = self._spaces.pop()  # by whichever worker is free
        except IndexError:
            space = ScanSpace()
        try:
            interval = self.config.index_interval_bytes
            return scan_segment(segment, index_interval_bytes=interval, is_kafka_mode=self.is_kafka_mode, space=space)
        finally:
            self._spaces.append(space)

    def _scan_all(self, segments: list[Segment]) -> Iterator[tuple[Segment, ScannedSegment]]:
        """In order, several at a time. A result holds a segment's indexes, so few are ahead, yet more than the workers, lest they wait."""
        if self.workers <= 1 or len(segments) <= 1:
            for segment in segments:
                yield segment, self._scan(segment)
            return
        with ThreadPoolExecutor(self.workers, "tidelog-recovery") as executor:
            ahead = 2 * self.workers
            running = deque(executor.submit(self._scan, segment) for segment in segments[:ahead])
            for index, segment in enumerate(segments):
                scanned = running.popleft().result()
                if index + ahead < len(segments):
                    running.append(executor.submit(self._scan, segments[index + ahead]))
                yield segment, scanned

    def _apply(
        self,
        segment: Segment,
        scanned: ScannedSegment,
        known: list[Segment],
        epochs: LeaderEpochCache,
        report: LoadReport,
        *,
        is_after_crash: bool,
    ) -> None:
        """Cut off what is not sound, and write the indexes. `known` are the segments from which producers before it are learned."""
        epochs.assign_many(_newer_epochs(scanned.epoch_starts, epochs.latest_epoch))
        if not scanned.is_whole:
            reason = "the last batch is cut off" if scanned.error is None else str(scanned.error.what)
            self._cut(segment, scanned.valid_bytes, reason, report)
        producers = self._producer_state()
        rebuild(producers, known, self.log_start_offset, segment.base_offset, self.now_ms, is_clean=False)
        aborted = replay(producers, scanned.producers)
        write_indexes(self.pool.disk, segment, scanned, aborted, is_durable=not is_after_crash)
        # A reader that finds the snapshot asks only the index about transactions before it: a crash must not keep one without the other.
        segment.txn_index.sync()
        producers.map_end_offset = scanned.next_offset
        producers.take_snapshot()
        self._snapshots = producers.snapshots

    def _cut(self, segment: Segment, position: int, reason: str, report: LoadReport) -> None:
        """Keep the bytes behind `position` aside, then cut the segment there."""
        name = self._free_name(cut_file(segment.base_offset, position))
        kept = keep_aside(self.pool, segment, position, name)
        report.cuts.append(Cut(segment.base_offset, position, segment.size_bytes - position, reason, name if kept else None))
        segment.cut_file(position)

    def _set_aside(self, segment: Segment, reason: str, report: LoadReport) -> None:
        """Take a whole segment out of the log: its `.log` is renamed, its indexes go."""
        disk = self.pool.disk
        name = None
        if segment.size_bytes:
            name = self._free_name(cut_file(segment.base_offset, 0))
            disk.rename(segment.path_of(LOG), f"{self.directory}/{name}")
        else:
            disk.remove(segment.path_of(LOG))
        report.cuts.append(Cut(segment.base_offset, 0, segment.size_bytes, reason, name))
        for kind in (*SEGMENT_KINDS[1:], SNAPSHOT):
            if disk.exists(segment.path_of(kind)):
                disk.remove(segment.path_of(kind))
        self._snapshots.discard(segment.base_offset)
        segment.forget()
        disk.sync_directory(self.directory)

    def _free_name(self, name: str) -> str:
        """The name, or one like it that no earlier cut has taken."""
        candidate, number = name, 2
        while self.pool.disk.exists(f"{self.directory}/{candidate}"):
            candidate = name.replace(LOG + OWN_SUFFIX, f"-{number}{LOG}{OWN_SUFFIX}")
            number += 1
        return candidate

    def _find_end(self, segments: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> int:
        """The next offset of the log, from its last segment. A last segment that does not end with a whole batch is recovered."""
        if not segments:
            return self.log_start_offset
        last = segments[-1]
        try:
            found = find_last_batch(last) if self.is_kafka_mode else find_last_batch_in_order(last)
        except TidelogError as error:
            raise DamagedLogError(
                f"the last segment was closed in order but is damaged: {error.what}",
                path=last.file.path,
                position=error.position,
                expected=error.expected,
                found=error.found,
                hint="open it with last_shutdown_clean=False to recover it, or use salvage",
            ) from error
        end = 0 if found is None else found.position + found.size_bytes
        if end != last.size_bytes:
            scanned = self._scan(last)
            self._apply(last, scanned, segments[:-1], epochs, report, is_after_crash=False)
            return scanned.next_offset
        return last.base_offset if found is None else found.last_offset + 1

    def _start_over(self, segments: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> None:
        """The log ends before the offset at which it is said to start: all of it was deleted."""
        for segment in segments:
            self._set_aside(segment, f"the log starts at offset {self.log_start_offset}, behind its end", report)
        segments.clear()
        epochs.clear()
        producers = self._producer_state()
        producers.truncate_fully_and_start_at(self.log_start_offset)
        self._snapshots = producers.snapshots

    def _damaged(self, segment: Segment, scanned: ScannedSegment, behind: list[Segment]) -> DamagedLogError:
        lost = sum(later.size_bytes for later in behind)
        what = "a batch is cut off" if scanned.error is None else scanned.error.what
        return DamagedLogError(
            f"damage with {len(behind)} segments and {lost} bytes behind it, which no crash explains: {what}",
            path=segment.file.path,
            position=scanned.valid_bytes,
            hint='no batch was changed; "repair" and "salvage" keep what is sound, recovery="kafka" drops all behind it as a broker would',
            findings=(scanned.error,) if scanned.error is not None else (),
        )


def _newer_epochs(starts: list[tuple[int, int]], latest: int | None) -> Iterator[tuple[int, int]]:
    """Those of a segment that are news, as in Kafka: each above all before it, and none of the batches that have no epoch."""
    highest = -1 if latest is None else latest
    for epoch, start_offset in starts:
        if epoch > highest:
            yield epoch, start_offset
            highest = epoch
