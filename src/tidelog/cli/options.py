"""Arguments and options that several commands share, each said once: `directory: options.Directory`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.amounts import parse_duration, parse_size
from tidelog.cli.provenance import NO_LIMIT, UNLIMITED
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation as IsolationLevel

_ISOLATIONS = ("committed", "high_watermark", "log_end")
HOW_TO_MATCH = r"as Python's re has them, over bytes: '^user-[0-9]+$'; a backslash makes ( [ . * plain"
"""What to do about a regular expression that is none."""


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics of the directory that is on the command line already."""
    directory = ctx.params.get("directory")
    if directory is None:
        return []
    try:
        return [name for name in topic_names(Path(directory)) if name.startswith(incomplete)]
    except OSError:
        return []


def topic_names(directory: Path) -> list[str]:
    """As the names of directories say: nothing is opened, since somebody waits for the key to be pressed again."""
    from tidelog.disk.names import parse_partition

    found = (parse_partition(path.name) for path in directory.iterdir() if path.is_dir())
    return sorted({partition.topic for partition in found if partition is not None})


def isolation_of(text: str) -> "IsolationLevel":
    """One of the three."""
    for known in _ISOLATIONS:
        if text == known:
            return known  # type: ignore[return-value]
    raise InvalidConfigError(f"no such isolation: {text!r}", hint=f"one of {', '.join(_ISOLATIONS)}")


def _complete_isolation() -> list[str]:
    return list(_ISOLATIONS)


def pairs(texts: list[str] | None, what: str) -> dict[str, str]:
    """`name=value` of an option that may be given several times; of one name the last counts."""
    return dict(all_pairs(texts, what))


def all_pairs(texts: list[str] | None, what: str) -> list[tuple[str, str]]:
    """The same, where a name may come more than once."""
    found = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidConfigError(f"not a {what}: {text!r}", hint="name=value")
        found.append((name, value))
    return found


def settings(texts: list[str] | None) -> dict[str, str]:
    """`name=value` of settings; a time may be written as `7d`, a size as `64MiB`, none as `unlimited`, which Kafka does not know."""
    return {name: setting_value(name, value) for name, value in pairs(texts, "setting").items()}


def setting_value(name: str, text: str) -> str:
    """The value of a setting as Kafka writes it."""
    word = text.strip()
    if word.lstrip("+-").isdigit():
        return word
    if word == UNLIMITED and name.endswith((".ms", ".bytes")):
        return "-1" if name.startswith("retention.") else str(NO_LIMIT)  # each as Kafka says it
    try:
        if name.endswith(".ms"):
            return str(parse_duration(word))
        if name.endswith(".bytes"):
            return str(parse_size(word))
    except InvalidConfigError as error:
        raise InvalidConfigError(f"bad value of {name}: {text!r}", hint=error.hint) from error
    return text


def typed_bytes(text: str) -> bytes:
    """A key, or another argument that is about bytes, as it was typed: a shell passes on bytes that are no UTF-8 too."""
    return text.encode("utf-8", "surrogateescape")


Directory = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="A store, a broker's data directory, or the directory of one partition.")
]
StoreDirectory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A store.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="Which topic.")]
OptionalTopic = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="Which topic; not needed if the directory is a partition's."),
]
AnyTopic = Annotated[
    str | None, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="Which topic; all of them without it.")
]
Partition = Annotated[int | None, typer.Option("--partition", "-p", help="Only this one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Raw = Annotated[bool, typer.Option("--raw", help="The bytes of internal topics, not what they mean.")]
Isolation = Annotated[
    str, typer.Option("--isolation", autocompletion=_complete_isolation, help="committed, high_watermark, or log_end: all there is.")
]
IoLimit = Annotated[
    str | None,
    typer.Option(
        "--io-limit",
        metavar="RATE",
        envvar="TIDELOG_IO_LIMIT",
        help="Read no faster, as 20MiB/s, and leave the page cache as it was: for the disk of a live broker. unlimited: only the latter.",
    ),
]
Config = Annotated[list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be given several times.")]
Spark = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="[MASTER]",
        help="On Spark: local[*] unless a master is named, as spark://host:7077. The files must be there too.",
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Do it. Without this the plan is printed, and nothing is changed.")]
