"""Named consumers used wrongly, each with an error of its own."""

import gc
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.groups import A0, offsets
from tests.support.small_stores import open_store, tree_of
from tests.unit.store.test_store_fork import in_child, raised_by
from tidelog.disk.names import TopicPartition
from tidelog.errors import (
    GroupInUseError,
    InvalidConfigError,
    InvalidGroupError,
    LogClosedError,
    ReadOnlyStoreError,
    RefusedBatchError,
    UnknownTopicError,
)
from tidelog.store import Position
from tidelog.store.groups import members


@pytest.mark.parametrize("group", ["", None, b"g", 7, ["g"]])
def test_a_group_needs_a_name(tmp_path: Path, group: Any) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with pytest.raises(InvalidGroupError, match="a group without a name"):
            store.consumer(group, "a")
        with pytest.raises(InvalidGroupError):
            store.group(group)


@pytest.mark.parametrize("group", ["\ud800", "ä" * 16384])
def test_a_name_that_could_not_be_committed(tmp_path: Path, group: str) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with pytest.raises(InvalidGroupError, match="the name of a group"):
            store.consumer(group, "a")
        with store.consumer(("ä" * 16384)[:-1] + "x", "a") as consumer:
            consumer.commit({A0: 0})


@pytest.mark.parametrize("topics", ["", [], (), None, b"a", 5, [None], ["a", 5], {"a": 1}])
def test_a_consumer_needs_topics(tmp_path: Path, topics: Any) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with pytest.raises((InvalidGroupError, UnknownTopicError)):
            store.consumer("g", topics)
        assert not store.group("g").is_in_use


def test_an_unknown_topic_comes_with_near_names(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("emails")
        with pytest.raises(UnknownTopicError, match="did you mean emails"):
            store.consumer("g", ["emails", "email"])
        store.consumer("g", "emails").close()  # nobody is in the group


@pytest.mark.parametrize("reset", ["first", "", None, 5, "by_duration:1h", "by_duration:-PT1H", "by_duration:P", timedelta(-1), "LATEST"])
def test_a_rule_that_there_is_not(tmp_path: Path, reset: Any) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with pytest.raises(InvalidConfigError, match="no such auto_offset_reset"):
            store.consumer("g", "a", auto_offset_reset=reset)


def test_an_isolation_that_there_is_not(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with pytest.raises(ValueError, match="isolation is"):
            store.consumer("g", "a", isolation="read_committed")  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "timeout_s"), [(0, 0), (-1, 0), (True, 0), ("5", 0), (1, -1), (1, float("nan")), (1, "0")])
def test_polls_that_cannot_be(tmp_path: Path, count: Any, timeout_s: Any) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with store.consumer("g", "a") as consumer, pytest.raises(ValueError, match=r"max_records|timeout_s"):
            consumer.poll(count, timeout_s)


@pytest.mark.parametrize(
    ("positions", "error"),
    [
        ({A0: -1}, InvalidGroupError),
        ({A0: True}, InvalidGroupError),
        ({A0: "5"}, InvalidGroupError),
        ({A0: None}, InvalidGroupError),
        ({A0: 1 << 63}, InvalidGroupError),
        ({A0: Position(1, -2)}, InvalidGroupError),
        ({A0: Position(1, metadata=b"x")}, InvalidGroupError),  # type: ignore[arg-type]
        ({A0: Position(1, metadata="ä" * 2049)}, RefusedBatchError),
        ({"a": 1}, InvalidGroupError),
        ({"a-0": 1}, InvalidGroupError),
        ({0: 1}, InvalidGroupError),
        ({("a", "0"): 1}, InvalidGroupError),
        ({("a", 0, 0): 1}, InvalidGroupError),
        ({("a", 7): 1}, UnknownTopicError),
        ({("c", 0): 1}, UnknownTopicError),
        ({A0: 5, ("a", 7): 1}, UnknownTopicError),
        ([(A0, 5)], InvalidGroupError),
        (5, InvalidGroupError),
    ],
)
def test_positions_that_cannot_be_committed(tmp_path: Path, positions: Any, error: type[Exception]) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: 0})
            before = tree_of(tmp_path / "store")
            with pytest.raises(error):
                consumer.commit(positions)
            assert tree_of(tmp_path / "store") == before
            assert offsets(store, "g") == {A0: 0}


def test_metadata_up_to_the_limit(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with store.consumer("g", "a") as consumer:
            consumer.commit({("a", 0): Position(1, 5, "ä" * 2048)})
            assert consumer.committed(("a", 0)) == Position(1, 5, "ä" * 2048, store._state.clock())


def test_partitions_that_it_does_not_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        store.create_topic("b")
        with store.consumer("g", "a") as consumer:
            for use in (lambda: consumer.seek(("b", 0), 0), lambda: consumer.position(TopicPartition("a", 1))):
                with pytest.raises(UnknownTopicError, match="does not read"):
                    use()
            with pytest.raises(InvalidGroupError):
                consumer.seek(A0, -1)
            for wrong in ("5", None, 1.5, True):
                with pytest.raises(TypeError):
                    consumer.seek(A0, wrong)  # type: ignore[arg-type]
            consumer.commit({("b", 0): 0})  # as in Kafka: any partition that there is
            assert consumer.committed(("b", 0)) is not None


def test_a_closed_consumer(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a").append(b"0")
        consumer = store.consumer("g", "a")
        records = iter(consumer)
        consumer.close()
        consumer.close()
        assert consumer.is_closed
        uses = (consumer.poll, consumer.commit, consumer.lag, consumer.positions, lambda: consumer.assignment, lambda: iter(consumer))
        for use in (*uses, lambda: consumer.commit({A0: 1}), lambda: consumer.committed(A0), lambda: next(records)):
            with pytest.raises(LogClosedError, match="the consumer of group 'g' is closed"):
                use()
        assert store.groups() == []


def test_one_member_a_group(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "other") as other:
        store.create_topic("a")
        other.create_topic("a")
        first = store.consumer("g", "a")
        with pytest.raises(GroupInUseError, match="'g' has a live member"):
            store.consumer("g", "a")
        with pytest.raises(GroupInUseError):
            other.consumer("g", "a", positions=store)
        for use in (lambda: store.group("g").reset(0), store.group("g").delete):
            with pytest.raises(GroupInUseError):
                use()
        with store.consumer("h", "a"), other.consumer("g", "a"):
            pass
        first.close()
        second = store.consumer("g", "a")
        first.close()  # does not throw out the second
        assert store.group("g").is_in_use
        del second
        gc.collect()
        assert not store.group("g").is_in_use  # one that nobody has any more is none


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a").append(b"0")
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: 0})
    before = tree_of(tmp_path / "store")
    with tidelog.open(tmp_path / "store", "r") as directory, directory.consumer("g", "a") as reader:
        assert len(reader.poll()) == 1
        assert directory.group("g").positions()[A0].offset == 0
        assert directory.group("g").lag()[A0].lag == 1
        group = directory.group("g")
        for use in (reader.commit, lambda: reader.commit({A0: 1}), lambda: group.reset(0), group.delete):
            with pytest.raises(ReadOnlyStoreError, match="opened to be read"):
                use()
        with pytest.raises(ReadOnlyStoreError):
            directory.consumer("h", "a", positions=directory)
        with pytest.raises(InvalidGroupError, match="nothing that could keep positions"):
            directory.consumer("h", "a", positions="there")  # type: ignore[arg-type]
        with pytest.raises(UnknownTopicError):
            directory.consumer("h", "nowhere")
    assert tree_of(tmp_path / "store") == before


def test_nothing_but_groups_and_transactions_writes_to_internal_topics(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        assert not store.topic("a").is_internal
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: 0})
        topic = store.topic("__consumer_offsets")
        assert topic.is_internal
        for use in (lambda: topic.append(b"x", key=b"k"), lambda: topic.append_many([(b"k", b"x")]), topic.writer):
            with pytest.raises(RefusedBatchError, match="takes no records from outside") as raised:
                use()
            assert raised.value.kafka_error == "INVALID_TOPIC_EXCEPTION"
        assert len(list(topic.read())) == 1
        assert [found.name for found in store.topics(internal=False)] == ["a"]
    with tidelog.open(tmp_path / "store", "r") as directory:
        assert [(found.name, found.is_internal) for found in directory.topics()] == [("__consumer_offsets", True), ("a", False)]
        assert [found.name for found in directory.topics(internal=False)] == ["a"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store, tidelog.open(tmp_path / "store", "r") as directory:
        store.create_topic("a").append(b"0")
        with store.consumer("g", "a") as consumer, directory.consumer("r", "a", positions=store) as reader:
            consumer.poll()
            reader.poll()

            def work() -> list[str]:
                uses = (
                    consumer.poll,
                    consumer.commit,
                    consumer.lag,
                    reader.poll,
                    reader.commit,
                    store.groups,
                    lambda: store.consumer("h", "a"),
                )
                names = raised_by(*uses)
                consumer.close()
                reader.close()
                return names

            assert in_child(work) == ["ForkedError"] * 7

            def own() -> str:
                with open_store(tmp_path / "own") as mine:
                    mine.create_topic("a")
                    with mine.consumer("g", "a"):
                        return f"{os.getpid() != parent}"

            parent = os.getpid()
            assert in_child(own) == "True"
            consumer.commit()
            assert offsets(store, "g") == {A0: 1}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_with_no_members(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("a")
        with store.consumer("g", "a") as consumer:
            path = consumer.keeper.paths[0]
            with members._registry.lock:  # whoever holds it does not exist in the child
                assert in_child(lambda: members.live_member(path, "g")) is None
                assert in_child(lambda: raised_by(lambda: members.join(path, "g", consumer))) == ["nothing"]
            assert members.live_member(path, "g") is consumer
