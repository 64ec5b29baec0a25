"""`tidelog cat`: the records of a topic."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidelog.cli import options
from tidelog.cli.last_records import last_records
from tidelog.cli.positions import parse_position
from tidelog.cli.record_filter import Condition, RecordFilter
from tidelog.cli.record_printer import Print, printer
from tidelog.cli.sources import open_topic, readable_isolation, reading_disk, the_partition
from tidelog.cli.targets import bytes_of, target_of
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.positions import Position
    from tidelog.record.kernel.record import Record
    from tidelog.store.topic_reading import TopicReading

_DECODERS = "utf8, json, hex, int, avro or protobuf"
KeyDecoder = Annotated[str | None, typer.Option("--key-decoder", help=f"What keys are: {_DECODERS}.")]
ValueDecoder = Annotated[str | None, typer.Option("--value-decoder", help=f"What values are: {_DECODERS}.")]
KeySchema = Annotated[str | None, typer.Option("--key-schema", metavar="FILE", help="Avro: .avsc; Protobuf: DESCRIPTORS:MESSAGE.")]
ValueSchema = Annotated[str | None, typer.Option("--value-schema", metavar="FILE", help="The same, for values.")]
Framed = Annotated[bool, typer.Option("--framed", help="Avro and Protobuf: a zero byte and the id of a registry's schema come first.")]
Format = Annotated[str | None, typer.Option("--format", "-f", help=r"As kcat has it: '%t %p %o %k %s %T %h\n'.")]
Null = Annotated[bool, typer.Option("--null", "-Z", help="With --format, print NULL for a key or value that is null.")]
Key = Annotated[str | None, typer.Option("--key", help="Only records with this key.")]
KeyRegex = Annotated[str | None, typer.Option("--key-regex", help="Only records in whose key this is found.")]
Value = Annotated[str | None, typer.Option("--value", help="Only records with this text in their value.")]
ValueRegex = Annotated[str | None, typer.Option("--value-regex", help="Only records in whose value this is found.")]
Header = Annotated[list[str] | None, typer.Option("--header", metavar="NAME[=VALUE]", help="Only records with this header.")]


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    as_json: options.Json = False,
    form: Format = None,
    null: Null = False,
    partition: options.Partition = None,
    start: Annotated[str, typer.Option("--from", help="An offset, earliest, latest, a time, 2h for two hours ago.")] = "earliest",
    end: Annotated[str, typer.Option("--to", help="The same: where to stop, exclusive.")] = "latest",
    last: Annotated[int | None, typer.Option("--last", "-n", min=0, help="Only the last N, of all partitions, by time.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-c", min=0, help="At most so many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until interrupted.")] = False,
    key: Key = None,
    key_regex: KeyRegex = None,
    value: Value = None,
    value_regex: ValueRegex = None,
    header: Header = None,
    key_decoder: KeyDecoder = None,
    value_decoder: ValueDecoder = None,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    framed: Framed = False,
    raw: options.Raw = False,
    isolation: options.Isolation = "committed",
    io_limit: options.IoLimit = None,
) -> None:
    """Print the records of a topic.

    Partition, offset, time, key and value, in the order of each partition's offsets. Nothing is locked, and nothing is written.
    """
    from tidelog.record.kernel.clock import wall_clock

    now_ms = wall_clock()
    look = Look(as_json, form, null, raw, framed, (key_decoder, key_schema), (value_decoder, value_schema))
    show = look.printer(at_once=follow)
    wanted = RecordFilter(key, key_regex, value, value_regex, header or ()).condition()
    level = options.isolation_of(isolation)
    span = Span(parse_position(start, "from", now_ms), parse_position(end, "to", now_ms), last, follow)
    print_records(Request("cat", directory, topic, partition, span, wanted, level, count, io_limit), show)


class Look(NamedTuple):
    """How records are printed, as it was asked for."""

    as_json: bool
    form: str | None
    shows_null: bool
    raw: bool
    is_framed: bool
    key: tuple[str | None, str | None]
    """The name of a decoder, and its schema."""
    value: tuple[str | None, str | None]

    def printer(self, *, at_once: bool) -> Print:
        """What prints a record; `at_once` for who follows a topic."""
        from tidelog.schema.value_decoders import decoder_of

        if self.as_json and self.form is not None:  # with --json nothing but objects is printed, and a format makes none
            raise InvalidConfigError("--json and --format are two ways to print a record", hint="leave out one of them")
        return printer(
            at_once=at_once,
            as_json=self.as_json,
            form=self.form,
            null=b"NULL" if self.shows_null else b"",
            raw=self.raw,
            key_decoder=decoder_of(*self.key, is_framed=self.is_framed),
            value_decoder=decoder_of(*self.value, is_framed=self.is_framed),
        )


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where."""

    start: "Position"
    end: "Position"
    last: int | None = None
    follow: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """All that is asked for, but for how it is printed."""

    command: str
    directory: Path
    topic: str | None
    partition: int | None
    span: Span
    wanted: Condition | None
    isolation: "Isolation"
    count: int | None
    io_limit: str | None


def print_records(request: Request, show: Print) -> None:
    """Print what is asked for, a record at a time."""
    with ExitStack() as stack:
        follow = request.span.follow
        disk = stack.enter_context(
            reading_disk(request.command, request.io_limit, total_bytes=_total(request), beside_results=True, is_silent=follow)
        )
        topic = stack.enter_context(open_topic(request.directory, request.topic, request.partition, disk, request.command))
        isolation = readable_isolation(topic, request.isolation)
        records: Iterable[Record] = _records(topic, request.partition, request.span, request.wanted, isolation)
        for record in records if request.count is None else islice(records, min(request.count, sys.maxsize)):
            show(record)


def _total(request: Request) -> int | None:
    """How much is read, where that is all there is."""
    from tidelog.log.positions import EARLIEST

    span = request.span
    if span.start is not EARLIEST or not _is_latest(span.end) or span.last is not None or request.count is not None:
        return None
    return bytes_of(target_of(request.directory, request.topic, request.partition))


def _records(
    topic: "TopicReading", partition: int | None, span: Span, wanted: Condition | None, isolation: "Isolation"
) -> "Iterator[Record]":
    for position, name in ((span.start, "--from"), (span.end, "--to")):
        if isinstance(position, int):
            partition = the_partition(topic, partition, f"an offset ({name})")
    if span.last is None:
        found = topic.read(span.start, span.end, partition=partition, isolation=isolation, follow=span.follow, when_overtaken="skip")
        return found if wanted is None else filter(wanted, found)
    numbers = topic.partition_ids() if partition is None else [partition]
    starts, ends = _bounds(topic, numbers, span.start, isolation), _bounds(topic, numbers, span.end, isolation)
    shown = iter(last_records(topic, span.last, starts, ends, isolation, wanted))
    if not span.follow:
        return shown
    if not _is_latest(span.end):
        raise InvalidConfigError("--follow goes on at the end, --to stops before it", hint="leave out one of them")
    coming = topic.read(ends, partition=partition, isolation=isolation, follow=True, when_overtaken="skip")
    return chain(shown, coming if wanted is None else filter(wanted, coming))


def _bounds(topic: "TopicReading", numbers: list[int], position: "Position", isolation: "Isolation") -> dict[int, int]:
    from tidelog.log.positions import LATEST
    from tidelog.log.reading import resolve

    logs = {number: topic.log(number) for number in numbers}
    for log in logs.values():
        log.refresh()
    return {number: min(resolve(log, position, isolation), resolve(log, LATEST, isolation)) for number, log in logs.items()}


def _is_latest(position: "Position") -> bool:
    from tidelog.log.positions import LATEST

    return position is LATEST
