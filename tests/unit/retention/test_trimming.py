"""Deleting records by request: which segments go, and that no other rule is asked."""

from pathlib import Path

import pytest

from tests.support.small_stores import open_store, values_of
from tidelog.errors import OffsetOutOfRangeError, RefusedBatchError
from tidelog.retention import LogFacts, SegmentFacts
from tidelog.retention.trimming import going_below, trim

TIME = 1_700_000_000_000
SEGMENTS = [SegmentFacts(10 * number, 10 * number + 10, 100, TIME, number == 2) for number in range(3)]


@pytest.mark.parametrize(("offset", "going"), [(0, []), (9, []), (10, [0]), (15, [0]), (20, [0, 10]), (30, [0, 10])])
def test_whole_segments_below_the_start_go(offset: int, going: list[int]) -> None:
    found = going_below(LogFacts(SEGMENTS, 0, 30), offset)
    assert [removal.segment.base_offset for removal in found] == going


def test_what_is_not_committed_stays() -> None:
    assert going_below(LogFacts(SEGMENTS, 0, 9), 20) == []


def test_trim(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("t", 1, {"retention.bytes": 1}).log(0)  # by which all but the last would go too
        for number in range(6):
            store.topic("t").append(b"%d" % number)
            if number % 2:
                log.roll()
        done = trim(log, 3)
        assert (done.log_start_offset_before, done.log_start_offset, done.segments, done.records) == (0, 3, 1, 3)
        assert str(done) == f"t-0: starts at 3, not at 0; 1 segment went, {done.size_bytes} bytes"
        assert values_of(log) == [b"3", b"4", b"5"]
        assert (trim(log, 3).segments, trim(log, 1).log_start_offset) == (0, 3)
        with pytest.raises(OffsetOutOfRangeError):
            trim(log, 7)
        store.topic("t").alter({"cleanup.policy": "compact"})
        with pytest.raises(RefusedBatchError, match="only compacted"):
            trim(log, 4)
