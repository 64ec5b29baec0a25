"""The commands: name, module, one line of help. A command is loaded when it is asked for, so that `--help` stays quick.

A new command is a module with a function `command`, options in, one call into the library, one rendering; or, where it has commands of its
own, with a Typer `app`; and a line here. Its line of help is the first sentence of its docstring: a test compares them.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main


class Command(NamedTuple):
    """A line of the table."""

    name: str
    module: str
    """Below `tidelog.cli`."""
    help: str
    section: str


LOOK, CHANGE, CARE, WHOLE = "Look", "Write", "Look after", "Whole topics"

COMMANDS = (
    Command("ls", "ls", "List topics, partitions or segments, with sizes, offsets and times.", LOOK),
    Command("describe", "describe", "Show a topic: ids, partitions, offsets, and each setting with where it is from.", LOOK),
    Command("cat", "cat", "Print the records of a topic.", LOOK),
    Command("tail", "tail", "Print the last records of a topic, and those that come.", LOOK),
    Command("find", "find", "Find the record at an offset, at a time, or of a key, and where it lies.", LOOK),
    Command("dump", "dump", "Print what lies in files: batches, records, index entries, checkpoints, damage.", LOOK),
    Command("stats", "stats", "Count records, batches, bytes and codecs; with --records also keys and tombstones.", LOOK),
    Command("verify", "verify", "Say what is wrong with directories and files of a log, and what would mend it.", LOOK),
    Command(
        "explain",
        "explain",
        "Say why each segment is still here, when it goes and by which rule, and whether its log would be compacted.",
        LOOK,
    ),
    Command("what-if", "what_if", "Say what would go now if a topic were set otherwise, beside what goes as it is.", LOOK),
    Command("report", "report", "Write one HTML page: strata of segments, what goes when, throughput, distributions, findings.", LOOK),
    Command("produce", "produce", "Append records from stdin: lines, or what `cat --json` prints.", CHANGE),
    Command("topics", "topics", "List, create, delete or describe topics.", CHANGE),
    Command("config", "config", "Get, set or unset the settings of a topic.", CHANGE),
    Command("groups", "groups", "List or describe groups of consumers, with positions and lag, or reset one.", CHANGE),
    Command("compact", "compact", "Compact topics now: keep the last record of each key, whatever the dirty ratio.", CARE),
    Command("retain", "retain", "Delete segments that are older or more than a topic's settings want to keep.", CARE),
    Command("trim", "trim", "Delete the records of a topic that come before an offset or a time.", CARE),
    Command("repair", "repair", "Mend logs in place: indexes, snapshots, leader epochs, leftovers, a torn end.", CARE),
    Command(
        "reindex", "reindex", "Build indexes and producer snapshots anew from the batches, where they are not what they should be.", CARE
    ),
    Command(
        "salvage", "salvage", "Copy what is sound of damaged logs into a new directory, with the same offsets, and say what is lost.", CARE
    ),
    Command("export", "export", "Write the records of topics as files: Parquet, JSON lines, CSV, Delta or Iceberg.", WHOLE),
    Command(
        "ingest", "ingest", "Append the rows of files to a topic, keyed, and spread over its partitions as Kafka's producers do.", WHOLE
    ),
    Command("table", "table", "Print the latest value of each key of a topic, now or as of a time or an offset.", WHOLE),
    Command(
        "history", "history", "Print the versions of each key of a topic, with the times from which and to which each was the value.", WHOLE
    ),
    Command(
        "copy",
        "copy",
        "Copy topics into a new data directory, with their offsets, ids and settings; all of it, up to a point, or some keys.",
        WHOLE,
    ),
    Command(
        "restore", "restore", "Make a new store of a snapshot or a backup, which may have been taken while somebody was writing.", WHOLE
    ),
    Command(
        "forget", "forget", "Remove all records with some keys from a topic, and prove that nothing of them is left in its files.", CARE
    ),
)


class CommandGroup(typer.core.TyperGroup):
    """Knows the table, and loads what is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the table."""
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, loaded now; None if there is none."""
        for command in COMMANDS:
            if command.name == cmd_name:
                return load(command)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command by its name, or else the names that are near it."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:  # click's UsageError, whosever copy of click that is
            near = get_close_matches(args[0], self.list_commands(ctx)) if args else []
            if near and hasattr(error, "message"):
                error.message = f"No such command {args[0]!r}; did you mean {' or '.join(near)}?"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section, without loading one of them."""
        for section in dict.fromkeys(command.section for command in COMMANDS):
            with formatter.section(section):
                formatter.write_dl([(command.name, command.help) for command in COMMANDS if command.section == section])


def load(command: Command) -> Any:
    """What runs it."""
    module = import_module(f"tidelog.cli.{command.module}")
    app = getattr(module, "app", None)
    if app is None:
        app = new_app()
        app.command(command.name)(module.command)
    return typer.main.get_command(app)


def new_app(**settings: Any) -> typer.Typer:
    """A Typer as all of ours are: plain help, our own errors."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **settings)
