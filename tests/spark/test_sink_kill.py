"""kill -9 of a driver in its commit, and of a worker while it writes: nothing twice, nothing lost, nothing left."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

import tidelog
from tests.spark.long_sink import Driver, family_of, run
from tests.spark.sink_support import assert_nothing_staged, records_of
from tidelog.disk.disk import OS
from tidelog.store.staging import STAGED_SUFFIX, find_staging

ROWS = 60_000


@pytest.mark.slow
def test_a_driver_that_is_killed_in_its_commit(tmp_path: Path) -> None:
    """`python -m tests.spark.long_sink` does it more often."""
    done = run(tmp_path, 1, seed=11)
    assert done["kills"] == 1


def writers_of(directory: str, driver: int) -> list[int]:
    """The processes of a driver that have a file open in a directory."""
    found = []
    for pid in family_of(driver):
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    target = str(descriptor.readlink())
                    if target.startswith(directory) and target.endswith(STAGED_SUFFIX):
                        found.append(pid)
    return found


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    """The task runs again, and what the killed one has left is swept by the commit."""
    data = tmp_path / "data"
    with tidelog.open(data) as store:
        store.create_topic("t", 2)
    driver = Driver("batch", data, str(ROWS))
    try:
        driver.wait_for("ready")
        deadline, killed = time.monotonic() + 200, 0
        while not killed and time.monotonic() < deadline:
            for staging in find_staging(OS, str(data)):
                for pid in writers_of(staging, driver.process.pid):
                    os.kill(pid, signal.SIGKILL)
                    killed = pid
                    break
            assert driver.process.poll() is None, "it was done before somebody could kill a worker"
            time.sleep(0.01)
        assert killed
        left = [name for staging in find_staging(OS, str(data)) for name in os.listdir(staging) if name.endswith(STAGED_SUFFIX)]  # noqa: PTH208
        assert left, "the killed worker has left its file"
        owners = [json.loads((Path(staging) / "owner.json").read_text())["owner"]["pid"] for staging in find_staging(OS, str(data))]
        assert [family_of(driver.process.pid)[owner] for owner in owners] == ["java"], "what it ends with is the driver, not a worker"
        driver.wait_for("done")
    finally:
        driver.end()
    found = sorted(int(record.key or b"") for record in records_of(data))
    assert found == list(range(ROWS))
    assert_nothing_staged(data)
