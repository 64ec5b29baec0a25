"""What becomes of a segment, in a sentence: "kept: newest record is 3 d 4 h old, retention.ms is 7 d; goes in 3 d 20 h". Pure."""

from typing import TYPE_CHECKING

from tidelog.cli.amounts import format_duration, format_size

if TYPE_CHECKING:
    from tidelog.config import LogConfig
    from tidelog.retention import SegmentOutlook

FUTURE_MS = 86_400_000
"""As `verify` has it: a clock may be wrong by hours, but not by a day."""
_TIME, _SIZE, _LOG_START = "time", "size", "log start"


def segment_words(one: "SegmentOutlook", config: "LogConfig", now_ms: int) -> str:
    """Why a segment is here, and when it goes, or that it goes now."""
    if one.goes_by is not None:
        return f"goes now: {_why_it_goes(one, config, now_ms)}"
    if one.guards:
        return f"kept: {one.guards[0]}{_later(one, config, now_ms)}"
    if not config.is_deleted_by_age:
        return f"kept: cleanup.policy is {','.join(config.cleanup_policy) or 'none'}, so nothing goes by age or size"
    if config.retention_ms < 0 and config.retention_bytes < 0:
        return "kept for ever: retention.ms is -1 and retention.bytes is -1"
    if config.retention_ms < 0:
        return f"kept: retention.bytes is {format_size(config.retention_bytes)}{_later(one, config, now_ms)}"
    return f"kept: {_age(one, now_ms)}, retention.ms is {duration_words(config.retention_ms)}{_later(one, config, now_ms)}"


def is_dated_ahead(one: "SegmentOutlook", now_ms: int) -> bool:
    """Whether a record of it says that it is from the future, which keeps it, and all behind it, for longer than anybody meant."""
    return one.segment.size_bytes > 0 and one.segment.largest_timestamp_ms > now_ms + FUTURE_MS


def duration_words(duration_ms: int) -> str:
    """A duration of a setting."""
    return "-1, for ever" if duration_ms < 0 else format_duration(duration_ms)


def _age(one: "SegmentOutlook", now_ms: int) -> str:
    age_ms = now_ms - one.segment.largest_timestamp_ms
    if age_ms < 0:
        return f"newest record is dated {format_duration(-age_ms)} in the future"
    return f"newest record is {format_duration(age_ms)} old"


def _why_it_goes(one: "SegmentOutlook", config: "LogConfig", now_ms: int) -> str:
    if one.goes_by == _TIME:
        return f"{_age(one, now_ms)}, retention.ms is {duration_words(config.retention_ms)}"
    if one.goes_by == _SIZE:
        return f"the log is larger than retention.bytes, which is {format_size(config.retention_bytes)}"
    return one.why if one.goes_by == _LOG_START else f"{one.why} ({one.goes_by})"


def _later(one: "SegmentOutlook", config: "LogConfig", now_ms: int) -> str:
    """How it will go, if it will; which of the ways comes first nobody knows."""
    ways = []
    for way in one.ways_out:
        if way.rule == _TIME and way.when_ms is not None:
            left_ms = way.when_ms - now_ms
            text = f"goes in {format_duration(left_ms)}" if left_ms > 0 else "goes when that is no more so"
            if "newer record" in way.text:
                text += ", when a segment before it with a newer record may go"
            elif one.segment.is_active:
                text += " if nothing is appended until then"
            ways.append(text)
        elif way.rule == _SIZE and way.after_bytes is not None:
            ways.append(f"goes when {format_size(way.after_bytes)} more arrive (retention.bytes is {format_size(config.retention_bytes)})")
    return "".join(f"; {'or ' if place else ''}{text}" for place, text in enumerate(ways))
