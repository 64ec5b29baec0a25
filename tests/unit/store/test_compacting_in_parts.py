"""Compaction of a store by workers: which logs are claimed for it."""

from pathlib import Path

import pytest

from tests.support.in_parts import TasksHere
from tests.support.job_topics import make_topic
from tidelog.compaction.states import Cleanings
from tidelog.disk.names import TopicPartition
from tidelog.store.compacting_in_parts import PartSizes, compact_in_parts
from tidelog.store.forgetting import claimed
from tidelog.store.store import Store


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a log here waits for himself, and for ever."""

    def begin(self: Cleanings, partition: TopicPartition, *_: object) -> None:
        assert self.try_begin(partition), f"{partition} is claimed already"

    monkeypatch.setattr(Cleanings, "begin", begin)


def test_a_topic_that_is_named_twice_is_compacted_once(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=40)
    (tmp_path / "staging").mkdir()
    with Store.open(tmp_path / "store", background=False) as store:
        result = compact_in_parts(store, ["tide", "tide"], TasksHere(tmp_path / "staging"), PartSizes(6000, 6000, 6000), roll=True)
        assert [one.partition for one in result.compacted] == [TopicPartition("tide", 0), TopicPartition("tide", 1)]
        assert store._state.cleanings.in_progress() == ()


def test_a_topic_that_is_named_twice_is_claimed_once(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=10)
    with Store.open(tmp_path / "store", background=False) as store:
        with claimed(store, ["tide", "tide"]) as logs:
            assert [log.partition for log in logs] == [TopicPartition("tide", 0)]
        assert store._state.cleanings.in_progress() == ()
