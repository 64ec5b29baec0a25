"""Delete records by request: the start of a log moves up, and segments that lie below it go. Decided by a pure function, and done."""

from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.plurals import counted
from tidelog.retention.decision import Removal, held_to
from tidelog.retention.policy import KAFKA_POLICIES
from tidelog.retention.round import delete, facts_of
from tidelog.retention.rules import LogFacts

_BELOW_START = KAFKA_POLICIES[0]


class Trimmed(NamedTuple):
    """What went from a partition."""

    partition: TopicPartition
    log_start_offset_before: int
    log_start_offset: int
    segments: int
    """That lay below the new start as a whole. One that reaches above it stays as it is."""
    size_bytes: int

    @property
    def records(self) -> int:
        """By offsets: not fewer than there were."""
        return self.log_start_offset - self.log_start_offset_before

    def __str__(self) -> str:
        return (
            f"{self.partition}: starts at {self.log_start_offset}, not at {self.log_start_offset_before}; "
            f"{counted(self.segments, 'segment')} went, {self.size_bytes} bytes"
        )


def going_below(facts: LogFacts, offset: int) -> list[Removal]:
    """What goes if a log is to start at an offset."""
    moved = facts._replace(log_start_offset=max(offset, facts.log_start_offset))
    return held_to(moved, _BELOW_START.name, _BELOW_START.expired(moved, LogConfig.of(None), 0))


def trim(log: Log, offset: int) -> Trimmed:
    """Let a log start at an offset, durably, and delete the segments below it. No other rule of retention is asked."""
    before = log.log_start_offset
    after = log.delete_records_before(offset)
    facts = facts_of(log)
    gone = list(delete(log, facts, going_below(facts, after)))
    return Trimmed(log.partition, before, after, sum(one.segments for one in gone), sum(one.size_bytes for one in gone))
