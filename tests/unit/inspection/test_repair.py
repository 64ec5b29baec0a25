"""A repair does what its plan says: what was broken is as Kafka's own rebuild has it, the old bytes are aside, the rest is untouched."""

import errno
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import QuietDisk, check_log, copy_home, number_of, numbered, open_log
from tests.unit.inspection.test_repair_plan import SMALL, a_log, flip, state
from tidelog.disk.file_pool import FilePool
from tidelog.errors import LockedError, LogNotFoundError, RepairError, StorageError, TidelogError
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.record import read_batches

ALL = golden_cases("recovery")
AS_KAFKA = [
    folder
    for folder in ALL
    if folder.name.startswith(("index", "timeindex", "txn", "snapshot", "legacy-index", "legacy-crashed", "crashed"))
    and not load_case(folder)["last_shutdown_clean"]
    and folder.name not in ("txn-rotten-marker", "timeindex-missing-first")
]
"""Indexes, transaction indexes or snapshots are damaged, and Kafka rebuilds them. (Of a time index that is missing below the recovery
point it makes an empty one.)"""


def prepared(folder: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "tide-0"
    shutil.copytree(folder / "before", directory)
    case = load_case(folder)
    if case["log_start_offset"]:
        (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\ntide 0 {case['log_start_offset']}\n")
    return directory


def own_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".tidelog"}


def batches_in(directory: Path) -> list[bytes]:
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        with suppress(TidelogError):
            for batch in read_batches(data):
                found.append(batch.to_bytes())
    return found


@pytest.mark.parametrize("folder", AS_KAFKA, ids=lambda folder: folder.name)
def test_files_are_as_kafka_rebuilds_them(folder: Path, tmp_path: Path) -> None:
    directory = prepared(folder, tmp_path)
    apply_repair(plan_repair(directory, config=load_case(folder)["config"], disk=QuietDisk()), disk=QuietDisk())
    for path in sorted((folder / "closed").iterdir()):
        ours = directory / path.name
        if path.suffix == ".snapshot":
            if ours.exists():  # Kafka takes one more on closing
                assert sorted(parse_snapshot(ours.read_bytes(), "")) == sorted(parse_snapshot(path.read_bytes(), ""))
        elif path.suffix in (".index", ".timeindex", ".txnindex", ".log"):
            assert (ours.read_bytes() if ours.exists() else b"") == path.read_bytes(), path.name


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_afterwards_the_log_opens_clean_and_nothing_is_left_to_do(folder: Path, tmp_path: Path) -> None:
    directory = prepared(folder, tmp_path)
    config = load_case(folder)["config"]
    disk = QuietDisk()
    before, batches = state(directory), batches_in(directory)
    plan = plan_repair(directory, config=config, disk=disk)
    report = apply_repair(plan, disk=disk)
    after = state(directory)

    assert {*plan.actions} <= {*report.done}
    touched = {name for action in report.done for name in action.files}
    for name, found in before.items():
        assert name in touched or after[name] == found, name
    for name in report.kept_aside:
        assert name[0].isalpha()
        assert name.endswith(".tidelog")
    # Every byte that is not in its place any more is aside, unless it was nothing but zeros, or is in the segments of a split one.
    aside = b"\n".join(own_files(directory).values())
    logs = b"".join(found for name, (found, _) in sorted(after.items()) if name.endswith(".log"))
    for name, (content, _) in before.items():
        if name in after and after[name][0] == content:
            continue
        kept = after[name][0] if name in after and name.endswith(".log") else b""
        rest = content[len(kept) :] if content.startswith(kept) else content
        assert not any(rest) or rest in aside or rest in logs or rest in [found for found, _ in after.values()], name

    again = plan_repair(directory, config=config, disk=disk)
    assert again.is_empty, again
    assert again.unrepaired == plan.unrepaired
    if plan.unrepaired or load_case(folder)["log_start_offset"] or not any(directory.glob("*.log")):
        return
    settled = state(directory)
    with Log.open(directory, config=config, pool=FilePool(disk), clock=lambda: load_case(folder)["now_ms"]) as log:
        assert not plan.actions or (log.load_report.was_clean and not log.load_report.has_changed), log.load_report
        if not any(name.endswith(("cleaned", "swap", "deleted")) for name in before):
            assert [batch for batch in batches_in(directory) if batch in batches] == batches_in(directory)
    unchanged = {name: content for name, (content, _) in settled.items() if name.endswith((".log", ".txnindex", ".tidelog"))}
    assert unchanged.items() <= {name: content for name, (content, _) in state(directory).items()}.items()


def test_the_old_bytes_of_what_is_replaced(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / f"{0:020d}.index").write_bytes(b"rubbish!")
    (directory / "leader-epoch-checkpoint").write_bytes(b"rubbish?")
    report = apply_repair(plan_repair(directory, config=SMALL))
    assert own_files(directory) == {
        f"index-{0:020d}.tidelog": b"rubbish!",
        "epochs-leader-epoch-checkpoint.tidelog": b"rubbish?",
    }
    assert sorted(report.kept_aside) == sorted(own_files(directory))
    (directory / f"{0:020d}.index").write_bytes(b"rubbish.")
    apply_repair(plan_repair(directory, config=SMALL))
    assert own_files(directory)[f"index-{0:020d}-2.tidelog"] == b"rubbish."


def test_a_cut_keeps_everything_behind_it(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    logs = {int(path.stem): path.read_bytes() for path in sorted(directory.glob("*.log"))}
    flip(directory / f"{0:020d}.log", 100)
    damaged = (directory / f"{0:020d}.log").read_bytes()
    size = len(numbered(0))
    report = apply_repair(plan_repair(directory, config=SMALL, cut_at=(0, size)))
    kept = own_files(directory)
    assert kept[f"cut-{0:020d}-at-{size}.log.tidelog"] == damaged[size:]
    for base_offset in list(logs)[1:]:
        assert kept[f"cut-{base_offset:020d}-at-0.log.tidelog"] == logs[base_offset]
    assert set(report.kept_aside) == set(kept)
    with open_log(tmp_path, SMALL) as log:
        assert log.load_report.was_clean
        assert not log.load_report.has_changed
        assert [number_of(record) for record in log.read()] == [0]
        log.append(numbered(1))
        check_log(log)


def test_a_split_keeps_all_batches_and_their_transactions(tmp_path: Path) -> None:
    directory = prepared(GOLDEN / "recovery" / "overflow-often", tmp_path)
    before = batches_in(directory)
    config = load_case(GOLDEN / "recovery" / "overflow-often")["config"]
    report = apply_repair(plan_repair(directory, config=config))
    assert batches_in(directory) == before
    assert len(list(directory.glob("*.log"))) == 4
    assert f"index-{0:020d}.tidelog" in report.kept_aside


def test_producers_are_known_again(tmp_path: Path) -> None:
    folder = GOLDEN / "recovery" / "snapshots-missing"
    directory = prepared(folder, tmp_path)
    apply_repair(plan_repair(directory, config=load_case(folder)["config"]))
    newest = max(directory.glob("*.snapshot"))
    expected = parse_snapshot((folder / "closed" / newest.name).read_bytes(), "")
    assert sorted(parse_snapshot(newest.read_bytes(), "")) == sorted(expected)


def test_an_open_log_is_left_alone(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / f"{0:020d}.index").write_bytes(b"rubbish!")
    plan = plan_repair(directory, config=SMALL)
    disk = QuietDisk()
    with open_log(tmp_path, SMALL, disk=disk):
        before = state(directory)
        with pytest.raises(LockedError):
            apply_repair(plan, disk=disk)
        assert state(directory) == before


def test_another_process_is_kept_out_of_and_keeps_out(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / f"{0:020d}.index").write_bytes(b"rubbish!")
    plan = plan_repair(directory, config=SMALL)
    code = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    before = state(directory)
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LockedError):
            apply_repair(plan)
        other.communicate(b"")
    assert state(directory) == before
    assert apply_repair(plan).done


@pytest.mark.leaves
def test_a_directory_that_has_changed_since(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / f"{0:020d}.index").write_bytes(b"rubbish!")
    plan = plan_repair(directory, config=SMALL)
    (directory / f"{0:020d}.timeindex").write_bytes(b"rubbish, too")
    marker = tmp_path / ".kafka_cleanshutdown"
    assert marker.exists()
    before = state(directory)
    with pytest.raises(RepairError, match="plan again"):
        apply_repair(plan)
    assert state(directory) == before
    assert marker.exists()


def test_an_empty_plan_takes_no_lock(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    plan = plan_repair(directory, config=SMALL)
    disk = QuietDisk()
    with open_log(tmp_path, SMALL, disk=disk):
        report = apply_repair(plan, disk=disk)
    assert report.done == ()


@pytest.mark.leaves
def test_a_directory_whose_name_is_no_partition(tmp_path: Path) -> None:
    directory = a_log(tmp_path)
    (directory / f"{0:020d}.index").write_bytes(b"rubbish!")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    plan = plan_repair(copy, config=SMALL)
    with pytest.raises(LogNotFoundError):
        apply_repair(plan)


def test_after_a_crash_the_repaired_log_counts_as_clean(tmp_path: Path) -> None:
    with open_log(tmp_path / "live", SMALL) as log:
        for number in range(12):
            log.append(numbered(number))
        home = copy_home(log, tmp_path / "crashed")
    apply_repair(plan_repair(home / "tide-0", config=SMALL))
    with open_log(home, SMALL) as log:
        assert log.load_report.was_clean
        assert not log.load_report.has_changed
        assert [number_of(record) for record in log.read()] == list(range(12))
        check_log(log)


def test_with_damage_left_the_marker_stays_away(tmp_path: Path) -> None:
    with open_log(tmp_path / "live", SMALL) as log:
        for number in range(12):
            log.append(numbered(number))
        home = copy_home(log, tmp_path / "crashed")
    flip(home / "tide-0" / f"{0:020d}.log", 100)
    report = apply_repair(plan_repair(home / "tide-0", config=SMALL))
    assert report.done
    assert report.unrepaired
    assert not (home / ".kafka_cleanshutdown").exists()


@pytest.mark.leaves
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_at_any_call_leaves_old_or_new(error: int, tmp_path: Path) -> None:
    original = a_log(tmp_path / "original")
    right = {name: content for name, (content, _) in state(original).items()}
    (original / f"{0:020d}.index").write_bytes(b"rubbish!")
    (original / f"{0:020d}.timeindex").unlink()
    failed = 0
    for number in range(1, 200):
        home = tmp_path / str(number)
        shutil.copytree(tmp_path / "original", home)
        directory = home / "tide-0"
        disk = FaultyDisk(QuietDisk())
        plan = plan_repair(directory, config=SMALL, disk=disk)
        disk.fail(number, error=error)
        try:
            apply_repair(plan, disk=disk)
        except StorageError:
            failed += 1
            disk.heal()
            assert (directory / f"{0:020d}.index").read_bytes() in (b"rubbish!", right[f"{0:020d}.index"])
            apply_repair(plan_repair(directory, config=SMALL, disk=disk), disk=disk)
        assert right.items() <= {name: content for name, (content, _) in state(directory).items()}.items()
        shutil.rmtree(home)
        if number > failed:
            break
    assert failed > 10
