"""`tidelog what-if`: what retention and compaction would do if a topic were set otherwise."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size, format_time
from tidelog.cli.explain import DECIDING, OF_RETENTION
from tidelog.cli.output import plain, print_json, print_line
from tidelog.cli.positions import resolve_time
from tidelog.cli.provenance import settings_line, settings_of
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.tables import Column, number, optional, print_heading, print_rows
from tidelog.cli.targets import Target, target_of
from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.names import TopicPartition
    from tidelog.store.read_only_store import ReadOnlyStore
    from tidelog.store.what_if import CountBy, WhatIfRow

_COLUMNS = (
    Column("settings", "IF", style="bold"),
    Column("segments", "SEGMENTS GO", number, is_right=True),
    Column("size_bytes", "BYTES GO", format_size, is_right=True),
    Column("records", "OFFSETS GO", number, is_right=True),
    Column("left_bytes", "BYTES STAY", format_size, is_right=True),
    Column("oldest_left_ms", "OLDEST THAT STAYS", optional(format_time), style="dim"),
    Column("compacted_partitions", "PARTITIONS COMPACTED", number, is_right=True),
)
_AS_IT_IS = "as it is"


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    config: options.Config = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", metavar="NAME=VALUE", help="A setting in force that is not written down there, as with explain --config."),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Count records by the headers of batches, not by offsets.")] = False,
    now: Annotated[str | None, typer.Option("--now", help="As if it were this time.")] = None,
    as_json: options.Json = False,
) -> None:
    """Say what would go now if a topic were set otherwise, beside what goes as it is.

    A setting that is given several times is tried with each value, together with each of the others: --config retention.ms=1d --config
    retention.ms=7d. Nothing is changed.
    """
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.store.explain import cleaner_checkpoints
    from tidelog.store.what_if import grid

    target = target_of(directory, topic)
    if target.topic is None:
        raise UnknownTopicError("which topic?", path=str(directory), hint="tidelog what-if DIRECTORY TOPIC --config NAME=VALUE")
    asked = _asked(config)
    if not asked:
        raise InvalidConfigError("what if what?", hint="--config retention.ms=7d, or another setting")
    now_ms = wall_clock() if now is None else resolve_time(now, "now", wall_clock())
    with reading_disk("what-if", None) as disk, open_store(target.root, disk, options.settings(given)) as store:
        configs: list[dict[str, object]] = [{}, *grid(asked)]
        count_by: CountBy = "batches" if exact else "offsets"
        checkpoints = cleaner_checkpoints(disk, store.paths)
        answers = _answers(store, target, configs, _Asked(now_ms, count_by, checkpoints))
        rows = [row_object(target.topic, row, count_by, compacted) for row, compacted in answers]
        is_compacted = store.settings(target.topic).config.is_compacted or "cleanup.policy" in asked
        deciding = {*asked, *(DECIDING if is_compacted else OF_RETENTION)}
        facts = [fact for fact in settings_of(store, target.topic) if fact.name in deciding]
    if as_json:
        for fact in facts:
            print_json(fact.to_json() | {"topic": target.topic})
        print_rows(rows, _COLUMNS, as_json=True)
        return
    print_heading(target.topic, is_first=True)
    for line in settings_line(facts):
        print_line(f"  {plain(line)}")
    print_rows(rows, _COLUMNS, as_json=False)
    for row in rows[1:]:
        print_line(words(row, rows[0]))


def _asked(config: list[str] | None) -> dict[str, list[str]]:
    asked: dict[str, list[str]] = {}
    for text in config or ():
        for name, value in options.settings([text]).items():
            asked.setdefault(name, []).append(value)
    return asked


class _Asked(NamedTuple):
    """What is asked about each of the settings."""

    now_ms: int
    count_by: "CountBy"
    checkpoints: "dict[TopicPartition, int]"


def _answers(store: "ReadOnlyStore", target: Target, configs: list[dict[str, object]], asked: _Asked) -> "list[tuple[WhatIfRow, int]]":
    """What each of the settings would do, and how many logs would be compacted then."""
    from tidelog.store.explain import explain_log
    from tidelog.store.what_if import ask

    assert target.topic is not None
    topic, now_ms = store.topic(target.topic), asked.now_ms
    in_force = store.settings(topic.name).config
    logs = [topic.log(number) for number in topic.partition_ids() if target.has(number)]
    for log in logs:
        log.refresh()
    table = ask(topic.name, in_force, [nullcontext(log) for log in logs], configs, now_ms, (), asked.count_by)
    answers = []
    for row, config in zip(table.rows, configs, strict=True):
        changed = in_force.with_changes(config)
        explained = [explain_log(log, changed, now_ms, (), asked.checkpoints.get(log.partition)) for log in logs]
        answers.append((row, sum(1 for one in explained if one.cleaning is not None and one.cleaning.is_eligible)))
    return answers


def row_object(topic: str, row: "WhatIfRow", counted_by: str, compacted: int) -> dict[str, Any]:
    """A row, as JSON has it."""
    found: dict[str, Any] = {"type": "what_if", "topic": topic, "settings": _settings(row.config), **row._asdict()}
    return found | {"config": dict(row.config), "counted_by": counted_by, "compacted_partitions": compacted}


def _settings(config: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items()) or _AS_IT_IS


def words(row: dict[str, Any], now: dict[str, Any]) -> str:
    """A row in a sentence, held against how it is."""
    more, size = row["segments"] - now["segments"], row["size_bytes"] - now["size_bytes"]
    if more == 0 and size == 0:
        text = "nothing more goes than as it is"
    elif more >= 0:
        left = format_size(row["left_bytes"])
        text = f"{counted(more, 'segment')} more {'goes' if more == 1 else 'go'} now, {format_size(size)}; {left} stay"
    else:
        text = f"{counted(-more, 'segment')} less {'goes' if more == -1 else 'go'} now, {format_size(-size)}"
    compacted = row["compacted_partitions"] - now["compacted_partitions"]
    if compacted:
        text += f"; {counted(abs(compacted), 'partition')} {'more' if compacted > 0 else 'less'} would be compacted"
    return f"with {plain(row['settings'])}: {text}"
