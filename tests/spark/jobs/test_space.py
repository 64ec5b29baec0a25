"""What jobs that move topics take of the disk: pieces go when they were put together, and what does not fit is not begun."""

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark.jobs.move_process import KEYS
from tests.spark.jobs.moving import PIECE_BYTES, copy_here, forget_here, restore_here, rows_of
from tests.support.job_topics import files_of, make_topic
from tidelog.compaction.parts_commit import swap_in
from tidelog.disk.disk import Disk
from tidelog.errors import DiskFullError
from tidelog.log.segment_piece import SegmentPiece
from tidelog.spark.jobs import copy_job, export_job
from tidelog.spark.jobs.export_job import SUCCESS, run_export
from tidelog.spark.jobs.export_plan import ExportOptions
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.store import forgetting
from tidelog.store.copy_commit import commit_store
from tidelog.store.copy_plan import SourceSegment
from tidelog.store.copy_space import copy_bytes
from tidelog.store.copying import CopiedLog


def staged_logs(folder: str) -> set[str]:
    return {str(path) for path in Path(folder).glob("*.log")}


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: 10)


@pytest.fixture
def full_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let a call of the disk fail for paths that end so."""

    def fail(call: str, ending: str) -> None:
        real = getattr(Disk, call)

        def refuse(self: Disk, path: str, *rest: Any, **options: Any) -> Any:
            if path.endswith(ending):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            return real(self, path, *rest, **options)

        monkeypatch.setattr(Disk, call, refuse)

    return fail


@pytest.mark.parametrize("until", [None, {"tide-0": 300}])
def test_a_copy_has_nothing_staged_but_what_it_becomes(
    until: dict[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an end in the midst of a transaction it is made a second time, and the first one goes."""
    make_topic(tmp_path / "store", batches=150)
    staged: list[tuple[set[str], set[str]]] = []

    def commit(disk: Any, staging: Any, target: str, logs: list[CopiedLog], *rest: Any) -> None:
        staged.append((staged_logs(staging.path), {f"{segment.path}.log" for log in logs for segment in log.segments}))
        commit_store(disk, staging, target, logs, *rest)

    monkeypatch.setattr(copy_job, "commit_store", commit)
    result = copy_here(tmp_path / "store", tmp_path / "copy", until=until)
    assert dict(result.stages)["copy batches"] > 2
    assert ("copy batches, before a transaction" in dict(result.stages)) == (until is not None)
    ((found, expected),) = staged
    assert found == expected


def test_what_is_forgotten_has_nothing_staged_but_what_it_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(tmp_path / "store", batches=150)
    staged: list[tuple[str, set[str]]] = []

    def swap(log: Any, members: Any, path: str, sizes: Any) -> None:
        staged.append((path, staged_logs(path.rpartition("/")[0])))
        swap_in(log, members, path, sizes)

    monkeypatch.setattr(forgetting, "swap_in", swap)
    forget_here(tmp_path / "store", KEYS, piece_bytes=PIECE_BYTES)
    assert any("-joined-" in path for path, _ in staged)
    assert staged[0][1] == {f"{path}.log" for path, _ in staged}


@pytest.mark.usefixtures("full_disk")
def test_a_copy_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    for make in (copy_here, restore_here):
        with pytest.raises(DiskFullError, match="nothing was made"):
            make(tmp_path / "store", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    copy_here(tmp_path / "store", tmp_path / "new", keys=[b"no such key"])  # how little that is nobody knows before


@pytest.mark.usefixtures("full_disk")
def test_what_cannot_be_written_anew_is_not_forgotten(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    before = rows_of(tmp_path / "store")
    with pytest.raises(DiskFullError, match="nothing was changed"):
        forget_here(tmp_path / "store", KEYS)
    assert rows_of(tmp_path / "store") == before
    forget_here(tmp_path / "store", [b"no such key"])  # nothing to be written


def test_segments_in_pieces_are_there_twice_for_a_while() -> None:
    whole = SourceSegment((SegmentPiece("d", 0, 640, 0, 640),), 0, 640, 0)
    cut = SourceSegment((SegmentPiece("d", 9, 640, 0, 320), SegmentPiece("d", 9, 640, 320, 640)), 9, 640, 0)
    sources: Any = [SimpleNamespace(size_bytes=1280, segments=(whole, cut))]
    assert copy_bytes(sources) == 1280 + 640 + 20


def test_an_export_on_a_disk_that_gets_full_is_not_there(tmp_path: Path, full_for: Callable[[str, str], None]) -> None:
    make_topic(tmp_path / "store", batches=20)
    before = files_of(tmp_path / "store")
    full_for("create", SUCCESS)
    options = ExportOptions.of("parquet", None, "topic", None, "base64", "committed")
    with pytest.raises(DiskFullError, match="it is not there") as raised:
        run_export(LocalTasks("export"), tmp_path / "store", "tide", tmp_path / "export", options)
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert files_of(tmp_path / "store") == before


def test_a_table_without_its_last_note_is_not_there(
    tmp_path: Path, full_for: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_job, "note_iceberg", lambda *_: None)
    full_for("create", SUCCESS)
    options: Any = SimpleNamespace(format="iceberg", suffix=".parquet")
    with pytest.raises(DiskFullError):
        export_job._commit(str(tmp_path / "tree"), str(tmp_path / "table"), options, [])
    assert not (tmp_path / "table").exists()
