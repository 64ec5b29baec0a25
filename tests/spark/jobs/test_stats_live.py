"""`stats` of a log whose segments are swapped and removed while tasks count: no Spark is needed for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.job_topics import make_topic
from tests.support.logs import TIME
from tidelog.inspection.stats import piece_stats, stats
from tidelog.log.segment import Segment
from tidelog.log.segment_piece import SegmentPiece, cut_segment
from tidelog.spark.jobs import stats_job
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.stats_job import run_stats
from tidelog.store.store import Store

PIECE_BYTES = 3000


class Busy(LocalTasks):
    """Somebody does something just before tasks come to their segments."""

    def __init__(self, *changes: Callable[[], object]) -> None:
        super().__init__("stats")
        self.changes = list(changes)

    def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
        if self.changes:
            self.changes.pop(0)()
        return super().run(what, function, tasks, here=here)


def compact(directory: Path) -> None:
    with Store.open(directory, background=False, clock=lambda: TIME + 1_000_000) as store:
        store.compact("tide")


def retain(directory: Path) -> None:
    """Let go of the first segment that is left."""
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        store.topic("tide").alter({"cleanup.policy": "delete"})
        log = store.log("tide", 0)
        log.delete_records_before(log.segments[1].base_offset)
        store.retain("tide")


@pytest.mark.parametrize("records", [False, True])
def test_segments_that_were_swapped_are_counted_as_they_are(records: bool, tmp_path: Path) -> None:
    make_topic(tmp_path, partitions=2)
    tasks = Busy(lambda: compact(tmp_path))
    found = run_stats(tasks, str(tmp_path), ["tide"], records=records, piece_bytes=PIECE_BYTES)
    expected = [one for name in ("tide-0", "tide-1") for one in stats(tmp_path / name, records=records)]
    assert [(one.base_offset, one.records, one.size_bytes, one.distinct_keys) for one in found] == [
        (one.base_offset, one.records, one.size_bytes, one.distinct_keys) for one in expected
    ]
    assert sum(one.damaged_bytes for one in found) == 0
    assert [what for what, _ in tasks.stages] == ["count", "count again"]


def test_a_segment_that_took_in_others_behind_the_counting(tmp_path: Path) -> None:
    """It was counted before, and as it was; what is in it now belonged to segments that are gone."""
    make_topic(tmp_path)

    class Between(LocalTasks):
        def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
            first = super().run(what, function, tasks[:1], here=here)
            if what == "count":
                compact(tmp_path)
            return first + super().run(what, function, tasks[1:], here=here)

    tasks = Between("stats")
    tasks.workers = 9
    found = run_stats(tasks, str(tmp_path), None, piece_bytes=1 << 20)
    assert found == stats(tmp_path / "tide-0")


def test_a_segment_that_went_is_left_out(tmp_path: Path) -> None:
    make_topic(tmp_path)
    found = run_stats(Busy(lambda: retain(tmp_path)), str(tmp_path), None, piece_bytes=PIECE_BYTES)
    assert found == stats(tmp_path / "tide-0")
    assert found


def test_what_goes_between_the_two_looks_is_left_out(tmp_path: Path) -> None:
    make_topic(tmp_path, batches=600, keys=2000)
    found = run_stats(Busy(lambda: compact(tmp_path), lambda: retain(tmp_path)), str(tmp_path), None, piece_bytes=PIECE_BYTES)
    assert found == stats(tmp_path / "tide-0")
    assert found


def test_a_segment_that_goes_before_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(tmp_path)
    is_due = [True]

    def late(segment: Segment, target_bytes: int) -> list[SegmentPiece]:
        if is_due.pop() if is_due else False:
            retain(tmp_path)
            raise FileNotFoundError(2, "gone", segment.directory)
        return cut_segment(segment, target_bytes)

    monkeypatch.setattr(stats_job, "cut_segment", late)
    assert run_stats(LocalTasks("stats"), str(tmp_path), None, piece_bytes=PIECE_BYTES) == stats(tmp_path / "tide-0")


@pytest.mark.parametrize("records", [False, True])
def test_bytes_that_went_away_are_no_damage(records: bool, tmp_path: Path) -> None:
    make_topic(tmp_path, batches=40)
    (first, *_) = stats(tmp_path / "tide-0")
    longer = SegmentPiece(str(tmp_path / "tide-0"), 0, first.size_bytes + 500, 0, first.size_bytes + 500)
    found = piece_stats(longer, records=records)
    assert (found.damaged_bytes, found.size_bytes, found.records) == (0, first.size_bytes, first.records)
