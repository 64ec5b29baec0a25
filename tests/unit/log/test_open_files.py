"""Files and maps: bounded in number, pinned while they are read, and given up when the process has no descriptor left."""

import errno
import gc
import mmap
import os
import resource
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock, QuietDisk, check_log, number_of, numbered, open_log, pool_of
from tidelog.disk.disk import OS
from tidelog.disk.file_pool import FilePool
from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.log.segment_read import read_slice


class CountingDisk(QuietDisk):
    """How many files are open, and at most were; how many maps were made."""

    def __init__(self) -> None:
        self.open_files: set[int] = set()
        self.most = 0
        self.maps = 0

    def open(self, path: str, *, write: bool = False) -> int:
        return self._opened(super().open(path, write=write))

    def create(self, path: str, *, exclusive: bool = True) -> int:
        return self._opened(super().create(path, exclusive=exclusive))

    def close(self, fd: int) -> None:
        self.open_files.discard(fd)
        super().close(fd)

    def map(self, fd: int, size: int) -> mmap.mmap:
        self.maps += 1
        return super().map(fd, size)

    def _opened(self, fd: int) -> int:
        self.open_files.add(fd)
        self.most = max(self.most, len(self.open_files))
        return fd


def mapped_files(directory: Path) -> int:
    return sum(str(directory) in line for line in Path("/proc/self/maps").read_text().splitlines())


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_bounded_with_many_segments(tmp_path: Path) -> None:
    disk = CountingDisk()
    pool = FilePool(disk, max_open=10)
    config = {"internal.segment.bytes": 170, "index.interval.bytes": 0}
    with open_log(tmp_path, config, pool=pool) as log:
        for number in range(600):
            log.append(numbered(number, timestamp_ms=TIME + number))
        assert len(log.segments) == 300
        before = open_descriptors()
        for _ in range(2):
            assert [number_of(record) for record in log.read()] == list(range(600))
            for number in range(0, 600, 7):
                assert log.offset_for_time(TIME + number) == (number, TIME + number)
        gc.collect()
        assert disk.maps > 100
        assert pool.open_count <= 10
        # The pool, the three files that are written to, and what a single call holds.
        assert len(disk.open_files) <= 10 + 3 + 2
        assert disk.most <= 10 + 3 + 4
        assert mapped_files(tmp_path) <= 10
        assert open_descriptors() <= before + 10
    pool.drop_all()
    gc.collect()
    assert disk.open_files == set()
    disk.most = 0
    with open_log(tmp_path, config, pool=pool) as log:
        assert len(log.segments) == 300
        assert disk.most <= 10 + 3 + 4
        check_log(log)


def test_what_is_used_stays(tmp_path: Path) -> None:
    """A file that is read all the time is not closed for others that are read once."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 100}, pool=FilePool(disk, max_open=6)) as log:
        for number in range(30):
            log.append(numbered(number))
        hot = log.segments[3]
        mark = len(disk.calls)
        opened = []
        for number in range(5, 30):
            log.fetch(number, 100)
            opened.append(hot.file.open())
        name = Path(hot.path_of(".log")).name
        assert len({id(file) for file in opened}) == 1
        assert sum(call.kind == "open" and call.path.endswith(name) for call in disk.calls[mark:]) == 1


def test_a_pinned_file_stays_readable(tmp_path: Path) -> None:
    """Its segment is deleted, its files removed and the pool emptied while a read is under way."""
    disk = FaultyDisk()
    clock = FakeClock()
    with open_log(tmp_path, {"internal.segment.bytes": 400, "index.interval.bytes": 0}, disk=disk, clock=clock) as log:
        for number in range(16):
            log.append(numbered(number))
        first = log.segments[0]
        whole = Path(first.path_of(".log")).read_bytes()

        def delete() -> None:
            log.delete_segments(2, "a test")
            clock.advance(log.config.file_delete_delay_ms)
            log.checkpoint()
            pool_of(log).drop_all()
            gc.collect()

        disk.run(1, delete, kind="read", on=".log")
        fetched = log.fetch(2, 10_000)
        assert disk.fired
        assert fetched.data == whole[fetched.position :]
        assert [number_of(record) for record in fetched.records()] == [2, 3, 4]
        assert not list(Path(log.directory).glob(f"{first.base_offset:020d}*"))
        assert log.log_start_offset == log.segments[0].base_offset > 0


def test_no_descriptor_left_for_reading(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 170, "index.interval.bytes": 0}, disk=disk) as log:
        for number in range(20):
            log.append(numbered(number))
        list(log.read())
        assert pool_of(log).open_count > 5
        pool_of(log).drop_all()
        log.fetch(0, 1000)
        disk.fail(1, kind="open", error=errno.EMFILE)
        assert [number_of(record) for record in log.fetch(10, 1000).records()] == [10, 11]
        assert len(disk.fired) == 1
        disk.fail(1, kind="open", error=errno.ENFILE)
        assert read_slice(log.segments[3], log.segments[3].base_offset, 1000, 1000, True, 1 << 20) is not None
        assert len(disk.fired) == 2


def test_no_descriptor_left_for_a_roll(tmp_path: Path) -> None:
    """The pool's files make room, once; then the roll goes on."""
    for kind in ("create", "open"):
        disk = FaultyDisk()
        with open_log(tmp_path / kind, {"internal.segment.bytes": 170}, disk=disk) as log:
            for number in range(2):
                log.append(numbered(number))
            disk.fail(1, kind=kind, error=errno.EMFILE)
            log.append(numbered(2))
            assert len(disk.fired) == 1
            assert len(log.segments) == 2
            check_log(log)


def append_from(log: Log, first: int) -> None:
    for number in range(first, first + 30):
        log.append(numbered(number))


def test_really_no_descriptor_left(tmp_path: Path) -> None:
    """The process is at its limit: reads and appends to open files go on, a roll is refused and works again later."""
    pool = FilePool(OS, max_open=8)
    with open_log(tmp_path, {"internal.segment.bytes": 170}, pool=pool) as log:
        for number in range(9):
            log.append(numbered(number))
        list(log.read())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        held: list[int] = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
            while True:
                try:
                    held.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            log.append(numbered(9))
            assert [number_of(record) for record in log.read()] == list(range(10))
            with pytest.raises(StorageError):
                append_from(log, 10)
            end = log.log_end_offset
        finally:
            for fd in held:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in range(end, end + 5):
            log.append(numbered(number))
        assert [number_of(record) for record in log.read()] == list(range(end + 5))
        check_log(log)
