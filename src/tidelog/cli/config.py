"""`tidelog config`: the settings of a topic, with where each is from; set and unset."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change
from tidelog.cli.output import print_json, print_line, progress
from tidelog.cli.provenance import DEFAULT, SettingFact, settings_of
from tidelog.cli.registry import new_app
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.tables import Column, print_rows
from tidelog.cli.targets import changing_store, refuse_others, target_of
from tidelog.errors import InvalidConfigError
from tidelog.plurals import counted

app = new_app(help="Get, set or unset the settings of a topic.", no_args_is_help=True)

_COLUMNS = (Column("name", "SETTING"), Column("value", "VALUE", style="bold"), Column("origin", "FROM", style="dim"))


@app.command("get")
def get(
    directory: options.Directory,
    topic: options.Topic,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which; all of them without it.")] = None,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Show the settings of a topic, each with where it is from."""
    facts = _facts(directory, topic, options.settings(config))
    known = {fact.name: fact for fact in facts}
    for name in names or ():
        _check_name(name, known)
    chosen = [known[name] for name in names] if names else facts
    rows = [fact.to_json() | {"topic": topic} | ({} if as_json else {"origin": fact.origin}) for fact in chosen]
    print_rows(rows, _COLUMNS, as_json=as_json)


@app.command("set")
def set_values(
    directory: options.StoreDirectory,
    topic: options.Topic,
    values: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="A time may be written as 7d, a size as 64MiB.")],
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Set settings of a topic. The plan is printed; --apply does it."""
    _change(directory, topic, options.settings(values), [], apply=apply, as_json=as_json)


@app.command("unset")
def unset(
    directory: options.StoreDirectory,
    topic: options.Topic,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Which.")],
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Take back settings of a topic, as if they had never been given. The plan is printed; --apply does it."""
    _change(directory, topic, {}, names, apply=apply, as_json=as_json)


def _facts(directory: Path, topic: str, config: dict[str, str] | None = None) -> list[SettingFact]:
    with reading_disk("config", None) as disk, open_store(directory, disk, config) as store:
        return settings_of(store, topic)


def _check_name(name: str, known: dict[str, SettingFact]) -> None:
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known)
        raise InvalidConfigError(f"no such setting: {name}", hint=f"did you mean {' or '.join(near)}?" if near else "config get lists all")


def _change(directory: Path, topic: str, values: dict[str, str], names: list[str], *, apply: bool, as_json: bool) -> None:
    from tidelog.config import LogConfig
    from tidelog.store.topic_settings import in_force

    refuse_others(directory)
    with reading_disk("config", None) as disk, open_store(directory, disk) as store:
        known = {fact.name: fact for fact in settings_of(store, topic)}
        for name in (*values, *names):
            _check_name(name, known)
        changed = store.settings(topic).config.with_changes(values, reset=names)
        after = in_force(changed.overrides(), LogConfig.of(None)).describe()
        is_left_alone = not store.topic(topic).describe().is_looked_after
    steps = [_step(topic, known[name], after[name]) for name in values if (known[name].value, known[name].source) != (after[name], _OWN)]
    steps += [_step(topic, known[name], after[name]) for name in names if known[name].source != DEFAULT]
    if steps and is_left_alone:
        progress(f"{topic} was adopted and is left alone: from then on it is looked after")
    summary = f"{counted(len(steps), 'setting')} of {topic}" if steps else ""
    command = "config set" if values else "config unset"
    if not is_to_be_applied(Plan(command, summary, tuple(steps)), apply=apply, as_json=as_json):
        return
    check_before_change(target_of(directory, topic))
    with change_log() as logger, changing_store(directory) as owned:
        owned.topic(topic).alter(values, reset=names)
        for step in steps:
            logger.info("topic %s", step["what"])
    for fact in _facts(directory, topic):
        if fact.name in values or fact.name in names:
            if as_json:
                print_json(fact.to_json() | {"topic": topic})
            else:
                print_line(f"{fact.name}={fact.value} ({fact.origin})")


_OWN = "tidelog.json"


def _step(topic: str, fact: SettingFact, value: str) -> dict[str, Any]:
    what = f"{topic}: {fact.name} from {fact.value} ({fact.origin}) to {value}"
    return {"what": what, "topic": topic, "name": fact.name, "value_before": fact.value, "value": value}
