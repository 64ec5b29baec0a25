"""A pass that cannot be finished leaves the log as it was, but for groups that were complete, and no `.cleaned` file."""

import errno
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.batches import with_crc
from tests.support.cleaning import a_map, bases, clean, fill, keyed, left, names, open_compacted, plan
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, QuietDisk, check_log, copy_home, files_of, follower_batches
from tidelog.compaction.cleaning import Hooks, clean_log
from tidelog.errors import (
    ChecksumError,
    CleaningAbortedError,
    CorruptBatchError,
    DiskFullError,
    InvalidRecordError,
    LogFailedError,
    StorageError,
)
from tidelog.log.log import Log
from tidelog.log.maintenance import Maintenance
from tidelog.record import Compression


def small_segments(home: Path, **options: object) -> Log:
    """Three groups of one segment each."""
    log = open_compacted(home, {"internal.segment.bytes": 90}, **options)
    fill(log, "a=1", "|", "a=2", "|", "b=1", "|")
    return log


def no_cleaned_files(log: Log) -> bool:
    return not [name for name in names(log) if not name.endswith((".log", ".index", ".timeindex", ".snapshot"))]


def damage(path: str, position: int, data: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.leaves
def test_a_damaged_batch_is_found_before_anything_is_changed(tmp_path: Path) -> None:
    with small_segments(tmp_path) as log:
        damage(log.segments[2].path_of(".log"), 65, b"X")
        before = files_of(log)
        with pytest.raises(ChecksumError) as raised:
            clean(log)
        assert (raised.value.path, raised.value.position) == (log.segments[2].path_of(".log"), 0)
        assert files_of(log) == before


@pytest.mark.leaves
def test_a_damaged_batch_in_what_was_cleaned_before(tmp_path: Path) -> None:
    with small_segments(tmp_path) as log:
        damage(log.segments[1].path_of(".log"), 65, b"X")
        with pytest.raises(ChecksumError):
            clean(log, 2)
        assert no_cleaned_files(log)
        assert bases(log) == [0, 1, 2, 3]


@pytest.mark.leaves
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_bad_records_under_a_good_crc(tmp_path: Path, codec: Compression, checkpoint: int | None) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1", "b=1 c=1", "|", "d=1", "|")
        good = bytearray(keyed("b=1", "c=1", base_offset=1, partition_leader_epoch=0, compression=codec))
        good[57:61] = struct.pack(">i", 3)  # one record more than there is
        path = log.segments[0].path_of(".log")
        if codec is not Compression.NONE:
            data = Path(path).read_bytes()
            Path(path).write_bytes(data[:70] + with_crc(good))
            log.segments[0].end = log.segments[0].end._replace(size_bytes=70 + len(good))
        else:
            damage(path, 70, with_crc(good))
        before = files_of(log)
        with pytest.raises(InvalidRecordError) as raised:
            clean(log, checkpoint)
        assert raised.value.path == path
        assert raised.value.position is not None
        assert raised.value.position >= 70
        assert files_of(log) == before


@pytest.mark.leaves
def test_a_segment_that_ends_inside_of_a_batch(tmp_path: Path) -> None:
    with small_segments(tmp_path) as log:
        segment = log.segments[1]
        segment.end = segment.end._replace(size_bytes=segment.size_bytes - 1)
        with pytest.raises(CorruptBatchError, match="ends inside of a batch"):
            clean(log)
        segment.end = segment.end._replace(size_bytes=10)
        with pytest.raises(CorruptBatchError, match="ends inside of a batch"):
            clean(log)
        segment.end = segment.end._replace(size_bytes=70)


def stopping_after(calls: int) -> Callable[[], None]:
    counted = [0]

    def check() -> None:
        counted[0] += 1
        if counted[0] > calls:
            raise CleaningAbortedError("stopped")

    return check


@pytest.mark.parametrize("calls", range(12))
def test_a_pass_that_is_stopped_anywhere(tmp_path: Path, calls: int) -> None:
    with small_segments(tmp_path) as log:
        with suppress(CleaningAbortedError):
            clean(log, hooks=Hooks(check_done=stopping_after(calls)))
        assert no_cleaned_files(log)
        assert left(log)[-2:] == ["1:a=2", "2:b=1"]
        check_log(log)
        clean(log)
        assert left(log) == ["1:a=2", "2:b=1"]


def test_space_is_asked_for_before_a_group_is_written(tmp_path: Path) -> None:
    asked: list[int] = []

    def check(size_bytes: int) -> None:
        asked.append(size_bytes)
        assert no_cleaned_files(log)
        if len(asked) == 2:
            raise DiskFullError("no room", path=log.directory)

    with small_segments(tmp_path) as log:
        with pytest.raises(DiskFullError, match="no room"):
            clean(log, hooks=Hooks(check_space=check))
        assert len(asked) == 2
        assert all(size_bytes >= 70 for size_bytes in asked)
        assert left(log) == ["1:a=2", "2:b=1"]


def test_bytes_are_throttled_as_they_are_read_and_written(tmp_path: Path) -> None:
    seen: list[int] = []
    with small_segments(tmp_path) as log:
        cleaned = clean(log, hooks=Hooks(throttle=seen.append))
        dead = 70  # the first segment: nothing of it survives, so it is not read a second time
        assert sum(seen) == cleaned.stats.map_bytes_read + cleaned.stats.bytes_read - dead + cleaned.stats.bytes_written


@pytest.mark.parametrize("operation", ["write", "sync", "create"])
def test_a_full_disk_undoes_the_group(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk(QuietDisk())
    with small_segments(tmp_path, disk=disk) as log:
        log.flush()
        disk.fail(1, kind=operation, on=".cleaned", error=errno.ENOSPC)
        with pytest.raises(DiskFullError):
            clean(log)
        assert no_cleaned_files(log)
        assert left(log)[-2:] == ["1:a=2", "2:b=1"]
        clean(log)
        assert left(log) == ["1:a=2", "2:b=1"]


def test_a_disk_that_does_not_read_undoes_the_group(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with small_segments(tmp_path, disk=disk) as log:
        log.flush()
        disk.fail(4, kind="read", on=".log")
        with pytest.raises(StorageError):
            clean(log)
        assert no_cleaned_files(log)


def test_segments_that_are_gone_by_then_end_the_pass(tmp_path: Path) -> None:
    with small_segments(tmp_path) as log:
        planned = plan(log)

        def cut() -> None:
            if [name for name in names(log) if name.endswith(".log.cleaned")]:
                log.truncate_fully_and_start_at(0)

        with pytest.raises((CleaningAbortedError, StorageError)):
            clean_log(log, planned, a_map(), planned.now_ms, hooks=Hooks(check_done=cut))
        assert not [name for name in names(log) if name.endswith(".cleaned")]


def test_offsets_too_far_apart_split_the_segment_first(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    directory.mkdir(parents=True)
    far = (1 << 31) + 5
    (directory / "00000000000000000000.log").write_bytes(follower_batches((0, 1), (1, 1), (far, 1), epoch=-1))
    (directory / "00000000000000000000.index").write_bytes(b"")
    (directory / "00000000000000000000.timeindex").write_bytes(b"")
    with open_compacted(tmp_path, last_shutdown_clean=True) as log:
        log.roll()
        with pytest.raises(CleaningAbortedError, match="split"):
            clean(log)
        assert bases(log) == [0, far, far + 1]
        assert no_cleaned_files(log)
        check_log(log)
        clean(log)
        assert [record.offset for record in log.read()] == [far]
        check_log(log)


def test_left_over_files_of_an_earlier_pass_are_overwritten(tmp_path: Path) -> None:
    with small_segments(tmp_path) as log:
        for kind in ("log", "index", "timeindex", "txnindex"):
            (Path(log.directory) / f"00000000000000000000.{kind}.cleaned").write_bytes(b"left over from a pass that was killed")
        clean(log)
        assert left(log) == ["1:a=2", "2:b=1"]
        assert no_cleaned_files(log)


def test_what_an_earlier_pass_left_does_not_undo_a_later_swap(tmp_path: Path) -> None:
    """A `.cleaned` file that could not be removed, of a segment that is in another group by now, lies below a swap. The power goes when the
    old segments are gone by name: a load would take the swap for not complete, and remove it."""
    disk = FaultyDisk(QuietDisk())
    with open_compacted(tmp_path / "a", {"internal.segment.bytes": 150}, disk=disk) as log:
        fill(log, "a=1", "|", "b=1", "|", "c=1", "|")
        ungrouped = plan(log)._replace(config=log.config.with_changes({"internal.segment.bytes": 90}))
        disk.fail(1, kind="create", on=f"{1:020}.index.cleaned")
        disk.fail(1, kind="remove", on=f"{1:020}.log.cleaned", until_healed=True)
        with pytest.raises(StorageError):
            clean_log(log, ungrouped, a_map(), TIME)
        disk.heal()
        assert f"{1:020}.log.cleaned" in names(log)
        disk.run(1, lambda: copy_home(log, tmp_path / "killed"), kind="rename", on=f"{2:020}.log")
        clean(log)
        assert bases(log) == [0, 2, 3]
        assert no_cleaned_files(log)
    with open_compacted(tmp_path / "killed", last_shutdown_clean=False) as log:
        assert left(log) == ["0:a=1", "1:b=1", "2:c=1"]


def test_a_newer_value_is_durable_before_an_older_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where flushing is weakened, the segment with the newer one may not be on disk yet: a power cut would take both."""
    monkeypatch.setattr(Maintenance, "flush_in_background", lambda self, offset: None)  # it may come to that as late as it likes
    disk = FaultyDisk(QuietDisk())
    with open_compacted(tmp_path, {"flush.messages": 2**63 - 1}, disk=disk) as log:
        fill(log, "a=1", "|")
        log.flush()
        fill(log, "a=2", "|", "b=1")
        mark = len(disk.calls)
        clean(log, dry_run=True)
        assert ("sync", log.segments[1].path_of(".log")) not in disk.calls[mark:]
        clean(log)
        calls = disk.calls[mark:]
        swapped = next(place for place, call in enumerate(calls) if call.kind == "rename" and call.path.endswith(".swap"))
        assert ("sync", f"{log.directory}/{1:020}.log") in calls[:swapped]


def test_a_sync_before_the_swap_that_fails_leaves_the_old_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Maintenance, "flush_in_background", lambda self, offset: None)
    disk = FaultyDisk(QuietDisk())
    with open_compacted(tmp_path, {"flush.messages": 2**63 - 1}, disk=disk) as log:
        fill(log, "a=1", "|", "a=2", "|")
        disk.fail(1, kind="sync", on=f"{1:020}.log")
        with pytest.raises(LogFailedError):
            clean(log)
        assert no_cleaned_files(log)
        assert left(log) == ["0:a=1", "1:a=2"]
