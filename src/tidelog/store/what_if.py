"""What would go if a topic were set otherwise: the decisions of retention over many settings, as a table."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import product
from typing import Literal, NamedTuple

from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError
from tidelog.log.log_reading import LogReading
from tidelog.record.batch import RecordBatch
from tidelog.retention import LogFacts, RetentionPolicy, decide, facts_of
from tidelog.retention.decision import Removal, left_of, records_in
from tidelog.store.explain import readable, when
from tidelog.store.state import StoreState

CountBy = Literal["offsets", "batches"]


class WhatIfRow(NamedTuple):
    """What some settings would do now."""

    config: Mapping[str, str]
    """The settings that were asked about, by Kafka's names; the topic's own for the rest."""
    segments: int
    size_bytes: int
    records: int
    """That would go, counted as the table says."""
    left_segments: int
    left_bytes: int
    oldest_left_ms: int | None
    """The time of the first batch that would be left, of all partitions; None if none would be."""


class WhatIf(NamedTuple):
    """A table: one row for each of the settings that were asked about."""

    topic: str
    now_ms: int
    counted_by: CountBy
    """offsets: by their offsets, which may be more than there are (compaction leaves gaps, and markers have offsets); batches: by the
    headers of batches, which takes a look at each one that would go."""
    rows: tuple[WhatIfRow, ...]
    settings_from: str | None = None
    """Where the topic's own settings are from, of a directory that is only read."""

    def __str__(self) -> str:
        heads = ("config", "segments", "bytes", "records", "bytes left", "oldest left")
        lines = [heads] + [
            (
                " ".join(f"{name}={value}" for name, value in row.config.items()) or "as it is",
                str(row.segments),
                str(row.size_bytes),
                str(row.records),
                str(row.left_bytes),
                "-" if row.oldest_left_ms is None else when(row.oldest_left_ms),
            )
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def grid(settings: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Every combination of the values that are given for each name."""
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


class _Asked(NamedTuple):
    config: Mapping[str, str]
    in_force: LogConfig


def what_if(
    state: StoreState,
    topic: str,
    configs: Iterable[Mapping[str, object]],
    now_ms: int,
    policies: Sequence[RetentionPolicy],
    count_by: CountBy,
) -> WhatIf:
    """Ask about each of the settings of a topic of the store."""
    entry = state.entry(topic)
    logs = (readable(state, TopicPartition(topic, number)) for number in entry.partition_ids())
    return ask(topic, state.log_config(entry), logs, configs, now_ms, policies, count_by)


def ask(
    topic: str,
    present: LogConfig,
    logs: Iterable[AbstractContextManager[LogReading]],
    configs: Iterable[Mapping[str, object]],
    now_ms: int,
    policies: Sequence[RetentionPolicy],
    count_by: CountBy,
) -> WhatIf:
    """Ask about each of the settings, on the same facts. All of them are checked before the first is asked about."""
    if count_by not in ("offsets", "batches"):
        raise ValueError(f"records are counted by 'offsets' or 'batches', not {count_by!r}")
    asked = []
    if isinstance(configs, (Mapping, str)):
        raise InvalidConfigError("settings to ask about that are no list", expected="a list of mappings, or grid(…)", found=repr(configs))
    for config in configs:
        in_force = present.with_changes(config)
        texts = in_force.describe()
        asked.append(_Asked({name: texts[name] for name in config}, in_force))
    rows = [WhatIfRow(one.config, 0, 0, 0, 0, 0, None) for one in asked]
    for opened in logs:
        with opened as log:
            counter = _Counter(log, facts_of(log), count_by)
            rows = [_with_partition(row, counter, one.in_force, now_ms, policies) for row, one in zip(rows, asked, strict=True)]
    return WhatIf(topic, now_ms, count_by, tuple(rows))


def _with_partition(row: WhatIfRow, counter: "_Counter", config: LogConfig, now_ms: int, policies: Sequence[RetentionPolicy]) -> WhatIfRow:
    removals = decide(counter.facts, config, now_ms, policies)
    left = left_of(counter.facts, removals).segments
    first = counter.time_of(left[0].base_offset) if left else None
    known = [time_ms for time_ms in (row.oldest_left_ms, first) if time_ms is not None]
    return row._replace(
        segments=row.segments + len(removals),
        size_bytes=row.size_bytes + sum(removal.segment.size_bytes for removal in removals),
        records=row.records + counter.records(removals),
        left_segments=row.left_segments + len(left),
        left_bytes=row.left_bytes + sum(segment.size_bytes for segment in left),
        oldest_left_ms=min(known, default=None),
    )


class _Counter:
    """What a partition has, looked up once for all settings."""

    def __init__(self, log: LogReading, facts: LogFacts, count_by: CountBy) -> None:
        self.facts = facts
        self._log = log
        self._count_by = count_by
        self._counts: dict[int, int] = {}
        self._segments = {segment.base_offset: segment for segment in log.segments}

    def time_of(self, base_offset: int) -> int | None:
        segment = self._segments.get(base_offset)
        return None if segment is None else segment.first_timestamp_ms

    def records(self, removals: Sequence[Removal]) -> int:
        if self._count_by == "offsets":
            return sum(records_in(self.facts, removal.segment) for removal in removals)
        for removal in removals:
            base_offset = removal.segment.base_offset
            if base_offset not in self._counts:
                self._counts[base_offset] = self._count(max(base_offset, self.facts.log_start_offset), removal.segment.end_offset)
        return sum(self._counts[removal.segment.base_offset] for removal in removals)

    def _count(self, start: int, end: int) -> int:
        """Records of data in batches that begin in the range; old formats have no count, so theirs are counted one by one."""
        if start >= end:
            return 0
        batches = self._log.batches(start, end, isolation="log_end", when_overtaken="skip")
        return sum(batch.count if isinstance(batch, RecordBatch) else sum(1 for _ in batch) for batch in batches)
