"""Where a consumer begins that has no position, or one that its log does not have any more: `auto.offset.reset`."""

import re
from datetime import timedelta
from typing import Literal, NamedTuple

from tidelog.errors import InvalidConfigError
from tidelog.log.positions import EARLIEST, LATEST, Position, Time

Kind = Literal["earliest", "latest", "none", "by_duration"]
_BY_DURATION = "by_duration:"
_NUMBER = r"([+-]?\d+)"
_DURATION = re.compile(
    rf"([+-]?)P(?:{_NUMBER}D)?(T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:([+-]?\d+(?:[.,]\d{{0,9}})?)S)?)?\Z", re.IGNORECASE | re.ASCII
)
"""As Java's `Duration` reads it: days, hours, minutes and seconds, each of which may be negative."""


class OffsetReset(NamedTuple):
    """The rule."""

    kind: Kind
    duration_ms: int = 0

    def position(self, now_ms: int) -> Position | None:
        """Where to begin now; None: nowhere, which is an error."""
        if self.kind == "by_duration":
            return Time(max(0, now_ms - self.duration_ms))
        return {"earliest": EARLIEST, "latest": LATEST}.get(self.kind)


def parse_reset(given: object) -> OffsetReset:
    """The rule that somebody has given: one of Kafka's, or a time to go back."""
    if isinstance(given, timedelta) and given >= timedelta(0):
        return OffsetReset("by_duration", given // timedelta(milliseconds=1))
    if given == "earliest" or given == "latest" or given == "none":
        return OffsetReset(given)
    if isinstance(given, str) and given.startswith(_BY_DURATION):
        duration_ms = parse_duration_ms(given.removeprefix(_BY_DURATION))
        if duration_ms is not None and duration_ms >= 0:
            return OffsetReset("by_duration", duration_ms)
    raise InvalidConfigError(
        "no such auto_offset_reset",
        expected="'earliest', 'latest', 'none', 'by_duration:PT1H' or a timedelta, not negative",
        found=repr(given),
    )


def parse_duration_ms(text: str) -> int | None:
    """A duration of ISO 8601 in milliseconds, cut off; None if it is none."""
    match = _DURATION.match(text)
    if match is None or not any(match.group(2, 4, 5, 6)) or match[3] in ("T", "t"):
        return None
    sign, days, _, hours, minutes, seconds = match.groups()
    whole, _, fraction = (seconds or "0").replace(",", ".").partition(".")
    nanos = int(fraction.ljust(9, "0") or "0") * (-1 if whole.startswith("-") else 1)
    total_s = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(whole)
    total_nanos = (total_s * 1_000_000_000 + nanos) * (-1 if sign == "-" else 1)
    return total_nanos // 1_000_000 if total_nanos >= 0 else -(-total_nanos // 1_000_000)
