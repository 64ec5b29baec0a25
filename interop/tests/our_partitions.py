"""Partition directories that our engine wrote, in every way it can, for Kafka to open."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import KINDS, TIME, FakeClock, QuietDisk, follower_batches, numbered
from tidelog.disk.file_pool import FilePool
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.record import BatchSettings, Compression, NewBatch

SMALL = {"internal.segment.bytes": "500", "index.interval.bytes": "0", "segment.index.bytes": "240"}
POOL = FilePool(QuietDisk())

ROWS: list[Any] = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    (None, None),
    (b"headers", b"v", [("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("ключ", "значение".encode())]),
    (b"late", b"v", (), TIME - 5_000_000),
    (b"early", b"v", (), TIME + 1_000_000),
    (b"large", bytes(range(256)) * 3),
]


@dataclass(frozen=True)
class OurPartition:
    """A directory that nobody has open."""

    directory: Path
    config: dict[str, str]
    log_start_offset: int = 0
    was_closed: bool = True
    """Whether Kafka may be told that it was closed in order."""


@dataclass
class Writer:
    """Opens a log of ours, lets it be written to, and leaves it as it is wanted."""

    home: Path
    config: dict[str, str]
    clock: FakeClock = field(default_factory=FakeClock)

    @property
    def directory(self) -> Path:
        return self.home / "tide-0"

    def open(self, **found: Any) -> Log:
        return Log.open(self.directory, config=self.config, clock=self.clock, pool=POOL, **found)

    def closed(self, write: Callable[[Log], None], **found: Any) -> OurPartition:
        with self.open(**found) as log:
            write(log)
            start = log.log_start_offset
        return OurPartition(self.directory, self.config, start)

    def killed(self, write: Callable[[Log], None]) -> OurPartition:
        """A copy of the directory while the log is open."""
        with self.open() as log:
            write(log)
            left = self.home / "killed" / "tide-0"
            shutil.copytree(self.directory, left)
            return OurPartition(left, self.config, log.log_start_offset, was_closed=False)


Maker = Callable[[Path], OurPartition]
PARTITIONS: dict[str, Maker] = {}


def partition(name: str, **config: Any) -> Callable[[Callable[[Log], None]], Callable[[Log], None]]:
    """Registers what is written to a log that is closed then."""

    def register(write: Callable[[Log], None]) -> Callable[[Log], None]:
        settings = _settings(config)
        PARTITIONS[name] = lambda home: Writer(home, settings).closed(write)
        return write

    return register


def _settings(config: dict[str, Any]) -> dict[str, str]:
    return SMALL | {name.replace("_", "."): str(value) for name, value in config.items()}


def several(log: Log) -> None:
    """Some twenty batches whose times go up and down."""
    for number in range(20):
        log.append(numbered(number * 2, 1 + number % 3, timestamp_ms=TIME + number * 10 - 25 * (number % 4 == 3)))


# Contents


def all_shapes(log: Log, codec: Compression = Compression.NONE) -> None:
    for count in (9, 1, 4):
        for first in range(0, len(ROWS), count):
            rows = ROWS[first : first + count]
            log.append(NewBatch(rows, timestamp_ms=TIME + first, settings=BatchSettings(compression=codec)).encode())


for _codec in Compression:
    partition(f"codec-{_codec}", internal_segment_bytes=3000, index_interval_bytes=100)(partial(all_shapes, codec=_codec))
    if _codec is not Compression.NONE:
        partition(f"codec-to-{_codec}", internal_segment_bytes=3000, compression_type=_codec)(all_shapes)
partition("codec-to-uncompressed", internal_segment_bytes=3000, compression_type="uncompressed")(
    partial(all_shapes, codec=Compression.ZSTD)
)


@partition("append-time", message_timestamp_type="LogAppendTime", internal_segment_bytes=3000)
def append_time(log: Log) -> None:
    for codec in Compression:
        all_shapes(log, codec)


partition("settings-of-kafka", internal_segment_bytes=1 << 30, index_interval_bytes=4096, segment_index_bytes=10 << 20)(several)
partition("tiny-segments", internal_segment_bytes=150)(several)
partition("every-100-bytes", internal_segment_bytes=2000, index_interval_bytes=100)(several)
partition("preallocated", preallocate="true")(several)
partition("small-index", internal_segment_bytes=5000, segment_index_bytes=36)(several)
partition("no-index", internal_segment_bytes=5000, segment_index_bytes=12)(several)
partition("by-time", segment_ms=30)(several)
partition("compacted", cleanup_policy="compact", max_compaction_lag_ms=30)(several)
partition("not-flushed", flush_messages=2**63 - 1)(several)
partition("empty")(lambda log: None)


@partition("rolled-by-hand")
def rolled_by_hand(log: Log) -> None:
    several(log)
    log.roll()
    log.roll()


@partition("sparse-index", internal_segment_bytes=40_000, index_interval_bytes=4096, segment_index_bytes=10 << 20)
def sparse_index(log: Log) -> None:
    for first in range(0, 1500, 50):
        log.append_run([numbered(first + number, timestamp_ms=TIME + first + number, size=40) for number in range(50)])


@partition("without-times")
def without_times(log: Log) -> None:
    for number in range(12):
        log.append(numbered(number, timestamp_ms=-1 if number % 4 else TIME + number))
    log.roll()
    log.append(numbered(12, timestamp_ms=-1))


@partition("leader-epochs")
def leader_epochs(log: Log) -> None:
    for number, epoch in enumerate((0, 0, 3, 3, 3, 4, 9, 9, 10, 10, 2**31 - 1)):
        log.append(numbered(number), leader_epoch=epoch)


# Followers


@partition("follower")
def follower(log: Log) -> None:
    log.append_as_follower(follower_batches((7, 2), (9, 1), (20, 3), epoch=1))
    log.append_as_follower(follower_batches((1000, 1), (1005, 2), epoch=4, compression="lz4", timestamp_ms=TIME + 5))
    log.append(numbered(1007), leader_epoch=6)
    log.append_as_follower(follower_batches((2000, 1), epoch=6) + follower_batches((2001, 5), epoch=7))
    log.append_as_follower(follower_batches((2010, 1), (2011, 1), epoch=7)[:-3])


@partition("follower-far", internal_segment_bytes=5000)
def follower_far(log: Log) -> None:
    log.append(numbered(0))
    for offset in (2**31 - 1, 2**31 + 1, 2**32, 2**40):
        log.append_as_follower(follower_batches((offset, 1), epoch=1))
        log.append(numbered(offset), leader_epoch=1)


@partition("follower-small-index", internal_segment_bytes=5000, segment_index_bytes=36)
def follower_small_index(log: Log) -> None:
    """More batches in a call than the indexes have room for."""
    for first in (0, 100, 200):
        log.append_as_follower(b"".join(follower_batches((first + n, 1), timestamp_ms=TIME + first + n) for n in range(10)))


# Changes


def truncated(log: Log, offset: int) -> None:
    several(log)
    log.truncate_to(offset)


def truncated_and_appended(log: Log, offset: int) -> None:
    truncated(log, offset)
    log.append(numbered(5, 2, timestamp_ms=TIME + 3), leader_epoch=2)
    several(log)


for _offset in (0, 1, 4, 5, 17, 26, 36):
    partition(f"truncated-to-{_offset}")(partial(truncated, offset=_offset))
    partition(f"truncated-to-{_offset}-appended", index_interval_bytes=100, internal_segment_bytes=900)(
        partial(truncated_and_appended, offset=_offset)
    )


@partition("truncated-fully")
def truncated_fully(log: Log) -> None:
    several(log)
    log.truncate_fully_and_start_at(1000)
    log.append(numbered(1000))


def log_start(log: Log, start: int) -> None:
    several(log)
    log.delete_records_before(min(start, log.log_end_offset))


for _start in (1, 5, 17, 39):
    partition(f"log-start-{_start}")(partial(log_start, start=_start))


@partition("log-start-epochs")
def log_start_epochs(log: Log) -> None:
    leader_epochs(log)
    log.delete_records_before(7)


@partition("segments-deleted")
def segments_deleted(log: Log) -> None:
    several(log)
    log.delete_segments(2, "a test")


@partition("segments-replaced")
def segments_replaced(log: Log) -> None:
    several(log)
    old = log.segments[1]
    for kind in KINDS:
        shutil.copy(old.path_of(kind), old.path_of(kind) + ".cleaned")
    sizes = {"size_bytes": old.size_bytes, "index_bytes": old.index.size_bytes, "time_index_bytes": old.time_index.size_bytes}
    new = Segment(POOL, log.directory, old.base_offset, **sizes)
    new.restaged(".cleaned")
    log.replace_segments([new], [old])


def made_by(name: str) -> Callable[[Callable[[Writer], OurPartition]], Callable[[Writer], OurPartition]]:
    """Registers what takes more than one opening."""

    def register(make: Callable[[Writer], OurPartition]) -> Callable[[Writer], OurPartition]:
        PARTITIONS[name] = lambda home: make(Writer(home, SMALL))
        return make

    return register


@made_by("reopened")
def reopened(writer: Writer) -> OurPartition:
    for _ in range(3):
        left = writer.closed(several)
    return left


@made_by("reopened-after-truncation")
def reopened_after_truncation(writer: Writer) -> OurPartition:
    writer.closed(partial(truncated, offset=23))
    return writer.closed(several)


@made_by("killed")
def killed(writer: Writer) -> OurPartition:
    return writer.killed(several)


@made_by("killed-preallocated")
def killed_preallocated(writer: Writer) -> OurPartition:
    writer.config = SMALL | {"preallocate": "true"}
    return writer.killed(several)


@made_by("killed-without-flush")
def killed_without_flush(writer: Writer) -> OurPartition:
    writer.config = SMALL | {"flush.messages": str(2**63 - 1), "index.interval.bytes": "100", "internal.segment.bytes": "100000"}
    return writer.killed(several)


@made_by("killed-in-reopened")
def killed_in_reopened(writer: Writer) -> OurPartition:
    writer.closed(several)
    return writer.killed(several)


def torn(writer: Writer, size: int) -> OurPartition:
    """The last batch has so many bytes."""
    return with_tail(writer, numbered(39, 2, base_offset=39)[:size])


def with_tail(writer: Writer, tail: bytes) -> OurPartition:
    left = writer.killed(several)
    last = max(left.directory.glob("*.log"))
    last.write_bytes(last.read_bytes() + tail)
    return left


for _size in (1, 16, 17, 30, 61, 70):
    made_by(f"torn-{_size}")(partial(torn, size=_size))
made_by("zeros")(partial(with_tail, tail=bytes(700)))
made_by("garbage")(partial(with_tail, tail=bytes(range(1, 200))))


@made_by("torn-and-recovered")
def torn_and_recovered(writer: Writer) -> OurPartition:
    """Has a file of ours beside Kafka's."""
    left = torn(writer, 70)
    again = Writer(left.directory.parent, SMALL).closed(several, last_shutdown_clean=False, recovery_point=0)
    assert list(again.directory.glob("cut-*"))
    return again


LEGACY = GOLDEN / "partitions" / "legacy-from-disk"


def legacy(writer: Writer, write: Callable[[Log], None]) -> OurPartition:
    writer.config = load_case(LEGACY)["config"]
    shutil.copytree(LEGACY / "initial", writer.directory)
    return writer.closed(write, last_shutdown_clean=True, recovery_point=0)


def cut_and_several(log: Log, offset: int) -> None:
    log.truncate_to(offset)
    several(log)


made_by("legacy")(partial(legacy, write=lambda log: None))
made_by("legacy-appended")(partial(legacy, write=several))
for _offset in (3, 9, 18):
    made_by(f"legacy-truncated-to-{_offset}")(partial(legacy, write=partial(cut_and_several, offset=_offset)))


def recovered(work: Path) -> Iterator[tuple[str, OurPartition]]:
    """What our recovery makes of every damaged golden directory that it does not refuse."""
    for folder in golden_cases("recovery"):
        case = load_case(folder)
        writer = Writer(work / folder.name, case["config"])
        writer.clock.now_ms = case["now_ms"]
        shutil.copytree(folder / "before", writer.directory)
        try:
            log = writer.open(last_shutdown_clean=False, recovery_point=0, log_start_offset=case["log_start_offset"])
        except TidelogError:
            continue
        log.close()
        yield folder.name, OurPartition(writer.directory, case["config"], log.log_start_offset)
