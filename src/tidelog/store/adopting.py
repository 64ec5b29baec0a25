"""Make a store of directories: of new ones, or of what somebody else has left there.

A partition is a directory with its name that has a segment or a topic's id in it. Nothing is known about how an adopted topic is set, so
nothing of it is deleted or compacted, until settings are given. A broker has written down its topics' settings in a log of its own,
`__cluster_metadata`; they are taken from there if that is asked for.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from tidelog.config import SETTINGS, LogConfig
from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import Disk
from tidelog.disk.names import LOG, PARTITION_METADATA, TopicPartition, check_name, parse_partition, parse_segment_file
from tidelog.disk.partition_metadata import read_metadata
from tidelog.errors import CorruptFileError, InvalidConfigError, InvalidTopicError
from tidelog.store.cluster_metadata import DescribedTopic
from tidelog.store.directories import has_content
from tidelog.store.store_file import MAX_PARTITIONS, StoreFile, TopicEntry
from tidelog.store.topic_settings import keep_for_ever

_logger = logging.getLogger(__name__)
_KNOWN = {setting.name for setting in SETTINGS}


def new_file(disk: Disk, paths: Sequence[str]) -> StoreFile:
    """The file of a new store; topics that are found are adopted, and nothing is known of how they are set."""
    is_adopted = any(has_content(disk, path) for path in paths)
    return StoreFile(uuid4(), len(paths), is_adopted=is_adopted, topics=find_topics(disk, paths))


def with_found_topics(disk: Disk, paths: Sequence[str], content: StoreFile) -> StoreFile:
    """The file of a store with the topics that it does not know yet, and the partitions that a broker has added to those it knows."""
    gone = {topic.topic for topic in content.deleted if not topic.is_renamed}  # a crash has left these: they are about to be renamed
    topics = dict(content.topics)
    for name, found in find_topics(disk, paths).items():
        known = topics.get(name)
        if known is None and name not in gone:
            topics[name] = found
        elif known is not None and known.topic_id == found.topic_id and not {*found.partition_ids()} <= {*known.partition_ids()}:
            count = max(known.partitions, found.partitions)
            absent = set(range(count)) - {*known.partition_ids(), *found.partition_ids()}
            topics[name] = replace(known, partitions=count, absent=frozenset(absent))
    return content if topics == content.topics else replace(content, topics=topics, is_adopted=True)


def find_partitions(disk: Disk, path: str) -> list[TopicPartition]:
    """The partitions whose directories lie in a log directory, but for the brokers' own."""
    found = []
    for entry in disk.entries(path):
        partition = parse_partition(entry.name)
        if partition is None or not entry.is_directory or str(partition) != entry.name:
            continue  # "emails-00" is no partition of ours: as "emails-0" it would be made anew
        if partition.topic != CLUSTER_METADATA and partition.partition < MAX_PARTITIONS and _is_legal(partition.topic):
            found.append(partition)
    return found


def find_topics(disk: Disk, paths: Sequence[str]) -> dict[str, TopicEntry]:
    """The topics whose partition directories there are."""
    partitions: dict[str, set[int]] = {}
    ids: dict[str, UUID | None] = {}
    for partition, home in sorted((partition, path) for path in paths for partition in find_partitions(disk, path)):
        directory = f"{home}/{partition}"
        if not _is_log(disk, directory):
            continue
        partitions.setdefault(partition.topic, set()).add(partition.partition)
        if ids.get(partition.topic) is None:
            ids[partition.topic] = _topic_id(disk, directory)  # the first that has one: where they differ, the others fail
    return {topic: _adopted(ids[topic], found, max(found) + 1) for topic, found in sorted(partitions.items())}


def with_settings(content: StoreFile, described: Mapping[str, DescribedTopic], defaults: LogConfig) -> StoreFile:
    """The file with the settings that a broker has written down, for topics whose settings were not known.

    What a broker's own file of properties says is not known all the same: a topic that has no `retention.ms` of its own keeps its data. A
    topic of the same name with another id is another topic.
    """
    topics = dict(content.topics)
    for name, topic in described.items():
        entry = topics.get(name)
        if entry is None or entry.config is not None or entry.topic_id not in (None, topic.topic_id):
            continue
        valid, refused = valid_settings(topic.config, defaults)
        for setting, error in refused.items():
            _logger.warning("topic %s is not looked after until %s is given: %s", name, setting, error)
        if unknown := sorted(topic.config.keys() - _KNOWN):
            _logger.info("settings of topic %s that mean nothing here: %s", name, ", ".join(unknown))
        count = max(entry.partitions, topic.partitions)
        left_out = {setting: topic.config[setting] for setting in refused}
        adopted = _adopted(topic.topic_id, set(entry.partition_ids()), count)
        topics[name] = replace(adopted, config=keep_for_ever(valid, defaults), refused=left_out)
    return replace(content, topics=topics)


def valid_settings(given: Mapping[str, str], defaults: LogConfig) -> tuple[dict[str, str], dict[str, InvalidConfigError]]:
    """Of the settings that a broker has for a topic those that can be here, and what is wrong with the others.

    Names that mean nothing to a log are in neither. Of two that contradict each other the second by name is wrong.
    """
    own, refused = LogConfig.of(None), {}
    for name in sorted(given.keys() & _KNOWN):
        try:
            tried = own.with_changes({name: given[name]})
            defaults.with_changes(tried.overrides())
            own = tried
        except InvalidConfigError as error:
            refused[name] = error
    return own.overrides(), refused


def _adopted(topic_id: UUID | None, found: set[int], count: int) -> TopicEntry:
    return TopicEntry(topic_id, count, None, absent=frozenset(set(range(count)) - found))


def _is_legal(topic: str) -> bool:
    try:
        check_name(topic)
    except InvalidTopicError:
        return False
    return True


def _is_log(disk: Disk, directory: str) -> bool:
    """Whether it is more than a folder whose name ends in a number."""
    for name in disk.names(directory):
        parsed = parse_segment_file(name)
        if name == PARTITION_METADATA or (parsed is not None and parsed.kind == LOG):
            return True
    return False


def _topic_id(disk: Disk, directory: str) -> UUID | None:
    try:
        return read_metadata(disk, directory)
    except CorruptFileError:
        return None
