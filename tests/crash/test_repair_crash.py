"""The power is cut at every moment of a repair: each file is the old one or the new one, no byte is lost, a second repair ends the same.

A salvage that is cut off leaves no log, or all of it.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.crash_images import FEW, crash_images, materialise, scratch_directory
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import load_case
from tests.support.logs import QuietDisk, a_batch, numbered, open_log
from tests.support.recording_disk import RecordingDisk, describe
from tidelog.disk.file_pool import FilePool
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.salvage import salvage
from tidelog.log.log import Log

PARTITION = "tide-0"
SMALL = {"internal.segment.bytes": 600, "index.interval.bytes": 100}

STRAY = (f"{1:020d}.snapshot",)

Config = dict[str, object]


class Case(NamedTuple):
    name: str
    prepare: Callable[[Path], Config]
    """Make a broken directory; gives back the settings of its log."""
    cut_at: tuple[int, int] | None = None


def a_log(home: Path) -> Path:
    with open_log(home, SMALL, disk=QuietDisk()) as log:
        for number in range(14):
            log.append(numbered(number))
        for number in range(4):
            log.append(a_batch(producer_id=7, producer_epoch=0, base_sequence=number))
    return home / PARTITION


def golden(name: str) -> Callable[[Path], Config]:
    def prepare(home: Path) -> Config:
        shutil.copytree(GOLDEN / "recovery" / name / "before", home / PARTITION)
        config: Config = load_case(GOLDEN / "recovery" / name)["config"]
        return config

    return prepare


def broken_files(home: Path) -> Config:
    directory = a_log(home)
    first, *_, last = sorted(directory.glob("*.log"))
    first.with_suffix(".index").write_bytes(b"rubbish!")
    first.with_suffix(".timeindex").unlink()
    last.with_suffix(".timeindex").write_bytes(b"rubbish, too")
    first.with_suffix(".txnindex").write_bytes(b"rubbish here as well")
    (directory / "leader-epoch-checkpoint").write_bytes(b"rubbish?")
    for path in directory.glob("*.snapshot"):
        path.write_bytes(b"rubbish again")
    return dict(SMALL)


def rot(home: Path) -> Config:
    directory = a_log(home)
    path = directory / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[len(numbered(0)) + 70] ^= 1
    path.write_bytes(content)
    return dict(SMALL)


CASES = [
    Case("files", broken_files),
    Case("cut", rot, (0, len(numbered(0)))),
    Case("torn", golden("torn-75-clean")),
    Case("split", golden("overflow-clean")),
    Case("swap", golden("swap-c-all-clean")),
    Case("undo", golden("swap-two-mixed")),
    Case("orphans", golden("orphans-clean")),
    Case("transactions", golden("txnindex-missing")),
]


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.endswith(".tidelog")}


def repair(home: Path, config: Config, cut_at: tuple[int, int] | None, disk: QuietDisk) -> None:
    plan = plan_repair(home / PARTITION, config=config, disk=disk)
    if plan.unrepaired and cut_at is not None:
        plan = plan_repair(home / PARTITION, config=config, cut_at=cut_at, disk=disk)
    apply_repair(plan, disk=disk)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_crash_at_any_step(case: Case, scratch: Path) -> None:
    home = scratch / "home"
    home.mkdir()
    config = case.prepare(home)
    before = contents(home / PARTITION)
    disk = RecordingDisk(home)
    plan = plan_repair(home / PARTITION, config=config, cut_at=case.cut_at, disk=disk)
    report = apply_repair(plan, disk=disk)
    after = contents(home / PARTITION)
    recording = disk.recording()
    named = {name for action in report.done for name in action.files}

    seen: set[str] = set()
    quiet = QuietDisk()
    for image in crash_images(recording, bounds=FEW):
        if image.digest in seen:
            continue
        seen.add(image.digest)
        root = scratch / "image"
        shutil.rmtree(root, ignore_errors=True)
        materialise(image, root)
        found = contents(root / PARTITION)
        story = f"cut after {image.cut} ({image.label}); last: {[describe(event) for event in recording.events[image.cut - 3 : image.cut]]}"
        check_bytes(before, after, found, named, story)
        repair(root, config, case.cut_at, quiet)
        mended, wanted = lasting(contents(root / PARTITION)), lasting(after)
        # To finish a replacement takes snapshots away that belong to no segment.
        assert mended.items() <= wanted.items(), (story, sorted(mended.items() ^ wanted.items()))
        assert all(name in STRAY for name in wanted.keys() - mended.keys()), (story, wanted.keys() - mended.keys())
        with Log.open(root / PARTITION, config=dict(config), pool=FilePool(quiet), clock=lambda: 1_700_000_000_000) as log:
            assert not log.load_report.cuts, story
    assert len(seen) > 10


def check_bytes(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, bytes], named: set[str], story: str) -> None:
    """What the repair does not name is as it was. What it replaces is old or new; of what is not there any more, the bytes are aside."""
    everything = list(found.values())
    logs = b"".join(content for name, content in sorted(found.items()) if name.endswith((".log", ".log.cleaned", ".log.swap")))
    for name, content in before.items():
        if name not in named:
            assert found.get(name) == content, (name, story)
        elif not name.endswith(".log"):
            assert found.get(name) in (content, after.get(name), None), (name, story)
        kept = found.get(name, b"")
        if kept != content and any(content):
            # A cut that is not durable yet may leave zeros where the bytes were.
            stays = after.get(name, b"") if name.endswith(".log") and content.startswith(after.get(name, b"")) else b""
            assert kept.startswith(stays) or name not in found, (name, story)
            assert any(part in everything for part in (content, content[len(stays) :])) or content in logs, (name, story)


def test_a_log_that_is_opened_instead_of_repaired_again_has_all_its_records(scratch: Path) -> None:
    home = scratch / "home"
    home.mkdir()
    config = broken_files(home)
    (home / PARTITION / "leader-epoch-checkpoint").unlink()  # while it is unreadable, the log does not open
    disk = RecordingDisk(home)
    apply_repair(plan_repair(home / PARTITION, config=config, disk=disk), disk=disk)
    seen: set[str] = set()
    quiet = QuietDisk()
    for image in crash_images(disk.recording(), bounds=FEW):
        if image.digest in seen:
            continue
        seen.add(image.digest)
        root = scratch / "image"
        shutil.rmtree(root, ignore_errors=True)
        materialise(image, root)
        with Log.open(root / PARTITION, config=dict(config), pool=FilePool(quiet), clock=lambda: 1_700_000_000_000) as log:
            assert [record.offset for record in log.read()] == list(range(18)), image.label
    assert len(seen) > 10


def test_a_salvage_that_was_interrupted_is_whole_or_no_log(scratch: Path) -> None:
    home = scratch / "home"
    (home / "new").mkdir(parents=True)
    rot(home)
    source = contents(home / PARTITION)
    disk = RecordingDisk(home)
    report = salvage(home / PARTITION, home / "new" / PARTITION, disk=disk)
    assert [(lost.first_offset, lost.last_offset) for lost in report.lost] == [(1, 1)]
    whole = [0, *range(2, 18)]
    quiet = QuietDisk()
    seen: set[str] = set()
    outcomes = set()
    for image in crash_images(disk.recording(), bounds=FEW):
        if image.digest in seen:
            continue
        seen.add(image.digest)
        root = scratch / "image"
        shutil.rmtree(root, ignore_errors=True)
        materialise(image, root)
        assert contents(root / PARTITION) == source
        with Log.open(root / "new" / PARTITION, config=dict(SMALL), pool=FilePool(quiet), clock=lambda: 1_700_000_000_000) as log:
            found = [record.offset for record in log.read()]
            assert found in ([], whole), (image.cut, image.label, found)
            outcomes.add(len(found))
            assert not log.load_report.cuts
    assert outcomes == {0, len(whole)}
    assert found == whole
