"""Numbers as the page shows them: three digits that matter, thousands apart, times in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

from tidelog.report.markup import THIN_SPACE

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS: Final = (("y", 31_557_600_000), ("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def size(size_bytes: float) -> str:
    """As `1.53 GiB`."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1000 or unit == "PiB":
            break
        value /= 1024
    return f"{_digits(value) if unit != 'B' else f'{value:.0f}'}{THIN_SPACE}{unit}"


def whole_size(power: int) -> str:
    """A power of two, as `4 KiB`."""
    step = max(0, power.bit_length() - 1) // 10
    return f"{power >> 10 * step}{THIN_SPACE}{('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[step]}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def count(value: int | None) -> str:
    """With its thousands apart; a dash where nothing is known."""
    return "–" if value is None else f"{value:,}".replace(",", THIN_SPACE)


def short_count(value: float) -> str:
    """As `12.3 M`."""
    if value < 1000:
        return f"{value:.0f}"
    for unit in ("k", "M", "G", "T"):  # noqa: B007
        value /= 1000
        if value < 999.5:
            break
    return f"{_digits(value)}{THIN_SPACE}{unit}"


def plural(number: int, noun: str) -> str:
    """As `3 segments`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def duration(duration_ms: float) -> str:
    """In its two largest units, as `3 d 4 h`."""
    left, parts = round(abs(duration_ms)), []
    for unit, unit_ms in _UNITS_MS:
        number, left = divmod(left, unit_ms)
        if number:
            parts.append(f"{number}{THIN_SPACE}{unit}")
        elif parts:
            break
        if len(parts) == 2 or (parts and unit in ("s", "ms")):
            break
    return " ".join(parts) or f"0{THIN_SPACE}s"


def instant(timestamp_ms: int | None, *, by: str = "minutes") -> str:
    """A time in UTC, as `2026-11-18 05:12`; as a number where no calendar has it."""
    if timestamp_ms is None:
        return "–"
    try:
        shown = (_EPOCH + timedelta(milliseconds=timestamp_ms)).replace(tzinfo=None)
    except OverflowError:
        return f"{timestamp_ms}{THIN_SPACE}ms"
    return shown.date().isoformat() if by == "days" else shown.isoformat(" ", "milliseconds" if by == "milliseconds" else by)
