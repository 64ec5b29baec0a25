"""How far partitions go under a limit: together in time, never above the limit, and never nowhere."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.spark.admission import Limits, TimedOffset, admit, should_wait

QUICK = settings(max_examples=80, derandomize=True, deadline=None, database=None)


@dataclass
class ListTimeline:
    """A partition as a plain list of timestamps, the first of them at offset 0; -1 is none. Batches of equal size."""

    times: list[int]
    start: int = 0
    batch_records: int = 4
    record_bytes: int = 10

    @property
    def end(self) -> int:
        return len(self.times)

    def first_after(self, time_ms: int) -> TimedOffset | None:
        return next((TimedOffset(at, ms) for at, ms in enumerate(self.times) if at >= self.start and ms > time_ms), None)

    def bytes_to(self, offset: int) -> int:
        first, behind = self.start // self.batch_records, -(-offset // self.batch_records)
        return (behind - first) * self.batch_records * self.record_bytes if offset > self.start else 0

    def batch_end(self, offset: int) -> int:
        return (offset // self.batch_records + 1) * self.batch_records


def disorder(times: list[int]) -> int:
    """By how much a record of a partition is older than one before it."""
    newest, worst = -1, 0
    for ms in times:
        if ms >= 0:
            worst = max(worst, newest - ms)
        newest = max(newest, ms)
    return worst


def replay(partitions: list[list[int]], limits: Limits, *, max_batches: int = 5000) -> tuple[int, int]:
    """Read everything in micro-batches: how late a record came at most, by the newest of earlier batches, and how many batches."""
    lines = {number: ListTimeline(times) for number, times in enumerate(partitions)}
    newest, late, batches = -1, 0, 0
    while any(line.start < line.end for line in lines.values()):
        ends = admit(lines, limits)
        read = [line.times[at] for number, line in lines.items() for at in range(line.start, ends[number])]
        check_limits(lines, ends, limits)
        late = max([late, *(newest - ms for ms in read if ms >= 0)])
        newest = max([newest, *read])
        for number, line in lines.items():
            line.start = ends[number]
        batches += 1
        assert batches <= max_batches
    return late, batches


def check_limits(lines: Mapping[int, ListTimeline], ends: Mapping[int, int], limits: Limits) -> None:
    offsets = sum(ends[number] - line.start for number, line in lines.items())
    assert offsets > 0, "a micro-batch that gets nowhere"
    assert all(line.start <= ends[number] <= line.end for number, line in lines.items())
    if limits.max_offsets is not None:
        assert offsets <= limits.max_offsets
    if limits.max_bytes is not None:
        begun = [number for number, line in lines.items() if ends[number] > line.start]
        is_one_batch = len(begun) == 1 and ends[begun[0]] <= lines[begun[0]].batch_end(lines[begun[0]].start)
        assert is_one_batch or sum(line.bytes_to(ends[number]) for number, line in lines.items()) <= limits.max_bytes


times = st.lists(st.integers(0, 5000), max_size=60)


@QUICK
@given(st.lists(times, min_size=1, max_size=5), st.integers(1, 40))
def test_records_come_late_only_by_the_disorder_of_their_own_partition(partitions: list[list[int]], max_offsets: int) -> None:
    late, _ = replay(partitions, Limits(max_offsets=max_offsets))
    assert late <= max(map(disorder, partitions))


@QUICK
@given(st.lists(times, min_size=1, max_size=5), st.integers(1, 800))
def test_a_limit_in_bytes_is_kept_to_and_everything_is_read(partitions: list[list[int]], max_bytes: int) -> None:
    replay(partitions, Limits(max_bytes=max_bytes))


@QUICK
@given(st.lists(st.lists(st.integers(-1, 3), max_size=40), min_size=1, max_size=4), st.integers(1, 30), st.integers(1, 500))
def test_records_without_timestamp_and_of_one_instant_are_shared_out(partitions: list[list[int]], max_offsets: int, max_bytes: int) -> None:
    replay(partitions, Limits(max_offsets=max_offsets, max_bytes=max_bytes))


def test_partitions_of_very_different_size_and_span_advance_together() -> None:
    hour = 3_600_000
    day = [at * 24 * hour // 20_000 for at in range(20_000)]
    sparse = [at * hour for at in range(24)]
    burst = [10 * hour + at for at in range(5000)]
    late_one = [20 * hour + at * 60_000 for at in range(200)]
    late, batches = replay([day, sparse, burst, late_one], Limits(max_offsets=600))
    assert late == 0
    assert batches == 43  # 25,224 records, each micro-batch takes all it may


def test_sharing_out_by_size_alone_would_not_do() -> None:
    """What Kafka's source does, in the same replay: so the tests above can fail."""
    hour = 3_600_000
    sizes = {"long": [at * 24 * hour // 2000 for at in range(2000)], "short": [at * hour // 200 for at in range(200)]}
    newest, late, start = -1, 0, dict.fromkeys(sizes, 0)
    while any(start[name] < len(sizes[name]) for name in sizes):
        left = {name: len(sizes[name]) - start[name] for name in sizes}
        read = []
        for name, times in sizes.items():
            take = min(left[name], -(-100 * left[name] // sum(left.values())))
            read += times[start[name] : start[name] + take]
            start[name] += take
        late = max([late, *(newest - ms for ms in read)])
        newest = max([newest, *read])
    assert late > 10 * hour
    assert replay(list(sizes.values()), Limits(max_offsets=100))[0] == 0


def test_a_record_from_the_future_waits_for_the_other_partitions() -> None:
    future = 10**12
    lines = {"odd": ListTimeline([1, 2, future, 3]), "even": ListTimeline(list(range(100)))}
    ends = admit(lines, Limits(max_offsets=50))
    assert ends["odd"] == 2
    assert ends["even"] > 40


def test_a_partition_without_more_holds_nobody_back() -> None:
    lines = {"ended": ListTimeline([5], start=1), "goes on": ListTimeline(list(range(100)))}
    assert admit(lines, Limits(max_offsets=10)) == {"ended": 1, "goes on": 10}


def test_everything_is_read_where_it_fits() -> None:
    lines = {"a": ListTimeline([1, 10**9]), "b": ListTimeline([3])}
    for limits in (Limits(), Limits(max_offsets=3), Limits(max_bytes=10**6)):
        assert admit(lines, limits) == {"a": 2, "b": 1}


def test_a_limit_below_one_batch_reads_the_batch_that_is_furthest_behind() -> None:
    lines = {"a": ListTimeline([50] * 8), "b": ListTimeline([7, 8, 9, 10, 11])}
    assert admit(lines, Limits(max_bytes=1)) == {"a": 0, "b": 4}
    assert admit(lines, Limits(max_offsets=2, max_bytes=1)) == {"a": 0, "b": 2}


def test_the_number_of_questions_does_not_grow_with_the_history() -> None:
    random.seed(7)
    asked = 0

    class Counting(ListTimeline):
        def first_after(self, time_ms: int) -> TimedOffset | None:
            nonlocal asked
            asked += 1
            return super().first_after(time_ms)

    year = 365 * 24 * 3_600_000
    lines = {number: Counting(sorted(random.randrange(year) for _ in range(3000))) for number in range(4)}
    admit(lines, Limits(max_offsets=500))
    assert asked <= 4 * 70


@pytest.mark.parametrize(
    ("available", "min_offsets", "waited_ms", "is_waiting"),
    [(5, None, 0, False), (5, 10, 0, True), (10, 10, 0, False), (5, 10, 1000, False), (0, 10, 999, True)],
)
def test_waiting_for_more(available: int, min_offsets: int | None, waited_ms: int, is_waiting: bool) -> None:
    assert should_wait(available, min_offsets=min_offsets, waited_ms=waited_ms, max_delay_ms=1000) is is_waiting
