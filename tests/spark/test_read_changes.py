"""What another process does to a log between the plan of a query and its tasks: appends, rolls, compacts, trims, cuts, deletes.

Splits carry offsets, so what was planned is found again wherever it is by then; what is gone is an error, or told and passed over.
"""

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tests.support.spark_reads import ALL, plan_read, rows_of
from tests.support.topics import open_store
from tidelog.errors import DataLossError, InconsistentTopicIdError
from tidelog.log.log import Log
from tidelog.record import NewBatch

TIME = 1_700_000_000_000
SETTINGS = {
    "internal.segment.bytes": 4000,
    "index.interval.bytes": 300,
    "min.cleanable.dirty.ratio": 0,
}
OTHER = """
import sys, tidelog
path, action = sys.argv[1:]
with tidelog.open(path) as store:
    topic, log = store.topic("tide"), store.log("tide", 0)
    if action == "append":
        for _ in range(5):
            topic.append_many([(b"new", b"later")] * 100)
    elif action == "roll":
        log.roll()
    elif action == "compact":
        topic.alter({"cleanup.policy": "compact"})
        assert store.compact("tide", roll=True)
        assert len([record for record in log.read()]) < 100
    elif action == "trim":
        log.delete_records_before(250)
        store.retain("tide")
    elif action == "delete":
        store.delete_topic("tide")
    elif action == "again":
        store.delete_topic("tide")
        store.create_topic("tide").append(b"other")
"""


def another_process(path: Path, *actions: str) -> None:
    for action in actions:
        subprocess.run([sys.executable, "-c", OTHER, str(path), action], check=True, timeout=60)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five hundred records of ten keys in some segments."""
    path = tmp_path_factory.mktemp("written") / "store"
    with open_store(path) as store:
        store.create_topic("tide", config=SETTINGS)
        for first in range(0, 500, 5):
            rows = [(b"k%d" % (number % 10), b"%06d" % number, (), TIME + number) for number in range(first, first + 5)]
            store.log("tide", 0).append(NewBatch(rows).encode())
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "store")
    return tmp_path / "store"


def planned(path: Path, **options: object) -> Iterator[int]:
    """A plan of many tasks; what they read comes as it is asked for."""
    tasks = plan_read(path, {"columns": ALL, "bytesPerPartition": 1500, **options})
    assert len(tasks) > 8
    return (row["offset"] for task in tasks for row in rows_of([task]))


def test_what_is_appended_later_is_not_read(path: Path) -> None:
    offsets = planned(path)
    another_process(path, "append", "roll", "append")
    assert list(offsets) == list(range(500))


def test_compacted_meanwhile(path: Path) -> None:
    offsets = planned(path)
    another_process(path, "compact")
    with tidelog.open(path, mode="r") as store:
        left = [record.offset for record in store.topic("tide").read()]
    assert len(left) < 100
    assert list(offsets) == left


def test_compacted_while_a_task_reads(path: Path) -> None:
    offsets = planned(path)
    begun = [next(offsets) for _ in range(7)]
    another_process(path, "compact")
    rest = list(offsets)
    assert begun == list(range(7))
    assert rest == sorted(rest)
    with tidelog.open(path, mode="r") as store:
        assert {record.offset for record in store.topic("tide").read()} - {*begun} <= {*rest}


def test_trimmed_meanwhile(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strict, lenient = planned(path), planned(path, failOnDataLoss="false")
    another_process(path, "trim")
    with pytest.raises(
        DataLossError, match=r"offsets 0 to \d+ of tide-0 are not there any more: the log starts at 250 \(failOnDataLoss=false"
    ):
        list(strict)
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        assert list(lenient) == list(range(250, 500))
    assert caplog.records


def test_cut_off_meanwhile(path: Path) -> None:
    strict, lenient = planned(path), planned(path, failOnDataLoss="false")
    whole = plan_read(path, {"splitPartitions": "false"})
    with Log.open(path / "tide-0", mode="a") as log:
        log.truncate_to(300)
    with pytest.raises(DataLossError, match="offsets 300 to 499 of tide-0 are not there any more: readers see offsets below 300"):
        rows_of(whole)
    with pytest.raises(DataLossError, match="of tide-0 are not there any more: "):
        list(strict)
    assert list(lenient) == list(range(300))


def test_deleted_meanwhile(path: Path) -> None:
    strict, lenient = planned(path), planned(path, failOnDataLoss="false")
    another_process(path, "delete")
    with pytest.raises(DataLossError, match="its directory is gone"):
        list(strict)
    assert list(lenient) == []


def test_deleted_and_made_again_meanwhile(path: Path) -> None:
    offsets = planned(path, failOnDataLoss="false")
    another_process(path, "again")
    with pytest.raises(InconsistentTopicIdError, match="the topic was deleted, and made again"):
        list(offsets)


def test_a_start_that_is_gone_already(path: Path) -> None:
    another_process(path, "trim")
    early = {"startingOffsets": '{"tide": {"0": 10}}'}
    with pytest.raises(DataLossError, match="offsets 10 to 249 of tide-0 are not there any more"):
        plan_read(path, early)
    assert [row["offset"] for row in rows_of(plan_read(path, {**early, "failOnDataLoss": "false"}))] == list(range(250, 500))


def test_an_end_that_is_not_there_yet(path: Path) -> None:
    late = {"endingOffsets": '{"tide": {"0": 900}}'}
    with pytest.raises(DataLossError, match="offset 900 of tide-0 is beyond what readers see: expected at most 500"):
        plan_read(path, late)
    assert len(rows_of(plan_read(path, {**late, "failOnDataLoss": "false"}))) == 500
