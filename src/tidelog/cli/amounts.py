"""Sizes, rates, durations and times as people type them, and as they are shown. The only place where such text is read.

64MiB 10MB 512k 1.5G 4096        sizes: `KiB` and the bare letter are powers of 1024, `kB` and `MB` powers of 1000
20MiB/s                          rates
500ms 90s 5m 2h 3d 1w 1h30m      durations
2026-11-16T18:00Z 2h @1700000000000 now      times: ISO 8601 (UTC if it names no zone), so long ago, epoch milliseconds
"""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tidelog.errors import InvalidConfigError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_MS: Final = 1000

_MAX_TIME_MS: Final = (1 << 63) - 1
_NUMBER = r"(\d+(?:\.\d+)?)"
_SIZE = re.compile(rf"{_NUMBER}\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_DURATION_PART = re.compile(rf"{_NUMBER}\s*(ms|s|min|m|h|d|w)\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHOWN_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def parse_size(text: str) -> int:
    """Bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidConfigError(f"not a size: {text!r}", hint="bytes, or a number with a unit: 512k, 64MiB, 10MB, 1.5G")
    number, letter, binary, has_b = match[1], match[2].lower(), match[3], match[4]
    base = 1000 if letter and has_b and not binary else 1024
    return int(_finite(float(number) * base ** _POWERS[letter], text))


def parse_rate(text: str) -> int:
    """Bytes a second: a size, with or without `/s`. 0 for `unlimited`."""
    word = text.strip()
    if word.lower() == "unlimited":
        return 0
    try:
        rate = parse_size(word.removesuffix("/s"))
    except InvalidConfigError as error:
        raise InvalidConfigError(f"not a rate: {text!r}", hint="bytes a second, as 20MiB/s or 50M, or unlimited") from error
    if rate < 1:
        raise InvalidConfigError(f"not a rate: {text!r}", hint="at least one byte a second, or unlimited")
    return rate


def parse_duration(text: str) -> int:
    """Milliseconds."""
    word, at, total = text.strip(), 0, 0.0
    while match := _DURATION_PART.match(word, at):
        total += float(match[1]) * _UNITS_MS[match[2].lower()]
        at = match.end()
    if at == 0 or at < len(word):
        raise InvalidConfigError(f"not a duration: {text!r}", hint="numbers with units: 500ms, 90s, 5m, 2h, 3d, 1w, 1h30m")
    return round(_finite(total, text))


def _finite(amount: float, text: str) -> float:
    """Raise if it is more than a float can say."""
    if math.isinf(amount):
        raise InvalidConfigError(f"out of all bounds: {text!r}", hint="a smaller number")
    return amount


def parse_time(text: str, now_ms: int) -> int:
    """Epoch milliseconds, no more than a record can have."""
    time_ms = _epoch_ms(text, now_ms)
    if abs(time_ms) > _MAX_TIME_MS:
        raise InvalidConfigError(f"out of all bounds: {text!r}", hint=f"no record has a time beyond @{_MAX_TIME_MS}")
    return time_ms


def _epoch_ms(text: str, now_ms: int) -> int:
    word = text.strip()
    if word.lower() == "now":
        return now_ms
    digits = word.removeprefix("@")
    if digits.isascii() and digits.isdigit():
        return int(digits)
    try:
        return now_ms - parse_duration(word.removeprefix("-"))
    except InvalidConfigError:
        pass
    try:
        found = datetime.fromisoformat(word)
    except ValueError as error:
        hint = "2026-11-16T18:00:00Z (UTC if it names no zone), 2h for two hours ago, now, or @ and epoch milliseconds"
        raise InvalidConfigError(f"not a time: {text!r}", hint=hint) from error
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (zoned - EPOCH) // timedelta(milliseconds=1)


def format_size(size_bytes: float) -> str:
    """As `1.5 MiB`."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size_bytes /= 1024
        if abs(size_bytes) < 1024 or unit == "PiB":
            break
    return f"{size_bytes:.1f} {unit}"


def format_duration(duration_ms: float) -> str:
    """In its two largest units, as `3 d 4 h`."""
    left = round(abs(duration_ms))
    sign = "-" if duration_ms < 0 else ""
    if left < SECOND_MS:
        return f"{sign}{left} ms"
    parts = []
    for unit, unit_ms in _SHOWN_UNITS:
        count, left = divmod(left, unit_ms)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break  # 3 d, not 3 d 5 min
    return sign + " ".join(parts[:2])


def format_time(timestamp_ms: int) -> str:
    """A time of a record, in UTC; as a number where no calendar has it."""
    if timestamp_ms < 0:
        return str(timestamp_ms)
    try:
        return (EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(timestamp_ms)
