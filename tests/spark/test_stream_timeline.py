"""What admission is told of a log, against a plain list of its records."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import TIME
from tests.support.topics import SMALL, TopicModel, open_store
from tidelog.log.read_only import open_read_only
from tidelog.record import walk_headers
from tidelog.spark.stream_timeline import LogTimeline

QUICK = settings(max_examples=40, derandomize=True, deadline=None, database=None)

times = st.integers(TIME - 40, TIME - 1)
"""Before all ends of transactions, which must not count."""
rows = st.lists(st.tuples(st.just(b"k"), st.binary(max_size=80), times), min_size=1, max_size=5)
appends = st.tuples(st.just("append"), st.just(0), rows, st.sampled_from(["none", "lz4"]), st.one_of(st.none(), st.just(1)))
ends = st.tuples(st.just("end"), st.just(0), st.just(1), st.sampled_from(["commit", "abort"]))


@QUICK
@given(
    st.lists(st.one_of(appends, appends, appends, ends), max_size=30), st.integers(0, 60), st.integers(0, 60), st.lists(times, max_size=12)
)
def test_the_first_record_after_a_time(script: list[tuple[Any, ...]], start: int, span: int, asked: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "store") as store:
        model = TopicModel(store.create_topic("tide", 1, SMALL))
        for name, *arguments in script:
            getattr(model, name)(*arguments)
        records = sorted(record for found in (*model.stored.values(), *model.pending.values()) for record in found)
        with open_read_only(Path(folder) / "store" / "tide-0") as log:
            stored = {record.offset: record.timestamp_ms for record in log.read()}
            assert stored.keys() >= {record.offset for record in records}
            start %= log.high_watermark + 1
            end = min(start + span, log.high_watermark)
            line = LogTimeline(log, start, end)
            for time_ms in [*asked, *sorted(asked), -1, TIME - 1]:  # one answer builds on those before it
                found = line.first_after(time_ms)
                expected = next(((at, ms) for at, ms in sorted(stored.items()) if start <= at < end and ms > time_ms), None)
                assert found == expected
            check_bytes(log.fetch(0, 1 << 20, isolation="log_end").data if not log.segments[1:] else b"", line)


def check_bytes(data: bytes, line: LogTimeline) -> None:
    """Of a log of one segment: the bytes of the batches that have something of a range."""
    headers = walk_headers(data)
    assert line.bytes_to(line.start) == 0
    for stop in range(line.start + 1, line.end + 1):
        touched = (headers.last_offset >= line.start) & (headers.base_offset < stop)
        if len(headers):
            assert line.bytes_to(stop) == int(headers.size_bytes[touched].sum())


def test_bytes_over_several_segments(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("tide", 1, SMALL)
        for number in range(50):
            topic.append(b"x" * 20, timestamp_ms=TIME + number)
        size_bytes = topic.log(0).size_bytes // 50
        with open_read_only(tmp_path / "tide-0") as log:
            assert len(log.segments) > 5
            line = LogTimeline(log, 3, 50)
            assert [line.bytes_to(offset) for offset in range(3, 51)] == [size_bytes * number for number in range(48)]
            assert line.batch_end(17) == 18


def test_the_record_right_behind_an_entry_is_not_passed_over(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("tide", 1, {**SMALL, "index.interval.bytes": 1})
        for number in range(30):
            topic.append(b"x", timestamp_ms=TIME + number)
        with open_read_only(tmp_path / "tide-0") as log:
            for number in range(29):
                assert LogTimeline(log, 0, 30).first_after(TIME + number) == (number + 1, TIME + number + 1)


def test_the_time_index_is_what_is_asked(tmp_path: Path, monkeypatch: Any) -> None:
    """A search reads a few kibibytes of a log of a mebibyte, wherever the time lies."""
    with open_store(tmp_path) as store:
        topic = store.create_topic("tide", 1, {"segment.index.bytes": 1 << 16, "internal.segment.bytes": 1 << 18})
        for number in range(1000):
            topic.append(bytes(1000), timestamp_ms=TIME + 1000 * number)
        with open_read_only(tmp_path / "tide-0") as log:
            fetch, read = log.fetch, []

            def counted(*arguments: Any, **options: Any) -> Any:
                fetched = fetch(*arguments, **options)
                read.append(len(fetched.data))
                return fetched

            monkeypatch.setattr(log, "fetch", counted)
            for number in range(0, 1000, 50):
                found = LogTimeline(log, 0, 1000).first_after(TIME + 1000 * number - 1)
                assert found == (number, TIME + 1000 * number)
            assert sum(read) <= 20 * (16 << 10)
