"""One round of retention over a log: ask each rule in turn, and delete what it does not keep."""

from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.retention.rules import LogFacts, SegmentFacts, deletable, rules_for


class Deleted(NamedTuple):
    """What one rule removed."""

    rule: str
    segments: int


def facts_of(log: Log) -> LogFacts:
    """What the rules look at, from one view of the segments."""
    segments, end_offset = log.segments, log.log_end_offset
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    facts = [
        SegmentFacts(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp_ms, segment is segments[-1])
        for segment, end in zip(segments, ends, strict=True)
    ]
    return LogFacts(facts, log.log_start_offset, log.high_watermark)


def delete_old_segments(log: Log, now_ms: int) -> list[Deleted]:
    """Kafka's `deleteOldSegments`: what went, by rule."""
    deleted = []
    for name, rule in rules_for(log.config):
        facts = facts_of(log)
        count = deletable(facts, rule(facts, log.config, now_ms))
        if count:
            deleted.append(Deleted(name, log.delete_segments(count, name)))
    return deleted
