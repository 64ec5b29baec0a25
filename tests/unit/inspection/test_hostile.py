"""A directory that somebody made to do harm: links, names that lie, files that shrink, absurd sizes, very many files.

Whatever is there, verify gives findings or a typed error, in bounded memory and time, and writes nothing anywhere.
"""

import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.logs import a_batch
from tests.support.verified import write_epochs, write_segment
from tidelog.disk.disk import Disk, Seen
from tidelog.inspection import Finding, verify, verify_files, verify_log_directory
from tidelog.inspection.batch_search import CRC_BYTES_PER_BYTE
from tidelog.inspection.finding import MOST_ALIKE
from tidelog.log.producer_snapshot import format_snapshot

LOG = "00000000000000000000.log"
BATCHES = [a_batch(base_offset=offset, partition_leader_epoch=0) for offset in range(4)]


class ReadOnlyDisk(Disk):
    """Fails the test on anything that changes a disk, and counts what is read."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def _refuse(self, *arguments: object, **options: object) -> NoReturn:
        raise AssertionError(f"verify changes nothing: {arguments} {options}")

    create = write = write_some = truncate = rename = remove = make_directory = lock = set_mtime_ns = replace_file = _refuse
    sync = sync_directory = _refuse

    def open(self, path: str, *, write: bool = False) -> NoReturn:
        raise AssertionError("opened without looking at what it is")

    def read(self, fd: int, size: int, position: int) -> bytes:
        data = super().read(fd, size, position)
        self.bytes_read += len(data)
        return data


def found_in(directory: Path, disk: Disk | None = None) -> list[Finding]:
    return list(verify(directory, disk=disk or ReadOnlyDisk()))


def found_codes(directory: Path, disk: Disk | None = None) -> list[str]:
    return sorted({finding.code for finding in found_in(directory, disk)})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_segment(tmp_path / "tide-0", 0, BATCHES)
    write_epochs(tmp_path / "tide-0", (0, 0))
    return tmp_path / "tide-0"


SEGMENT_FILES = [LOG, "00000000000000000000.index", "00000000000000000000.timeindex"]


@pytest.mark.parametrize("name", [*SEGMENT_FILES, "leader-epoch-checkpoint", "00000000000000000002.snapshot", "partition.metadata"])
@pytest.mark.parametrize("target", ["nowhere", "itself", "a directory", "a pipe", "a device", "another file"])
def test_links(directory: Path, tmp_path: Path, name: str, target: str) -> None:
    path = directory / name
    path.unlink(missing_ok=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"\x00" * 30 + b"secret" * 100)
    os.mkfifo(outside / "pipe")
    targets = {
        "nowhere": outside / "none",
        "itself": path,
        "a directory": outside,
        "a pipe": outside / "pipe",
        "a device": Path("/dev/zero"),
        "another file": outside / "secret",
    }
    path.symlink_to(targets[target])
    found = found_codes(directory)
    assert "symbolic-link" in found
    assert sorted(path.name for path in outside.iterdir()) == ["pipe", "secret"]
    if name == LOG:
        assert {"nowhere": "file-unreadable", "another file": "garbage-tail"}.get(target, "file-unreadable") in found


@pytest.mark.parametrize("name", SEGMENT_FILES)
def test_a_pipe_and_a_directory_instead_of_a_file(directory: Path, name: str) -> None:
    (directory / name).unlink()
    os.mkfifo(directory / name)
    assert "not-a-file" in found_codes(directory)
    (directory / name).unlink()
    (directory / name).mkdir()
    assert "directory-inside" in found_codes(directory)


def test_a_link_to_the_log_that_is_a_log(directory: Path) -> None:
    (directory / LOG).rename(directory.parent / "elsewhere")
    (directory / LOG).symlink_to(directory.parent / "elsewhere")
    assert found_codes(directory) == ["symbolic-link"]


def test_odd_names(directory: Path) -> None:
    names = [
        b"\xff\xfe.log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٥.log".encode(),
        b"new\nline.index",
        b"-.log",
        b"99999999999999999999.log",
        b"00000000000000000001.log.log",
        b"00000000000000000000.log.swap.swap",
        b"\xff" * 200,
    ]
    for name in names:
        with open(os.fsencode(directory) + b"/" + name, "wb"):  # noqa: PTH123
            pass
    found = found_in(directory)
    assert {finding.code for finding in found} == {"segment-name", "foreign-file"}
    assert len(found) == len(names)
    for finding in found:
        str(finding).encode()
        str(finding.to_json()).encode()


class ShrinkingDisk(ReadOnlyDisk):
    """The file loses its second half after the first read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        os.truncate(self.path, min(self.path.stat().st_size, sum(map(len, BATCHES[:2]))))
        return super().read_into(fd, buffer, position)

    def read(self, fd: int, size: int, position: int) -> bytes:
        data = super().read(fd, size, position)
        if self.path.suffix != ".log":
            os.truncate(self.path, 0)
        return data


@pytest.mark.parametrize("name", [*SEGMENT_FILES, "leader-epoch-checkpoint"])
def test_files_that_shrink_while_they_are_read(directory: Path, name: str) -> None:
    found = found_codes(directory, ShrinkingDisk(directory / name))
    assert found == {LOG: ["file-shrunk", "index-position"], SEGMENT_FILES[2]: ["time-index-short"]}.get(name, [])
    list(verify(directory, level="headers", disk=ShrinkingDisk(directory / name)))


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.timeindex"])
def test_an_index_of_an_absurd_size(directory: Path, name: str) -> None:
    os.truncate(directory / name, 1 << 40)
    tracemalloc.start()
    try:
        found = found_codes(directory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "index-large" in found
    assert peak < 256 << 20


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("00000000000000000000.txnindex", "file-unreadable"),
        ("00000000000000000004.snapshot", "snapshot-unreadable"),
        ("leader-epoch-checkpoint", "epochs-unreadable"),
        ("partition.metadata", "metadata-unreadable"),
    ],
)
def test_small_files_of_an_absurd_size(directory: Path, name: str, code: str) -> None:
    (directory / name).touch()
    os.truncate(directory / name, 1 << 40)
    disk = ReadOnlyDisk()
    assert found_codes(directory, disk) == [code]
    assert disk.bytes_read < 1 << 20


def test_a_log_of_an_absurd_size(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.inspection.segment_checks.LARGEST_SEGMENT", 64 << 20)  # as large as it is, it would take seconds
    os.truncate(directory / LOG, 1 << 40)
    disk = ReadOnlyDisk()
    tracemalloc.start()
    try:
        found = found_codes(directory, disk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == ["segment-size", "zero-tail"]
    assert disk.bytes_read < 256 << 20
    assert peak < 64 << 20


@pytest.mark.parametrize("count", [2**31 - 1, -(2**31)])
@pytest.mark.parametrize("position", [8, 23, 57])
def test_absurd_numbers_in_a_header(directory: Path, position: int, count: int) -> None:
    content = bytearray((directory / LOG).read_bytes())
    struct.pack_into(">i", content, position, count)
    (directory / LOG).write_bytes(content)
    tracemalloc.start()
    try:
        found = [
            finding for level in ("headers", "everything", "records") for finding in verify(directory, level=level, disk=ReadOnlyDisk())
        ]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert any(finding.severity == "error" for finding in found)
    assert peak < 64 << 20


def test_a_file_in_which_everything_looks_like_a_batch(directory: Path) -> None:
    # Each of these headers promises a batch up to the end of the file, whose CRC would have to be checked.
    count = 20_000
    headers = bytearray()
    for number in range(count):
        rest = (count - number) * 61 - 12
        headers += struct.pack(">qiibIhiqqqhii", 10 + number, rest, 0, 2, number, 0, 0, 0, 0, -1, -1, -1, 1)
    (directory / LOG).write_bytes(b"\x00" * 12 + headers)
    disk = ReadOnlyDisk()
    started = time.monotonic()
    found = found_in(directory, disk)
    assert [finding.code for finding in found if finding.severity == "error"] == ["garbage-tail"]
    assert disk.bytes_read < 2 * (CRC_BYTES_PER_BYTE + 4) * len(headers) + (64 << 20)
    assert time.monotonic() - started < 20


class CrowdedDisk(ReadOnlyDisk):
    """A directory with very many files, all of them empty, which would take minutes to make."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__()
        self.count = count
        self.name = name

    def look(self, path: str) -> Iterator[Seen]:
        for number in range(self.count):
            yield Seen(self.name.format(number), "file", 0)

    def open_plain(self, path: str) -> int:
        return super().open_plain("/proc/self/comm" if path.endswith("checkpoint") else self.empty)

    empty = ""


@pytest.mark.parametrize("name", ["{:020d}.log", "{:020d}.index", "{:020d}.snapshot", "{:020d}.log.deleted", "x{}"])
def test_very_many_files(directory: Path, name: str) -> None:
    count = 5_000
    empty = directory.parent / "empty"
    empty.touch()
    disk = CrowdedDisk(count, name)
    disk.empty = str(empty)
    tracemalloc.start()
    try:
        told = sum(1 for _ in verify(directory, disk=disk))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert told <= 3 * (MOST_ALIKE + 1)
    assert peak < count * 800 + (8 << 20)  # nothing but the names


def test_very_many_producers(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.inspection.producer_checks.MOST_REMEMBERED", 10)
    batches = [
        a_batch(base_offset=number, partition_leader_epoch=0, producer_id=number, producer_epoch=0, base_sequence=0) for number in range(20)
    ]
    write_segment(directory, 0, batches)
    (directory / "00000000000000000020.snapshot").write_bytes(format_snapshot([]))
    assert found_codes(directory) == ["producers-many"]


def test_a_hostile_log_directory(directory: Path) -> None:
    root = directory.parent
    (root / "loop-0").symlink_to(root / "loop-0")
    (root / "nowhere-1").symlink_to(root / "none")
    (root / "up-2").symlink_to(root)
    os.mkfifo(root / "pipe-3")
    os.mkfifo(root / "recovery-point-offset-checkpoint")
    (root / "meta.properties").mkdir()
    os.mkdir(os.fsencode(root) + b"/\xff-0")  # noqa: PTH102
    (root / "log-start-offset-checkpoint").write_bytes(b"0\n99999999999999\n")
    before = sorted(os.walk(root))
    found = {finding.code for finding in verify_log_directory(root, disk=ReadOnlyDisk())}
    assert {"symbolic-link", "not-a-file", "unknown-directory", "checkpoint-unreadable"} <= found
    assert sorted(os.walk(root)) == before


def test_hostile_files_by_name(directory: Path) -> None:
    os.mkfifo(directory / "00000000000000000009.log")
    os.mkfifo(directory / "replication-offset-checkpoint")
    paths = [directory / "00000000000000000009.log", directory / "replication-offset-checkpoint", directory]
    found = list(verify_files(paths, disk=ReadOnlyDisk()))
    assert [finding.code for finding in found] == ["file-unreadable", "file-unreadable", "foreign-file"]
