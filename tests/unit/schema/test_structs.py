"""Reading by a table: versions, nulls, tags, and what becomes of what is not known."""

from io import BytesIO
from uuid import UUID

import pytest
from kio.serial import writers
from kio.static.primitive import i16, i32, uvarint

from tidelog.errors import MalformedRecordError, UnsupportedError
from tidelog.schema.consumer_offsets import subscribed_topics
from tidelog.schema.decoders import DecodedRecord, decode_internal
from tidelog.schema.fields import FieldReader
from tidelog.schema.structs import Message, parse_table

TABLE = """
7 thing
  key 0
    name string
  value 0-2 flexible 2+
    size int32
    note string? 1+
    old int16 0
    parts []
      number int32
      tags []string? 1+
    home {}? 1+
      street string
    id uuid 2+ tag 3
"""


def thing() -> Message:
    value = parse_table(TABLE)[7].value
    assert value is not None
    return value


def test_versions_have_their_fields() -> None:
    first = b"\x00\x00\x00\x05" + b"\x00\x09" + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x02"
    assert thing().read(FieldReader(first), 0) == {"size": 5, "old": 9, "parts": [{"number": 1}, {"number": 2}]}
    second = b"\x00\x00\x00\x05" + b"\xff\xff" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x07" + b"\xff\xff\xff\xff" + b"\xff"
    assert thing().read(FieldReader(second), 1) == {"size": 5, "note": None, "parts": [{"number": 7, "tags": None}], "home": None}


def test_flexible_versions_by_the_primitives_of_kio() -> None:
    buffer = BytesIO()
    writers.write_int32(buffer, i32(5))
    writers.write_nullable_compact_string(buffer, "größe")
    writers.write_unsigned_varint(buffer, uvarint(2))  # one part
    writers.write_int32(buffer, i32(-1))
    writers.write_unsigned_varint(buffer, uvarint(3))  # two tags
    for text in ("", "b"):
        writers.write_compact_string(buffer, text)
    writers.write_unsigned_varint(buffer, uvarint(0))  # no tagged fields in the part
    buffer.write(b"\x01")
    writers.write_compact_string(buffer, "Kai 1")
    buffer.write(b"\x01\x09\x02xy")  # one that is not known, in the home
    writers.write_unsigned_varint(buffer, uvarint(1))
    writers.write_unsigned_varint(buffer, uvarint(3))
    writers.write_unsigned_varint(buffer, uvarint(16))
    writers.write_uuid(buffer, UUID(int=5))
    reader = FieldReader(buffer.getvalue())
    assert thing().read(reader, 2) == {
        "size": 5,
        "note": "größe",
        "parts": [{"number": -1, "tags": ["", "b"]}],
        "home": {"street": "Kai 1", "unknown_tagged_fields": {9: b"xy"}},
        "id": UUID(int=5),
    }
    assert reader.remaining == 0


@pytest.mark.parametrize("version", [-1, 3])
def test_other_versions(version: int) -> None:
    with pytest.raises(UnsupportedError, match="expected 0 to 2"):
        thing().read(FieldReader(bytes(100)), version)


def test_a_tagged_field_of_another_size() -> None:
    data = b"\x00\x00\x00\x05" + b"\x00" + b"\x01" + b"\xff" + b"\x01\x03\x11" + bytes(17)
    with pytest.raises(MalformedRecordError, match="larger than it should be"):
        thing().read(FieldReader(data), 2)


def test_an_absurd_length_takes_no_memory() -> None:
    with pytest.raises(MalformedRecordError, match="a length past the end"):
        thing().read(FieldReader(b"\x00\x00\x00\x05\x00\x00\x7f\xff\xff\xff"), 0)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**28, 2**32 - 1])
def test_varints(number: int) -> None:
    buffer = BytesIO()
    writers.write_unsigned_varint(buffer, uvarint(number))
    assert FieldReader(buffer.getvalue()).unsigned_varint() == number


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\x7f", b"\xff" * 6])
def test_varints_that_are_none(data: bytes) -> None:
    with pytest.raises(MalformedRecordError):
        FieldReader(data).unsigned_varint()


def test_a_subscription() -> None:
    buffer = BytesIO()
    writers.write_int16(buffer, i16(3))
    writers.write_int32(buffer, i32(2))
    for topic in ("emails", "größe"):
        writers.write_legacy_string(buffer, topic)
    buffer.write(b"\xff\xff\xff\xff rest")
    assert subscribed_topics(buffer.getvalue()) == ("emails", "größe")
    assert subscribed_topics(b"\x00\x00\x00\x00\x00\x00") == ()
    with pytest.raises(UnsupportedError):
        subscribed_topics(b"\xff\xff\x00\x00\x00\x00")
    with pytest.raises(MalformedRecordError):
        subscribed_topics(b"\x00\x00\x00\x00\x00\x01")


def test_bytes_behind_the_last_field_are_told() -> None:
    """Kafka's coordinators pass over them; its metadata log has none."""
    key = b"\x00\x03\x00\x01g"
    found = decode_internal("__consumer_offsets", key + b"x", b"\x00\x00\x00\x00\x00\x05\x00yz")
    assert found is not None
    assert (found.key, found.value) == ({"group_id": "g"}, {"epoch": 5})
    assert found.notes == ("key: 1 bytes behind the last field", "value: 2 bytes behind the last field")
    assert decode_internal("__cluster_metadata", None, b"\x01\x14\x00\x00z") == DecodedRecord(
        kind="no_op_record", value_version=0, raw_value=b"\x01\x14\x00\x00z", notes=("value: 1 bytes behind the last field",)
    )


def test_kinds_that_are_not_known() -> None:
    assert decode_internal("__consumer_offsets", b"\x00\x09x", b"v") == DecodedRecord(
        key_version=9, raw_key=b"\x00\x09x", raw_value=b"v", notes=("key: an unknown kind of key, 9",)
    )
    assert decode_internal("__consumer_offsets", None, b"v") == DecodedRecord(raw_value=b"v", notes=("a record without key",))
    metadata = decode_internal("__cluster_metadata", None, b"\x01\x63\x00\x00")
    assert metadata is not None
    assert (metadata.kind, metadata.raw_value, metadata.notes) == (None, b"\x01\x63\x00\x00", ("value: an unknown kind of record, 99",))
    control = decode_internal("__cluster_metadata", b"\x00\x00\x00\x63", b"x")
    assert control is not None
    assert (control.key, control.raw_value) == ({"version": 0, "type": 99}, b"x")
