"""Why each segment of a log is still here, and what will remove it when: the decisions of retention, asked about the future. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.retention.decision import decide, left_of
from tidelog.retention.policy import RetentionPolicy
from tidelog.retention.rules import LOG_START, SIZE, TIME, LogFacts, SegmentFacts


class WayOut(NamedTuple):
    """How a segment may go, if nothing changes but what it says."""

    rule: str
    when_ms: int | None
    """From this time on; None: not by the clock."""
    after_bytes: int | None
    """When so many more bytes have come; None: not by size."""
    text: str


class SegmentOutlook(NamedTuple):
    """What becomes of a segment."""

    segment: SegmentFacts
    goes_by: str | None
    """The rule that removes it with the next round; None: it stays for now."""
    why: str
    """Why it goes, or why it stays."""
    ways_out: tuple[WayOut, ...]
    """What will remove it, if it stays; the first of them to come true does."""
    guards: tuple[str, ...]
    """What keeps it whatever a rule says."""

    @property
    def when_ms(self) -> int | None:
        """When its time comes; None if the clock alone never removes it."""
        return next((way.when_ms for way in self.ways_out if way.when_ms is not None), None)

    @property
    def after_bytes(self) -> int | None:
        """How many more bytes remove it; None if no size does."""
        return next((way.after_bytes for way in self.ways_out if way.after_bytes is not None), None)


def outlook(log: LogFacts, config: LogConfig, now_ms: int, more: Iterable[RetentionPolicy] = ()) -> list[SegmentOutlook]:
    """What becomes of every segment of a log, oldest first."""
    removals = decide(log, config, now_ms, more)
    going = [SegmentOutlook(removal.segment, removal.rule, removal.reason, (), ()) for removal in removals]
    return going + _staying(left_of(log, removals), config)


def _staying(log: LogFacts, config: LogConfig) -> list[SegmentOutlook]:
    found = []
    before_bytes, newest = 0, None
    for segment in log.segments:
        before_bytes += segment.size_bytes
        if newest is None or segment.largest_timestamp_ms > newest.largest_timestamp_ms:
            newest = segment
        guards = _guards(log, segment)
        ways: list[WayOut] = []
        if config.is_deleted_by_age and not (segment.is_active and segment.size_bytes == 0):
            ways += _by_size(log, config, segment, before_bytes)
            ways += _by_time(config, segment, newest)
        if not segment.is_active:
            ways.append(WayOut(LOG_START, None, None, f"when the log starts at {segment.end_offset} or above (delete_records_before)"))
        found.append(SegmentOutlook(segment, None, _why_it_stays(config, guards), tuple(ways), guards))
    return found


def _by_size(log: LogFacts, config: LogConfig, segment: SegmentFacts, up_to_here_bytes: int) -> list[WayOut]:
    if config.retention_bytes < 0:
        return []
    missing = max(0, config.retention_bytes + up_to_here_bytes - log.size_bytes)
    where = " in segments after it" if segment.is_active else ""
    return [WayOut(SIZE, None, missing, f"when {missing} more bytes arrive{where} (retention.bytes={config.retention_bytes})")]


def _by_time(config: LogConfig, segment: SegmentFacts, newest: SegmentFacts) -> list[WayOut]:
    """A segment goes when all before it may go too, so the newest record up to here counts."""
    if config.retention_ms < 0:
        return []
    when_ms = newest.largest_timestamp_ms + config.retention_ms + 1
    text = f"from {when_ms} on (retention.ms={config.retention_ms})"
    if newest is not segment:
        text += f": the segment at {newest.base_offset} has a newer record, and goes first"
    elif segment.is_active:
        text += ", if nothing is appended until then"
    return [WayOut(TIME, when_ms, None, text)]


def _guards(log: LogFacts, segment: SegmentFacts) -> tuple[str, ...]:
    guards = []
    if segment.end_offset > log.high_watermark:
        guards.append(f"it reaches above the high watermark, which is {log.high_watermark}")
    if segment.is_active and segment.size_bytes == 0:
        guards.append("an empty active segment stays")
    return tuple(guards)


def _why_it_stays(config: LogConfig, guards: tuple[str, ...]) -> str:
    if guards:
        return guards[0]
    if not config.is_deleted_by_age:
        return f"cleanup.policy={','.join(config.cleanup_policy) or 'none'} keeps all that was not deleted by request"
    if config.retention_ms < 0 and config.retention_bytes < 0:
        return "it is kept for ever: retention.ms=-1 and retention.bytes=-1"
    return "no rule lets it go yet"
