"""A failed sync is told once, to one of those who sync the same file: nobody may acknowledge by a sync that came after it."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import numbered, open_log
from tidelog.errors import LogFailedError
from tidelog.log.log import Log


class Held:
    """A thread that is held in a sync, which then fails."""

    def __init__(self, disk: FaultyDisk, nth: int = 1) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        disk.run(nth, self._hold, kind="sync", on=".log")

    def _hold(self) -> None:
        self.entered.set()
        assert self.release.wait(10)
        raise OSError(errno.EIO, "ordered by a test")


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[object]]:
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("work", [Log.roll, lambda log: log.truncate_to(2)], ids=["roll", "truncation"])
def test_a_sync_ahead_fails_while_another_one_begins(work: Callable[[Log], Any], tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.append(numbered(0))
    log.append(numbered(1), wait=False)
    log.append(numbered(2), wait=False)
    held = Held(disk)
    log.sync_ahead()
    assert held.entered.wait(10)
    thread, outcome = in_thread(lambda: work(log))
    thread.join(0.3)
    assert log.flushed_end == 1  # what the held one was to make durable is not yet, whatever the other one was told
    held.release.set()
    thread.join(10)
    assert isinstance(outcome[0], LogFailedError)
    assert log.flushed_end == 1
    with pytest.raises(LogFailedError):
        log.acknowledge(2)
    log.close()


def test_the_sync_of_a_roll_back_fails_while_another_one_begins(tmp_path: Path) -> None:
    """What a failed append has left is cut off and synced: if that sync is the one that hears of the failure, the next must not count."""
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.append(numbered(0))
    log.append(numbered(1), wait=False)
    held = Held(disk)
    disk.fail(1, kind="write", on=".log", error=errno.ENOSPC)
    first, failed = in_thread(lambda: log.append(numbered(2)))
    assert held.entered.wait(10)
    second, outcome = in_thread(lambda: log.acknowledge(2))
    second.join(0.3)
    held.release.set()
    first.join(10)
    second.join(10)
    assert isinstance(failed[0], LogFailedError)
    assert isinstance(outcome[0], LogFailedError)
    assert log.flushed_end == 1
    log.close()
