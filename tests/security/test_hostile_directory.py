"""A directory that somebody made to do harm, opened to be written: nothing outside is touched, nobody waits, memory has bounds.

What only reads is tried in tests/unit/log/test_hostile_directory.py and tests/unit/inspection/test_hostile.py. docs/security.md says which
claim is proven where.
"""

import json
import os
import shutil
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.logs import numbered
from tests.support.small_stores import open_store, state_of
from tidelog.disk.disk import MAX_SMALL_FILE_BYTES, OS
from tidelog.errors import CorruptFileError, StorageError, TidelogError
from tidelog.store import open as open_to_read
from tidelog.store.cluster_metadata import read_cluster_metadata
from tidelog.store.topic_deletion import remove_due

pytestmark = pytest.mark.leaves

SUFFIX = "0" * 32
ROOT_FILES = (".lock", "tidelog.json", "tidelog.json.tmp", "recovery-point-offset-checkpoint", "recovery-point-offset-checkpoint.tmp")
MORE_ROOT_FILES = ("log-start-offset-checkpoint", "replication-offset-checkpoint.tmp", "cleaner-offset-checkpoint", ".kafka_cleanshutdown")
SEGMENT = "a-0/00000000000000000000"
LOG_FILES = (f"{SEGMENT}.log", f"{SEGMENT}.index", f"{SEGMENT}.timeindex", f"{SEGMENT}.txnindex", f"{SEGMENT}.log.swap")
SIDE_FILES = ("leader-epoch-checkpoint", "leader-epoch-checkpoint.tmp", "partition.metadata", "flushed-end.tidelog")
SNAPSHOT = "a-0/00000000000000000001.snapshot"
NAMES = (*ROOT_FILES, *MORE_ROOT_FILES, *LOG_FILES, *(f"a-0/{name}" for name in SIDE_FILES), SNAPSHOT)
PATIENCE_S = 5


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template") / "data"
    with open_store(home) as store:
        store.create_topic("a").append(b"value", key=b"key")
    return home


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """A store that was closed in order, with one record in it."""
    shutil.copytree(template, tmp_path / "data")
    return tmp_path / "data"


def use(data: Path) -> TidelogError | None:
    """Open a store, write to it, close it: what was refused, if anything was."""
    try:
        with open_store(data) as store:
            store.topic("a").append(b"more")
            store.flush()
            store.delete_topic("a")
            remove_due(state_of(store))
    except TidelogError as error:
        return error
    return None


@contextmanager
def limited(max_bytes: int) -> Iterator[None]:
    """What is done in here takes no more memory."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= max_bytes, peak


@contextmanager
def not_waiting_for(pipe: Path) -> Iterator[None]:
    """Fail, rather than hang, if somebody waits for the other end of a pipe."""

    def come() -> None:
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    timer, started = threading.Timer(PATIENCE_S, come), time.monotonic()
    timer.start()
    try:
        yield
        assert time.monotonic() - started < PATIENCE_S, f"somebody waited for {pipe}"
    finally:
        timer.cancel()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_through_a_link(name: str, data: Path, tmp_path: Path) -> None:
    """Temporary files, too: their names are known beforehand, and somebody else's file could be emptied by them."""
    outside = tmp_path / "outside"
    shutil.copyfile(data / f"{SEGMENT}.log", outside)  # as a segment's file it would do
    before = outside.read_bytes(), outside.stat().st_mtime_ns
    (data / name).unlink(missing_ok=True)
    (data / name).symlink_to(outside)
    use(data)
    assert (outside.read_bytes(), outside.stat().st_mtime_ns) == before


def test_a_refused_link_is_named(data: Path, tmp_path: Path) -> None:
    (data / ".lock").unlink()
    (data / ".lock").symlink_to(tmp_path / "none")
    with pytest.raises(StorageError, match=r"\.lock is a link, through which nothing is written"):
        open_store(data)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", NAMES)
def test_nobody_waits_for_a_pipe(name: str, data: Path) -> None:
    path = data / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with not_waiting_for(path):
        use(data)


@pytest.mark.parametrize("name", ["tidelog.json", ".lock", "__cluster_metadata-0/00000000000000000000.log", "meta.properties"])
def test_a_reader_waits_for_no_pipe_either(name: str, data: Path) -> None:
    path = data / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with not_waiting_for(path), open_to_read(data, "r") as store:
        assert [record.value for record in store.topic("a").read()] == [b"value"]
        store.topic("a").describe()


def test_links_that_lead_nowhere_hide_nothing(data: Path) -> None:
    (data / "loop-0").symlink_to("loop-0")
    (data / "gone-0").symlink_to("nowhere")
    with open_to_read(data, "r") as store:
        assert [topic.name for topic in store.topics()] == ["a"]
    assert use(data) is None


def test_a_deleted_topic_that_is_a_link(data: Path, tmp_path: Path) -> None:
    """The store's own file says what is to be removed. What is removed is a name in the directory, never what it leads to."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    content = json.loads((data / "tidelog.json").read_bytes())
    content["deleted"] = [{"topic": "x", "partitions": 1, "suffix": SUFFIX, "due_ms": 0, "is_renamed": True}]
    (data / "tidelog.json").write_text(json.dumps(content))
    (data / f"x-0.{SUFFIX}-delete").symlink_to(tmp_path / "mine")
    with open_store(data) as store:
        assert remove_due(state_of(store)) == 1
    assert (tmp_path / "mine" / "letter").read_text() == "dear"
    assert not (data / f"x-0.{SUFFIX}-delete").is_symlink()


def test_a_staging_directory_that_is_a_link(data: Path, tmp_path: Path) -> None:
    """What jobs leave beside a data directory is swept when it is opened. Here it came with the directory, from somebody else."""
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    (tmp_path / "mine" / "inner" / "letter").write_text("dear")
    link = tmp_path / ".data.tidelog-staging-0123456789ab.gone"
    link.symlink_to(tmp_path / "mine")
    real = tmp_path / ".data.tidelog-staging-ba9876543210.gone"
    real.mkdir()
    assert use(data) is None
    assert (tmp_path / "mine" / "inner" / "letter").read_text() == "dear"
    assert not real.exists()  # what is staging goes


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", ".", "", "a\x00b", "x" * 250])
def test_a_topic_that_would_lie_elsewhere(name: str, data: Path, tmp_path: Path) -> None:
    content = json.loads((data / "tidelog.json").read_bytes())
    content["topics"][name] = content["topics"]["a"] | {"is_incomplete": True}
    (data / "tidelog.json").write_text(json.dumps(content))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptFileError, match="a topic's name"):
        open_store(data)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["tidelog.json", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown", SNAPSHOT, *LOG_FILES[3:4]])
def test_small_files_of_an_absurd_size(name: str, data: Path) -> None:
    """A hole of a terabyte, which takes no space on disk and must take none in memory."""
    (data / name).touch()
    os.truncate(data / name, 1 << 40)
    with limited(64 << 20):
        use(data)


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_small_files_of_a_partition_of_an_absurd_size(name: str, data: Path) -> None:
    os.truncate(data / "a-0" / name, MAX_SMALL_FILE_BYTES + 1)
    with limited(64 << 20):
        error = use(data)
    assert isinstance(error, StorageError)
    assert f"{name} has {MAX_SMALL_FILE_BYTES + 1} bytes" in str(error)


def test_a_brokers_log_that_promises_a_batch_of_two_gigabytes(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    batch = bytearray(numbered(0))
    batch[8:12] = struct.pack(">i", 0x7FFFFFF0)
    (directory / "00000000000000000000.log").write_bytes(batch)
    os.truncate(directory / "00000000000000000000.log", 5 << 30)
    with limited(256 << 20), pytest.raises(CorruptFileError, match="a batch larger than the brokers' log has"):
        read_cluster_metadata(OS, [str(tmp_path)])


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")


@needs_root
@pytest.mark.parametrize("kind", ["link", "second name"])
@pytest.mark.parametrize("name", [".lock", "recovery-point-offset-checkpoint.tmp"])
def test_the_superuser_gives_no_file_away_that_lies_elsewhere(name: str, kind: str, data: Path, tmp_path: Path) -> None:
    """What the superuser makes in somebody's directory belongs to them. What they have linked there beforehand does not."""
    secret = tmp_path / "secret"
    secret.write_text("root's own")
    nobody = 65534
    for path in (data, *data.rglob("*")):
        os.chown(path, nobody, nobody)
    (data / name).unlink(missing_ok=True)
    if kind == "link":
        (data / name).symlink_to(secret)
    else:
        (data / name).hardlink_to(secret)
    use(data)
    assert secret.stat().st_uid == 0


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".tmp")] + [SNAPSHOT])
def test_what_is_written_anew_leaves_a_second_name_alone(name: str, data: Path, tmp_path: Path) -> None:
    """A hard link, whoever made it: a backup, or somebody who has no right to write to the file himself."""
    outside = tmp_path / "outside"
    outside.write_text("somebody else's")
    (data / name).unlink(missing_ok=True)
    (data / name).hardlink_to(outside)
    assert use(data) is None
    assert outside.read_text() == "somebody else's"
