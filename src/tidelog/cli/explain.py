"""`tidelog explain`: why is it still here, when does it go, would it be compacted?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size, format_time
from tidelog.cli.outlook_words import is_dated_ahead, segment_words
from tidelog.cli.output import FOUND, plain, print_json, print_line
from tidelog.cli.positions import resolve_time
from tidelog.cli.provenance import SettingFact, settings_line, settings_of
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.tables import Column, number, optional, print_heading, print_rows
from tidelog.cli.targets import target_of

if TYPE_CHECKING:
    from tidelog.config import LogConfig
    from tidelog.store.explain import PartitionExplanation

DECIDING = (
    "cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes", "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms",
)  # fmt: skip
"""Settings by which a log is kept."""
OF_RETENTION = DECIDING[:5]
"""Those that matter where nothing is compacted."""
_COLUMNS = (
    Column("partition", "PARTITION", is_right=True),
    Column("base_offset", "BASE OFFSET", number, is_right=True),
    Column("next_offset", "NEXT", number, is_right=True),
    Column("size_bytes", "SIZE", format_size, is_right=True),
    Column("max_timestamp_ms", "NEWEST RECORD", optional(format_time), style="dim"),
    Column("words", "WHAT BECOMES OF IT"),
)


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    config: options.Config = None,
    now: Annotated[str | None, typer.Option("--now", help="As if it were this time.")] = None,
    as_json: options.Json = False,
) -> None:
    """Say why each segment is still here, when it goes and by which rule, and whether its log would be compacted.

    By the settings that are found in the directory, each with where it is from; --config gives those that are not written down there. The
    exit code is 1 if something is wrong: a log that cannot be read, settings that cannot be, records dated in the future.
    """
    from tidelog.record.kernel.clock import wall_clock

    target = target_of(directory, topic)
    now_ms = wall_clock() if now is None else resolve_time(now, "now", wall_clock())
    problems: list[str] = []
    is_empty = True
    with reading_disk("explain", None) as disk, open_store(target.root, disk, options.settings(config)) as store:
        names = [target.topic] if target.topic is not None else [one.name for one in store.topics()]
        for name in names:
            found = store.explain(name, now_ms).partitions
            own = [one for one in found if target.has(one.partition.partition)]
            in_force, facts = store.settings(name).config, settings_of(store, name)
            deciding = [fact for fact in facts if fact.name in DECIDING]
            problems += [text for one in own for text in problems_of(one, in_force, now_ms)]
            if as_json:
                for row in _objects(name, deciding, own, in_force, now_ms):
                    print_json(row)
            else:
                _print_topic(name, deciding, own, in_force, now_ms, is_first=is_empty)
            is_empty = False
    if is_empty and not as_json:
        print_line("no topics")
    if problems:
        for text in problems:
            if as_json:
                print_json({"type": "problem", "what": text})
            else:
                print_line(f"problem: {plain(text)}")
        raise typer.Exit(FOUND)


def problems_of(one: "PartitionExplanation", config: "LogConfig", now_ms: int) -> list[str]:
    """What keeps a partition from being kept as it is set."""
    if one.cleaning is None and not one.segments:
        return [f"{one.partition}: {one.left_alone}"]
    if one.left_alone is not None and "cannot be" in one.left_alone:
        return [f"{one.partition}: left alone, {one.left_alone}"]
    ahead = [found for found in one.segments if is_dated_ahead(found, now_ms)]
    if ahead and config.is_deleted_by_age and config.retention_ms >= 0:
        first = ahead[0].segment
        when = format_time(first.largest_timestamp_ms)
        return [f"{one.partition}: segment {first.base_offset} has a record dated {when}, in the future: it and those behind it stay"]
    return []


def _objects(
    topic: str, settings: list[SettingFact], found: "list[PartitionExplanation]", config: "LogConfig", now_ms: int
) -> Iterator[dict[str, Any]]:
    for fact in settings:
        yield fact.to_json() | {"topic": topic}
    for one in found:
        yield {
            "type": "partition",
            "topic": topic,
            "partition": one.partition.partition,
            "now_ms": now_ms,
            "left_alone": one.left_alone,
            "settings_from": one.settings_from,
            "would_be_compacted": None if one.cleaning is None else one.cleaning.is_eligible,
            "compaction": None if one.cleaning is None else one.cleaning._asdict() | {"dirty_ratio": one.cleaning.dirty_ratio},
        }
        yield from segment_objects(one, config, now_ms)


def segment_objects(one: "PartitionExplanation", config: "LogConfig", now_ms: int) -> list[dict[str, Any]]:
    """What becomes of each segment of a partition."""
    return [
        {
            "type": "segment",
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "base_offset": found.segment.base_offset,
            "next_offset": found.segment.end_offset,
            "size_bytes": found.segment.size_bytes,
            "max_timestamp_ms": found.segment.largest_timestamp_ms if found.segment.size_bytes else None,
            "is_active": found.segment.is_active,
            "goes_by": found.goes_by,
            "goes_at_ms": found.when_ms,
            "goes_after_bytes": found.after_bytes,
            "why": found.why,
            "guards": list(found.guards),
            "words": segment_words(found, config, now_ms) if one.left_alone is None else f"left alone: {one.left_alone}",
        }
        for found in one.segments
    ]


def _print_topic(
    name: str, settings: list[SettingFact], found: "list[PartitionExplanation]", config: "LogConfig", now_ms: int, *, is_first: bool
) -> None:
    print_heading(name, is_first=is_first)
    shown = [fact for fact in settings if config.is_compacted or fact.name in OF_RETENTION]
    for line in settings_line(shown):
        print_line(f"  {plain(line)}")
    rows = [row for one in found for row in segment_objects(one, config, now_ms)]
    print_rows(rows, _COLUMNS, as_json=False, empty="no segments")
    for one in found:
        if one.left_alone is not None:
            print_line(f"partition {one.partition.partition}: left alone, {plain(one.left_alone)}")
        elif one.cleaning is not None and config.is_compacted:
            verdict = "would be compacted" if one.cleaning.is_eligible else "would not be compacted"
            print_line(f"partition {one.partition.partition}: {verdict}, {plain(one.cleaning.why)}")
