"""The facts of one topic: its partitions summed up, how it is set, and what other settings would do."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from tidelog.errors import TidelogError
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.log.log_reading import LogReading
from tidelog.report.facts import KeyFacts, TopicFacts, WhatIfFacts
from tidelog.report.fates import DAY_MS
from tidelog.report.partition_gathering import Gathered
from tidelog.report.topic_watch import TopicWatch
from tidelog.store.read_only_settings import FoundSettings
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.what_if import ask

DECIDING: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
DECIDING_COMPACTED: Final = ("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms")
ASKED: Final = tuple({"retention.ms": days * DAY_MS} for days in (1, 7, 30))


class TopicSource(NamedTuple):
    """Where the topic is from."""

    store: ReadOnlyStore
    topic: str
    settings: FoundSettings


def gather_topic(
    source: TopicSource,
    partitions: Sequence[Gathered],
    watch: TopicWatch,
    logs: Iterable[AbstractContextManager[LogReading]],
    now_ms: int,
) -> TopicFacts:
    """The facts of a topic, from those of its partitions."""
    total = SegmentStats("", 0)
    for one in partitions:
        total.add(one.figures)
    config = source.settings.config
    names = [*DECIDING, *(DECIDING_COMPACTED if config.is_compacted else ())]
    described = config.describe()
    has_records = total.keys is not None
    return TopicFacts(
        topic=source.topic,
        partitions=len(partitions),
        segments=sum(one.facts.segments for one in partitions),
        size_bytes=sum(one.facts.size_bytes for one in partitions),
        records=total.records,
        markers=total.markers,
        batches=total.batches,
        damaged_bytes=total.damaged_bytes,
        first_timestamp_ms=total.first_timestamp_ms,
        last_timestamp_ms=total.last_timestamp_ms,
        cleanup_policy=None if source.settings.left_alone is not None else described["cleanup.policy"],
        settings={name: described[name] for name in names},
        settings_from=source.settings.source,
        is_assumed=_is_assumed(source, names),
        codecs=dict(total.codecs.most_common()),
        magics=dict(sorted(total.magics.items())),
        batch_sizes=dict(sorted(watch.batch_sizes.items())),
        key_sizes=dict(sorted(watch.key_sizes.items())) if has_records else None,
        value_sizes=dict(sorted(watch.value_sizes.items())) if has_records else None,
        keys=_keys(total, watch),
        what_if=_what_if(source, logs, now_ms),
        findings=sum(one.facts.findings for one in partitions),
    )


def _keys(total: SegmentStats, watch: TopicWatch) -> KeyFacts | None:
    if total.distinct_keys is None:
        return None
    return KeyFacts(
        distinct=total.distinct_keys,
        null_keys=total.null_keys or 0,
        tombstones=total.tombstones or 0,
        records_per_key=watch.keys.records_per_key(),
        hottest=watch.keys.hottest(),
    )


def _is_assumed(source: TopicSource, names: Sequence[str]) -> bool:
    """Whether one of the settings that decide is written down nowhere: a broker's file of properties is not in its directory.

    Nor is it in a store's file how a topic is set that was adopted, until somebody has said so.
    """
    entry = source.store.found_topic(source.topic).entry
    if entry is not None and entry.is_set:
        return False
    written = {setting.name for setting in source.store.topic(source.topic).describe().settings}
    return bool(set(names) - written - source.settings.given)


def _what_if(source: TopicSource, logs: Iterable[AbstractContextManager[LogReading]], now_ms: int) -> tuple[WhatIfFacts, ...]:
    config = source.settings.config
    if source.settings.left_alone is not None or not config.is_deleted_by_age:
        return ()
    try:
        asked = ask(source.topic, config, logs, ASKED, now_ms, (), "offsets")
    except (TidelogError, OSError):
        return ()
    return tuple(WhatIfFacts(dict(row.config), row.segments, row.size_bytes, row.left_bytes) for row in asked.rows)
