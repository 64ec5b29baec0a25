"""Partition logs for tests: batches to append, a clock that stands still, disks that count, and a check of all that must hold."""

import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.faulty_disk import FaultyDisk
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log
from tidelog.log.maintenance import Maintenance
from tidelog.log.segment import Segment
from tidelog.record import BatchSettings, NewBatch, walk_headers
from tidelog.record.kernel.record import Record

TIME = 1_700_000_000_000
KINDS = (".log", ".index", ".timeindex")
SMALL_INDEX_BYTES = 1 << 16


class FakeClock:
    """Goes on when it is told to."""

    def __init__(self, now_ms: int = TIME) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


class QuietDisk(Disk):
    """The real one, but that nothing is waited for."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


def a_batch(
    count: int = 1, *, timestamp_ms: int = TIME, value: bytes = b"value", key: bytes | None = b"key", base_offset: int = 0, **settings: Any
) -> bytes:
    """A batch of equal records."""
    return NewBatch([(key, value, (), timestamp_ms)] * count, base_offset=base_offset, settings=BatchSettings(**settings)).encode()


def numbered(first: int, count: int = 1, *, timestamp_ms: int = TIME, size: int = 8, base_offset: int = 0, **settings: Any) -> bytes:
    """A batch whose values are the numbers from `first` on, as `number_of` reads them."""
    rows = [(b"k", str(number).encode().ljust(size, b"."), (), timestamp_ms) for number in range(first, first + count)]
    return NewBatch(rows, base_offset=base_offset, settings=BatchSettings(**settings)).encode()


def number_of(record: Record) -> int:
    """The number in a record of `numbered`."""
    assert record.value is not None
    return int(record.value.rstrip(b"."))


def follower_batches(*spans: tuple[int, int], epoch: int = 0, timestamp_ms: int = TIME, **settings: Any) -> bytes:
    """Batches with offsets and epoch, as a leader would send them: (first offset, count) each."""
    return b"".join(
        numbered(first, count, base_offset=first, timestamp_ms=timestamp_ms, partition_leader_epoch=epoch, **settings)
        for first, count in spans
    )


def open_log(home: Path, config: dict[str, Any] | None = None, *, disk: Disk | None = None, name: str = "tide-0", **options: Any) -> Log:
    """A log with a clock that stands still, on a disk of its own, which must be a `FaultyDisk` to be asked for with `disk_of`.

    Its indexes are small: the ten mebibytes that an active one has otherwise are copied and read whenever a test takes the log's files.
    """
    options.setdefault("clock", FakeClock())
    options.setdefault("pool", FilePool(FaultyDisk() if disk is None else disk))
    log: Log = Log.open(home / name, config={"segment.index.bytes": SMALL_INDEX_BYTES, **(config or {})}, **options)
    return log


def pool_of(log: Log) -> FilePool:
    """The pool a log was opened with."""
    return log._state.pool


def state_of(log: Log) -> Maintenance:
    """The inside of a log, for tests that stop it at a point that no call reaches."""
    return log._state


def copy_home(log: Log, target: Path) -> Path:
    """What a killed process leaves: a copy of the directory above an open log, as it is now.

    A file that the background is about to give its name does not stay long enough to be copied.
    """
    shutil.copytree(Path(log.directory).parent, target, ignore=shutil.ignore_patterns(".lock", "*.tmp"))
    return target


def files_of(log_or_directory: Log | Path) -> dict[str, bytes]:
    """All files of a partition directory."""
    directory = Path(log_or_directory.directory) if isinstance(log_or_directory, Log) else log_or_directory
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def cleaned_copy(log: Log, segment: Segment) -> Segment:
    """A complete `.cleaned` segment with what a rolled segment of a log holds."""
    for kind in KINDS:
        shutil.copy(segment.path_of(kind), segment.path_of(kind) + ".cleaned")
    new = Segment(
        pool_of(log),
        log.directory,
        segment.base_offset,
        size_bytes=segment.size_bytes,
        index_bytes=segment.index.size_bytes,
        time_index_bytes=segment.time_index.size_bytes,
    )
    new.restaged(".cleaned")
    return new


class StoredBatch(NamedTuple):
    """A batch as it lies in a segment."""

    segment_base: int
    position: int
    data: bytes
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    epoch: int


def stored_batches(log: Log) -> list[StoredBatch]:
    """Every batch in the files of a log, read past the engine."""
    found = []
    for segment in log.segments:
        data = Path(segment.path_of(".log")).read_bytes()[: segment.size_bytes]
        headers = walk_headers(data)
        assert headers.end_position == len(data) == segment.size_bytes, segment
        columns = (headers.position, headers.size_bytes, headers.base_offset, headers.last_offset, headers.max_timestamp_ms)
        for (position, size, base, last, newest), epoch in zip(
            zip(*(column.tolist() for column in columns), strict=True), headers.partition_leader_epoch.tolist(), strict=True
        ):
            found.append(StoredBatch(segment.base_offset, position, data[position : position + size], base, last, newest, epoch))
    return found


def check_log(log: Log) -> list[StoredBatch]:
    """Everything that holds for every log at rest; gives back what is in its files."""
    segments = log.segments
    assert isinstance(segments, tuple)
    bases = [segment.base_offset for segment in segments]
    assert bases == sorted(set(bases))
    batches = stored_batches(log)
    lasts = [batch.last_offset for batch in batches]
    assert lasts == sorted(set(lasts))
    for segment, next_base in zip(segments, [*bases[1:], log.log_end_offset], strict=True):
        own = [batch for batch in batches if batch.segment_base == segment.base_offset]
        assert all(segment.base_offset <= batch.base_offset and batch.last_offset < next_base for batch in own), (segment, next_base)
        assert segment.size_bytes <= log.config.segment_size_limit
        check_indexes(segment, own)
    assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset, log
    assert bases[0] <= log.log_start_offset
    assert bases[-1] <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset, (log, log.recovery_point)
    assert log.flushed_end <= log.log_end_offset, (log, log.flushed_end)
    if log.config.is_durable:
        assert log.flushed_end == log.log_end_offset, (log, log.flushed_end)
    epochs = log.leader_epochs
    assert list(epochs) == sorted(set(epochs))
    return batches


def check_indexes(segment: Segment, batches: list[StoredBatch]) -> None:
    """Offset entries name batches by last offset and position; time entries name the batch that first reached a new largest timestamp."""
    places = {batch.position: batch.last_offset for batch in batches[1:]}
    entries = list(struct.iter_unpack(">ii", segment.index.entry_bytes()))
    assert entries == sorted(set(entries)), segment
    for relative, position in entries:
        assert places.get(position) == segment.base_offset + relative, (segment, relative, position, places)
    records = {}
    newest = -1
    for batch in batches:
        if batch.max_timestamp_ms > newest:
            newest = batch.max_timestamp_ms
            records[batch.last_offset] = newest
    times = list(struct.iter_unpack(">qi", segment.time_index.entry_bytes()))
    assert times == sorted(set(times)), segment
    for timestamp_ms, relative in times:
        assert records.get(segment.base_offset + relative) == timestamp_ms, (segment, timestamp_ms, relative, records)
    assert segment.max_timestamp.timestamp_ms == newest, (segment, segment.max_timestamp, newest)
