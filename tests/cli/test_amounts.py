"""Sizes, rates, durations and times: as they are typed, and as they are shown."""

import pytest

from tidelog.cli.amounts import format_duration, format_size, parse_duration, parse_rate, parse_size, parse_time
from tidelog.errors import InvalidConfigError

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("4096", 4096), ("512k", 524_288), ("512 KiB", 524_288), ("10MB", 10_000_000), ("10mib", 10_485_760),
        ("1.5G", 1_610_612_736),
        ("7b", 7), ("2TiB", 2 << 40),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "rate"), [("20MiB/s", 20 << 20), ("50M", 50 << 20), ("1kB/s", 1000), ("unlimited", 0)])
def test_rates(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("5min", 300_000), ("2h", 2 * HOUR), ("1h30m", 5_400_000), ("1.5 d", 36 * HOUR),
     ("1w 1d", 192 * HOUR)],
)  # fmt: skip
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("now", NOW), ("2h", NOW - 2 * HOUR), ("-2h", NOW - 2 * HOUR), ("@5", 5), ("1699999999999", 1_699_999_999_999),
        ("2023-11-14T22:13:20Z", NOW), ("2023-11-14 22:13:20", NOW), ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14T22:13:20.001", NOW + 1),
        ("2023-11-14", 1_699_920_000_000),
    ],
)  # fmt: skip
def test_times(text: str, timestamp_ms: int) -> None:
    assert parse_time(text, NOW) == timestamp_ms


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_size, text) for text in ("", "x", "1x", "-1", "1 MiBs", "9" * 400)]
    + [(parse_rate, text) for text in ("0", "fast", "1MB/h", "9" * 400)]
    + [(parse_duration, text) for text in ("", "5", "5 years", "h", "1h x", "9" * 400 + "d")]
    + [
        (lambda text: parse_time(text, NOW), text)
        for text in ("", "soon", "@x", "2023-13-01", "25:00", "9" * 400 + "d", "9" * 20 + "d", "@" + "9" * 20)
    ],
)
def test_what_is_none_is_told_with_a_hint(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(InvalidConfigError) as caught:
        parse(text)
    assert caught.value.hint
    assert repr(text) in caught.value.what


def test_as_they_are_shown() -> None:
    assert [format_size(size) for size in (0, 1023, 1024, 1_572_864, 1 << 30, 5 << 60)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 MiB", "1.0 GiB", "5120.0 PiB",
    ]  # fmt: skip
    assert [format_duration(one) for one in (0, 999, 1000, 61_000, 2 * HOUR, 76 * HOUR, 24 * HOUR + 5000, -5000)] == [
        "0 ms", "999 ms", "1 s", "1 min 1 s", "2 h", "3 d 4 h", "1 d", "-5 s",
    ]  # fmt: skip
