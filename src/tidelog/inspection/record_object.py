"""Records and batches as plain objects, one for each line that `cat` and `dump` print. Bytes stay bytes until they are rendered."""

from typing import Any

from tidelog.errors import TidelogError
from tidelog.record.compression import Compression
from tidelog.record.control import ControlType, parse_control_record
from tidelog.record.headers import BatchHeaders
from tidelog.record.kernel.record import Record
from tidelog.record.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
    sequence_after,
)
from tidelog.schema.decoders import CLUSTER_METADATA, decode_internal

Object = dict[str, Any]


def record_object(record: Record, *, raw: bool = False) -> Object:
    """A record, with its topic and partition where it knows them.

    Of the internal topics, key and value are what Kafka's schemas say, unless `raw`, and as far as they can be read.
    """
    found: Object = {"type": "record"}
    if record.topic is not None:
        found |= {"topic": record.topic, "partition": record.partition}
    found |= {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": str(record.timestamp_type),
        "key": record.key,
        "value": record.value,
        "headers": [[name, value] for name, value in record.headers],
        "sequence": record.sequence,
    }
    if not raw and record.topic is not None:
        found |= _decoded(record.topic, record)
    return found


def control_object(record: Record, *, raw: bool = False) -> Object:
    """The record of a control batch, with what it says."""
    # A marker is the same in every topic; only the metadata log has control records with schemas of their own.
    found = record_object(record, raw=raw or record.topic != CLUSTER_METADATA)
    try:
        control = parse_control_record(record)
    except TidelogError as error:
        return found | {"control_type": None, "notes": [str(error)]}
    found["control_type"] = control.type.name if control.type is not ControlType.UNKNOWN else f"UNKNOWN_{control.type_id}"
    if control.coordinator_epoch is not None:
        found["coordinator_epoch"] = control.coordinator_epoch
    return found


def _decoded(topic: str, record: Record) -> Object:
    decoded = decode_internal(topic, record.key, record.value)
    if decoded is None:
        return {}
    found: Object = {
        "key": record.key if decoded.key is None else decoded.key,
        "value": record.value if decoded.value is None else decoded.value,
        "kind": decoded.kind,
        "key_version": decoded.key_version,
        "value_version": decoded.value_version,
    }
    if decoded.notes:
        found["notes"] = list(decoded.notes)
    return found


def batch_object(headers: BatchHeaders, row: int, position: int, *, is_valid: bool | None) -> Object:
    """A batch, by its header. What a header does not say is None: how many records an old wrapper has, and its first offset."""
    fields = {name: int(getattr(headers, name)[row]) for name in _FIELDS}
    magic, attributes = fields["magic"], fields["attributes"]
    is_wrapper = magic < 2 and attributes & CODEC_MASK != 0
    timestamp_type = TimestampType.LOG_APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME
    delta = fields["last_offset"] - fields["base_offset"]
    base_sequence = fields["base_sequence"]
    return {
        "type": "batch",
        "base_offset": None if is_wrapper else fields["base_offset"],
        "last_offset": fields["last_offset"],
        "count": None if is_wrapper else fields["count"],
        "base_sequence": base_sequence,
        "last_sequence": base_sequence if base_sequence < 0 else sequence_after(base_sequence, delta),
        "producer_id": fields["producer_id"],
        "producer_epoch": fields["producer_epoch"],
        "partition_leader_epoch": fields["partition_leader_epoch"],
        "is_transactional": magic == 2 and bool(attributes & TRANSACTIONAL_BIT),
        "is_control": magic == 2 and bool(attributes & CONTROL_BIT),
        "delete_horizon_ms": fields["base_timestamp_ms"] if magic == 2 and attributes & DELETE_HORIZON_BIT else None,
        "position": position,
        "timestamp_type": str(timestamp_type if magic else TimestampType.NO_TIMESTAMP_TYPE),
        "max_timestamp_ms": fields["max_timestamp_ms"],
        "size_bytes": fields["size_bytes"],
        "magic": magic,
        "compression": _codec_name(attributes & CODEC_MASK),
        "crc": fields["crc"] & 0xFFFFFFFF,
        "is_valid": is_valid,
    }


_FIELDS = (
    "size_bytes",
    "magic",
    "attributes",
    "base_offset",
    "last_offset",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "partition_leader_epoch",
    "count",
    "crc",
)


def _codec_name(number: int) -> str:
    return str(Compression(number)) if number in Compression._value2member_map_ else f"unknown-{number}"
