"""`make crash` itself: it ends well where all is well, and says so where it is not."""

import multiprocessing
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import long_run
from tests.support.crash_images import FEWER
from tests.support.crash_workloads import PLAIN
from tests.support.recording_disk import RecordingDisk


@pytest.fixture
def two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def tasks() -> Iterator[long_run.Task]:
        yield long_run.images_of(PLAIN[9], FEWER, 0)
        yield long_run.images_of(PLAIN[0], FEWER, 0)

    monkeypatch.setattr(long_run, "fixed_tasks", tasks)


@pytest.mark.usefixtures("two_tasks")
def test_it_ends_when_all_was_looked_at(capfd: pytest.CaptureFixture[str]) -> None:
    assert long_run.main(["--images", "1", "--kills", "4", "--jobs", "2"]) == 0
    told = capfd.readouterr().out
    assert len(re.findall(r"different ones of .* in (?:truncate_inside|single_appends)", told)) == 2
    assert told.count("2 kills") == 2
    assert re.search(r"\n\d+ different images opened, 4 kills, \d+ s, no violation\n$", told)


@pytest.mark.usefixtures("two_tasks")
def test_a_sync_that_is_left_out_is_a_violation(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sync = RecordingDisk.sync

    def forgetful(disk: RecordingDisk, fd: int) -> None:
        if not Path(f"/proc/self/fd/{fd}").readlink().name.endswith(".log"):
            sync(disk, fd)

    monkeypatch.setattr(RecordingDisk, "sync", forgetful)
    assert long_run.main(["--images", "1", "--kills", "2", "--jobs", "2", "--seed", "7"]) == 1
    told = capfd.readouterr().out
    found = re.search(r"VIOLATION in '.*', seed 7, the directory before it was opened: (\S+)/log\ncut after", told)
    assert found is not None, told
    assert (Path(found[1]) / "log" / "t-0").is_dir()


class EndsBetweenTwoLooks:
    """A process that has failed, but that is not known yet at the first look."""

    def __init__(self) -> None:
        self.sentinel, writing = os.pipe()
        os.close(writing)
        self.looks = 0

    @property
    def exitcode(self) -> int | None:
        self.looks += 1
        return None if self.looks == 1 else 1

    def start(self) -> None:
        pass

    def terminate(self) -> None:
        pass

    def join(self) -> None:
        os.close(self.sentinel)


def test_a_violation_of_the_process_that_ends_last_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    job = long_run.Job(0, 1, 0, 0, 0, multiprocessing.Value("q", 0), 0.0)
    monkeypatch.setattr(multiprocessing.get_context("fork"), "Process", lambda target: EndsBetweenTwoLooks(), raising=False)
    assert long_run.run_jobs([job]) == 1
