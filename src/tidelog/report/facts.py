"""What a report says, as plain values: gathered once, embedded in the page as JSON, and drawn from nothing else.

    ReportFacts            a directory at one moment
      TopicFacts           settings, figures, distributions, what other settings would do
      PartitionFacts       offsets, what the cleaner would do
        Stratum            a segment; several that lie next to each other where there are too many to tell one by one
      Findings             what verify has found

Absent facts are None, which is null in JSON. Times are epoch milliseconds, sizes are bytes.
"""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

Fate = Literal["now", "day", "week", "month", "later", "size", "compacted", "kept", "alone"]
"""When a segment goes, if nothing but the clock changes: see `tidelog.report.fates`."""
Reads = Literal["headers", "records"]
Kind = Literal["store", "broker", "directory", "partition"]


@dataclass(frozen=True, slots=True)
class Stratum:
    """A segment, or several of a partition that follow each other."""

    base_offset: int
    end_offset: int | None
    """Where the next one begins; None of a segment that could not be opened, and is known by its name only."""
    segments: int
    size_bytes: int
    records: int | None
    batches: int | None
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    tombstones: int | None
    """None unless records were read."""
    damaged_bytes: int
    is_active: bool
    is_dirty: bool | None
    """Of a compacted topic: whether the cleaner has not been over all of it; None of others."""
    fate: Fate
    """Of several segments that of the first to go."""
    goes_by: str | None
    """The rule that removes it with the next round."""
    when_ms: int | None
    after_bytes: int | None
    why: str
    findings: int


@dataclass(frozen=True, slots=True)
class CleaningFacts:
    """Whether a partition would be compacted now."""

    is_eligible: bool
    why: str
    first_dirty_offset: int
    dirty_ratio: float
    clean_bytes: int
    cleanable_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition, with its strata, oldest first."""

    topic: str
    partition: int
    log_start_offset: int | None
    high_watermark: int | None
    log_end_offset: int | None
    segments: int
    size_bytes: int
    records: int
    left_alone: str | None
    """Why nothing is done to it, or why it cannot be read."""
    cleaning: CleaningFacts | None
    findings: int
    strata: tuple[Stratum, ...]


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key with many records."""

    key: str | dict[str, str]
    """Text, or base64 of bytes that are none; cut where it is long."""
    records: int
    """At least so many."""


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What is known of the keys of a topic, once records were read."""

    distinct: int
    """About."""
    null_keys: int
    tombstones: int
    records_per_key: dict[int, int]
    """About how many keys have from so many records on, up to twice as many."""
    hottest: tuple[HotKey, ...]


@dataclass(frozen=True, slots=True)
class WhatIfFacts:
    """What a setting would do now."""

    config: dict[str, str]
    segments: int
    size_bytes: int
    left_bytes: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic, summed up over its partitions that are here."""

    topic: str
    partitions: int
    segments: int
    size_bytes: int
    records: int
    markers: int
    batches: int
    damaged_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    cleanup_policy: str | None
    settings: dict[str, str]
    """Those that decide when something goes."""
    settings_from: str | None
    is_assumed: bool
    """Whether some of them are nowhere written down."""
    codecs: dict[str, int]
    """Batches by codec."""
    magics: dict[int, int]
    batch_sizes: dict[int, int]
    """Batches of so many bytes on, up to twice as many; the same holds for the others."""
    key_sizes: dict[int, int] | None
    value_sizes: dict[int, int] | None
    keys: KeyFacts | None
    what_if: tuple[WhatIfFacts, ...]
    findings: int


@dataclass(frozen=True, slots=True)
class Series:
    """How much arrived in each bucket of time, of one topic, or of all others."""

    topic: str | None
    records: tuple[int, ...]
    size_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ThroughputFacts:
    """How much arrived when, by the newest timestamp of each batch."""

    start_ms: int
    bucket_ms: int
    series: tuple[Series, ...]
    outside_records: int
    """Far before or behind everything else."""
    untimed_records: int


@dataclass(frozen=True, slots=True)
class FateFacts:
    """All that goes at a time."""

    fate: Fate
    segments: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SoundnessFacts:
    """What verify has found, counted."""

    level: str
    errors: int
    warnings: int
    notes: int


@dataclass(frozen=True, slots=True)
class Totals:
    """All topics together."""

    topics: int
    partitions: int
    segments: int
    size_bytes: int
    records: int
    markers: int
    batches: int
    damaged_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    tombstones: int | None
    free_bytes: int | None
    """Of the file system."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """All that the page shows."""

    directory: str
    kind: Kind
    now_ms: int
    version: str
    reads: Reads
    totals: Totals
    fates: tuple[FateFacts, ...]
    soundness: SoundnessFacts
    throughput: ThroughputFacts | None
    topics: tuple[TopicFacts, ...]
    partitions: tuple[PartitionFacts, ...]
    left_off_topics: int
    left_off_partitions: int
    """Of more than a page can tell; they count in the sums."""
    findings: tuple[dict[str, Any], ...]
    left_off_findings: int

    def to_json(self) -> dict[str, Any]:
        """One object, of nothing but what JSON has."""
        return {"type": "report", **plain(self)}


def plain(value: Any) -> Any:
    """A value that JSON can have."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
