"""What salvage makes of directories: all golden ones, leftovers, transactions, overlapping segments, and targets it must not touch."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import QuietDisk, a_batch, check_log, follower_batches, number_of, numbered, open_log
from tests.unit.inspection.test_repair_plan import SMALL, a_log, flip, state
from tidelog.disk.file_pool import FilePool
from tidelog.disk.partition_metadata import TopicId, read_metadata, write_metadata
from tidelog.errors import LogNotFoundError, StorageError
from tidelog.inspection import salvage_copy, salvage_pieces
from tidelog.inspection.repair import plan_repair
from tidelog.inspection.salvage import salvage
from tidelog.inspection.salvage_report import SalvageReport
from tidelog.log.load_report import Progress
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.record import read_batches

pytestmark = pytest.mark.leaves  # the sources are damaged on purpose

INTACT = [
    "stopped-clean",
    "txn-clean",
    "crashed-0",
    "indexes-missing",
    "index-garbage",
    "timeindex-garbage",
    "txnindex-missing",
    "swap-a-cleaned",
]


def to_new(directory: Path, tmp_path: Path, **options: Any) -> tuple[SalvageReport, Path]:
    target = tmp_path / "new" / "tide-0"
    before = state(directory)
    settings: dict[str, Any] = {"disk": QuietDisk(), "index_interval_bytes": 100} | options
    report = salvage(directory, target, **settings)
    assert state(directory) == before
    return report, target


def numbers(target: Path, config: dict[str, Any] | None = None) -> list[int]:
    with open_log(target.parent, config or SMALL, disk=QuietDisk()) as log:
        assert not log.load_report.cuts
        check_log(log)
        return [number_of(record) for record in log.read()]


@pytest.mark.parametrize("folder", golden_cases("recovery"), ids=lambda folder: folder.name)
def test_every_golden_directory_becomes_one_that_needs_no_repair(folder: Path, tmp_path: Path) -> None:
    if "all-logs" in folder.name:
        with pytest.raises(LogNotFoundError):
            salvage(folder / "before", tmp_path / "tide-0")
        return
    case = load_case(folder)
    interval = int(case["config"]["index.interval.bytes"])
    target = tmp_path / "tide-0"
    report = salvage(folder / "before", target, disk=QuietDisk(), index_interval_bytes=interval)
    plan = plan_repair(target, config=case["config"], disk=QuietDisk())
    assert plan.is_empty, plan
    assert not plan.unrepaired
    with Log.open(target, config=case["config"], pool=FilePool(QuietDisk()), clock=lambda: case["now_ms"]) as log:
        assert log.log_end_offset == report.log_end_offset
        assert not log.load_report.cuts
    found = [record.offset for path in target.glob("*.log") for batch in read_batches(path.read_bytes()) for record in batch]
    assert len(found) == report.record_count
    for lost in report.lost:
        assert not any(lost.first_offset <= offset and (lost.last_offset is None or offset <= lost.last_offset) for offset in found)


@pytest.mark.parametrize("name", INTACT)
def test_what_is_sound_is_copied_as_kafka_closes_it(name: str, tmp_path: Path) -> None:
    folder = GOLDEN / "recovery" / name
    case = load_case(folder)
    report = salvage(folder / "before", tmp_path / "tide-0", index_interval_bytes=int(case["config"]["index.interval.bytes"]))
    assert report.is_complete
    for path in (folder / "closed").iterdir():
        ours = tmp_path / "tide-0" / path.name
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            assert (ours.read_bytes() if ours.exists() else b"") == path.read_bytes(), path.name
        elif path.suffix == ".snapshot" and ours.exists():
            assert sorted(parse_snapshot(ours.read_bytes(), "")) == sorted(parse_snapshot(path.read_bytes(), ""))
        elif path.name == "leader-epoch-checkpoint" and name != "index-garbage":
            assert ours.read_bytes().split() == path.read_bytes().split()


def test_a_complete_replacement_stands_for_what_it_replaces(tmp_path: Path) -> None:
    folder = GOLDEN / "recovery" / "swap-c-all"
    salvage(folder / "before", tmp_path / "tide-0", index_interval_bytes=0)
    for path in (folder / "closed").glob("*.log"):
        assert (tmp_path / "tide-0" / path.name).read_bytes() == path.read_bytes()
    assert sorted(path.name for path in (tmp_path / "tide-0").glob("*.log")) == [f"{0:020d}.log", f"{6:020d}.log"]


def test_damage_in_the_middle(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    size = len(numbered(0))
    flip(directory / f"{0:020d}.log", 2 * size + 70)
    damaged = (directory / f"{0:020d}.log").read_bytes()
    report, target = to_new(directory, tmp_path)
    assert [(lost.first_offset, lost.last_offset) for lost in report.lost] == [(2, 2)]
    assert report.bad_files == (f"bad-{0:020d}-at-{2 * size}.log.tidelog",)
    assert (target / report.bad_files[0]).read_bytes() == damaged[2 * size : 3 * size]
    assert (report.kept_bytes, report.dropped_bytes) == (11 * size, size)
    assert (report.batch_count, report.record_count) == (11, 11)
    assert [(segment.base_offset, segment.dropped_bytes) for segment in report.segments] == [(0, size), (7, 0)]
    assert sorted(path.name for path in target.glob("*.log")) == sorted(path.name for path in directory.glob("*.log"))
    assert numbers(target) == [0, 1, *range(3, 12)]


def test_a_torn_end(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5])
    report, target = to_new(directory, tmp_path)
    (lost,) = report.lost
    assert (lost.first_offset, lost.last_offset) == (11, None)
    assert "offsets 11 to an offset that is not known" in str(report)
    assert numbers(target) == list(range(11))


def test_zeros_at_the_end_are_no_loss(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes() + bytes(5000))
    report, target = to_new(directory, tmp_path)
    assert report.lost == ()
    assert report.bad_files == ()
    assert report.dropped_bytes == 5000
    assert numbers(target) == list(range(12))


def test_a_last_segment_without_a_sound_batch_still_says_where_the_log_goes_on(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    last = max(directory.glob("*.log"))
    last.write_bytes(b"\xff" * last.stat().st_size)
    report, target = to_new(directory, tmp_path)
    assert report.log_end_offset == int(last.stem) == 7
    assert [(lost.first_offset, lost.last_offset) for lost in report.lost] == [(7, None)]
    assert numbers(target) == list(range(7))


def test_nothing_is_left(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    for path in directory.glob("*.log"):
        path.write_bytes(b"\xff" * path.stat().st_size)
    report, target = to_new(directory, tmp_path)
    assert [(lost.first_offset, lost.last_offset) for lost in report.lost] == [(0, 6), (7, None)]
    assert numbers(target) == []


def test_a_missing_file_is_known_by_its_indexes(tmp_path: Path) -> None:
    directory = a_log(tmp_path, 20)
    middle = sorted(directory.glob("*.log"))[1]
    middle.unlink()
    report, _ = to_new(directory, tmp_path)
    assert [(lost.first_offset, lost.last_offset, lost.reason) for lost in report.lost] == [(7, 13, "the file of a segment is missing")]


def test_the_last_file_is_missing(tmp_path: Path) -> None:
    directory = a_log(tmp_path, 20)
    max(directory.glob("*.log")).unlink()
    report, target = to_new(directory, tmp_path)
    assert [(lost.first_offset, lost.last_offset) for lost in report.lost] == [(14, None)]
    assert numbers(target) == list(range(14))


# Overlapping segments


def overlapping(directory: Path, second: bytes) -> None:
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(follower_batches(*((offset, 1) for offset in range(6))))
    (directory / f"{4:020d}.log").write_bytes(second)


def test_a_second_copy_with_the_same_bytes(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    overlapping(directory, follower_batches(*((offset, 1) for offset in range(4, 8))))
    report, target = to_new(directory, tmp_path)
    assert numbers(target) == list(range(8))
    assert report.bad_files == ()
    assert report.lost == ()
    assert any("same bytes" in finding for finding in report.findings)


def test_a_second_copy_with_other_bytes(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    overlapping(directory, follower_batches(*((offset, 1) for offset in range(4, 8)), timestamp_ms=1))
    report, target = to_new(directory, tmp_path)
    assert numbers(target) == list(range(8))
    assert (target / f"{4:020d}.log").read_bytes() == (directory / f"{4:020d}.log").read_bytes()
    assert report.bad_files == (f"bad-{0:020d}-at-{4 * len(numbered(0))}.log.tidelog",)
    assert any("other bytes" in finding for finding in report.findings)


def test_a_second_copy_of_what_is_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    overlapping(directory, follower_batches(*((offset, 1) for offset in range(4, 8))))
    flip(directory / f"{4:020d}.log", 70)
    report, target = to_new(directory, tmp_path)
    assert numbers(target) == list(range(8))
    assert report.lost == ()
    assert len(list(target.glob("*.log"))) == 2


@pytest.mark.parametrize("read_bytes", [1 << 20, 70])
def test_a_second_copy_whose_batches_do_not_fit_what_is_damaged(read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reaches beyond the hole cannot fill it: then it is told that something is lost. Also where batches are large."""
    for module in (salvage_copy, salvage_pieces):
        monkeypatch.setattr(module, "READ_BYTES", read_bytes)
    directory = tmp_path / "tide-0"
    overlapping(directory, follower_batches(*((offset, 1) for offset in range(4, 10))))
    (directory / f"{0:020d}.log").write_bytes(follower_batches((0, 4), (4, 3), (7, 1), (8, 1)))
    for number in (2, 3, 4):
        flip(directory / f"{4:020d}.log", number * len(numbered(0)) + 66)
    report, target = to_new(directory, tmp_path)
    with open_log(target.parent, disk=QuietDisk()) as log:
        assert [record.offset for record in log.read()] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert [lost[:2] for lost in report.lost] == [(6, 6)]
    assert report.gaps == ()


# Producers


def test_a_lost_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "recovery" / "txn-rotten-marker" / "before", directory)
    report, target = to_new(directory, tmp_path, index_interval_bytes=0)
    case = load_case(GOLDEN / "recovery" / "txn-rotten-marker")
    assert [found.may_have_lost_marker for found in report.open_transactions] == [True] * len(report.open_transactions)
    assert min(found.first_offset for found in report.open_transactions) == case["first_unstable_offset"]
    assert "its end may be among what was lost" in str(report)
    entries = parse_snapshot(max(target.glob("*.snapshot")).read_bytes(), "")
    wanted = {(producer["producer_id"], producer["current_txn_first_offset"]) for producer in case["producers"]}
    assert {(entry.producer_id, entry.transaction_start) for entry in entries} == wanted


def test_producers_before_the_first_segment_are_taken_from_its_snapshot(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "recovery" / "txn-clean" / "before", directory)
    for path in directory.glob(f"{0:020d}.*"):
        path.unlink()
    _, target = to_new(directory, tmp_path, index_interval_bytes=0)
    newest = max(target.glob("*.snapshot"))
    assert sorted(parse_snapshot(newest.read_bytes(), "")) == sorted(parse_snapshot((directory / newest.name).read_bytes(), ""))
    for path in directory.glob("*.txnindex"):
        assert (target / path.name).read_bytes() == path.read_bytes()


# The directory


def test_the_topic_id_is_kept_if_it_is_sound(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    write_metadata(QuietDisk(), str(directory), TopicId(int=7))
    _, target = to_new(directory, tmp_path)
    assert read_metadata(QuietDisk(), str(target)) == TopicId(int=7)
    shutil.rmtree(target)
    (directory / "partition.metadata").write_bytes(b"rubbish")
    report, target = to_new(directory, tmp_path)
    assert not (target / "partition.metadata").exists()
    assert any("partition.metadata" in finding for finding in report.findings)


def test_epochs_without_batches_are_kept_if_the_file_is_sound(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 12\n")
    _, target = to_new(directory, tmp_path)
    assert (target / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n5 12\n"
    shutil.rmtree(target)
    (directory / "leader-epoch-checkpoint").write_text("rubbish")
    _, target = to_new(directory, tmp_path)
    assert (target / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_offsets_too_far_apart_are_split(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(follower_batches((0, 1), (5, 1), (1 << 31, 1), ((1 << 31) + 1, 1), (1 << 33, 1)))
    _, target = to_new(directory, tmp_path)
    assert sorted(int(path.stem) for path in target.glob("*.log")) == [0, 1 << 31, 1 << 33]
    assert numbers(target, {}) == [0, 5, 1 << 31, (1 << 31) + 1, 1 << 33]


def test_the_target_is_never_overwritten(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("mine")
    with pytest.raises(StorageError, match="not empty") as caught:
        salvage(directory, tmp_path / "full")
    assert caught.value.errno == errno.EEXIST
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["something"]
    for inside in (directory, directory / "new"):
        with pytest.raises(StorageError):
            salvage(directory, inside)
    (tmp_path / "empty-0").mkdir()
    assert salvage(directory, tmp_path / "empty-0").is_complete


def test_no_source(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        salvage(tmp_path / "nothing", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_progress_and_json(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    flip(directory / f"{0:020d}.log", 100)
    seen: list[Progress] = []
    report, _ = to_new(directory, tmp_path, progress=seen.append)
    assert [(step.segments_done, step.segments_total) for step in seen] == [(1, 2), (2, 2)]
    assert seen[-1].bytes_done == seen[-1].bytes_total
    facts = json.loads(json.dumps(report.to_json()))
    assert facts["lost"] == [{"first_offset": 1, "last_offset": 1, "reason": "damaged bytes"}]
    assert facts["segments"][0]["base_offset"] == 0


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_target_that_fails_is_an_error_and_no_log(error: int, tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    for number in range(1, 100):
        disk = FaultyDisk(QuietDisk())
        disk.fail(number, kind="write", error=error)
        target = tmp_path / f"new{number}" / "tide-0"
        try:
            salvage(directory, target, disk=disk)
        except StorageError:
            assert not list(target.glob("*.log"))
            with open_log(target.parent, SMALL, disk=QuietDisk()) as log:
                assert log.log_end_offset == 0
        else:
            assert number > 5
            return


def test_an_interrupted_transaction_index_is_built_from_batches(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(a_batch(producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True))
    report, _ = to_new(tmp_path / "tide-0", tmp_path)
    assert [(found.producer_id, found.first_offset, found.may_have_lost_marker) for found in report.open_transactions] == [(7, 0, False)]
