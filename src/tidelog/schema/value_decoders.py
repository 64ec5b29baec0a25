"""Keys and values of anybody's topics as plain values, by the name of what they are.

    utf8 json hex int      nothing else is needed; int is a big-endian integer of one to eight bytes, as Kafka's serializers write them
    avro                   by a schema file (`.avsc`); needs fastavro
    protobuf               by a file of descriptors and the name of a message, `all.desc:shop.Order`; needs protobuf

Bytes that are not what they should be raise `MalformedRecordError`, and so does what is nested so deep that nobody could print it: one
record of somebody's does not end who reads all of them.
"""

import importlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tidelog.errors import InvalidConfigError, MalformedRecordError, MissingPackageError

Decoder = Callable[[bytes], Any]

NAMES: Final = ("utf8", "json", "hex", "int", "avro", "protobuf")
_FRAME_BYTES = 5
_MOST_INT_BYTES = 8
_MOST_DEEP = 200
"""Levels of objects in objects; Python's own stack ends at five times as many."""


def decoder_of(name: str | None, schema: str | None = None, *, is_framed: bool = False) -> Decoder | None:
    """The decoder of this name; None for None. `is_framed`: a registry's client put a zero byte and the id of a schema before each."""
    plain: dict[str, Decoder] = {"utf8": _utf8, "json": _json, "hex": bytes.hex, "int": _int}
    if name is None:
        if schema is not None:
            raise InvalidConfigError(
                "a schema, and nothing that says what it is of", hint="--key-decoder or --value-decoder: avro, protobuf"
            )
        return None
    if name in plain:
        return plain[name]
    if name not in NAMES:
        raise InvalidConfigError(f"no such decoder: {name!r}", hint=f"one of {', '.join(NAMES)}")
    if schema is None:
        raise InvalidConfigError(f"{name} needs a schema file", hint="--key-schema or --value-schema")
    decode = _avro(schema) if name == "avro" else _protobuf(schema, is_framed=is_framed)
    return (lambda data: decode(_unframed(data))) if is_framed else decode


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecordError(f"no UTF-8: {error.reason}", position=error.start) from error


def _json(data: bytes) -> Any:
    try:
        found = json.loads(data, parse_constant=_no_number)
    except ValueError as error:
        raise MalformedRecordError(f"no JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error
    return _shallow(found)


def _no_number(name: str) -> Any:
    """Python would take NaN and Infinity, of which JSON knows nothing."""
    raise ValueError(f"{name} is no number")


def _shallow(value: Any) -> Any:
    """The same, if it is not nested too deep."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MOST_DEEP:
            raise _too_deep()
        level = [item for one in level if isinstance(one, dict | list | tuple) for item in (one.values() if isinstance(one, dict) else one)]
    return value


def _too_deep() -> MalformedRecordError:
    return MalformedRecordError(f"nested deeper than {_MOST_DEEP} levels")


def _int(data: bytes) -> int:
    if not 1 <= len(data) <= _MOST_INT_BYTES:
        raise MalformedRecordError("no integer", expected="1 to 8 bytes", found=len(data))
    return int.from_bytes(data, "big", signed=True)


def _unframed(data: bytes) -> bytes:
    if len(data) < _FRAME_BYTES or data[0] != 0:
        raise MalformedRecordError("no frame of a schema registry", expected="a zero byte and four of an id", found=data[:5].hex())
    return data[_FRAME_BYTES:]


def _read_schema(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfigError(f"the schema file cannot be read: {error.strerror}: {path}") from error


def _package(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0] if extra == "avro" else extra
        raise MissingPackageError(f"{extra} needs the package {package}", hint=f'pip install "tidelog[{extra}]"') from error


def _avro(path: str) -> Decoder:
    fastavro = _package("fastavro", "avro")
    try:
        schema = fastavro.parse_schema(json.loads(_read_schema(path)))
    except (ValueError, TypeError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise InvalidConfigError(f"no Avro schema: {path}: {error}") from error

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # whatever it meets in bytes that are none
            raise MalformedRecordError(f"not by the Avro schema: {str(error) or type(error).__name__}") from error
        if stream.tell() != len(data):
            raise MalformedRecordError(f"not by the Avro schema: {len(data) - stream.tell()} bytes behind the last field")
        return _plain(_shallow(found))

    return decode


def _protobuf(schema: str, *, is_framed: bool) -> Decoder:
    modules = ("descriptor_pb2", "descriptor_pool", "json_format", "message_factory", "message")
    descriptor_pb2, descriptor_pool, json_format, message_factory, message_module = (
        _package(f"google.protobuf.{name}", "protobuf") for name in modules
    )
    decode_error: type[Exception] = message_module.DecodeError
    path, colon, name = schema.rpartition(":")
    if not colon or not path:
        raise InvalidConfigError(
            f"no file and message: {schema!r}", hint="all.desc:shop.Order; protoc --include_imports --descriptor_set_out=all.desc makes one"
        )
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(_read_schema(path))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (decode_error, KeyError, TypeError) as error:
        raise InvalidConfigError(f"no message {name!r} in {path}: {error}") from error

    # Bytes that parse may still be no message: a time outside of all years, an Any of a kind that nobody knows.
    wrong = (decode_error, json_format.Error, ValueError, TypeError, RecursionError)

    def decode(data: bytes) -> Any:
        content = _behind_indexes(data) if is_framed else data
        try:
            message = kind.FromString(content)
            return json_format.MessageToDict(message, preserving_proto_field_name=True)
        except wrong as error:
            raise MalformedRecordError(f"no {name}: {error}") from error

    return decode


def _behind_indexes(data: bytes) -> bytes:
    """A registry's client says which message of the file it is, in zigzag varints: how many, then each; a single zero for the first."""
    left, at = 1, 0
    is_count = True
    while left:
        number, shift = 0, 0
        while True:
            if at >= len(data) or shift > 28:
                raise MalformedRecordError("no frame of a schema registry: the indexes of its message do not end")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        left -= 1
        if is_count:
            left, is_count = number >> 1, False
    return data[at:]


def _plain(value: Any) -> Any:
    """What JSON and text can have; times, decimals and ids as text."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)
