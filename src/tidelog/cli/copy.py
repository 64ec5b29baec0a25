"""`tidelog copy`: topics into a new data directory, with their offsets, ids and settings."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.on_spark import job_module, tasks_for
from tidelog.cli.output import plain, print_json, print_line
from tidelog.cli.positions import resolve_time
from tidelog.cli.sources import tell_what_is_odd
from tidelog.cli.targets import CLUSTER_METADATA, bytes_of, refuse_inside, refuse_partition, target_of
from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError

Until = Annotated[str | None, typer.Option("--until", help="Only what came before this time: 2h, 2026-11-16T18:00:00Z, @ms.")]
UntilOffset = Annotated[
    list[str] | None, typer.Option("--until-offset", metavar="PARTITION=OFFSET", help="Only what lies before an offset: emails-0=1200.")
]


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="NEW", help="A directory that is new, or empty.")] = None,
    until: Until = None,
    until_offset: UntilOffset = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Only records with this key; may be given several times.")] = None,
    key_regex: Annotated[str | None, typer.Option("--key-regex", help="Only records in whose key this is found.")] = None,
    past_stable: Annotated[bool, typer.Option("--past-stable", help="Also transactions that are not decided yet.")] = False,
    into_broker: Annotated[bool, typer.Option("--into-broker", help="NEW is the data directory of a broker that does not run.")] = False,
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Copy topics into a new data directory, with their offsets, ids and settings; all of it, up to a point, or some keys.

    At once. The source is only read, and may have an owner that goes on writing; no transaction is cut in two. Nothing is overwritten.
    """
    if output is None:
        raise InvalidConfigError("copy to where?", hint="-o NEW names a directory that is not there yet")
    target = target_of(directory, topic)
    refuse_partition(target, "copy")
    job, point = job_module("copy"), point_of(until, until_offset)
    has_settings = not target.is_store and (target.root / f"{CLUSTER_METADATA}-0").is_dir()
    asked = job.CopyOptions(point, _keys(job, key, key_regex), past_stable, has_settings)
    place = str(output.resolve())
    refuse_inside(target, output)
    if not into_broker:
        job.check_new_target(job.OS, place, [target.path])
    tell_what_is_odd(target.root, OS)
    with tasks_for(spark, f"copy {topic or target.path}", staged_beside=place, io_limit=io_limit, total_bytes=bytes_of(target)) as tasks:
        done = job.run_copy(tasks, target.path, place, None if topic is None else [topic], asked, into_broker=into_broker)
    print_outcome("copy", done, as_json=as_json)


def point_of(until: str | None, until_offset: list[str] | None) -> Any:
    """Up to where: a time, or offsets of partitions."""
    from tidelog.log.positions import Time
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.store.copy_plan import UntilPoint

    if until is not None and until_offset:
        raise InvalidConfigError("--until and --until-offset are two ways to say it", hint="leave out one of them")
    if until is not None:
        return UntilPoint.of(Time(resolve_time(until, "until", wall_clock())))
    offsets = {}
    for name, offset in options.pairs(until_offset, "place").items():
        if not offset.isdigit() or not re.search(r".-\d+\Z", name):
            raise InvalidConfigError(f"not a place: {name}={offset}", hint="a partition and an offset, as emails-0=1200")
        offsets[name] = int(offset)
    return UntilPoint.of(offsets or None)


def _keys(job: Any, keys: list[str] | None, pattern: str | None) -> Any:
    if keys and pattern is not None:
        raise InvalidConfigError("--key and --key-regex are two ways to say it", hint="leave out one of them")
    if pattern is not None:
        try:
            return job.KeyMatch.of(re.compile(options.typed_bytes(pattern)))
        except re.error as error:
            raise InvalidConfigError(f"not a regular expression: {pattern!r}: {error}", hint=options.HOW_TO_MATCH) from error
    return job.KeyMatch.of(list(map(options.typed_bytes, keys))) if keys else None


def print_outcome(command_name: str, done: Any, *, as_json: bool) -> None:
    """What became of each partition, and of the whole."""
    if not as_json:
        for line in str(done).splitlines():
            print_line(plain(line))
        return
    for one in done.partitions:
        facts = {name: getattr(one, name) for name in type(one).__dataclass_fields__ if name not in ("partition", "cuts")}
        cuts = {"cuts": [asdict(cut) for cut in one.cuts]} if hasattr(one, "cuts") else {}
        print_json({"type": "partition", "topic": one.partition.topic, "partition": one.partition.partition} | facts | cuts)
    print_json({"type": "result", "command": command_name, "target": done.target, "records": done.records})
