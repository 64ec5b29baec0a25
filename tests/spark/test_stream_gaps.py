"""Offsets without rows, and why: compacted, markers, aborted, expired, lost; found in real logs, told in the log and in a file."""

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark.jobs.moving import copy_here, findings, forget_here
from tests.spark.streams import EARLIEST, fill, next_batch, read_all, rows_of, stream, tasks_of
from tests.support.compacted_stores import compacted, offsets_in, put
from tests.support.logs import TIME, follower_batches, open_log
from tests.support.producers import abort, commit, sent
from tests.support.small_stores import open_store as open_small_store
from tests.support.topics import SMALL, TopicModel, open_store
from tidelog.disk.names import TopicPartition
from tidelog.errors import DataLossError, InvalidConfigError
from tidelog.log.read_only import ReadOnlyLog
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark.gaps import Gap, KeptAs, read_gaps, summarize
from tidelog.store.store import Store

TIDE = TopicPartition("tide", 0)


def gaps_in(directory: Path, *arguments: Any, **options: Any) -> list[tuple[str, int, int, int]]:
    return [(gap.kind, gap.start_offset, gap.end_offset, gap.missing) for gap in read_gaps(directory, *arguments, **options)]


def test_what_the_cleaner_took_is_compacted(tmp_path: Path) -> None:
    with open_small_store(tmp_path) as store:
        log = store.create_topic("tide", 1, compacted()).log(0)
        put(log, *[(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"), (b"c", b"5"), (b"d", b"6"), (b"e", b"7")])
        store.compact("tide")
        left = offsets_in(log)
        assert left == [2, 3, 4, 5, 6]
        assert gaps_in(tmp_path / "tide-0") == [("compacted", 0, 2, 2)]
        assert gaps_in(tmp_path / "tide-0", 1, 4) == [("compacted", 1, 2, 1)]
        assert gaps_in(tmp_path / "tide-0", 2, 4) == []


def test_a_batch_of_which_some_records_are_left_is_counted_where_it_ends(tmp_path: Path) -> None:
    with open_small_store(tmp_path) as store:
        log = store.create_topic("tide", 1, compacted(internal_segment_bytes=300)).log(0)
        log.append(NewBatch([(key, b"v", (), TIME) for key in (b"a", b"b", b"c", b"d")], settings=BatchSettings()).encode())
        put(log, *[(b"a", b"1"), (b"d", b"2"), (b"x", b"3"), (b"y", b"4"), (b"z", b"5"), (b"w", b"6")])
        store.compact("tide", roll=True)
        assert offsets_in(log)[:2] == [1, 2]
        assert gaps_in(tmp_path / "tide-0", 0, 4) == [("compacted", 0, 4, 2)]
        assert gaps_in(tmp_path / "tide-0", 0, 2) == []
        assert gaps_in(tmp_path / "tide-0", 2, 9) == [("compacted", 2, 4, 2)]


def test_markers_and_what_they_aborted(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("tide", 1, SMALL).log(0)
        log.append(sent(1, 0, 2, is_transactional=True))
        abort(log, 1)
        log.append(sent(1, 2, 3, is_transactional=True))
        commit(log, 1)
        assert gaps_in(tmp_path / "tide-0") == [("aborted", 0, 2, 2), ("marker", 2, 3, 1), ("marker", 6, 7, 1)]
        assert gaps_in(tmp_path / "tide-0", isolation="high_watermark") == [("marker", 2, 3, 1), ("marker", 6, 7, 1)]


def test_below_the_start_is_expired_and_above_the_end_is_lost(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("tide", 1, SMALL)
        fill(topic, 10)
        topic.log(0).delete_records_before(4)
        assert gaps_in(tmp_path / "tide-0", 1, 12) == [("expired", 1, 4, 3), ("lost", 10, 12, 2)]
        assert gaps_in(tmp_path / "tide-0", 1, 3) == [("expired", 1, 3, 2)]
        topic.log(0).truncate_to(8)
        assert gaps_in(tmp_path / "tide-0", 5, 10) == [("lost", 8, 10, 2)]
        assert gaps_in(tmp_path / "tide-0", 9, 10) == [("lost", 9, 10, 1)]


@pytest.mark.leaves
@pytest.mark.parametrize(("policy", "kind"), [("delete", "lost"), ("compact", "compacted")])
def test_a_hole_where_no_cleaner_works_is_lost(tmp_path: Path, policy: str, kind: str) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("tide", 1, {**SMALL, "cleanup.policy": policy}).log(0)
        log.append_as_follower(follower_batches((0, 3), (5, 2)))
        log.flush()
        log.high_watermark = 7
    assert gaps_in(tmp_path / "tide-0", 0, 7) == [(kind, 3, 5, 2)]


@pytest.mark.leaves
def test_a_hole_of_which_nothing_is_known_is_taken_for_the_cleaners(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append_as_follower(follower_batches((0, 3), (5, 2)))
        log.flush()
        log.high_watermark = 7
    assert gaps_in(tmp_path / "tide-0", 0, 7, isolation="high_watermark")[:1] == [("compacted", 3, 5, 2)]


@pytest.mark.parametrize(
    ("kept", "kind"),
    [
        (KeptAs(), "compacted"),
        (KeptAs("compact"), "compacted"),
        (KeptAs("delete"), "lost"),
        (KeptAs("delete", cleaned_to=11), "compacted"),
        (KeptAs("delete", cleaned_to=10), "lost"),
    ],
)
def test_what_a_hole_is(kept: KeptAs, kind: str) -> None:
    assert kept.kind_of_hole(10) == kind


def test_a_summary_has_one_line_for_each_kind() -> None:
    gaps = [Gap(TIDE, "compacted", 1, 3, 2), Gap(TIDE, "marker", 4, 5, 1), Gap(TIDE, "compacted", 8, 12, 3)]
    assert [str(gap) for gap in summarize(gaps)] == [
        "tide-0: 5 offsets from 1 to 11 compacted away",
        "tide-0: 1 offset at 4 taken by ends of transactions",
    ]


times = st.just(1_700_000_000_000)
rows = st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.binary(max_size=20), times), min_size=1, max_size=4)
appends = st.tuples(st.just("append"), st.just(0), rows, st.sampled_from(["none", "lz4"]), st.one_of(st.none(), st.integers(1, 2)))
ends = st.tuples(st.just("end"), st.just(0), st.integers(1, 2), st.sampled_from(["commit", "abort"]))


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.lists(st.one_of(appends, ends), max_size=30), st.integers(0, 30), st.integers(0, 40), st.integers(0, 10))
def test_rows_and_gaps_are_all_offsets_of_a_range(script: list[tuple[Any, ...]], start: int, span: int, trimmed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "store") as store:
        model = TopicModel(store.create_topic("tide", 1, SMALL))
        for name, *arguments in script:
            getattr(model, name)(*arguments)
        log = model.topic.log(0)
        log.delete_records_before(min(trimmed, log.last_stable_offset))
        directory = Path(folder) / "store" / "tide-0"
        end = start + span
        rows = [record.offset for record in model.committed(0, max(start, log.log_start_offset), end)]
        gaps = list(read_gaps(directory, start, end))
        missing = [offset for gap in gaps for offset in range(gap.start_offset, gap.end_offset)]
        assert sorted(rows + missing) == list(range(start, end))
        assert sum(gap.missing for gap in gaps) == len(missing)


# What a stream says


def test_a_stream_tells_its_gaps_in_the_log_and_in_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home, report = tmp_path / "store", tmp_path / "gaps.jsonl"
    with open_store(home) as store:
        log = store.create_topic("tide", 1, SMALL).log(0)
        for number in range(3):
            log.append(sent(1, 2 * number, 2, is_transactional=True))
            commit(log, 1)
        with stream(home, **EARLIEST, gapReport=str(report), maxOffsetsPerTrigger="6") as reader, caplog.at_level(logging.INFO):
            start = reader.initialOffset()
            end = next_batch(reader, start)
            for _ in range(2):  # a batch that is planned again is told once
                assert [row[2] for row in rows_of(reader, start, end)] == [0, 1, 3, 4]
            last = next_batch(reader, end)
            assert [row[2] for row in rows_of(reader, end, last)] == [6, 7]
    told = [record for record in caplog.records if "taken by ends of transactions" in record.message]
    assert [(record.levelname, record.message) for record in told] == [
        ("INFO", "tidelog: tide-0: 2 offsets from 2 to 5 taken by ends of transactions")
    ]
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line.pop("seen_ms") > 0 for line in lines] == [True, True]
    assert lines[0] == {
        "type": "gap",
        "topic": "tide",
        "partition": 0,
        "kind": "marker",
        "start_offset": 2,
        "end_offset": 6,
        "missing": 2,
        "batch_start_offset": 0,
        "batch_end_offset": 6,
    }
    assert (lines[1]["start_offset"], lines[1]["end_offset"], lines[1]["missing"]) == (8, 9, 1)


@pytest.mark.leaves
def test_a_hole_that_nothing_explains_fails_the_query_or_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("tide", 1, {**SMALL, "cleanup.policy": "delete"}).log(0)
        log.append_as_follower(follower_batches((0, 3), (5, 2)))
        log.flush()
        log.high_watermark = 7
    with stream(tmp_path, **EARLIEST) as reader:
        start = reader.initialOffset()
        end = next_batch(reader, start)
        with pytest.raises(DataLossError, match=r"offsets 3 to 4 of tide-0.*neither retention nor compaction.*failOnDataLoss=false"):
            rows_of(reader, start, end)
        with caplog.at_level(logging.INFO), pytest.raises(DataLossError, match=r"2 offsets from 3 to 4 lost: neither retention nor"):
            reader.partitions(start, end)  # who is told of all gaps is told before a task has run
    caplog.clear()
    with stream(tmp_path, **EARLIEST, failOnDataLoss="false") as reader, caplog.at_level(logging.WARNING):
        assert [row[2] for row in rows_of(reader, start, end)] == [0, 1, 2, 5, 6]
        assert [row[2] for row in rows_of(reader, {**start, "topics": at(start, 3)}, {**end, "topics": at(end, 5)})] == []
    assert caplog.text.count("offsets 3 to 4 of tide-0 are not there any more: neither retention nor compaction explains it") == 2
    caplog.clear()
    with stream(tmp_path, **EARLIEST, gapReport="none") as reader:
        assert [row[2] for row in rows_of(reader, start, end)] == [0, 1, 2, 5, 6]
    assert not caplog.text


def at(offset: dict[str, Any], next_offset: int) -> dict[str, Any]:
    return {"tide": {"id": offset["topics"]["tide"]["id"], "offsets": {"0": next_offset}}}


def test_the_driver_reads_nothing_for_what_nobody_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Information that no log shows. What is lost, the tasks see; and of a log that is compacted nothing between batches is."""
    with open_store(tmp_path / "store") as store:
        log = store.create_topic("tide", 1, SMALL).log(0)
        log.append(sent(1, 0, 2, is_transactional=True))
        commit(log, 1)
        log.append_as_follower(follower_batches((5, 2)))
        log.flush()
        log.high_watermark = 7
        fetched: list[int] = []
        fetch = ReadOnlyLog.fetch

        def noted(log: ReadOnlyLog, offset: int, *arguments: Any, **options: Any) -> Any:
            fetched.append(offset)
            return fetch(log, offset, *arguments, **options)

        monkeypatch.setattr(ReadOnlyLog, "fetch", noted)
        for report, is_read in (("log", False), ("none", False), (str(tmp_path / "gaps.jsonl"), True)):
            with stream(tmp_path / "store", **EARLIEST, gapReport=report, failOnDataLoss="false") as reader:
                start = reader.initialOffset()
                end = next_batch(reader, start)
                fetched.clear()
                tasks = tasks_of(reader, start, end)
                assert bool(fetched) is is_read
                assert {task.checks_holes for task in tasks} == {report == "log"}


def test_a_report_that_cannot_be_written_any_more_is_told_once_and_the_query_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, report = tmp_path / "store", tmp_path / "gone" / "gaps.jsonl"
    report.parent.mkdir()
    with open_store(home) as store:
        log = store.create_topic("tide", 1, SMALL).log(0)
        for number in range(3):
            log.append(sent(1, number, 1, is_transactional=True))
            commit(log, 1)
        with stream(home, **EARLIEST, gapReport=str(report), maxOffsetsPerTrigger="2") as reader, caplog.at_level(logging.WARNING):
            reader.initialOffset()
            report.parent.rmdir()
            assert [[row[2] for row in batch] for batch in read_all(reader)] == [[0], [2], [4]]
    assert caplog.text.count("the gap report cannot be written") == 1


@pytest.mark.leaves
@pytest.mark.parametrize("how", ["forgotten", "copied"])
def test_what_was_left_out_on_purpose_is_no_loss(tmp_path: Path, how: str) -> None:
    """Whole batches go with a key, of a topic that no cleaner works on: their headers stay, and say so."""
    home = tmp_path / "store"
    with Store.open(home, background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide", 1, {**SMALL, "cleanup.policy": "delete"})
        for number in range(40):
            topic.append(b"value %d" % number, key=b"gone" if number % 10 < 6 else b"kept", timestamp_ms=TIME)
    if how == "forgotten":
        assert forget_here(home, [b"gone"], clock=lambda: TIME).records == 24
        assert not [path for path in home.glob("tide-0/*") if b"gone" in path.read_bytes()]
    else:
        copy_here(home, tmp_path / "copy", keys=b"kept")
        home = tmp_path / "copy"
    gaps = gaps_in(home / "tide-0")
    assert ({kind for kind, *_ in gaps}, sum(missing for *_, missing in gaps)) == ({"compacted"}, 24)
    kept = [number for number in range(40) if number % 10 >= 6]
    with stream(home, **EARLIEST) as reader:
        assert [[row[2] for row in batch] for batch in read_all(reader)] == [kept]
    assert findings(home) == []


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("tide", 1, SMALL)
        with (
            stream(tmp_path / "store", gapReport=str(tmp_path / "none" / "gaps.jsonl")) as reader,
            pytest.raises(InvalidConfigError, match="option gapReport: expected log, none, or a file in a directory that is there"),
        ):
            reader.initialOffset()


def test_compaction_is_no_loss(tmp_path: Path) -> None:
    with open_small_store(tmp_path) as store:
        log = store.create_topic("tide", 1, compacted()).log(0)
        put(log, *[(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"), (b"c", b"5"), (b"d", b"6")])
        with stream(tmp_path, **EARLIEST) as reader:
            start = reader.initialOffset()
            end = next_batch(reader, start)
            store.compact("tide")
            assert [row[2] for row in rows_of(reader, start, end)] == offsets_in(log) == [2, 3, 4, 5]
