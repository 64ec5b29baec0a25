"""Places in a log, as they are typed: an offset, a time, or one of the ends."""

from typing import TYPE_CHECKING

from tidelog.cli.amounts import format_time, parse_time
from tidelog.cli.output import progress
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.log.positions import Position


def parse_position(text: str, label: str, now_ms: int) -> "Position":
    """`42`, `earliest`, `latest`, or a time (`tidelog.cli.amounts`); what a time was taken for is told on stderr."""
    from tidelog.log.positions import EARLIEST, LATEST, Time

    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if word.isascii() and word.isdigit():
        return int(word)
    try:
        timestamp_ms = parse_time(text, now_ms)
    except InvalidConfigError as error:
        hint = "an offset, earliest, latest, a time as 2026-11-16T18:00:00Z, 2h for two hours ago, or @ and epoch milliseconds"
        raise InvalidConfigError(f"not a place in a log: {text!r}", hint=hint) from error
    return Time(tell_time(timestamp_ms, label))


def resolve_time(text: str, label: str, now_ms: int) -> int:
    """A time in epoch milliseconds; what it was taken for is told on stderr."""
    return tell_time(parse_time(text, now_ms), label)


def tell_time(timestamp_ms: int, label: str) -> int:
    """Say on stderr which instant a time was taken for."""
    progress(f"{label} {format_time(timestamp_ms)} (@{timestamp_ms})")
    return timestamp_ms
