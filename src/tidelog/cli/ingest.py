"""`tidelog ingest`: files as the records of a topic."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.on_spark import job, shows_progress, spark_session
from tidelog.cli.output import plain, print_json, print_line
from tidelog.cli.progress import Progress
from tidelog.cli.targets import refuse_no_directory, refuse_others
from tidelog.errors import LogNotFoundError


def command(
    directory: options.StoreDirectory,
    topic: options.Topic,
    sources: Annotated[list[Path], typer.Argument(metavar="FILE", help="Parquet, JSON lines, CSV, text or ORC; folders of them too.")],
    form: Annotated[
        str | None, typer.Option("--format", "-f", help="parquet, json, csv, text or orc; known by the names otherwise.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="A column, on Spark also an expression of SQL; the column key otherwise.")
    ] = None,
    value: Annotated[str | None, typer.Option("--value", help="The same, or * for the whole row as JSON.")] = None,
    headers: Annotated[str | None, typer.Option("--headers", help="The same, for headers.")] = None,
    timestamp: Annotated[str | None, typer.Option("--timestamp", help="The same, for the time.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="The same, for the partition.")] = None,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="How many a topic gets that is made.")] = 1,
    config: options.Config = None,
    compression: Annotated[str | None, typer.Option("--compression", help="none, gzip, snappy, lz4 or zstd.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", help="So that a run that is made again appends nothing twice.")
    ] = None,
    spark: options.Spark = None,
    as_json: options.Json = False,
) -> None:
    """Append the rows of files to a topic, keyed, and spread over its partitions as Kafka's producers do.

    At once, in one transaction: all rows or none. A store and a topic that are missing are made. On Spark columns may be expressions of
    SQL.
    """
    for source in sources:
        if "*" not in str(source) and not source.exists():
            raise LogNotFoundError("no such file", path=str(source), hint="the directory comes first, then the topic, then the files")
    if directory.exists():
        refuse_no_directory(directory)
        if any(directory.iterdir()):
            refuse_others(directory)
    paths, home = [str(source.absolute()) for source in sources], str(directory.absolute())
    columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
    how: dict[str, Any] = {"partitions": partitions, "config": options.settings(config), "compression": compression}
    how |= {"transactional_id": transactional_id, "lock_timeout_s": 0}
    if spark is None:
        here = import_module("tidelog.spark.jobs.local_ingest")
        with Progress("ingest") as progress:

            def on_read(size_bytes: int, total_bytes: int) -> None:
                progress.total_bytes = total_bytes
                progress.add(size_bytes)

            done = here.ingest_here(paths, home, topic, columns=columns, form=form, on_read=on_read, **how)
    else:
        with spark_session(spark) as session:
            done = job("ingest")(session, paths, home, topic, format=form, **columns, **how, progress=shows_progress())
    _print(done, as_json=as_json)


def _print(done: Any, *, as_json: bool) -> None:
    if not as_json:
        for line in str(done).splitlines():
            print_line(plain(line))
        return
    for one in done.ranges:
        place = {"topic": one.partition.topic, "partition": one.partition.partition}
        print_json({"type": "partition"} | place | {"start_offset": one.start_offset, "end_offset": one.end_offset})
    facts = {"topic": done.topic, "records": done.records, "was_there_already": done.was_there_already}
    print_json({"type": "result", "command": "ingest"} | facts)
