"""What may be said about which segments go, and what holds whatever is said.

A policy is asked about one log, or about all logs of a store, and answers with segments that need not be kept and why. It decides nothing
else. Of what it names only the oldest segments go, up to the first that it did not name, that reaches above the high watermark, or that is
an empty active one; and a log whose `cleanup.policy` does not have `delete` loses only what was deleted by request. Kafka's three rules
are policies, asked first and in Kafka's order, each about what the one before it left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.retention.rules import LOG_START, SIZE, TIME, LogFacts, Rule, SegmentFacts, above_size, below_log_start, older_than_time


@runtime_checkable
class RetentionPolicy(Protocol):
    """Says which segments of a log need not be kept. Asked in the background, from one thread at a time."""

    @property
    def name(self) -> str:
        """What results call it."""

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
        """Segments that may go, by base offset, each with the reason."""


class PartitionFacts(NamedTuple):
    """A log that is looked after, as a policy for the whole store sees it."""

    partition: TopicPartition
    directory: str
    """The path of its log directory."""
    log: LogFacts
    config: LogConfig


class DirectoryFacts(NamedTuple):
    """A log directory, as a policy for the whole store sees it."""

    path: str
    file_system: int
    """A number; directories with the same share their space."""
    free_bytes: int
    deleted_bytes: int
    """Of segments and topics that are deleted, and whose files wait to be removed."""


class StoreFacts(NamedTuple):
    """What a policy for the whole store looks at."""

    partitions: Sequence[PartitionFacts]
    directories: Sequence[DirectoryFacts]


class Expired(NamedTuple):
    """A segment of a store that need not be kept."""

    partition: TopicPartition
    base_offset: int
    reason: str


@runtime_checkable
class StoreRetentionPolicy(Protocol):
    """Says which segments of a whole store need not be kept. Asked after all policies about single logs."""

    @property
    def name(self) -> str:
        """What results call it."""

    def expired_in_store(self, store: StoreFacts, now_ms: int) -> Iterable[Expired]:
        """Segments that may go."""


AnyPolicy = RetentionPolicy | StoreRetentionPolicy


@dataclass(frozen=True, slots=True)
class KafkaRule:
    """One of Kafka's rules as a policy."""

    name: str
    rule: Rule
    reason: Callable[[SegmentFacts, LogFacts, LogConfig, int], str]

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
        """See `RetentionPolicy`."""
        count = self.rule(log, config, now_ms)
        return {segment.base_offset: self.reason(segment, log, config, now_ms) for segment in log.segments[:count]}


def _why_log_start(segment: SegmentFacts, log: LogFacts, config: LogConfig, now_ms: int) -> str:
    return f"it ends at {segment.end_offset}, and the log starts at {log.log_start_offset}"


def _why_size(segment: SegmentFacts, log: LogFacts, config: LogConfig, now_ms: int) -> str:
    return f"the log has {log.size_bytes} bytes, and retention.bytes is {config.retention_bytes}"


def _why_time(segment: SegmentFacts, log: LogFacts, config: LogConfig, now_ms: int) -> str:
    return f"its newest record is {now_ms - segment.largest_timestamp_ms} ms old, and retention.ms is {config.retention_ms}"


KAFKA_POLICIES: tuple[RetentionPolicy, ...] = (
    KafkaRule(LOG_START, below_log_start, _why_log_start),
    KafkaRule(SIZE, above_size, _why_size),
    KafkaRule(TIME, older_than_time, _why_time),
)
"""Kafka's rules, in Kafka's order."""


def policies_for(config: LogConfig, more: Iterable[RetentionPolicy] = ()) -> tuple[RetentionPolicy, ...]:
    """The policies that count for a log: without `delete` in its `cleanup.policy` only the first of Kafka's."""
    return (*KAFKA_POLICIES, *more) if config.is_deleted_by_age else KAFKA_POLICIES[:1]
