"""Kafka's records described as data, and read by that description.

A table has one line a field: its name or names, its type, and what else is to be said. A line that is indented further is a field of the
struct above it.

    offset          int64                   in all versions
    leader_epoch    int32 3+                from version 3 on
    expire          int64 1                 in version 1 only
    rack_id         string?                 may be null
    members         []                      an array of structs; []string one of texts; {} a single struct
    topic_id        uuid 4+ tag 0           a tagged field: there only if it says something

A record of the table begins without indentation, with its kind and name. Then come its parts, `key` or `value` with their versions and
with the first flexible one:

    1 offset_commit
      key 0
        group, topic string
      value 0-4 flexible 4+
        offset int64
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tidelog.errors import MalformedRecordError, UnsupportedError
from tidelog.schema.fields import FieldReader

UNKNOWN_TAGS = "unknown_tagged_fields"
_NO_VERSION = 1 << 15  # above every version of 15 bits


class Field(NamedTuple):
    """A field of a struct."""

    name: str
    type: str
    """Of its items, if it is an array; empty for a struct."""
    is_array: bool
    is_nullable: bool
    first_version: int
    last_version: int
    tag: int | None
    fields: tuple["Field", ...]
    """Those of the struct."""


class Message(NamedTuple):
    """The key or the value of a record."""

    first_version: int
    last_version: int
    flexible_from: int
    fields: tuple[Field, ...]

    def read(self, reader: FieldReader, version: int) -> dict[str, Any]:
        """All fields of a version, by name. Tagged ones are missing where they are not there."""
        if not self.first_version <= version <= self.last_version:
            known = f"{self.first_version} to {self.last_version}"
            raise UnsupportedError("an unknown version", expected=known, found=version)
        return _read_struct(reader, self.fields, version, flexible=version >= self.flexible_from)

    def read_first(self, reader: FieldReader, count: int) -> list[Any]:
        """The first few fields, which all versions have alike, those to come as well."""
        return [_read_field(reader, field, self.last_version, flexible=True) for field in self.fields[:count]]

    def read_tagged(self, reader: FieldReader) -> dict[str, Any]:
        """The tagged fields that come next, by name: alike in all versions, those to come as well. Unknown tags are left out."""
        return {name: value for name, value in _read_tagged(reader, self.fields, self.last_version) if name != UNKNOWN_TAGS}


class RecordKind(NamedTuple):
    """A kind of record: its number, its name, and what its parts are."""

    number: int
    name: str
    key: Message | None
    value: Message | None


def parse_table(text: str) -> dict[int, RecordKind]:
    """The kinds of a table, by number."""
    kinds = {}
    for (number, name), parts in _tree(text):
        messages = {part[0]: _message(part[1:], children) for part, children in parts}
        kinds[int(number)] = RecordKind(int(number), name, messages.get("key"), messages.get("value"))
    return kinds


# Reading

_READ = {
    "bool": FieldReader.boolean,
    "int8": FieldReader.int8,
    "int16": FieldReader.int16,
    "uint16": FieldReader.uint16,
    "int32": FieldReader.int32,
    "int64": FieldReader.int64,
    "float64": FieldReader.float64,
    "uuid": FieldReader.uuid,
}


def _read_struct(reader: FieldReader, fields: tuple[Field, ...], version: int, *, flexible: bool) -> dict[str, Any]:
    found = {
        field.name: _read_field(reader, field, version, flexible=flexible)
        for field in fields
        if field.tag is None and field.first_version <= version <= field.last_version
    }
    if flexible:
        found.update(_read_tagged(reader, fields, version))
    return found


def _read_tagged(reader: FieldReader, fields: tuple[Field, ...], version: int) -> Iterator[tuple[str, Any]]:
    by_tag = {field.tag: field for field in fields if field.tag is not None and field.first_version <= version <= field.last_version}
    unknown: dict[int, bytes] = {}
    for tag, content in reader.tagged():
        field = by_tag.get(tag)
        if field is None:
            unknown[tag] = content.take(content.remaining)
            continue
        yield field.name, _read_field(content, field, version, flexible=True)
        if content.remaining:
            raise MalformedRecordError(f"a tagged field {field.name} larger than it should be", position=content.position)
    if unknown:
        yield UNKNOWN_TAGS, unknown


def _read_field(reader: FieldReader, field: Field, version: int, *, flexible: bool) -> Any:
    if not field.is_array:
        return _read_one(reader, field, version, flexible=flexible)
    count = reader.length(flexible=flexible)
    if count < 0:
        return _null(reader, field)
    item = field._replace(is_array=False, is_nullable=False)
    if not field.type:
        return [_read_struct(reader, field.fields, version, flexible=flexible) for _ in range(count)]
    return [_read_one(reader, item, version, flexible=flexible) for _ in range(count)]


def _read_one(reader: FieldReader, field: Field, version: int, *, flexible: bool) -> Any:
    if field.type == "string":
        text = reader.nullable_string(flexible=flexible)
        return _null(reader, field) if text is None else text
    if field.type == "bytes":
        data = reader.nullable_byte_string(flexible=flexible)
        return _null(reader, field) if data is None else data
    if field.type:
        return _READ[field.type](reader)
    if field.is_nullable:
        is_null = reader.int8() < 0 if field.tag is None else reader.unsigned_varint() == 0
        if is_null:
            return None
    return _read_struct(reader, field.fields, version, flexible=flexible)


def _null(reader: FieldReader, field: Field) -> None:
    if not field.is_nullable:
        raise MalformedRecordError(f"null in place of {field.name}", position=reader.position)


# Tables

_Tree = list[tuple[list[str], "_Tree"]]


def _tree(text: str) -> _Tree:
    """Lines as words, each with the lines below it that are indented further."""
    root: _Tree = []
    levels: list[tuple[int, _Tree]] = [(-1, root)]
    for line in text.splitlines():
        words = line.replace(", ", ",").split()
        if not words:
            continue
        indent = len(line) - len(line.lstrip())
        while levels[-1][0] >= indent:
            levels.pop()
        children: _Tree = []
        levels[-1][1].append((words, children))
        levels.append((indent, children))
    return root


def _message(words: list[str], children: _Tree) -> Message:
    first, last = _versions(words[0])
    flexible = int(words[2].rstrip("+")) if "flexible" in words else _NO_VERSION
    return Message(first, last, flexible, _fields(children))


def _fields(children: _Tree) -> tuple[Field, ...]:
    found: list[Field] = []
    for (names, kind, *rest), below in children:
        tag = int(rest[rest.index("tag") + 1]) if "tag" in rest else None
        first, last = _versions(rest[0]) if rest and rest[0] != "tag" else (0, _NO_VERSION)
        plain = kind.rstrip("?")
        item = plain.removeprefix("[]").replace("{}", "")
        assert not item or item in _READ or item in ("string", "bytes"), item
        found += [
            Field(name, item, plain.startswith("[]"), kind.endswith("?"), first, last, tag, _fields(below)) for name in names.split(",")
        ]
    return tuple(found)


def _versions(text: str) -> tuple[int, int]:
    """`3`, `0-4` or `2+`."""
    if text.endswith("+"):
        return int(text[:-1]), _NO_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)
