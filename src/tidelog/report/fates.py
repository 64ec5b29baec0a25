"""What becomes of a segment, in one word: the decisions of retention and compaction, sorted by when they come true. Pure.

    now         a rule removes it with the next round
    day … later its time comes within a day, a week, thirty days, or later
    size        it goes when so many more bytes have come; no clock removes it
    compacted   it lasts until compaction has a newer record for each of its keys
    kept        no rule removes it
    alone       nobody looks after it, or what its owner does is not known

A segment that a guard keeps whatever a rule says, because readers do not see all of it yet, is `kept` for now.
"""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from tidelog.compaction.choice import CleaningChoice
from tidelog.config import LogConfig
from tidelog.report.facts import Fate, FateFacts, Stratum
from tidelog.retention import SegmentFacts, SegmentOutlook

FATES: Final[tuple[Fate, ...]] = get_args(Fate)
"""In the order in which they come true."""
DAY_MS: Final = 86_400_000
_WITHIN: Final[tuple[tuple[Fate, int], ...]] = (("day", DAY_MS), ("week", 7 * DAY_MS), ("month", 30 * DAY_MS))


def fate_of(one: SegmentOutlook, config: LogConfig, now_ms: int, *, is_left_alone: bool) -> Fate:
    """What becomes of a segment."""
    if is_left_alone:
        return "alone"
    if one.goes_by is not None:
        return "now"
    if config.is_compacted and not config.is_deleted_by_age:
        return "compacted"
    if one.guards:
        return "kept"
    if one.when_ms is not None:
        left_ms = one.when_ms - now_ms
        return next((fate for fate, limit_ms in _WITHIN if left_ms <= limit_ms), "later")
    if one.after_bytes is not None:
        return "size"
    return "compacted" if config.is_compacted else "kept"


def is_dirty(segment: SegmentFacts, config: LogConfig, cleaning: CleaningChoice | None) -> bool | None:
    """Whether the cleaner has not been over all of a segment; None where there is no cleaner."""
    if cleaning is None or not config.is_compacted:
        return None
    return segment.size_bytes > 0 and segment.end_offset > cleaning.first_dirty_offset


def sum_fates(strata: Iterable[Stratum]) -> tuple[FateFacts, ...]:
    """How much goes when. Only fates that something has."""
    found: dict[Fate, tuple[int, int]] = {}
    for stratum in strata:
        segments, size_bytes = found.get(stratum.fate, (0, 0))
        found[stratum.fate] = segments + stratum.segments, size_bytes + stratum.size_bytes
    return tuple(FateFacts(fate, *found[fate]) for fate in FATES if fate in found)


def next_to_go(strata: Sequence[Stratum]) -> Stratum | None:
    """The first that goes now, or else by the clock; None if none does."""
    going = [stratum for stratum in strata if stratum.goes_by is not None]
    timed = [stratum for stratum in strata if stratum.when_ms is not None and stratum.fate in ("day", "week", "month", "later")]
    return going[0] if going else min(timed, key=lambda stratum: stratum.when_ms or 0, default=None)
