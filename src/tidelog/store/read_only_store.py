"""A data directory, or several, that this process only reads, whoever owns them: a store, a broker that may be running, or nobody.

No lock is taken, and nothing is created, changed or removed. Topics are looked for whenever they are asked about, so those that the owner
creates or deletes meanwhile come and go. A partition is opened when it is first read; one that cannot be read raises for itself only.
"""

import difflib
import threading
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from uuid import UUID

from tidelog.config import SETTINGS, StoreConfig
from tidelog.config.setting import to_text
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import LogClosedError, LogNotFoundError, NotAStoreError, UnknownTopicError
from tidelog.log.read_only import ReadOnlyLog, open_read_only
from tidelog.record.kernel.clock import wall_clock
from tidelog.store.adopting import valid_settings
from tidelog.store.broker_topics import BrokerTopics
from tidelog.store.directories import resolve_paths
from tidelog.store.groups.source import ReadOnlySource
from tidelog.store.groups.store_groups import StoreGroups
from tidelog.store.loading import Paths, check_clock
from tidelog.store.read_only_care import ReadOnlyCare
from tidelog.store.read_only_settings import FoundSettings
from tidelog.store.read_only_topics import FoundTopic, TopicFacts, find_topics, topic_facts
from tidelog.store.topic import SettingDescription, TopicDescription
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.topic_reading import TopicReading
from tidelog.store.transactions.store_transactions import ReadOnlyStoreTransactions

_MOST_NAMES = 10
"""Of more topics than that not all are named where one is not found: a broker may have thousands."""


class ReadOnlyStore(ReadOnlyCare, StoreGroups, ReadOnlyStoreTransactions):
    """Made by `tidelog.open(…, mode="r")`. A context manager; may be shared between threads."""

    def __init__(self, paths: list[str], pool: FilePool, config: StoreConfig, clock: Callable[[], int], *, given_wins: bool) -> None:
        self.paths = paths
        """The directories."""
        self.config = config
        """What was given on opening: it stands for what is not written down about topics."""
        self.given_wins = given_wins
        """Whether it also counts over what is written down."""
        self._pool = pool
        self._clock = clock
        self._brokers = BrokerTopics(pool.disk, paths)
        self._groups: ReadOnlySource | None = None
        self._logs: dict[TopicPartition, ReadOnlyLog] = {}
        self._found: dict[str, FoundTopic] = {}
        """As of the last look: to open a thousand partitions, the directory need not be listed a thousand times."""
        self._lock = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        paths: Paths,
        *,
        config: Mapping[str, object] | StoreConfig | None = None,
        clock: Callable[[], int] | None = None,
        pool: FilePool = SHARED,
        given_wins: bool = False,
    ) -> "ReadOnlyStore":
        """See `tidelog.open`. With `given_wins` the `config` counts over what is written down about topics: the command line's way."""
        settings = StoreConfig.of(config)
        check_clock(clock or wall_clock)
        resolved = resolve_paths(paths)
        find_topics(pool.disk, resolved)  # a directory that is missing is told now
        return cls(resolved, pool, settings, clock or wall_clock, given_wins=given_wins)

    def find(self) -> dict[str, FoundTopic]:
        """What is there now."""
        self._check()
        self._found = find_topics(self._pool.disk, self.paths)
        return self._found

    def topics(self, *, internal: bool = True) -> list["ReadOnlyTopic"]:
        """All topics, by name, as they are now; without `internal` those that Kafka keeps for itself are left out."""
        return [ReadOnlyTopic(self, name) for name in self.find() if internal or name not in INTERNAL_TOPICS]

    def topic(self, name: str) -> "ReadOnlyTopic":
        """A topic that is there."""
        self.found_topic(name)
        return ReadOnlyTopic(self, name)

    def found_topic(self, name: str) -> FoundTopic:
        """What is on disk of a topic now."""
        found = self.find()
        if name not in found:
            if len(found) <= _MOST_NAMES:
                hint = f"there are: {', '.join(found) or 'none'}"
            elif near := difflib.get_close_matches(str(name), found):
                hint = f"did you mean {' or '.join(near)}?"
            else:
                hint = f"there are {len(found)} others"
            raise UnknownTopicError(f"no topic {name!r}", path=self.paths[0], hint=hint)
        return found[name]

    def topic_id(self, name: str) -> UUID | None:
        """By which a broker tells it from another topic of the same name; None where nothing says it."""
        return self.facts(name).topic_id

    def facts(self, name: str) -> TopicFacts:
        """What is known of a topic now, and from where."""
        return topic_facts(self._pool.disk, self.found_topic(name), self._brokers.look()[0])

    def settings(self, name: str) -> FoundSettings:
        """How a topic is set, as far as can be known, and where that is from."""
        return self.settings_of(name)

    def log(self, topic: str, partition: int) -> ReadOnlyLog:
        """The log of a partition."""
        wanted = TopicPartition(topic, partition)
        log = self._logs.get(wanted)
        if log is not None and not log.is_closed:
            return log
        known = self._found.get(topic)
        path = self._home(known if known is not None and partition in known.homes else self.found_topic(topic), partition)
        with self._lock:
            self._check()
            log = self._logs.get(wanted)
            if log is None or log.is_closed:
                log = self._logs[wanted] = open_read_only(f"{path}/{wanted}", pool=self._pool)
            return log

    def _home(self, found: FoundTopic, partition: int) -> str:
        homes = found.homes.get(partition, [])
        if len(homes) == 1:
            return homes[0]
        name = f"{found.name}-{partition}"
        if homes:
            raise NotAStoreError(
                f"several of the directories have {name}",
                path=homes[0],
                expected="a partition in one directory",
                found=", ".join(homes),
                hint="open the directories of each broker by themselves",
            )
        if partition in found.partition_ids():
            hint = "restore it from a backup, or delete the topic; a store of several directories has to be given all of them"
            raise LogNotFoundError("the directory of a partition is missing", path=f"{self.paths[0]}/{name}", hint=hint)
        raise UnknownTopicError(
            f"no partition {partition!r} of topic {found.name!r}",
            path=self.paths[0],
            expected=f"one of {', '.join(map(str, found.partition_ids()))}",
            found=repr(partition),
            hint="partitions are counted from 0",
        )

    def _source(self) -> ReadOnlySource:
        if self._groups is None:
            self._groups = ReadOnlySource(self)
        return self._groups

    # Closing

    def close(self) -> None:
        """Let go of the files. Does nothing the second time."""
        with self._lock:
            self._is_closed = True
            for log in self._logs.values():
                log.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def _check(self) -> None:
        if self._is_closed:
            raise LogClosedError("the store is closed", path=self.paths[0])

    def __enter__(self) -> "ReadOnlyStore":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True) and self._logs:
            for log in self._logs.values():  # one warning is enough; somebody may still be iterating
                log.abandon()
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"ReadOnlyStore({', '.join(self.paths)})"


class ReadOnlyTopic(TopicReading):
    """Made by `ReadOnlyStore.topic`. May be shared between threads."""

    def __init__(self, store: ReadOnlyStore, name: str) -> None:
        self._store = store
        self.name = name

    @property
    def topic_id(self) -> UUID | None:
        """By which a broker tells it from another topic of the same name."""
        return self._store.topic_id(self.name)

    @property
    def partitions(self) -> int:
        """How many there are, as far as can be known from here."""
        return self._store.facts(self.name).partitions

    @property
    def is_internal(self) -> bool:
        """Whether it is one that Kafka keeps for itself: positions of groups, or states of transactions."""
        return self.name in INTERNAL_TOPICS

    def partition_ids(self) -> list[int]:
        """The partitions that are here."""
        return self._store.found_topic(self.name).partition_ids()

    def log(self, partition: int) -> ReadOnlyLog:
        """The log of a partition."""
        return self._store.log(self.name, partition)

    def describe(self) -> TopicDescription:
        """What can be known of it, and where it is from.

        Of the settings, those that its store has written down, or its broker in the metadata log. What a broker's file of properties says
        is not in its directory.
        """
        found, facts, settings = self._store.found_topic(self.name), self._store.facts(self.name), self._store.settings(self.name)
        own: Mapping[str, str] = {}
        refused: dict[str, str] = {}
        if found.entry is not None:
            own = found.entry.config or {}
        elif facts.described is not None:
            own, errors = valid_settings(facts.described.config, self._store.config.topic_defaults)
            refused = {name: facts.described.config[name] for name in errors}
        described = tuple(
            SettingDescription(
                setting.name, own[setting.name], "topic", None if setting.kafka_default is None else to_text(setting.kafka_default)
            )
            for setting in SETTINGS
            if setting.name in own
        )
        return TopicDescription(
            self.name,
            facts.topic_id,
            facts.partitions,
            absent=tuple(sorted(set(range(facts.partitions)) - set(found.partition_ids()))),
            is_looked_after=found.entry is not None and found.entry.config is not None,
            settings=described,
            refused=tuple(refused.items()),
            topic_id_from=facts.topic_id_from,
            partitions_from=facts.partitions_from,
            settings_from=settings.source,
        )

    def __repr__(self) -> str:
        return f"ReadOnlyTopic({self.name!r})"
