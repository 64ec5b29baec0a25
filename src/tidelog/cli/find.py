"""`tidelog find`: a record by its offset, its time or its key, and where it lies."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli import options
from tidelog.cli.output import print_json, print_line, progress, to_text
from tidelog.cli.positions import resolve_time
from tidelog.cli.progress import clear_drawn
from tidelog.cli.record_printer import text_line
from tidelog.cli.sources import open_topic, readable_isolation, reading_disk, the_partition
from tidelog.cli.targets import bytes_of, target_of
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.inspection.find import FoundRecord
    from tidelog.inspection.record_object import Object
    from tidelog.log.log_reading import Isolation
    from tidelog.store.topic_reading import TopicReading


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    offset: Annotated[int | None, typer.Option("--offset", "-o", min=0, help="The record at this offset.")] = None,
    time: Annotated[str | None, typer.Option("--time", "-t", help="The first record of this time or later, in each partition.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The last record of this key.")] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="With --key, all of them, oldest first.")] = False,
    partitioner: Annotated[str | None, typer.Option("--partitioner", help="murmur2: look only where Kafka's clients put the key.")] = None,
    partition: options.Partition = None,
    as_json: options.Json = False,
    raw: options.Raw = False,
    isolation: options.Isolation = "committed",
    io_limit: options.IoLimit = None,
) -> None:
    """Find the record at an offset, at a time, or of a key, and where it lies.

    With the segment's file, the position of the batch in it, the batch's first offset and its size. A key may be in every partition, and
    is looked for in all, unless --partitioner says how it was placed.
    """
    from tidelog.record.kernel.clock import wall_clock

    if sum(asked is not None for asked in (offset, time, key)) != 1:
        raise InvalidConfigError("what is to be found?", hint="one of --offset, --time and --key")
    if partitioner not in (None, "murmur2"):
        raise InvalidConfigError(f"no such partitioner: {partitioner!r}", hint="murmur2, as Kafka's clients have it")
    time_ms = None if time is None else resolve_time(time, "time", wall_clock())
    level = options.isolation_of(isolation)
    with ExitStack() as stack:
        total_bytes = None if key is None else bytes_of(target_of(directory, topic, partition))
        disk = stack.enter_context(reading_disk("find", io_limit, total_bytes=total_bytes))
        found = stack.enter_context(open_topic(directory, topic, partition, disk, "find"))
        level = readable_isolation(found, level)
        if key is not None:
            wanted = options.typed_bytes(key)
            records = _of_key(found, _where(found, wanted, partitioner, partition), wanted, level, every=every)
        else:
            records = _at(found, offset, time_ms, partition, level)
        is_there = False
        for record in records:
            is_there = True
            clear_drawn()
            shown = record.to_json(raw=raw)
            if as_json:
                print_json(shown)
            else:
                print_line(f"{text_line(shown)}\n{_place(shown)}")
    if not is_there:
        progress("there is no such record")


def _where(topic: "TopicReading", key: bytes, partitioner: str | None, partition: int | None) -> list[int]:
    there = topic.partition_ids()
    if partitioner is None or partition is not None:
        return there
    from tidelog.record.kernel.hashing import partition_for_key
    from tidelog.store.read_only_store import ReadOnlyTopic
    from tidelog.store.read_only_topics import DIRECTORIES

    described = topic.describe() if isinstance(topic, ReadOnlyTopic) else None
    if described is None or described.partitions_from == DIRECTORIES:
        progress("nothing says how many partitions there are, so not where the key belongs: all that are here are searched")
        return there
    place = partition_for_key(key, described.partitions)
    progress(f"{to_text(key)} belongs to partition {place} of {described.partitions}")
    return [place]


def _of_key(topic: "TopicReading", numbers: list[int], key: bytes, level: "Isolation", *, every: bool) -> "Iterator[FoundRecord]":
    from tidelog.inspection.find import find_key

    newest: FoundRecord | None = None
    for number in numbers:
        last: FoundRecord | None = None  # in one partition the higher offset is the later, whatever time its producer has said
        for found in find_key(topic.log(number), key, level):
            if every:
                yield found
            last = found
        if last is not None and (newest is None or _age(last) >= _age(newest)):
            newest = last
    if newest is not None and not every:
        yield newest


def _age(found: "FoundRecord") -> tuple[int, int]:
    """Between two partitions the higher time is the later."""
    return found.record.timestamp_ms, found.record.offset


def _at(
    topic: "TopicReading", offset: int | None, time_ms: int | None, partition: int | None, level: "Isolation"
) -> "Iterator[FoundRecord]":
    from tidelog.inspection.find import find_offset, find_time

    if offset is not None:
        found = find_offset(topic.log(the_partition(topic, partition, "an offset")), offset, level)
        if found is not None:
            yield found
        return
    assert time_ms is not None
    for number in topic.partition_ids():
        found = find_time(topic.log(number), time_ms, level)
        if found is not None:
            yield found


def _place(shown: "Object") -> str:
    return (
        f"  in {to_text(str(Path(shown['path'])))} at byte {shown['position']}: batch of offsets {shown['batch_base_offset']} to "
        f"{shown['batch_last_offset']}, {shown['batch_size_bytes']} bytes, compression {shown['compression']}"
    )
