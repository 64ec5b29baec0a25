"""Names and ids of topics, by Kafka's rules (`Topic.validate`, `Topic.hasCollision`, `Uuid.randomUuid`)."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.disk.names import MAX_LENGTH, check_name
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import InvalidTopicError
from tidelog.store import topic_names
from tidelog.store.topic_names import check_new_name, check_topic_id, new_topic_id


@pytest.mark.parametrize("name", ["a", "a.b", "a_b", "a-b", "A9", "...", "__consumer_offsets", "-", "a-0", "x" * MAX_LENGTH])
def test_names_that_can_be(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "../a", "é", "a\n", "a\0", "x" * (MAX_LENGTH + 1), "a:b", None, 5, b"a", ["a"]]
)
def test_names_that_cannot_be(name: object) -> None:
    with pytest.raises(InvalidTopicError) as raised:
        check_name(name)
    assert isinstance(raised.value, ValueError)
    assert raised.value.expected is not None


@given(st.text(alphabet=st.sampled_from("aZ0._-/ é"), max_size=6))
def test_a_name_is_legal_if_all_its_characters_are(name: str) -> None:
    is_legal = name not in ("", ".", "..") and all(character in "aZ0._-" for character in name)
    if is_legal:
        assert check_name(name) == name
    else:
        with pytest.raises(InvalidTopicError):
            check_name(name)


@pytest.mark.parametrize(("name", "other"), [("a.b", "a_b"), ("a_b", "a.b"), ("._", "__"), ("a.b.c", "a.b_c")])
def test_names_that_differ_in_dots_and_underscores_collide(name: str, other: str) -> None:
    with pytest.raises(InvalidTopicError, match="metrics") as raised:
        check_new_name(name, ["x", other])
    assert repr(other) in str(raised.value)


def test_names_that_do_not_collide() -> None:
    assert check_new_name("a.b", ["a.b", "a-b", "ab", "a.b.", "A_b"]) == "a.b"


def test_the_brokers_own_topic() -> None:
    with pytest.raises(InvalidTopicError, match="brokers keep"):
        check_new_name("__cluster_metadata", [])


def test_ids() -> None:
    one, other = uuid4(), uuid4()
    assert check_topic_id(one, [other, None]) == one
    for bad in (UUID(int=0), UUID(int=1), other, str(one), one.bytes, 5):
        with pytest.raises(InvalidTopicError):
            check_topic_id(bad, [other, None])


def test_a_new_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    dashed, plain = UUID(bytes=b"\xf8" + bytes(15)), UUID(bytes=b"\xf0" + bytes(15))
    assert format_topic_id(dashed).startswith("-")
    draws = iter([dashed, dashed, plain])
    monkeypatch.setattr(topic_names, "uuid4", lambda: next(draws))
    assert new_topic_id() == plain
