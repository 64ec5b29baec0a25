"""`auto.offset.reset`: what may be said, and what it means at a moment."""

from datetime import timedelta

import pytest

from tidelog import EARLIEST, LATEST, Time
from tidelog.store.groups.offset_reset import OffsetReset, parse_duration_ms, parse_reset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # as java.time.Duration.parse reads them
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("p1dt2h3m4.005s", 93_784_005),
        ("PT0S", 0),
        ("PT0.001S", 1),
        ("PT0.0019S", 1),
        ("PT.5S", None),
        ("PT1.S", 1_000),
        ("PT1,5S", 1_500),
        ("+PT1M", 60_000),
        ("PT-1M", -60_000),
        ("-PT-1M", 60_000),
        ("-PT1.5S", -1_500),
        ("PT-1.5S", -1_500),
        ("PT-0.5S", -500),
        ("P1DT-1H", 82_800_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1H", None),
        ("PT1D", None),
        ("P1Y", None),
        ("P1W", None),
        ("PT1H ", None),
        ("1H", None),
        ("", None),
        ("PT1M1H", None),
        ("PT٣S", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    assert parse_duration_ms(text) == expected


def test_what_it_means_now() -> None:
    assert parse_reset("earliest").position(5) is EARLIEST
    assert parse_reset("latest").position(5) is LATEST
    assert parse_reset("none").position(5) is None
    assert parse_reset("by_duration:PT1S").position(5_000) == Time(4_000)
    assert parse_reset(timedelta(hours=1)) == OffsetReset("by_duration", 3_600_000)
    assert parse_reset(timedelta(days=99)).position(5) == Time(0)
