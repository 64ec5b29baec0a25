"""Repairs and salvages that are cut off at any disk call: what is broken before, and what must hold in every image.

repair     each file is the old one or the new one, no byte is lost, and a second repair ends where the first would have
salvage    the source is as it was; the target is a whole log, or none; a second salvage has everything again
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import load_case
from tests.support.logs import TIME, QuietDisk, a_batch, files_of, numbered, open_log
from tests.support.producers import abort, commit, in_txn, newest_only, producers_of
from tests.support.recording_disk import Recording, RecordingDisk, describe
from tidelog.disk.file_pool import FilePool
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.repair_plan import RepairReport
from tidelog.inspection.salvage import salvage
from tidelog.log.log import Log

PARTITION = "tide-0"
SMALL = {"internal.segment.bytes": 600, "index.interval.bytes": 100}
STRAY = (f"{1:020d}.snapshot",)
SALVAGE_AGAIN_EVERY = 8

Config = dict[str, Any]


class Case(NamedTuple):
    """A broken directory."""

    name: str
    prepare: Callable[[Path], Config]
    """Makes it; gives back the settings of its log."""
    cut_at: tuple[int, int] | None = None


def a_log(home: Path) -> Path:
    """Plain batches, and some of a producer."""
    with open_log(home, SMALL, disk=QuietDisk()) as log:
        for number in range(14):
            log.append(numbered(number))
        for number in range(4):
            log.append(a_batch(producer_id=7, producer_epoch=0, base_sequence=number))
    return home / PARTITION


def golden(name: str) -> Callable[[Path], Config]:
    """A directory as Kafka left it."""

    def prepare(home: Path) -> Config:
        shutil.copytree(GOLDEN / "recovery" / name / "before", home / PARTITION)
        config: Config = load_case(GOLDEN / "recovery" / name)["config"]
        return config

    return prepare


def broken_files(home: Path) -> Config:
    """Everything that follows from the batches is rubbish, or gone."""
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


def missing_files(home: Path) -> Config:
    """The same of a log with transactions, all of it gone."""
    with open_log(home, SMALL, disk=QuietDisk()) as log:
        for number in range(4):
            log.append(in_txn(1, number))
            log.append(in_txn(2, number))
            abort(log, 1)
            commit(log, 2)
    for path in (home / PARTITION).iterdir():
        if path.suffix != ".log":
            path.unlink()
    return dict(SMALL)


def rot(home: Path) -> Config:
    """One bit of the second batch, with segments behind it."""
    directory = a_log(home)
    flip(directory / f"{0:020d}.log", len(numbered(0)) + 70)
    return dict(SMALL)


def rot_twice(home: Path) -> Config:
    """In the second segment and at the end."""
    directory = a_log(home)
    _, second, *_, last = sorted(directory.glob("*.log"))
    flip(second, 70)
    flip(last, last.stat().st_size - 5)
    return dict(SMALL)


def flip(path: Path, position: int) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


REPAIRS = [
    Case("files", broken_files),
    Case("cut", rot, (0, len(numbered(0)))),
    Case("torn", golden("torn-75-clean")),
    Case("split", golden("overflow-clean")),
    Case("swap", golden("swap-c-all-clean")),
    Case("undo", golden("swap-two-mixed")),
    Case("orphans", golden("orphans-clean")),
    Case("transactions", golden("txnindex-missing")),
]
MORE_REPAIRS = [Case("all missing", missing_files)]
SALVAGES = [Case("rot", rot)]
MORE_SALVAGES = [Case("rot twice", rot_twice), Case("all missing", missing_files), Case("split", golden("overflow-clean"))]


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without what is kept aside."""
    return {name: content for name, content in files.items() if not name.endswith(".tidelog")}


def open_repaired(directory: Path, config: Config) -> Log:
    """The log, on a disk that nobody waits for."""
    return Log.open(directory, config=dict(config), pool=FilePool(QuietDisk()), clock=lambda: TIME)


def check_repair(case: Case, scratch: Path, bounds: Bounds, tally: Tally | None = None) -> RepairReport:
    """Repair it, and look at every image of that."""
    home = scratch / "home"
    home.mkdir()
    config = case.prepare(home)
    before = files_of(home / PARTITION)
    disk = RecordingDisk(home)
    report = apply_repair(plan_repair(home / PARTITION, config=config, cut_at=case.cut_at, disk=disk), disk=disk)
    after = files_of(home / PARTITION)
    recording = disk.recording()
    named = {name for action in report.done for name in action.files}
    with open_repaired(home / PARTITION, config) as log:
        known = newest_only(producers_of(log))
    for image, root in different_images(recording, scratch, bounds, tally):
        with told(recording, image):
            check_bytes(before, after, files_of(root / PARTITION), named)
            repair_again(root, config, case.cut_at)
            mended, wanted = lasting(files_of(root / PARTITION)), lasting(after)
            assert mended.items() <= wanted.items(), sorted(mended.items() ^ wanted.items())
            assert all(_may_be_missing(name, mended) for name in wanted.keys() - mended.keys()), wanted.keys() - mended.keys()
            with open_repaired(root / PARTITION, config) as log:
                assert not log.load_report.cuts
                assert newest_only(producers_of(log)) == known
    shutil.rmtree(home)
    return report


def _may_be_missing(name: str, files: dict[str, bytes]) -> bool:
    """To finish a replacement takes snapshots away that belong to no segment. Where one is there, those behind it need not be."""
    return name in STRAY or (name.endswith(".snapshot") and any(other.endswith(".snapshot") and other < name for other in files))


def repair_again(home: Path, config: Config, cut_at: tuple[int, int] | None) -> None:
    """What whoever finds the directory after the crash does."""
    disk = QuietDisk()
    plan = plan_repair(home / PARTITION, config=config, disk=disk)
    if plan.unrepaired and cut_at is not None:
        plan = plan_repair(home / PARTITION, config=config, cut_at=cut_at, disk=disk)
    apply_repair(plan, disk=disk)


def check_bytes(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, bytes], named: set[str]) -> None:
    """What the repair does not name is as it was. What it replaces is old or new; of what is not there any more, the bytes are aside."""
    everything = list(found.values())
    logs = b"".join(content for name, content in sorted(found.items()) if name.endswith((".log", ".log.cleaned", ".log.swap")))
    for name, content in before.items():
        if name not in named:
            assert found.get(name) == content, name
        elif not name.endswith(".log"):
            assert found.get(name) in (content, after.get(name), None), name
        kept = found.get(name, b"")
        if kept != content and any(content):
            # A cut that is not durable yet may leave zeros where the bytes were.
            stays = after.get(name, b"") if name.endswith(".log") and content.startswith(after.get(name, b"")) else b""
            assert kept.startswith(stays) or name not in found, name
            assert any(part in everything for part in (content, content[len(stays) :])) or content in logs, name


def check_salvage(case: Case, scratch: Path, bounds: Bounds, tally: Tally | None = None) -> None:
    """Salvage it, and look at every image of that."""
    home = scratch / "home"
    (home / "new").mkdir(parents=True)
    config = case.prepare(home)
    source = files_of(home / PARTITION)
    disk = RecordingDisk(home)
    report = salvage(home / PARTITION, home / "new" / PARTITION, disk=disk)
    with open_repaired(home / "new" / PARTITION, config) as log:
        whole = [record.offset for record in log.read()]
    recording = disk.recording()
    outcomes: set[tuple[int, ...]] = set()
    found: list[int] = []
    for number, (image, root) in enumerate(different_images(recording, scratch, bounds, tally)):
        with told(recording, image):
            assert files_of(root / PARTITION) == source
            with open_repaired(root / "new" / PARTITION, config) as log:
                found = [record.offset for record in log.read()]
                assert found in ([], whole), found
                assert not log.load_report.cuts
            outcomes.add(tuple(found))
            if number % SALVAGE_AGAIN_EVERY == 0:
                again = salvage(root / PARTITION, root / "again" / PARTITION, disk=QuietDisk())
                assert (again.batch_count, again.lost) == (report.batch_count, report.lost)
    assert outcomes == {(), tuple(whole)}
    assert found == whole
    shutil.rmtree(home)


def different_images(recording: Recording, scratch: Path, bounds: Bounds, tally: Tally | None = None) -> Iterator[tuple[Image, Path]]:
    """Each image once, on disk."""
    seen: set[str] = set()
    for image in crash_images(recording, bounds=bounds):
        if image.digest in seen:
            continue
        seen.add(image.digest)
        root = scratch / "image"
        shutil.rmtree(root, ignore_errors=True)
        materialise(image, root)
        yield image, root
    shutil.rmtree(scratch / "image")
    assert len(seen) > 10
    if tally is not None:
        tally.opened += len(seen)
        tally.images += len(seen)


@contextmanager
def told(recording: Recording, image: Image) -> Iterator[None]:
    """Whatever is wrong is told with the moment at which the power was cut."""
    try:
        yield
    except Exception as error:
        last = [describe(event) for event in recording.events[max(0, image.cut - 5) : image.cut]]
        story = [f"cut after {image.cut} of {len(recording.events)} events: {image.label}", f"{type(error).__name__}: {error}", *last]
        raise CrashViolationError("\n  ".join(story), image) from error
