"""Which logs are copied, from where to where, and in which pieces: worked out from headers and indexes, printed as it is.

The end of a copy is the lowest of these: the last stable offset (or the high watermark, if that is asked for), and what `until` says. A
time means Kafka's look-up: the offset of the first record whose timestamp is not below it, so what follows that record is left out even if
it is older. Where there is no such record, everything is copied.

A backup is planned by its names and sizes alone, since nobody vouches for what is in it: its end is found by who reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidelog.config import LogConfig
from tidelog.disk.checkpoints import EpochEntry, parse_epochs
from tidelog.disk.disk import OS, Disk
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import INDEX, LEADER_EPOCH_CHECKPOINT, LOG, TIME_INDEX, TopicPartition, parse_partition, parse_segment_file
from tidelog.errors import CorruptError, OffsetOutOfRangeError, TidelogError, UnknownTopicError, UnsupportedError
from tidelog.inspection.repair_files import PartitionFiles, look_at
from tidelog.inspection.salvage import end_of_swap
from tidelog.log.positions import Time, epoch_ms
from tidelog.log.read_only import ReadOnlyLog, open_read_only
from tidelog.log.read_only_segment import ReadOnlySegment
from tidelog.log.segment import Segment
from tidelog.log.segment_piece import SegmentPiece, cut_segment
from tidelog.store.backup_times import first_at_time
from tidelog.store.batch_selection import NO_END

Until = datetime | Time | Mapping[TopicPartition, int] | Mapping[tuple[str, int], int] | Mapping[str, int] | None
"""Up to where: a time, or offsets by partition. Partitions that are not named go on to their end."""
_MAX_TRIES = 100
_AS_ASKED = "as asked for"


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment that is to be copied, or the beginning of one."""

    pieces: tuple[SegmentPiece, ...]
    """One behind the other; none if it is empty."""
    base_offset: int
    size_bytes: int
    mtime_ns: int
    stage: str = ""
    inode: int = 0

    def as_one_piece(self) -> tuple[SegmentPiece, ...]:
        """All of it as one piece; none if it is empty."""
        if not self.pieces:
            return ()
        first, end = self.pieces[0], self.pieces[-1].end
        return (SegmentPiece(first.directory, first.base_offset, end, 0, end),)


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log that is to be copied. It prints itself."""

    partition: TopicPartition
    directory: str
    log_start_offset: int
    end_offset: int
    why: str
    """Why it ends there."""
    segments: tuple[SourceSegment, ...]
    config: LogConfig
    epochs: tuple[EpochEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Of the pieces that are read."""
        return sum(piece.size_bytes for segment in self.segments for piece in segment.pieces)

    def __str__(self) -> str:
        end = "its end" if self.end_offset >= NO_END else f"{self.end_offset}"
        count = len(self.segments)
        text = f"{self.partition}: offsets {self.log_start_offset} to {end} ({self.why}), {count} segment{'s' if count != 1 else ''}"
        return f"{text}, {self.size_bytes} bytes"


@dataclass(frozen=True, slots=True)
class UntilPoint:
    """What `until` means."""

    time_ms: int | None
    offsets: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, until: Until) -> "UntilPoint":
        """What a caller has given."""
        if until is None:
            return cls(None, {})
        if isinstance(until, (datetime, Time)):
            return cls(max(0, epoch_ms(until)), {})  # below 0 are Kafka's words for the ends of a log
        if not isinstance(until, Mapping):
            raise TypeError(f"until is a datetime, Time(ms), or offsets by partition, not {until!r}")
        offsets = {}
        for name, offset in until.items():
            partition = parse_partition(name) if isinstance(name, str) else TopicPartition(*name)
            if partition is None or type(offset) is not int or offset < 0:
                raise ValueError(
                    f"until names partitions as ('emails', 0) or 'emails-0', with an offset from 0 on, not {name!r}: {offset!r}"
                )
            offsets[partition] = offset
        return cls(None, offsets)

    def check(self, known: Sequence[TopicPartition], path: str) -> None:
        """Raise if an offset is given for a partition that is not copied."""
        for partition in self.offsets:
            if partition not in known:
                raise UnknownTopicError(f"until names {partition}, which is not copied", path=path)

    def of_log(self, log: ReadOnlyLog) -> tuple[int, str] | None:
        """Up to which offset of a log, and why; None: nothing is said about it."""
        if self.time_ms is not None:
            found = log.offset_for_time(self.time_ms)
            return None if found is None else (found.offset, self._why_time())
        offset = self.offsets.get(log.partition)
        if offset is None:
            return None
        if offset > log.log_end_offset:
            raise OffsetOutOfRangeError(
                offset=offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset, path=log.directory
            )
        return offset, _AS_ASKED

    def of_backup(self, directory: str, partition: TopicPartition, files: PartitionFiles, log_start_offset: int) -> tuple[int, str] | None:
        """The same of a log of a backup, which may be damaged in any way."""
        if self.time_ms is None:
            return (self.offsets[partition], _AS_ASKED) if partition in self.offsets else None
        try:
            with open_read_only(directory) as log:
                found = log.offset_for_time(self.time_ms, isolation="log_end")
                offset = None if found is None else found.offset
        except (CorruptError, UnsupportedError):
            offset = first_at_time(directory, files, self.time_ms, log_start_offset)
        return None if offset is None else (offset, self._why_time())

    def _why_time(self) -> str:
        return f"the first record at or after {self.time_ms} ms"


def plan_log(
    log: ReadOnlyLog, config: LogConfig, until: UntilPoint, piece_bytes: int, *, past_stable: bool = False, below: int = NO_END
) -> LogSource:
    """The plan for a log that may have an owner. `below` is an end that was found out since."""
    for attempt in range(_MAX_TRIES):
        try:
            return _plan_log(log, config, until, piece_bytes, past_stable=past_stable, below=below)
        except FileNotFoundError:
            if attempt + 1 == _MAX_TRIES:
                raise
            log.refresh()  # a segment was renamed or removed before it was looked at
    raise AssertionError("the last attempt raises")


def _plan_log(log: ReadOnlyLog, config: LogConfig, until: UntilPoint, piece_bytes: int, *, past_stable: bool, below: int) -> LogSource:
    end, why = (log.high_watermark, "the high watermark") if past_stable else (log.last_stable_offset, "the last stable offset")
    asked = until.of_log(log)
    if asked is not None and asked[0] < end:
        end, why = asked
    if below < end:
        end, why = below, "a transaction that begins there is not over before the end that was asked for"
    view, start = log._state.view, log.log_start_offset
    end = max(end, start)
    place = log._state.place(view, end)
    segments: list[SourceSegment] = []
    for number, segment in enumerate(view.segments):
        assert isinstance(segment, ReadOnlySegment)
        next_base = view.base_offsets[number + 1] if number + 1 < len(view.segments) else None
        if LOG not in segment.files or (next_base is not None and next_base <= start) or (segment.base_offset > end and segments):
            continue
        pieces = [
            piece
            for piece in cut_segment(segment, piece_bytes)
            if segment.base_offset < end and (segment.base_offset < place.base_offset or piece.start <= place.position)
        ]
        seen = segment.files[LOG]
        parsed = parse_segment_file(seen.name)
        size = pieces[-1].end if pieces else 0
        # What is left out is not read: the last piece is the end of the new segment.
        pieces = [SegmentPiece(piece.directory, piece.base_offset, size, piece.start, piece.end) for piece in pieces]
        stage = "" if parsed is None else parsed.stage
        segments.append(SourceSegment(tuple(pieces), segment.base_offset, size, seen.mtime_ns, stage, seen.inode))
    return LogSource(log.partition, log.directory, start, end, why, tuple(segments), config, read_epochs(log.directory, OS))


def plan_backup(
    directory: str, config: LogConfig, log_start_offset: int, until: UntilPoint, piece_bytes: int, disk: Disk = OS
) -> LogSource:
    """The plan for a log of a backup, whatever state it is in: which files would count is as for loading it."""
    partition = parse_partition(directory.rpartition("/")[2])
    assert partition is not None
    files = look_at(disk, directory, lambda path, base_offset: end_of_swap(disk, path, base_offset))
    notes = [f"{left.name}: left out, {left.reason}" for left in (*files.undone, *files.replaced, *files.orphans)]
    notes += [f"{name}: left out, it is named like a segment's but not by 20 digits" for name in files.foreign]
    found = until.of_backup(directory, partition, files, log_start_offset)
    end, why = (NO_END, "all that is sound") if found is None else found
    segments: list[SourceSegment] = []
    for place, base_offset in enumerate(files.base_offsets):
        behind = files.base_offsets[place + 1 :]
        if (behind and behind[0] <= log_start_offset) or (base_offset > end and segments):
            continue
        entry = files.segments[base_offset][LOG]
        sizes = {kind: found.size_bytes for kind, found in files.segments[base_offset].items()}
        parsed = parse_segment_file(entry.name)
        stage = "" if parsed is None else parsed.stage
        pieces = [SegmentPiece(directory, base_offset, entry.size_bytes, 0, entry.size_bytes)] if entry.size_bytes else []
        if not stage and entry.size_bytes > piece_bytes:
            segment = Segment(
                SHARED,
                directory,
                base_offset,
                size_bytes=entry.size_bytes,
                index_bytes=sizes.get(INDEX, 0),
                time_index_bytes=sizes.get(TIME_INDEX, 0),
            )
            try:
                pieces = cut_segment(segment, piece_bytes)
            except (TidelogError, OSError):
                notes.append(f"{base_offset}: its index cannot be used, so it is read in one go")
            finally:
                segment.forget()
        segments.append(SourceSegment(tuple(pieces), base_offset, entry.size_bytes, entry.mtime_ns, stage))
    start = max(log_start_offset, files.base_offsets[0] if files.base_offsets else 0)
    return LogSource(partition, directory, start, end, why, tuple(segments), config, read_epochs(directory, disk), tuple(notes))


def read_epochs(directory: str, disk: Disk) -> tuple[EpochEntry, ...]:
    """What a partition's file of leader epochs says; nothing if it cannot be read, since the batches say it too."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return tuple(parse_epochs(disk.read_file(path), path))
    except (FileNotFoundError, TidelogError):
        return ()
