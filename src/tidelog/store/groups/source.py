"""What groups need to know of a store, whether it is this process's own or only read."""

import logging
import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from tidelog.config import StoreConfig
from tidelog.disk.names import TopicPartition
from tidelog.errors import ForkedError, ReadOnlyStoreError, TidelogError
from tidelog.log.log_reading import LogReading
from tidelog.log.read_only import ReadOnlyLog
from tidelog.store.groups.tables import PositionTables
from tidelog.store.internal_logs import existing_partitions
from tidelog.store.internal_topics import OFFSETS, partition_of_id
from tidelog.store.read_only_topics import DIRECTORIES, FoundTopic, TopicFacts
from tidelog.store.state import StoreState
from tidelog.store.store_file import TopicEntry

_logger = logging.getLogger(__name__)


class Source(Protocol):
    """A store, as groups see it."""

    paths: list[str]
    config: StoreConfig
    tables: PositionTables

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""

    def check(self) -> None:
        """Raise if it cannot be used."""

    def now_ms(self) -> int:
        """The time by its clock."""

    def look(self, topic: str, *, again: bool) -> tuple[Hashable, list[int]]:
        """What tells a topic from a later one of the same name, and its partitions that are here. Unless `again`, as last seen.

        The same object as long as nothing has changed.
        """

    def log(self, partition: TopicPartition) -> LogReading:
        """The log of a partition."""

    def offsets_logs(self, group: str | None) -> Mapping[int, LogReading]:
        """The logs that may have positions of a group, or of any, by partition of `__consumer_offsets`. Nothing is made."""

    def owned(self) -> StoreState:
        """The inside of a store that can be written to; one that is only read raises."""


class OwnedSource:
    """A store of this process."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self.paths = state.paths
        self.config = state.config
        self.tables = state.position_tables
        self._seen: dict[str, tuple[TopicEntry, tuple[Hashable, list[int]]]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._state.is_closed

    def check(self) -> None:
        """See `Source`."""
        self._state.check()

    def now_ms(self) -> int:
        """See `Source`."""
        return self._state.clock()

    def look(self, topic: str, *, again: bool) -> tuple[Hashable, list[int]]:
        """See `Source`. Always as it is now: it is in memory."""
        entry = self._state.entry(topic)
        seen = self._seen.get(topic)
        if seen is None or seen[0] is not entry:
            seen = self._seen[topic] = entry, (entry.topic_id, entry.partition_ids())
        return seen[1]

    def log(self, partition: TopicPartition) -> LogReading:
        """See `Source`."""
        return self._state.log(partition)

    def offsets_logs(self, group: str | None) -> Mapping[int, LogReading]:
        """See `Source`."""
        state = self._state
        state.check()
        entry = state.file.topics.get(OFFSETS.name)
        if entry is None:
            return {}
        there = existing_partitions(state, OFFSETS, entry)
        if group is not None:
            number = partition_of_id(group, entry.partitions)
            return {number: state.log(TopicPartition(OFFSETS.name, number))} if number in there else {}
        return _readable(self, sorted(there))

    def owned(self) -> StoreState:
        """See `Source`."""
        self._state.check()
        return self._state


class _ReadOnly(Protocol):
    """What is needed of a `ReadOnlyStore`."""

    paths: list[str]
    config: StoreConfig
    _clock: Any

    @property
    def is_closed(self) -> bool: ...

    def _check(self) -> None: ...

    def find(self) -> dict[str, FoundTopic]: ...

    def found_topic(self, name: str) -> FoundTopic: ...

    def facts(self, name: str) -> TopicFacts: ...

    def log(self, topic: str, partition: int) -> ReadOnlyLog: ...


class ReadOnlySource:
    """Directories that are only read."""

    def __init__(self, store: _ReadOnly) -> None:
        self._store = store
        self._pid = os.getpid()
        self.paths = store.paths
        self.config = store.config
        self.tables = PositionTables()
        self._seen: dict[str, tuple[Hashable, list[int]]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._store.is_closed

    def check(self) -> None:
        """See `Source`."""
        if self._pid != os.getpid():
            raise ForkedError("opened before this process was forked", path=self.paths[0], hint="open it in the child")
        self._store._check()

    def now_ms(self) -> int:
        """See `Source`."""
        now_ms: int = self._store._clock()
        return now_ms

    def look(self, topic: str, *, again: bool) -> tuple[Hashable, list[int]]:
        """See `Source`. To look again, the directories are listed."""
        if again or topic not in self._seen:
            before = self._seen.pop(topic, None)  # a topic that is gone is looked for again the next time
            now = self._store.facts(topic).topic_id, self._store.found_topic(topic).partition_ids()
            self._seen[topic] = now if before is None or before != now else before
        return self._seen[topic]

    def log(self, partition: TopicPartition) -> LogReading:
        """See `Source`."""
        return self._store.log(*partition)

    def offsets_logs(self, group: str | None) -> Mapping[int, LogReading]:
        """See `Source`. How many partitions there are is not always known from here: then it may be any that is here."""
        self.check()
        found = self._store.find().get(OFFSETS.name)
        if found is None:
            return {}
        if group is not None:
            facts = self._store.facts(OFFSETS.name)
            if facts.partitions_from != DIRECTORIES:
                number = partition_of_id(group, facts.partitions)
                return {number: self._store.log(OFFSETS.name, number)} if number in found.homes else {}
        return _readable(self, sorted(found.homes))

    def owned(self) -> StoreState:
        """See `Source`: there is none."""
        self.check()
        raise ReadOnlyStoreError(
            "the store was opened to be read: nothing can be committed",
            path=self.paths[0],
            hint="positions=… names another store that keeps the positions",
        )


def _readable(source: Source, numbers: Iterable[int]) -> dict[int, LogReading]:
    """Those logs of `__consumer_offsets` that can be opened: what is wrong with one is no reason to keep quiet about the others."""
    logs = {}
    for number in numbers:
        try:
            logs[number] = source.log(TopicPartition(OFFSETS.name, number))
        except TidelogError as error:
            _logger.warning("the groups of %s-%d are left out: %s", OFFSETS.name, number, error)
    return logs
