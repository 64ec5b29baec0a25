"""Load a partition directory: Kafka's order of work, and what is different where Kafka would throw data away.

    1  leftovers of replaced and deleted segments are finished or undone      (`swap`)
    2  index files without a `.log` go; segments whose index is missing or damaged get new ones
    3  after an unclean stop, every segment from the recovery point on is read and checked      (`recovery`)
    4  the end of the log is found in its last segment
    5  leader epochs are cut to the log

A torn tail of the last segment is what a crash leaves: it is cut off, kept aside in a file, and reported. A bad batch with data behind it
is not: a roll makes the old segment durable before anything in the new one is acknowledged. Then loading stops with `DamagedLogError`
before it has changed anything. In the mode "kafka" everything from the bad batch on goes, as in a broker, but is kept aside too.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidelog.config import LogConfig
from tidelog.disk.disk import Entry
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import (
    INDEX,
    LOG,
    OWN_SUFFIX,
    SEGMENT_KINDS,
    TEMPORARY_SUFFIX,
    TIME_INDEX,
    TXN_INDEX,
    cut_file,
    parse_segment_file,
    segment_file,
)
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.log.leader_epoch_cache import LeaderEpochCache
from tidelog.log.load_report import Cut, LoadReport, Progress
from tidelog.log.offset_index import ENTRY as OFFSET_ENTRY
from tidelog.log.recovery import ScannedSegment, keep_aside, scan_segment, write_indexes
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.log.segment import Segment
from tidelog.log.segment_read import find_last_batch
from tidelog.log.split import split_segment
from tidelog.log.swap import finish_or_undo
from tidelog.log.time_index import ENTRY as TIME_ENTRY


@dataclass(slots=True)
class LoadedLog:
    """A partition directory in order, ready to be appended to."""

    segments: list[Segment]
    next_offset: int
    log_start_offset: int
    recovery_point: int
    epochs: LeaderEpochCache


@dataclass(slots=True)
class Loader:
    """Loads one directory, once."""

    pool: FilePool
    directory: str
    config: LogConfig
    is_kafka_mode: bool
    """Exactly Kafka's outcome, though what it removes is kept aside."""
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    report: LoadReport
    """Filled while loading, so that what was done is known also when it raises."""
    workers: int = 1
    progress: Callable[[Progress], None] | None = None

    def load(self) -> LoadedLog:
        """All the steps."""
        report = self.report
        report.was_clean = self.is_clean
        disk = self.pool.disk
        epochs = LeaderEpochCache.load(disk, self.directory)
        while True:
            report.actions += finish_or_undo(self.pool, self.directory, disk.entries(self.directory))
            segments = self._find_segments(report)
            suspects = segments if not self.is_clean else []
            to_recover = [segment for index, segment in enumerate(suspects) if self._reaches(segments, index, self.recovery_point)]
            self._rebuild_indexes(segments, to_recover, epochs, report)
            if not self._recover(segments, to_recover, epochs, report):
                break  # otherwise a segment was split, and all begins again
        next_offset = self._find_end(segments, epochs, report)
        if next_offset < self.log_start_offset:
            self._start_over(segments, epochs, report)
            next_offset = self.log_start_offset
        if not segments:
            segments.append(create_segment(self.pool, self.directory, self.log_start_offset))
            disk.sync_directory(self.directory)
            next_offset = self.log_start_offset
        epochs.truncate_end(next_offset)
        epochs.truncate_start(self.log_start_offset)
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        recovery_point = next_offset if self.is_clean else min(self.recovery_point, next_offset)
        return LoadedLog(segments, next_offset, log_start_offset, max(recovery_point, log_start_offset), epochs)

    @staticmethod
    def _reaches(segments: list[Segment], index: int, offset: int) -> bool:
        """Whether a segment has offsets at or above `offset`."""
        return index + 1 == len(segments) or segments[index + 1].base_offset > offset

    def _find_segments(self, report: LoadReport) -> list[Segment]:
        disk = self.pool.disk
        sizes: dict[int, dict[str, Entry]] = {}
        for entry in disk.entries(self.directory):
            parsed = parse_segment_file(entry.name)
            if parsed is not None and not parsed.stage:
                sizes.setdefault(parsed.base_offset, {})[parsed.kind] = entry
            elif entry.name.startswith("rebuilt-") and entry.name.endswith(OWN_SUFFIX):
                disk.remove(f"{self.directory}/{entry.name}")
            elif entry.name.endswith(TEMPORARY_SUFFIX) and not entry.is_directory:
                disk.remove(f"{self.directory}/{entry.name}")
                report.actions.append(f"removed {entry.name}: a file that was not finished")
        segments = []
        for base_offset in sorted(sizes):
            files = sizes[base_offset]
            if LOG not in files:
                for kind in (INDEX, TIME_INDEX, TXN_INDEX):
                    if kind in files:
                        disk.remove(f"{self.directory}/{files[kind].name}")
                        report.actions.append(f"removed {files[kind].name}: there is no .log beside it")
                continue
            segment = Segment(
                self.pool,
                self.directory,
                base_offset,
                size_bytes=files[LOG].size_bytes,
                index_bytes=files[INDEX].size_bytes if INDEX in files else 0,
                time_index_bytes=files[TIME_INDEX].size_bytes if TIME_INDEX in files else 0,
            )
            segment.has_index = INDEX in files
            segment.has_time_index = TIME_INDEX in files
            segments.append(segment)
        return segments

    def _rebuild_indexes(self, segments: list[Segment], recovered: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> None:
        """New indexes for segments that lack them, or whose indexes cannot be right, and that recovery will not look at anyway."""
        skip = {id(segment) for segment in recovered}
        for index, segment in enumerate(segments):
            if id(segment) in skip:
                continue
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
            if segment.has_index and (self.is_kafka_mode or (segment.has_time_index and _are_plausible(segment, next_base))):
                continue
            if not segment.has_index and segment.size_bytes == 0:
                continue
            scanned = self._scan(segment)
            if not scanned.is_whole and index + 1 < len(segments) and not self.is_kafka_mode:
                raise self._damaged(segment, scanned, segments[index + 1 :])
            self._apply(segment, scanned, epochs, report)
            report.rebuilt_indexes.append(segment.base_offset)

    def _recover(self, segments: list[Segment], to_recover: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> bool:
        """Check the segments from the recovery point on. True if one was split, so that everything has to be looked at again."""
        total = sum(segment.size_bytes for segment in to_recover)
        done_bytes = 0
        for done, (segment, scanned) in enumerate(self._scan_all(to_recover), 1):
            place = segments.index(segment)
            behind = segments[place + 1 :]
            if scanned.has_overflow:
                split_segment(self.pool, segment, self.config)
                report.actions.append(f"split segment {segment.base_offset}: offsets too far from its base")
                return True
            if scanned.error is not None and "below its segment" in scanned.error.what:
                raise DamagedLogError(
                    scanned.error.what,
                    path=segment.file.path,
                    position=scanned.error.position,
                    expected=scanned.error.expected,
                    found=scanned.error.found,
                    hint="salvage copies what is sound",
                )
            if not scanned.is_whole and any(later.size_bytes for later in behind) and not self.is_kafka_mode:
                raise self._damaged(segment, scanned, behind)
            self._apply(segment, scanned, epochs, report)
            report.recovered_segments.append(segment.base_offset)
            report.recovered_bytes += scanned.size_bytes
            done_bytes += scanned.size_bytes
            if self.progress is not None:
                self.progress(Progress(done, len(to_recover), done_bytes, total))
            if not scanned.is_whole:
                for later in behind:
                    self._set_aside(later, f"behind the damage in segment {segment.base_offset}", report)
                del segments[place + 1 :]
                break
        return False

    def _scan(self, segment: Segment) -> ScannedSegment:
        return scan_segment(segment, index_interval_bytes=self.config.index_interval_bytes, any_magic=self.is_kafka_mode)

    def _scan_all(self, segments: list[Segment]) -> Iterator[tuple[Segment, ScannedSegment]]:
        """Scan in order, several at a time; never more than the workers ahead, since each result holds the indexes of its segment."""
        if self.workers <= 1 or len(segments) <= 1:
            for segment in segments:
                yield segment, self._scan(segment)
            return
        with ThreadPoolExecutor(self.workers, "tidelog-recovery") as executor:
            running = [executor.submit(self._scan, segment) for segment in segments[: self.workers]]
            for index, segment in enumerate(segments):
                scanned = running.pop(0).result()
                if index + self.workers < len(segments):
                    running.append(executor.submit(self._scan, segments[index + self.workers]))
                yield segment, scanned

    def _apply(self, segment: Segment, scanned: ScannedSegment, epochs: LeaderEpochCache, report: LoadReport) -> None:
        """Cut off what is not sound, and write the indexes."""
        latest = epochs.latest_epoch
        epochs.assign_many([(epoch, start) for epoch, start in scanned.epoch_starts if latest is None or epoch > latest])
        if not scanned.is_whole:
            reason = "the last batch is cut off" if scanned.error is None else str(scanned.error.what)
            self._cut(segment, scanned.valid_bytes, reason, report)
        write_indexes(self.pool.disk, segment, scanned)
        self.pool.disk.sync_directory(self.directory)

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
        for kind in SEGMENT_KINDS[1:]:
            if disk.exists(segment.path_of(kind)):
                disk.remove(segment.path_of(kind))
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
            found = find_last_batch(last)
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
            self._apply(last, scanned, epochs, report)
            return scanned.next_offset
        return last.base_offset if found is None else found.last_offset + 1

    def _start_over(self, segments: list[Segment], epochs: LeaderEpochCache, report: LoadReport) -> None:
        """The log ends before the offset at which it is said to start: all of it was deleted."""
        for segment in segments:
            self._set_aside(segment, f"the log starts at offset {self.log_start_offset}, behind its end", report)
        segments.clear()
        epochs.clear()

    def _damaged(self, segment: Segment, scanned: ScannedSegment, behind: list[Segment]) -> DamagedLogError:
        lost = sum(later.size_bytes for later in behind)
        what = "a batch is cut off" if scanned.error is None else scanned.error.what
        return DamagedLogError(
            f"damage with {len(behind)} segments and {lost} bytes behind it, which no crash explains: {what}",
            path=segment.file.path,
            position=scanned.valid_bytes,
            hint='nothing was changed; "repair" and "salvage" keep what is sound, recovery="kafka" drops all behind it as a broker would',
            findings=(scanned.error,) if scanned.error is not None else (),
        )


def create_segment(pool: FilePool, directory: str, base_offset: int) -> Segment:
    """A new, empty segment; left-over files of that name go first."""
    for kind in SEGMENT_KINDS:
        path = f"{directory}/{segment_file(base_offset, kind)}"
        if pool.disk.exists(path):
            pool.disk.remove(path)
    pool.create(f"{directory}/{segment_file(base_offset, LOG)}")
    return Segment(pool, directory, base_offset, size_bytes=0, index_bytes=0, time_index_bytes=0)


def _are_plausible(segment: Segment, next_base: int | None) -> bool:
    """Whether the last entries of both indexes could be right: whole entries, within the file, within the offsets of the segment."""
    if segment.index.found_bytes % segment.index.entry_size or segment.time_index.found_bytes % segment.time_index.entry_size:
        return False
    highest = MAX_RELATIVE_OFFSET if next_base is None else next_base - 1 - segment.base_offset
    entry = segment.index.read_last_entry()
    if entry:
        offset, position = OFFSET_ENTRY.unpack(entry)
        # The first batch of a segment never has an entry, so no position is 0: zeros are what a crash leaves of a preallocated file.
        if not (0 <= offset <= highest and 0 < position < segment.size_bytes):
            return False
    entry = segment.time_index.read_last_entry()
    if entry:
        timestamp_ms, offset = TIME_ENTRY.unpack(entry)
        if not (0 <= offset <= highest and timestamp_ms >= 0) or (timestamp_ms == 0 and segment.time_index.entries > 1):
            return False
    return True
