"""Open a store: lock, read its file, finish what a crash has interrupted, and load the logs, several at a time."""

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Literal, NamedTuple
from uuid import UUID

from tidelog.config import StoreConfig
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import DamagedLogError, InvalidConfigError, StorageError, TidelogError
from tidelog.log.storage_errors import storage_error
from tidelog.store.adopting import find_partitions, new_file, with_found_topics, with_settings
from tidelog.store.cluster_metadata import read_cluster_metadata
from tidelog.store.directories import bring_up_to_date, check_directories, hold_all, resolve_paths
from tidelog.store.file_changes import write, write_next
from tidelog.store.groups.expiring import forget_topic
from tidelog.store.state import StoreState
from tidelog.store.store_file import StoreFile
from tidelog.store.topic_changes import complete
from tidelog.store.topic_deletion import settle_deleted

_logger = logging.getLogger(__name__)
_NO_ID = UUID(int=0)
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Adopt = bool | Literal["cluster-metadata"]
"""Whether to take what somebody else has made: no, yes, or yes with the settings that a broker has written down."""


class LoadProgress(NamedTuple):
    """How far a store is loaded; given to a callback after each log."""

    partition: TopicPartition
    logs_done: int
    logs: int


def load(
    paths: Paths,
    config: Mapping[str, object] | StoreConfig | None,
    clock: Callable[[], int],
    pool: FilePool,
    random: Random,
    *,
    adopt: Adopt,
    lock_timeout_s: float,
    progress: Callable[[LoadProgress], None] | None,
    only: Collection[TopicPartition] | None = None,
) -> StoreState:
    """The state of a store that this process owns from now on.

    With `only`, for somebody who comes for a moment, no other partition is opened before it is asked for. But what was not closed in order
    is opened whole: a crash may have left something to finish anywhere.
    """
    if adopt not in (True, False, "cluster-metadata"):
        raise ValueError(f"adopt must be True, False or 'cluster-metadata', not {adopt!r}")
    settings = StoreConfig.of(config)
    check_clock(clock)
    resolved = resolve_paths(paths)
    disk = pool.disk
    check_directories(disk, resolved, adopt=bool(adopt))
    state = StoreState([], StoreFile(_NO_ID), settings, clock, pool, random)
    state.forget_positions = partial(forget_topic, state)
    try:
        state.directories = directories = hold_all(disk, resolved, lock_timeout_s)
        # Again: it may have been somebody else's a moment ago.
        _read_file(state, check_directories(disk, state.paths, adopt=bool(adopt)), adopt)
        _finish(state)
        _load_logs(state, progress, only if all(directory.was_closed_in_order for directory in directories) else None)
    except BaseException as error:  # an interrupt too: nobody else would give the directories back
        state.is_closed = True
        with suppress(TidelogError):  # the first error is the one to tell
            close_logs(state)
        if isinstance(error, OSError) and not isinstance(error, TidelogError):
            raise storage_error(error, resolved[0], "opening the store failed") from error
        raise
    return state


def check_clock(clock: Callable[[], object]) -> None:
    """Raise unless a clock gives whole milliseconds. Others would get into the store's file, which could not be read any more."""
    found = clock()
    if not isinstance(found, int):
        raise InvalidConfigError(
            "a clock that does not give whole milliseconds", expected="an int", found=repr(found), hint="int(time.time() * 1000)"
        )


def _read_file(state: StoreState, found: StoreFile | None, adopt: Adopt) -> None:
    """Know what the file says. It is written only where that is another thing than before."""
    disk, paths = state.disk, state.paths
    content = new_file(disk, paths) if found is None else found
    if adopt and found is not None:
        content = with_found_topics(disk, paths, found)
    if adopt == "cluster-metadata":
        content = with_settings(content, read_cluster_metadata(disk, paths), state.config.topic_defaults)
    state.revision = content.revision
    if found is None:
        write_next(state, content)
        return
    state.file = found
    bring_up_to_date(disk, paths, found)
    if content != found:
        write(state, content)


def _finish(state: StoreState) -> None:
    """Find the partitions, and do what a crash has left to do about topics. What cannot be done yet is left for later."""
    for directory in state.directories:
        for partition in find_partitions(state.disk, directory.path):
            other = state.homes.setdefault(partition, directory)
            if other is not directory:
                state.failures[partition] = DamagedLogError(
                    "a partition in two log directories",
                    path=f"{directory.path}/{partition}",
                    expected="one directory",
                    found=f"{other.path}/{partition} too",
                    hint="close the store, and move the one away that is not the right one",
                )
    try:
        settle_deleted(state)
    except StorageError as error:
        _logger.warning("directories of deleted topics could not be renamed yet: %s", error)
    _find_lazy(state)
    for name in [name for name, entry in state.file.topics.items() if entry.is_incomplete]:
        try:
            complete(state, name)
        except TidelogError as error:
            _logger.warning("topic %s, whose creation was cut off, could not be completed yet: %s", name, error)


def _find_lazy(state: StoreState) -> None:
    """Partitions that are made when they are first used: a broker that had the directory meanwhile may have made some."""
    here = {
        name: frozenset(number for number in entry.absent if TopicPartition(name, number) in state.homes)
        for name, entry in state.file.topics.items()
        if entry.is_lazy
    }
    if any(here.values()):
        topics = {name: replace(entry, absent=entry.absent - here.get(name, frozenset())) for name, entry in state.file.topics.items()}
        write(state, replace(state.file, topics=topics))


def _load_logs(state: StoreState, progress: Callable[[LoadProgress], None] | None, only: Collection[TopicPartition] | None = None) -> None:
    """Those of topics whose settings are known, or some of them. The others are left as they are until somebody asks for them."""
    wanted = [
        partition
        for name, entry in sorted(state.file.topics.items())
        if entry.is_set
        for partition in (TopicPartition(name, number) for number in entry.partition_ids())
        if partition not in state.logs and partition not in state.failures and (only is None or partition in only)
    ]
    workers = max(1, min(len(wanted), state.config.num_recovery_threads_per_data_dir * len(state.directories)))
    with ThreadPoolExecutor(workers, "tidelog-load") as executor:
        tasks = {executor.submit(_load, state, partition): partition for partition in wanted}
        try:
            for done, task in enumerate(as_completed(tasks), 1):
                error, partition = task.result(), tasks[task]
                if error is not None:
                    state.failures[partition] = error
                    _logger.warning("partition %s could not be opened: %s", partition, error)
                if progress is not None:
                    progress(LoadProgress(partition, done, len(wanted)))
        except BaseException:  # an interrupt too: the rest need not be loaded
            executor.shutdown(wait=True, cancel_futures=True)
            raise


def _load(state: StoreState, partition: TopicPartition) -> TidelogError | None:
    """Open one log. What is wrong with it is kept for who asks for it: the others go on."""
    try:
        log = state.logs[partition] = state.open_log(partition, state.file.topics[partition.topic])
        if state.is_closed:  # by an interrupt, of which this thread was not told: one that comes while it is started leaves it to itself
            log.close()
    except TidelogError as error:
        return error
    return None


def close_logs(state: StoreState) -> None:
    """Close every log and let the directories go; the first error is raised when all is done."""
    first: BaseException | None = None
    workers = max(1, state.config.num_recovery_threads_per_data_dir * len(state.directories))
    try:
        with ThreadPoolExecutor(workers, "tidelog-close") as executor:
            for closing in [executor.submit(log.close) for log in list(state.logs.values())]:
                first = first or closing.exception()
    except BaseException:  # an interrupt: nobody else would close the others
        for log in list(state.logs.values()):
            with suppress(Exception):
                log.close()
        raise
    finally:
        for directory in state.directories:
            try:
                directory.let_go()
            except OSError as error:
                first = first or storage_error(error, directory.path, "letting go of the log directory failed")
    if first is not None:
        raise first
