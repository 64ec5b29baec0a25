"""The logs of the topics that Kafka keeps for itself.

A topic is written down when it is first used, with all of its partitions as absent; the directory of a partition is made when an id of it
is first used, not fifty at once.
"""

from dataclasses import replace

from tidelog.disk.names import TopicPartition
from tidelog.errors import LogNotFoundError
from tidelog.log.log import Log
from tidelog.store.file_changes import write
from tidelog.store.internal_topics import InternalTopic, partition_of_id
from tidelog.store.state import StoreState
from tidelog.store.store_file import TopicEntry
from tidelog.store.topic_changes import check_free, complete, new_entry, with_topic
from tidelog.store.topic_deletion import settle_deleted


def internal_log(state: StoreState, topic: InternalTopic, owner_id: str) -> Log:
    """The log that an id belongs to. Topic and directory are made if need be."""
    log = existing_log(state, topic, owner_id)
    entry = state.file.topics.get(topic.name)
    if log is not None and entry is not None and not entry.is_incomplete:
        return log
    with state.changing():
        entry = state.file.topics.get(topic.name)
        if entry is None:
            entry = new_entry(state, topic.name, None, None, None)
            settle_deleted(state)
            check_free(state, topic.name)
        number = partition_of_id(owner_id, entry.partitions)
        if number in entry.absent:
            if not entry.is_lazy:
                raise LogNotFoundError(
                    "the partition is not here: another broker has it",
                    path=f"{state.paths[0]}/{TopicPartition(topic.name, number)}",
                    hint="open the directories of all brokers together; positions can be kept in another store",
                )
            # Written down as incomplete first, as a topic that is created: after a crash, opening makes the directory.
            entry = replace(entry, absent=entry.absent - {number}, is_incomplete=True)
            write(state, with_topic(state.file, topic.name, entry))
        if entry.is_incomplete:
            complete(state, topic.name)
        return state.log(TopicPartition(topic.name, number))


def existing_log(state: StoreState, topic: InternalTopic, owner_id: str) -> Log | None:
    """The log that an id belongs to, if there is one yet: nothing is made."""
    entry = state.file.topics.get(topic.name)
    if entry is None:
        return None
    number = partition_of_id(owner_id, entry.partitions)
    return state.log(TopicPartition(topic.name, number)) if number in existing_partitions(state, topic, entry) else None


def existing_partitions(state: StoreState, topic: InternalTopic, entry: TopicEntry) -> list[int]:
    """Those that have a directory. While that of one is being made, the others are there as ever."""
    numbers = entry.partition_ids()
    return numbers if not entry.is_incomplete else [number for number in numbers if TopicPartition(topic.name, number) in state.homes]
