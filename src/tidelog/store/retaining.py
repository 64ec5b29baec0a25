"""Retention over a whole store: which logs are looked at, and what went from them."""

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tidelog.disk.names import TopicPartition, deleted_directory
from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.plurals import counted
from tidelog.retention import (
    AnyPolicy,
    Deleted,
    DirectoryFacts,
    LogFacts,
    PartitionFacts,
    RetentionPolicy,
    StoreFacts,
    StoreRetentionPolicy,
    decide,
    delete,
    facts_of,
)
from tidelog.retention.decision import by_partition, held_to
from tidelog.store.state import StoreState
from tidelog.store.store_file import TopicEntry

NOT_SET = (
    "its settings are not known: it was adopted. Topic.alter gives them, adopt='cluster-metadata' takes a broker's; "
    "until then nothing is deleted or compacted"
)
BEING_COMPACTED = "it is being compacted, its retention follows"
_log = logging.getLogger("tidelog")


def why_not_set(entry: TopicEntry) -> str:
    """Why nothing is done to a topic that was adopted."""
    if entry.config is None or not entry.refused:
        return NOT_SET
    refused = " and ".join(f"{name}={value}" for name, value in sorted(entry.refused.items()))
    return f"its broker has {refused}, which cannot be here. Topic.alter gives another; until then nothing is deleted or compacted"


class PartitionDeleted(NamedTuple):
    """What one rule removed from a partition."""

    partition: TopicPartition
    rule: str
    segments: int
    size_bytes: int
    records: int
    """By offsets: not fewer than there were."""
    reason: str

    def __str__(self) -> str:
        gone = f"{counted(self.segments, 'segment')}, {self.size_bytes} bytes, {counted(self.records, 'record')}"
        return f"{self.partition}: {gone} by {self.rule}: {self.reason}"


class RetentionFailure(NamedTuple):
    """What a round could not do. The rest of it went on."""

    partition: TopicPartition | None
    """None: a policy for the whole store failed."""
    error: Exception


class RetentionResult(NamedTuple):
    """What a round of retention did."""

    now_ms: int
    deleted: tuple[PartitionDeleted, ...]
    left_alone: tuple[tuple[TopicPartition, str], ...]
    """Partitions that were not looked at, and why."""
    failures: tuple[RetentionFailure, ...]

    @property
    def segments(self) -> int:
        """How many went."""
        return sum(deleted.segments for deleted in self.deleted)

    @property
    def size_bytes(self) -> int:
        """How much went."""
        return sum(deleted.size_bytes for deleted in self.deleted)

    @property
    def records(self) -> int:
        """How many records went, by offsets."""
        return sum(deleted.records for deleted in self.deleted)

    def __str__(self) -> str:
        lines = [str(deleted) for deleted in self.deleted] or ["nothing was deleted"]
        lines += [f"{partition}: left alone, {why}" for partition, why in self.left_alone]
        lines += [f"{failure.partition or 'the store'}: failed, {failure.error}" for failure in self.failures]
        return "\n".join(lines)


class Retention:
    """Rounds over a store, one at a time."""

    def __init__(self, state: StoreState, policies: Iterable[AnyPolicy] = ()) -> None:
        self._state = state
        policies = check_policies(policies)
        self.of_logs = tuple(policy for policy in policies if isinstance(policy, RetentionPolicy))
        """The policies that are asked about each log, after Kafka's."""
        self.of_store = tuple(policy for policy in policies if isinstance(policy, StoreRetentionPolicy))
        """The policies that are asked about the whole store, at the end."""
        self._one_at_a_time = threading.Lock()

    def run(self, topic: str | None = None, *, wait: bool = True) -> RetentionResult:
        """One round, over one topic or all. Policies for the whole store are asked only when it is about the whole store.

        A log that is being compacted is waited for, or left alone: the cleaner gives it its retention when it has done.
        """
        now_ms = self._state.clock()
        partitions = partitions_of(self._state, topic)
        done = _Done([(partition, why) for partition, why in partitions if why is not None])
        logs = self._logs([partition for partition, why in partitions if why is None], done)
        with self._one_at_a_time:
            busy = [log for log in logs if not self._look_after(log, now_ms, done)]
        for log in busy:
            if wait:
                self._wait_for(log, now_ms, done)  # not under the lock: others look after what is free meanwhile
            else:
                done.left_alone.append((log.partition, BEING_COMPACTED))
        for policy in self.of_store if topic is None else ():
            with self._one_at_a_time, done.about(None):
                self._ask(policy, logs, now_ms, done)
        return done.result(now_ms)

    def run_compacted(self) -> RetentionResult:
        """One round over the logs that are compacted, open and free; what the cleaner does after its turns."""
        with self._one_at_a_time:
            now_ms, done = self._state.clock(), _Done([])
            for partition, why in partitions_of(self._state, None):
                log = self._state.logs.get(partition)
                if why is None and log is not None and not log.is_closed and log.config.is_compacted:
                    self._look_after(log, now_ms, done)
            return done.result(now_ms)

    def _look_after(self, log: Log, now_ms: int, done: "_Done") -> bool:
        """Decide about a log and delete, unless it is being compacted: whether it is not."""
        with self._uncleaned(log) as is_free, done.about(log):
            if is_free:
                facts = facts_of(log)
                done.deleted(log, delete(log, facts, decide(facts, log.config, now_ms, self.of_logs)))
        return is_free

    def _wait_for(self, log: Log, now_ms: int, done: "_Done") -> None:
        with done.about(log), self._state.cleanings.first(log.partition):
            is_done = False
            while not is_done:
                self._state.cleanings.wait_until_free(log.partition, self._state.check)
                with self._one_at_a_time:
                    is_done = self._look_after(log, now_ms, done)

    @contextmanager
    def _uncleaned(self, log: Log) -> Iterator[bool]:
        """Keep the cleaner off a log meanwhile: whether it is. Not from one that it is cleaning."""
        cleanings = self._state.cleanings
        is_free = cleanings.try_pause(log.partition)
        try:
            yield is_free
        finally:
            if is_free:
                cleanings.resume(log.partition)

    def _logs(self, partitions: Iterable[TopicPartition], done: "_Done") -> list[Log]:
        """The logs, opened where nobody has asked for them yet: those of an adopted topic that was set since."""
        logs = []
        for partition in partitions:
            try:
                logs.append(self._state.log(partition))
            except UnknownTopicError:
                continue  # deleted meanwhile
            except Exception as error:
                done.failures.append(RetentionFailure(partition, error))
        return logs

    def _ask(self, policy: StoreRetentionPolicy, logs: list[Log], now_ms: int, done: "_Done") -> None:
        facts = {log.partition: (log, facts_of(log)) for log in logs if not log.is_closed}
        store = store_facts(self._state, list(facts.values()))
        named = by_partition(policy.expired_in_store(store, now_ms))
        for partition, (log, log_facts) in facts.items():
            if partition in named and log.config.is_deleted_by_age:
                with self._uncleaned(log) as is_free, done.about(log):
                    if is_free:
                        done.deleted(log, delete(log, log_facts, held_to(log_facts, policy.name, named[partition])))
                    else:
                        done.left_alone.append((partition, BEING_COMPACTED))


def check_policies(policies: Iterable[object]) -> tuple[AnyPolicy, ...]:
    """The policies, if they are any."""
    if not isinstance(policies, Iterable):
        raise InvalidConfigError("policies of retention that are none", expected="a list of them", found=repr(policies))
    found: list[AnyPolicy] = []
    for policy in policies:
        if isinstance(policy, type) or not isinstance(policy, (RetentionPolicy, StoreRetentionPolicy)):  # a class is not one of its objects
            raise InvalidConfigError(
                "not a policy of retention",
                expected="an object with name and expired(log, config, now_ms), or expired_in_store(store, now_ms)",
                found=repr(policy),
            )
        found.append(policy)
    return tuple(found)


class _Done:
    """What a round has done so far."""

    def __init__(self, left_alone: list[tuple[TopicPartition, str]]) -> None:
        self.left_alone = left_alone
        self.removed: list[PartitionDeleted] = []
        self.failures: list[RetentionFailure] = []

    def result(self, now_ms: int) -> RetentionResult:
        left_alone = tuple(dict.fromkeys(self.left_alone))
        return RetentionResult(now_ms, tuple(self.removed), left_alone, tuple(self.failures))

    @contextmanager
    def about(self, log: Log | None) -> Iterator[None]:
        """What goes wrong with one log, or in somebody's policy, is no reason to stop."""
        try:
            yield
        except Exception as error:
            if log is None or not log.is_closed:  # its topic may have been deleted meanwhile
                self.failures.append(RetentionFailure(None if log is None else log.partition, error))

    def deleted(self, log: Log, deleted: Iterable[Deleted]) -> None:
        for one in deleted:
            self.removed.append(PartitionDeleted(log.partition, *one))
            _log.info("deleted from %s", self.removed[-1])


def partitions_of(state: StoreState, topic: str | None) -> list[tuple[TopicPartition, str | None]]:
    """The partitions of a topic, or of all, each with why it is left alone; None if it is not."""
    found: list[tuple[TopicPartition, str | None]] = []
    names = sorted(state.file.topics) if topic is None else [topic]
    for name in names:
        entry = state.entry(name) if topic is not None else state.file.topics.get(name)
        for number in [] if entry is None else entry.partition_ids():
            partition = TopicPartition(name, number)
            log, failure = state.logs.get(partition), state.failures.get(partition)
            why = None
            if entry is not None and not entry.is_set:
                why = why_not_set(entry)
            elif failure is not None:
                why = f"it could not be opened: {failure}"
            elif log is not None and log.failure is not None:
                why = f"it takes no more writes: {log.failure}"
            found.append((partition, why))
    return found


def store_facts(state: StoreState, logs: Iterable[tuple[Log, LogFacts]]) -> StoreFacts:
    """What a policy for the whole store is told."""
    partitions, deleted_bytes = [], dict.fromkeys(state.paths, 0)
    for log, facts in logs:
        home = state.homes.get(log.partition)
        if home is None:
            continue  # its topic was deleted meanwhile
        path = home.path
        partitions.append(PartitionFacts(log.partition, path, facts, log.config))
        deleted_bytes[path] += log.deleted_bytes
    disk = state.disk
    for gone in state.file.deleted:
        for partition in (TopicPartition(gone.topic, number) for number in range(gone.partitions)):
            for path in state.paths:
                with suppress(FileNotFoundError):
                    entries = disk.entries(f"{path}/{deleted_directory(partition, gone.suffix)}")
                    deleted_bytes[path] += sum(entry.size_bytes for entry in entries)
    directories = [DirectoryFacts(path, disk.file_system(path), disk.free_bytes(path), deleted_bytes[path]) for path in state.paths]
    return StoreFacts(partitions, directories)
