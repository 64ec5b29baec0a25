"""Look after directories that are no store: a broker's that is stopped, or a backup. Log by log, by settings that somebody vouches for.

Nothing is adopted, and no `tidelog.json` is left there: whoever has the directory next, a broker above all, finds logs that were rolled,
cleaned and deleted from as it would have done itself. Each log is opened by itself, which takes the lock of the directory, and is closed in
order. What is deleted is removed at once: nobody of ours comes back for it.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.hooks import Hooks
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import plan_cleaning
from tidelog.compaction.results import CompactFailure, CompactResult, PartitionCompacted, gather
from tidelog.compaction.throttler import Throttler
from tidelog.config import StoreConfig
from tidelog.disk.disk import OS, Disk
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import TopicPartition, parse_partition
from tidelog.errors import LockedError, LogNotFoundError, TidelogError
from tidelog.log import storage_errors
from tidelog.log.log import Log
from tidelog.retention import delete_old_segments
from tidelog.retention.trimming import Trimmed, trim
from tidelog.store.cleaner_offsets import CleanerOffsets
from tidelog.store.cleaning_passes import map_memory
from tidelog.store.compacting import not_compacted, tell, why_nothing
from tidelog.store.read_only_settings import FoundSettings
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.retaining import PartitionDeleted, RetentionFailure, RetentionResult

_log = logging.getLogger("tidelog")


class KnownLog(NamedTuple):
    """A log of a directory that is no store, and how it is set."""

    partition: TopicPartition
    home: str
    """The log directory."""
    settings: FoundSettings

    @property
    def directory(self) -> str:
        """Where it lies."""
        return f"{self.home}/{self.partition}"


def known_logs(store: ReadOnlyStore, topic: str | None, only: Collection[int] | None = None) -> list[KnownLog]:
    """The logs of a topic, or of all, that are here; `only` chooses partitions."""
    found = []
    for name in [one.name for one in store.topics()] if topic is None else [topic]:
        settings, there = store.settings(name), store.found_topic(name)
        for number, homes in sorted(there.homes.items()):
            if only is None or number in only:
                found += [KnownLog(TopicPartition(name, number), home, settings) for home in homes]
    return found


def retain_logs(logs: Collection[KnownLog], clock: Callable[[], int], *, pool: FilePool = SHARED) -> RetentionResult:
    """One round of retention over some logs, by the settings that are known of each."""
    deleted: list[PartitionDeleted] = []
    failures: list[RetentionFailure] = []
    for known in logs:
        try:
            if known.settings.left_alone is None:
                with opened(known, clock, pool) as log:
                    for one in delete_old_segments(log, clock()):
                        deleted.append(PartitionDeleted(log.partition, *one))
                        _log.info("deleted from %s", deleted[-1])
        except LockedError:
            raise  # somebody has come meanwhile: it is theirs
        except TidelogError as error:
            failures.append(RetentionFailure(known.partition, error))
    left_alone = tuple((known.partition, known.settings.left_alone) for known in logs if known.settings.left_alone is not None)
    return RetentionResult(clock(), tuple(deleted), left_alone, tuple(failures))


def trim_log(known: KnownLog, offset: int, clock: Callable[[], int], *, pool: FilePool = SHARED) -> Trimmed:
    """Delete what lies below an offset of one log."""
    with opened(known, clock, pool) as log:
        return trim(log, offset)


def compact_logs(
    logs: Collection[KnownLog],
    config: StoreConfig,
    clock: Callable[[], int],
    *,
    roll: bool = False,
    drop_null_keys: bool = False,
    pool: FilePool = SHARED,
) -> CompactResult:
    """Compact some logs now, by the settings that are known of each; see `Store.compact`."""
    found: list[PartitionCompacted | CompactFailure | tuple[TopicPartition, str]] = []
    for known in logs:
        if known.settings.left_alone is not None:
            found.append((known.partition, known.settings.left_alone))
            continue
        if not known.settings.config.is_compacted:
            found.append(PartitionCompacted(known.partition, (), not_compacted(known.settings.config.cleanup_policy)))
            continue
        try:
            with opened(known, clock, pool) as log:
                found.append(tell(_compact(log, known, config, roll=roll, drop_null_keys=drop_null_keys)))
        except LockedError:
            raise
        except TidelogError as error:
            found.append(CompactFailure(known.partition, error))
    return gather(clock(), dry_run=False, found=found)


@contextmanager
def opened(known: KnownLog, clock: Callable[[], int], pool: FilePool = SHARED) -> Iterator[Log]:
    """A log to be changed. Behind a link lies what is somebody else's."""
    path = known.directory
    if os.path.realpath(path) != path:
        raise LogNotFoundError("a link in place of a partition's directory", path=path, hint="name the directory that it leads to")
    with Log.open(path, config=known.settings.config, clock=clock, pool=pool) as log:
        yield log
        log.remove_deleted(at_once=True)


def _compact(log: Log, known: KnownLog, config: StoreConfig, *, roll: bool, drop_null_keys: bool) -> PartitionCompacted:
    disk, clock = log._state.pool.disk, log._state.clock
    offsets = CleanerOffsets(disk)
    if roll and log.segments[-1].size_bytes:
        log.roll()
    throttler, room = Throttler(config.log_cleaner_io_max_bytes_per_second), partial(check_space, log.directory, disk=disk)
    done: list[CleanedLog] = []
    plan = plan_cleaning(log, log.config, offsets.get(known.home, log.partition), clock())
    while not plan.is_empty:
        offset_map = OffsetMap(map_memory(config, plan), config.log_cleaner_io_buffer_load_factor)
        hooks = Hooks(throttle=throttler.throttle, check_space=room)
        done.append(clean_log(log, plan, offset_map, plan.now_ms, hooks=hooks, drop_null_keys=drop_null_keys))
        here = _partitions_in(disk, known.home)
        offsets.set(known.home, log.partition, done[-1].next_dirty_offset, here.__contains__)
        log.remove_deleted(at_once=True)
        plan = plan_cleaning(log, log.config, done[-1].next_dirty_offset, clock())
    return PartitionCompacted(log.partition, tuple(done), None if done else why_nothing(log, plan, can_roll=True))


def check_space(path: str, size_bytes: int, *, disk: Disk = OS) -> None:
    """Raise if so many bytes do not fit beside a path."""
    storage_errors.check_space(disk, path, size_bytes)


def _partitions_in(disk: Disk, home: str) -> set[TopicPartition]:
    """A checkpoint keeps those that are here, whoever's they are."""
    return {found for name in disk.names(home) if (found := parse_partition(name)) is not None}
