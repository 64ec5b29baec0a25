"""The options of a read, batch or stream, checked and put into one value: the names and the rules of Spark's Kafka source, and ours.

Of what says where to begin, the more exact counts: `startingTimestamp` before `startingOffsetsByTimestamp` before `startingOffsets`; where
to end likewise. A batch cannot begin at the latest offset nor end at the earliest, and a stream has no end.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tidelog.errors import InvalidConfigError
from tidelog.spark.option_values import MAX_TASKS, OptionValues, check_names, refuse
from tidelog.spark.schema import COLUMNS, check_columns, default_columns

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation

EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
"""What stands for the ends in JSON."""
DEFAULT_BYTES_PER_PARTITION = 128 << 20
"""At most so much of a log is one task's unless it is said, as with Spark's own files."""

CHOICES = ("assign", "subscribe", "subscribePattern")
STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "gapReport")
OPTIONS = (
    *("path", "paths", *CHOICES, *STARTING, *ENDING, "startingOffsetsByTimestampStrategy", "includeHeaders", "failOnDataLoss"),
    *("columns", "keys", "keyPartitioner", "isolation", "kafka.isolation.level", "allowMissingPartitions"),
    *("minPartitions", "maxRecordsPerPartition", "bytesPerPartition", "splitPartitions", "pushFilters", "latestByKey", *STREAM_ONLY),
)
"""Every option that means something to a read, as it is spelled."""
CONNECTOR_ONLY = ("groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs")
"""What Spark's Kafka source has for its broker: no fault here, and no use."""

_ISOLATIONS = {
    "committed": "committed",
    "high_watermark": "high_watermark",
    "uncommitted": "high_watermark",
    "log_end": "log_end",
    "read_committed": "committed",
    "read_uncommitted": "high_watermark",
}
_LEVELS = {"read_committed": "committed", "read_uncommitted": "high_watermark"}
_STRATEGIES = {"error": "error", "latest": "latest"}

logger = logging.getLogger("tidelog.spark")
_told: set[tuple[str, ...]] = set()


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where to begin or to end, as it was asked for."""

    kind: Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]
    option: str = ""
    """Which option says so."""
    numbers: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Offsets or timestamps of each (topic, partition)."""
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read as it was asked for. Small, and pickled to wherever it is needed."""

    paths: str
    """The directories as they were given: the catalogue resolves them."""
    assign: tuple[tuple[str, int], ...] | None
    subscribe: tuple[str, ...] | None
    subscribe_pattern: str | None
    starting: OffsetLimit
    ending: OffsetLimit
    on_no_match: Literal["error", "latest"]
    """What to do where no record is at or after a starting timestamp."""
    columns: tuple[str, ...]
    keys: frozenset[bytes] | None
    key_partitioner: Literal["murmur2"] | None
    isolation: "Isolation"
    fail_on_data_loss: bool
    allow_missing_partitions: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    bytes_per_partition: int | None
    split_partitions: bool
    push_filters: bool
    """Whether what Spark pushes down is used: that is for a DataFrame of one query."""
    latest_by_key: bool
    """Whether a task leaves out what it knows to be superseded by a later record of the same key."""
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    gap_report: str
    """Where a stream tells of offsets without rows: "log", "none", or the name of a file."""
    ignored: tuple[str, ...]
    """Options that were given and mean nothing here."""

    @property
    def target_bytes(self) -> int | None:
        """How many bytes of log a task should have; None: a partition is not cut."""
        if not self.split_partitions:
            return None
        return self.bytes_per_partition or DEFAULT_BYTES_PER_PARTITION

    @classmethod
    def of(cls, options: Mapping[str, str], is_stream: bool, *, others: tuple[str, ...] = ()) -> "ReadOptions":
        """Read and check what was given. `others` are names that mean something elsewhere, and nothing here."""
        values = OptionValues(options)
        foreign = tuple(name for name in options if _is_foreign(name))
        check_names((name for name in options if name not in foreign), (*OPTIONS, *others))
        given = [name for name in CHOICES if name in values]
        if len(given) != 1:
            raise InvalidConfigError(
                "which topics to read is not said" if not given else "which topics to read is said twice",
                expected=f"one of {', '.join(CHOICES)}",
                found=" and ".join(given) or "none",
            )
        if is_stream:
            for name in ENDING:
                if name in values:
                    raise InvalidConfigError(f"option {name} is not for streams", hint="a stream has no end; a batch has")
        include_headers = values.flag("includeHeaders", default=False)
        columns = values.words("columns")
        bytes_per_partition, min_partitions = values.size("bytesPerPartition"), values.integer("minPartitions", maximum=MAX_TASKS)
        is_split_asked_for = bytes_per_partition is not None or min_partitions is not None
        most, least = values.integer("maxOffsetsPerTrigger"), values.integer("minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            raise refuse("minOffsetsPerTrigger", f"at most maxOffsetsPerTrigger, which is {most}", least)
        unused = tuple(name for name in STREAM_ONLY if name in values and not is_stream)
        delay_ms = values.duration_ms("maxTriggerDelay")
        push_filters, latest_by_key = values.flag("pushFilters", default=False), values.flag("latestByKey", default=False)
        if latest_by_key and (is_stream or push_filters):
            # A stream hands on every change; and a filter that is pushed would drop records before it is known which is the last.
            raise InvalidConfigError(f"option latestByKey is not for {'streams' if is_stream else 'a read with pushFilters=true'}")
        keys, partitioner = values.keys("keys"), values.one_of("keyPartitioner", {"murmur2": "murmur2"}, "")
        if partitioner and keys is None and (is_stream or not push_filters):
            raise InvalidConfigError("option keyPartitioner says where keys are, and none are asked for", hint="the option keys names them")
        return cls(
            paths=_paths(values),
            assign=values.partitions("assign"),
            subscribe=values.words("subscribe"),
            subscribe_pattern=_pattern(values),
            starting=_starting(values, is_stream=is_stream),
            ending=_ending(values),
            on_no_match=values.one_of("startingOffsetsByTimestampStrategy", _STRATEGIES, "error"),  # type: ignore[arg-type]
            columns=check_columns(columns) if columns else default_columns(include_headers=include_headers),
            keys=keys,
            key_partitioner="murmur2" if partitioner else None,
            isolation=_isolation(values),
            fail_on_data_loss=values.flag("failOnDataLoss", default=True),
            allow_missing_partitions=values.flag("allowMissingPartitions", default=False),
            min_partitions=min_partitions,
            max_records_per_partition=values.integer("maxRecordsPerPartition"),
            bytes_per_partition=bytes_per_partition,
            split_partitions=values.flag("splitPartitions", default=not is_stream or is_split_asked_for),
            push_filters=push_filters,
            latest_by_key=latest_by_key,
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=15 * 60_000 if delay_ms is None else delay_ms,
            max_bytes_per_trigger=values.size("maxBytesPerTrigger"),
            gap_report=_gap_report(values),
            ignored=(*sorted(foreign), *unused),
        )

    def tell_ignored(self) -> None:
        """Say in one line what was given for nothing, once in a process."""
        if self.ignored and self.ignored not in _told:
            _told.add(self.ignored)
            logger.warning("tidelog: these options mean nothing here and are ignored: %s", ", ".join(self.ignored))


def _is_foreign(name: str) -> bool:
    lower = name.lower()
    return (lower.startswith("kafka.") and lower != "kafka.isolation.level") or lower in {other.lower() for other in CONNECTOR_ONLY}


def _paths(values: OptionValues) -> str:
    found = values.text("path") or values.text("paths")
    if not found:
        raise InvalidConfigError("no directory was given", hint='load("data") does, or option path; several have commas between them')
    return found


def _pattern(values: OptionValues) -> str | None:
    import re

    text = values.text("subscribePattern")
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise refuse("subscribePattern", "a regular expression", text, hint=str(error)) from None
    if not text:
        raise refuse("subscribePattern", "a regular expression", text)
    return text


def _isolation(values: OptionValues) -> "Isolation":
    own, level = values.one_of("isolation", _ISOLATIONS, ""), values.one_of("kafka.isolation.level", _LEVELS, "")
    if own and level and own != level:
        raise refuse("isolation", f"what kafka.isolation.level says ({values.text('kafka.isolation.level')})", values.text("isolation"))
    return own or level or "committed"  # type: ignore[return-value]


def _gap_report(values: OptionValues) -> str:
    text = values.text("gapReport") or "log"
    return text.lower() if text.lower() in ("log", "none") else text  # words are in any case, and no files of theirs are left behind


def _limit(values: OptionValues, names: tuple[str, str, str], default: Literal["earliest", "latest"]) -> OffsetLimit:
    timestamp, by_timestamp, by_offset = names
    if (at_ms := values.timestamp_ms(timestamp)) is not None:
        return OffsetLimit("timestamp", timestamp, timestamp_ms=at_ms)
    if (timestamps := values.partition_numbers(by_timestamp, "a timestamp")) is not None:
        if any(number < 0 for number in timestamps.values()):
            raise refuse(by_timestamp, "times from 1970 on, in milliseconds", values.text(by_timestamp))
        return OffsetLimit("timestamps", by_timestamp, timestamps)
    text = values.text(by_offset)
    if text is None:
        return OffsetLimit(default)
    if text.lower() == "earliest":
        return OffsetLimit("earliest", by_offset)
    if text.lower() == "latest":
        return OffsetLimit("latest", by_offset)
    if not text.startswith("{"):
        raise refuse(by_offset, 'earliest, latest, or JSON as in {"emails": {"0": 23, "1": -2}}', text)
    offsets = values.partition_numbers(by_offset, "the offset") or {}
    if any(number < EARLIEST_OFFSET for number in offsets.values()):
        raise refuse(by_offset, "offsets from 0 on, -1 for the latest or -2 for the earliest", text)
    return OffsetLimit("offsets", by_offset, offsets)


def _starting(values: OptionValues, *, is_stream: bool) -> OffsetLimit:
    limit = _limit(values, STARTING, "latest" if is_stream else "earliest")
    if not is_stream and (limit.kind == "latest" or (limit.kind == "offsets" and LATEST_OFFSET in limit.numbers.values())):
        raise refuse(
            "startingOffsets", "earliest or offsets: a batch that begins at the latest reads nothing", values.text("startingOffsets")
        )
    return limit


def _ending(values: OptionValues) -> OffsetLimit:
    limit = _limit(values, ENDING, "latest")
    if limit.kind == "earliest" or (limit.kind == "offsets" and EARLIEST_OFFSET in limit.numbers.values()):
        raise refuse("endingOffsets", "latest or offsets: a batch that ends at the earliest reads nothing", values.text("endingOffsets"))
    return limit


__all__ = ["COLUMNS", "OffsetLimit", "ReadOptions"]
