"""Records of the internal topics: what is written is read again, and no bytes whatever do harm."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.schema.test_golden_records import TOPICS, golden, parts
from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptError, InvalidBatchError, UnsupportedError
from tidelog.schema import consumer_offsets, transaction_state
from tidelog.schema.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from tidelog.schema.decoders import decode_internal
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
INT16, INT32, INT64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
GOLDEN = [(topic, *parts(record)) for topic in TOPICS for record in golden(topic)]


@given(st.builds(OffsetCommitKey, TEXTS, TEXTS, INT32))
def test_keys_of_positions(key: OffsetCommitKey) -> None:
    data = consumer_offsets.format_offset_key(key)
    assert consumer_offsets.parse_key(data) == key
    decoded = decode_internal("__consumer_offsets", data, None)
    assert decoded is not None
    assert decoded.key == {"group": key.group, "topic": key.topic, "partition": key.partition}


@given(st.builds(OffsetCommitValue, INT64, INT32, TEXTS, INT64))
def test_positions(value: OffsetCommitValue) -> None:
    data = consumer_offsets.format_offset_value(value)
    assert consumer_offsets.parse_offset_value(data) == value
    key = consumer_offsets.format_offset_key(OffsetCommitKey("g", "t", 0))
    decoded = decode_internal("__consumer_offsets", key, data)
    assert decoded is not None
    assert decoded.value == {
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp": value.commit_timestamp_ms,
    }


PARTITIONS = st.none() | st.lists(st.builds(TopicPartition, TEXTS, INT32), max_size=8).map(tuple)


@given(TEXTS, st.builds(TransactionLogValue, INT64, INT16, INT32, st.sampled_from(TransactionStatus), PARTITIONS, INT64, INT64))
def test_states_of_transactions(transactional_id: str, value: TransactionLogValue) -> None:
    key, data = transaction_state.format_key(transactional_id), transaction_state.format_value(value)
    assert transaction_state.parse_key(key) == transactional_id
    found = transaction_state.parse_value(data)
    assert sorted(found.partitions or ()) == sorted(value.partitions or ())
    assert (found.partitions is None) == (value.partitions is None)
    assert transaction_state.format_value(found) == data
    assert all(getattr(found, name) == getattr(value, name) for name in found.__dataclass_fields__ if name != "partitions")
    decoded = decode_internal("__transaction_state", key, data)
    assert decoded is not None
    assert decoded.notes == ()


@pytest.mark.parametrize("text", ["\ud800", "x" * 32768, "ü" * 16384])
def test_texts_that_cannot_be(text: str) -> None:
    calls: list[Callable[[], bytes]] = [
        lambda: consumer_offsets.format_offset_key(OffsetCommitKey(text, "t", 0)),
        lambda: consumer_offsets.format_offset_key(OffsetCommitKey("g", text, 0)),
        lambda: consumer_offsets.format_offset_value(OffsetCommitValue(0, metadata=text)),
        lambda: transaction_state.format_key(text),
    ]
    for call in calls:
        with pytest.raises(InvalidBatchError):
            call()


def test_the_longest_text() -> None:
    key = OffsetCommitKey("x" * 32767, "t", 0)
    assert consumer_offsets.parse_key(consumer_offsets.format_offset_key(key)) == key


PARSERS: list[Any] = [
    consumer_offsets.parse_key,
    consumer_offsets.parse_offset_value,
    consumer_offsets.parse_group_value,
    consumer_offsets.subscribed_topics,
    transaction_state.parse_key,
    transaction_state.parse_value,
]
STARTS = st.sampled_from([b"", *(bytes([0, number]) for number in range(25)), *(bytes([1, number, 0]) for number in range(30))])


@given(st.builds(bytes.__add__, STARTS, st.binary(max_size=60)))
@example(b"\x00\x04" + b"\xff" * 30)
@example(b"\x00\x01" + bytes(16) + b"\x7f\xff\xff\xff" * 4)
def test_bytes_whatever_raise_typed_errors_only(data: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(data)
        except (CorruptError, UnsupportedError):
            continue


@given(st.sampled_from(TOPICS), st.none() | st.builds(bytes.__add__, STARTS, st.binary(max_size=40)), st.none() | st.binary(max_size=80))
def test_decoding_bytes_whatever_raises_nothing(topic: str, key: bytes | None, value: bytes | None) -> None:
    check_decoded(topic, key, value)


@given(st.sampled_from(GOLDEN), st.data())
def test_decoding_changed_records_raises_nothing(record: tuple[str, bytes | None, bytes], data: st.DataObject) -> None:
    topic, key, value = record
    changed = bytearray(value)
    for _ in range(data.draw(st.integers(1, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    check_decoded(topic, key, bytes(changed))
    for parse in PARSERS:
        try:
            parse(bytes(changed))
        except (CorruptError, UnsupportedError):
            continue


def check_decoded(topic: str, key: bytes | None, value: bytes | None) -> None:
    """Nothing is raised, and nothing gets lost: what is not decoded is there as bytes, with a word about it."""
    found = decode_internal(f"__{topic}", key, value)
    assert found is not None
    assert key is None or (found.key is None) == (found.raw_key is not None)
    assert value is None or (found.value is None) == (found.raw_value is not None)
    assert found.raw_key in (None, key)
    assert found.raw_value in (None, value)
    if found.raw_key is not None or found.raw_value is not None:
        assert found.notes


def test_other_topics_are_left_alone() -> None:
    for topic in ("emails", "__share_group_state", ""):
        assert decode_internal(topic, b"\x00\x01", b"") is None
