"""The power is cut at every moment of a repair: each file is the old one or the new one, no byte is lost, a second repair ends the same.

A salvage that is cut off leaves no log, or all of it. What is broken, and what is looked at, is in `crash_repair`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_images import FEW, FEWER, scratch_directory
from tests.support.crash_repair import (
    MORE_SALVAGES,
    PARTITION,
    REPAIRS,
    SALVAGES,
    Case,
    broken_files,
    check_repair,
    check_salvage,
    different_images,
    open_repaired,
    told,
)
from tests.support.recording_disk import RecordingDisk
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.repair_plan import Action


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


@pytest.mark.parametrize("case", REPAIRS, ids=lambda case: case.name)
def test_a_crash_at_any_step(case: Case, scratch: Path) -> None:
    check_repair(case, scratch, FEW)


def test_every_kind_of_action_is_cut_off_somewhere(scratch: Path) -> None:
    kinds: set[str] = set()
    for number, case in enumerate(REPAIRS):
        home = scratch / str(number)
        home.mkdir()
        config = case.prepare(home)
        kinds |= {type(action).__name__ for action in plan_repair(home / PARTITION, config=config, cut_at=case.cut_at).actions}
    assert kinds == {kind.__name__ for kind in Action.__subclasses__()}


def test_a_log_that_is_opened_instead_of_repaired_again_has_all_its_records(scratch: Path) -> None:
    home = scratch / "home"
    home.mkdir()
    config = broken_files(home)
    (home / PARTITION / "leader-epoch-checkpoint").unlink()  # while it is unreadable, the log does not open
    disk = RecordingDisk(home)
    apply_repair(plan_repair(home / PARTITION, config=config, disk=disk), disk=disk)
    recording = disk.recording()
    for image, root in different_images(recording, scratch, FEWER):
        with told(recording, image), open_repaired(root / PARTITION, config) as log:
            assert [record.offset for record in log.read()] == list(range(18))


@pytest.mark.parametrize("case", [*SALVAGES, MORE_SALVAGES[-1]], ids=lambda case: case.name)
def test_a_salvage_that_was_interrupted_is_whole_or_no_log(case: Case, scratch: Path) -> None:
    check_salvage(case, scratch, FEWER)
