"""Which topics and partitions some directories hold, for whoever only reads them: a store's, a broker's, a backup's.

The names of directories say it. What a store has written down about its topics is added where there is such a file, and what a broker has
in its metadata log; one that cannot be read takes nothing away, since the partitions are there without it. Where a fact is from is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import Disk
from tidelog.disk.names import PARTITION_METADATA, TopicPartition, parse_partition
from tidelog.disk.partition_metadata import read_metadata
from tidelog.errors import NO_DIRECTORY, LogNotFoundError, TidelogError
from tidelog.log.storage_errors import storage_error
from tidelog.store.cluster_metadata import DescribedTopic
from tidelog.store.store_file import STORE_FILE, StoreFile, TopicEntry, read_store_file

DIRECTORIES: Final = "the directories of its partitions"


@dataclass(slots=True)
class FoundTopic:
    """A topic as it is on disk."""

    name: str
    homes: dict[int, list[str]] = field(default_factory=dict)
    """For each partition the directories that have it: one, unless several brokers' are read at once."""
    entry: TopicEntry | None = None
    """What its store has written down."""

    @property
    def partitions(self) -> int:
        """How many the topic has, as far as can be known: the largest number that is here, unless a store says."""
        here = max(self.homes) + 1 if self.homes else 0
        return here if self.entry is None else max(here, self.entry.partitions)

    def partition_ids(self) -> list[int]:
        """Those that are here, and those that should be: reading one of these says that it is missing."""
        entry = self.entry
        expected = [] if entry is None else [number for number in entry.partition_ids() if entry.is_due(number)]
        return sorted({*self.homes, *expected})


def find_topics(disk: Disk, paths: Sequence[str]) -> dict[str, FoundTopic]:
    """The topics of some directories by name. What waits to be deleted or is being moved is none, nor is a broker's own metadata."""
    found: dict[str, FoundTopic] = {}
    for path in paths:
        content = _store_file(disk, path)
        gone = {topic.topic for topic in content.deleted if not topic.is_renamed} if content is not None else set()
        known = content.topics if content is not None else {}
        for partition in _partitions(disk, path):
            if partition.topic in gone and partition.topic not in known:
                continue  # its owner was stopped before it could give it another name
            topic = found.setdefault(partition.topic, FoundTopic(partition.topic))
            topic.homes.setdefault(partition.partition, []).append(path)
        for name, entry in known.items():
            found.setdefault(name, FoundTopic(name)).entry = entry
    return dict(sorted(found.items()))


class TopicFacts(NamedTuple):
    """What is known of a topic beyond its directories, and from which file."""

    topic_id: UUID | None
    topic_id_from: str | None
    partitions: int
    partitions_from: str
    described: DescribedTopic | None
    """As a broker knows it, unless that is another topic of the same name."""


def topic_facts(disk: Disk, topic: FoundTopic, brokers: Mapping[str, DescribedTopic]) -> TopicFacts:
    """What a store says counts, then what the partitions have, then what a broker says: its log may be newer or older than they are."""
    topic_id, source = topic_id_of(disk, topic), PARTITION_METADATA
    if topic.entry is not None and topic.entry.topic_id is not None:
        source = STORE_FILE
    described = brokers.get(topic.name)
    if described is not None and topic_id not in (None, described.topic_id):
        described = None
    if topic_id is None and described is not None:
        topic_id, source = described.topic_id, CLUSTER_METADATA
    partitions, counted_by = topic.partitions, DIRECTORIES
    if topic.entry is not None and topic.entry.partitions == partitions:
        counted_by = STORE_FILE
    if described is not None and described.partitions >= partitions and counted_by == DIRECTORIES:
        partitions, counted_by = described.partitions, CLUSTER_METADATA
    return TopicFacts(topic_id, None if topic_id is None else source, partitions, counted_by, described)


def topic_id_of(disk: Disk, topic: FoundTopic) -> UUID | None:
    """As its partitions have it."""
    if topic.entry is not None and topic.entry.topic_id is not None:
        return topic.entry.topic_id
    for partition, path in ((partition, path) for partition, paths in sorted(topic.homes.items()) for path in paths):
        try:
            found = read_metadata(disk, f"{path}/{TopicPartition(topic.name, partition)}")
        except (TidelogError, OSError):  # a directory that may not be entered is told of by who reads it
            continue
        if found is not None:
            return found
    return None


def _partitions(disk: Disk, path: str) -> Iterable[TopicPartition]:
    try:
        entries = list(disk.entries(path))
    except FileNotFoundError as error:
        raise LogNotFoundError("no such directory", path=path, hint=NO_DIRECTORY) from error
    except NotADirectoryError as error:
        raise LogNotFoundError("not a directory", path=path, hint="give the directory that holds the partitions' directories") from error
    except OSError as error:
        raise storage_error(error, path, "reading the directory failed") from error
    parsed = (parse_partition(entry.name) for entry in entries if entry.is_directory)
    return [partition for partition in parsed if partition is not None and partition.topic != CLUSTER_METADATA]


def _store_file(disk: Disk, path: str) -> StoreFile | None:
    try:
        return read_store_file(disk, path)
    except (TidelogError, OSError):
        return None
