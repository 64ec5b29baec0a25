"""Delete topics, so that a crash at any point leaves the topic, or what opening finishes.

    struck out, with the suffix that its directories get
    directories renamed, the positions of groups taken back, and that written down: what has the old name from here on is not the topic's
    directories removed, when it is time, and the topic forgotten

A deletion is done when it is written down; what is left to rename or remove then is tried again later.
"""

import contextlib
import logging
from dataclasses import replace
from uuid import uuid4

from tidelog.disk.names import TopicPartition, deleted_directory
from tidelog.errors import InvalidConfigError, LogFailedError, StorageError
from tidelog.log.storage_errors import storage_error
from tidelog.store.file_changes import write
from tidelog.store.state import StoreState
from tidelog.store.store_file import DeletedTopic

_logger = logging.getLogger(__name__)


def delete(state: StoreState, name: str) -> None:
    """Delete a topic: its directories are renamed now, and removed later. A compaction of it that runs is aborted."""
    partitions = [TopicPartition(name, number) for number in state.entry(name).partition_ids()]
    with state.cleanings.keeping_off(partitions), state.changing():
        entry = state.entry(name)
        try:
            delay_ms = state.log_config(entry).file_delete_delay_ms
        except InvalidConfigError:  # a file that was edited: all the more reason to get rid of it
            delay_ms = state.config.topic_defaults.file_delete_delay_ms
        strike_out(state, name, state.clock() + delay_ms)
        try:
            settle_deleted(state)
        except StorageError as error:
            _logger.warning("topic %s is deleted, but its directories could not be renamed yet: %s", name, error)
        for partition in partitions:
            state.uncleanable.clear(partition)


def strike_out(state: StoreState, name: str, due_ms: int) -> None:
    """Write down that a topic is gone, and close its logs. If that fails, it goes on as it was."""
    gone = DeletedTopic(name, state.file.topics[name].partitions, uuid4().hex, due_ms)
    topics = {topic: entry for topic, entry in state.file.topics.items() if topic != name}
    try:
        write(state, replace(state.file, topics=topics, deleted=(*state.file.deleted, gone)))
    except BaseException as error:  # an interrupt too
        if state.is_in_doubt:
            _stop(state, name, error)
        elif name not in state.file.topics:
            _close_logs(state, name)  # the interrupt came right behind it: it is written down
        raise
    _close_logs(state, name)


def _stop(state: StoreState, name: str, error: BaseException) -> None:
    """Nobody knows whether the file has the topic or not: nothing may be appended that would be gone with it."""
    for number in state.file.topics[name].partition_ids():
        failure = LogFailedError(
            f"deleting the topic has failed half-way: {str(error) or type(error).__name__}",
            path=state.paths[0],
            hint="delete it again, or close the store and open it",
        )
        state.failures[TopicPartition(name, number)] = failure
    _close_logs(state, name)


def _close_logs(state: StoreState, name: str) -> None:
    first: BaseException | None = None
    for partition in [partition for partition in state.logs if partition.topic == name]:
        log = state.logs.pop(partition)
        try:
            log.close()
        except StorageError:
            pass  # what could not be flushed is of no use any more
        except BaseException as error:  # an interrupt: nothing may be appended to this one, nor to the others
            first = first or error
            with contextlib.suppress(Exception):
                log.close()
    if first is not None:
        raise first


def settle_deleted(state: StoreState, *, keep_positions: bool = False) -> None:
    """Rename the directories of topics that are gone, those that are not renamed yet, and take back the positions in them.

    Not before the deletion is decided, which may fail; and before it is written down as done, so that a crash in between does it again: a
    group must not begin in a new topic of the name where it was in the old one. With `keep_positions` it is about a topic that never was.
    """
    if all(gone.is_renamed for gone in state.file.deleted):
        return
    for gone in state.file.deleted:
        if not gone.is_renamed:
            _close_logs(state, gone.topic)  # an interrupt may have come before
            _rename(state, gone)
            if not keep_positions:
                state.forget_positions(gone.topic)
    write(state, replace(state.file, deleted=tuple(replace(gone, is_renamed=True) for gone in state.file.deleted)))


def _rename(state: StoreState, gone: DeletedTopic) -> None:
    disk = state.disk
    partitions = [TopicPartition(gone.topic, number) for number in range(gone.partitions)]
    for directory in state.directories:
        try:
            there = set(disk.names(directory.path))
            for partition in partitions:
                if str(partition) in there:
                    disk.rename(f"{directory.path}/{partition}", f"{directory.path}/{deleted_directory(partition, gone.suffix)}")
            disk.sync_directory(directory.path)
        except OSError as error:
            raise storage_error(error, directory.path, f"renaming the directories of {gone.topic} failed") from error
    for partition in partitions:
        forget_offsets(state, partition)
        state.homes.pop(partition, None)
        state.failures.pop(partition, None)


def forget_offsets(state: StoreState, partition: TopicPartition) -> None:
    """Take a partition out of the checkpoints: a new topic of the same name must not begin with an old one's offsets."""
    for directory in state.directories:
        try:
            directory.partition_removed(partition)
            state.cleaner_offsets.forget(directory.path, partition)
        except OSError as error:
            raise storage_error(error, directory.path, f"taking {partition} out of the checkpoints failed") from error


def remove_due(state: StoreState) -> int:
    """Remove the directories of deleted topics whose time has come: how many topics. What cannot be removed does not hold up the rest."""
    with state.changing():
        settle_deleted(state)
        now_ms = state.clock()
        first: StorageError | None = None
        removed: list[DeletedTopic] = []
        for gone in state.file.deleted:
            if gone.due_ms > now_ms:
                continue
            try:
                _remove(state, gone)
                removed.append(gone)
                _logger.info("removed the directories of topic %s, which was deleted", gone.topic)
            except OSError as error:
                first = first or storage_error(error, state.paths[0], f"removing the directories of {gone.topic} failed")
        if removed:
            write(state, replace(state.file, deleted=tuple(gone for gone in state.file.deleted if gone not in removed)))
        if first is not None:
            raise first
        return len(removed)


def _remove(state: StoreState, gone: DeletedTopic) -> None:
    for directory in state.directories:
        there = set(state.disk.names(directory.path))
        for number in range(gone.partitions):
            name = deleted_directory(TopicPartition(gone.topic, number), gone.suffix)
            if name in there:
                state.disk.remove_tree(f"{directory.path}/{name}")
