"""Which log is cleaned, and why one is not: each figure of Kafka's choice at its boundary."""

from typing import Any

import pytest

from tests.support.logs import TIME
from tidelog.compaction.choice import CleanableLog, CleanableSegment, CleaningChoice, choose
from tidelog.config import LogConfig


def log(
    *sizes: int,
    start: int = 0,
    stable: int | None = None,
    checkpoint: int | None = None,
    times: tuple[int, ...] = (),
    end: int | None = None,
) -> CleanableLog:
    """Segments of ten offsets each, of these sizes; the last is active."""
    segments = [
        CleanableSegment(
            10 * number,
            10 * number + 10,
            size,
            times[number] if times else TIME,
            times[number] if times else TIME,
            number == len(sizes) - 1,
        )
        for number, size in enumerate(sizes)
    ]
    end_offset = 10 * len(sizes) if end is None else end
    return CleanableLog(segments, start, end_offset, end_offset if stable is None else stable, checkpoint)


def asked(log: CleanableLog, now_ms: int = TIME, **changes: Any) -> CleaningChoice:
    return choose(log, LogConfig.of({"cleanup.policy": "compact"} | {k.replace("_", "."): v for k, v in changes.items()}), now_ms)


def figures(choice: CleaningChoice) -> tuple[int, int, int, int]:
    return choice.first_dirty_offset, choice.first_uncleanable_offset, choice.clean_bytes, choice.cleanable_bytes


def test_a_log_that_is_not_compacted() -> None:
    choice = asked(log(5, 5), cleanup_policy="delete")
    assert (choice.is_eligible, choice.why) == (False, "cleanup.policy=delete does not have compact")


@pytest.mark.parametrize(
    ("checkpoint", "start", "expected"),
    [
        (None, 0, (0, 30, 0, 6)),
        (20, 0, (20, 30, 3, 3)),
        (25, 0, (25, 30, 6, 3)),
        (30, 0, (30, 30, 6, 0)),
        (35, 0, (35, 35, 13, 0)),
        (41, 0, (0, 30, 0, 6)),
        (5, 10, (10, 30, 1, 5)),
        (40, 0, (40, 40, 13, 0)),
    ],
)
def test_where_it_is_dirty(checkpoint: int | None, start: int, expected: tuple[int, int, int, int]) -> None:
    """A checkpoint outside of the log does not count; a segment that it lies in counts as clean and as cleanable."""
    assert figures(asked(log(1, 2, 3, 7, checkpoint=checkpoint, start=start))) == expected


@pytest.mark.parametrize(("ratio", "is_eligible"), [(0.49, True), (0.5, False), (0.51, False)])
def test_the_ratio_has_to_be_above_the_limit(ratio: float, is_eligible: bool) -> None:
    choice = asked(log(5, 5, 9, checkpoint=10), min_cleanable_dirty_ratio=ratio)
    assert (choice.dirty_ratio, choice.is_eligible) == (0.5, is_eligible)
    assert choice.why == f"its dirty ratio 0.500 is {'' if is_eligible else 'not '}above min.cleanable.dirty.ratio={ratio}"


def test_an_open_transaction_is_where_cleaning_ends() -> None:
    choice = asked(log(1, 2, 3, 4, stable=15))
    assert figures(choice) == (0, 15, 0, 1)
    nothing = asked(log(1, 2, 3, 4, stable=5))
    assert (figures(nothing), nothing.is_eligible) == ((0, 5, 0, 0), False)


def test_what_is_young_is_not_cleaned() -> None:
    times = (TIME - 100, TIME - 50, TIME - 100, TIME)
    assert figures(asked(log(1, 2, 3, 4, times=times), min_compaction_lag_ms=50)) == (0, 30, 0, 6)
    young = asked(log(1, 2, 3, 4, times=times), min_compaction_lag_ms=51)
    assert figures(young) == (0, 10, 0, 1)
    nothing = asked(log(1, 2, 3, 4, times=times), min_compaction_lag_ms=101)
    assert nothing.why == "nothing is dirty below offset 0: what follows is younger than min.compaction.lag.ms=101"


def test_what_is_old_must_be_cleaned() -> None:
    times = (TIME - 100, TIME - 100, TIME)
    settings: dict[str, Any] = {"min_cleanable_dirty_ratio": 1.0}
    assert not asked(log(5, 1, 9, times=times, checkpoint=10), max_compaction_lag_ms=100, **settings).is_eligible
    choice = asked(log(5, 1, 9, times=times, checkpoint=10), max_compaction_lag_ms=99, **settings)
    assert (choice.is_eligible, choice.must_compact) == (True, True)
    assert choice.why == "its oldest dirty record is older than max.compaction.lag.ms=99"
    nothing = asked(log(5, 1, 9, times=times, checkpoint=10, stable=12), max_compaction_lag_ms=99, **settings)
    assert (nothing.is_eligible, nothing.must_compact) == (False, True)


def test_an_active_segment_is_not_too_old() -> None:
    assert not asked(log(5, 1, 9, times=(TIME, TIME, TIME - 100)), max_compaction_lag_ms=99).must_compact


def test_an_empty_log_is_not_cleaned() -> None:
    assert asked(log(0, end=0)).why == "it is empty"
    assert asked(log(7)).why == "nothing is dirty below offset 0: the active segment begins there"
