"""The records of Kafka's internal topics as plain values, to be looked at.

Nothing here raises. A kind or version that Kafka 4.2 does not know, and bytes that are not what they should be, stay bytes, and a note
says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidelog.errors import TidelogError, UnsupportedError
from tidelog.schema.fields import FieldReader
from tidelog.schema.group_tables import group_kinds
from tidelog.schema.metadata_tables import metadata_kinds, raft_kinds
from tidelog.schema.structs import Message, RecordKind
from tidelog.schema.transaction_tables import transaction_kinds

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
DECODED_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, CLUSTER_METADATA))

_CONTROL_KEY_BYTES = 4


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record of an internal topic. Names of fields are Kafka's in snake_case; tagged fields that are not there are missing."""

    kind: str | None = None
    """`offset_commit`, `transaction_log`, `topic_record` …, as Kafka names them; None if it is none of these."""
    key_version: int | None = None
    """The number that a key begins with. Kafka calls it a version, and it says which kind it is."""
    value_version: int | None = None
    key: dict[str, Any] | None = None
    value: dict[str, Any] | None = None
    raw_key: bytes | None = None
    """The key, where it could not be decoded."""
    raw_value: bytes | None = None
    notes: tuple[str, ...] = ()
    """Why something could not be decoded."""


def decode_internal(topic: str, key: bytes | None, value: bytes | None) -> DecodedRecord | None:
    """What a record says, or None if the topic is none of the three."""
    if topic == CONSUMER_OFFSETS:
        return _decode_coordinator_record(group_kinds, key, value)
    if topic == TRANSACTION_STATE:
        return _decode_coordinator_record(transaction_kinds, key, value)
    if topic == CLUSTER_METADATA:
        return _decode_metadata(value) if key is None else _decode_raft_record(key, value)
    return None


def metadata_frame(reader: FieldReader) -> tuple[int, int]:
    """The kind and the version of a metadata record, whose fields come next."""
    frame = reader.unsigned_varint()
    if frame not in (0, 1):
        raise UnsupportedError("an unknown frame of a metadata record", expected="version 0 or 1", found=frame)
    return reader.unsigned_varint(), reader.unsigned_varint()


def _decode_coordinator_record(kinds: Callable[[], dict[int, RecordKind]], key: bytes | None, value: bytes | None) -> DecodedRecord:
    """A record of a coordinator: the key begins with its kind, the value with its version, both as int16."""
    if key is None:
        return DecodedRecord(raw_value=value, notes=("a record without key",))
    number, kind, fields, notes = None, None, None, []
    try:
        reader = FieldReader(key)
        number = reader.int16()
        kind = kinds().get(number)
        if kind is None or kind.key is None:
            raise UnsupportedError(f"an unknown kind of key, {number}")
        fields = kind.key.read(reader, 0)
        notes += _rest("key", reader)
    except TidelogError as error:
        notes.append(f"key: {error}")
    if kind is None:
        return DecodedRecord(key_version=number, raw_key=key, raw_value=value, notes=tuple(notes))
    version, values, value_notes = _decode_value(kind, value)
    return DecodedRecord(
        kind=kind.name,
        key_version=number,
        value_version=version,
        key=fields,
        value=values,
        raw_key=key if fields is None else None,
        raw_value=value if values is None else None,
        notes=(*notes, *value_notes),
    )


def _decode_value(kind: RecordKind, value: bytes | None) -> tuple[int | None, dict[str, Any] | None, list[str]]:
    if value is None:
        return None, None, []
    version = None
    assert kind.value is not None
    try:
        reader = FieldReader(value)
        version = reader.int16()
        return version, kind.value.read(reader, version), _rest("value", reader)
    except TidelogError as error:
        return version, None, [f"value: {error}"]


def _decode_metadata(value: bytes | None) -> DecodedRecord:
    if value is None:
        return DecodedRecord(notes=("a record without key and value",))
    name, version = None, None
    try:
        reader = FieldReader(value)
        number, version = metadata_frame(reader)
        kind = metadata_kinds().get(number)
        if kind is None or kind.value is None:
            raise UnsupportedError(f"an unknown kind of record, {number}")
        name = kind.name
        fields = _read_all(kind.value, reader, version)
    except TidelogError as error:
        return DecodedRecord(kind=name, value_version=version, raw_value=value, notes=(f"value: {error}",))
    return DecodedRecord(kind=name, value_version=version, value=fields)


def _decode_raft_record(key: bytes, value: bytes | None) -> DecodedRecord:
    """A control record, of which Raft's log has its own."""
    if len(key) != _CONTROL_KEY_BYTES:
        return DecodedRecord(raw_key=key, raw_value=value, notes=("a key of no control record",))
    key_reader = FieldReader(key)
    key_version, number = key_reader.int16(), key_reader.int16()
    fields = {"version": key_version, "type": number}
    kind = raft_kinds().get(number)
    if kind is None or kind.value is None:
        note = f"an unknown type of control record, {number}"
        return DecodedRecord(key_version=key_version, key=fields, raw_value=value, notes=(note,))
    if value is None:
        return DecodedRecord(kind=kind.name, key_version=key_version, key=fields)
    version = None
    try:
        version = FieldReader(value).int16()
        values = _read_all(kind.value, FieldReader(value), version)
    except TidelogError as error:
        note = f"value: {error}"
        return DecodedRecord(kind.name, key_version, version, fields, raw_value=value, notes=(note,))
    return DecodedRecord(kind.name, key_version, version, fields, values)


def _read_all(message: Message, reader: FieldReader, version: int) -> dict[str, Any]:
    fields = message.read(reader, version)
    if reader.remaining:
        raise UnsupportedError(f"{reader.remaining} bytes behind the last field")
    return fields


def _rest(part: str, reader: FieldReader) -> list[str]:
    """Bytes behind the last field, which Kafka passes over."""
    return [f"{part}: {reader.remaining} bytes behind the last field"] if reader.remaining else []
