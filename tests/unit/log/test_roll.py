"""When a segment ends: the pure decision at each of its boundaries, and that a log acts on it."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import message
from tests.support.logs import TIME, FakeClock, check_log, follower_batches, numbered, open_log
from tidelog.log.log import Log
from tidelog.log.roll import MAX_RELATIVE_OFFSET, RollLimits, RollReason, SegmentAge, draw_jitter, headroom, roll_reason
from tidelog.record import NewBatch

LIMITS = RollLimits(segment_bytes=1000, max_segment_ms=500)
PLAIN: dict[str, Any] = {
    "base_offset": 100,
    "first_timestamp_ms": TIME,
    "created_ms": TIME,
    "jitter_ms": 0,
    "size_bytes": 600,
    "full_index": None,
    "incoming_bytes": 100,
    "incoming_last_offset": 150,
    "incoming_max_timestamp_ms": TIME,
    "now_ms": TIME,
}


def reason(**changes: Any) -> RollReason | None:
    facts = PLAIN | changes
    age = SegmentAge(*(facts.pop(name) for name in SegmentAge._fields))
    return roll_reason(LIMITS, age, **facts)


def test_plain() -> None:
    assert reason() is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"incoming_bytes": 400}, None),
        ({"incoming_bytes": 401}, RollReason.SIZE),
        ({"size_bytes": 0, "incoming_bytes": 1000}, None),
        ({"size_bytes": 0, "incoming_bytes": 1001}, RollReason.SIZE),
        # Age is data time.
        ({"incoming_max_timestamp_ms": TIME + 500}, None),
        ({"incoming_max_timestamp_ms": TIME + 501}, RollReason.AGE),
        ({"incoming_max_timestamp_ms": TIME - 9999, "now_ms": TIME + 9999}, None),
        ({"incoming_max_timestamp_ms": -1, "now_ms": TIME + 9999}, None),
        ({"incoming_max_timestamp_ms": TIME + 400, "jitter_ms": 100}, None),
        ({"incoming_max_timestamp_ms": TIME + 401, "jitter_ms": 100}, RollReason.AGE),
        ({"first_timestamp_ms": 0, "incoming_max_timestamp_ms": 501}, RollReason.AGE),
        # Without a timestamp, the clock's.
        ({"first_timestamp_ms": -1, "now_ms": TIME + 500, "incoming_max_timestamp_ms": TIME + 9999}, None),
        ({"first_timestamp_ms": -1, "now_ms": TIME + 501}, RollReason.AGE),
        ({"first_timestamp_ms": -1, "now_ms": TIME + 451, "jitter_ms": 50}, RollReason.AGE),
        ({"first_timestamp_ms": None, "now_ms": TIME + 501}, RollReason.AGE),
        # An empty segment does not age.
        ({"size_bytes": 0, "first_timestamp_ms": None, "now_ms": TIME + 9999, "incoming_max_timestamp_ms": TIME + 9999}, None),
        ({"full_index": RollReason.OFFSET_INDEX_FULL}, RollReason.OFFSET_INDEX_FULL),
        ({"full_index": RollReason.TIME_INDEX_FULL}, RollReason.TIME_INDEX_FULL),
        ({"size_bytes": 0, "full_index": RollReason.TIME_INDEX_FULL}, RollReason.TIME_INDEX_FULL),
        ({"incoming_last_offset": 100 + MAX_RELATIVE_OFFSET}, None),
        ({"incoming_last_offset": 101 + MAX_RELATIVE_OFFSET}, RollReason.OFFSET_RANGE),
        ({"incoming_last_offset": 100}, None),
        ({"incoming_last_offset": 99}, RollReason.OFFSET_RANGE),
        # The first that applies is named.
        ({"incoming_bytes": 401, "full_index": RollReason.TIME_INDEX_FULL}, RollReason.SIZE),
        ({"incoming_max_timestamp_ms": TIME + 501, "full_index": RollReason.TIME_INDEX_FULL}, RollReason.AGE),
    ],
)
def test_each_reason_at_its_boundary(changes: dict[str, Any], expected: RollReason | None) -> None:
    assert reason(**changes) is expected


def test_the_largest_relative_offset() -> None:
    assert MAX_RELATIVE_OFFSET == 2**31 - 1


def test_jitter() -> None:
    random = Random(1)
    assert draw_jitter(random, segment_jitter_ms=0, segment_ms=100) == 0
    drawn = {draw_jitter(random, segment_jitter_ms=4, segment_ms=100) for _ in range(200)}
    assert drawn == {0, 1, 2, 3}
    assert {draw_jitter(random, segment_jitter_ms=10**9, segment_ms=3) for _ in range(200)} == {0, 1, 2}


# A log acts on it


def bases(home: Path, config: dict[str, Any], batches: list[bytes], clock: FakeClock | None = None, wait_ms: int = 0) -> list[int]:
    clock = clock or FakeClock()
    with open_log(home, config, clock=clock) as log:
        for batch in batches:
            log.append(batch)
            clock.advance(wait_ms)
        check_log(log)
        return [segment.base_offset for segment in log.segments]


def test_a_log_rolls_by_size(tmp_path: Path) -> None:
    size = len(numbered(0))
    batches = [numbered(number) for number in range(6)]
    assert bases(tmp_path / "a", {"internal.segment.bytes": 3 * size}, batches) == [0, 3]
    assert bases(tmp_path / "b", {"internal.segment.bytes": 3 * size - 1}, batches) == [0, 2, 4]


def test_a_log_rolls_by_age(tmp_path: Path) -> None:
    batches = [numbered(number, timestamp_ms=TIME + 100 * number) for number in range(6)]
    assert bases(tmp_path / "data", {"segment.ms": 200}, batches, wait_ms=1000) == [0, 3]
    timeless = [numbered(number, timestamp_ms=-1) for number in range(6)]
    assert bases(tmp_path / "clock", {"segment.ms": 200}, timeless, wait_ms=100) == [0, 3]
    compacted = {"segment.ms": 9999, "max.compaction.lag.ms": 200, "cleanup.policy": "compact"}
    assert bases(tmp_path / "lag", compacted, batches) == [0, 3]


def test_a_truncation_does_not_make_a_segment_young(tmp_path: Path) -> None:
    """Without timestamps its age counts from when this process made or opened it, also if it is the last one again."""
    clock = FakeClock()
    config = {"segment.ms": 1000}
    with open_log(tmp_path, config, clock=clock) as log:
        log.append(numbered(0, timestamp_ms=-1))
        for _ in range(2):
            log.append(numbered(1))
            log.roll()
            clock.advance(500)
            log.truncate_to(1)
        log.append(numbered(2))
        assert [segment.base_offset for segment in log.segments] == [0]
        clock.advance(1)
        log.append(numbered(3))
        assert [segment.base_offset for segment in log.segments] == [0, 2]
    with open_log(tmp_path, config, clock=clock) as log:
        clock.advance(600)
        log.truncate_to(1)
        clock.advance(401)
        log.append(numbered(4))
        assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_an_empty_segment_that_is_rolled_is_young_again(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_log(tmp_path, {"segment.ms": 1000}, clock=clock) as log:
        clock.advance(600)
        log.roll()
        log.append(numbered(0, timestamp_ms=-1))
        clock.advance(1000)
        log.append(numbered(1))
        clock.advance(1)
        log.append(numbered(2))
        assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_log_rolls_by_full_indexes(tmp_path: Path) -> None:
    """The first batch has no entry; the time index keeps a slot for the last."""
    dense = {"index.interval.bytes": 0}
    same_time = [numbered(number) for number in range(8)]
    assert bases(tmp_path / "offset", {**dense, "segment.index.bytes": 24}, same_time) == [0, 2, 4, 6]
    rising = [numbered(number, timestamp_ms=TIME + number) for number in range(8)]
    assert bases(tmp_path / "time", {**dense, "segment.index.bytes": 48}, rising) == [0, 4]


def test_a_log_rolls_by_offset_range(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append_as_follower(follower_batches((0, 1)))
        log.append_as_follower(follower_batches((2**31 - 1, 1)))
        assert len(log.segments) == 1
        log.append_as_follower(follower_batches((2**31, 1)))
        assert [segment.base_offset for segment in log.segments] == [0, 2**31]
        check_log(log)


def test_rolled_because_it_was_asked_for(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        assert log.roll() is log.segments[0]
        log.append(numbered(0, 3))
        assert log.roll().base_offset == 3
        log.roll()
        assert [segment.base_offset for segment in log.segments] == [0, 3]
        old = Path(log.segments[0].path_of(".index"))
        assert old.stat().st_size == 0
        assert Path(log.segments[0].path_of(".timeindex")).stat().st_size == 12
        assert Path(log.segments[1].path_of(".index")).stat().st_size == log.config.segment_index_bytes


@given(
    st.integers(14, 1 << 31),
    st.integers(1, 1 << 40),
    st.integers(0, 1 << 40),
    st.none() | st.integers(-1, 1 << 45),
    st.integers(0, 1 << 20),
    st.data(),
)
def test_within_the_headroom_nothing_is_rolled(
    segment_bytes: int, max_segment_ms: int, base_offset: int, first_ms: int | None, jitter_ms: int, data: st.DataObject
) -> None:
    limits = RollLimits(segment_bytes, max_segment_ms)
    age = SegmentAge(base_offset, first_ms, 0, jitter_ms)
    room = headroom(limits, age)
    if first_ms is None or first_ms < 0:
        assert room is None  # by the wall clock, or not known yet
        return
    assert room is not None
    size = data.draw(st.integers(1, segment_bytes - 1))

    def rolls(incoming_bytes: int, timestamp_ms: int, offset: int) -> bool:
        return roll_reason(limits, age, size, None, incoming_bytes, offset, timestamp_ms, 1 << 50) is not None

    most = (room.size_bytes - size, room.timestamp_ms, room.offset)
    assert not rolls(*most)
    for which in range(3):  # one more of anything is too much
        assert rolls(*(bound + (place == which) for place, bound in enumerate(most)))


def test_a_short_message_of_old_tells_the_age_of_its_segment_when_it_is_opened_again(tmp_path: Path) -> None:
    """One of format v1 may be shorter than the header of a batch: its segment had no first timestamp, and was not rolled."""
    path = tmp_path / "tide-0"
    with Log.open(path, config={"segment.ms": 50}) as log:
        log.append_as_follower(message(0, b"key-0", None))
    with Log.open(path, config={"segment.ms": 50}) as log:
        log.append(NewBatch([(b"k", b"v", (), TIME + 1000)]).encode())
        assert [segment.base_offset for segment in log.segments] == [0, 1]
