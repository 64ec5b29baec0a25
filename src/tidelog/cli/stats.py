"""`tidelog stats`: how many records, bytes, batches and keys there are."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size, format_time
from tidelog.cli.on_spark import job, refuse_io_limit, shows_progress, spark_session
from tidelog.cli.output import print_json, print_line
from tidelog.cli.sources import reading_disk, tell_what_is_odd
from tidelog.cli.tables import Column, number, optional, print_rows
from tidelog.cli.targets import Target, bytes_of, partition_directories, target_of
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.inspection.segment_stats import SegmentStats

_HIDDEN = {"directory", "base_offset", "keys"}
_PLACE = (Column("topic", "TOPIC", style="bold"), Column("partition", "PARTITION", is_right=True))
_FIGURES = (
    Column("records", "RECORDS", number, is_right=True),
    Column("markers", "MARKERS", number, is_right=True),
    Column("batches", "BATCHES", number, is_right=True),
    Column("size_bytes", "SIZE", format_size, is_right=True),
    Column("average_batch_bytes", "AVERAGE BATCH", optional(format_size), is_right=True),
    Column("codecs", "CODECS", lambda codecs: ", ".join(f"{count} {name}" for name, count in sorted(codecs.items()))),
    Column("first_timestamp_ms", "FIRST", optional(format_time), style="dim"),
    Column("last_timestamp_ms", "LAST", optional(format_time), style="dim"),
)
_RECORDS = (
    Column("distinct_keys", "KEYS (ABOUT)", number, is_right=True),
    Column("tombstones", "TOMBSTONES", number, is_right=True),
    Column("null_keys", "NO KEY", number, is_right=True),
    Column("key_bytes", "KEY BYTES", optional(format_size), is_right=True),
    Column("value_bytes", "VALUE BYTES", optional(format_size), is_right=True),
)
_SEGMENT = Column("base_offset", "BASE OFFSET", number, is_right=True)


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    records: Annotated[bool, typer.Option("--records", "-r", help="Look at every record: tombstones, distinct keys, bytes.")] = False,
    segments: Annotated[bool, typer.Option("--segments", "-s", help="The figures of each segment.")] = False,
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Count records, batches, bytes and codecs; with --records also keys and tombstones.

    By the headers of batches, which have exact counts, whatever compaction has left of the offsets. The number of distinct keys is an
    estimate, good to about two percent.
    """
    target = target_of(directory, topic)
    if spark is not None:
        refuse_io_limit(io_limit)
        rows, whole = _rows(_by_spark(target, spark, records=records), segments=segments)
    else:
        total_bytes = bytes_of(target) if records else None  # of headers nobody knows before how much they are
        with reading_disk("stats", io_limit, total_bytes=total_bytes) as disk:
            tell_what_is_odd(target.root, disk)
            rows, whole = _rows(_here(target, disk, records=records), segments=segments)
    columns = (*_PLACE, *((_SEGMENT,) if segments else ()), *_FIGURES, *(_RECORDS if records else ()))
    print_rows(rows, columns, as_json=as_json, empty="no segments")
    if as_json:
        print_json({"type": "result", "command": "stats"} | _figures(whole))
    elif len(rows) != 1:
        print_line(total_line(whole))


def _here(target: Target, disk: "Disk", *, records: bool) -> "Iterator[SegmentStats]":
    from tidelog.inspection.stats import stats

    for path in partition_directories(target):
        yield from stats(path, records=records, disk=disk)


def _by_spark(target: Target, master: str, *, records: bool) -> "list[SegmentStats]":
    if target.partition is not None:
        raise InvalidConfigError("--spark is about whole topics", hint="leave it out for one partition")
    with spark_session(master) as session:
        found = job("stats")(session, target.path, target.topic, records=records, progress=shows_progress()).segments
    wanted = set(partition_directories(target))
    return [one for one in found if one.directory in wanted]


def _rows(found: "Iterable[SegmentStats]", *, segments: bool) -> "tuple[list[dict[str, Any]], SegmentStats]":
    """A row for each segment or each partition, and all together. The sketch of the keys of a segment is not kept: there may be many."""
    from tidelog.inspection.segment_stats import SegmentStats

    rows, whole = [], SegmentStats("", 0)
    by_partition: dict[str, SegmentStats] = {}
    for one in found:
        whole.add(one)
        if segments:
            rows.append(segment_object(one))
        else:
            by_partition.setdefault(one.directory, SegmentStats("", 0)).add(one)
    return rows or [partition_object(directory, own) for directory, own in by_partition.items()], whole


def segment_object(one: "SegmentStats") -> dict[str, Any]:
    """The figures of a segment."""
    return {"type": "segment"} | _place(one.directory) | {"base_offset": one.base_offset} | _figures(one)


def partition_object(directory: str, whole: "SegmentStats") -> dict[str, Any]:
    """The figures of a partition."""
    return {"type": "partition"} | _place(directory) | _figures(whole)


def _place(directory: str) -> dict[str, Any]:
    from tidelog.disk.names import parse_partition

    partition = parse_partition(directory.rpartition("/")[2])
    return {} if partition is None else {"topic": partition.topic, "partition": partition.partition}


def _figures(one: "SegmentStats") -> dict[str, Any]:
    found = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in _HIDDEN}
    found |= {"codecs": dict(one.codecs), "magics": {str(magic): count for magic, count in one.magics.items()}}
    return found | {"average_batch_bytes": one.average_batch_bytes, "distinct_keys": one.distinct_keys}


def total_line(whole: "SegmentStats") -> str:
    """All of it in one line."""
    text = f"total: {_told(whole.records, 'record')} in {_told(whole.batches, 'batch', 'batches')}, {format_size(whole.size_bytes)}"
    if whole.distinct_keys is not None:
        text += f", about {_told(whole.distinct_keys, 'key')}, {_told(whole.tombstones or 0, 'tombstone')}"
    return text + (f"; {format_size(whole.damaged_bytes)} are damaged: verify says more" if whole.damaged_bytes else "")


def _told(count: int, one: str, several: str | None = None) -> str:
    return f"{number(count)} {one if count == 1 else several or f'{one}s'}"
