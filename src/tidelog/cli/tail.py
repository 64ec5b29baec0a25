"""`tidelog tail`: the last records of a topic, and those that come."""

from typing import Annotated

import typer

from tidelog.cli import cat, options
from tidelog.cli.record_filter import RecordFilter


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="How many that are there already.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on with what comes, until interrupted.")] = True,
    count: Annotated[int | None, typer.Option("--count", "-c", min=0, help="At most so many.")] = None,
    as_json: options.Json = False,
    form: cat.Format = None,
    null: cat.Null = False,
    partition: options.Partition = None,
    key: cat.Key = None,
    key_regex: cat.KeyRegex = None,
    value: cat.Value = None,
    value_regex: cat.ValueRegex = None,
    header: cat.Header = None,
    key_decoder: cat.KeyDecoder = None,
    value_decoder: cat.ValueDecoder = None,
    key_schema: cat.KeySchema = None,
    value_schema: cat.ValueSchema = None,
    framed: cat.Framed = False,
    raw: options.Raw = False,
    isolation: options.Isolation = "committed",
    io_limit: options.IoLimit = None,
) -> None:
    """Print the last records of a topic, and those that come.

    The same as `cat --last 10 --follow`: the last of all partitions merged by time.
    """
    from tidelog.log.positions import EARLIEST, LATEST

    look = cat.Look(as_json, form, null, raw, framed, (key_decoder, key_schema), (value_decoder, value_schema))
    show = look.printer(at_once=follow)
    wanted = RecordFilter(key, key_regex, value, value_regex, header or ()).condition()
    level, span = options.isolation_of(isolation), cat.Span(EARLIEST, LATEST, last, follow)
    cat.print_records(cat.Request("tail", directory, topic, partition, span, wanted, level, count, io_limit), show)
