"""How the topics of a directory are set that this process only reads: what is written down there, and by whom.

    tidelog.json            a store's own: what it says about a topic counts
    __cluster_metadata-0    a broker's own: the topics' own settings; what the broker's file of properties says is nowhere in the directory
    neither                 nothing is known

What is not written down is as the caller says (`config` of `tidelog.open`), or Kafka's default. Who asks for one moment only, as a command
does, may want what it says to count over what is written down (`given_wins`); never for topics that Kafka keeps for itself.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import Disk
from tidelog.errors import TidelogError
from tidelog.store.adopting import valid_settings
from tidelog.store.broker_topics import BrokerTopics
from tidelog.store.cluster_metadata import DescribedTopic
from tidelog.store.read_only_topics import FoundTopic, topic_id_of
from tidelog.store.retaining import why_not_set
from tidelog.store.store_file import STORE_FILE
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.topic_settings import in_force


class FoundSettings(NamedTuple):
    """How a topic is set, as far as can be known."""

    config: LogConfig
    source: str
    """Where that is from."""
    left_alone: str | None = None
    """Why its owner does nothing to it, or why it cannot be said what it would do."""
    given: frozenset[str] = frozenset()
    """Names of the settings that are as the caller says."""


class SettingsReader:
    """Looks up how topics are set; a broker's log is looked at once, when it is first needed."""

    def __init__(self, disk: Disk, brokers: BrokerTopics, defaults: LogConfig, *, given_wins: bool = False) -> None:
        self._disk = disk
        self._brokers = brokers
        self._defaults = defaults
        self._given_wins = given_wins
        self._described: Mapping[str, DescribedTopic] | None = None
        self._trouble = ""

    def of(self, topic: FoundTopic) -> FoundSettings:
        """The settings of a topic that was found."""
        if topic.entry is not None:
            return self._from_store(topic)
        described = self._broker_topics().get(topic.name)
        if described is None:
            return FoundSettings(self._defaults, self._nothing_known(), None, self._defaults.given)
        topic_id = topic_id_of(self._disk, topic)
        if topic_id not in (None, described.topic_id):
            source = f"{self._nothing_known()}: {CLUSTER_METADATA} knows another topic of this name"
            return FoundSettings(self._defaults, source, None, self._defaults.given)
        config, refused = valid_settings(described.config, self._defaults)
        left_alone = None
        if refused:
            wrong = " and ".join(f"{name}={described.config[name]}" for name in refused)
            left_alone = f"its broker has {wrong}, which cannot be here, so what it does is not known"
        over = self._laid_over(topic.name)
        given = self._defaults.given - (config.keys() - over.keys())
        return FoundSettings(self._defaults.with_changes({**config, **over}), f"{CLUSTER_METADATA}{self._given()}", left_alone, given)

    def _from_store(self, topic: FoundTopic) -> FoundSettings:
        entry = topic.entry
        assert entry is not None
        source = f"{STORE_FILE}{self._given()}"
        written, over = entry.config or {}, self._laid_over(topic.name)
        given = self._defaults.given - (written.keys() - over.keys())
        try:
            config = in_force({**written, **over}, self._defaults)
        except TidelogError as error:
            return FoundSettings(self._defaults, source, f"its settings cannot be in force together: {error}", given)
        return FoundSettings(config, source, None if entry.is_set else why_not_set(entry), given)

    def _laid_over(self, topic: str) -> Mapping[str, str]:
        """What was given and counts, whatever is written down.

        Not of topics that Kafka keeps for itself: who lets all topics be deleted by age does not mean the positions of groups.
        """
        return self._defaults.overrides() if self._given_wins and topic not in INTERNAL_TOPICS else {}

    def _broker_topics(self) -> Mapping[str, DescribedTopic]:
        if self._described is None:
            self._described, trouble = self._brokers.look()
            self._trouble = f" ({trouble})" if trouble else ""
        return self._described

    def _given(self) -> str:
        return " and the settings given on opening" if self._defaults.given else ""

    def _nothing_known(self) -> str:
        return ("the settings given on opening" if self._defaults.given else "Kafka's defaults") + self._trouble
