"""A plan says what is broken and what would be done, and changes nothing. What is right is not in it."""

import errno
import json
import shutil
from pathlib import Path

import pytest

from tests.support.cleaning import COMPACTED, clean, fill, left_batches, open_compacted
from tests.support.faulty_disk import FaultyDisk
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import QuietDisk, a_batch, copy_home, numbered, open_log
from tests.support.producers import aborted_on_disk, end_of_txn, in_txn
from tidelog.config import LogConfig
from tidelog.errors import LogNotFoundError, RepairError
from tidelog.inspection import reindex, stats
from tidelog.inspection.repair import RepairPlan, apply_repair, plan_repair
from tidelog.inspection.repair_plan import (
    CutSegment,
    FinishSwap,
    RebuildEpochs,
    RebuildIndex,
    RebuildSnapshots,
    RebuildTxnIndex,
    RemoveLeftover,
    SetSegmentAside,
    SplitSegment,
)
from tidelog.inspection.salvage import salvage

pytestmark = pytest.mark.leaves  # they are damaged, and planning changes nothing
SMALL = {"internal.segment.bytes": 600, "index.interval.bytes": 100}


def a_log(home: Path, batches: int = 12, config: dict[str, int] = SMALL) -> Path:
    with open_log(home, config, disk=QuietDisk()) as log:
        for number in range(batches):
            log.append(numbered(number))
    return home / "tide-0"


def state(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}


def kinds(plan: RepairPlan) -> list[type]:
    return [type(action) for action in plan.actions]


def planned(directory: Path, **options: object) -> RepairPlan:
    before = state(directory.parent)
    plan = plan_repair(directory, **options)  # type: ignore[arg-type]
    assert state(directory.parent) == before
    return plan


def golden(case: str, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "recovery" / case / "before", directory)
    return directory, load_case(GOLDEN / "recovery" / case)["config"]


WITH_FAULTS = {"opened-after-crash", "opened-torn", "opened-torn-full"}
"""Kafka was made to believe what a crash left, and left it so."""


@pytest.mark.parametrize("folder", golden_cases("partitions"), ids=lambda folder: folder.name)
def test_nothing_to_do_in_a_directory_that_kafka_closed(folder: Path) -> None:
    plan = plan_repair(folder / "closed", config=load_case(folder)["config"])
    assert set(kinds(plan)) <= {RemoveLeftover} or folder.name in WITH_FAULTS, plan
    assert not plan.unrepaired or folder.name in WITH_FAULTS


@pytest.mark.parametrize("config", [SMALL, {}, {"index.interval.bytes": 0}], ids=str)
def test_nothing_to_do_in_a_log_of_ours(tmp_path: Path, config: dict[str, int]) -> None:
    directory = a_log(tmp_path, config=config)
    for number in range(3):  # every opening may cost an index entry
        with open_log(tmp_path, config, disk=QuietDisk()) as log:
            log.append(a_batch(3, timestamp_ms=1_700_000_000_000 - number))
    plan = planned(directory, config=config)
    assert plan.is_empty
    assert str(plan).endswith("nothing to do")


def test_a_log_with_transactions_of_ours(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL, disk=QuietDisk()) as log:
        for number in range(8):
            log.append(a_batch(producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True))
    assert planned(tmp_path / "tide-0", config=SMALL).is_empty


@pytest.mark.parametrize("segment_bytes", [10_000, 200])
def test_a_compacted_log_with_aborted_transactions(segment_bytes: int, tmp_path: Path) -> None:
    """The data went at once; the marker stays, and the entry about it. The only gap lies between two batches, or two segments."""
    with open_compacted(tmp_path, {"internal.segment.bytes": segment_bytes}) as log:
        fill(log, "a=1")
        log.append(in_txn(7, 0, 2))
        log.append(end_of_txn(7, "abort"), origin="coordinator")
        log.append(in_txn(7, 2))
        log.append(end_of_txn(7, "commit"), origin="coordinator")
        fill(log, "|", "b=1")
        clean(log)
        assert [txn[:3] for txn in aborted_on_disk(log)] == [(7, 1, 3)]
        assert [batch.base_offset for batch in left_batches(log)] == [0, 3, 4, 5]
    directory = tmp_path / "tide-0"
    plan = planned(directory, config=COMPACTED)
    assert plan.is_empty, plan
    (index,) = directory.glob("*.txnindex")
    index.write_bytes(index.read_bytes() * 2)
    assert kinds(planned(directory, config=COMPACTED)) == [RebuildTxnIndex]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("index-missing-clean", [RebuildIndex]),
        ("index-garbage-clean", [RebuildIndex]),
        ("index-odd-size-clean", [RebuildIndex]),
        ("index-negative-clean", [RebuildIndex]),
        ("timeindex-emptied-clean", [RebuildIndex]),
        ("timeindex-short-clean", [RebuildIndex]),
        ("indexes-zero-extended-first-clean", [RebuildIndex]),
        ("txnindex-missing-clean", [RebuildTxnIndex]),
        ("txnindex-newer-clean", [RebuildTxnIndex]),
        ("txnindex-torn-clean", [RebuildTxnIndex]),
        ("txnindex-below-base-clean", [RebuildTxnIndex]),
        ("snapshot-corrupt-clean", [RebuildSnapshots]),
        ("snapshot-beyond-end-clean", [RebuildSnapshots]),
        ("snapshots-missing-clean", [RebuildSnapshots]),
        ("snapshots-stray-clean", [RebuildSnapshots]),
        ("epochs-garbage", [RebuildEpochs]),
        ("epochs-missing-clean", [RebuildEpochs]),
        ("epochs-beyond-end-clean", [RebuildEpochs]),
        ("overflow-clean", [SplitSegment]),
        ("torn-75-clean", [CutSegment, RebuildIndex, RebuildSnapshots]),
        ("zeros-4096-clean", [CutSegment]),
        ("orphans-clean", [RemoveLeftover] * 4),
        ("stopped-clean", []),
        ("txn-clean", []),
    ],
)
def test_each_kind_of_damage_has_its_action(case: str, expected: list[type], tmp_path: Path) -> None:
    directory, config = golden(case, tmp_path)
    plan = planned(directory, config=config)
    assert kinds(plan) == expected, plan
    assert not plan.unrepaired
    for action in plan.actions:
        assert action.reason in str(plan)
        assert action.files


def test_a_complete_replacement_is_finished(tmp_path: Path) -> None:
    directory, config = golden("swap-c-all-clean", tmp_path)
    (directory / f"{0:020d}.txnindex").write_bytes(b"of the old segment")
    plan = planned(directory, config=config)
    assert kinds(plan).count(FinishSwap) == 3
    assert [action.files[1] for action in plan.actions if isinstance(action, FinishSwap)] == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
    ]
    replaced = {action.files[0] for action in plan.actions if isinstance(action, RemoveLeftover)}
    assert {f"{2:020d}.log", f"{0:020d}.txnindex"} <= replaced
    assert f"{6:020d}.log" not in replaced


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_damaged_batch_is_not_cut_off_unasked(number: int, tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    path = sorted(directory.glob("*.log"))[number]
    flip(path, 100)
    plan = planned(directory, config=SMALL)
    assert CutSegment not in kinds(plan)
    assert SetSegmentAside not in kinds(plan)
    (found,) = plan.unrepaired
    assert found.path == str(path)
    assert found.position is not None
    assert f"cut_at=({int(path.stem)}, {found.position})" in found.hint


def test_a_cut_that_is_asked_for(tmp_path: Path) -> None:
    directory = a_log(tmp_path, 20)
    first, *later = sorted(directory.glob("*.log"))
    assert len(later) == 2
    flip(first, 100)
    place = planned(directory, config=SMALL).unrepaired[0].position
    assert place is not None
    plan = planned(directory, config=SMALL, cut_at=(0, place))
    assert not plan.unrepaired
    aside = [action.base_offset for action in plan.actions if isinstance(action, SetSegmentAside)]
    assert aside == [int(path.stem) for path in reversed(later)]
    (cut,) = (action for action in plan.actions if isinstance(action, CutSegment))
    assert (cut.base_offset, cut.position, cut.size_bytes) == (0, place, first.stat().st_size - place)


@pytest.mark.parametrize(("base_offset", "position"), [(1, 0), (0, 10_000), (0, -1), (0, 1), (0, 80)])
def test_a_cut_at_no_such_place(base_offset: int, position: int, tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    with pytest.raises(RepairError):
        planned(directory, config=SMALL, cut_at=(base_offset, position))


def test_a_cut_behind_damage(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    size = len(numbered(0))
    flip(directory / f"{0:020d}.log", 100)
    with pytest.raises(RepairError, match="not behind a sound batch"):
        planned(directory, config=SMALL, cut_at=(0, 3 * size))


def test_a_cut_below_the_log_start(tmp_path: Path) -> None:
    with open_log(tmp_path, SMALL, disk=QuietDisk()) as log:
        for number in range(6):
            log.append(numbered(number))
        log.delete_records_before(5)
    with pytest.raises(RepairError, match="before it starts"):
        planned(tmp_path / "tide-0", config=SMALL, cut_at=(0, 2 * len(numbered(0))))


def test_what_cannot_be_repaired_is_said(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / "8.log").write_bytes(b"")
    (directory / "partition.metadata").write_bytes(b"version: 0\ntopic_id: nonsense")
    plan = planned(directory, config=SMALL)
    assert plan.is_empty
    assert [Path(found.path).name for found in plan.unrepaired] == ["8.log", "partition.metadata"]


def test_an_index_that_was_cut_to_nothing(tmp_path: Path) -> None:
    config = {"index.interval.bytes": 100}
    directory = a_log(tmp_path, 30, config)
    (directory / f"{0:020d}.index").write_bytes(b"")
    (action,) = planned(directory, config=config).actions
    assert isinstance(action, RebuildIndex)
    assert action.kinds == (".index",)


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_every_flipped_bit_of_an_index_that_could_mislead_is_found(kind: str, tmp_path: Path) -> None:
    """Not those that make an entry of another kind: older releases had entries with the offset of a later batch, or one inside a batch."""
    config = {"index.interval.bytes": 100}
    with open_log(tmp_path, config, disk=QuietDisk()) as log:
        for number in range(10):
            log.append(a_batch(3, timestamp_ms=1_700_000_000_000 + number))
    path = tmp_path / "tide-0" / f"{0:020d}{kind}"
    content = path.read_bytes()
    found = 0
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found += not plan_repair(path.parent, config=config).is_empty
    assert found >= len(content) * 8 - 10


def test_a_plan_as_json(tmp_path: Path) -> None:
    directory, config = golden("torn-75-clean", tmp_path)
    plan = json.loads(json.dumps(plan_repair(directory, config=config).to_json()))
    assert [action["action"] for action in plan["actions"]] == ["CutSegment", "RebuildIndex", "RebuildSnapshots"]
    assert plan["actions"][0]["position"] == 159
    assert plan["unrepaired"] == []


def test_a_live_log_is_planned_for_without_disturbing_it(tmp_path: Path) -> None:
    with open_log(tmp_path / "live", SMALL) as log:
        log.append(numbered(0))
        home = copy_home(log, tmp_path / "copy")
        plan = plan_repair(home / "tide-0", config=SMALL)
        assert kinds(plan) == [RebuildIndex]  # preallocated
        log.append(numbered(1))


def test_a_segment_named_by_an_offset_that_cannot_be(tmp_path: Path) -> None:
    """It does not count, as for verify and for who opens the log, and repair says so."""
    directory = a_log(tmp_path)
    name = "99999999999999999999.log"
    (directory / name).write_bytes(b"")
    (left,) = planned(directory, config=SMALL).unrepaired
    assert (Path(left.path).name, left.hint) == (name, "move it elsewhere")
    report = salvage(directory, tmp_path / "new-0")
    assert report.is_complete
    assert [name in finding for finding in report.findings] == [True]
    assert reindex(directory, config=LogConfig.of(SMALL)).segments == len(list(directory.glob("0*.log"))) == len(stats(directory))


def test_a_torn_end_in_a_replacement_that_is_to_be_finished(tmp_path: Path) -> None:
    directory = a_log(tmp_path, 3, {})
    path = directory / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])
    path.rename(f"{path}.swap")
    plan = planned(directory)
    assert {FinishSwap, CutSegment} <= set(kinds(plan))
    apply_repair(plan)
    assert plan_repair(directory).is_empty


def test_a_file_that_goes_while_it_is_planned(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    disk = FaultyDisk()
    disk.fail(2, kind="open", on=".log", error=errno.ENOENT)
    with pytest.raises(RepairError, match="plan again"):
        plan_repair(directory, disk=disk)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        plan_repair(tmp_path / "tide-0")


def test_an_empty_index_that_kafka_left_is_right(tmp_path: Path) -> None:
    """A log that was opened and closed between appends: a rebuild would give three entries, Kafka gave none. So few prove nothing."""
    directory, config = tmp_path / "tide-0", load_case(GOLDEN / "partitions" / "reopened")["config"]
    shutil.copytree(GOLDEN / "partitions" / "reopened" / "closed", directory)
    assert (directory / f"{0:020d}.index").read_bytes() == b""
    assert planned(directory, config=config).is_empty


@pytest.mark.parametrize(("batches", "is_rebuilt"), [(1, False), (2, False), (5, False), (6, True), (40, True)])
def test_an_index_that_was_emptied(batches: int, is_rebuilt: bool, tmp_path: Path) -> None:
    """One entry a batch but for the first: from five missing on it was no opening that cost them, and they are built as Kafka would."""
    directory = a_log(tmp_path, batches, config={"index.interval.bytes": 0})
    index = directory / f"{0:020d}.index"
    expected = index.read_bytes()
    index.write_bytes(b"")
    plan = planned(directory, config={"index.interval.bytes": 0})
    assert plan.is_empty != is_rebuilt
    apply_repair(plan, disk=QuietDisk())
    assert index.read_bytes() == (expected if is_rebuilt else b"")
    with open_log(tmp_path, {"index.interval.bytes": 0}) as log:
        for offset in range(batches):
            assert next(iter(log.fetch(offset, 1).batches)).base_offset == offset
