"""What the operating system refuses: typed errors that say what and where, nothing acknowledged lost, and what goes on afterwards."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import a_batch, numbered
from tests.support.small_stores import failed, file_of, open_store, tree_of, values_of
from tidelog.config import LONG_MAX
from tidelog.errors import DiskFullError, StorageError
from tidelog.log.log import Log

AS_NOBODY = """
import os, sys, tempfile
import tidelog
with tempfile.TemporaryDirectory() as other:
    with tidelog.open(other) as store:  # everything is imported, while that is allowed
        store.create_topic("a")
os.setuid(65534)
try:
    tidelog.open(sys.argv[1])
except tidelog.TidelogError as error:
    print(type(error).__name__, error.errno, error)
"""


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
def test_a_directory_that_cannot_be_written(is_there: bool, tmp_path: Path) -> None:
    home = tmp_path / "home" / "store"
    home.parent.mkdir()
    if is_there:
        with tidelog.open(home) as store:
            store.create_topic("a")
    before = tree_of(tmp_path)
    if os.getuid() == 0:
        for path in (tmp_path, *tmp_path.parents[:2]):
            path.chmod(0o755)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(home)], capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.startswith(f"StorageError {errno.EACCES} {home}"), done
    else:
        (home if is_there else home.parent).chmod(0o555)
        try:
            with pytest.raises(StorageError, match="denied"):
                tidelog.open(home)
        finally:
            (home if is_there else home.parent).chmod(0o755)
    assert tree_of(tmp_path) == before


def test_a_directory_that_cannot_be_listed_when_a_topic_is_made(tmp_path: Path) -> None:
    """As where there are too many open files. It may be made behind a commit, whose errors are to be ours too."""
    disk = FaultyDisk()
    with open_store(tmp_path / "data", disk=disk) as store:
        disk.fail(1, kind="list", error=errno.EMFILE)
        with pytest.raises(StorageError, match="Too many open files") as raised:
            store.create_topic("a")
        assert raised.value.errno == errno.EMFILE
        store.create_topic("a")


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.fail(1, kind="list", error=errno.EACCES)
    with pytest.raises(StorageError, match="reading the directory failed") as raised:
        open_store(tmp_path, disk=disk)
    assert raised.value.errno == errno.EACCES
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A real file system of two megabytes."""
    mount = tmp_path / "mount"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to mount a file system here ({done.stderr.decode().strip()})")
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


def test_a_read_only_file_system(mounted: Path) -> None:
    home = mounted / "store"
    with tidelog.open(home, config={"log.index.size.max.bytes": 4096}) as store:
        store.create_topic("a").log(0).append(a_batch())
    before = tree_of(mounted)
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    for path in (home, mounted / "new"):
        with pytest.raises(StorageError, match="Read-only file system") as raised:
            tidelog.open(path)
        assert raised.value.errno == errno.EROFS
    assert tree_of(mounted) == before
    subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
    with tidelog.open(home) as store:
        assert store.log("a", 0).load_report.was_clean
        assert store.log("a", 0).log_end_offset == 1


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def append_until_full(log: Log, first: int) -> int:
    """How many records there are then."""
    number = first
    with suppress(DiskFullError):
        while number < 100_000:
            log.append(numbered(number))
            number += 1
    assert number < 100_000
    return number


def test_a_full_file_system(mounted: Path) -> None:
    """Appends, topics and settings fail with a word for it; nothing is lost; all of it goes on when there is room."""
    home, ballast = mounted / "store", mounted / "ballast"
    with tidelog.open(home, config={"log.index.size.max.bytes": 4096}) as store:
        topic = store.create_topic("a", 2)
        log = topic.log(0)
        done = [log.append(numbered(number)).last_offset for number in range(3)]
        fill_up(ballast)
        number = append_until_full(log, 3)
        for attempt in (
            lambda: store.create_topic("b"),
            lambda: topic.alter({"retention.bytes": 5}),
            lambda: store.delete_topic("a"),
        ):
            with pytest.raises(DiskFullError) as raised:
                attempt()
            assert raised.value.errno == errno.ENOSPC
        assert [found.name for found in store.topics()] == ["a"]
        assert len(values_of(topic.log(0))) == number
        ballast.unlink()
        topic.log(0).append(numbered(number))
        topic.alter({"retention.bytes": 5})
        store.create_topic("b").log(0).append(a_batch())
        assert failed(store) == set()
    assert done == [0, 1, 2]
    with tidelog.open(home, config={"log.index.size.max.bytes": 4096}) as store:
        assert values_of(store.log("a", 0)) == [str(count).encode().ljust(8, b".") for count in range(number + 1)]
        assert failed(store) == set()


def test_opening_on_a_full_disk(tmp_path: Path) -> None:
    """What cannot be opened is told when it is asked for, and tried again then."""
    home = tmp_path / "home"
    store = open_store(home)
    store.create_topic("a").log(0).append(a_batch())
    shutil.copytree(home, tmp_path / "crashed")
    store.close()
    disk = FaultyDisk()
    disk.limit(0)
    with open_store(tmp_path / "crashed", disk=disk) as store:
        if failed(store):
            with pytest.raises(DiskFullError):
                store.log("a", 0)
        disk.heal()
        assert store.log("a", 0).log_end_offset == 1
        store.log("a", 0).append(a_batch())
        assert failed(store) == set()


@pytest.mark.parametrize("nth", range(1, 9))
@pytest.mark.parametrize("kind", ["create", "rename", "sync", "sync_directory", "lock", "make_directory", "list", "open"])
def test_a_first_opening_that_fails_anywhere(kind: str, nth: int, tmp_path: Path) -> None:
    """A typed error, the lock is given back, and the next opening is a first one, or finds what was made."""
    disk = FaultyDisk()
    disk.fail(nth, kind=kind)
    error: StorageError | None = None
    try:
        open_store(tmp_path / "one", tmp_path / "two", disk=disk).close()
    except StorageError as raised:
        error = raised
    assert (error is not None) == bool(disk.fired)
    if error is not None:
        assert error.errno == errno.EIO
        assert error.path is not None
    disk.heal()
    with open_store(tmp_path / "one", tmp_path / "two", disk=disk) as store:
        store.create_topic("a", 2)
    assert file_of(tmp_path / "one") == file_of(tmp_path / "two")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_alteration_that_fails_is_not_there(moment: str, tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_store(tmp_path / "one", tmp_path / "two", disk=disk) as store:
        topic = store.create_topic("a")
        for on in ("one/tidelog.json", "two/tidelog.json"):
            disk.fail(1, kind="rename", on=on, moment=moment)  # type: ignore[arg-type]
            with pytest.raises(StorageError, match="writing the store's file failed"):
                topic.alter({"flush.messages": LONG_MAX})
            assert topic.log(0).config.is_durable
            assert file_of(tmp_path / "one") == file_of(tmp_path / "two")
            assert file_of(tmp_path / "one").topics["a"].config == {"retention.ms": "-1"}
        topic.alter({"flush.messages": LONG_MAX})
        assert not topic.log(0).config.is_durable
        assert file_of(tmp_path / "one") == file_of(tmp_path / "two")


def test_closing_that_fails_closes_all_the_same(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = open_store(tmp_path, disk=disk)
    for number in range(3):
        store.create_topic("a", 3, exist_ok=True).log(number).append(a_batch())
    disk.fail(1, kind="create", on="a-1/00000000000000000001.snapshot.tmp", error=errno.ENOSPC)
    disk.fail(1, kind="create", on="a-1/00000000000000000001.snapshot", error=errno.ENOSPC)
    disk.fail(1, kind="create", on=".kafka_cleanshutdown", error=errno.EIO)
    disk.fail(1, kind="create", on=".kafka_cleanshutdown.tmp", error=errno.EIO)
    with pytest.raises(StorageError):
        store.close()
    store.close()
    disk.heal()
    with open_store(tmp_path, disk=disk) as store:
        assert [store.log("a", number).log_end_offset for number in range(3)] == [1, 1, 1]
        assert failed(store) == set()


def test_errors_of_a_topic_name_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for use in (lambda: store.topic("x"), lambda: store.log("x", 0), lambda: store.delete_topic("x")):
            with pytest.raises(tidelog.TidelogError, match="no topic 'x'") as raised:
                use()
            assert raised.value.path == str(tmp_path)
