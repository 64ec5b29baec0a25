"""What a compaction in parts takes of the disk: what nobody needs any more goes at once, and what does not fit is not begun."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cleaning import fill, left, open_compacted, plan
from tests.support.in_parts import SECRET, TasksHere
from tests.support.producers import end_of_txn
from tidelog.compaction.cleaning import CleanedLog
from tidelog.compaction.parts_cleaning import clean_in_parts
from tidelog.disk.disk import Disk
from tidelog.errors import DiskFullError
from tidelog.log.log import Log

PLENTY = 1 << 40


class TasksOnce(TasksHere):
    """Does every task once, and notes what lies in the folder before each stage."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()
        self.seen: dict[str, list[str]] = {}

    def run(self, what: str, function: Callable[[Any, str], Any], tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        self.seen[what] = self.names()
        self.stages.append((what, len(tasks)))
        return [function(pickle.loads(pickle.dumps(task)), f"{self.folder}/{what}-{n}") for n, task in enumerate(tasks)]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def clean(log: Log, tasks: TasksOnce) -> Any:
    """In pieces of a batch, so that everything has to be put together."""
    (outcome,) = clean_in_parts([(log, plan(log))], tasks, secret=SECRET, piece_bytes=1, task_bytes=1, staging=str(tasks.folder))
    return outcome


def full_disk(monkeypatch: pytest.MonkeyPatch, free_bytes: Callable[[str], int]) -> None:
    monkeypatch.setattr(Disk, "free_bytes", lambda _, path: free_bytes(path))


def test_keys_go_after_the_search_and_units_when_they_are_put_together(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "b=2 d=1", "a=3")
        log.append(end_of_txn(7, "abort"), origin="coordinator")
        fill(log, "|", "z=1")
        tasks = TasksOnce(tmp_path / "staging")
        assert isinstance(clean(log, tasks), CleanedLog)
        assert any("-keys-" in name for name in tasks.seen["find the last of each key"])
        assert [name for name in tasks.seen["rewrite segments"] if "-keys-" in name] == []
        assert any("-unit-" in name for name in tasks.seen["put segments together"])
        left = [name for name in tasks.names() if "-kept-" not in name and "-transactions-" not in name]
        assert left.pop(0) == "commit-0.json", "until who asked for it has written his checkpoint"
        assert left, "the new segments keep their names here as long as that"
        assert all("-group-" in name and (tmp_path / "staging" / name).stat().st_nlink == 2 for name in left)


def test_what_does_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "b=2 d=1", "|", "z=1")
        before, tasks = left(log), TasksOnce(tmp_path / "staging")
        full_disk(monkeypatch, lambda _: 10)
        with pytest.raises(DiskFullError, match="bytes are missing; nothing was changed") as raised:
            clean(log, tasks)
        assert raised.value.path == str(tasks.folder)
        assert "rewrite segments" not in dict(tasks.stages)
        assert left(log) == before


def test_what_will_go_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is short of space compacts: a log of which little stays must not be refused for what it is now."""
    with open_compacted(tmp_path) as log:
        fill(log, *(f"a={number}" for number in range(100)), "|", "z=1")
        full_disk(monkeypatch, lambda _: log.size_bytes // 10)
        assert isinstance(clean(log, TasksOnce(tmp_path / "staging")), CleanedLog)
        assert left(log) == ["99:a=99", "100:z=1"]


def test_units_and_what_they_become_need_room_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, *(f"k{number}=1" for number in range(20)), "|", "z=1")
        before, tasks = left(log), TasksOnce(tmp_path / "staging")
        full_disk(monkeypatch, lambda _: log.size_bytes * 3 // 2)
        with pytest.raises(DiskFullError):
            clean(log, tasks)
        assert "rewrite segments" not in dict(tasks.stages)
        tasks = TasksOnce(tmp_path / "again")
        full_disk(monkeypatch, lambda _: 10 if any("-unit-" in name for name in tasks.names()) else PLENTY)  # somebody else has taken it
        with pytest.raises(DiskFullError):
            clean(log, tasks)
        assert "put segments together" not in dict(tasks.stages)
        assert left(log) == before


def test_a_log_on_another_disk_needs_room_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "b=2 d=1", "|", "z=1")
        tasks = TasksOnce(tmp_path / "staging")
        full_disk(monkeypatch, lambda path: PLENTY if path == str(tasks.folder) else 10)
        assert isinstance(clean(log, tasks), CleanedLog)  # where they share one, nothing is asked of the other
        fill(log, "a=2", "|", "z=2")
        monkeypatch.setattr(Disk, "file_system", lambda _, path: 1 if path.startswith(str(tmp_path / "again")) else 2)
        tasks = TasksOnce(tmp_path / "again")
        with pytest.raises(DiskFullError) as raised:
            clean(log, tasks)
        assert raised.value.path == log.directory


def test_what_waits_to_be_removed_does_not_wait_when_space_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_compacted(tmp_path, {"file.delete.delay.ms": 60_000}) as log:
        fill(log, "a=1 b=1", "b=2 d=1", "|", "z=1")
        assert isinstance(clean(log, TasksOnce(tmp_path / "staging")), CleanedLog)
        assert log.deleted_bytes
        fill(log, "a=2", "|", "z=2")
        full_disk(monkeypatch, lambda _: 10 if log.deleted_bytes else PLENTY)
        assert isinstance(clean(log, TasksOnce(tmp_path / "again")), CleanedLog)
