"""Directories that were made to hurt a reader: it raises typed errors, takes little memory, and never hangs."""

import os
import shutil
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.crowd import met
from tests.support.logs import TIME, QuietDisk, numbered, open_log
from tests.support.readers import ReadOnlyDisk, checkpoint_watermark, open_reader
from tidelog.disk.disk import Seen
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.log import leftovers
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.record import walk_headers

LOG, INDEX, TIME_INDEX, TXN_INDEX = (f"00000000000000000000{kind}" for kind in (".log", ".index", ".timeindex", ".txnindex"))
SNAPSHOT = "00000000000000000003.snapshot"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template")
    with open_log(home, {"index.interval.bytes": 0}, disk=QuietDisk()) as log:
        for number in range(20):
            log.append(numbered(number, timestamp_ms=TIME + number))
    return home


@pytest.fixture
def directory(template: Path, tmp_path: Path) -> Path:
    """A log that was closed: one segment, twenty batches, an entry for each."""
    shutil.copytree(template, tmp_path / "home")
    return tmp_path / "home" / "tide-0"


def use(log: LogReading) -> list[int]:
    """Everything that can be asked, in whatever state the log is: the offsets that were read."""
    for isolation in ("log_end", "high_watermark", "committed"):
        offsets = [record.offset for record in log.read(isolation=isolation)]
    for timestamp_ms in (0, TIME, TIME + 10, TIME + 1000, -1, -2, -3):
        log.offset_for_time(timestamp_ms)
    for offset in range(log.log_start_offset, min(log.log_end_offset, 30)):
        log.fetch(offset, 1000)
    return offsets


@contextmanager
def limited(max_bytes: int) -> Iterator[None]:
    """What is done in here takes no more memory."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= max_bytes, peak


def make(path: Path, kind: str, outside: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling link":
        path.symlink_to(outside / "nothing")
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            here = Path.cwd()
            os.chdir(path.parent)  # the name of a socket must be short
            try:
                server.bind(path.name)
            finally:
                os.chdir(here)


KINDS = ["link", "dangling link", "directory", "pipe", "socket"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, LOG + ".swap", "00000000000000000020.log"])
def test_something_else_under_the_name_of_a_segment(name: str, kind: str, directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_bytes(numbered(666))
    make(directory / name, kind, outside)
    with pytest.raises(DamagedLogError, match="named like a segment's file") as raised:
        open_reader(directory)
    assert str(directory / name) in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "place", ["flushed-end.tidelog", "leader-epoch-checkpoint", "../replication-offset-checkpoint", "../log-start-offset-checkpoint"]
)
def test_something_else_under_the_name_of_a_small_file(place: str, kind: str, directory: Path, tmp_path: Path) -> None:
    """It vouches for nothing, and nobody waits for it."""
    make(directory / place, kind, tmp_path / "secret")
    with open_reader(directory) as reader:
        assert reader.log_end_offset == 20
        use(reader)
        assert reader.high_watermark == (0 if "replication" in place else 20)


@pytest.mark.parametrize(
    "name", ["notes.log", "1.log", "0.index", "x.timeindex", "00000000000000000000000.log", "-0000000000000000001.log"]
)
def test_names_that_lie(name: str, directory: Path) -> None:
    (directory / name).write_bytes(b"")
    with pytest.raises(DamagedLogError, match="named like a segment's"):
        open_reader(directory)


@pytest.mark.parametrize("name", ["99999999999999999999.log", "09223372036854775808.index"])
def test_offsets_beyond_all_numbers(name: str, directory: Path) -> None:
    (directory / name).write_bytes(b"")
    with pytest.raises(DamagedLogError, match="named like a segment's"):
        open_reader(directory)


def test_the_last_of_all_offsets(directory: Path) -> None:
    (directory / "09223372036854775807.log").write_bytes(b"")
    with open_reader(directory) as reader:
        assert use(reader) == list(range(20))


@pytest.mark.parametrize("name", [LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, "flushed-end.tidelog", "../replication-offset-checkpoint"])
def test_absurd_sizes(name: str, directory: Path) -> None:
    """A hole of a terabyte, which takes no space on disk and must take none in memory."""
    path = directory / name
    path.touch()
    os.truncate(path, 1 << 40)
    with limited(40 << 20), open_reader(directory) as reader:
        assert reader.log_end_offset == 20
        assert len(use(reader)) in (0, 20)


@pytest.mark.parametrize("size", [-1, 0, 13, 14, 48, 49, 1000, 0x7FFFFFF3, 0x7FFFFFFF, -0x80000000])
@pytest.mark.parametrize("number", [0, 7, 19])
def test_absurd_sizes_in_headers(number: int, size: int, directory: Path) -> None:
    path = directory / LOG
    data = bytearray(path.read_bytes())
    at = int(walk_headers(bytes(data)).position[number])
    data[at + 8 : at + 12] = struct.pack(">i", size)
    path.write_bytes(data)
    os.truncate(path, 3 << 30)  # so that the batch would be there
    with limited(40 << 20):
        found: list[int] = []
        is_open = False
        try:
            with open_reader(directory, max_batch_bytes=1 << 20) as reader:
                is_open = True
                for record in reader.read(isolation="log_end"):
                    found.append(record.offset)
        except TidelogError:
            pass
    assert found == (list(range(number)) if is_open else [])


@pytest.mark.parametrize("field", [(0, ">q"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (35, ">q"), (43, ">q"), (57, ">i")])
@pytest.mark.parametrize("value", [-1, 0, 1, 5, 127, -128])
@pytest.mark.parametrize("number", [0, 7, 19])
def test_header_fields_that_lie(number: int, value: int, field: tuple[int, str], directory: Path) -> None:
    at, code = field
    path = directory / LOG
    data = bytearray(path.read_bytes())
    struct.pack_into(code, data, int(walk_headers(bytes(data)).position[number]) + at, value)
    path.write_bytes(data)
    found: list[int] = []
    is_open = False
    try:
        with open_reader(directory) as reader:
            is_open = True
            for record in reader.read(isolation="log_end"):
                found.append(record.offset)
            use(reader)
    except TidelogError:
        pass
    assert found == sorted(set(found))
    # What lies before it is read; but the last batch says where the log ends, and its offset lies outside of the CRC.
    before = value + 1 if (at, number) == (0, 19) and 0 <= value < 19 else number
    assert found[:number] == (list(range(before)) if is_open else [])


def test_indexes_of_random_bytes(directory: Path) -> None:
    for seed in range(30):
        for name, size in ((INDEX, 8 * 30), (TIME_INDEX, 12 * 30), (TXN_INDEX, 34 * 9), (SNAPSHOT, 200)):
            (directory / name).write_bytes(b"".join(struct.pack(">Q", hash((seed, name, at)) & (2**64 - 1)) for at in range(size // 8)))
        with open_reader(directory) as reader:
            assert [record.offset for record in reader.read(isolation="log_end")] == list(range(20))
            assert [reader.offset_for_time(TIME + at, isolation="log_end") for at in range(20)] == [(at, TIME + at) for at in range(20)]
            use(reader)


class Shrinking(ReadOnlyDisk):
    """A file is cut while it is read: from some call on it has fewer bytes than before."""

    def __init__(self, path: Path, after: int, size: int) -> None:
        self.path, self.left, self.size_bytes = path, after, size

    def read(self, fd: int, size: int, position: int) -> bytes:
        self.left -= 1
        if self.left == 0:
            os.truncate(self.path, self.size_bytes)
        return super().read(fd, size, position)


@pytest.mark.parametrize("name", [LOG, INDEX, TIME_INDEX])
@pytest.mark.parametrize("size", [0, 5, 100])
def test_files_that_shrink_while_they_are_read(size: int, name: str, directory: Path) -> None:
    content = (directory / name).read_bytes()
    for after in range(1, 60, 3):
        (directory / name).write_bytes(content)
        found: list[int] = []
        try:
            with open_reader(directory, disk=Shrinking(directory / name, after, size)) as reader:
                found.extend(record.offset for record in reader.read(isolation="log_end"))
                use(reader)
        except TidelogError:
            pass
        assert found == list(range(len(found)))
        assert name == LOG or len(found) == 20


class Crowded(ReadOnlyDisk):
    """A directory with many files more; see below for a million of them."""

    def __init__(self, pattern: str, count: int) -> None:
        self.pattern, self.count = pattern, count

    def look(self, path: str) -> Iterator[Seen]:
        yield from super().look(path)
        for number in range(self.count):
            yield Seen(self.pattern.format(number), "file", 0, 0, number + 10_000_000_000)


@pytest.mark.parametrize("pattern", ["file-{}", "{:020d}.log.deleted"])
def test_a_crowd_of_files_of_no_interest(directory: Path, pattern: str) -> None:
    with limited(2 << 20), open_reader(directory, disk=Crowded(pattern, 20_000)) as reader:
        assert len([record for record in reader.read()]) == 20  # noqa: C416


MILLION = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "pattern", "outcome", "grows_by"),
    [
        ("reader", "file-{}", "20 records, 0 removed", 16 << 20),
        ("reader", "{:020d}.log", "DamagedLogError", 256 << 20),
        ("reader", "{:020d}.snapshot", "DamagedLogError", 256 << 20),
        ("owner", "file-{}", "20 records, 0 removed", 16 << 20),
        ("owner", "{:020d}.log", "DamagedLogError", 256 << 20),
        ("owner", "{:020d}.log.deleted", "DamagedLogError", 256 << 20),
        ("verify", "file-{}", "21 findings", 16 << 20),
    ],
)
def test_a_million_empty_files(who: str, pattern: str, outcome: str, grows_by: int, directory: Path) -> None:
    """Nobody keeps names that do not matter; of those that do, there is a limit."""
    found, grown = met(who, directory, pattern, MILLION)
    assert found == outcome
    assert grown <= grows_by


def test_more_segments_than_a_log_can_have(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "MAX_FILES", 10_000)
    with limited(30 << 20), pytest.raises(DamagedLogError, match="more files than a log can have"):
        open_reader(directory, disk=Crowded("{:020d}.log.swap", 10_001))


def test_many_real_files(directory: Path) -> None:
    for number in range(500):
        (directory / f"file-{number}").touch()
        (directory / f"{number + 100:020d}.snapshot").touch()
    checkpoint_watermark(directory, 20)
    with open_reader(directory) as reader:
        assert use(reader) == list(range(20))


def test_everything_at_once_is_said_with_its_path(directory: Path) -> None:
    make(directory / LOG, "link", directory.parent)
    error: Any = None
    try:
        open_reader(directory)
    except TidelogError as raised:
        error = raised
    assert (error.path, error.expected, error.found) == (f"{directory}/{LOG}", "a file", "a link")


@pytest.mark.leaves
@pytest.mark.parametrize("config", [{}, {"index.interval.bytes": 0}, {"internal.segment.bytes": 400}], ids=["sparse", "dense", "small"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
def test_a_last_offset_that_goes_back(config: dict[str, Any], is_closed: bool, tmp_path: Path) -> None:
    """It lies outside of the CRC. Taken at its word the log would end at 6, hide what it has, and give offsets a second time."""
    log = open_log(tmp_path, config)
    for number in range(20):
        log.append(numbered(number))
    if is_closed:
        log.close()
    path = max(Path(log.directory).glob("*.log"))
    content = bytearray(path.read_bytes())
    position = len(content) - len(numbered(19))
    assert int.from_bytes(content[position : position + 8], "big") == 19
    content[position : position + 8] = (5).to_bytes(8, "big")
    path.write_bytes(content)
    with pytest.raises(DamagedLogError, match="offsets of batches go back") as raised:
        Log.open(log.directory, mode="r")
    assert (raised.value.path, raised.value.position) == (str(path), position)
    if is_closed:
        with pytest.raises(DamagedLogError, match="offsets of batches go back") as raised:
            open_log(tmp_path, config)
        assert raised.value.position == position
        if "internal.segment.bytes" in config:
            with pytest.raises(DamagedLogError, match="below its segment's base offset"):  # as in Kafka
                open_log(tmp_path, config, last_shutdown_clean=False)
        else:
            with open_log(tmp_path, config, last_shutdown_clean=False) as log:
                assert log.log_end_offset == 19
    else:
        log.close()


@pytest.mark.leaves("index-offset")
def test_an_index_that_promises_more_than_there_is(tmp_path: Path) -> None:
    """Then the index is wrong, and not the log."""
    with open_log(tmp_path, {"index.interval.bytes": 0}) as log:
        for number in range(9):
            log.append(numbered(number))
    (index,) = Path(log.directory).glob("*.index")
    content = index.read_bytes()
    index.write_bytes(content[:-8] + (99).to_bytes(4, "big") + content[-4:])
    reader = Log.open(log.directory, mode="r")
    assert (reader.log_end_offset, [record.offset for record in reader.read()]) == (9, [*range(9)])
    reader.close()
    with open_log(tmp_path) as log:
        assert log.log_end_offset == 9
