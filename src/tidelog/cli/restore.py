"""`tidelog restore`: a new store from a snapshot or a backup."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import options
from tidelog.cli.copy import Until, UntilOffset, point_of, print_outcome
from tidelog.cli.on_spark import job_module, tasks_for
from tidelog.cli.sources import tell_what_is_odd
from tidelog.cli.targets import bytes_of, refuse_inside, refuse_partition, target_of
from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError

_DAMAGE = ("refuse", "cut")


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="NEW", help="A directory that is new, or empty.")] = None,
    until: Until = None,
    until_offset: UntilOffset = None,
    damage: Annotated[
        str, typer.Option("--damage", help="Where segments lie behind damage: refuse, or cut, which keeps what lies before it.")
    ] = "refuse",
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Make a new store of a snapshot or a backup, which may have been taken while somebody was writing.

    At once. The backup is only read, and of its files only the batches are believed: indexes and snapshots are built anew. A torn end is
    cut, as recovery does it, and kept aside.
    """
    if output is None:
        raise InvalidConfigError("restore to where?", hint="-o NEW names a directory that is not there yet")
    if damage not in _DAMAGE:
        raise InvalidConfigError(f"no such way with damage: {damage!r}", hint=f"one of {', '.join(_DAMAGE)}")
    target = target_of(directory, topic)
    refuse_partition(target, "restore")
    refuse_inside(target, output)
    job, point, place = job_module("restore"), point_of(until, until_offset), str(output.resolve())
    job.check_new_target(job.OS, place, [target.path])
    tell_what_is_odd(target.root, OS)
    with tasks_for(spark, f"restore {target.path}", staged_beside=place, io_limit=io_limit, total_bytes=bytes_of(target)) as tasks:
        done = job.run_restore(tasks, target.path, place, None if topic is None else [topic], point, damage=damage)
    print_outcome("restore", done, as_json=as_json)
