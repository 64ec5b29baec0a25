"""Every kind and version of record in Kafka's internal topics, written by Kafka itself with random fields: tests/golden/internal."""

import base64
import json
import re
from typing import Any
from uuid import UUID

import pytest

from tests.support.golden import GOLDEN
from tidelog.disk.names import TopicPartition
from tidelog.schema import consumer_offsets, transaction_state
from tidelog.schema.consumer_offsets import GroupMetadataKey, OffsetCommitKey, OtherKey
from tidelog.schema.decoders import DecodedRecord, decode_internal
from tidelog.schema.group_tables import group_kinds
from tidelog.schema.metadata_tables import metadata_kinds, raft_kinds
from tidelog.schema.transaction_tables import transaction_kinds

TOPICS = ("consumer_offsets", "transaction_state", "cluster_metadata")
Golden = dict[str, Any]


def golden(topic: str) -> list[Golden]:
    records: list[Golden] = json.loads((GOLDEN / "internal" / f"{topic}.json").read_text())["records"]
    return records


def parts(record: Golden) -> tuple[bytes | None, bytes]:
    return None if record["key"] is None else bytes.fromhex(record["key"]), bytes.fromhex(record["value"])


def as_kafka_says(value: Any) -> Any:
    """What we have decoded, in the form that Kafka's converters give it."""
    if isinstance(value, dict):
        return {name: as_kafka_says(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_kafka_says(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


def snake_case(value: Any) -> Any:
    if isinstance(value, dict):
        names = {name: re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name).replace("k_raft", "kraft") for name in value}
        return {names[name]: snake_case(item) for name, item in value.items()}
    return [snake_case(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("topic", TOPICS)
def test_all_fields_are_those_that_kafka_reads(topic: str) -> None:
    for record in golden(topic):
        key, value = parts(record)
        found = decode_internal(f"__{topic}", key, value)
        assert found is not None
        assert found.notes == ()
        assert (found.kind, found.value_version) == (record["kind"], record["version"])
        assert as_kafka_says(found.value) == snake_case(record["value_json"]), record
        if record["key_json"] is not None:
            assert as_kafka_says(found.key) == snake_case(record["key_json"])


def test_every_kind_and_version_is_there() -> None:
    """Also that none of ours is more than Kafka has."""
    for topic, kinds in zip(TOPICS, ((group_kinds(),), (transaction_kinds(),), (metadata_kinds(), raft_kinds())), strict=True):
        ours = {
            (kind.name, version)
            for table in kinds
            for kind in table.values()
            if kind.value is not None
            for version in range(kind.value.first_version, kind.value.last_version + 1)
        }
        assert ours == {(record["kind"], record["version"]) for record in golden(topic)}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_tombstone_has_a_key_and_no_value(topic: str) -> None:
    for record in golden(topic):
        key, _ = parts(record)
        found = decode_internal(f"__{topic}", key, None)
        if key is None:
            assert found == DecodedRecord(notes=("a record without key and value",))
        else:
            assert found is not None
            assert (found.kind, found.value, found.raw_value, found.notes) == (record["kind"], None, None, ())


@pytest.mark.parametrize("topic", TOPICS)
def test_what_is_cut_off_stays_bytes(topic: str) -> None:
    """At every byte of every record; what is left may be another record, but never raises, and never gets lost."""
    for record in golden(topic):
        key, value = parts(record)
        for end in range(len(value)):
            found = decode_internal(f"__{topic}", key, value[:end])
            assert found is not None
            assert (found.raw_value, found.value) == (value[:end], None), record
            assert len(found.notes) == 1
        for end in range(len(key or b"")):
            cut = (key or b"")[:end]
            found = decode_internal(f"__{topic}", cut, value)
            assert found is not None
            assert found.raw_key == cut
            assert found.notes


def test_positions_are_read_as_typed_values() -> None:
    for record in golden("consumer_offsets"):
        key, value = parts(record)
        assert key is not None
        names = record["key_json"]
        parsed = consumer_offsets.parse_key(key)
        if record["kind"] in ("offset_commit", "legacy_offset_commit"):
            assert parsed == OffsetCommitKey(names["group"], names["topic"], names["partition"])
            fields = record["value_json"]
            position = consumer_offsets.parse_offset_value(value)
            assert (position.offset, position.metadata, position.commit_timestamp_ms) == tuple(
                fields[name] for name in ("offset", "metadata", "commitTimestamp")
            )
            assert position.leader_epoch == fields.get("leaderEpoch", -1)
            assert position.expire_timestamp_ms == fields.get("expireTimestamp", -1)
            assert as_kafka_says(position.topic_id) == fields.get("topicId")
        elif record["kind"] == "group_metadata":
            assert parsed == GroupMetadataKey(names["group"])
        else:
            assert parsed == OtherKey(int.from_bytes(key[:2], "big"), key)


def test_our_positions_are_kafkas_bytes() -> None:
    checked = 0
    for record in golden("consumer_offsets"):
        key, value = parts(record)
        if record["kind"] == "offset_commit":
            assert key is not None
            parsed = consumer_offsets.parse_key(key)
            assert isinstance(parsed, OffsetCommitKey)
            assert consumer_offsets.format_offset_key(parsed) == key
            if record["version"] == consumer_offsets.OFFSET_VALUE_VERSION:
                assert consumer_offsets.format_offset_value(consumer_offsets.parse_offset_value(value)) == value
                checked += 1
    assert checked


def test_groups_are_read_as_typed_values() -> None:
    for record in golden("consumer_offsets"):
        if record["kind"] != "group_metadata":
            continue
        fields, group = record["value_json"], consumer_offsets.parse_group_value(parts(record)[1])
        assert (group.protocol_type, group.generation, group.protocol, group.leader) == tuple(
            fields[name] for name in ("protocolType", "generation", "protocol", "leader")
        )
        assert group.current_state_timestamp_ms == fields.get("currentStateTimestamp", -1)
        assert [as_kafka_says(vars_of(member)) for member in group.members] == [
            {"rebalance_timeout": -1, "group_instance_id": None, **snake_case(member)} for member in fields["members"]
        ]


def vars_of(member: consumer_offsets.MemberMetadata) -> dict[str, Any]:
    return {name.removesuffix("_ms"): getattr(member, name) for name in member.__dataclass_fields__}


def test_transactions_are_read_as_typed_values() -> None:
    for record in golden("transaction_state"):
        key, value = parts(record)
        assert key is not None
        transactional_id, state, fields = transaction_state.parse_key(key), transaction_state.parse_value(value), record["value_json"]
        assert transactional_id == record["key_json"]["transactionalId"]
        assert transaction_state.format_key(transactional_id) == key
        assert (state.producer_id, state.producer_epoch, state.timeout_ms, state.status, state.last_update_ms, state.start_ms) == tuple(
            fields[name]
            for name in (
                "producerId",
                "producerEpoch",
                "transactionTimeoutMs",
                "transactionStatus",
                "transactionLastUpdateTimestampMs",
                "transactionStartTimestampMs",
            )
        )
        topics = fields["transactionPartitions"]
        if topics is None:
            assert state.partitions is None
        else:
            assert state.partitions == tuple(TopicPartition(one["topic"], number) for one in topics for number in one["partitionIds"])
        assert (state.previous_producer_id, state.next_producer_id) == (
            fields.get("previousProducerId", -1),
            fields.get("nextProducerId", -1),
        )
        assert state.client_transaction_version == fields.get("clientTransactionVersion", 0)
        assert state.next_producer_epoch == fields.get("nextProducerEpoch", -1)
        if record["version"] == transaction_state.VALUE_VERSION and has_each_topic_once(topics):
            assert transaction_state.format_value(state) == value


def has_each_topic_once(topics: list[Any] | None) -> bool:
    names = [one["topic"] for one in topics or () if one["partitionIds"]]
    return len(names) == len(set(names)) == len(topics or ())
