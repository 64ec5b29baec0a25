"""A topic of a store: what it is, how it is set, its partitions; producing to it and reading from it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.config import SETTINGS
from tidelog.config.setting import to_text
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.plurals import counted
from tidelog.store import topic_changes
from tidelog.store.state import StoreState
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.topic_producing import TopicProducing
from tidelog.store.topic_reading import TopicReading
from tidelog.store.topic_settings import KEEP_FOR_EVER


class SettingDescription(NamedTuple):
    """A setting in force, and where it comes from."""

    name: str
    value: str
    source: str
    """`topic`: its own; `store`: given for the whole store; `tidelog`: our default, where Kafka has another; `kafka`: Kafka's default."""
    kafka_default: str | None


class TopicDescription(NamedTuple):
    """What a topic is."""

    name: str
    topic_id: UUID | None
    partitions: int
    absent: tuple[int, ...]
    """Partitions that are not in this store: those of another broker."""
    is_looked_after: bool
    """False of an adopted topic whose settings nobody has given yet: nothing of it is deleted or compacted."""
    settings: tuple[SettingDescription, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """Settings of the broker that it was adopted from which cannot be here, with their values: it is not looked after until `alter`, or
    its `reset`, names each of them."""
    topic_id_from: str | None = None
    """Of a directory that is only read: from which file each is known."""
    partitions_from: str | None = None
    settings_from: str | None = None


class Topic(TopicProducing, TopicReading):
    """Made by `Store.topic`. May be shared between threads."""

    def __init__(self, state: StoreState, name: str) -> None:
        self._state = state
        self.name = name

    @property
    def topic_id(self) -> UUID | None:
        """By which a broker tells it from another topic of the same name."""
        return self._state.entry(self.name).topic_id

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self._state.entry(self.name).partitions

    @property
    def is_internal(self) -> bool:
        """Whether it is one that Kafka keeps for itself: positions of groups, or states of transactions."""
        return self.name in INTERNAL_TOPICS

    def log(self, partition: int) -> Log:
        """The log of a partition."""
        return self._state.log(TopicPartition(self.name, partition))

    def partition_ids(self) -> list[int]:
        """The partitions that are here: all, but for a topic that was adopted from one of several brokers."""
        return self._state.entry(self.name).partition_ids()

    def alter(self, config: Mapping[str, object] | None = None, *, reset: Iterable[str] = ()) -> None:
        """Change settings, from now on; those named by `reset` are as if never given.

        The first time for a topic that was adopted: from now on it is looked after. It keeps its data for ever unless something is said
        about `retention.ms`.
        """
        topic_changes.alter(self._state, self.name, config or {}, reset)

    def describe(self) -> TopicDescription:
        """Everything about it, each setting with its value and where that comes from."""
        state, entry = self._state, self._state.entry(self.name)
        in_force, own = state.log_config(entry), entry.config or {}
        values = in_force.describe()
        described = []
        for setting in SETTINGS:
            if setting.name not in values:
                continue
            if setting.name in own:
                source = "tidelog" if own[setting.name] == KEEP_FOR_EVER.get(setting.name) else "topic"
            elif setting.name in state.config.topic_defaults.given:
                source = "store"
            else:
                is_ours = setting.default != setting.kafka_default or values[setting.name] == KEEP_FOR_EVER.get(setting.name)
                source = "tidelog" if is_ours else "kafka"
            kafka_default = None if setting.kafka_default is None else to_text(setting.kafka_default)
            described.append(SettingDescription(setting.name, values[setting.name], source, kafka_default))
        absent, refused = tuple(sorted(entry.absent)), tuple(sorted(entry.refused.items()))
        return TopicDescription(self.name, entry.topic_id, entry.partitions, absent, entry.is_set, tuple(described), refused)

    def __repr__(self) -> str:
        entry = self._state.file.topics.get(self.name)
        return f"Topic({self.name!r}, {'deleted' if entry is None else counted(entry.partitions, 'partition')})"
