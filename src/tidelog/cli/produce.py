"""`tidelog produce`: records from stdin into a topic of a store."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.input_lines import InputRecord, LineForm, read_json, read_lines
from tidelog.cli.output import note, progress
from tidelog.cli.progress import Progress
from tidelog.cli.targets import refuse_no_directory, refuse_others
from tidelog.errors import InvalidConfigError, TidelogError, UnknownTopicError

if TYPE_CHECKING:
    from tidelog.store.topic import Topic

_FLUSH_RECORDS = 20_000
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def command(
    directory: options.StoreDirectory,
    topic: options.Topic,
    as_json: Annotated[bool, typer.Option("--json", help="Lines are JSON, as `cat --json` prints them.")] = False,
    key_separator: Annotated[str | None, typer.Option("--key-separator", "-K", help="What stands between key and value of a line.")] = None,
    empty_is_null: Annotated[bool, typer.Option("--null", "-Z", help="An empty key or value is null.")] = False,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of every record.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Append to this one.")] = None,
    repartition: Annotated[bool, typer.Option("--repartition", help="With --json, choose partitions anew, by key.")] = False,
    compression: Annotated[str | None, typer.Option("--compression", help="none, gzip, snappy, lz4 or zstd.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the store and the topic if they are not there.")] = False,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="With --create, how many the topic gets.")] = None,
    config: options.Config = None,
) -> None:
    """Append records from stdin: lines, or what `cat --json` prints.

    They are on disk when it ends, and it says how many. A line that is no record ends it: those before it are in.
    """
    lines = sys.stdin.buffer
    if as_json:
        if key_separator is not None or empty_is_null or header:
            raise InvalidConfigError("--key-separator, --null and --header are about plain lines", hint="leave out --json, or these")
        records = read_json(lines, keeps_partition=partition is None and not repartition)
    else:
        headers = tuple((name, options.typed_bytes(value)) for name, value in options.all_pairs(header, "header"))
        separator = None if key_separator is None else _unescaped(key_separator)
        records = read_lines(lines, LineForm(separator, empty_is_null, headers))
    settings = options.settings(config)
    if compression is not None and compression not in _CODECS:
        raise InvalidConfigError(f"no such codec: {compression!r}", hint=f"one of {', '.join(_CODECS)}")
    with _open_topic(directory, topic, settings, partitions, create=create) as target, Progress("produce") as shown:
        _append(target, records, partition, compression, shown)


@contextmanager
def _open_topic(directory: Path, topic: str, config: dict[str, str], partitions: int | None, *, create: bool) -> Iterator["Topic"]:
    """The topic, of a store that does nothing else meanwhile: who appends a line does not ask for retention."""
    from tidelog.store.store import Store

    if not create:
        if partitions is not None or config:
            raise InvalidConfigError("--partitions and --config are about a topic that is made", hint="--create")
        refuse_no_directory(directory, hint="--create makes a store there, and the topic")
        if not any(directory.iterdir()):
            raise UnknownTopicError("no store is here", path=str(directory), hint="--create makes one, and the topic")
        refuse_others(directory)
    with Store.open(directory, background=False) as store:
        is_there = topic in {found.name for found in store.topics()}
        if create and not is_there:
            store.create_topic(topic, partitions, config)
        elif partitions is not None or config:
            note(f"{topic} is there already, and stays as it is: --partitions and --config are about a topic that is made")
        try:
            opened = store.topic(topic)
        except UnknownTopicError as error:
            error.hint = f"{error.hint}; --create makes it" if error.hint else "--create makes it"
            raise
        yield opened


def _append(topic: "Topic", records: Iterable[InputRecord], partition: int | None, compression: str | None, shown: Progress) -> None:
    """Append, and say how many are in, however it ends."""
    waiting: list[Any] = []
    done = taken = 0
    # Without a producer's id, so that what was printed and read back is the same record in every field; nothing is written twice then.
    with topic.writer(compression=compression, idempotent=False, retries=0) as writer:
        try:
            for record in records:
                taken += 1  # before it is appended: of the one that is refused there is no handle
                place = record.partition if partition is None else partition
                waiting.append(
                    writer.append(record.value, key=record.key, headers=record.headers, timestamp_ms=record.timestamp_ms, partition=place)
                )
                shown.add(len(record.key or b"") + len(record.value or b""))
                if len(waiting) >= _FLUSH_RECORDS:
                    writer.flush()
                    done += len(waiting)
                    waiting.clear()
            writer.flush()
        except BaseException as error:
            note(_count(done + _written(writer, waiting), topic.name, is_all=False))
            if isinstance(error, UnknownTopicError):  # of a partition: the topic is there
                error.hint = "--repartition chooses partitions anew, by key" if partition is None else "-p names one that is there"
            elif isinstance(error, TidelogError) and error.hint is None and not isinstance(error, InvalidConfigError):
                error.hint = f"record {taken} of the input, or one shortly before it"
            raise
    progress(_count(done + len(waiting), topic.name, is_all=True))


def _written(writer: Any, waiting: list[Any]) -> int:
    """How many of those that were taken are on disk after all."""
    with suppress(TidelogError):  # told by the error that is on its way
        writer.flush()
    return sum(1 for handle in waiting if handle.done() and _is_in(handle))


def _is_in(handle: Any) -> bool:
    try:
        handle.result()
    except TidelogError:
        return False
    return True


def _count(count: int, topic: str, *, is_all: bool) -> str:
    text = f"{count} record{'' if count == 1 else 's'} appended to {topic}"
    return text if is_all else f"{text} before it ended"


def _unescaped(text: str) -> bytes:
    r"""A separator as it is typed: `\t` and `\xNN` too."""
    from tidelog.cli.record_format import RecordFormat

    return b"".join(part for part in RecordFormat(text.replace("%", "%%")).parts if isinstance(part, bytes))
