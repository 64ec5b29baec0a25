"""`tidelog describe`: all that is known of a topic, and from where."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.ls import PARTITIONS, partition_facts
from tidelog.cli.output import plain, print_json, print_line
from tidelog.cli.provenance import DEFAULT, settings_of
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.tables import Column, print_heading, print_rows
from tidelog.disk.partition_metadata import format_topic_id

if TYPE_CHECKING:
    from tidelog.store.topic import TopicDescription

_SETTINGS = (Column("name", "SETTING"), Column("value", "VALUE", style="bold"), Column("origin", "FROM", style="dim"))


def command(
    directory: options.Directory,
    topic: options.Topic,
    config: options.Config = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also the settings that have their default.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show a topic: ids, partitions, offsets, and each setting with where it is from.

    A setting is given (--config), from the store's file, from a broker's metadata log, or a default. Of a broker's directory a default is
    assumed: the broker's file of properties is not in it.
    """
    with reading_disk("describe", None) as disk, open_store(directory, disk, options.settings(config)) as store:
        found = store.topic(topic)
        facts = topic_object(found.describe())
        settings = settings_of(store, topic)
        partitions = [partition_facts(topic, one, lambda one=one: found.log(one)) for one in found.partition_ids()]  # type: ignore[misc]
    if as_json:
        for row in (facts, *(fact.to_json() for fact in settings), *partitions):
            print_json(row)
        return
    _print_facts(facts)
    shown = [fact.to_json() | {"origin": fact.origin} for fact in settings if every or fact.source != DEFAULT]
    print_heading("Settings" if every else "Settings that are no defaults")
    print_rows(shown, _SETTINGS, as_json=False, empty="none; --all shows the defaults")
    print_heading("Partitions")
    print_rows(partitions, PARTITIONS, as_json=False, empty="none")


def topic_object(described: "TopicDescription") -> dict[str, Any]:
    """What is known of a topic as a whole."""
    return {
        "type": "topic",
        "topic": described.name,
        "topic_id": None if described.topic_id is None else format_topic_id(described.topic_id),
        "topic_id_from": described.topic_id_from,
        "partitions": described.partitions,
        "partitions_from": described.partitions_from,
        "absent_partitions": list(described.absent),
        "settings_from": described.settings_from,
        "is_looked_after": described.is_looked_after,
        "refused_settings": dict(described.refused),
    }


def _print_facts(facts: dict[str, Any]) -> None:
    print_heading(facts["topic"], is_first=True)
    print_line(f"topic id    {facts['topic_id'] or 'not known'}" + (f" ({facts['topic_id_from']})" if facts["topic_id_from"] else ""))
    absent = facts["absent_partitions"]
    missing = f"; not here: {', '.join(map(str, absent))}" if absent else ""
    print_line(f"partitions  {facts['partitions']} ({facts['partitions_from']}){missing}")
    print_line(f"settings    {facts['settings_from']}")
    for name, value in facts["refused_settings"].items():
        print_line(f"refused     {plain(name)}={plain(value)}, which cannot be here")
