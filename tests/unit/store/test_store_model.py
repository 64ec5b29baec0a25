"""Random calls against a plain model: topics come and go, are altered and appended to, the store is closed, killed and opened again."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.logs import FakeClock, QuietDisk, numbered
from tests.support.small_stores import file_of, open_store, state_of
from tidelog.errors import InvalidTopicError, LogClosedError, TopicExistsError, UnknownTopicError
from tidelog.store.topic_deletion import remove_due

NAMES = ("a.b", "a_b", "c", "c-0", "d")
names = st.sampled_from(NAMES)
values = st.sampled_from(["1", "1000", "9223372036854775807"])


@dataclass
class Modelled:
    """A topic."""

    partitions: int
    config: dict[str, str]
    records: dict[int, list[int]] = field(default_factory=dict)


class StoreMachine(RuleBasedStateMachine):
    """A store in two directories, and what it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp())
        self.homes = [self.scratch / "0-one", self.scratch / "0-two"]
        self.clock, self.disk = FakeClock(), QuietDisk()
        self.store = open_store(*self.homes, clock=self.clock, disk=self.disk)
        self.topics: dict[str, Modelled] = {}
        self.waiting = 0
        self.next = 0

    @rule(name=names, partitions=st.integers(1, 3), value=st.none() | values)
    def create(self, name: str, partitions: int, value: str | None) -> None:
        config = {} if value is None else {"segment.ms": value}
        if name in self.topics:
            with pytest.raises(TopicExistsError):
                self.store.create_topic(name, partitions, config)
            assert self.store.create_topic(name, partitions, config, exist_ok=True).partitions == self.topics[name].partitions
        elif any(other.replace(".", "_") == name.replace(".", "_") for other in self.topics):
            with pytest.raises(InvalidTopicError):
                self.store.create_topic(name, partitions, config)
        else:
            self.store.create_topic(name, partitions, config)
            self.topics[name] = Modelled(partitions, {"retention.ms": "-1", **config})

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name not in self.topics:
            with pytest.raises(UnknownTopicError):
                self.store.delete_topic(name)
            return
        log = self.store.log(name, 0)
        self.store.delete_topic(name)
        with pytest.raises(LogClosedError):
            log.append(numbered(0))
        del self.topics[name]
        self.waiting += 1

    @rule(name=names, setting=st.sampled_from(["segment.ms", "flush.messages"]), value=st.none() | values)
    def alter(self, name: str, setting: str, value: str | None) -> None:
        if name not in self.topics:
            with pytest.raises(UnknownTopicError):
                self.store.topic(name)
            return
        topic, config = self.store.topic(name), self.topics[name].config
        if value is None:
            topic.alter(reset=[setting])
            config.pop(setting, None)
        else:
            topic.alter({setting: value})
            config[setting] = value

    @precondition(lambda self: self.topics)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        partition = data.draw(st.integers(0, self.topics[name].partitions - 1))
        records = self.topics[name].records.setdefault(partition, [])
        assert self.store.log(name, partition).append(numbered(self.next)).last_offset == len(records)
        records.append(self.next)
        self.next += 1

    @rule(is_swapped=st.booleans())
    def open_again(self, is_swapped: bool) -> None:
        self.store.close()
        if is_swapped:
            self.homes.reverse()
        self.store = open_store(*self.homes, clock=self.clock, disk=self.disk)

    @rule()
    def crash(self) -> None:
        """What a killed process leaves: everything that was written."""
        copies = [home.with_name(f"{int(home.name[0]) + 1 if home.name[0] < '9' else 0}{home.name[1:]}") for home in self.homes]
        for home, copy in zip(self.homes, copies, strict=True):
            shutil.copytree(home, copy, ignore=shutil.ignore_patterns(".lock", "*.tmp"))
        self.store.close()
        for home in self.homes:
            shutil.rmtree(home)
        self.homes = copies
        self.store = open_store(*self.homes, clock=self.clock, disk=self.disk)

    @rule(ms=st.sampled_from([1000, 60_000]))
    def remove(self, ms: int) -> None:
        self.clock.advance(ms)
        removed = remove_due(state_of(self.store))
        assert removed <= self.waiting
        self.waiting -= removed
        if ms == 60_000:
            assert self.waiting == 0

    @invariant()
    def is_as_modelled(self) -> None:
        assert self.store.failures == {}
        assert [topic.name for topic in self.store.topics()] == sorted(self.topics)
        for name, topic in self.topics.items():
            assert file_of(self.homes[0]).topics[name].config == topic.config
            for partition in range(topic.partitions):
                log = self.store.log(name, partition)
                found = [int((record.value or b"").rstrip(b".")) for record in log.read()]
                assert found == topic.records.get(partition, [])
                assert log.config.segment_ms == int(topic.config.get("segment.ms", 604_800_000))
                assert log.config.flush_messages == int(topic.config.get("flush.messages", 1))
        assert file_of(self.homes[0]) == file_of(self.homes[1])
        assert len(file_of(self.homes[0]).deleted) == self.waiting
        directories = [path.name for home in self.homes for path in home.iterdir() if path.is_dir() and not path.name.endswith("-delete")]
        assert sorted(directories) == sorted(
            f"{name}-{number}" for name, topic in self.topics.items() for number in range(topic.partitions)
        )

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.scratch)


StoreMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
TestStoreModel = StoreMachine.TestCase
