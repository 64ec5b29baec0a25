"""Staging directories: where they lie, who may use them, and who removes them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.small_stores import open_store
from tidelog.disk.disk import OS
from tidelog.disk.process_identity import ProcessIdentity, ancestors
from tidelog.errors import StagingError
from tidelog.record.kernel.clock import wall_clock
from tidelog.store import staging as module
from tidelog.store.staging import Staging, check_place, discard_labelled, find_staging, left_decisions, sweep_staging

ME = ProcessIdentity.of(os.getpid())


def gone_process() -> ProcessIdentity:
    """One that has ended, and was waited for."""
    program = "import sys; print('here', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    identity = ProcessIdentity.of(process.pid)
    assert identity.is_gone is False
    process.communicate()
    return identity


def make(tmp_path: Path, owner: ProcessIdentity = ME, **options: str | None) -> Staging:
    return Staging.make(OS, str(tmp_path / "data"), owner, **options)


def test_it_lies_beside_the_data_directory_and_is_hidden(tmp_path: Path) -> None:
    staging = make(tmp_path)
    assert Path(staging.path).parent == tmp_path
    assert Path(staging.path).name.startswith(".data.tidelog-staging-")
    with open_store(tmp_path / "data") as store:
        assert store.topics() == []
    assert find_staging(OS, str(tmp_path / "data")) == [staging.path]
    assert find_staging(OS, str(tmp_path / "dat")) == []


def test_it_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    staging = make(tmp_path, within=str(tmp_path / "other"))
    assert Path(staging.path).parent == tmp_path / "other"
    assert find_staging(OS, str(tmp_path / "data"), within=str(tmp_path / "other")) == [staging.path]
    with pytest.raises(StagingError, match="no such directory"):
        check_place(str(tmp_path / "data"), str(tmp_path / "missing"))
    check_place(str(tmp_path / "data"), None)


def test_a_task_knows_the_drivers_directory_by_its_token(tmp_path: Path) -> None:
    staging = make(tmp_path)
    staging.check(OS)
    with pytest.raises(StagingError, match="another staging directory"):
        replace(staging, token="0" * 32).check(OS)
    (Path(staging.path) / "owner.json").write_text("{}")
    with pytest.raises(StagingError, match="without its token"):
        staging.check(OS)
    staging.discard(OS)
    with pytest.raises(StagingError, match="given up meanwhile, or this executor does not share"):
        staging.check(OS)


def test_who_comes_late_fails_and_leaves_nothing(tmp_path: Path) -> None:
    staging = make(tmp_path)
    in_time = OS.create(staging.file("one.batches"))
    staging.discard(OS)
    with pytest.raises(FileNotFoundError):
        OS.create(staging.file("two.batches"))
    OS.write(in_time, [b"late"], 0)
    OS.close(in_time)
    assert list(tmp_path.iterdir()) == []
    staging.discard(OS)  # nothing is wrong with a second time


def test_who_comes_while_it_is_removed_fails_too(tmp_path: Path) -> None:
    """Its name goes first: a file that appears behind the list of names would stay, and the directory with it."""
    staging = make(tmp_path)
    Path(staging.file("one.batches")).touch()
    late: list[str] = []

    def come_late() -> None:
        try:
            OS.close(OS.create(staging.file("late.batches")))
        except FileNotFoundError:
            late.append("failed")

    disk = FaultyDisk()
    disk.run(1, come_late, kind="remove")
    staging.discard(disk)
    assert late == ["failed"]
    assert list(tmp_path.iterdir()) == []


def test_what_belongs_to_nobody_is_swept_and_nothing_else(tmp_path: Path) -> None:
    living, gone = make(tmp_path), make(tmp_path, gone_process())
    Path(gone.file("00000-1.batches")).write_bytes(b"left")
    elsewhere = make(tmp_path, replace(gone_process(), host="elsewhere"))
    other_boot = make(tmp_path, replace(ME, boot_id="before"))
    in_container = make(tmp_path, replace(gone_process(), pid_namespace="pid:[1]"))
    used_again = make(tmp_path, replace(ME, started="1"))
    half_made = tmp_path / ".data.tidelog-staging-half"
    half_made.mkdir()
    removed = sweep_staging(OS, [str(tmp_path / "data")], wall_clock())
    assert set(removed) == {gone.path, other_boot.path, used_again.path}
    left = {living.path, elsewhere.path, in_container.path, str(half_made)}
    assert set(find_staging(OS, str(tmp_path / "data"))) == left
    week_later = wall_clock() + module.ABANDONED_MS + 1000
    assert set(sweep_staging(OS, [str(tmp_path / "data")], week_later)) == left - {living.path}


def test_opening_a_store_sweeps(tmp_path: Path) -> None:
    with open_store(tmp_path / "data"):
        pass
    gone = make(tmp_path, gone_process())
    living = make(tmp_path)
    with tidelog.open(tmp_path / "data"):
        assert find_staging(OS, str(tmp_path / "data")) == [living.path]
    assert not Path(gone.path).exists()


def test_a_sweep_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    staging = make(tmp_path)
    Path(staging.path).rename(staging.path + module.GIVEN_UP)
    assert sweep_staging(OS, [str(tmp_path / "data")], wall_clock()) == [staging.path + module.GIVEN_UP]
    assert list(tmp_path.iterdir()) == []


def test_what_a_pipeline_has_left_is_found_by_its_label(tmp_path: Path) -> None:
    mine, other, none = make(tmp_path, label="mine"), make(tmp_path, label="other"), make(tmp_path)
    discard_labelled(OS, str(tmp_path / "data"), "mine", ME)
    assert not Path(mine.path).exists()
    assert set(find_staging(OS, str(tmp_path / "data"))) == {other.path, none.path}


def test_what_another_that_lives_has_by_the_same_label_is_left_alone(tmp_path: Path) -> None:
    """Two drivers may call their checkpoints alike, as by a relative path."""
    gone, unknown = make(tmp_path, gone_process(), label="same"), make(tmp_path, replace(ME, host="elsewhere"), label="same")
    living = make(tmp_path, ProcessIdentity.of(os.getppid()), label="same")
    Path(living.path + "-2").mkdir()  # half made: it may be somebody's in a moment
    given_up = make(tmp_path, ProcessIdentity.of(os.getppid()), label="same")
    Path(given_up.path).rename(given_up.path + module.GIVEN_UP)
    discard_labelled(OS, str(tmp_path / "data"), "same", ME)
    assert set(find_staging(OS, str(tmp_path / "data"))) == {living.path, living.path + "-2", unknown.path}
    assert not Path(gone.path).exists()


def test_decisions_are_found_though_another_job_removes_its_own_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One directory that had gone kept all others from being looked into."""
    (tmp_path / "data").mkdir()
    left = make(tmp_path, gone_process())
    (Path(left.path) / "commit-0.json").write_text("{}")
    monkeypatch.setattr(module, "find_staging", lambda *_, **__: [f"{left.path}-gone", left.path])
    assert left_decisions(OS, str(tmp_path / "data")) == [(left.path, "commit-0.json", True)]


def test_an_identity_is_written_down_and_read(tmp_path: Path) -> None:
    found = json.loads((Path(make(tmp_path).path) / "owner.json").read_text())
    assert ProcessIdentity.parse(found["owner"]) == ME
    assert ProcessIdentity.parse({"pid": 1}) is None
    assert ProcessIdentity.parse(None) is None
    assert ME.is_gone is False
    assert os.getppid() in dict(ancestors())
