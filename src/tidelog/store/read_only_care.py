"""What would be done to directories that this process only reads, and what there is to measure. Asked; nothing is done."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Protocol

from tidelog.compaction.plan import CleaningPlan, plan_cleaning
from tidelog.compaction.results import CompactResult
from tidelog.config import StoreConfig
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError, UnsupportedError
from tidelog.log.log_reading import LogReading
from tidelog.log.read_only import ReadOnlyLog
from tidelog.store.broker_topics import BrokerTopics
from tidelog.store.compacting import not_compacted
from tidelog.store.explain import Explanation, PartitionExplanation, cleaner_checkpoints, explain_left_alone, explain_log
from tidelog.store.read_only_compacting import would_compact
from tidelog.store.read_only_metrics import ReadOnlyMetrics, measure_directory, measure_log, recovery_points_of
from tidelog.store.read_only_settings import FoundSettings, SettingsReader
from tidelog.store.read_only_topics import FoundTopic
from tidelog.store.what_if import CountBy, WhatIf, ask


class _Directories(Protocol):
    """What is asked about."""

    paths: list[str]
    config: StoreConfig
    given_wins: bool
    _pool: FilePool
    _clock: Callable[[], int]
    _brokers: BrokerTopics

    def find(self) -> dict[str, FoundTopic]: ...
    def found_topic(self, name: str) -> FoundTopic: ...
    def log(self, topic: str, partition: int) -> ReadOnlyLog: ...


class ReadOnlyCare:
    """The part of a read-only store that says what its owner would do."""

    def explain(self: _Directories, topic: str | None = None, now_ms: int | None = None) -> Explanation:
        """Why each segment is still here, what will remove it and when, and whether its log would be compacted.

        By the settings that are found in the directory, and for the rest those that were given on opening: `settings_from` says which. What
        the directory's owner does need not be the same: a broker has settings that are not in its directory.
        """
        now_ms = self._clock() if now_ms is None else now_ms
        checkpoints = cleaner_checkpoints(self._pool.disk, self.paths)
        found = []
        for partition, settings in _partitions(self, topic):
            try:
                log = _current(self, partition)
                if settings.left_alone is None:
                    one = explain_log(log, settings.config, now_ms, (), checkpoints.get(partition))
                else:
                    one = explain_left_alone(log, settings.left_alone)
            except TidelogError as error:
                one = PartitionExplanation(partition, settings.left_alone or f"it cannot be read: {error}", (), None)
            found.append(one._replace(settings_from=settings.source))
        return Explanation(now_ms, tuple(found), None)

    def what_if(
        self: _Directories,
        topic: str,
        configs: Iterable[Mapping[str, object]],
        *,
        now_ms: int | None = None,
        count_by: CountBy = "offsets",
    ) -> WhatIf:
        """What retention would delete now if the topic were set otherwise: one row for each of `configs`, laid over its settings."""
        found = self.found_topic(topic)
        settings = _settings_reader(self).of(found)
        logs = (nullcontext[LogReading](_current(self, partition)) for partition in _all_partitions({topic: found}))
        table = ask(topic, settings.config, logs, configs, self._clock() if now_ms is None else now_ms, (), count_by)
        return table._replace(settings_from=settings.source)

    def compact(
        self: _Directories, topic: str | None = None, *, roll: bool = False, dry_run: bool = False, drop_null_keys: bool = False
    ) -> CompactResult:
        """With `dry_run`, what compaction would do, by the settings that are found in the directory. Only its owner can do it."""
        if not dry_run:
            raise UnsupportedError(
                "a directory that is only read cannot be compacted", path=self.paths[0], hint="dry_run=True says what would go"
            )
        checkpoints = cleaner_checkpoints(self._pool.disk, self.paths)
        partitions, now_ms = _partitions(self, topic), self._clock()
        return would_compact(partitions, partial(_current, self), checkpoints, self.config, now_ms, drop_null_keys=drop_null_keys)

    def settings_of(self: _Directories, topic: str) -> FoundSettings:
        """How a topic is set, as far as the directory tells, and where that is from."""
        return _settings_reader(self).of(self.found_topic(topic))

    def compaction_plans(
        self: _Directories, topic: str | None = None, now_ms: int | None = None
    ) -> list[tuple[TopicPartition, CleaningPlan | str]]:
        """What a compaction would begin with, for each partition of a topic or of all: its plan, or why there is none. No data is read."""
        checkpoints = cleaner_checkpoints(self._pool.disk, self.paths)
        now_ms = self._clock() if now_ms is None else now_ms
        found: list[tuple[TopicPartition, CleaningPlan | str]] = []
        for partition, settings in _partitions(self, topic):
            if settings.left_alone is not None or not settings.config.is_compacted:
                found.append((partition, settings.left_alone or not_compacted(settings.config.cleanup_policy)))
                continue
            try:
                found.append((partition, plan_cleaning(_current(self, partition), settings.config, checkpoints.get(partition), now_ms)))
            except TidelogError as error:
                found.append((partition, f"it cannot be read: {error}"))
        return found

    def metrics(self: _Directories) -> ReadOnlyMetrics:
        """The numbers of the logs, as they are on disk now."""
        disk, logs, unreadable = self._pool.disk, [], []
        recovery_points = {path: recovery_points_of(disk, path) for path in self.paths}
        for partition in _all_partitions(self.find()):
            try:
                log = self.log(*partition)
                home = log.directory.rpartition("/")[0]
                logs.append(measure_log(disk, log, recovery_points.get(home, {})))
            except TidelogError as error:
                unreadable.append((partition, str(error)))
        directories = tuple(measure_directory(disk, path) for path in self.paths)
        return ReadOnlyMetrics(self._clock(), tuple(logs), directories, tuple(unreadable))


def _current(store: _Directories, partition: TopicPartition) -> ReadOnlyLog:
    log = store.log(*partition)
    log.refresh()
    return log


def _partitions(store: _Directories, topic: str | None) -> Iterator[tuple[TopicPartition, FoundSettings]]:
    """The partitions of a topic, or of all, with their settings."""
    topics = store.find() if topic is None else {topic: store.found_topic(topic)}
    reader = _settings_reader(store)
    for found in topics.values():
        settings = reader.of(found)
        for number in found.partition_ids():
            yield TopicPartition(found.name, number), settings


def _settings_reader(store: _Directories) -> SettingsReader:
    return SettingsReader(store._pool.disk, store._brokers, store.config.topic_defaults, given_wins=store.given_wins)


def _all_partitions(topics: Mapping[str, FoundTopic]) -> list[TopicPartition]:
    return [TopicPartition(found.name, number) for found in topics.values() for number in found.partition_ids()]
