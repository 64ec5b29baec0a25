"""Appends that do not wait for the disk, for who has more than one thing to wait for."""

from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import numbered, open_log, state_of
from tidelog.errors import LogClosedError, LogFailedError, StorageError

NEVER = {"flush.messages": 1 << 60}


def test_what_is_not_waited_for_is_not_shown(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        before = disk.count("sync", ".log")
        assert log.append(numbered(0), wait=False).first_offset == 0
        assert [info.first_offset for info in log.append_run([numbered(1), numbered(2)], wait=False)] == [1, 2]
        assert disk.count("sync", ".log") == before
        assert (log.log_end_offset, log.flushed_end, log.high_watermark) == (3, 0, 0)
        assert list(log.read()) == []
        log.wait_until_durable(2)
        assert disk.count("sync", ".log") == before + 1
        assert (log.flushed_end, log.high_watermark) == (3, 3), "whoever syncs, syncs everything"
        log.wait_until_durable(3)
        log.acknowledge(3)
        assert disk.count("sync", ".log") == before + 1


def test_what_the_settings_ask_for_and_what_the_caller_does(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, NEVER, disk=disk) as log:
        log.append(numbered(0), wait=False)
        log.acknowledge(1)
        assert log.flushed_end == 0
        log.wait_until_durable(1)
        assert log.flushed_end == 1


def test_the_disk_begins_ahead(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0), wait=False)
        log.sync_ahead()
        ahead = state_of(log)._ahead
        assert ahead is not None
        assert ahead.result(10)
        assert log.flushed_end == 1
        log.append(numbered(1), wait=False)
        log.sync_ahead()
    assert log.flushed_end == 2, "closing waits for it"


def test_a_sync_ahead_that_fails_is_told_to_who_waits(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.append(numbered(0), wait=False)
    disk.fail(1, kind="sync", on=".log")
    log.sync_ahead()
    ahead = state_of(log)._ahead
    assert ahead is not None
    assert not ahead.result(10)
    with pytest.raises(LogFailedError):
        log.acknowledge(1)
    with pytest.raises(LogFailedError):
        log.append(numbered(1))
    log.close()


def test_what_was_cut_off_meanwhile_is_never_durable(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0), wait=False)
        log.truncate_to(0)
        with pytest.raises(StorageError, match="cut off by a truncation"):
            log.wait_until_durable(1)


def test_a_log_that_is_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(numbered(0), wait=False)
    log.close()
    log.wait_until_durable(1)
    log.acknowledge(1)
    with pytest.raises(LogClosedError):
        log.wait_until_durable(2)
    with pytest.raises(LogClosedError):
        log.acknowledge(2)
