"""Cutting the end of a log, moving its start, deleting segments: what is left, and where the bounds go."""

import errno
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock, check_log, copy_home, files_of, number_of, numbered, open_log
from tidelog.errors import DiskFullError, LogFailedError, OffsetOutOfRangeError, RefusedBatchError

SMALL = {"internal.segment.bytes": 250}


def test_a_batch_goes_as_a_whole(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append_run([numbered(0, 3), numbered(3, 3), numbered(6, 3)])
        assert log.truncate_to(4)
        assert (log.log_end_offset, log.high_watermark, log.flushed_end) == (4, 4, 4)
        assert [number_of(record) for record in log.read()] == [0, 1, 2]
        assert not log.truncate_to(4)
        assert not log.truncate_to(99)
        assert log.append(numbered(4))[:2] == (4, 4)
        assert [number_of(record) for record in log.read()] == [0, 1, 2, 4]
        check_log(log)


@pytest.mark.parametrize("offset", range(12))
def test_segments_above_go(offset: int, tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL) as log:
        for number in range(12):
            log.append(numbered(number))
        assert log.truncate_to(offset)
        assert [number_of(record) for record in log.read()] == list(range(offset))
        check_log(log)
        for number in range(offset, 14):
            log.append(numbered(number))
        assert [number_of(record) for record in log.read()] == list(range(14))
        check_log(log)
        killed = copy_home(log, tmp_path / "killed")
    with open_log(killed, SMALL, last_shutdown_clean=False) as log:
        assert [number_of(record) for record in log.read()] == list(range(14))
        assert log.load_report.cuts == []


def test_the_largest_timestamp_is_that_of_what_is_left(tmp_path: Path) -> None:
    """No entry of the time index names the newest batch: it must be found in the batches."""
    with open_log(tmp_path) as log:
        log.append(numbered(0, timestamp_ms=TIME + 100))
        log.append(numbered(1, timestamp_ms=TIME + 50))
        log.append(numbered(2, timestamp_ms=TIME + 900))
        log.truncate_to(2)
        assert log.max_timestamp == (0, TIME + 100)
        assert log.offset_for_time(TIME + 60) == (0, TIME + 100)
        assert log.offset_for_time(TIME + 101) is None
        check_log(log)


def test_an_emptied_segment_counts_its_age_anew(tmp_path: Path) -> None:
    clock = FakeClock(TIME + 1000)
    with open_log(tmp_path, {"segment.ms": 100}, clock=clock) as log:
        log.append(numbered(0, timestamp_ms=TIME))
        log.truncate_to(0)
        log.append(numbered(0, timestamp_ms=TIME + 1000))
        log.append(numbered(1, timestamp_ms=TIME + 1100))
        assert len(log.segments) == 1
        log.append(numbered(2, timestamp_ms=TIME + 1101))
        assert len(log.segments) == 2


def test_below_the_first_segment(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL) as log:
        for number in range(9):
            log.append(numbered(number))
        log.delete_segments(2, "a test")
        start = log.log_start_offset
        assert log.truncate_to(start - 2)
        assert (log.log_start_offset, log.log_end_offset) == (start - 2, start - 2)
        assert len(log.segments) == 1
        check_log(log)


def test_epochs_go_with_the_end(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for epoch in range(4):
            log.append(numbered(epoch), leader_epoch=epoch)
        log.truncate_to(2)
        assert log.leader_epochs == ((0, 0), (1, 1))
        log.truncate_fully_and_start_at(1)
        assert len(log.leader_epochs) == 0


def test_a_negative_offset(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0))
        with pytest.raises(ValueError, match="0 or more"):
            log.truncate_to(-1)
        with pytest.raises(ValueError, match="0 or more"):
            log.truncate_fully_and_start_at(-1)
        assert log.log_end_offset == 1
        check_log(log)


# The start


def test_the_start_survives_and_does_not_go_back(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL) as log:
        for number in range(9):
            log.append(numbered(number))
        assert log.delete_records_before(5) == 5
        assert log.delete_records_before(2) == 5
        assert log.segments[0].base_offset == 0
        # A segment below the start goes, and the start stays.
        log.delete_segments(1, "a test")
        assert log.segments[0].base_offset < 5
        assert log.log_start_offset == 5
        check_log(log)
        killed = copy_home(log, tmp_path / "killed")
    for home, is_clean in ((tmp_path, None), (killed, False)):
        with open_log(home, SMALL, last_shutdown_clean=is_clean) as log:
            assert log.log_start_offset == 5
            assert [number_of(record) for record in log.read()] == [5, 6, 7, 8]


def test_not_above_the_high_watermark(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0, 9))
        log.high_watermark = 6
        for offset in (7, 99, -2):
            with pytest.raises(OffsetOutOfRangeError):
                log.delete_records_before(offset)
        assert log.delete_records_before(-1) == 6


def test_a_log_that_is_only_compacted_keeps_its_records(tmp_path: Path) -> None:
    with open_log(tmp_path, {"cleanup.policy": "compact"}) as log:
        log.append(numbered(0))
        with pytest.raises(RefusedBatchError) as raised:
            log.delete_records_before(1)
        assert raised.value.kafka_error == "POLICY_VIOLATION"


def test_deleted_files_stay_for_a_while(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_log(tmp_path, {**SMALL, "file.delete.delay.ms": 100}, clock=clock) as log:
        for number in range(9):
            log.append(numbered(number))
        assert log.delete_segments(2, "a test") == 2
        assert sum(name.endswith(".deleted") for name in files_of(log)) == 7  # three files each, and the snapshot of the second
        clock.advance(99)
        log.checkpoint()
        assert sum(name.endswith(".deleted") for name in files_of(log)) == 7
        clock.advance(1)
        log.checkpoint()
        assert not any(name.endswith(".deleted") for name in files_of(log))


def test_all_segments_may_go_but_an_empty_one(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL) as log:
        assert log.delete_segments(5, "a test") == 0
        for number in range(9):
            log.append(numbered(number))
        count = len(log.segments)
        assert log.delete_segments(99, "a test") == count
        assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (9, 9, 1)
        assert log.delete_segments(1, "a test") == 0
        log.append(numbered(9))
        check_log(log)


def test_an_offset_that_is_no_number(tmp_path: Path) -> None:
    """It failed the log half-way, and left a checkpoint that nobody could read."""
    with open_log(tmp_path) as log:
        log.append_run([numbered(0, 5), numbered(5, 5)])
        before = files_of(log)
        for change in (log.truncate_to, log.truncate_fully_and_start_at, log.delete_records_before):
            with pytest.raises(TypeError, match="integer"):
                change(5.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="integer"):
            log.high_watermark = 5.5  # type: ignore[assignment]
        with pytest.raises(ValueError, match="an offset is"):
            log.truncate_fully_and_start_at(2**63)
        assert files_of(log) == before
        assert (log.failure, log.log_start_offset, log.log_end_offset, log.high_watermark) == (None, 0, 10, 10)


# A full disk


def test_a_start_that_could_not_be_written_down_is_with_the_next_call(tmp_path: Path) -> None:
    """The second call found the start where it was to be, and said that all was well: a crash brought the records back."""
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        log.append_run([numbered(0, 5), numbered(5, 5)])
        disk.fail(1, error=errno.ENOSPC, kind="write", on=".tmp")
        with pytest.raises(DiskFullError, match="ask again"):
            log.delete_records_before(5)
        assert log.delete_records_before(5) == 5
        killed = copy_home(log, tmp_path / "killed")
    with open_log(killed, last_shutdown_clean=False) as log:
        assert log.log_start_offset == 5
        assert log.leader_epochs == ((0, 5),)


def test_a_truncation_that_a_full_disk_ends_says_that_the_log_is_closed_to_writes(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        log.append_run([numbered(0, 5), numbered(5, 5)])
        disk.fail(1, error=errno.ENOSPC, kind="write", on=".tmp")
        with pytest.raises(DiskFullError, match="open it again") as raised:
            log.truncate_to(5)
        assert "the log goes on" not in str(raised.value)
        with pytest.raises(LogFailedError):
            log.append(numbered(10))
        with pytest.raises(LogFailedError):
            log.flush()
