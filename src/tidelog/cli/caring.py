"""What commands that look after a directory have in common: settings with their sources, and what is asked before anything is changed.

Before: nobody else has the directory open, the settings that decide are no assumptions, and there is room for what is to be written.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from tidelog.cli.output import FAILED, in_options, note, plain, print_json, print_line, progress
from tidelog.cli.provenance import SettingFact, broker_settings, refuse_assumed, settings_line, settings_of
from tidelog.cli.targets import Target
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.disk.file_pool import FilePool
    from tidelog.disk.names import TopicPartition
    from tidelog.store.read_only_store import ReadOnlyStore
    from tidelog.store.store import Store

RETENTION = ("cleanup.policy", "retention.ms", "retention.bytes")
"""Settings by which records go for their age or the size of the log."""
COMPACTION = ("cleanup.policy", "min.compaction.lag.ms", "delete.retention.ms")
"""Settings by which records go because a later one has their key."""

Facts = dict[str, list[SettingFact]]
"""By topic."""


def deciding_settings(store: "ReadOnlyStore", topics: Iterable[str], names: Collection[str]) -> Facts:
    """The settings that decide about some topics."""
    return {topic: [fact for fact in settings_of(store, topic) if fact.name in names] for topic in dict.fromkeys(topics)}


def print_settings(facts: Facts, *, as_json: bool) -> None:
    """Each with where it is from."""
    for topic, own in facts.items():
        if as_json:
            for fact in own:
                print_json(fact.to_json() | {"topic": topic})
        else:
            for line in settings_line(own):
                print_line(f"{plain(topic)}: settings from {plain(line)}")


def print_left_alone(left_alone: "Iterable[tuple[TopicPartition, str]]", *, as_json: bool) -> None:
    """Partitions that nothing is done to, and why."""
    for partition, why in left_alone:
        if as_json:
            print_json({"type": "left_alone", "topic": partition.topic, "partition": partition.partition, "why": why})
        else:
            progress(f"{partition}: {plain(why)}")


def end_with(failures: Iterable[Any]) -> None:
    """Say what could not be done, if anything: the rest was."""
    failed = list(failures)
    for failure in failed:
        note(f"error: {failure.partition}: {plain(in_options(str(failure.error)))}")
    if failed:
        raise typer.Exit(FAILED)


def check_before_change(target: Target, facts: Facts | None = None, *, needed_bytes: int = 0) -> None:
    """Raise if somebody has the directory open, a setting that decides is assumed, or there is no room."""
    from tidelog.disk.log_directory import LogDirectory
    from tidelog.store.log_care import check_space

    for own in (facts or {}).values():
        refuse_assumed(own, {fact.name for fact in own})
    owner = LogDirectory.find_owner(target.path)
    if owner is not None:
        raise owner
    check_space(target.path, needed_bytes)


def refuse_one_partition(target: Target) -> None:
    """A store looks after whole topics."""
    if target.is_store and target.partition is not None:
        raise InvalidConfigError(
            f"of a store whole topics are looked after: {target.topic}", hint=f"tidelog … {target.root} {target.topic}"
        )


def store_settings(config: dict[str, str], rate_bytes: int | None = None) -> dict[str, Any]:
    """What a store is opened with for a moment: settings that were given, and how fast its cleaner may be."""
    found: dict[str, Any] = dict(broker_settings(config))
    return found if not rate_bytes else found | {"log.cleaner.io.max.bytes.per.second": float(rate_bytes)}


@contextmanager
def owned_store(target: Target, settings: dict[str, Any], pool: "FilePool | None" = None) -> "Iterator[Store]":
    """The store, for as long as the command takes. What was given counts meanwhile, as the plan has said; its file stays as it is."""
    from tidelog.disk.file_pool import SHARED
    from tidelog.store.store import Store

    with Store.open(target.root, config=settings, background=False, pool=pool or SHARED) as store:
        over = store.config.topic_defaults.overrides()
        for topic in store.topics(internal=False) if over else ():
            if target.topic in (None, topic.name) and topic.describe().is_looked_after:
                for number in topic.partition_ids():
                    _lay_over(store, topic.name, number, over)
        yield store


def _lay_over(store: "Store", topic: str, number: int, over: dict[str, str]) -> None:
    from tidelog.disk.names import TopicPartition

    if TopicPartition(topic, number) not in store.failures:  # what could not be opened is told by who wants to change it
        log = store.log(topic, number)
        log.reconfigure(log.config.with_changes(over))


def refuse_laid_over(store: "ReadOnlyStore", topics: Iterable[str]) -> None:
    """Raise if a setting was given that is written down too: a job on Spark opens the store by itself, and goes by what is written."""
    for topic in topics:
        for setting in store.topic(topic).describe().settings:
            if setting.name in store.settings(topic).given:
                raise InvalidConfigError(f"{topic}: on Spark {setting.name} is what is written down", hint="config set changes that")


def place(partition: "TopicPartition") -> dict[str, Any]:
    """For a step of a plan, or a result."""
    return {"topic": partition.topic, "partition": partition.partition}
