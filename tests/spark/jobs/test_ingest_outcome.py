"""What an ingest says of itself: where its records are, and whether it was a repetition. No Spark is needed for it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import TIME
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import JobFailedError
from tidelog.record import NewBatch
from tidelog.spark.commit_report import read_report, write_report
from tidelog.spark.jobs import local_ingest
from tidelog.spark.jobs.ingest_outcome import AppendedRange, Ingested, may_be_there, no_report
from tidelog.spark.jobs.local_ingest import ingest_here
from tidelog.spark.jobs.progress import bar, progress_of
from tidelog.spark.jobs.task_errors import typed_error
from tidelog.store.sink_commit import SinkCommitted, commit_staged
from tidelog.store.store import Store
from tidelog.store.transactions.ledger import LedgerEntry

COLUMNS = {"key": "key", "value": "value", "headers": None, "timestamp": None, "partition": None}
COMMITTED = "it may have been committed: look before you run it again"


def append(directory: Path, topic: str, count: int) -> None:
    """Somebody else writes."""
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        if topic not in [one.name for one in store.topics()]:
            store.create_topic(topic)
        for _ in range(count):
            store.log(topic, 0).append(NewBatch([(b"other", b"value", (), TIME)]).encode())


def ingest(tmp_path: Path, **how: Any) -> Ingested:
    (tmp_path / "rows.json").write_text('{"key": "a", "value": "x"}\n{"key": "b", "value": "y"}\n')
    return ingest_here([str(tmp_path / "rows.json")], str(tmp_path / "s"), "t", columns=COLUMNS, **how)


def test_records_of_others_are_not_counted_as_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "s", "t", 3)
    append(tmp_path / "s", "elsewhere", 1)

    def busy(*args: Any, **options: Any) -> Any:
        append(tmp_path / "s", "t", 4)
        append(tmp_path / "s", "elsewhere", 2)
        done = commit_staged(*args, **options)
        append(tmp_path / "s", "t", 5)
        return done

    monkeypatch.setattr(local_ingest, "commit_staged", busy)
    done = ingest(tmp_path, transactional_id="load")
    assert done.ranges == (AppendedRange(TopicPartition("t", 0), 7, 10),)  # two records and the end of the transaction
    assert not done.was_there_already
    again = ingest(tmp_path, transactional_id="load")
    assert (again.records, again.ranges, again.was_there_already) == (2, (), True)


def test_no_rows_are_no_repetition(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("")
    done = ingest_here([str(tmp_path / "none.json")], str(tmp_path / "s"), "t", columns=COLUMNS, transactional_id="load")
    assert (done.records, done.ranges, done.was_there_already) == (0, (), False)


def test_a_commit_says_what_it_has_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = f"{tmp_path}/report"
    assert read_report(OS, path) is None
    ranges = ((TopicPartition("t", 0), 7, 10), (TopicPartition("t", 1), 0, 2))
    for done, expected in (
        (SinkCommitted(3, ranges=ranges), (False, ranges)),
        (SinkCommitted(0, LedgerEntry("batch/load", 0)), (True, ())),
        (None, (False, ())),
    ):
        write_report(OS, path, done)
        assert read_report(OS, path) == expected
    Path(path).write_text('{"records": 3, "was')
    assert read_report(OS, path) is None
    write_report(OS, f"{tmp_path}/gone/report", None)  # what is committed is not undone for it
    assert "the commit is done, but the report of it could not be written" in caplog.text
    for name, hint in ((None, COMMITTED), ("load", "is safe: what it has committed is not appended twice")):
        assert hint in str(no_report("ingest", name))


@pytest.mark.parametrize("text", ["something", "Python worker exited unexpectedly", "ValueError: x"])
def test_a_run_that_fails_may_have_committed(text: str) -> None:
    """Nobody knows where it failed: of no other job what is changed is there before it is over."""
    for name, hint in ((None, COMMITTED), ("load", "is safe: what it has committed is not appended twice")):
        error = may_be_there(typed_error(RuntimeError(text), "ingest"), name)
        assert isinstance(error, JobFailedError)
        assert hint in str(error)
        assert "nothing was changed" not in str(error)


def test_tasks_that_nobody_can_count_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Spark Connect does not say how many there are, and otherwise Spark would run a part of it to find out."""
    for tasks, told in ((-1, ""), (1, "1 task, "), (2, "2 tasks, ")):
        with progress_of("tidelog ingest into t", None, tasks, asked=True):
            pass
        assert capsys.readouterr().err.startswith(f"tidelog ingest into t: {told}0.")
    assert bar("tidelog ingest into t", 3, -1) == "tidelog ingest into t 3"
    assert bar("tidelog ingest into t", 3, 4).endswith("] 3/4")
    for tasks, told in ((-1, ""), (2, "; 2 tasks")):
        planned = Ingested("s", "t", True, (("value", "string"),), 0, (), (("write", tasks),), False)
        assert str(planned) == f"would be appended to s, topic t: value string{told}"


def test_lines_come_through_a_pipe(tmp_path: Path) -> None:
    """As of what a shell has unpacked: `<(zstd -dc lines.zst)`. It has no size, and nobody can ask it how far it was read."""
    os.mkfifo(tmp_path / "lines")
    with ThreadPoolExecutor(1) as executor:
        writing = executor.submit((tmp_path / "lines").write_text, "one\ntwo\n")
        done = ingest_here([str(tmp_path / "lines")], str(tmp_path / "s"), "t", columns=dict.fromkeys(COLUMNS), form="text")
        assert writing.result() == 8
    assert done.records == 2
