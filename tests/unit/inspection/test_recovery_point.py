"""A log that ends below its recovery point: what verify says of it, repair, and who opens it."""

import os
from pathlib import Path

import pytest

from tests.support.logs import TIME, a_batch
from tests.support.small_stores import open_store
from tests.support.verified import write_epochs, write_segment
from tidelog.disk.disk import Disk
from tidelog.inspection import Finding, apply_repair, plan_repair, verify, verify_log_directory
from tidelog.log.log import Log

CODE = "ends-below-recovery-point"
LOG = f"{0:020}.log"

pytestmark = pytest.mark.leaves


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ten batches of one record, all of them flushed and closed in order."""
    with open_store(tmp_path / "s") as made:
        topic = made.create_topic("t", 1)
        for number in range(10):
            topic.append(b"%d" % number, key=b"k")
    return tmp_path / "s"


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Ten batches in a broker's directory; its recovery point lies behind the last one."""
    root = tmp_path / "b"
    write_segment(root / "t-0", 0, [a_batch(base_offset=offset, partition_leader_epoch=0) for offset in range(10)])
    write_epochs(root / "t-0", (0, 0))
    (root / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=here\n")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    return root


def cut(root: Path, size_bytes: int) -> Path:
    path = root / "t-0" / LOG
    os.truncate(path, path.stat().st_size - size_bytes)
    for side in (root / "t-0").glob("*index"):
        side.unlink()
    return path


def lost_in(root: Path, **options: object) -> list[Finding]:
    """Told by the partition's directory and by that above it alike."""
    found = [finding for finding in verify(root / "t-0", now_ms=TIME, **options) if finding.code == CODE]  # type: ignore[arg-type]
    assert found == [finding for finding in verify_log_directory(root, now_ms=TIME) if finding.code == CODE]
    return found


def batch_bytes(root: Path) -> int:
    return (root / "t-0" / LOG).stat().st_size // 10


@pytest.mark.parametrize("level", ["headers", "everything", "records"])
@pytest.mark.parametrize("which", ["store", "broker"])
def test_a_torn_batch_that_was_flushed(which: str, level: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(which)
    assert lost_in(root) == []
    size = batch_bytes(root)
    path = cut(root, 3 * size + 5)
    (found,) = lost_in(root, level=level)
    assert (found.severity, found.path, found.position, found.offset, found.found) == ("error", str(path), 6 * size, 6, 6)
    assert "10" in str(found.expected)
    assert "backup" in found.mend


@pytest.mark.parametrize("tail", [b"\0" * 300, b"\0" * 7, b"ab"])
@pytest.mark.parametrize("which", ["store", "broker"])
def test_another_tail_than_a_batch(which: str, tail: bytes, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(which)
    path = cut(root, batch_bytes(root))
    path.write_bytes(path.read_bytes() + tail)
    assert [found.severity for found in lost_in(root)] == ["error"]


def test_a_whole_end(store: Path, broker: Path) -> None:
    """A store never cuts before it has written that down; a broker that follows does."""
    for root in (store, broker):
        cut(root, 2 * batch_bytes(root))
    assert [(found.severity, found.offset) for found in lost_in(store)] == [("error", 8)]
    assert lost_in(broker) == []
    (found,) = [one for one in verify_log_directory(broker, now_ms=TIME) if "recovery-point" in one.path]
    assert (found.severity, found.code) == ("warning", "checkpoint-beyond-end")


def test_no_segment_is_left(store: Path) -> None:
    for path in (store / "t-0").iterdir():
        path.unlink()
    (found,) = lost_in(store)
    assert (found.severity, found.path, found.offset) == ("error", str(store / "t-0"), 0)


def test_what_was_never_flushed_is_no_loss(store: Path, broker: Path) -> None:
    """A torn batch behind the recovery point is what a crash leaves, also where a follower had cut inside of a batch before."""
    for root in (store, broker):
        path, size = root / "t-0" / LOG, batch_bytes(root)
        whole = path.read_bytes()
        path.write_bytes(whole + a_batch(base_offset=10)[:40])
        assert lost_in(root) == []
        path.write_bytes(whole[: 8 * size] + a_batch(base_offset=10)[:40])
        assert lost_in(root) == []


def test_records_that_were_deleted(store: Path) -> None:
    """Where the log starts behind its end, all of it was deleted."""
    cut(store, batch_bytes(store))
    (store / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    assert lost_in(store) == []


def test_a_log_that_is_cut_by_its_owner(store: Path) -> None:
    with open_store(store) as opened:
        opened.topic("t").log(0).truncate_to(5)
        assert lost_in(store) == []
    assert lost_in(store) == []


class CuttingDisk(Disk):
    """The owner cuts the log when it is walked, behind the look at the checkpoints."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def open_plain(self, path: str) -> int:
        if path.endswith(LOG) and self.log.log_end_offset > 5:
            self.log.truncate_to(5)
        return super().open_plain(path)


def test_a_log_that_is_cut_meanwhile(store: Path) -> None:
    with open_store(store) as opened:
        assert [one for one in verify(store / "t-0", now_ms=TIME, disk=CuttingDisk(opened.topic("t").log(0))) if one.code == CODE] == []
        assert opened.topic("t").log(0).log_end_offset == 5


class RefusingDisk(Disk):
    def open_plain(self, path: str) -> int:
        if path.endswith(LOG):
            raise PermissionError(13, "Permission denied", path)
        return super().open_plain(path)


def test_what_cannot_be_read_is_not_lost(store: Path) -> None:
    found = [one.code for one in verify(store / "t-0", now_ms=TIME, disk=RefusingDisk()) if one.severity == "error"]
    assert found == ["file-unreadable"]


# Repair, and who opens it


def test_repair_says_that_it_brings_nothing_back(store: Path) -> None:
    """A torn end is cut, and the recovery point goes with it: then the log is in order, as when it had been opened."""
    size = batch_bytes(store)
    path = cut(store, size + 5)
    plan = plan_repair(store / "t-0")
    (left,) = plan.unrepaired
    assert (left.path, left.position) == (str(path), 8 * size)
    assert "offset 8, below its recovery point 10" in left.what
    assert "backup" in left.hint
    apply_repair(plan)
    assert plan_repair(store / "t-0").unrepaired == ()
    assert plan_repair(store / "t-0").is_empty
    assert [found for found in verify_log_directory(store, now_ms=TIME) if found.severity == "error"] == []


def test_repair_has_nothing_to_do_about_a_whole_end(store: Path) -> None:
    path = store / "t-0" / LOG
    size = batch_bytes(store)
    apply_repair(plan_repair(store / "t-0"))
    os.truncate(path, 8 * size)
    with open_store(store):
        pass  # an owner takes it as it is
    assert lost_in(store) == []
    assert plan_repair(store / "t-0").unrepaired == ()


def test_a_cut_that_is_asked_for_is_no_loss(store: Path) -> None:
    plan = plan_repair(store / "t-0", cut_at=(0, 5 * batch_bytes(store)))
    assert plan.unrepaired == ()
    assert apply_repair(plan).unrepaired == ()
    assert lost_in(store) == []


def test_a_broker_that_was_stopped_while_it_cut(broker: Path) -> None:
    cut(broker, 2 * batch_bytes(broker))
    assert plan_repair(broker / "t-0").unrepaired == ()


def test_no_segment_and_repair(store: Path) -> None:
    for path in (store / "t-0").iterdir():
        path.unlink()
    assert ["below its recovery point" in left.what for left in plan_repair(store / "t-0").unrepaired] == [True]
