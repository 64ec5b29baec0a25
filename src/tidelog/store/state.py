"""What a store is while it is open. Its parts, topics, writers and tasks share one of these."""

import difflib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from weakref import WeakSet

from tidelog.compaction.states import Cleanings
from tidelog.config import LogConfig, StoreConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import TopicPartition
from tidelog.errors import ForkedError, LogClosedError, LogFailedError, LogNotFoundError, StorageError, TidelogError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.log.opening import Opening
from tidelog.store.cleaner_offsets import CleanerOffsets, cutting
from tidelog.store.groups.tables import PositionTables
from tidelog.store.store_file import StoreFile, TopicEntry
from tidelog.store.topic_settings import in_force
from tidelog.store.uncleanable import UncleanableTable


def _nobody(topic: str) -> None:
    """Nobody has positions yet."""


@dataclass(eq=False)
class StoreState:
    """Everything of a store that changes. `lock` is held for each change of topics; logs have locks of their own."""

    directories: list[LogDirectory]
    file: StoreFile
    config: StoreConfig
    clock: Callable[[], int]
    pool: FilePool
    random: Random
    homes: dict[TopicPartition, LogDirectory] = field(default_factory=dict)
    """In which log directory a partition lies."""
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    """Those that are open; of a topic whose settings are not known, those that were asked for."""
    failures: dict[TopicPartition, TidelogError] = field(default_factory=dict)
    """Partitions that could not be opened, and why. The others go on."""
    revision: int = 0
    """The highest that a file of the store may have: one that could not be written to all directories may be in some."""
    is_in_doubt: bool = False
    """Whether nobody knows which of two files the disk has."""
    writers: "WeakSet[Any]" = field(default_factory=WeakSet)
    """Those that may have something to write: they are closed before the logs are."""
    cleanings: Cleanings = field(default_factory=Cleanings)
    """Which logs are being compacted, and which must not be."""
    uncleanable: UncleanableTable = field(default_factory=UncleanableTable)
    """Logs that could not be compacted."""
    cleaner_offsets: CleanerOffsets = field(init=False)
    """How far each log was compacted."""
    position_tables: PositionTables = field(default_factory=PositionTables)
    """What was read of `__consumer_offsets`."""
    forget_positions: Callable[[str], object] = field(default=_nobody)
    """Takes back the positions that groups have in a topic: groups stand above topics, whose deletion asks for it."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_closed: bool = False
    pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.cleaner_offsets = CleanerOffsets(self.disk)

    @property
    def disk(self) -> Disk:
        """The only way to files."""
        return self.pool.disk

    @property
    def paths(self) -> list[str]:
        """Of the log directories."""
        return [directory.path for directory in self.directories]

    def check(self) -> None:
        """Raise if the store cannot be used: closed, or opened before a fork."""
        if self.pid != os.getpid():
            raise ForkedError(
                "opened before this process was forked", path=self.paths[0], hint="open it in the child, when the parent is done"
            )
        if self.is_closed:
            raise LogClosedError("the store is closed", path=self.paths[0])

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock, of a store that can be used."""
        self.check()
        with self.lock:
            self.check()
            yield

    def entry(self, topic: object) -> TopicEntry:
        """What is written down about a topic."""
        self.check()
        entry = self.file.topics.get(topic) if isinstance(topic, str) else None
        if entry is None:
            raise self._unknown(topic)
        return entry

    def _unknown(self, topic: object) -> UnknownTopicError:
        names = sorted(self.file.topics)
        if close := difflib.get_close_matches(str(topic), names):
            hint = f"did you mean {' or '.join(close)}?"
        else:
            hint = f"there are: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}" if names else "there are none yet"
        return UnknownTopicError(f"no topic {topic!r}", path=self.paths[0], hint=hint)

    def log_config(self, entry: TopicEntry) -> LogConfig:
        """The settings in force for a topic: its own, and the store's for the rest."""
        return in_force(entry.config, self.config.topic_defaults)

    def log(self, partition: TopicPartition) -> Log:
        """An open log; one that could not be opened raises why. One that somebody has closed is opened again."""
        log = self.logs.get(partition)
        if log is not None and not log.is_closed and not self.is_closed and self.pid == os.getpid():
            return log
        with self.changing():
            entry = self.entry(partition.topic)
            self._check_partition(partition, entry)
            log = self.logs.get(partition)
            if log is None or log.is_closed:
                self.raise_failure(partition)
                log = self.logs[partition] = self.open_log(partition, entry)
                self.failures.pop(partition, None)
            return log

    def _check_partition(self, partition: TopicPartition, entry: TopicEntry) -> None:
        number = partition.partition
        if type(number) is int and 0 <= number < entry.partitions and number not in entry.absent:
            return
        raise UnknownTopicError(
            f"no partition {number!r} of topic {partition.topic!r}",
            path=self.paths[0],
            expected=f"0 to {entry.partitions - 1}" + (f", but for {', '.join(map(str, sorted(entry.absent)))}" if entry.absent else ""),
            found=repr(number),
            hint="partitions are counted from 0",
        )

    def raise_failure(self, partition: TopicPartition) -> None:
        """What the operating system has refused is tried again, as on a disk that was full. Damage stays."""
        failure = self.failures.get(partition)
        if failure is not None and (isinstance(failure, LogFailedError) or not isinstance(failure, StorageError)):
            raise failure.with_traceback(None)

    def open_log(self, partition: TopicPartition, entry: TopicEntry) -> Log:
        """Open the directory of a partition."""
        home = self.homes.get(partition)
        if home is None:
            raise LogNotFoundError(
                "the directory of a partition is missing",
                path=f"{self.paths[0]}/{partition}",
                hint="put it back and open the store again, or delete the topic",
            )
        path = f"{home.path}/{partition}"
        if os.path.realpath(path) != path:
            raise LogNotFoundError(
                "a link in place of a partition's directory", path=path, hint="give the store the log directory that it leads to"
            )
        opening = Opening(
            path,
            self.log_config(entry),
            self.clock,
            self.pool,
            is_kafka_mode=False,
            was_clean=None,
            recovery_point=None,
            log_start_offset=None,
            topic_id=entry.topic_id,
            producer_expiration_ms=self.config.producer_id_expiration_ms,
            workers=1,
            progress=None,
            random=Random(self.random.getrandbits(64)),  # noqa: S311
            held=home,
        )
        log = Log(*opening.open())
        try:
            offset = self.cleaner_offset(partition)
            if offset is not None and offset > log.log_end_offset:  # lost with its end: what is appended there is not clean
                self.checkpoint_cleaner(partition, log.log_start_offset)
        except BaseException:  # an interrupt too: nobody else would ever close it
            log.close()
            raise
        log.while_cut = partial(cutting, self.cleanings, self.cleaner_offsets, home.path, partition)
        return log

    def cleaner_offset(self, partition: TopicPartition) -> int | None:
        """Up to where a log was compacted; None if nothing says so."""
        home = self.homes.get(partition)
        return None if home is None else self.cleaner_offsets.get(home.path, partition)

    def checkpoint_cleaner(self, partition: TopicPartition, offset: int) -> None:
        """Write down up to where a log was compacted."""
        home = self.homes.get(partition)
        if home is not None:  # otherwise its topic was deleted meanwhile
            self.cleaner_offsets.set(home.path, partition, offset, lambda other: self.homes.get(other) is home)
