"""`tidelog ls`: the topics of a directory, the partitions of a topic, the segments of a partition."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size, format_time
from tidelog.cli.output import progress
from tidelog.cli.sources import open_store, open_topic, partition_at, reading_disk
from tidelog.cli.tables import Column, number, optional, print_rows
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from tidelog.log.log_reading import LogReading
    from tidelog.store.read_only_store import ReadOnlyStore

_SIZE = Column("size_bytes", "SIZE", format_size, is_right=True)
_TIMES = (
    Column("first_timestamp_ms", "FIRST", optional(format_time), style="dim"),
    Column("max_timestamp_ms", "LAST", optional(format_time), style="dim"),
)
TOPICS = (
    Column("topic", "TOPIC", style="bold"),
    Column("partitions", "PARTITIONS", number, is_right=True),
    Column("offsets", "OFFSETS", number, is_right=True),
    _SIZE,
    *_TIMES,
)
PARTITIONS = (
    Column("topic", "TOPIC", style="bold"),
    Column("partition", "PARTITION", is_right=True),
    Column("log_start_offset", "START", number, is_right=True),
    Column("high_watermark", "HIGH WATERMARK", number, is_right=True),
    Column("log_end_offset", "END", number, is_right=True),
    Column("segments", "SEGMENTS", number, is_right=True),
    _SIZE,
    *_TIMES,
)
SEGMENTS = (
    Column("topic", "TOPIC", style="bold"),
    Column("partition", "PARTITION", is_right=True),
    Column("base_offset", "BASE OFFSET", number, is_right=True),
    Column("next_offset", "NEXT", number, is_right=True),
    _SIZE,
    *_TIMES,
    Column("is_active", "", lambda is_active: "active" if is_active else ""),
)


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    segments: Annotated[bool, typer.Option("--segments", "-s", help="The segments of each partition.")] = False,
    internal: Annotated[bool, typer.Option("--internal/--no-internal", help="Also the topics that Kafka keeps for itself.")] = True,
    as_json: options.Json = False,
) -> None:
    """List topics, partitions or segments, with sizes, offsets and times.

    Offsets are how many there are between the start and the end of a log; compaction may have left fewer records.
    """
    with reading_disk("ls", None) as disk:
        if topic is not None or partition_at(directory) is not None:
            with open_topic(directory, topic, None, disk, "ls") as found:
                logs = [(found.name, one, _opener(found.log, one)) for one in found.partition_ids()]
                _print(logs, segments=segments, as_json=as_json)
            return
        with open_store(directory, disk) as store:
            names = [one.name for one in store.topics(internal=internal)]
            if segments:
                _print(_logs(store, names), segments=True, as_json=as_json)
            else:
                rows = (topic_facts(name, _logs(store, [name])) for name in names)
                print_rows(rows, TOPICS, as_json=as_json, empty="no topics")


Open = Callable[[], "LogReading"]
Logs = Iterable[tuple[str, int, Open]]


def _opener(log: "Callable[[int], LogReading]", partition: int) -> Open:
    return lambda: log(partition)


def _logs(store: "ReadOnlyStore", names: Iterable[str]) -> Logs:
    for name in names:
        for partition in store.topic(name).partition_ids():
            yield name, partition, _opener(store.topic(name).log, partition)


def _print(logs: Logs, *, segments: bool, as_json: bool) -> None:
    if segments:
        print_rows(segment_facts(logs), SEGMENTS, as_json=as_json, empty="no segments")
    else:
        print_rows((partition_facts(*one) for one in logs), PARTITIONS, as_json=as_json, empty="no partitions")


def topic_facts(topic: str, logs: Logs) -> dict[str, Any]:
    """A topic, summed up; what cannot be read is counted, and told on stderr."""
    parts = [partition_facts(*one) for one in logs]
    sound = [part for part in parts if "error" not in part]
    return {
        "type": "topic",
        "topic": topic,
        "partitions": len(parts),
        "unreadable_partitions": len(parts) - len(sound),
        "offsets": sum(part["log_end_offset"] - part["log_start_offset"] for part in sound),
        "size_bytes": sum(part["size_bytes"] for part in sound),
        "segments": sum(part["segments"] for part in sound),
        "first_timestamp_ms": min((part["first_timestamp_ms"] for part in sound if part["first_timestamp_ms"] is not None), default=None),
        "max_timestamp_ms": max((part["max_timestamp_ms"] for part in sound if part["max_timestamp_ms"] is not None), default=None),
    }


def partition_facts(topic: str, partition: int, open_log: Open) -> dict[str, Any]:
    """A partition; or only why it cannot be read, which is also told on stderr."""
    home: dict[str, Any] = {"type": "partition", "topic": topic, "partition": partition}
    try:
        log = open_log()
        log.refresh()
        return home | {
            "log_start_offset": log.log_start_offset,
            "high_watermark": log.high_watermark,
            "log_end_offset": log.log_end_offset,
            "segments": len(log.segments),
            "size_bytes": log.size_bytes,
            "first_timestamp_ms": _first_time(log, log.log_start_offset),
            "max_timestamp_ms": _known(max(segment.largest_timestamp_ms for segment in log.segments)) if log.size_bytes else None,
            "path": log.directory,
        }
    except (TidelogError, OSError) as error:
        progress(f"{topic}-{partition}: {error}")
        return home | {"size_bytes": 0, "error": str(error)}


def segment_facts(logs: Logs) -> Iterator[dict[str, Any]]:
    """The segments of each partition, oldest first."""
    for topic, partition, open_log in logs:
        try:
            log = open_log()
            log.refresh()
            segments = log.segments
            for place, segment in enumerate(segments):
                is_active = place == len(segments) - 1
                yield {
                    "type": "segment",
                    "topic": topic,
                    "partition": partition,
                    "base_offset": segment.base_offset,
                    "next_offset": log.log_end_offset if is_active else segments[place + 1].base_offset,
                    "size_bytes": segment.size_bytes,
                    "first_timestamp_ms": _first_time(log, max(segment.base_offset, log.log_start_offset)) if segment.size_bytes else None,
                    "max_timestamp_ms": _known(segment.largest_timestamp_ms) if segment.size_bytes else None,
                    "is_active": is_active,
                    "path": segment.path_of(".log"),
                }
        except (TidelogError, OSError) as error:
            progress(f"{topic}-{partition}: {error}")


def _first_time(log: "LogReading", offset: int) -> int | None:
    """Of the first record from an offset on, as far as the batch that holds it tells."""
    if offset >= log.log_end_offset:
        return None
    for batch in log.fetch(offset, 1, isolation="log_end").batches:
        return _known(next((record.timestamp_ms for record in batch.records() if record.offset >= offset), batch.max_timestamp_ms))
    return None


def _known(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms
