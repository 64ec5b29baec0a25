"""What becomes of a segment, in words for people."""

from typing import Final

from tidelog.report.amounts import count, duration, instant, plural, size
from tidelog.report.facts import Fate, Stratum

FATE_WORDS: Final[dict[Fate, str]] = {
    "now": "goes now",
    "day": "within a day",
    "week": "within a week",
    "month": "within 30 days",
    "later": "later",
    "size": "when more arrives",
    "compacted": "newest per key stays",
    "kept": "kept",
    "alone": "left alone",
}
FATE_MEANING: Final[dict[Fate, str]] = {
    "now": "a rule removes it with the next round of retention",
    "day": "its time comes within a day",
    "week": "its time comes within a week",
    "month": "its time comes within thirty days",
    "later": "its time comes after more than thirty days",
    "size": "it goes by size, when so many more bytes have come; no clock removes it",
    "compacted": "the topic is compacted: the newest record of each key stays",
    "kept": "no rule removes it, or a guard keeps it",
    "alone": "nobody looks after it, or what its owner does is not known",
}


def goes(stratum: Stratum, now_ms: int) -> str:
    """When it goes, in a few words."""
    if stratum.fate == "now":
        return "now"
    if stratum.fate in ("day", "week", "month", "later") and stratum.when_ms is not None:
        return f"in {duration(stratum.when_ms - now_ms)}"
    if stratum.fate == "size" and stratum.after_bytes is not None:
        return f"after {size(stratum.after_bytes)} more"
    if stratum.fate == "compacted":
        return "compacted"
    return FATE_WORDS[stratum.fate]


def reason(stratum: Stratum, now_ms: int, settings: dict[str, str]) -> str:
    """When it goes, and by which rule."""
    if stratum.fate == "now":
        if stratum.goes_by == "time" and stratum.last_timestamp_ms is not None:
            age = duration(now_ms - stratum.last_timestamp_ms)
            return f"now, by time: newest record {age} old, retention.ms is {setting_text('retention.ms', settings['retention.ms'])}"
        return f"now, by {stratum.goes_by}: {stratum.why}"
    if stratum.fate in ("day", "week", "month", "later") and stratum.when_ms is not None:
        first = "the first of them " if stratum.segments > 1 else ""
        late = ", if nothing is appended until then" if stratum.is_active else ""
        return f"by time: {first}{goes(stratum, now_ms)}, {instant(stratum.when_ms)}{late}"
    if stratum.fate == "size":
        return f"by size: {goes(stratum, now_ms)}"
    return stratum.why if stratum.fate != "compacted" else "by key, when compaction finds a newer record of each"


def state(stratum: Stratum) -> str:
    """What it is, in a word or two."""
    words = ["active"] if stratum.is_active else []
    if stratum.is_dirty is not None and stratum.size_bytes:
        words.append("dirty" if stratum.is_dirty else "clean")
    if stratum.findings or stratum.damaged_bytes:
        words.append("damaged" if stratum.damaged_bytes else plural(stratum.findings, "finding"))
    return ", ".join(words)


def offsets(stratum: Stratum) -> str:
    """From which offset to which."""
    is_empty = stratum.end_offset is None or stratum.end_offset <= stratum.base_offset
    return count(stratum.base_offset) if is_empty else f"{count(stratum.base_offset)} – {count((stratum.end_offset or 0) - 1)}"


def setting_text(name: str, value: str) -> str:
    """The value of a setting as people say it."""
    if value == "-1" or (name == "max.compaction.lag.ms" and value == str(2**63 - 1)):
        return "unlimited"
    if value.isdigit() and name.endswith(".ms"):
        return duration(int(value))
    return size(int(value)) if value.isdigit() and name.endswith(".bytes") else value
