"""A log that is read by somebody else than its owner: what it sees, how it finds it, and that it changes nothing."""

import errno
import hashlib
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden_partitions import Replay, golden_cases
from tests.support.logs import TIME, QuietDisk, a_batch, cleaned_copy, files_of, follower_batches, number_of, numbered, open_log
from tests.support.producers import in_txn
from tests.support.readers import BrokersDisk, ReadOnlyDisk, checkpoint_watermark, open_reader, state_of_files, vanished
from tidelog.disk.disk import Seen
from tidelog.disk.file_pool import FilePool
from tidelog.disk.published_end import PUBLISHED_END, PublishedEnd
from tidelog.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    DamagedLogError,
    LogClosedError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    StorageError,
)
from tidelog.log.log import Log
from tidelog.log.positions import Time
from tidelog.log.read_only import ReadOnlyLog, open_read_only

TINY = {"internal.segment.bytes": 250, "index.interval.bytes": 0, "file.delete.delay.ms": 0}
COMPRESSED_BY_KAFKA = ("codec-to-", "codec-grown", "legacy")


def publish(log: Log, offset: int | None = None) -> None:
    """Say what the owner of a log says after a commit."""
    end = log.log_end_offset if offset is None else offset
    place = log.fetch(end, 1, isolation="log_end")
    published = PublishedEnd.open_for_writing(log._state.pool.disk, log.directory)
    published.publish(end, place.segment_base_offset, place.position, log.log_start_offset)


class ReaderReplay(Replay):
    """The calls of a golden case: what is read, a reader beside the owner reads, which is taken for a broker, or for one of ours."""

    is_ours = False

    def _open(self, **found: Any) -> Log:
        return Log.open(
            self.directory,
            config=self.case["config"],
            clock=lambda: self.now_ms,
            recovery="kafka",
            pool=FilePool(QuietDisk()),
            **found,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compare_bytes = not self.folder.name.startswith(COMPRESSED_BY_KAFKA)
        self.reader = open_reader(self.directory, disk=ReadOnlyDisk() if self.is_ours else BrokersDisk())

    def _refresh(self) -> ReadOnlyLog:
        checkpoint_watermark(self.directory, self.log.high_watermark)
        self.reader.refresh()
        return self.reader

    def _read(self, step: dict[str, Any]) -> dict[str, Any] | None:
        isolation = {"txn_committed": "committed"}.get(step["isolation"], step["isolation"])
        if self.is_ours and isolation != "log_end" and "error" not in step:
            return None  # our own log shows what is flushed
        fetched = self._refresh().fetch(step["offset"], step["max_bytes"], isolation=isolation, min_one=step["min_one"])
        answer: dict[str, Any] = {"size": len(fetched.data), "first_entry_incomplete": fetched.is_first_incomplete}
        if fetched.data:
            answer["sha256"] = hashlib.sha256(fetched.data).hexdigest()
        if not self.compare_bytes:
            answer = {}
        if isolation == "committed":
            answer["aborted_transactions"] = [[txn.producer_id, txn.first_offset] for txn in fetched.aborted_transactions]
        return answer

    def _offset_for_time(self, step: dict[str, Any]) -> dict[str, Any]:
        found = self._refresh().offset_for_time(step["timestamp_ms"], isolation="log_end")
        if found is None:
            return {} if step["result"] is None else {"offset": None}
        return {"offset": found.offset, "timestamp_ms": found.timestamp_ms}


class OurReaderReplay(ReaderReplay):
    is_ours = True


PART_AT = {
    "leader-epochs": (32, "the owner refuses an epoch below the newest"),
    "refused-framing": (5, "the owner refuses bytes behind a batch"),
    "opened-torn": (0, "the owner cuts off a torn batch"),
    "opened-torn-full": (0, "the same"),
    "opened-after-crash": (0, "an index full of zeros is not believed"),
}
"""Where the owner, or the reader, parts from Kafka on purpose."""
GOES_ON_BEHIND_A_GAP = ("truncate-compressed", "truncate-to-inside-batch", "truncate-to-inside-first-batch")
"""A truncation took a batch whole, but the log goes on at the offset it was told: only its owner knows, and says so if it is ours."""
CASES = [folder for folder in golden_cases("partitions") if folder.name not in ("legacy", "legacy-v1")]


@pytest.mark.leaves  # the same golden logs are verified in test_golden_partitions
@pytest.mark.parametrize("kind", [ReaderReplay, OurReaderReplay])
@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_same_answers_as_kafka_beside_the_owner(folder: Path, kind: type[ReaderReplay], tmp_path: Path) -> None:
    """Index entries of the owner are not all written yet, its indexes are preallocated, and it cuts and rolls as the case goes on."""
    replay = kind(folder, tmp_path)
    try:
        differences = replay.run(PART_AT.get(folder.name, (None, ""))[0])
        if folder.name in GOES_ON_BEHIND_A_GAP and not kind.is_ours:
            assert differences != []
        else:
            assert differences == []
    finally:
        replay.reader.close()
        replay.log.close()


# Bounds


def test_sees_what_the_owner_has_flushed(tmp_path: Path) -> None:
    with open_log(
        tmp_path, {"flush.messages": 1000, "index.interval.bytes": 0}, disk=QuietDisk()
    ) as log:  # no roll: those flush in the background
        log.append_run([numbered(number) for number in range(4)])
        log.flush()
        log.append_run([numbered(number) for number in range(4, 8)])
        with open_reader(Path(log.directory)) as reader:
            assert (reader.log_start_offset, reader.high_watermark, reader.log_end_offset) == (0, log.flushed_end, 8)
            assert [number_of(record) for record in reader.read()] == list(range(log.flushed_end))
            assert [number_of(record) for record in reader.read(isolation="log_end")] == list(range(8))
            publish(log, 5)
            assert [number_of(record) for record in reader.read()] == list(range(5))
            checkpoint_watermark(Path(log.directory), 6)  # the larger of the two counts
            assert [number_of(record) for record in reader.read()] == list(range(6))
            log.append(numbered(8))
            log.flush()
            assert reader.fetch(6, 10_000).data == log.fetch(6, 10_000).data
            assert reader.latest.offset == reader.high_watermark == 9


def test_nobody_vouches_for_anything(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        with open_reader(Path(log.directory), disk=BrokersDisk()) as reader:
            assert (reader.log_start_offset, reader.high_watermark, reader.log_end_offset) == (0, 0, 8)
            assert list(reader.read()) == []
            assert reader.fetch(0, 100).data == b""
            assert reader.last_stable_offset == 0
            assert [number_of(record) for record in reader.read(isolation="log_end")] == list(range(8))


def test_sees_the_checkpointed_watermark_of_a_broker(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        with open_reader(Path(log.directory), disk=BrokersDisk()) as reader:
            for bound in (3, 4, 7, 8, 100):
                checkpoint_watermark(Path(log.directory), bound)
                assert [number_of(record) for record in reader.read()] == list(range(min(bound, 8)))


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n1\ntide 0\n", b"\xff" * 100, b"0\n2\ntide 0 3\n"])
def test_a_checkpoint_that_does_not_parse_vouches_for_nothing(content: bytes, tmp_path: Path) -> None:
    with open_log(tmp_path, disk=QuietDisk()) as log:
        log.append(numbered(0))
        (tmp_path / "replication-offset-checkpoint").write_bytes(content)
        with open_reader(Path(log.directory), disk=BrokersDisk()) as reader:
            assert reader.high_watermark == 0
            assert len(list(reader.read(isolation="log_end"))) == 1


def test_the_log_starts_where_the_checkpoint_says(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        log.delete_records_before(3)
        publish(log)
        with open_reader(Path(log.directory)) as reader:
            assert reader.log_start_offset == reader.earliest.offset == 3
            assert [number_of(record) for record in reader.read()] == list(range(3, 8))
            with pytest.raises(OffsetOutOfRangeError, match="expected 3 to 8"):
                reader.fetch(2, 100)


def test_nothing_is_there_yet(tmp_path: Path) -> None:
    (tmp_path / "tide-0").mkdir()
    with open_reader(tmp_path / "tide-0") as reader:
        assert (reader.log_start_offset, reader.log_end_offset, reader.high_watermark) == (0, 0, 0)
        assert list(reader.read(isolation="log_end")) == []
        assert reader.offset_for_time(TIME) is None
        assert reader.max_timestamp is None
        with open_log(tmp_path, disk=QuietDisk()) as log:
            log.append(numbered(0))
            assert [number_of(record) for record in reader.read(isolation="log_end")] == [0]


@pytest.mark.parametrize("name", ["missing-0", "not a partition"])
def test_no_such_log(name: str, tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        open_reader(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_directory_goes(tmp_path: Path) -> None:
    (tmp_path / "tide-0").mkdir()
    with open_reader(tmp_path / "tide-0") as reader:
        (tmp_path / "tide-0").rmdir()
        with pytest.raises(LogNotFoundError):
            reader.refresh()


# The end of the log


@pytest.mark.parametrize("kept", [1, 17, 60, 61, 75, -1])
def test_a_torn_batch_is_not_there_yet(kept: int, tmp_path: Path) -> None:
    with open_log(tmp_path, disk=QuietDisk()) as log:
        for number in range(3):
            log.append(numbered(number))
        path = Path(log.segments[0].path_of(".log"))
        batch = numbered(3, base_offset=3)
        with open_reader(Path(log.directory)) as reader:
            with path.open("ab") as file:
                file.write(batch[:kept])
            reader.refresh()
            assert reader.log_end_offset == 3
            with path.open("ab") as file:
                file.write(batch[kept:])
            reader.refresh()
            assert reader.log_end_offset == 4
            assert [number_of(record) for record in reader.read(isolation="log_end")] == [0, 1, 2, 3]
        os.truncate(path, path.stat().st_size - len(batch))


@pytest.mark.parametrize("kept", [0, 20, 61, 70])
def test_a_preallocated_log_ends_where_the_batches_do(kept: int, tmp_path: Path) -> None:
    """Behind the end are zeros, and a batch that is being written is all there by its size, but not by its CRC."""
    with open_log(tmp_path, {"preallocate": True, "internal.segment.bytes": 4096}, disk=QuietDisk()) as log:
        for number in range(3):
            log.append(numbered(number))
        path = Path(log.segments[0].path_of(".log"))
        assert path.stat().st_size == 4096
        with open_reader(Path(log.directory)) as reader:
            assert reader.log_end_offset == 3
            assert [number_of(record) for record in reader.read(isolation="log_end")] == [0, 1, 2]
            batch = numbered(3, base_offset=3)
            with path.open("r+b") as file:
                file.seek(log.segments[0].size_bytes)
                file.write(batch[:kept])
            reader.refresh()
            assert reader.log_end_offset == 3
            with path.open("r+b") as file:
                file.seek(log.segments[0].size_bytes)
                file.write(bytes(kept))


def test_a_batch_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    large = a_batch(value=bytes(3 << 20))
    with open_log(tmp_path, {"max.message.bytes": 8 << 20}, disk=QuietDisk()) as log:
        log.append(numbered(0))
        with open_reader(Path(log.directory)) as reader:
            log.append(large)
            log.append(numbered(2))
            reader.refresh()
            assert reader.log_end_offset == 3
            publish(log)
            assert [record.offset for record in reader.read(1)] == [1, 2]
        with open_reader(Path(log.directory), max_batch_bytes=1 << 20) as reader, pytest.raises(BatchTooLargeError, match="1048576"):
            list(reader.read())


@pytest.mark.leaves
def test_damage_in_what_was_flushed_is_said(tmp_path: Path) -> None:
    with open_log(tmp_path, {"index.interval.bytes": 0}, disk=QuietDisk()) as log:
        for number in range(4):
            log.append(numbered(number))
        publish(log)
        path = Path(log.segments[0].path_of(".log"))
        with path.open("r+b") as file:
            file.seek(path.stat().st_size - 3)
            file.write(b"\xff")
        with pytest.raises(DamagedLogError, match="what its owner has flushed"):
            open_reader(Path(log.directory))


@pytest.mark.leaves
def test_damage_below_the_watermark_of_a_broker_that_was_not_stopped_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A power cut may have left it, or the disk is rotten: what is before it was all there was to see, and nobody said why."""
    with open_log(tmp_path, {"index.interval.bytes": 0}, disk=QuietDisk()) as log:
        for number in range(4):
            log.append(numbered(number))
        path = Path(log.segments[0].path_of(".log"))
        with path.open("r+b") as file:
            file.seek(path.stat().st_size - 3)
            file.write(b"\xff")
        checkpoint_watermark(Path(log.directory), 3)
        with open_reader(Path(log.directory), disk=BrokersDisk()) as reader:
            assert [number_of(record) for record in reader.read()] == [0, 1, 2]
            assert not caplog.messages
            checkpoint_watermark(Path(log.directory), 4)
            for _ in range(3):
                reader.refresh()
                assert [number_of(record) for record in reader.read()] == [0, 1, 2]
            (told,) = caplog.messages
            assert "ends at byte" in told
            assert "(offset 3), below its high watermark" in told


@pytest.mark.leaves
@pytest.mark.parametrize("place", [21, 23, 40, 61, 70])
def test_damage_in_the_middle_is_said_when_it_is_read(place: int, tmp_path: Path) -> None:
    with open_log(tmp_path, {"index.interval.bytes": 0}, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        log.flush()
        publish(log)
        path = Path(log.segments[0].path_of(".log"))
        with path.open("r+b") as file:
            file.seek(3 * path.stat().st_size // 8 + place)
            file.write(b"\xf1")
        with open_reader(Path(log.directory)) as reader:
            read: list[int] = []
            with pytest.raises(CorruptBatchError):
                read.extend(number_of(record) for record in reader.read())
            assert read == list(range(3))


@pytest.mark.leaves
def test_a_batch_cut_off_with_segments_behind_it_is_no_gap(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        publish(log)
        first = log.segments[0]
        os.truncate(first.path_of(".log"), first.size_bytes - 5)
        os.truncate(first.path_of(".index"), 0)
        with open_reader(Path(log.directory)) as reader:
            read: list[int] = []
            with pytest.raises(CorruptBatchError, match="cut off"):
                read.extend(number_of(record) for record in reader.read())
            assert read == list(range(len(read)))


# Indexes


def _closed(tmp_path: Path, count: int = 40, **settings: Any) -> Path:
    """A log that was closed, of one segment, with an index entry for every batch."""
    with open_log(tmp_path, {"index.interval.bytes": 0, **settings}, disk=QuietDisk()) as log:
        for number in range(count):
            log.append(numbered(number, timestamp_ms=TIME + number))
    return tmp_path / "tide-0"


def _stale(entries: bytes, size: int) -> bytes:
    """What a broker leaves when it cuts a log and goes on with larger batches: new entries, and old ones behind them."""
    return entries[: size * 8] + entries[size * 4 :]


INDEX_DAMAGE = {
    "missing": None,
    "empty": lambda entries: b"",
    "preallocated": lambda entries: entries + bytes(4096),
    "full of zeros": lambda entries: bytes(len(entries)),
    "odd": lambda entries: entries[:-3],
    "short": lambda entries: entries[: len(entries) // 16 * 8],
    "stale": lambda entries: _stale(entries, 20),
    "garbage": lambda entries: hashlib.sha256(entries).digest() * 20,
    "wrong positions": lambda entries: b"".join(
        struct.pack(">ii", offset, position + 7) for offset, position in struct.iter_unpack(">ii", entries)
    ),
    "negative": lambda entries: b"".join(struct.pack(">ii", offset, -position) for offset, position in struct.iter_unpack(">ii", entries)),
    "wrong offsets": lambda entries: b"".join(
        struct.pack(">ii", offset - 3, position) for offset, position in struct.iter_unpack(">ii", entries)
    ),
    "huge": "huge",
}


@pytest.mark.leaves
@pytest.mark.parametrize("damage", INDEX_DAMAGE)
def test_an_index_is_believed_only_where_the_log_agrees(damage: str, tmp_path: Path) -> None:
    directory = _closed(tmp_path)
    index, time_index = directory / "00000000000000000000.index", directory / "00000000000000000000.timeindex"
    change: Any = INDEX_DAMAGE[damage]
    if change is None:
        index.unlink()
    elif change == "huge":
        os.truncate(index, 1 << 40)  # a hole: it takes no space
    else:
        index.write_bytes(change(index.read_bytes()))
    _check_all(directory, 40)
    if damage in ("missing", "empty", "garbage", "preallocated", "odd"):
        entries = time_index.read_bytes()
        if change is None:
            time_index.unlink()
        elif damage != "empty":  # which is believed, as by a broker: a segment without timestamps
            time_index.write_bytes(change(entries))
        _check_all(directory, 40)


def _check_all(directory: Path, count: int) -> None:
    before = sizes_of_files(directory)
    with open_reader(directory) as reader:
        assert reader.log_end_offset == count
        for offset in range(count):
            assert number_of(next(reader.fetch(offset, 100, isolation="log_end").records())) == offset
            assert reader.offset_for_time(TIME + offset, isolation="log_end") == (offset, TIME + offset)
        assert reader.max_timestamp == (count - 1, TIME + count - 1)
        assert reader.offset_for_time(TIME + count) is None
    assert sizes_of_files(directory) == before


def sizes_of_files(directory: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_an_index_with_many_entries_is_searched(tmp_path: Path) -> None:
    """More than one block of them, so that the search takes steps on the file."""
    count = 3000
    with open_log(tmp_path, {"index.interval.bytes": 0, "flush.messages": 100_000}, disk=QuietDisk()) as log:
        log.append_run([numbered(number, timestamp_ms=TIME + number) for number in range(count)])
        log.flush()
        with open_reader(Path(log.directory)) as reader:
            for offset in range(0, count, 97):
                assert number_of(next(reader.fetch(offset, 100, isolation="log_end").records())) == offset
                assert reader.offset_for_time(TIME + offset, isolation="log_end") == (offset, TIME + offset)
            assert reader.segments[0].index.entries == count - 1
            positions = {entry.position for offset in range(0, count, 97) for entry in [log.segments[0].index.lookup(offset)]}
            for position in sorted(positions | {at + 1 for at in positions} | {77, 78, 1 << 30}):
                ours = reader.segments[0].index.first_at_or_behind(position)
                assert ours == log.segments[0].index.first_at_or_behind(position), position


def test_the_owner_trims_an_index_that_is_being_read(tmp_path: Path) -> None:
    with open_log(tmp_path, {"index.interval.bytes": 0}, disk=QuietDisk()) as log:
        for number in range(100):
            log.append(numbered(number))
        log.flush()
        with open_reader(Path(log.directory)) as reader:
            assert number_of(next(reader.fetch(50, 100, isolation="log_end").records())) == 50
            size = Path(log.segments[0].path_of(".index")).stat().st_size
            log.roll()
            assert Path(log.segments[0].path_of(".index")).stat().st_size < size
            assert number_of(next(reader.fetch(99, 100, isolation="log_end").records())) == 99
            assert [number_of(record) for record in reader.read(isolation="log_end")] == list(range(100))


# Changing under the reader


def test_follows_roll_retention_swap_and_truncation(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:

        def read() -> list[int]:
            return [number_of(record) for record in reader.read(isolation="log_end")]

        for number in range(12):
            log.append(numbered(number))
            assert read() == list(range(number + 1))
        assert len(log.segments) == 4
        old = log.segments[1]
        log.replace_segments([cleaned_copy(log, old)], [old])
        assert read() == list(range(12))
        log.delete_segments(2, "a test")
        assert read() == list(range(log.log_start_offset, 12))
        log.truncate_to(9)
        assert read() == list(range(log.log_start_offset, 9))
        log.append(numbered(9))
        log.append(numbered(10))
        assert read() == list(range(log.log_start_offset, 11))
        log.truncate_fully_and_start_at(50)
        assert read() == []
        assert (reader.log_start_offset, reader.log_end_offset) == (50, 50)
        log.append(numbered(50))
        assert read() == [50]


@pytest.mark.parametrize("size", [8, 50])
def test_a_cut_and_other_batches_at_the_same_place(size: int, tmp_path: Path) -> None:
    """The segment is as long as before, or longer, but says something else, and where it ended a batch may have its middle now."""
    with open_log(tmp_path, {"index.interval.bytes": 0}, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:
        for number in range(6):
            log.append(numbered(number))
        assert len(list(reader.read(isolation="log_end"))) == 6
        log.truncate_to(3)
        for number in range(100, 104):
            log.append(numbered(number, size=size))
        assert [number_of(record) for record in reader.read(isolation="log_end")] == [0, 1, 2, 100, 101, 102, 103]


@pytest.mark.leaves
def test_a_file_with_the_name_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    """Between listing and opening a segment is swapped for one that has more bytes, under the same name."""
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(numbered(number))
        with open_reader(Path(log.directory)) as reader:
            old = log.segments[0]
            new = cleaned_copy(log, old)
            data = numbered(0, 3, size=150, base_offset=0, partition_leader_epoch=0)
            assert len(data) > old.size_bytes
            Path(new.path_of(".log")).write_bytes(data)
            for kind in (".index", ".timeindex"):
                Path(new.path_of(kind)).write_bytes(b"")
            new.end = new.end._replace(size_bytes=len(data))
            log.replace_segments([new], [old])
            # The listing says 0.log, and so does the directory; but it is another file.
            assert [number_of(record) for record in reader.fetch(0, 10_000, isolation="log_end").records()] == [0, 1, 2]


class Timeless(ReadOnlyDisk):
    """Modification times that never change, as where they are cached for long."""

    def mtime_ns(self, path: str) -> int:
        return super().mtime_ns(path) // 10**18 * 10**18


def test_a_roll_is_noticed_by_what_is_published(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        log.append(numbered(0))
        with open_reader(Path(log.directory), disk=Timeless()) as reader:
            for number in range(1, 10):
                log.append(numbered(number))
                assert [number_of(record) for record in reader.read()] == list(range(number + 1))


class Vanishing(ReadOnlyDisk):
    """Says that a file is not there, so many times, as if its owner had just renamed it."""

    def __init__(self, name: str, times: int) -> None:
        self.name, self.left = name, times

    def open_plain(self, path: str) -> int:
        if path.endswith(self.name) and self.left > 0:
            self.left -= 1
            raise vanished(path)
        return super().open_plain(path)


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"])
def test_lists_again_when_a_file_vanishes(name: str, tmp_path: Path) -> None:
    directory = _closed(tmp_path, 10, **TINY)
    disk = Vanishing(name, 3)
    with open_reader(directory, disk=disk) as reader:
        assert [number_of(record) for record in reader.read(isolation="log_end")] == list(range(10))
        assert reader.offset_for_time(TIME, isolation="log_end") == (0, TIME)
    assert disk.left == 0


def test_a_file_that_stays_away_is_an_error(tmp_path: Path) -> None:
    directory = _closed(tmp_path, 10, **TINY)
    with open_reader(directory, disk=Vanishing("00000000000000000000.log", 1000)) as reader, pytest.raises(StorageError):
        list(reader.read(isolation="log_end"))


class GoneAt(ReadOnlyDisk):
    """Says of one call to open a file that there is none of that name."""

    def __init__(self) -> None:
        self.left = -1

    def open_plain(self, path: str) -> int:
        self.left -= 1
        if self.left == 0 and not path.endswith(PUBLISHED_END):
            raise vanished(path)
        return super().open_plain(path)


@pytest.mark.parametrize("asked", ["fetch", "read", "open_transactions"])
def test_any_file_may_have_gone_when_it_is_opened(asked: str, tmp_path: Path) -> None:
    """With room for one open file each is opened again and again. Behind a gap it was a plain `FileNotFoundError`."""
    with open_log(tmp_path, {"internal.segment.bytes": 100}) as log:
        log.append_as_follower(follower_batches((0, 2)))
        log.append_as_follower(in_txn(7, 0, base_offset=20, partition_leader_epoch=0))
        log.append_as_follower(follower_batches((30, 1)))
        log.high_watermark = 31
        assert len(log.segments) > 1
        for nth in range(1, 100):
            disk = GoneAt()
            with open_reader(Path(log.directory), disk=disk, max_open=1) as reader:
                disk.left = nth
                if asked == "fetch":
                    assert reader.fetch(5, 1000).next_offset > 20
                elif asked == "read":
                    assert [record.offset for record in reader.read()][-1] == 30
                else:
                    assert [entry.producer_id for entry in reader.open_transactions] == [7]
            if disk.left > 0:
                break
        assert nth > 3


class Exhausted(ReadOnlyDisk):
    """Refuses so many calls to open a file."""

    def __init__(self, name: str, error: int) -> None:
        self.name, self.error, self.left = name, error, 0

    def open_plain(self, path: str) -> int:
        if path.endswith(self.name) and self.left > 0:
            self.left -= 1
            raise OSError(self.error, os.strerror(self.error), path)
        return super().open_plain(path)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("name", [PUBLISHED_END, "log-start-offset-checkpoint"])
def test_what_cannot_be_read_is_not_taken_for_not_there(name: str, error: int, tmp_path: Path) -> None:
    """Without a descriptor a reader saw nothing of what its owner publishes, or what was deleted, and ended in peace."""
    with open_log(tmp_path) as log:
        for number in range(5):
            log.append(numbered(number))
        log.delete_records_before(2)
        disk = Exhausted(name, error)
        with open_reader(Path(log.directory), disk=disk) as reader:
            for times in (1, 2, 3, 0):
                disk.left = times
                os.utime(tmp_path / "log-start-offset-checkpoint")
                try:
                    seen = [number_of(record) for record in reader.read()]
                    reader.refresh()
                except StorageError:
                    continue
                assert (seen, reader.log_start_offset) == ([2, 3, 4], 2), times
            if error == errno.EMFILE:  # the pool gives up its own
                disk.left = 1
                with open_reader(Path(log.directory), disk=disk) as another:
                    assert [number_of(record) for record in another.read()] == [2, 3, 4]
            disk.left = 2
            with pytest.raises(StorageError):
                open_reader(Path(log.directory), disk=disk)


class Blinking(ReadOnlyDisk):
    """A listing that misses a file which is being renamed, every so often: as readdir may."""

    def __init__(self) -> None:
        self.turn = 0

    def look(self, path: str) -> Any:
        self.turn += 1
        seen: list[Seen] = list(super().look(path))
        return seen if self.turn % 3 else [entry for entry in seen if not entry.name.startswith("00000000000000000003")]


def test_one_listing_is_not_believed(tmp_path: Path) -> None:
    directory = _closed(tmp_path, 10, **TINY)
    assert (directory / "00000000000000000003.log").exists()
    for turns in range(3):
        disk = Blinking()
        disk.turn = turns
        with open_reader(directory, disk=disk) as reader:
            assert [number_of(record) for record in reader.read(isolation="log_end")] == list(range(10))


def test_closed(tmp_path: Path) -> None:
    directory = _closed(tmp_path, 3)
    reader = open_reader(directory)
    reader.close()
    reader.close()
    assert reader.is_closed
    for call in (reader.refresh, lambda: reader.fetch(0, 100), lambda: list(reader.read())):
        with pytest.raises(LogClosedError):
            call()


def test_dropped_without_being_closed(tmp_path: Path) -> None:
    directory = _closed(tmp_path, 3)
    reader = open_reader(directory)
    with pytest.warns(ResourceWarning, match="dropped without being closed"):
        del reader


# Following


def test_follows_the_end(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:
        log.append(numbered(0))
        publish(log)
        found: list[int] = []
        records = reader.read(follow=True, poll_s=0.002)
        found.append(number_of(next(records)))
        for number in range(1, 30):
            log.append(numbered(number))
            publish(log)
            if number == 20:
                log.delete_segments(3, "a test")
            found.append(number_of(next(records)))
        records.close()  # type: ignore[attr-defined]
        assert found == list(range(30))


def test_follows_up_to_an_offset_or_a_time(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:

        def write() -> None:
            for number in range(20):
                log.append(numbered(number, timestamp_ms=TIME + number))
                publish(log)
                time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        assert [number_of(record) for record in reader.read(0, 12, follow=True, poll_s=0.001)] == list(range(12))
        assert [number_of(record) for record in reader.read(0, Time(TIME + 15), follow=True, poll_s=0.001)] == list(range(15))
        assert [number_of(record) for record in log.read(0, 20, follow=True, poll_s=0.001)] == list(range(20))  # the owner follows as well
        writer.join()
        assert len(list(itertools.chain.from_iterable(reader.batches(0, 20, follow=True)))) == 20


# Nothing is changed


def test_a_directory_that_cannot_be_written_to() -> None:
    """For real: a process without rights, on a directory without write permission. Root has all rights, so it is given up first."""
    with tempfile.TemporaryDirectory() as work:  # not pytest's, which are closed to other users
        home = Path(work) / "home"
        directory = _closed(home, 10, **TINY)
        Path(work).chmod(0o755)
        for path in [*home.rglob("*"), home]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = state_of_files(home)
        done = subprocess.run([sys.executable, "-c", _WITHOUT_RIGHTS, str(directory)], capture_output=True, text=True, timeout=60, cwd="/")
        assert (done.stdout, done.stderr) == ("read-only\n10 5 10\n", "")
        assert state_of_files(home) == before
        for path in [home, *home.rglob("*")]:
            path.chmod(0o755)


_WITHOUT_RIGHTS = f"""
import os, sys
from tidelog.log.read_only import open_read_only
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    open(sys.argv[1] + "/x", "w")
except PermissionError:
    print("read-only")
with open_read_only(sys.argv[1]) as log:
    print(len(list(log.read())), log.offset_for_time({TIME + 5}).offset, log.last_stable_offset)
"""


def test_opening_many_segments_opens_few_files(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    directory.mkdir()
    for number in range(300):
        batch = numbered(number, base_offset=number)
        (directory / f"{number:020d}.log").write_bytes(batch)
        for kind in (".index", ".timeindex"):
            (directory / f"{number:020d}{kind}").write_bytes(b"")

    class Counting(ReadOnlyDisk):
        opened = listed = 0

        def open_plain(self, path: str) -> int:
            self.opened += 1
            return super().open_plain(path)

        def look(self, path: str) -> Any:
            self.listed += 1
            return super().look(path)

    disk = Counting()
    with open_reader(directory, disk=disk) as reader:
        assert (reader.log_end_offset, len(reader.segments)) == (300, 300)
        assert disk.opened < 10
        assert disk.listed == 1
        assert len(list(reader.read(isolation="log_end"))) == 300


def test_is_what_log_open_gives_for_reading(tmp_path: Path) -> None:
    directory = _closed(tmp_path, 3)
    before = files_of(directory)
    with open_read_only(directory, config={"segment.bytes": 1 << 20}) as reader:
        assert isinstance(reader, ReadOnlyLog)
        assert reader.config.segment_bytes == 1 << 20
        assert repr(reader) == "ReadOnlyLog(tide-0, offsets 0 to 3, visible up to 3, 1 segment)"
    assert files_of(directory) == before
    shutil.rmtree(directory)
