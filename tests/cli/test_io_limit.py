"""`--io-limit`: so many bytes a second, and the page cache left as it was found."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store
from tidelog.cli import sources
from tidelog.disk.file_pool import SHARED
from tidelog.disk.gentle import GentleDisk, absent_runs

PARTITION = GOLDEN / "partitions" / "index-dense" / "closed"
SIZE = 8 << 20
FINCORE = shutil.which("fincore")
DISK = Path("/var/tmp")  # noqa: S108 - memory has no page cache to leave alone


class Time:
    """Passes only while somebody sleeps."""

    now = 50.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def file() -> Iterator[Path]:
    """On a real disk: memory has no page cache to leave alone."""
    with tempfile.TemporaryDirectory(dir=DISK if DISK.is_dir() else None) as folder:
        path = Path(folder) / "data"
        path.write_bytes(os.urandom(SIZE))
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        yield path


def drop(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def cached_bytes(path: Path) -> int:
    """How much of a file is in memory. To read some of it in order to see would bring it there."""
    if FINCORE is not None:
        answer = subprocess.run([FINCORE, "--bytes", "--noheadings", "--output", "RES", path], capture_output=True, text=True, check=True)
        return int(answer.stdout)
    fd = os.open(path, os.O_RDONLY)
    try:
        return SIZE - sum(size for _, size in absent_runs(fd, 0, SIZE))
    finally:
        os.close(fd)


def read_all(disk: GentleDisk, path: Path) -> bytes:
    fd = disk.open_plain(str(path))
    try:
        half = memoryview(bytearray(SIZE // 2))
        assert disk.read_into(fd, half, 0) == SIZE // 2
        return bytes(half) + disk.read(fd, SIZE, SIZE // 2)
    finally:
        disk.close(fd)


def test_the_rate_is_kept(file: Path) -> None:
    time = Time()
    counted: list[int] = []
    disk = GentleDisk(1 << 20, counted.append, clock=time, sleep=time.sleep)
    assert read_all(disk, file) == file.read_bytes()
    assert sum(counted) == SIZE
    assert 7.5 <= time.now - 50.0 <= 12.5  # the last read asks for more than there is


def test_without_a_rate_it_only_counts(file: Path) -> None:
    time = Time()
    counted: list[int] = []
    disk = GentleDisk(None, counted.append, clock=time, sleep=time.sleep)
    assert read_all(disk, file) == file.read_bytes()
    assert (sum(counted), time.now, disk.given_back_bytes) == (SIZE, 50.0, 0)


def test_what_was_not_in_memory_is_not_there_afterwards(file: Path) -> None:
    drop(file)
    if cached_bytes(file):
        pytest.skip("this file system keeps its pages whatever it is told")
    disk = GentleDisk(0)
    read_all(disk, file)
    assert (disk.given_back_bytes, cached_bytes(file)) == (SIZE, 0)
    read_all(GentleDisk(None), file)
    assert cached_bytes(file) == SIZE


def test_what_was_in_memory_stays_there(file: Path) -> None:
    data = file.read_bytes()
    disk = GentleDisk(0)
    assert read_all(disk, file) == data
    assert (disk.given_back_bytes, cached_bytes(file)) == (0, SIZE)
    fd = os.open(file, os.O_RDONLY)
    os.posix_fadvise(fd, 1 << 20, 2 << 20, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    left = cached_bytes(file)
    read_all(disk, file)
    assert (disk.given_back_bytes, cached_bytes(file)) == (SIZE - left, left)


def test_commands_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    whole = run("dump", PARTITION, "--records").stdout
    assert run("dump", PARTITION, "--records", "--io-limit", "100GB/s").stdout == whole
    monkeypatch.setenv("TIDELOG_IO_LIMIT", "no")
    done = run("dump", PARTITION)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: not a rate: 'no'")


@pytest.mark.parametrize("command", ["export", "copy", "restore", "forget"])
def test_whole_topics_keep_to_it(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is read of the logs is read by a disk that keeps to the limit, and afterwards files are opened as before."""
    with open_store(tmp_path / "s") as made:
        topic = made.create_topic("t")
        for number in range(20):
            topic.append(bytes(1000), key=b"key %d" % number)
    size_bytes = (tmp_path / "s" / "t-0" / f"{0:020}.log").stat().st_size
    rates: list[float | None] = []
    counted: list[int] = []

    def counting(rate: float | None, _: object) -> GentleDisk:
        rates.append(rate)
        return GentleDisk(rate, counted.append)

    monkeypatch.setattr(sources, "GentleDisk", counting)
    more = ["--key", "key 3", "--apply"] if command == "forget" else ["-o", tmp_path / "new"]
    before = SHARED.disk
    done = run(command, tmp_path / "s", "t", *more, "--io-limit", "100GB/s")
    assert done.returncode == 0, done.stderr
    assert set(rates) == {1e11}
    assert sum(counted) >= size_bytes
    assert SHARED.disk is before
    if command != "forget":
        (tmp_path / "new").rename(tmp_path / "kept")
    refused = run(command, tmp_path / "s", "t", *more, "--io-limit", "100GB/s", "--spark")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: --io-limit is about what this process reads, not about Spark's executors\nhint: ")
