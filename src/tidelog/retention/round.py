"""One round of retention over a log: decide, and delete what goes."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.log.storage_errors import storage_error
from tidelog.retention.decision import Removal, decide, records_in
from tidelog.retention.policy import RetentionPolicy
from tidelog.retention.rules import LogFacts, SegmentFacts


class Deleted(NamedTuple):
    """What one rule removed."""

    rule: str
    segments: int
    size_bytes: int
    records: int
    """By offsets: not fewer than there were."""
    reason: str
    """Of the last of them."""


def facts_of(log: LogReading) -> LogFacts:
    """What the rules look at, from one view of the segments."""
    while True:
        segments, end_offset = log.segments, log.log_end_offset
        ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
        try:
            facts = [
                SegmentFacts(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp_ms, segment is segments[-1])
                for segment, end in zip(segments, ends, strict=True)
            ]
        except OSError as error:
            if isinstance(error, FileNotFoundError) and log.segments is not segments:
                continue  # one of them was deleted before it was looked at
            raise storage_error(error, log.directory, "looking at the segments failed") from error
        return LogFacts(facts, log.log_start_offset, log.high_watermark, log.partition)


def delete_old_segments(log: Log, now_ms: int, more: Iterable[RetentionPolicy] = ()) -> list[Deleted]:
    """Kafka's `deleteOldSegments`, and what other policies say: what went, by rule."""
    facts = facts_of(log)
    return list(delete(log, facts, decide(facts, log.config, now_ms, more)))


def delete(log: Log, facts: LogFacts, removals: Sequence[Removal]) -> Iterator[Deleted]:
    """Delete what was decided about a log on these facts, rule by rule. What has changed since stays until the next round."""
    for rule, group in groupby(removals, key=lambda removal: removal.rule):
        going = list(group)
        count = log.delete_segments(len(going), rule, end_offset=going[-1].segment.end_offset)
        gone = [removal.segment for removal in going[:count]]
        if gone:
            size_bytes, records = sum(segment.size_bytes for segment in gone), sum(records_in(facts, segment) for segment in gone)
            yield Deleted(rule, count, size_bytes, records, going[count - 1].reason)
        if count < len(going):
            break
