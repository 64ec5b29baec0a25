"""What takes brokers a while, done once for all tests: by version of Kafka, in a folder in memory where there is one."""

import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop.broker.adoption import Adopted, let_it_be_adopted
from interop.broker.compaction import CleanedInTurn, let_both_clean
from interop.broker.crashed_transactions import Crashes, let_kafka_read_crashes
from interop.broker.groups import GroupsMet, let_groups_meet
from interop.broker.kafka_writes import KafkaWrote, let_kafka_write
from interop.broker.store_moves import StoreMoved, let_a_store_move
from interop.broker.we_write import WeWrote, let_us_write

POM = Path(__file__).parents[1] / "pom.xml"


def _pinned(name: str) -> str:
    found = ElementTree.parse(POM).getroot().find(f".//{{*}}properties/{{*}}{name}")  # noqa: S314 (our own file)
    assert found is not None
    assert found.text
    return found.text


NEWER, OLDER = _pinned("kafka.version"), _pinned("kafka.older.version")
VERSIONS = (NEWER, OLDER)


@dataclass
class Scenarios:
    """Made when they are first asked for."""

    home: Path
    _kafka_wrote: dict[str, KafkaWrote] = field(default_factory=dict, repr=False)
    _we_wrote: dict[str, WeWrote] = field(default_factory=dict, repr=False)
    _store_moved: dict[str, StoreMoved] = field(default_factory=dict, repr=False)
    _adopted: dict[str, Adopted] = field(default_factory=dict, repr=False)
    _cleaned: dict[str, CleanedInTurn] = field(default_factory=dict, repr=False)
    _groups: dict[str, GroupsMet] = field(default_factory=dict, repr=False)
    _crashes: dict[str, Crashes] = field(default_factory=dict, repr=False)

    def kafka_wrote(self, version: str) -> KafkaWrote:
        """What Kafka wrote, stopped cleanly and killed."""
        if version not in self._kafka_wrote:
            self._kafka_wrote[version] = let_kafka_write(self.home / version / "kafka", version)
        return self._kafka_wrote[version]

    def we_wrote(self, version: str) -> WeWrote:
        """What we wrote, after a broker had it."""
        if version not in self._we_wrote:
            self._we_wrote[version] = let_us_write(self.home / version / "ours", self.kafka_wrote(version))
        return self._we_wrote[version]

    def store_moved(self, version: str) -> StoreMoved:
        """A store that moved under a broker and back."""
        if version not in self._store_moved:
            self._store_moved[version] = let_a_store_move(self.home / version / "store", version)
        return self._store_moved[version]

    def adopted(self, version: str) -> Adopted:
        """What Kafka wrote, adopted by a store, and given back."""
        if version not in self._adopted:
            self._adopted[version] = let_it_be_adopted(self.home / version / "adopted", self.kafka_wrote(version))
        return self._adopted[version]

    def cleaned(self, version: str) -> CleanedInTurn:
        """Logs that a broker's cleaner and ours cleaned in turn."""
        if version not in self._cleaned:
            self._cleaned[version] = let_both_clean(self.home / version / "cleaned", version)
        return self._cleaned[version]

    def groups(self, version: str) -> GroupsMet:
        """Groups and transactions, a broker's and ours, each read by the other."""
        if version not in self._groups:
            self._groups[version] = let_groups_meet(self.home / version / "groups", version)
        return self._groups[version]

    def crashes(self, version: str) -> Crashes:
        """What crashes have left of our transactions, read by a consumer of Kafka."""
        if version not in self._crashes:
            self._crashes[version] = let_kafka_read_crashes(self.home / version / "crashes", version)
        return self._crashes[version]


@contextmanager
def scenarios_in_memory() -> Iterator[Scenarios]:
    """Gone afterwards, with all directories."""
    place = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="tidelog-", dir=place if place.is_dir() else None) as folder:
        yield Scenarios(Path(folder))
