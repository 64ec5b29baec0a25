"""`tidelog export`: the records of topics as files that others read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.on_spark import job_module, tasks_for
from tidelog.cli.output import print_json, print_line
from tidelog.cli.positions import parse_position
from tidelog.cli.sources import tell_what_is_odd
from tidelog.cli.targets import bytes_of, refuse_inside, refuse_partition, target_of
from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError
from tidelog.plurals import counted

FORMATS = ("parquet", "json", "csv", "delta", "iceberg")


def _complete_format() -> list[str]:
    return list(FORMATS)


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="NEW", help="A directory that is not there yet.")] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", autocompletion=_complete_format, help="parquet, json, csv, delta or iceberg.")
    ] = "parquet",
    columns: Annotated[str | None, typer.Option("--columns", help="Only these, with commas: key,value,timestamp.")] = None,
    start: Annotated[str, typer.Option("--from", help="An offset, earliest, latest, a time, 2h for two hours ago.")] = "earliest",
    end: Annotated[str, typer.Option("--to", help="The same: where to stop, exclusive.")] = "latest",
    partition_by: Annotated[
        str, typer.Option("--partition-by", help="Folders: some of topic,partition,date; none for none.")
    ] = "topic,date",
    compression: Annotated[str | None, typer.Option("--compression", help="Of the files: snappy, zstd, gzip, lz4 or none.")] = None,
    bytes_as: Annotated[str, typer.Option("--bytes-as", help="What CSV makes of keys and values: base64 or utf8.")] = "base64",
    isolation: options.Isolation = "committed",
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Write the records of topics as files: Parquet, JSON lines, CSV, Delta or Iceberg.

    At once, into a new directory, which is there with everything or not at all. Lines of JSON are those of `cat --json`. Nothing is locked.
    """
    from tidelog.record.kernel.clock import wall_clock

    if output is None:
        raise InvalidConfigError("export to where?", hint="-o NEW names a directory that is not there yet")
    target, now_ms = target_of(directory, topic), wall_clock()
    refuse_partition(target, "export")
    refuse_inside(target, output)
    job = job_module("export")
    asked = job.ExportOptions.of(form, _names(columns), _names(partition_by) or (), compression, bytes_as, options.isolation_of(isolation))
    positions = {"start": parse_position(start, "from", now_ms), "end": parse_position(end, "to", now_ms)}
    tell_what_is_odd(target.root, OS)
    with tasks_for(spark, f"export {topic or target.path}", io_limit=io_limit, total_bytes=bytes_of(target)) as tasks:
        done = job.run_export(tasks, target.path, topic, output.absolute(), asked, **positions)
    _print(done, as_json=as_json)


def _names(text: str | None) -> list[str] | None:
    return None if text is None or text in ("", "none") else [name.strip() for name in text.split(",")]


def _print(done: Any, *, as_json: bool) -> None:
    if not as_json:
        print_line(
            f"{done.target}: {counted(done.records, 'record')} in {counted(len(done.files), 'file')}, {format_size(done.size_bytes)}"
        )
        return
    for file in done.files:
        print_json({"type": "file", "path": file.path, "records": file.records, "size_bytes": file.size_bytes})
    facts = {"target": done.target, "format": done.options.format, "records": done.records, "size_bytes": done.size_bytes}
    print_json({"type": "result", "command": "export"} | facts)
