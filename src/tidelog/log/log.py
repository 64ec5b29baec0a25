"""One partition: a log in a directory, appended to at one end and read from anywhere.

Writing is done under one lock, by any thread. Reading takes none: it works on a view of the segments, which is replaced whole when they
change, and on two bounds, the log end and the high watermark, each one value.

Three offsets say how much of the log is safe:

    log_end_offset      the next offset to be assigned
    flushed_end         everything below survives a power cut: its `.log` bytes are synced
    recovery_point      below it indexes and directory are synced too, so that recovery need not look there

With `flush.messages=1`, the default, an append returns when the flushed end has passed it, and the high watermark follows the flushed
end: no reader sees what a power cut could take back. A weaker setting lets it follow the log end.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Literal
from uuid import UUID

from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.log_directory import LogDirectory, make_durable_directory
from tidelog.disk.names import parse_partition
from tidelog.disk.partition_metadata import check_topic_id
from tidelog.errors import DamagedLogError, LogClosedError, LogNotFoundError, OffsetOutOfRangeError, TidelogError
from tidelog.log import time_lookup
from tidelog.log.append_info import AppendInfo
from tidelog.log.fetched import Fetched
from tidelog.log.load_report import LoadReport, Progress
from tidelog.log.loader import Loader
from tidelog.log.maintenance import Maintenance
from tidelog.log.positions import EARLIEST, LATEST, Position
from tidelog.log.reading import iterate_batches, iterate_records
from tidelog.log.segment import Segment
from tidelog.log.segment_read import Slice, read_slice
from tidelog.log.storage_errors import storage_error
from tidelog.log.time_lookup import OffsetAndTimestamp
from tidelog.log.view import Bound, View
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch

Isolation = Literal["log_end", "high_watermark"]
Clock = Callable[[], int]

DEFAULT_MAX_BATCH_BYTES = 0x7FFFFFFF


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Log:
    """A partition log. Made by `Log.open`; a context manager. May be shared between threads."""

    def __init__(self, writing: Maintenance, report: LoadReport, topic_id: UUID | None) -> None:
        self._writing = writing
        self.topic_id = topic_id
        """The id of its topic, from `partition.metadata`; None where there is none. A broker in KRaft mode takes no partition without."""
        self.load_report = report
        """What opening found and did."""
        self.partition = writing.partition
        self.config = writing.config

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        mode: Literal["a"] = "a",
        config: LogConfig | dict[str, Any] | None = None,
        clock: Clock | None = None,
        recovery: Literal["kafka"] | None = None,
        last_shutdown_clean: bool | None = None,
        recovery_point: int | None = None,
        log_start_offset: int | None = None,
        *,
        topic_id: UUID | None = None,
        pool: FilePool = SHARED,
        workers: int = 1,
        progress: Callable[[Progress], None] | None = None,
        random: Random | None = None,
    ) -> "Log":
        """Open a partition directory, made if need be, named topic-partition, and own the directory above it.

        What is not given is read from the checkpoints above. `recovery="kafka"` gives exactly a broker's outcome after a crash; it is the
        default where `flush.messages` is not 1. `workers` is how many segments are recovered at a time. A `topic_id` is written to
        `partition.metadata` before anything else, or has to be the one that is there.
        """
        if mode != "a":
            raise ValueError(f"mode must be 'a', not {mode!r}")
        settings = LogConfig.of(config)
        resolved = Path(directory).resolve()
        path = str(resolved)
        partition = parse_partition(resolved.name)
        if partition is None:
            raise LogNotFoundError(
                "not the name of a partition directory", path=path, expected="topic-partition, as in emails-0", found=resolved.name
            )
        disk = pool.disk
        home = LogDirectory.claim(str(resolved.parent), partition, disk=disk)
        report = LoadReport()
        try:
            is_new = not disk.exists(path)
            if is_new:
                make_durable_directory(disk, path)
            loader = Loader(
                pool,
                path,
                settings,
                is_kafka_mode=recovery == "kafka" or not settings.is_durable,
                is_clean=is_new or (home.was_clean(partition) if last_shutdown_clean is None else last_shutdown_clean),
                recovery_point=recovery_point if recovery_point is not None else home.recovery_point(partition) or 0,
                log_start_offset=log_start_offset if log_start_offset is not None else home.log_start_offset(partition) or 0,
                report=report,
                workers=workers,
                progress=progress,
            )
            found_id = check_topic_id(disk, path, topic_id)
            loaded = loader.load()
            writing = Maintenance(home, partition, path, settings, clock or wall_clock, pool, loaded, random or Random())  # noqa: S311
            writing.settle_in()
        except BaseException as error:
            if isinstance(error, DamagedLogError) and not report.has_changed:
                home.abandon(partition)  # the clean shutdown marker comes back
            else:
                home.release(partition, clean=False)
            if isinstance(error, OSError) and not isinstance(error, TidelogError):
                raise storage_error(error, path, "opening the log failed") from error
            raise
        return cls(writing, report, found_id)

    # Where the log stands

    @property
    def directory(self) -> str:
        """Its directory."""
        return self._writing.directory

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments as they are now, in order."""
        return self._writing.view.segments

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._writing.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be assigned."""
        return self._writing.view.active.end[0]

    @property
    def high_watermark(self) -> int:
        """The first offset that readers do not see yet."""
        return self._writing.high_watermark.offset

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        """Set by its owner, where offsets are given from outside (`append_as_follower`); bounded by the log."""
        self._writing.set_high_watermark(offset)

    @property
    def flushed_end(self) -> int:
        """Everything below this offset survives a power cut."""
        return self._writing.commit.flushed_end

    @property
    def recovery_point(self) -> int:
        """Below this offset recovery does not look."""
        return self._writing.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def leader_epochs(self) -> tuple[tuple[int, int], ...]:
        """Leader epochs with the offsets at which they start."""
        return tuple((entry.epoch, entry.start_offset) for entry in self._writing.epochs.entries)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where it ends; None if the epoch is not known yet."""
        return self._writing.epochs.end_offset_for(epoch, self.log_end_offset)

    # Writing

    def append(self, batch: Buffer, *, leader_epoch: int | None = None, origin: Literal["client", "coordinator"] = "client") -> AppendInfo:
        """Append one batch as the leader: offsets are assigned. Returns when it is as durable as the log's settings ask for."""
        return self._writing.append(_as_view(batch), leader_epoch, origin)

    def append_run(self, batches: Sequence[Buffer] | Buffer, *, leader_epoch: int | None = None) -> list[AppendInfo]:
        """Append batches one by one, with the same outcome as `append` for each, but faster.

        They come in a list, or one behind the other in one buffer. If one is refused, those before it are in the log, and the error has
        their answers as `appended`.
        """
        return self._writing.append_run(batches, leader_epoch)

    def append_as_follower(self, batches: Buffer, *, leader_epoch: int | None = None) -> AppendInfo | None:
        """Append batches with the offsets and epochs they have, in one write. A batch cut off at the end is left out; None if all is.

        From here on the high watermark is its owner's to set. Batches of an epoch above `leader_epoch` are left out too.
        """
        return self._writing.append_as_follower(_as_view(batches), leader_epoch)

    def flush(self) -> None:
        """Make everything durable, indexes too, and move the recovery point to the end."""
        self._writing.flush()

    def roll(self) -> Segment:
        """Begin a new segment now."""
        return self._writing.roll()

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or above an offset; False if there is nothing. A batch that holds it goes as a whole."""
        return self._writing.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next offset is `offset`."""
        self._writing.truncate_fully_and_start_at(offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up to `offset`, or to the high watermark for -1: the new start. Segments go with the next retention."""
        return self._writing.delete_records_before(offset)

    def delete_segments(self, count: int, reason: str) -> int:
        """Delete the first `count` segments; the log start offset moves up first. Gives back how many there were to delete."""
        return self._writing.delete_segments(count, reason)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Swap `new`, whose files are complete and named `.cleaned`, for `old`."""
        self._writing.replace_segments(new, old)

    def checkpoint(self) -> None:
        """Flush, and write down where the log stands, so that recovery after a crash is short."""
        self._writing.checkpoint()

    # Reading

    def fetch(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = "high_watermark",
        min_one: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> Fetched:
        """Bytes from the batch that holds `offset` on, at most `max_bytes`, of one segment.

        With `min_one` the first batch is whole even if it is larger, up to `max_batch_bytes`.
        """
        writing = self._writing
        while True:
            if writing.is_closed:
                raise LogClosedError("the log is closed", path=self.directory)
            view = writing.view
            bound = view.end if isolation == "log_end" else writing.high_watermark
            start, end_offset = writing.log_start_offset, view.segments[-1].end[0]
            place = view.floor(offset)
            if offset < start or offset > end_offset or place < 0:
                raise OffsetOutOfRangeError(offset=offset, log_start_offset=start, log_end_offset=end_offset, path=self.directory)
            try:
                found = _fetch(view, place, offset, max_bytes, bound, min_one, max_batch_bytes)
            except FileNotFoundError:
                if writing.view is view:
                    raise
                continue  # the segment was deleted before we opened it: look again
            if found is None:
                return Fetched(b"", offset, bound.base_offset, bound.position, False, start, writing.high_watermark.offset, end_offset)
            segment, (data, position, is_incomplete) = found
            return Fetched(data, offset, segment.base_offset, position, is_incomplete, start, writing.high_watermark.offset, end_offset)

    def offset_for_time(self, timestamp_ms: int, *, isolation: Isolation = "high_watermark") -> OffsetAndTimestamp | None:
        """The first record at or after a time. Negative values ask for Kafka's special offsets (`tidelog.log.time_lookup`).

        None if there is none below the bound of the isolation.
        """
        writing = self._writing
        if writing.is_closed:
            raise LogClosedError("the log is closed", path=self.directory)
        view = writing.view
        bound = view.end if isolation == "log_end" else writing.high_watermark
        if timestamp_ms >= 0:
            found = time_lookup.offset_for_time(view.segments, timestamp_ms, writing.log_start_offset, view.active.size_bytes)
        elif timestamp_ms == time_lookup.LATEST_TIMESTAMP:
            return OffsetAndTimestamp(bound.offset, -1)
        elif timestamp_ms in (time_lookup.EARLIEST_TIMESTAMP, time_lookup.EARLIEST_LOCAL_TIMESTAMP):
            return OffsetAndTimestamp(writing.log_start_offset, -1)
        elif timestamp_ms == time_lookup.MAX_TIMESTAMP:
            found = time_lookup.max_timestamp(view.segments)
        elif timestamp_ms in (time_lookup.LATEST_TIERED_TIMESTAMP, time_lookup.EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return None  # nothing is tiered
        else:
            raise ValueError(f"no special offset has the number {timestamp_ms}")
        return found if found is not None and found.offset < bound.offset else None

    @property
    def earliest(self) -> OffsetAndTimestamp:
        """The beginning of the log."""
        return OffsetAndTimestamp(self.log_start_offset, -1)

    @property
    def latest(self) -> OffsetAndTimestamp:
        """What comes next, for readers."""
        return OffsetAndTimestamp(self.high_watermark, -1)

    @property
    def max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp."""
        return self.offset_for_time(time_lookup.MAX_TIMESTAMP)

    def batches(
        self,
        start: Position = EARLIEST,
        end: Position = LATEST,
        *,
        isolation: Isolation = "high_watermark",
        when_overtaken: Literal["raise", "skip"] = "raise",
    ) -> Iterator[RecordBatch | LegacyBatch]:
        """The batches from one position to another, each as a view. See `read`."""
        return iterate_batches(self, start, end, isolation, when_overtaken)

    def read(
        self,
        start: Position = EARLIEST,
        end: Position = LATEST,
        *,
        isolation: Isolation = "high_watermark",
        when_overtaken: Literal["raise", "skip"] = "raise",
    ) -> Iterator[Record]:
        """The records from one position up to, not including, another: offsets, times, EARLIEST, LATEST.

        If the log start offset overtakes the reading, `OffsetOutOfRangeError` says where the log starts now; with "skip" it goes on there.
        """
        return iterate_records(self, start, end, isolation, when_overtaken)

    # Closing

    def close(self) -> None:
        """Flush everything, trim the files, write the checkpoints, and let go of the directory."""
        self._writing.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._writing.is_closed

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        writing = getattr(self, "_writing", None)
        if writing is not None and not writing.is_closed:
            warnings.warn(
                f"{self!r} was dropped without being closed: it will be recovered when it is opened", ResourceWarning, stacklevel=2
            )

    def __repr__(self) -> str:
        return f"Log({self.partition}, offsets {self.log_start_offset} to {self.log_end_offset}, {len(self.segments)} segments)"


def _as_view(batch: Buffer) -> memoryview:
    view = memoryview(batch)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _fetch(
    view: View, place: int, offset: int, max_bytes: int, bound: Bound, min_one: bool, max_batch_bytes: int
) -> tuple[Segment, Slice] | None:
    """Look in the segment at `place` and, where it has nothing at or above the offset, in those behind it."""
    bound_offset, bound_base, bound_position = bound
    if offset >= bound_offset:
        return None
    for segment in view.segments[place:]:
        base_offset = segment.base_offset
        if base_offset > bound_base:
            break
        max_position = bound_position if base_offset == bound_base else segment.end[1]
        found = read_slice(segment, offset, max_bytes, max_position, min_one, max_batch_bytes)
        if found is not None:
            return segment, found
    return None
