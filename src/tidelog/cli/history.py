"""`tidelog history`: the versions of each key, with the times from which and to which each was the value."""

from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_time
from tidelog.cli.on_spark import job, job_module, refuse_io_limit, shows_progress, spark_session, tasks_for
from tidelog.cli.output import print_json, print_line, to_text
from tidelog.cli.positions import parse_position
from tidelog.cli.sources import tell_what_is_odd
from tidelog.cli.table import AllowIncomplete
from tidelog.cli.targets import Target, bytes_of, partition_directories, refuse_partition, target_of
from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError

_TIMES = ("valid_from", "valid_to")


def command(
    directory: options.Directory,
    topic: options.Topic,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Only of this key; may be given several times.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Begin with what each key had as of this time.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="End there: a time.")] = None,
    allow_incomplete: AllowIncomplete = False,
    tombstones: Annotated[bool, typer.Option("--tombstones", help="Also a row where a key was taken away.")] = False,
    isolation: options.Isolation = "committed",
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Print the versions of each key of a topic, with the times from which and to which each was the value.

    A history of which compaction or retention has taken versions away is refused, and it is said from where on it can be told. On Spark it
    may be larger than memory.
    """
    from tidelog.record.kernel.clock import wall_clock

    target, now_ms = target_of(directory, topic), wall_clock()
    refuse_partition(target, "history")
    asked: dict[str, Any] = {
        "isolation": options.isolation_of(isolation),
        "start": None if start is None else parse_position(start, "from", now_ms),
        "as_of": None if as_of is None else parse_position(as_of, "as of", now_ms),
        "keys": None if not key else frozenset(map(options.typed_bytes, key)),
        "allow_incomplete": allow_incomplete,
    }
    for option, position in (("--from", asked["start"]), ("--as-of", asked["as_of"])):
        if isinstance(position, int) and (count := len(partition_directories(target))) > 1:
            hint = "a time means something in all of them, as 2h for two hours ago"
            raise InvalidConfigError(f"{option} {position} is an offset, and there are {count} partitions", hint=hint)
    tell_what_is_odd(target.root, OS)
    rows = _here(target, topic, asked, io_limit, tombstones=tombstones)
    if spark is not None:
        refuse_io_limit(io_limit)
        rows = _by_spark(spark, target.path, topic, asked, tombstones=tombstones)
    for row in rows:
        _print(row, as_json=as_json)


def _here(target: Target, topic: str, asked: dict[str, Any], io_limit: str | None, *, tombstones: bool) -> Iterator[dict[str, Any]]:
    versions = import_module("tidelog.spark.jobs.history_versions")
    with tasks_for(None, f"history of {topic}", io_limit=io_limit, total_bytes=2 * (bytes_of(target) or 0)) as tasks:  # plan, then rows
        _, items = job_module("history").plan_history(tasks, target.path, topic, **asked, piece_bytes=None)
        for one in versions.local_history(items, include_tombstones=tombstones):
            row = one.row
            found = {"topic": row.topic, "key": row.key, "version": one.version, "value": row.value}
            found |= {"partition": row.partition, "offset": row.offset}
            found |= {"is_tombstone": row.is_tombstone} if tombstones else {}
            found |= {"is_complete": row.is_complete} if asked["allow_incomplete"] else {}
            yield found | {"valid_from_ms": one.valid_from_ms, "valid_to_ms": one.valid_to_ms}


def _by_spark(master: str, path: str, topic: str, asked: dict[str, Any], *, tombstones: bool) -> Iterator[dict[str, Any]]:
    with spark_session(master) as session:
        found = job("history")(session, path, topic, **asked, include_tombstones=tombstones, progress=shows_progress())
        others = [name for name in found.history.columns if name not in _TIMES]
        times = [f"unix_millis({name}) AS {name}_ms" for name in _TIMES]  # as times they would be those of this machine's zone
        for row in found.history.selectExpr(*others, *times).orderBy("topic", "key", "version", "valid_from_ms").toLocalIterator():
            yield {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"type": "version"} | found)
        return
    held = [format_time(found["valid_from_ms"]), "…" if found["valid_to_ms"] is None else format_time(found["valid_to_ms"])]
    print_line("\t".join([to_text(found["key"]), str(found["version"]), *held, to_text(found["value"])]))
