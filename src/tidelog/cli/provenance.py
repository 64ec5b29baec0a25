"""Where each setting of a topic is from: given on the command line, which counts, written down by a store or a broker, or a default.

What a broker has in its file of properties is not in its data directory. So a default there is an assumption, and nothing that was
assumed may decide over somebody's data: `--apply` refuses it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.cli.amounts import SECOND_MS, format_duration, format_size
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.store.read_only_store import ReadOnlyStore

GIVEN, DEFAULT = "given", "default"
NO_LIMIT = (1 << 63) - 1
"""What Kafka has for an age that is never reached."""
UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class SettingFact:
    """A setting in force."""

    name: str
    value: str
    source: str
    """`given`, `tidelog.json`, `__cluster_metadata`, or `default`."""
    is_assumed: bool
    """Nobody has written it down where it could be read."""

    def to_json(self) -> dict[str, Any]:
        """For one line of JSON."""
        return {"type": "setting", "name": self.name, "value": self.value, "source": self.source, "is_assumed": self.is_assumed}

    @property
    def origin(self) -> str:
        """The source in words."""
        return f"{self.source}, assumed" if self.is_assumed else self.source


def broker_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Settings that were given for what is not written down: a topic's names, as people know them, become a broker's."""
    from tidelog.config import SETTINGS

    names = {setting.name: setting.broker_names[0] for setting in SETTINGS if setting.broker_names}
    return {names.get(name, name): value for name, value in config.items()}


def settings_of(store: "ReadOnlyStore", topic: str) -> list[SettingFact]:
    """Every setting of a topic, those that were chosen first.

    What a store has not written down is its default, unless the topic was adopted and nobody has said yet how it is set.
    """
    described, found = store.topic(topic).describe(), store.settings(topic)
    written = {setting.name for setting in described.settings}
    home = (described.settings_from or DEFAULT).split()[0]
    entry = store.found_topic(topic).entry
    is_known = entry is not None and entry.is_set
    facts = []
    for name, value in found.config.describe().items():
        if name in found.given:
            facts.append(SettingFact(name, value, GIVEN, is_assumed=False))
        elif name in written:
            facts.append(SettingFact(name, value, home, is_assumed=False))
        else:
            facts.append(SettingFact(name, value, DEFAULT, is_assumed=not is_known))
    return sorted(facts, key=lambda fact: (fact.source == DEFAULT, fact.name))


def refuse_assumed(facts: Iterable[SettingFact], names: Collection[str]) -> None:
    """Raise if one of the settings that decide is an assumption."""
    assumed = sorted({fact.name for fact in facts if fact.is_assumed and fact.name in names})
    if assumed:
        raise InvalidConfigError(
            f"nothing says what {', '.join(assumed)} {'is' if len(assumed) == 1 else 'are'} here, and an assumption changes no data",
            hint=" ".join(f"--config {name}=…" for name in assumed),
        )


def settings_line(facts: Iterable[SettingFact]) -> list[str]:
    """Settings with where each is from, a line for each source: `__cluster_metadata: retention.ms=172800000 (2 d)`."""
    by_origin: dict[str, list[str]] = {}
    for fact in facts:
        by_origin.setdefault(fact.origin, []).append(f"{fact.name}={_shown(fact)}")
    return [f"{origin}: {', '.join(texts)}" for origin, texts in by_origin.items()]


def _shown(fact: SettingFact) -> str:
    """The value, and what it is in words where the number alone tells nobody."""
    number = int(fact.value) if fact.value.isdigit() else 0
    if number == NO_LIMIT:
        return UNLIMITED
    if fact.name.endswith(".ms") and number >= SECOND_MS:
        return f"{number} ({format_duration(number)})"
    return f"{number} ({format_size(number)})" if fact.name.endswith(".bytes") and number >= 1024 else fact.value
