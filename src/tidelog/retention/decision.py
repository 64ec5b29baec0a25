"""Decide what goes from a log: ask the policies, and hold them to what holds whatever they say. Pure: nothing is touched."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.retention.policy import KAFKA_POLICIES, Expired, RetentionPolicy, policies_for
from tidelog.retention.rules import LogFacts, SegmentFacts, deletable, leading


class Removal(NamedTuple):
    """A segment that goes, or would."""

    rule: str
    reason: str
    segment: SegmentFacts


def decide(log: LogFacts, config: LogConfig, now_ms: int, more: Iterable[RetentionPolicy] = ()) -> list[Removal]:
    """What goes from a log now, oldest first: Kafka's rules and then `more`, each asked about what the one before it left.

    Where one of `more` lets something go, all are asked again: behind it may lie what others do not keep. So a second round finds nothing.
    """
    policies = policies_for(config, more)
    removals: list[Removal] = []
    is_settled = False
    while not is_settled:
        is_settled = True
        for number, policy in enumerate(policies):
            if log.segments:
                going = held_to(log, policy.name, policy.expired(log, config, now_ms))
                removals += going
                log = left_of(log, going)
                is_settled = is_settled and (not going or number < len(KAFKA_POLICIES))
    return removals


def held_to(log: LogFacts, rule: str, named: Mapping[int, str]) -> list[Removal]:
    """Of the segments that a policy has named, those that may go."""
    wanted = leading(log.segments, lambda segment: segment.base_offset in named)
    return [Removal(rule, named[segment.base_offset], segment) for segment in log.segments[: deletable(log, wanted)]]


def left_of(log: LogFacts, removals: list[Removal]) -> LogFacts:
    """A log without its first segments. None is left where the active one goes too: what comes after it is empty, and stays."""
    if not removals:
        return log
    start = max(log.log_start_offset, removals[-1].segment.end_offset)
    return log._replace(segments=log.segments[len(removals) :], log_start_offset=start)


def by_partition(expired: Iterable[Expired]) -> dict[TopicPartition, dict[int, str]]:
    """What a policy for the whole store has named, for each log."""
    named: dict[TopicPartition, dict[int, str]] = {}
    for partition, base_offset, reason in expired:
        named.setdefault(partition, {})[base_offset] = reason
    return named


def records_in(log: LogFacts, segment: SegmentFacts) -> int:
    """Offsets of a segment that can be read. Not fewer than its records: compaction leaves gaps, and markers have offsets too."""
    return max(0, segment.end_offset - max(segment.base_offset, log.log_start_offset))
