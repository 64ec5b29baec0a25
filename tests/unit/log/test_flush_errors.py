"""Flushes that nobody waits for: what goes wrong with them is seen at once, by the log and in the metrics, and is over when it is over."""

import errno
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.kept_stores import open_store
from tests.support.logs import FakeClock, a_batch, open_log, state_of
from tidelog.config import LONG_MAX
from tidelog.errors import LogFailedError
from tidelog.log.log import Log

WEAK = {"flush.messages": LONG_MAX, "internal.segment.bytes": 300}


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def settled(log: Log) -> None:
    """What the background has to do is done."""
    until(lambda: all(task.done() for task in state_of(log)._pending))


def test_a_refusal_behind_a_roll_is_seen_and_done_with_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, WEAK, disk=disk) as log:
        log.append(a_batch(value=b"x" * 150))
        assert log.flush_error is None
        disk.fail(1, error=errno.EMFILE, kind="sync", on=".index", until_healed=True)
        with caplog.at_level(logging.WARNING, "tidelog"):
            log.append(a_batch(value=b"x" * 150))
            settled(log)
        assert "flushing in the background failed" in caplog.text
        error = log.flush_error
        assert isinstance(error, OSError)
        assert error.errno == errno.EMFILE
        assert (log.failure, log.recovery_point) == (None, 0)  # it goes on: this may pass
        disk.heal()
        log.append(a_batch(value=b"x" * 150))
        settled(log)
        assert (log.flush_error, log.recovery_point) == (None, 2)


def test_a_flush_that_is_asked_for_makes_up_for_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, WEAK, disk=disk) as log:
        log.append(a_batch(value=b"x" * 150))
        disk.fail(1, error=errno.ENOSPC, kind="create", on="recovery-point-offset-checkpoint.tmp")
        log.append(a_batch(value=b"x" * 150))
        settled(log)
        assert log.flush_error is not None
        log.flush()
        assert log.flush_error is None


def test_a_failed_sync_behind_a_roll_ends_writing_at_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, WEAK, disk=disk) as log:
        log.append(a_batch(value=b"x" * 150))
        disk.fail(1, kind="sync", on=".log", until_healed=True)
        log.append(a_batch(value=b"x" * 150))
        settled(log)
        assert isinstance(log.failure, OSError)
        assert isinstance(log.flush_error, LogFailedError)
        with pytest.raises(LogFailedError):
            log.append(a_batch())


def test_what_nobody_has_foreseen_ends_writing_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_log(tmp_path, WEAK) as log:
        log.append(a_batch(value=b"x" * 150))

        def surprise(offset: int) -> None:
            raise ZeroDivisionError("a surprise")

        monkeypatch.setattr(state_of(log), "_flush_up_to", surprise)
        log.append(a_batch(value=b"x" * 150))
        settled(log)
        assert isinstance(log.failure, ZeroDivisionError)
        with pytest.raises(LogFailedError, match="a surprise"):
            log.append(a_batch())


def test_a_deadline_that_could_not_be_kept_is_seen_and_kept_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.log.flushing._RETRY_MS", 20)
    disk = FaultyDisk()
    deaths: list[object] = []
    monkeypatch.setattr(threading, "excepthook", deaths.append)
    with open_log(tmp_path, {"flush.messages": LONG_MAX, "flush.ms": 20}, disk=disk, clock=None) as log:
        disk.fail(1, error=errno.EMFILE, kind="sync", on=".log", until_healed=True)
        log.append(a_batch(timestamp_ms=time.time_ns() // 1_000_000))
        until(lambda: log.flush_error is not None)
        assert (log.failure, log.flushed_end) == (None, 0)
        disk.heal()
        until(lambda: log.flushed_end == 1)
        until(lambda: log.flush_error is None)
    assert deaths == []


def test_the_metrics_of_a_store_show_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_store(tmp_path / "store", FakeClock(), disk=disk) as store:
        log = store.create_topic("weak", config=WEAK).log(0)
        log.append(a_batch(value=b"x" * 150))
        disk.fail(1, error=errno.EMFILE, kind="sync", on=".index", until_healed=True)
        log.append(a_batch(value=b"x" * 150))
        settled(log)
        [partition] = store.metrics().partitions
        assert partition.flush_error is not None
        assert "ordered by a test" in partition.flush_error
        assert not partition.is_failed
        assert 'tidelog_log_flush_failing{topic="weak",partition="0"} 1.0' in store.metrics().to_prometheus()
        disk.heal()
        store.flush()
        assert 'tidelog_log_flush_failing{topic="weak",partition="0"} 0.0' in store.metrics().to_prometheus()
