"""`jobs.copy(into_broker=True)` and kills, without a broker: its directory is one that a broker has left. `interop` starts one."""

import errno
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.spark.jobs.moving import copy_here, findings, kill_at, rows_of
from tests.support.golden import GOLDEN
from tests.support.job_topics import files_of, make_topic
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import OS, Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TopicPartition,
)
from tidelog.disk.partition_metadata import read_metadata
from tidelog.errors import InconsistentTopicIdError, LockedError, NotAStoreError, StorageError, UnknownTopicError
from tidelog.spark.jobs.into_broker_job import COPIED_IN
from tidelog.store.cluster_metadata import read_cluster_metadata

PARTITIONS = [TopicPartition("emails", number) for number in range(3)]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """See `make_broker`."""
    return make_broker(tmp_path / "broker")


def make_broker(data: Path) -> Path:
    """The directory of a stopped broker: of a topic with three partitions one is empty, and two were never made."""
    shutil.copytree(GOLDEN / "broker" / "data", data)
    for partition in PARTITIONS[1:]:
        shutil.rmtree(data / str(partition))
    for path in (data / "emails-0").iterdir():
        if path.suffix == ".log":
            path.write_bytes(b"")
        elif path.suffix == ".snapshot":
            path.unlink()
    for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT):
        lines = [line for line in (data / name).read_text().splitlines()[2:] if not line.startswith("emails ")]
        (data / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    return data


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_topic(tmp_path / "store", "emails", partitions=3, batches=60)
    return tmp_path / "store"


def is_copied(broker: Path, store: Path) -> None:
    """Everything is as the broker will want it."""
    topic_id = read_cluster_metadata(OS, [str(broker)])["emails"].topic_id
    assert {partition: rows for partition, rows in rows_of(broker).items() if partition in PARTITIONS} == rows_of(store)
    with tidelog.open(store, mode="r") as source:
        ends = {partition: source.log(*partition).log_end_offset for partition in PARTITIONS}
    for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT):
        offsets = read_offsets(OS, str(broker / name))
        assert {partition: offsets[partition] for partition in PARTITIONS} == ends
    for partition in PARTITIONS:
        assert read_metadata(OS, str(broker / str(partition))) == topic_id
        assert (broker / str(partition) / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
        assert not (broker / str(partition) / COPIED_IN).exists()
    assert findings(broker) == []


def test_the_directory_is_as_the_broker_will_want_it(broker: Path, store: Path) -> None:
    others = {name: data for name, data in files_of(broker).items() if "/" in name and not name.startswith("emails")}
    starts = (broker / LOG_START_OFFSET_CHECKPOINT).read_bytes()
    before = read_offsets(OS, str(broker / REPLICATION_CHECKPOINT))
    result = copy_here(store, broker, ["emails"], into_broker=True)
    assert len(result.partitions) == 3
    is_copied(broker, store)
    assert {name: data for name, data in files_of(broker).items() if name in others} == others
    assert before.items() <= read_offsets(OS, str(broker / REPLICATION_CHECKPOINT)).items()
    assert (broker / LOG_START_OFFSET_CHECKPOINT).read_bytes() == starts
    assert (broker / CLEAN_SHUTDOWN).exists()
    assert not (broker / "tidelog.json").exists()
    with pytest.raises(NotAStoreError, match="the broker has data"):
        copy_here(store, broker, ["emails"], into_broker=True)
    is_copied(broker, store)


def test_what_cannot_be_is_refused(broker: Path, store: Path, tmp_path: Path) -> None:
    make_topic(store, "strange", batches=2)
    make_topic(tmp_path / "more", "emails", partitions=4, batches=2)
    before = files_of(broker)
    with pytest.raises(UnknownTopicError, match="strange"):
        copy_here(store, broker, into_broker=True)
    with pytest.raises(UnknownTopicError, match="emails-3"):
        copy_here(tmp_path / "more", broker, into_broker=True)
    held = LogDirectory.hold(str(broker))
    with pytest.raises(LockedError):
        copy_here(store, broker, ["emails"], into_broker=True)
    held.let_go()
    (broker / "emails-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(InconsistentTopicIdError):
        copy_here(store, broker, ["emails"], into_broker=True)
    after = files_of(broker)
    assert {name for name in before if after.get(name) != before[name]} == {"emails-0/partition.metadata"}
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    ("ending", "count", "how"),
    [
        ("-built", 1, "local"),
        ("-built", 2, "local"),
        ("-delete", 1, "local"),
        ("-delete", 3, "local"),
        (f"{RECOVERY_POINT_CHECKPOINT}.tmp", 1, "local"),
        (f"{CLEAN_SHUTDOWN}.tmp", 1, "local"),
        pytest.param(".log", 2, "spark", marks=pytest.mark.slow),
        pytest.param("-built", 2, "spark", marks=pytest.mark.slow),
    ],
)
def test_a_copy_into_a_broker_that_was_killed_can_be_done_again(
    ending: str, count: int, how: str, broker: Path, store: Path, tmp_path: Path
) -> None:
    kill_at("into_broker", store, broker, ending=ending, count=count, how=how)
    if ending.startswith(CLEAN_SHUTDOWN):  # all was done, but for saying so
        with pytest.raises(NotAStoreError, match="the broker has data"):
            copy_here(store, broker, ["emails"], into_broker=True)
    else:
        copy_here(store, broker, ["emails"], into_broker=True)
    is_copied(broker, store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker", "store"]


def test_what_a_broker_has_appended_to_a_copy_that_was_cut_off_is_not_lost(broker: Path, store: Path) -> None:
    kill_at("into_broker", store, broker, ending="-built", count=2)
    segment = sorted((broker / "emails-0").glob("*.log"))[-1]
    segment.write_bytes(segment.read_bytes() + b"appended")
    with pytest.raises(NotAStoreError, match="the broker has data"):
        copy_here(store, broker, ["emails"], into_broker=True)


class OtherFileSystem:
    """The broker's directory is a mount point: nothing is renamed into it, and only so many renames within it succeed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broker: Path, most: int = 1 << 30) -> None:
        self.inside, self.most = f"{broker}/", most
        self.rename = OS.rename
        monkeypatch.setattr(Disk, "rename", lambda _, source, target: self(source, target))

    def __call__(self, source: str, target: str) -> None:
        if source.startswith(self.inside) != target.startswith(self.inside):
            raise OSError(errno.EXDEV, "Invalid cross-device link", source, None, target)
        if "/emails-" in target and source.startswith(self.inside) and source.endswith("-delete"):
            self.most -= 1
            if self.most == -1:
                raise OSError(errno.EIO, "Input/output error", source)
        self.rename(source, target)


def test_a_data_directory_may_be_a_mount_point(broker: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OtherFileSystem(monkeypatch, broker)
    copy_here(store, broker, ["emails"], into_broker=True)
    monkeypatch.undo()
    is_copied(broker, store)
    assert not list(broker.glob("emails-*-delete"))


@pytest.mark.parametrize("most", [0, 1, 2])
def test_what_cannot_be_put_in_place_is_undone(most: int, broker: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(broker)
    OtherFileSystem(monkeypatch, broker, most)
    with pytest.raises(StorageError, match="running it again is safe"):
        copy_here(store, broker, ["emails"], into_broker=True)
    monkeypatch.undo()
    assert files_of(broker) == before
    copy_here(store, broker, ["emails"], into_broker=True)
    is_copied(broker, store)


def test_what_brokers_have_set_aside_themselves_is_left(broker: Path, store: Path) -> None:
    theirs = broker / f"emails-0.{'ab' * 16}-delete"
    theirs.mkdir()
    copy_here(store, broker, ["emails"], into_broker=True)
    assert theirs.exists()


def test_partitions_of_other_brokers_are_refused(broker: Path, store: Path) -> None:
    properties = broker / "meta.properties"
    text = properties.read_text()
    properties.write_text(text.replace("node.id=1", "node.id=2"))
    before = files_of(broker)
    with pytest.raises(UnknownTopicError, match="emails-0 is not assigned to this broker: expected a directory of broker 1, found that of"):
        copy_here(store, broker, ["emails"], into_broker=True)
    properties.write_text(text.replace("node.id=1", ""))
    with pytest.raises(NotAStoreError, match=r"expected node\.id"):
        copy_here(store, broker, ["emails"], into_broker=True)
    assert {name for name, content in files_of(broker).items() if before[name] != content} == {"meta.properties"}


@pytest.mark.parametrize(
    ("ending", "count", "how"),
    [
        (".log", 2, "local"),
        ("/store", 1, "local"),
        pytest.param(".log", 2, "spark", marks=pytest.mark.slow),
        pytest.param("/store", 1, "spark", marks=pytest.mark.slow),
    ],
)
def test_a_killed_copy_leaves_no_target_and_can_be_done_again(ending: str, count: int, how: str, store: Path, tmp_path: Path) -> None:
    kill_at("copy", store, tmp_path / "copy", ending=ending, count=count, how=how)
    assert not (tmp_path / "copy").exists()
    assert list(tmp_path.glob(".copy.tidelog-staging-*"))
    copy_here(store, tmp_path / "copy")
    assert rows_of(tmp_path / "copy") == rows_of(store)
    assert findings(tmp_path / "copy") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]
