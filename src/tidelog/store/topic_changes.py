"""Create and alter topics, so that a crash at any point leaves the old state, the new one, or what opening finishes.

create    written down as incomplete · directories made · written down as complete
          (those of a topic that Kafka keeps for itself: each when it is first used)
alter     written down · logs go on with it

A creation that fails is undone. Deletion is in `topic_deletion`.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from tidelog.config import LogConfig
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import TopicPartition, check_name, parse_partition
from tidelog.errors import InvalidTopicError, LogClosedError, StorageError, TidelogError, TopicExistsError
from tidelog.log.storage_errors import typed_refusals
from tidelog.store.file_changes import write
from tidelog.store.internal_topics import INTERNAL
from tidelog.store.state import StoreState
from tidelog.store.store_file import MAX_PARTITIONS, StoreFile, TopicEntry
from tidelog.store.topic_deletion import forget_offsets, settle_deleted, strike_out
from tidelog.store.topic_names import check_new_name, check_topic_id, new_topic_id
from tidelog.store.topic_settings import keep_for_ever

_logger = logging.getLogger(__name__)


def create(
    state: StoreState,
    name: str,
    partitions: int | None,
    config: Mapping[str, object] | LogConfig | None,
    topic_id: UUID | None,
    *,
    exist_ok: bool = False,
) -> None:
    """Create a topic. One that is there is an error, or fine as it is."""
    with state.changing():
        check_name(name)
        if state.is_in_doubt:
            write(state, state.file)
        there = state.file.topics.get(name)
        if there is not None:
            if there.is_incomplete:
                complete(state, name)  # what was left of a creation that has failed, or was cut off
                asked = new_entry(state, name, partitions, config, None)
                if (asked.partitions, asked.config) == (there.partitions, there.config) and topic_id in (None, there.topic_id):
                    return  # it was told that there is none: asked for again, it is this one
            if exist_ok:
                return
            raise TopicExistsError(f"topic {name!r} is there already", path=state.paths[0], hint="exist_ok=True takes it as it is")
        entry = new_entry(state, name, partitions, config, topic_id)
        settle_deleted(state)  # an older topic of this name may still have its directories
        check_free(state, name)
        try:
            write(state, with_topic(state.file, name, entry))
            complete(state, name)
        except BaseException:  # an interrupt too: who was told of no topic must find none
            if name in state.file.topics:
                with contextlib.suppress(StorageError):  # the first error is the one to tell
                    strike_out(state, name, state.clock())
                    settle_deleted(state, keep_positions=True)  # which are of another store's topic, if there are any
            raise


def new_entry(
    state: StoreState, name: str, partitions: int | None, config: Mapping[str, object] | LogConfig | None, topic_id: UUID | None
) -> TopicEntry:
    """What a new topic writes down, if everything about it is right."""
    topics = state.file.topics
    check_new_name(name, topics)
    internal = INTERNAL.get(name)
    given = LogConfig.of(config)
    if internal is not None:
        given = LogConfig.of(internal.config(state.config)).with_changes(given.overrides())
    default = state.config.num_partitions if internal is None else internal.partitions(state.config)
    count = default if partitions is None else partitions
    if type(count) is not int or not 1 <= count <= MAX_PARTITIONS:
        raise InvalidTopicError(
            "a number of partitions that cannot be",
            expected=f"1 to {MAX_PARTITIONS}",
            found=repr(count),
            hint="a topic has one partition at least, and few have more than some hundred",
        )
    chosen = new_topic_id() if topic_id is None else check_topic_id(topic_id, [entry.topic_id for entry in topics.values()])
    settings = keep_for_ever(given.overrides(), state.config.topic_defaults)
    if internal is None:
        entry = TopicEntry(chosen, count, settings, is_incomplete=True)
    else:
        entry = TopicEntry(chosen, count, settings, absent=frozenset(range(count)), is_lazy=True)
    state.log_config(entry)  # settings that contradict the store's
    return entry


def check_free(state: StoreState, name: str) -> None:
    """A directory that nobody has written down is somebody's, and not to be appended to."""
    for directory in state.directories:
        with typed_refusals(directory.path, "looking for directories of the topic's name failed"):
            there = list(state.disk.names(directory.path))
        for other in there:
            partition = parse_partition(other)
            if partition is not None and partition.topic == name:
                raise TopicExistsError(
                    "a directory has the name of the topic's", path=f"{directory.path}/{other}", hint="adopt=True takes in what is there"
                )


def complete(state: StoreState, name: str) -> None:
    """Make the directories of a topic that are not there yet."""
    entry = state.file.topics[name]
    for partition in (TopicPartition(name, number) for number in entry.partition_ids()):
        if partition in state.logs:
            continue
        try:
            state.raise_failure(partition)
            if partition not in state.homes:
                forget_offsets(state, partition)
                state.homes[partition] = emptiest(state)
            state.logs[partition] = state.open_log(partition, entry)
        except TidelogError as error:
            # Where partitions are made one by one, one that is damaged or missing stops none of the others: who asks for it is told.
            if not entry.is_lazy or not (error is state.failures.get(partition) or _has_directory(state, partition)):
                raise
            state.failures[partition] = error
            _logger.warning("partition %s could not be opened: %s", partition, error)
    write(state, with_topic(state.file, name, replace(entry, is_incomplete=False)))


def _has_directory(state: StoreState, partition: TopicPartition) -> bool:
    """Whether it was made already. Otherwise the topic is not complete."""
    home = state.homes.get(partition)
    try:
        return home is not None and str(partition) in state.disk.names(home.path)
    except OSError:
        return False


def with_topic(file: StoreFile, name: str, entry: TopicEntry) -> StoreFile:
    """The file with another entry of a topic."""
    return replace(file, topics={**file.topics, name: entry})


def emptiest(state: StoreState) -> LogDirectory:
    """The log directory with the fewest partitions, the first of several: as Kafka places them."""
    counts = {id(directory): 0 for directory in state.directories}
    for home in state.homes.values():
        counts[id(home)] += 1
    return min(state.directories, key=lambda directory: counts[id(directory)])


def alter(state: StoreState, name: str, config: Mapping[str, object], reset: Iterable[str]) -> None:
    """Change settings of a topic, live; those named by `reset` are as if never given. One that was refused is settled by naming it."""
    back = [reset] if isinstance(reset, str) else list(reset)
    with state.changing():
        entry = state.entry(name)
        own = LogConfig.of(entry.config or {}).with_changes(config, reset=back).overrides()
        if entry.config is None and "retention.ms" not in back:
            own = keep_for_ever(own, state.config.topic_defaults)  # nobody has said yet that something may go
        refused = {setting: value for setting, value in entry.refused.items() if setting not in config and setting not in back}
        changed = replace(entry, config=own, refused=refused)
        in_force = state.log_config(changed)
        if changed != entry:
            write(state, with_topic(state.file, name, changed))
        _reconfigure(state, name, in_force)
        if changed.is_set and not entry.is_set:
            _open_logs(state, name, changed)
    for partition in (TopicPartition(name, number) for number in entry.partition_ids()):
        state.uncleanable.clear(partition)  # what was wrong may be different now
        if not in_force.is_compacted:
            state.cleanings.abort(partition)  # not under the lock, which the cleaner may want


def _reconfigure(state: StoreState, name: str, config: LogConfig) -> None:
    """Let the logs of a topic go on with other settings; the first error is raised when all have them."""
    first: StorageError | None = None
    for partition, log in state.logs.items():
        if partition.topic == name:
            try:
                log.reconfigure(config)
            except LogClosedError:
                pass  # by hand; it takes the settings when it is opened again
            except StorageError as error:  # so does one that has failed; of another the disk has refused what stricter flushing asks for
                first = first or error
    if first is not None:
        raise first


def _open_logs(state: StoreState, name: str, entry: TopicEntry) -> None:
    """Open the logs of a topic that is looked after from now on."""
    for partition in (TopicPartition(name, number) for number in entry.partition_ids()):
        if partition not in state.logs and partition not in state.failures:
            try:
                state.logs[partition] = state.open_log(partition, entry)
            except TidelogError as error:
                state.failures[partition] = error
