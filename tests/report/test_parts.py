"""The parts that decide what is told: folding, time, keys. Each against a plain computation."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.inspection import Finding
from tidelog.record.hashing import siphash128
from tidelog.report.amounts import count, duration, instant, short_count, size, whole_size
from tidelog.report.facts import Stratum
from tidelog.report.fates import FATES
from tidelog.report.finding_list import FindingList
from tidelog.report.key_sketch import KeySketch
from tidelog.report.page_strata import layers
from tidelog.report.strata import budgets, fold
from tidelog.report.throughput import MOST_BARS, MOST_BUCKETS, WIDTHS_MS, Throughput

DAY_MS = 86_400_000
SECRET = b"0123456789abcdef"


def stratum(number: int, fate: int = 7, size_bytes: int = 10, *, is_dirty: bool | None = None, findings: int = 0) -> Stratum:
    offset, timed = number * 5, (number, number + 1)
    return Stratum(
        offset, offset + 5, 1, size_bytes, 5, 1, *timed, None, 0, False, is_dirty, FATES[fate], None, None, None, "", findings
    )  # fmt: skip


Run = tuple[int, int, bool, int, int]
RUNS = st.tuples(st.integers(0, 8), st.integers(0, 1000), st.booleans(), st.integers(0, 1), st.integers(1, 12))


def strata_of(runs: list[Run]) -> list[Stratum]:
    """Segments that look alike come in runs."""
    rows = [row for *row, length in runs for _ in range(length)]
    return [stratum(n, fate, size_bytes, is_dirty=bool(dirty), findings=found) for n, (fate, size_bytes, dirty, found) in enumerate(rows)]


STRATA = st.lists(RUNS, max_size=12).map(strata_of)


@given(STRATA, st.integers(1, 70))
def test_folding_loses_nothing(strata: list[Stratum], most: int) -> None:
    folded = fold(strata, most)
    assert len(folded) <= max(most, 1)
    for name in ("segments", "size_bytes", "records", "batches", "findings"):
        assert sum(getattr(one, name) for one in folded) == sum(getattr(one, name) for one in strata)
    assert [one.base_offset for one in folded] == sorted(one.base_offset for one in folded)
    assert all(one.end_offset == other.base_offset for one, other in itertools.pairwise(folded))
    changes = sum(
        (one.fate, one.is_dirty, one.findings > 0) != (other.fate, other.is_dirty, other.findings > 0)
        for one, other in itertools.pairwise(strata)
    )
    if strata and changes + 1 <= most:
        # There is room: nothing that looks different is one.
        fates = {one.base_offset: one for one in strata}
        for one in folded:
            inside = [fates[offset] for offset in range(one.base_offset, one.end_offset or 0, 5)]
            assert {(each.fate, each.is_dirty, each.findings > 0) for each in inside} == {(one.fate, one.is_dirty, one.findings > 0)}


@given(st.lists(st.integers(0, 5000), max_size=50), st.integers(1, 1000))
def test_budgets(counts: list[int], most: int) -> None:
    room = budgets(counts, most)
    assert all(0 <= one <= number for one, number in zip(room, counts, strict=True))
    assert all(one > 0 for one, number in zip(room, counts, strict=True) if number)
    assert sum(room) <= most + len(counts)


@given(STRATA.filter(lambda strata: any(one.size_bytes for one in strata)), st.floats(14, 240))
def test_layers_fill_the_picture(strata: list[Stratum], height: float) -> None:
    drawn = layers(strata, 100, height)
    assert drawn[0].top == 0
    assert sum(one.height for one in drawn) == pytest.approx(height, rel=0.01, abs=3)
    assert [one.stratum.base_offset for one in drawn] == sorted((one.stratum.base_offset for one in drawn), reverse=True)
    assert all(100 <= one.target < 100 + len(strata) for one in drawn)


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-1, 40 * DAY_MS), st.integers(1, 9)), min_size=1, max_size=200),
    st.integers(1, 50),
)
def test_throughput_counts_everything_once(rows: list[tuple[str, int, int]], step: int) -> None:
    throughput = Throughput()
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        for topic in sorted({name for name, _, _ in part}):
            own = [(time_ms, number) for name, time_ms, number in part if name == topic]
            times, counts = (np.array(column, np.int64) for column in zip(*own, strict=True))
            throughput.add(topic, times, counts, counts * 100)
    timed = [row for row in rows if row[1] >= 0]
    facts = throughput.facts()
    assert throughput.untimed_records == sum(number for _, time_ms, number in rows if time_ms < 0)
    if not timed:
        assert facts is None
        return
    assert facts is not None
    assert facts.bucket_ms in WIDTHS_MS
    assert 1 <= len(facts.series[0].records) <= MOST_BARS
    assert len(facts.series) <= 6
    assert sum(sum(one.records) for one in facts.series) + facts.outside_records == sum(number for _, _, number in timed)
    inside: Counter[int] = Counter()
    for _, time_ms, number in timed:
        inside[(time_ms - facts.start_ms) // facts.bucket_ms] += number
    for place in range(len(facts.series[0].records)):
        assert sum(one.records[place] for one in facts.series) == inside[place]
        assert sum(one.size_bytes[place] for one in facts.series) == inside[place] * 100


def test_a_time_that_is_far_away_does_not_squeeze_the_rest() -> None:
    throughput, ones = Throughput(), np.ones(1000, np.int64)
    throughput.add("t", np.arange(1000, dtype=np.int64) * 3_600_000 + 1_700_000_000_000, ones, ones)
    throughput.add("t", np.array([0, 9_000_000_000_000], np.int64), ones[:2], ones[:2])
    facts = throughput.facts()
    assert facts is not None
    assert facts.bucket_ms <= DAY_MS
    assert 2 <= facts.outside_records <= 12
    assert sum(facts.series[0].records) + facts.outside_records == 1002


def sketched(keys: list[bytes], sketch: KeySketch, step: int = 500) -> KeySketch:
    for start in range(0, len(keys), step):
        part = keys[start : start + step]
        lengths = np.array([len(key) for key in part], np.int32)
        starts = (np.cumsum(lengths) - lengths).astype(np.int32)
        sketch.add(memoryview(b"".join(part)), starts, lengths, siphash128(part, SECRET)[:, 0])
    return sketch


def test_few_keys_are_counted_exactly() -> None:
    keys = [b"k%d" % (number % 37 if number % 3 else 0) for number in range(2000)]
    counts, sketch = Counter(keys), sketched(keys, KeySketch())
    assert next((one.key, one.records) for one in sketch.hottest()) == ("k0", counts[b"k0"])
    assert [one.records for one in sketch.hottest()] == [number for _, number in counts.most_common(8)]
    assert sketch.records_per_key() == Counter(1 << number.bit_length() - 1 for number in counts.values())


def test_many_keys_are_counted_within_bounds() -> None:
    """Far more keys than it remembers: hot ones are found and never counted too high, and the sample stands for all keys."""
    chance = np.random.default_rng(3)
    cold = [b"cold %d" % number for number in range(6000) for _ in range(1 if number % 2 else 4)]
    hot = [b"hot %d" % number for number in range(3) for _ in range(3000)]
    keys = [cold[at] if at < len(cold) else hot[at - len(cold)] for at in chance.permutation(len(cold) + len(hot)).tolist()]
    sketch = sketched(keys, KeySketch(sample=512, counters=64))
    found = {one.key: one.records for one in sketch.hottest()}
    assert found.keys() == {"hot 0", "hot 1", "hot 2"}
    assert all(2500 < number <= 3000 for number in found.values())
    told = sketch.records_per_key()
    assert told[1] == pytest.approx(3000, rel=0.25)
    assert told[4] == pytest.approx(3000, rel=0.25)


def test_a_key_that_is_hot_later_is_found_too() -> None:
    """What was counted first does not keep its place for ever: it is taken off, bit by bit."""
    keys = [b"early %d" % number for number in range(4) for _ in range(100)] + [b"late"] * 300
    [late] = sketched(keys, KeySketch(counters=4), step=1).hottest()
    assert (late.key, late.records) == ("late", 200)


def test_long_keys_and_bytes_are_shown_as_what_they_are() -> None:
    keys = [b"x" * 63 + "ä".encode() + b"y" * 9, b"\xff\xfe", b""] * 2
    shown = {str(one.key) for one in sketched(keys, KeySketch()).hottest()}
    assert shown == {"x" * 63 + " …", str({"base64": "//4="}), ""}


def test_only_the_gravest_findings_are_kept() -> None:
    def findings() -> list[Finding]:
        return [
            Finding("note" if number % 3 else "error", "c", f"/d/t-0/{number // 9:020d}.log", str(number), "m") for number in range(90)
        ]  # fmt: skip

    found = FindingList(findings(), "/d", most=40)
    assert [one["severity"] for one in found.objects()] == ["error"] * 30 + ["note"] * 10
    assert (found.left_off(), found.of_partition("t-0"), found.of_segment("t-0", 3)) == (50, 30, 3)
    assert found.objects()[0]["path"] == f"t-0/{0:020d}.log"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (size(0), "0 B"), (size(999), "999 B"), (size(1023), "1.00 KiB"), (size(1536), "1.50 KiB"), (size(10 << 20), "10.0 MiB"),
        (size(1 << 62), "4096 PiB"), (count(None), "–"), (count(1234567), "1 234 567"), (short_count(999), "999"),
        (short_count(1_234_567), "1.23 M"),
        (duration(0), "0 s"), (duration(999), "999 ms"), (duration(61_000), "1 min 1 s"), (duration(3 * DAY_MS + 300_000), "3 d"),
        (duration(400 * DAY_MS), "1 y 34 d"), (instant(None), "–"), (instant(0), "1970-01-01 00:00"), (instant(10**18), f"{10**18} ms"),
        (whole_size(0), "0 B"), (whole_size(4096), "4 KiB"), (whole_size(1 << 30), "1 GiB"),
    ],
)  # fmt: skip
def test_amounts(shown: str, expected: str) -> None:
    assert shown.replace("\u202f", " ") == expected


def test_no_time_needs_more_bars_than_fit() -> None:
    """Not even those of one absurd producer, with so few others that nothing is a tail."""
    for times in ([0, (1 << 63) - 1], [1_700_000_000_000, (1 << 62), (1 << 63) - 1]):
        throughput = Throughput()
        throughput.add("t", np.array(times, np.int64), np.ones(len(times), np.int64), np.ones(len(times), np.int64))
        facts = throughput.facts()
        assert facts is not None
        assert len(facts.series[0].records) <= MOST_BARS
        assert sum(facts.series[0].records) == len(times)
        assert facts.start_ms + facts.bucket_ms * len(facts.series[0].records) > times[-1]


def test_memory_is_bounded_for_times_all_over() -> None:
    throughput, ones = Throughput(), np.ones(20_000, np.int64)
    throughput.add("t", np.linspace(0, 9e18, 20_000).astype(np.int64), ones, ones)
    assert len(throughput._records) <= MOST_BUCKETS + MOST_BARS
