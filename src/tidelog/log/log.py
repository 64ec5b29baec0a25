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
import warnings
from collections.abc import Callable, Sequence
from operator import index
from random import Random
from types import TracebackType
from typing import Any, Literal, overload
from uuid import UUID

from tidelog.config import LONG_MAX, LogConfig
from tidelog.disk.disk import Buffer
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.partition_metadata import ZERO_ID
from tidelog.errors import ForkedError
from tidelog.log.append_info import AppendInfo
from tidelog.log.load_report import LoadReport, Progress
from tidelog.log.log_reading import LogReading
from tidelog.log.log_upkeep import LogUpkeep, not_minding
from tidelog.log.maintenance import Maintenance
from tidelog.log.opening import Opening
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.log.read_only import ReadOnlyLog, open_read_only
from tidelog.log.segment import Segment
from tidelog.plurals import counted
from tidelog.record.kernel.clock import wall_clock

Clock = Callable[[], int]
Settings = LogConfig | dict[str, Any] | None

DEFAULT_PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""Kafka's `producer.id.expiration.ms`: how long a producer that is silent is remembered, by the time of its last batch."""


class Log(LogReading, LogUpkeep):
    """A partition log. Made by `Log.open`; a context manager. May be shared between threads."""

    _state: Maintenance

    def __init__(self, writing: Maintenance, report: LoadReport, topic_id: UUID | None) -> None:
        self._state = writing
        self.topic_id = topic_id
        """The id of its topic, from `partition.metadata`; None where there is none. A broker in KRaft mode takes no partition without."""
        self.load_report = report
        """What opening found and did."""
        self.partition = writing.partition
        self.while_cut = not_minding

    @overload
    @classmethod
    def open(
        cls, directory: str | os.PathLike[str], mode: Literal["r"], config: Settings = None, *, pool: FilePool = SHARED
    ) -> ReadOnlyLog: ...

    @overload
    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        mode: Literal["a"] = "a",
        config: Settings = None,
        clock: Clock | None = None,
        recovery: Literal["kafka"] | None = None,
        last_shutdown_clean: bool | None = None,
        recovery_point: int | None = None,
        log_start_offset: int | None = None,
        *,
        topic_id: UUID | None = None,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        pool: FilePool = SHARED,
        workers: int = 1,
        progress: Callable[[Progress], None] | None = None,
        random: Random | None = None,
    ) -> "Log": ...

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        mode: Literal["r", "a"] = "a",
        config: Settings = None,
        clock: Clock | None = None,
        recovery: Literal["kafka"] | None = None,
        last_shutdown_clean: bool | None = None,
        recovery_point: int | None = None,
        log_start_offset: int | None = None,
        *,
        topic_id: UUID | None = None,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        pool: FilePool = SHARED,
        workers: int = 1,
        progress: Callable[[Progress], None] | None = None,
        random: Random | None = None,
    ) -> "Log | ReadOnlyLog":
        """Open a partition directory, named topic-partition.

        With mode "r" only to read, beside whoever owns it: nothing is written, no lock is taken. With "a" it is made if need be, and the
        directory above it is owned, by this process alone.

        What is not given is read from the checkpoints above. `recovery="kafka"` gives exactly a broker's outcome after a crash. Its way
        with damage, to drop what follows, is the default where `flush.messages` is not 1. `workers` is how many segments are recovered at a
        time. A `topic_id` is written to `partition.metadata` before anything else, or has to be the one that is there.
        """
        if mode == "r":
            return open_read_only(directory, config=config, pool=pool)
        if mode != "a":
            raise ValueError(f"mode must be 'r' or 'a', not {mode!r}")
        if recovery not in (None, "kafka"):
            raise ValueError(f"recovery must be 'kafka' or None, not {recovery!r}")
        for name, offset in (("recovery_point", recovery_point), ("log_start_offset", log_start_offset)):
            if offset is not None and not 0 <= offset <= LONG_MAX:
                raise ValueError(f"{name} is an offset from 0 to {LONG_MAX}, not {offset}")
        if topic_id == ZERO_ID:
            raise ValueError("a topic's id is any but zero")
        owner = Opening(
            directory,
            LogConfig.of(config),
            clock or wall_clock,
            pool,
            is_kafka_mode=recovery == "kafka",
            was_clean=last_shutdown_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            producer_expiration_ms=producer_id_expiration_ms,
            workers=workers,
            progress=progress,
            random=random or Random(),  # noqa: S311
        )
        return cls(*owner.open())

    # Where the log stands

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self._state.config

    def reconfigure(self, config: Settings) -> None:
        """Go on with other settings. What was worked out from the old ones for the active segment stays until it is rolled."""
        self._state.reconfigure(LogConfig.of(config))

    @property
    def high_watermark(self) -> int:
        """The first offset that readers do not see yet."""
        return self._state.high_watermark.offset

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        """Set by its owner, where offsets are given from outside (`append_as_follower`); bounded by the log."""
        self._state.set_high_watermark(index(offset))

    @property
    def flushed_end(self) -> int:
        """Everything below this offset survives a power cut."""
        return self._state.commit.flushed_end

    @property
    def recovery_point(self) -> int:
        """Below this offset recovery does not look."""
        return self._state.recovery_point

    @property
    def leader_epochs(self) -> tuple[tuple[int, int], ...]:
        """Leader epochs with the offsets at which they start."""
        return tuple((entry.epoch, entry.start_offset) for entry in self._state.epochs.entries)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where it ends; None if the epoch is not known yet."""
        return self._state.epochs.end_offset_for(epoch, self.log_end_offset)

    # Writing

    def append(
        self, batch: Buffer, *, leader_epoch: int | None = None, origin: Literal["client", "coordinator"] = "client", wait: bool = True
    ) -> AppendInfo:
        """Append one batch as the leader: offsets are assigned. Returns when it is as durable as the log's settings ask for.

        Without `wait` it returns once the batch is written: readers see it, and it is safe, when `wait_until_durable` says so.
        """
        return self._state.append(memoryview(batch) if batch.__class__ is bytes else _as_view(batch), leader_epoch, origin, wait=wait)

    def append_record(self, key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> AppendInfo:
        """Append one record as a batch of its own, as `append` of that batch would. `headers` is their encoded list (`NO_HEADERS`)."""
        return self._state.append_record(key, value, headers, timestamp_ms)

    def append_run(
        self,
        batches: Sequence[Buffer] | Buffer,
        *,
        leader_epoch: int | None = None,
        wait: bool = True,
        stamp: ProducerStamp | None = None,
    ) -> list[AppendInfo]:
        """Append batches one by one, with the same outcome as `append` for each, but faster.

        They come in a list, or one behind the other in one buffer. If one is refused, those before it are in the log, and the error has
        their answers as `appended`. For `wait` see `append`. A `stamp` makes batches without a producer part of its transaction.
        """
        return self._state.append_run(batches, leader_epoch, wait=wait, stamp=stamp)

    def append_file(self, path: str, stamp: ProducerStamp, *, leader_epoch: int | None = None) -> AppendInfo | None:
        """Append a file of ready batches without a producer, as `append_run` would with a stamp, but without copying it.

        The file becomes the active segment: afterwards it has another name. None: that cannot be done, nothing has happened, and its
        batches are to be appended. It lies on another file system or belongs to somebody else, the topic has another codec, or its
        settings would have the log roll on the way. Nothing waits for the disk behind it; see `append`.
        """
        return self._state.append_file(path, leader_epoch, stamp)

    def acknowledge(self, end_offset: int) -> None:
        """Wait as long as the log's settings ask for, as an append up to an offset does that waits."""
        self._state.acknowledge(end_offset)

    def sync_ahead(self) -> None:
        """Have the disk begin with what was written, in another thread: who waits for it afterwards waits less."""
        self._state.sync_ahead()

    def wait_until_durable(self, end_offset: int) -> None:
        """Return when every record below an offset is on disk, whatever the log's settings ask for. Indexes may be behind."""
        self._state.wait_until_durable(end_offset)

    def append_as_follower(self, batches: Buffer, *, leader_epoch: int | None = None) -> AppendInfo | None:
        """Append batches with the offsets and epochs they have, in one write. A batch cut off at the end is left out; None if all is.

        From here on the high watermark is its owner's to set. Batches of an epoch above `leader_epoch` are left out too.
        """
        return self._state.append_as_follower(_as_view(batches), leader_epoch)

    def flush(self) -> None:
        """Make everything durable, indexes too, and move the recovery point to the end."""
        self._state.flush()

    def roll(self) -> Segment:
        """Begin a new segment now."""
        return self._state.roll()

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or above an offset; False if there is nothing. A batch that holds it goes as a whole."""
        offset = index(offset)  # before anything is written down that would be no number
        with self.while_cut(offset):
            return self._state.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next offset is `offset`."""
        offset = index(offset)
        with self.while_cut(offset):
            self._state.truncate_fully_and_start_at(offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up to `offset`, or to the high watermark for -1: the new start. Segments go with the next retention."""
        return self._state.delete_records_before(index(offset))

    def delete_segments(self, count: int, reason: str, *, end_offset: int | None = None) -> int:
        """Delete the first `count` segments; the log start offset moves up first. Gives back how many there were to delete.

        Only those that end at or below `end_offset`: what was decided about them still holds when others append or delete meanwhile.
        """
        return self._state.delete_segments(count, reason, end_offset)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Swap `new`, whose files are complete and named `.cleaned`, for `old`."""
        self._state.replace_segments(new, old)

    def checkpoint(self) -> None:
        """Flush, and write down where the log stands, so that recovery after a crash is short."""
        self._state.checkpoint()

    # Closing

    def close(self) -> None:
        """Flush everything, trim the files, write the checkpoints, and let go of the directory."""
        self._state.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._state.is_closed

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None and not state.is_closed and not isinstance(state.failure, ForkedError):
            warnings.warn(
                f"{self!r} was dropped without being closed: it will be recovered when it is opened", ResourceWarning, stacklevel=2
            )

    def __repr__(self) -> str:
        if isinstance(self.failure, ForkedError):
            return f"Log({self.partition}, of the process that this one was forked from)"
        return f"Log({self.partition}, offsets {self.log_start_offset} to {self.log_end_offset}, {counted(len(self.segments), 'segment')})"


def _as_view(batch: Buffer) -> memoryview:
    view = memoryview(batch)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
