"""Decoders of keys and values: what they make of good bytes, and of bad ones."""

import importlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.errors import InvalidConfigError, MalformedRecordError, MissingPackageError
from tidelog.schema.value_decoders import decoder_of

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
    ],
}


def decode(name: str, data: bytes, schema: str | None = None, *, is_framed: bool = False) -> Any:
    decoder = decoder_of(name, schema, is_framed=is_framed)
    assert decoder is not None
    return decoder(data)


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("utf8", "größe".encode(), "größe"), ("json", b"[1, null]", [1, None]), ("hex", b"\x00\xff", "00ff"), ("int", b"\xff", -1),
        ("int", b"\x00\x00\x01\x00", 256), ("int", b"\x80" + b"\x00" * 7, -(1 << 63)),
    ],
)  # fmt: skip
def test_plain_ones(name: str, data: bytes, value: object) -> None:
    assert decode(name, data) == value
    assert decoder_of(None) is None


@pytest.mark.parametrize(("name", "data"), [("utf8", b"\xff"), ("json", b"{"), ("json", b"\xff"), ("int", b""), ("int", b"123456789")])
def test_bytes_that_are_something_else(name: str, data: bytes) -> None:
    with pytest.raises(MalformedRecordError):
        decode(name, data)


def protobuf_schema(folder: Path) -> tuple[str, Any]:
    """A file of descriptors as protoc would write it, and the class of its message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    order.field.add(name="order_id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="note", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    path = folder / "all.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return f"{path}:shop.Order", message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(tmp_path: Path) -> None:
    schema, order = protobuf_schema(tmp_path)
    data = order(order_id=7, note="ü").SerializeToString()
    assert decode("protobuf", data, schema) == {"order_id": "7", "note": "ü"}
    for indexes in (b"\x00", b"\x02\x00", b"\x04\x02\x00"):
        assert decode("protobuf", b"\x00\x00\x00\x00\x09" + indexes + data, schema, is_framed=True) == {"order_id": "7", "note": "ü"}
    for bad in (b"\xff\xff", b"\x12\x7f"):
        with pytest.raises(MalformedRecordError, match=r"no shop\.Order"):
            decode("protobuf", bad, schema)
    for frame in (b"", b"\x01\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"):
        with pytest.raises(MalformedRecordError, match="frame"):
            decode("protobuf", frame, schema, is_framed=True)


def test_schemas_that_are_none(tmp_path: Path) -> None:
    schema, _ = protobuf_schema(tmp_path)
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    for wrong in (schema.replace("Order", "Nope"), f"{tmp_path}/bad.desc:shop.Order", f"{tmp_path}/none.desc:shop.Order", "shop.Order"):
        with pytest.raises(InvalidConfigError):
            decoder_of("protobuf", wrong)


def test_avro(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro", reason="an optional package")
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(SCHEMA))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, SCHEMA, {"id": 5, "note": None, "at": 0, "raw": b"\xff"})
    data = stream.getvalue()
    value = {"id": 5, "note": None, "at": "1970-01-01 00:00:00+00:00", "raw": b"\xff"}
    assert decode("avro", data, str(path)) == value
    assert decode("avro", b"\x00\x00\x00\x00\x01" + data, str(path), is_framed=True) == value
    for bad in (b"", data[:-1], data + b"x", b"\x0a\x08"):
        with pytest.raises(MalformedRecordError, match="not by the Avro schema"):
            decode("avro", bad, str(path))
    (tmp_path / "bad.avsc").write_text('{"type": "nope"}')
    with pytest.raises(InvalidConfigError, match="no Avro schema"):
        decoder_of("avro", str(tmp_path / "bad.avsc"))


@pytest.mark.parametrize(("name", "package"), [("avro", "fastavro"), ("protobuf", "protobuf")])
def test_a_package_that_is_missing_is_named_with_its_extra(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(module: str, of: str | None = None) -> Any:
        if module.startswith(("fastavro", "google.protobuf")):
            raise ImportError(module)
        return real(module, of)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingPackageError) as caught:
        decoder_of(name, "x.desc:y")
    assert f"needs the package {package}" in caught.value.what
    assert caught.value.hint == f'pip install "tidelog[{name}]"'


def test_a_protobuf_message_that_parses_and_still_is_none(tmp_path: Path) -> None:
    """A time that no calendar has is no fault of the program."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="at.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    at = file.message_type.add(name="At").field.add(name="at", number=1, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL)
    at.type_name = ".google.protobuf.Timestamp"
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    (tmp_path / "at.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[known, file]).SerializeToString())
    late = timestamp_pb2.Timestamp(seconds=1 << 60).SerializeToString()
    with pytest.raises(MalformedRecordError, match=r"no shop\.At"):
        decode("protobuf", b"\x0a" + bytes([len(late)]) + late, f"{tmp_path}/at.desc:shop.At")


def test_avro_that_is_nested_without_end(tmp_path: Path) -> None:
    pytest.importorskip("fastavro", reason="an optional package")
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    (tmp_path / "node.avsc").write_text(json.dumps(schema))
    assert decode("avro", b"\x02" * 50 + b"\x00", str(tmp_path / "node.avsc"))["next"]["next"] is not None
    with pytest.raises(MalformedRecordError, match="nested deeper than 200 levels"):
        decode("avro", b"\x02" * 2000 + b"\x00", str(tmp_path / "node.avsc"))
