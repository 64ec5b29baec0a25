"""kill -9 of a process that writes: nothing that it acknowledged is missing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.crash.writer import SETTINGS, append
from tests.support.crash_kill import REPOSITORY, Writers, kill_round
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log

ROUNDS = 50
BATCHES = 40
SYSTEM_CALLS = "pwrite64,pwritev,pwritev2,fdatasync,fsync,write"


def test_nothing_acknowledged_is_missing_after_a_kill(tmp_path: Path) -> None:
    draw = Random(4)
    with Writers() as writers:
        for number in range(ROUNDS):
            assert kill_round(writers, tmp_path / str(number), draw) == [], f"round {number}"


def can_trace() -> bool:
    """Whether strace is there, and allowed to do its work."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


def check_calls(calls: list[tuple[str, str]]) -> None:
    """Calls as (what, which file). Behind the last write to a `.log`, and before each acknowledgement, it is synced."""
    unsynced: set[str] = set()
    acknowledged = writes = syncs = 0
    for what, file in calls:
        if what in ("pwrite64", "pwritev", "pwritev2"):
            writes += file.endswith(".log")
            unsynced.add(file)
        elif what in ("fdatasync", "fsync"):
            syncs += 1
            unsynced.discard(file)
        elif what == "ack":
            acknowledged += 1
            assert not {file for file in unsynced if file.endswith(".log")}, f"acknowledgement {acknowledged} comes before the sync"
    assert acknowledged == BATCHES
    # A run of three has one each.
    assert writes >= BATCHES * 3 // 5
    assert syncs >= BATCHES * 3 // 5


@pytest.mark.skipif(not can_trace(), reason="strace is missing or not allowed here; the next test does it without")
def test_a_sync_precedes_each_acknowledgement_as_the_system_sees_it(tmp_path: Path) -> None:
    """Counted by strace."""
    trace = tmp_path / "trace"
    writer = [sys.executable, "-m", "tests.crash.writer", str(tmp_path / "root" / "t-0"), str(BATCHES)]
    subprocess.run(
        ["strace", "-f", "-y", "-o", str(trace), "-e", f"trace={SYSTEM_CALLS}", *writer],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    calls = []
    for line in trace.read_text().splitlines():
        found = re.match(r"\d+ +(\w+)\((\d+)(?:<([^>]*)>)?(.*)", line)
        assert "unfinished" not in line, "one thread, one call at a time"
        if found is not None and found[1] == "write":
            if '"ack ' in found[4]:
                calls.append(("ack", ""))
        elif found is not None:
            assert "= -1" not in line, line
            calls.append((found[1], found[3]))
    check_calls(calls)


def test_a_sync_precedes_each_acknowledgement_as_the_disk_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by a disk that writes down its calls, in this process."""
    calls: list[tuple[str, str]] = []

    class CountingDisk(Disk):
        def write_some(self, fd: int, parts: object, position: int) -> int:
            calls.append(("pwritev", str(Path(f"/proc/self/fd/{fd}").readlink())))
            return super().write_some(fd, parts, position)  # type: ignore[arg-type]

        def sync(self, fd: int) -> None:
            super().sync(fd)
            calls.append(("fdatasync", str(Path(f"/proc/self/fd/{fd}").readlink())))

    monkeypatch.setattr("tests.crash.writer.say", lambda line: calls.append(("ack", "")))
    with Log.open(tmp_path / "t-0", config=SETTINGS, pool=FilePool(CountingDisk())) as log:
        append(log, 0, BATCHES)
    check_calls(calls)
