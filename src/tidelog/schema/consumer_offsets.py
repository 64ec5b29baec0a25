"""The records of `__consumer_offsets` that a store reads and writes: positions, and who was in a classic group.

    key of a position              value of a position, version 3
      kind             int16, 1      version                int16, 3
      group            string        offset                 int64      the next record to be read
      topic            string        leader epoch           int32      of the last record read, -1: not known
      partition        int32         metadata               string     the caller's own words
                                     commit timestamp       int64

Kafka calls the number that a key begins with its version; it says what the record is about. Positions have 0 or 1, classic groups 2, and
what the newer kinds of group keep has 3 to 23: those are `OtherKey` here and are told apart by `tidelog.schema.decoders`. Versions 0 to 4
of a position are read. Version 1 has a time when it expires behind the rest, version 4 is flexible and may have a topic id.
A value of None, a tombstone, takes back what the key had.
"""

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.errors import MalformedRecordError, UnsupportedError
from tidelog.schema.fields import FieldReader, encoded, int16_string

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
OFFSET_VALUE_VERSION: Final = 3

_KEY_START = struct.pack(">h", OFFSET_COMMIT)
_PARTITION = struct.Struct(">i")
_VALUE_START = struct.Struct(">hqih")
_VALUE_END = struct.Struct(">q")
_TOPIC_ID_TAG = 0


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """Whose position, and where."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """A position: the offset of the next record to be read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    """When it is to go, of version 1; -1: by the rules of the broker."""
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """A classic group."""

    group: str


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A classic group after its last rebalance. Without members it is empty, since `current_state_timestamp_ms` if that is known."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...]


@dataclass(frozen=True, slots=True)
class OtherKey:
    """A key of another kind: that of a newer group, or one that Kafka 4.2 does not know."""

    version: int
    data: bytes


def parse_key(data: bytes) -> OffsetCommitKey | GroupMetadataKey | OtherKey:
    """What a record is about."""
    reader = FieldReader(data)
    version = reader.int16()
    if version in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
        return OffsetCommitKey(reader.string(), reader.string(), reader.int32())
    if version == GROUP_METADATA:
        return GroupMetadataKey(reader.string())
    return OtherKey(version, data)


def format_offset_key(key: OffsetCommitKey) -> bytes:
    """The key of a position, version 1."""
    return b"".join((_KEY_START, int16_string(key.group), int16_string(key.topic), _PARTITION.pack(key.partition)))


def parse_offset_value(data: bytes) -> OffsetCommitValue:
    """A position, of any version."""
    reader = FieldReader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise UnsupportedError("an unknown version of a position", expected="0 to 4", found=version)
    is_flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string(flexible=is_flexible)
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    topic_id = _topic_id(reader) if is_flexible else None
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id)


def format_offset_value(value: OffsetCommitValue) -> bytes:
    """A position, version 3, which has no time when it expires and no topic id."""
    metadata = encoded(value.metadata)
    start = _VALUE_START.pack(OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata))
    return b"".join((start, metadata, _VALUE_END.pack(value.commit_timestamp_ms)))


def parse_group_value(data: bytes) -> GroupMetadataValue:
    """A classic group, of any version."""
    reader = FieldReader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise UnsupportedError("an unknown version of a group", expected="0 to 4", found=version)
    is_flexible = version >= 4
    protocol_type, generation = reader.string(flexible=is_flexible), reader.int32()
    protocol, leader = reader.nullable_string(flexible=is_flexible), reader.nullable_string(flexible=is_flexible)
    current_state_timestamp_ms = reader.int64() if version >= 2 else -1
    count = reader.length(flexible=is_flexible)
    if count < 0:
        raise MalformedRecordError("null in place of the members", position=reader.position)
    members = tuple([_member(reader, version) for _ in range(count)])
    return GroupMetadataValue(protocol_type, generation, protocol, leader, current_state_timestamp_ms, members)


def subscribed_topics(subscription: bytes) -> tuple[str, ...]:
    """The topics of a member, from what it said on joining (`ConsumerProtocolSubscription`; later versions begin alike)."""
    reader = FieldReader(subscription)
    version = reader.int16()
    if version < 0:
        raise UnsupportedError("an unknown version of a subscription", expected="0 or above", found=version)
    return tuple([reader.string() for _ in range(max(reader.length(), 0))])


def _member(reader: FieldReader, version: int) -> MemberMetadata:
    is_flexible = version >= 4
    member = MemberMetadata(
        member_id=reader.string(flexible=is_flexible),
        group_instance_id=reader.nullable_string(flexible=is_flexible) if version >= 3 else None,
        client_id=reader.string(flexible=is_flexible),
        client_host=reader.string(flexible=is_flexible),
        rebalance_timeout_ms=reader.int32() if version >= 1 else -1,
        session_timeout_ms=reader.int32(),
        subscription=reader.byte_string(flexible=is_flexible),
        assignment=reader.byte_string(flexible=is_flexible),
    )
    if is_flexible:
        for _tag, _value in reader.tagged():
            pass  # none is known
    return member


def _topic_id(reader: FieldReader) -> UUID | None:
    found = None
    for tag, value in reader.tagged():
        if tag == _TOPIC_ID_TAG:
            found = value.uuid()
    return found
