"""kill -9 of the driver of a stream, and of workers that read for it: nothing is lost, and nothing comes twice into a sink by number."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.dataset as ds
import pytest

from tests.support.logs import TIME
from tests.support.topics import open_store
from tidelog.record import NewBatch

REPOSITORY = Path(__file__).parents[2]
PER_PARTITION = 100_000
KILLS = int(os.environ.get("TIDELOG_STREAM_KILLS", "1"))
"""How often the driver is killed; each time costs the start of a session."""
SEED = int(os.environ.get("TIDELOG_STREAM_SEED", "0")) or time.time_ns() % 10**6


def start(home: Path, folder: Path) -> "subprocess.Popen[str]":
    """The program in a process group of its own, so that its Java virtual machine can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.stream_driver", str(home), str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def lines_of(program: "subprocess.Popen[str]") -> Iterator[list[str]]:
    assert program.stdout is not None
    return (line.split() for line in program.stdout)


def readers_of(home: Path) -> list[int]:
    """Python workers of tasks that have a segment of the store open right now."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if not process.name.isdigit() or b"pyspark.worker" not in (process / "cmdline").read_bytes():
                continue
            opened = (fd.readlink() for fd in (process / "fd").iterdir())
            if any(path.suffix == ".log" and path.is_relative_to(home) for path in opened):
                found.append(int(process.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


class WorkerKiller(threading.Thread):
    """Kills a worker that reads, now and then, so that no task fails four times."""

    def __init__(self, home: Path) -> None:
        super().__init__(daemon=True)
        self.home = home
        self.killed = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set() and self.killed < 3:
            for pid in readers_of(self.home)[:1]:
                os.kill(pid, signal.SIGKILL)
                self.killed += 1
                self.done.wait(1.5)
            time.sleep(0.005)


@pytest.mark.slow
def test_killed_drivers_and_workers(tmp_path: Path) -> None:
    print("TIDELOG_STREAM_SEED", SEED)  # noqa: T201
    random = Random(SEED)
    home = tmp_path / "store"
    with open_store(home) as store:
        topic = store.create_topic("tide", 2, {"segment.index.bytes": 1 << 16, "internal.segment.bytes": 1 << 20})
        for partition in range(2):
            for first in range(0, PER_PARTITION, 1000):
                rows = [(None, str(number).encode(), (), TIME - PER_PARTITION + number) for number in range(first, first + 1000)]
                topic.log(partition).append(NewBatch(rows).encode())
    for number in range(KILLS):
        program = start(home, tmp_path)
        try:
            next(line for line in lines_of(program) if line[0] in ("batch", "failed"))
            time.sleep(random.uniform(0, 1))
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()
        assert program.returncode == -signal.SIGKILL
        assert sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*")), number
    program = start(home, tmp_path)
    killer = WorkerKiller(home)
    killer.start()
    try:
        failed = next(int(line[1]) for line in lines_of(program) if line[0] == "failed")
        assert program.wait(120) == 0
    finally:
        killer.done.set()
        killer.join()
        program.kill()
        program.communicate()
    assert killer.killed > 0
    assert failed >= 1
    rows = ds.dataset(tmp_path / "rows", format="parquet").to_table(columns=["partition", "offset", "value"])
    assert rows.num_rows == 2 * PER_PARTITION
    assert set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)) == {
        (partition, offset) for partition in range(2) for offset in range(PER_PARTITION)
    }
    assert [int(value) for value in rows["value"].to_pylist()] == rows["offset"].to_pylist()
