"""A topic as a table: the latest value of each key, now and as of an offset or a time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import TIME
from tests.support.topics import SMALL, TopicModel, open_store
from tidelog import Time
from tidelog.errors import UnknownTopicError
from tidelog.store import topic_columns
from tidelog.store.store import Store
from tidelog.store.topic_table import joined, keys_in_several


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def one(store: Store) -> TopicModel:
    """One partition, in which a key is set, replaced, removed and set again."""
    model = TopicModel(store.create_topic("tide", 1, SMALL))
    model.append(0, [(b"a", b"1", TIME), (b"b", b"1", TIME + 10)])
    model.append(0, [(b"a", b"2", TIME + 20), (None, b"no key", TIME + 30), (b"c", b"", TIME + 30)], "zstd")
    model.append(0, [(b"a", None, TIME + 40)])
    model.append(0, [(b"b", None, TIME + 50), (b"b", b"3", TIME + 60)])
    return model


def test_the_latest_values_tombstones_remove_and_an_empty_value_is_one(one: TopicModel) -> None:
    assert one.topic.table() == {b"b": b"3", b"c": b""}


def test_nothing(store: Store) -> None:
    assert store.create_topic("empty", 3).table() == {}


def test_as_of_an_offset_that_record_is_the_last(one: TopicModel) -> None:
    assert one.topic.table(as_of=0) == {b"a": b"1"}
    assert one.topic.table(as_of=4) == {b"a": b"2", b"b": b"1", b"c": b""}
    assert one.topic.table(as_of=6) == {b"c": b""}
    assert one.topic.table(as_of={0: 5}) == {b"b": b"1", b"c": b""}
    assert one.topic.table(as_of=99) == one.topic.table()
    assert one.topic.table(as_of=-1) == one.topic.table(as_of=-5) == {}


def test_as_of_a_time(one: TopicModel) -> None:
    assert one.topic.table(as_of=Time(TIME + 20)) == {b"a": b"2", b"b": b"1"}
    assert one.topic.table(as_of=datetime.fromtimestamp((TIME + 40) / 1000, UTC)) == {b"b": b"1", b"c": b""}
    assert one.topic.table(as_of=Time(0)) == one.topic.table(as_of=datetime(1969, 1, 1, tzinfo=UTC)) == {}


def test_a_time_is_that_of_each_record_wherever_it_is(store: Store) -> None:
    model = TopicModel(store.create_topic("late"))
    model.append(0, [(b"a", b"late", TIME + 100), (b"a", b"early", TIME)])
    assert model.topic.table(as_of=Time(TIME + 50)) == {b"a": b"early"}
    assert model.topic.table() == {b"a": b"early"}  # the latest is the last one of the log


def test_a_key_in_several_partitions_has_the_value_with_the_latest_time(store: Store) -> None:
    model = TopicModel(store.create_topic("spread", 3))
    model.append(0, [(b"a", b"newest", TIME + 9), (b"b", b"old", TIME), (b"c", b"equal, and higher", TIME), (b"d", b"gone", TIME)])
    model.append(1, [(b"a", b"old", TIME), (b"b", b"newest", TIME + 1), (b"only", b"here", TIME)])
    model.append(2, [(b"a", b"older", TIME - 1), (b"c", b"equal", TIME), (b"d", None, TIME + 1)])
    expected = {b"a": b"newest", b"b": b"newest", b"c": b"equal, and higher", b"only": b"here"}
    assert model.topic.table() == expected == model.table()
    assert model.topic.table(partition=1) == {b"a": b"old", b"b": b"newest", b"only": b"here"}


def test_many_chunks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_columns, "FETCH_BYTES", 300)
    model = TopicModel(store.create_topic("many", 2, SMALL))
    for number in range(60):
        key = b"%d" % (number % 7)
        model.append(number % 7 % 2, [(key, None if number % 5 == 0 else b"%d" % number, TIME + number)] * 2)
    assert model.topic.table() == model.table()
    assert model.topic.table(as_of={0: 11, 1: 20}) == model.table(until={0: 11, 1: 20})


def test_aborted_records_do_not_count(store: Store) -> None:
    model = TopicModel(store.create_topic("txn"))
    model.append(0, [(b"a", b"kept", TIME)])
    model.append(0, [(b"a", b"gone", TIME)], producer=1)
    model.end(0, 1, "abort")
    model.append(0, [(b"a", b"open", TIME)], producer=1)
    assert model.topic.table() == {b"a": b"kept"}
    assert model.topic.table(isolation="log_end") == {b"a": b"open"}


def test_the_table_is_the_callers(one: TopicModel) -> None:
    first: Any = one.topic.table()
    first[b"mine"] = b"now"
    assert b"mine" not in one.topic.table()


def test_what_is_refused(store: Store) -> None:
    topic = store.create_topic("tide", 2)
    with pytest.raises(ValueError, match=r"as_of=3 is an offset, and the topic has 2 partitions.*as_of=\{partition: offset\}"):
        topic.table(as_of=3)
    with pytest.raises(ValueError, match="has no time zone"):
        topic.table(as_of=datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="as_of is an offset"):
        topic.table(as_of="now")  # type: ignore[arg-type]
    with pytest.raises(UnknownTopicError, match="as_of names a partition"):
        topic.table(as_of={2: 0})


def test_joining() -> None:
    def tables() -> list[dict[bytes, bytes | None]]:
        return [{b"a": b"0", b"b": None}, {b"a": b"1"}, {b"c": b"2", b"a": b"3"}]

    assert keys_in_several(tables()) == {b"a"}
    assert keys_in_several([{b"a": b"0"}, {b"b": None}, {}]) == set()
    assert joined(tables(), [{b"a": (5, 0)}, {b"a": (4, 9)}, {b"a": (3, 0)}]) == {b"a": b"0", b"c": b"2"}
    assert joined(tables(), [{b"a": (5, 7)}, {b"a": (5, 8)}, {b"a": (3, 9)}]) == {b"a": b"1", b"c": b"2"}
    assert joined(tables(), [{b"a": (5, 8)}, {b"a": (5, 7)}, {b"a": (5, 8)}]) == {b"a": b"3", b"c": b"2"}
    assert joined([], []) == {}
