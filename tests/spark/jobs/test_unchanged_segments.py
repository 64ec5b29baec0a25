"""What a task of `table` or `history` notices of a cleaner that is at work while it reads: no Spark is needed for it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.keyed_topics import Version, make_keyed, state
from tests.support.logs import TIME
from tidelog import Time
from tidelog.disk.names import CLEANER_CHECKPOINT
from tidelog.errors import UnknownPastError
from tidelog.record import NewBatch
from tidelog.spark.jobs import keyed_plan
from tidelog.spark.jobs.history_job import plan_history
from tidelog.spark.jobs.keyed_frame import KeyedItem, rows_of
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.table_job import DEFAULT_COLUMNS, plan_table
from tidelog.store.store import Store

LATER = TIME + 1_000_000
COLUMNS = ("topic", "key", "value", "partition", "offset", "timestamp")


def opened(directory: Path) -> Store:
    return Store.open(directory, background=False, clock=lambda: LATER)


def planned_table(directory: Path, as_of: Any, piece_bytes: int | None = None, tasks: Any = None) -> list[list[KeyedItem]]:
    how: dict[str, Any] = {"allow_incomplete": False, "columns": DEFAULT_COLUMNS, "isolation": "committed", "piece_bytes": piece_bytes}
    return plan_table(tasks or LocalTasks("table"), directory, "tide", as_of=as_of, **how)[1]


def planned_history(directory: Path, start: Any = None) -> list[list[KeyedItem]]:
    how: dict[str, Any] = {"keys": None, "as_of": None, "allow_incomplete": False, "isolation": "committed", "piece_bytes": None}
    return plan_history(LocalTasks("history"), directory, "tide", start=start, **how)[1]


def read(tasks: list[list[KeyedItem]]) -> list[Version]:
    rows = [row for items in tasks for batch in rows_of(items, COLUMNS) for row in batch.to_pylist()]
    return [Version(row["key"], row["value"], row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000)) for row in rows]


def swap_without_checkpoint(directory: Path, change: Callable[[Store], object] = lambda store: store.compact("tide")) -> None:
    """What a cleaner has done when it was about to write its checkpoint: all that it does before that."""
    checkpoint = directory / CLEANER_CHECKPOINT
    before = checkpoint.read_bytes() if checkpoint.exists() else None
    with opened(directory) as store:
        change(store)
    if before is None:
        checkpoint.unlink(missing_ok=True)
    else:
        checkpoint.write_bytes(before)


def append(directory: Path, count: int) -> None:
    with opened(directory) as store:
        for number in range(count):
            store.log("tide", 0).append(NewBatch([(b"key-%d" % (number % 30), b"new" * 9, (), LATER)]).encode())


@pytest.mark.parametrize("asked", [30, Time(TIME + 5000)], ids=["offset", "time"])
def test_swaps_before_the_checkpoint_are_noticed(asked: Any, tmp_path: Path) -> None:
    make_keyed(tmp_path, partitions=1)
    tables, histories = planned_table(tmp_path, asked), planned_history(tmp_path)
    swap_without_checkpoint(tmp_path)
    for tasks in (tables, histories):
        with pytest.raises(UnknownPastError, match=r"tide-0 was compacted since this was planned.*other segments.*plan it again"):
            read(tasks)


def test_a_second_pass_below_the_checkpoint_is_noticed(tmp_path: Path) -> None:
    """Nobody looks for gaps there, and it is where the pass begins."""
    make_keyed(tmp_path, partitions=1)
    with opened(tmp_path) as store:
        store.compact("tide")
        point = store.log("tide", 0).segments[-1].base_offset
    append(tmp_path, 200)
    tasks = planned_table(tmp_path, point)
    only_below = tmp_path / "as it was"
    shutil.copytree(tmp_path / "tide-0", only_below)
    swap_without_checkpoint(tmp_path)
    for path in only_below.iterdir():  # the pass has come no further than the first segment
        if path.suffix in (".log", ".index", ".timeindex") and int(path.stem) >= point:
            shutil.copy2(path, tmp_path / "tide-0" / path.name)
    with pytest.raises(UnknownPastError, match="was compacted since this was planned"):
        read(tasks)


def test_what_can_still_be_told_is_told(tmp_path: Path) -> None:
    versions = make_keyed(tmp_path, partitions=1)
    now, latest = planned_table(tmp_path, None), planned_table(tmp_path, Time(LATER))
    with opened(tmp_path) as store:
        end = store.log("tide", 0).segments[-1].base_offset - 1
    at_the_end = planned_history(tmp_path, end)
    swap_without_checkpoint(tmp_path)
    for tasks in (now, latest):
        assert state(read(tasks)) == state(versions)
    assert {one.offset for one in versions if one.offset > end} <= {one.offset for one in read(at_the_end)}


def test_what_changes_elsewhere_is_no_matter(tmp_path: Path) -> None:
    """A roll, retention, and a pass that leaves alone what the split reads of."""
    versions = make_keyed(tmp_path, partitions=1, policy="delete")
    tasks = planned_table(tmp_path, None)
    append(tmp_path, 200)
    assert state(read(tasks)) == state(versions)
    with opened(tmp_path) as store:
        second = store.log("tide", 0).segments[1].base_offset
    rest = [item for own in planned_table(tmp_path, None, 3000) for item in own if item.split.start_offset >= second]
    at_first = [item for own in planned_table(tmp_path, None, 3000) for item in own if item.split.end_offset <= second]
    iterators = [rows_of([item], COLUMNS) for item in at_first]
    for batches in iterators:
        next(batches)  # read, but not looked whether it counts
    with opened(tmp_path) as store:
        store.log("tide", 0).delete_records_before(second)
        store.retain("tide")
    assert not (tmp_path / "tide-0" / f"{0:020d}.log").exists()
    assert read([rest])
    assert iterators
    for batches in iterators:
        list(batches)


def test_a_segment_that_goes_while_gaps_are_looked_for(tmp_path: Path) -> None:
    """The driver plans once more, instead of a task that fails in every attempt."""
    versions = make_keyed(tmp_path, partitions=1, policy="delete")
    removed = sorted((tmp_path / "tide-0").glob("*.log"))[0]

    class Retention(LocalTasks):
        is_due = True

        def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
            if what == "look for gaps" and self.is_due:
                self.is_due = False
                for path in removed.parent.glob(f"{removed.stem}.*"):
                    path.unlink()
            return super().run(what, function, tasks, here=here)

    last = versions[-1].offset
    found = read(planned_table(tmp_path, last, tasks=Retention("table")))
    start = int(sorted((tmp_path / "tide-0").glob("*.log"))[0].stem)
    assert {one.offset for one in found} <= set(range(start, last + 1))
    assert found


def test_segments_that_go_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_keyed(tmp_path, partitions=1)

    def gone(piece: Any) -> Any:
        raise FileNotFoundError(2, "gone", piece.directory)

    monkeypatch.setattr(keyed_plan, "span_of", gone)
    with pytest.raises(UnknownPastError, match="again and again"):
        planned_table(tmp_path, 30)
