"""`tidelog table`: the latest value of each key, now or as of a point."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.on_spark import job, refuse_io_limit, shows_progress, spark_session
from tidelog.cli.output import print_json, print_line, to_text
from tidelog.cli.positions import parse_position
from tidelog.cli.progress import clear_drawn
from tidelog.cli.sources import open_topic, readable_isolation, reading_disk, the_partition
from tidelog.cli.targets import bytes_of, refuse_partition, target_of
from tidelog.errors import InvalidConfigError, UnknownTopicError

if TYPE_CHECKING:
    from tidelog.log.positions import Position

AsOf = Annotated[
    str | None, typer.Option("--as-of", help="As of a time, or an offset of one partition, that record being the last that counts.")
]
AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="What is left, where compaction or retention has taken records of then away.")
]


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    as_of: AsOf = None,
    partition: options.Partition = None,
    allow_incomplete: AllowIncomplete = False,
    isolation: options.Isolation = "committed",
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Print the latest value of each key of a topic, now or as of a time or an offset.

    A tombstone takes its key away. A past of which compaction or retention has taken records away is refused, and it is said which is the
    first that can be told. On Spark the table may be larger than memory.
    """
    from tidelog.record.kernel.clock import wall_clock

    level = options.isolation_of(isolation)
    point = None if as_of is None else parse_position(as_of, "as of", wall_clock())
    if spark is None:
        total_bytes = bytes_of(target_of(directory, topic, partition))
        with (
            reading_disk("table", io_limit, total_bytes=total_bytes) as disk,
            open_topic(directory, topic, partition, disk, "table") as found,
        ):
            if isinstance(point, int):
                the_partition(found, partition, "an offset (--as-of)")
            at = readable_isolation(found, level)
            rows = found.table(point, partition=partition, isolation=at, allow_incomplete=allow_incomplete)
            name = found.name
        clear_drawn()
        _print(name, sorted(rows.items()), as_json=as_json)
        return
    refuse_io_limit(io_limit)
    target = target_of(directory, topic)
    refuse_partition(target, "table")
    if partition is not None:
        raise InvalidConfigError("--spark is about whole topics", hint="leave out --partition, or --spark")
    if target.topic is None:
        raise UnknownTopicError("which topic?", path=str(directory), hint="tidelog table DIRECTORY TOPIC")
    with spark_session(spark) as session:
        _print(target.topic, _by_spark(session, target.path, target.topic, point, allow_incomplete, level), as_json=as_json)


def _by_spark(session: Any, path: str, topic: str, point: "Position | None", allow: bool, level: str) -> Iterator[tuple[bytes, bytes]]:
    result = job("table")(
        session,
        path,
        topic,
        as_of=point,
        allow_incomplete=allow,
        columns=["topic", "key", "value"],
        isolation=level,
        progress=shows_progress(),
    )
    for row in result.table.toLocalIterator():
        yield bytes(row["key"]), bytes(row["value"])


def _print(topic: str, rows: Iterable[tuple[bytes, bytes]], *, as_json: bool) -> None:
    for key, value in rows:
        if as_json:
            print_json({"type": "row", "topic": topic, "key": key, "value": value})
        else:
            print_line(f"{to_text(key)}\t{to_text(value)}")
