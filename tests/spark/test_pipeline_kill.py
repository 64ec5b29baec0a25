"""The pipeline that the documentation opens with: its driver is killed by SIGKILL in the middle, and nothing is lost or counted twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import tidelog
from examples.spark import pipeline

ROOT = Path(__file__).parents[2]
LANDED = 12_000
PER_BATCH = 3_000
KILLS = (1,)
"""After so many micro-batches of the first stream the driver is killed."""
DEADLINE_S = 200.0
MINUTE_MS = 60_000


def start(directory: Path, landing: int, messages: Path) -> "subprocess.Popen[bytes]":
    """The pipeline as a user starts it, in a session of processes of its own, so that its JVM can be killed with it."""
    command = [sys.executable, "-m", "examples.spark.pipeline", str(directory), "--changes", str(landing), "--per-batch", str(PER_BATCH)]
    with messages.open("ab") as file:
        return subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)


def batches(directory: Path) -> int:
    """How many micro-batches of the first stream are in its checkpoint."""
    return len(list((directory.with_name("data-checkpoints") / pipeline.CUSTOMERS / "offsets").glob("[0-9]*")))


@pytest.mark.slow
def test_driver_is_killed(tmp_path: Path) -> None:
    directory, messages = tmp_path / "data", tmp_path / "messages.txt"
    landing = LANDED
    for kill_at in KILLS:
        driver = start(directory, landing, messages)
        landing = 0
        deadline = time.monotonic() + DEADLINE_S
        while batches(directory) <= kill_at and driver.poll() is None:
            assert time.monotonic() < deadline, messages.read_text()[-3000:]
            time.sleep(0.02)
        assert driver.poll() is None, f"it was over before it could be killed:\n{messages.read_text()[-3000:]}"
        os.killpg(driver.pid, signal.SIGKILL)  # the driver, its JVM, and the Python workers below that
        driver.wait()
    driver = start(directory, 0, messages)
    assert driver.wait(DEADLINE_S) == 0, messages.read_text()[-3000:]
    assert batches(directory) > max(KILLS) + 1

    with tidelog.open(directory, mode="r") as store:
        changed = [(record.key, record.value, record.timestamp_ms) for record in store.topic(pipeline.CHANGES).read()]
        written = [(record.key, record.value, record.timestamp_ms) for record in store.topic(pipeline.CUSTOMERS).read()]
        customers, counts = store.topic(pipeline.CUSTOMERS).table(), store.topic(pipeline.COUNTS).table()
        counted = [record.key for record in store.topic(pipeline.COUNTS).read()]
    assert len(changed) == LANDED
    assert Counter(written) == Counter((key, _email(value), timestamp_ms) for key, value, timestamp_ms in changed)
    latest = {key: value for key, value, _ in sorted(written, key=lambda row: row[2]) if key is not None}
    assert customers == {key: value for key, value in latest.items() if value is not None}
    assert len(counted) == len(set(counted)), "a minute was counted twice"
    assert counts == _per_minute(changed)


def _email(value: bytes | None) -> bytes | None:
    assert value is not None
    email = json.loads(value).get("email")
    return None if email is None else email.encode()


def _per_minute(changed: list[tuple[bytes | None, bytes | None, int]]) -> dict[bytes, bytes]:
    """Of every minute that is over by the watermark: it lies a minute behind the latest change."""
    watermark_ms = max(timestamp_ms for _, _, timestamp_ms in changed) - MINUTE_MS
    found = Counter(timestamp_ms // MINUTE_MS * MINUTE_MS for _, _, timestamp_ms in changed)
    return {
        time.strftime("%Y-%m-%d %H:%M", time.gmtime(start_ms / 1000)).encode(): b"%d" % count
        for start_ms, count in found.items()
        if start_ms + MINUTE_MS <= watermark_ms
    }
