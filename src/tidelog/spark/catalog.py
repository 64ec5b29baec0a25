"""Which partitions a read is about: directories, and what they hold, as topics and partitions.

Several directories are read as one. Where more than one of them has a partition, they are replicas, as long as they are of the same topic
by its id, and the one with the higher high watermark is taken. Partitions that should be there and are not, by their numbers, by what a
store has written down or by a broker's metadata log, are named.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidelog.errors import InconsistentTopicIdError, InvalidConfigError, TidelogError, UnknownTopicError
from tidelog.spark.option_values import refuse
from tidelog.spark.read_options import ReadOptions

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.store.cluster_metadata import DescribedTopic
    from tidelog.store.read_only_topics import FoundTopic

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition that is read, and where it is."""

    topic: str
    partition: int
    directory: str
    """Of the partition, absolute."""
    topic_id: str | None
    """As Kafka writes it; None where nothing says it."""
    partition_count: int = 0
    """How many the topic has, here or elsewhere, as far as can be known."""

    def open(self) -> "ReadOnlyLog":
        """Its log, to be read and closed by the caller."""
        from tidelog.log.read_only import open_read_only

        return open_read_only(self.directory)

    def is_home_of(self, keys: Iterable[bytes]) -> bool:
        """Whether a producer that hashes with murmur2 puts records with one of these keys here."""
        from tidelog.record.kernel.hashing import partition_for_key

        return any(partition_for_key(key, self.partition_count) == self.partition for key in keys)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def find_partitions(options: ReadOptions) -> tuple[SourcePartition, ...]:
    """The partitions that were chosen, by topic and number. A topic, or a partition of it, that is not there raises."""
    from tidelog.disk.file_pool import SHARED
    from tidelog.store.broker_topics import BrokerTopics
    from tidelog.store.read_only_topics import find_topics, topic_facts

    disk = SHARED.disk
    paths = resolve_directories(options.paths)
    found = find_topics(disk, paths)
    chosen = choose_topics(options, found, paths)
    brokers = BrokerTopics(disk, paths).look()[0] if chosen else {}
    missing: list[str] = []
    sources = []
    for name, wanted in chosen.items():
        topic = found[name]
        # A topic that was made again since is not the one that the broker has written about.
        described = topic_facts(disk, topic, brokers).described
        absent = missing_partitions(topic, described)
        there = sorted(topic.homes) if wanted is None else [number for number in wanted if number in topic.homes]
        missing += [f"{name}-{number}" for number in absent if wanted is None or number in wanted]
        unknown = [] if wanted is None else [number for number in wanted if number not in topic.homes and number not in absent]
        if unknown:
            raise UnknownTopicError(
                f"no partition {unknown[0]} of topic {name!r}",
                path=paths[0],
                expected=f"one of {', '.join(map(str, sorted(topic.homes)))}",
                found=unknown[0],
            )
        sources += _partitions_of(disk, topic, there, described)
    if missing and not options.allow_missing_partitions:
        raise UnknownTopicError(
            f"partitions are not in {', '.join(paths)}: {_listed(missing)}",
            hint="give the directories that have them too, with commas between; or allowMissingPartitions=true reads the rest",
        )
    return tuple(sources)


def resolve_directories(text: str) -> list[str]:
    """The directories that `load` was given: a path or file: URI, several with commas between, or a JSON list of them."""
    from tidelog.store.directories import resolve_paths

    if text.startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = [text]
    else:
        # A directory whose name has a comma is one directory.
        listed = [text] if os.path.isdir(text) else [part.strip() for part in text.split(",") if part.strip()]  # noqa: PTH112
    try:
        return resolve_paths([_local_path(str(part)) for part in listed])
    except ValueError as error:
        if isinstance(error, TidelogError):
            raise
        raise InvalidConfigError(f"option path: {error}") from None


def _local_path(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    if scheme[1].lower() != "file":
        raise refuse(
            "path", "a directory that every executor sees, as a path or a file: URI", text, hint="mount it, or copy it there first"
        )
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise refuse("path", "a file: URI without a host, as in file:///data", text)
    return unquote(parts.path)


def choose_topics(options: ReadOptions, found: Mapping[str, "FoundTopic"], paths: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """The topics that were asked for, each with its partitions, or None for all of them."""
    from tidelog.store.topic_names import INTERNAL_TOPICS

    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        return {name: None for name in found if name not in INTERNAL_TOPICS and pattern.fullmatch(name)}
    chosen: dict[str, tuple[int, ...] | None] = {}
    if options.subscribe is not None:
        chosen = dict.fromkeys(sorted(set(options.subscribe)))
    elif options.assign is not None:
        names = sorted({topic for topic, _ in options.assign})
        chosen = {name: tuple(number for topic, number in options.assign if topic == name) for name in names}
    for name in chosen:
        if name not in found:
            raise UnknownTopicError(f"no topic {name!r}", path=", ".join(paths), hint=f"there are: {_listed(list(found)) or 'none'}")
    return chosen


def missing_partitions(topic: "FoundTopic", described: "DescribedTopic | None") -> list[int]:
    """The partitions that the topic has, and that are not here. Those that nobody has used yet, or that are being made, are not missed."""
    count = topic_partitions(topic, described)
    entry = topic.entry
    unused = frozenset(range(count)) if entry is not None and (entry.is_lazy or entry.is_incomplete) else frozenset()
    return [number for number in range(count) if number not in topic.homes and number not in unused]


def topic_partitions(topic: "FoundTopic", described: "DescribedTopic | None") -> int:
    """How many partitions a topic has, by its directories, its store or its broker."""
    return topic.partitions if described is None else max(topic.partitions, described.partitions)


def _partitions_of(disk: "Disk", topic: "FoundTopic", numbers: Iterable[int], described: "DescribedTopic | None") -> list[SourcePartition]:
    """The partitions of one topic, of replicas the one that has more; whatever has another id is not of this topic."""
    from tidelog.disk.partition_metadata import format_topic_id, read_metadata

    sources = []
    known: tuple[str, str] | None = None
    count = topic_partitions(topic, described)
    for number in numbers:
        replicas = []
        for home in topic.homes[number]:
            directory = f"{home}/{topic.name}-{number}"
            found = read_metadata(disk, directory)
            topic_id = None if found is None else format_topic_id(found)
            if topic_id is not None:
                if known is not None and known[0] != topic_id:
                    raise InconsistentTopicIdError(
                        f"partitions of different topics that are both called {topic.name!r}",
                        path=directory,
                        expected=f"topic id {known[0]} as in {known[1]}",
                        found=topic_id,
                        hint="read them by themselves",
                    )
                known = topic_id, directory
            replicas.append(SourcePartition(topic.name, number, directory, topic_id, count))
        sources.append(replicas[0] if len(replicas) == 1 else max(replicas, key=_high_watermark))
    if known is None:
        own = topic.entry.topic_id if topic.entry is not None else None
        own = own or (described.topic_id if described is not None else None)
        if own is not None:
            return [replace(source, topic_id=format_topic_id(own)) for source in sources]
    return sources


def _high_watermark(source: SourcePartition) -> tuple[int, int]:
    with source.open() as log:
        return log.high_watermark, log.log_end_offset


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"
