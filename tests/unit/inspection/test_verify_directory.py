"""verify and what lies in a directory: leftovers, orphans, and the root of a log directory held against its partitions."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import a_batch
from tests.support.verified import assert_verified, codes, notes, write_epochs, write_segment
from tidelog.disk.disk import Disk, Seen
from tidelog.disk.published_end import PUBLISHED_END, FlushedEnd, format_flushed_end
from tidelog.errors import LogNotFoundError
from tidelog.inspection import Finding, verify, verify_log_directory
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import format_snapshot


def a_partition(directory: Path, count: int = 3) -> Path:
    write_segment(directory, 0, [a_batch(base_offset=offset, partition_leader_epoch=0) for offset in range(count)])
    write_epochs(directory, (0, 0))
    return directory


NAMES = {
    "00000000000000000000.log.cleaned": ("note", "leftover-cleaned"),
    "00000000000000000000.index.swap": ("note", "leftover-swap"),
    "00000000000000000000.log.deleted": ("note", "leftover-deleted"),
    "00000000000000000000.snapshot.deleted": ("note", "leftover-deleted"),
    "00000000000000000000.log.clean": ("note", "leftover-cleaned"),
    "leader-epoch-checkpoint.tmp": ("note", "leftover-tmp"),
    "cut-00000000000000000000-at-5.log.tidelog": ("note", "kept-aside"),
    "rebuilt-00000000000000000000.index.tidelog": ("note", "leftover-rebuilt"),
    "bad-00000000000000000000-at-5.log.tidelog": ("note", "own-file"),
    "notes.txt": ("note", "foreign-file"),
    "5.log": ("error", "segment-name"),
    "99999999999999999999.log": ("error", "segment-name"),
    "notes.index": ("error", "segment-name"),
    "00000000000000000077.index": ("warning", "orphan-index"),
    "00000000000000000077.timeindex": ("warning", "orphan-index"),
    "00000000000000000077.txnindex": ("warning", "orphan-index"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(tmp_path: Path, name: str) -> None:
    (a_partition(tmp_path) / name).write_bytes(b"")
    (finding,) = verify(tmp_path)
    assert (finding.severity, finding.code) == NAMES[name]
    assert (finding.mend == "moving it elsewhere") == (finding.code == "segment-name")
    assert Path(finding.path).name == name


def test_empty_segments_are_counted(tmp_path: Path) -> None:
    a_partition(tmp_path)
    for base_offset in (3, 4, 5):
        (tmp_path / f"{base_offset:020d}.log").write_bytes(b"")
    (finding,) = verify(tmp_path)
    assert finding.code == "empty-segments"
    assert finding.what.startswith("2 segments")


def test_nothing_at_all(tmp_path: Path) -> None:
    assert list(verify(tmp_path)) == []
    assert list(verify_log_directory(tmp_path)) == []


def test_progress(tmp_path: Path) -> None:
    a_partition(tmp_path)
    write_segment(tmp_path, 3, [a_batch(base_offset=3, partition_leader_epoch=0)])
    done: list[int] = []
    assert list(verify(tmp_path, progress=done.append)) == []
    assert done == [(tmp_path / f"{base:020d}.log").stat().st_size for base in (0, 3)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    a_partition(tmp_path / "emails-0")
    a_partition(tmp_path / "emails-1", 7)
    (tmp_path / "meta.properties").write_text(
        "#\n#Mon Nov 16\nnode.id=1\ndirectory.id=tKgmCFRkTQ-VVKsXYAaXFA\nversion=1\ncluster.id=here\n"
    )
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("0\n2\nemails 0 3\nemails 1 7\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nemails 1 2\n")
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":8}')
    (tmp_path / ".lock").write_bytes(b"")
    return tmp_path


def found_in(root: Path) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.code, str(Path(finding.path).relative_to(root))) for finding in verify_log_directory(root)]


def test_a_log_directory_in_order(root: Path) -> None:
    assert found_in(root) == []
    with pytest.raises(LogNotFoundError):
        list(verify_log_directory(root / "none"))


CHECKPOINTS = {
    "recovery-point-offset-checkpoint": ("0\n1\nemails 0 4\n", "warning", "checkpoint-beyond-end"),
    "replication-offset-checkpoint": ("0\n1\nemails 1 8\n", "warning", "checkpoint-beyond-end"),
    "cleaner-offset-checkpoint": ("0\n1\nemails 0 99\n", "warning", "checkpoint-beyond-end"),
    "log-start-offset-checkpoint": ("0\n1\nemails 0 4\n", "error", "checkpoint-beyond-end"),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_offsets_behind_the_end(root: Path, name: str) -> None:
    content, severity, code = CHECKPOINTS[name]
    (root / name).write_text(content)
    assert found_in(root) == [(severity, code, name)]


class RefusingDisk(Disk):
    """Something may not be looked at."""

    def __init__(self, refused: Path) -> None:
        self.refused = str(refused)

    def look(self, path: str) -> Iterator[Seen]:
        self._check(path)
        return super().look(path)

    def open_plain(self, path: str) -> int:
        self._check(path)
        return super().open_plain(path)

    def _check(self, path: str) -> None:
        if path == self.refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


@pytest.mark.parametrize("name", ["emails-1", "emails-1/00000000000000000000.log"])
def test_of_what_cannot_be_read_nothing_is_said_to_be_gone(root: Path, name: str) -> None:
    (root / "emails-1" / "00000000000000000007.snapshot").write_bytes(format_snapshot([]))
    write_epochs(root / "emails-1", (0, 0), (1, 7))
    (root / "emails-1" / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(7, 0, 0, 0)))
    found = [(one.code, one.path) for one in verify_log_directory(root, disk=RefusingDisk(root / name)) if one.severity != "note"]
    assert found == [("file-unreadable", str(root / name))]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_that_do_not_parse(root: Path, name: str) -> None:
    (root / name).write_text("0\n5\nemails 0 1\n")
    assert found_in(root) == [("warning", "checkpoint-unreadable", name)]
    (root / name).write_text("0\n1\nletters 0 1\n")
    assert found_in(root) == [("note", "checkpoint-partition", name)]


def test_a_log_that_starts_below_its_first_segment(root: Path) -> None:
    shutil.rmtree(root / "emails-1")
    write_segment(root / "emails-1", 5, [a_batch(base_offset=5, partition_leader_epoch=0)])
    write_epochs(root / "emails-1", (0, 5))
    (root / "replication-offset-checkpoint").unlink()
    (root / "recovery-point-offset-checkpoint").unlink()
    assert found_in(root) == [("note", "checkpoint-below-start", "log-start-offset-checkpoint")]


@pytest.mark.parametrize(
    "content", ["version=7\n", "version=1\nnode.id=1\n", "version=1\ncluster.id=x\nnode.id=one\n", "version=0\ndirectory.id=short\n"]
)
def test_meta_properties(root: Path, content: str) -> None:
    (root / "meta.properties").write_text(content)
    assert found_in(root) == [("error", "meta-properties", "meta.properties")]
    (root / "meta.properties").write_text("broker.id=3\n")
    assert found_in(root) == []


def test_other_names(root: Path) -> None:
    (root / "lost+found").mkdir()
    (root / "remote-log-index-cache").mkdir()
    (root / "__cluster_metadata-0").mkdir()
    (root / f"emails-2.{'0a' * 16}-delete").mkdir()
    (root / "emails-01").mkdir()
    (root / "notes.txt").write_bytes(b"")
    (root / ".kafka_cleanshutdown").write_bytes(b"")
    assert sorted(found_in(root)) == [
        ("error", "unknown-directory", "lost+found"),
        ("note", "foreign-file", "notes.txt"),
        ("note", "set-aside", f"emails-2.{'0a' * 16}-delete"),
        ("warning", "partition-name", "emails-01"),
    ]
    (root / ".kafka_cleanshutdown").write_bytes(b"garbage")
    assert ("warning", "clean-shutdown", ".kafka_cleanshutdown") in found_in(root)


def test_partitions_are_verified_too(root: Path) -> None:
    log = root / "emails-1" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    (finding,) = verify_log_directory(root)
    assert (finding.code, finding.offset) == ("batch-crc", 6)


class VanishingDisk(Disk):
    """Segments are deleted between the listing and the reading; `keeps` come back at once, as after a compaction."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.gone: set[str] = set()

    def open_plain(self, path: str) -> int:
        if path.endswith("00.log") and path not in self.gone:
            self.gone.add(path)
            if not self.keeps:
                os.unlink(path)  # noqa: PTH108
            raise FileNotFoundError(path)
        return super().open_plain(path)


class CompactingDisk(Disk):
    """The first two segments become one between the listing and the reading."""

    def open_plain(self, path: str) -> int:
        first, second = (Path(path).with_name(f"{base:020d}.log") for base in (0, 3))
        if path == str(first) and second.exists():
            times = second.stat().st_atime_ns, second.stat().st_mtime_ns
            first.write_bytes(first.read_bytes() + second.read_bytes())
            os.utime(first, ns=times)
            second.unlink()
        return super().open_plain(path)


@pytest.mark.parametrize("damaged", [False, True])
def test_segments_that_become_one_meanwhile(tmp_path: Path, damaged: bool) -> None:
    directory = tmp_path / "emails-0"
    a_partition(directory)
    write_segment(directory, 3, [a_batch(base_offset=offset, partition_leader_epoch=0) for offset in (3, 4)])
    write_segment(directory, 5, [a_batch(base_offset=5, partition_leader_epoch=0)])
    if damaged:
        path = directory / f"{3:020d}.log"
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    expected = [("batch-crc", 4)] if damaged else []
    assert [(finding.code, finding.offset) for finding in verify(directory, disk=CompactingDisk())] == expected


class HidingDisk(Disk):
    """A name that was not there yet, or just not any more, when the directory was listed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def look(self, path: str) -> Iterator[Seen]:
        return (seen for seen in super().look(path) if seen.name != self.name)


@pytest.mark.parametrize("name", [f"{0:020d}.index", f"{0:020d}.timeindex", f"{0:020d}.log", f"{3:020d}.log", "leader-epoch-checkpoint"])
def test_names_that_come_meanwhile(tmp_path: Path, name: str) -> None:
    """Whoever swaps a segment in, or rolls one, gives its files their names one by one; a file that is replaced may not be listed."""
    directory = tmp_path / "emails-0"
    a_partition(directory)
    write_segment(directory, 3, [a_batch(base_offset=3, partition_leader_epoch=0)])
    for base in (0, 3):
        for kind in (".index", ".timeindex"):
            assert (directory / f"{base:020d}{kind}").exists()
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(4, 3, 10, 0)))
    assert [finding for finding in verify(directory, disk=HidingDisk(name)) if finding.severity != "note"] == []


def test_checkpoints_that_are_written_meanwhile(root: Path) -> None:
    """An owner goes on: what he has written down since is about a longer log."""

    def write(_: int) -> None:
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (root / name).write_text("0\n2\nemails 0 5\nemails 1 9\n")

    assert list(verify_log_directory(root, progress=write)) == []
    assert len(list(verify_log_directory(root))) > 2  # it is that now


@pytest.mark.parametrize("keeps", [False, True])
def test_segments_that_vanish_meanwhile(tmp_path: Path, keeps: bool) -> None:
    a_partition(tmp_path)
    write_segment(tmp_path, 3, [a_batch(base_offset=3, partition_leader_epoch=0)])
    log = tmp_path / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    found = [finding.code for finding in verify(tmp_path, disk=VanishingDisk(keeps)) if finding.severity != "note"]
    assert found == (["batch-crc"] if keeps else [])


def test_a_log_that_is_being_written(tmp_path: Path) -> None:
    directory = tmp_path / "emails-0"
    config = {"internal.segment.bytes": "4000", "index.interval.bytes": "100", "flush.messages": str(2**63 - 1)}
    with Log.open(directory, config=config) as log:
        for number in range(300):
            log.append(a_batch(3))
            if number % 50 == 0:
                assert codes(directory) == []
        log.append_run(a_batch(2) * 5)
        assert_verified(directory)
    assert_verified(directory)


class GrowingDisk(Disk):
    """A log that is appended to while it is read: first half a batch is there, later all of it, and more."""

    def __init__(self, path: Path, more: bytes) -> None:
        self.path = path
        self.more = more
        self.reads = 0

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        done = super().read_into(fd, buffer, position)
        self.reads += 1
        if self.reads == 1:
            with self.path.open("ab") as file:
                file.write(self.more)
        return done


def test_a_batch_that_is_being_written(tmp_path: Path) -> None:
    a_partition(tmp_path)
    path = tmp_path / "00000000000000000000.log"
    batch = a_batch(2, base_offset=3, partition_leader_epoch=0)
    with path.open("ab") as file:
        file.write(batch[:40])
    assert codes(tmp_path) == ["torn-tail"]
    assert list(verify(tmp_path, disk=GrowingDisk(path, batch[40:50]))) == []  # it is still being written
    os.truncate(path, path.stat().st_size - 10)
    disk = GrowingDisk(path, batch[40:] + a_batch(base_offset=5, partition_leader_epoch=0)[:30])
    found: list[Finding] = list(verify(tmp_path, disk=disk))
    assert [finding for finding in found if finding.code != "time-index-short"] == []


def test_the_hook_of_the_tests(tmp_path: Path) -> None:
    assert_verified(tmp_path / "none")
    assert_verified(a_partition(tmp_path))
    (tmp_path / "leader-epoch-checkpoint").unlink()
    with pytest.raises(AssertionError, match="epochs-missing"):
        assert_verified(tmp_path)
    assert_verified(tmp_path, allow={"epochs-missing"})
    assert notes(tmp_path) == []
