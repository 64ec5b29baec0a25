"""Checkpoint files: small text files of numbers, written whole.

    0                       version
    2                       number of entries
    my-topic 0 1234         topic partition offset
    my-topic 1 99

The recovery points, log start offsets, high watermarks and cleaner offsets of all partitions of a log directory look like this; in the
`leader-epoch-checkpoint` of a partition an entry is `epoch start_offset`. A file of no bytes has no entries: Kafka creates them so, and
takes a file that ends behind its version for the same. Lines end in any way that Java's readers take for an end.

A file is replaced by renaming a whole new one over it, so a reader finds the old content or the new, also after a crash.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptFileError, UnsupportedError

VERSION = 0
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1

_WHITE_SPACE = re.compile(r"[ \t\v\f]+")
_DIGITS = re.compile(r"\+?[0-9]{1,40}\Z")


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record of it."""

    epoch: int
    start_offset: int


def parse_offsets(text: bytes, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; the last entry of a partition counts."""
    offsets = {}
    for number, (topic, partition, offset) in _entries(text, path, ("topic", "partition", "offset")):
        key = TopicPartition(topic, _number(partition, MAX_INT32, "a partition", number, path))
        offsets[key] = _number(offset, MAX_INT64, "an offset", number, path)
    return offsets


def format_offsets(entries: Mapping[TopicPartition, int]) -> bytes:
    """The file, sorted by topic and partition."""
    for topic in {partition.topic for partition in entries}:
        check_topic(topic)
    return _format(f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(entries.items()))


def check_topic(topic: str) -> None:
    """Raise for a name that would make a checkpoint file unreadable for everyone."""
    if not topic or re.search(r"[\s\ud800-\udfff]", topic):  # a half of a pair stands for a byte that is no UTF-8
        raise UnsupportedError("a topic's name that a checkpoint file cannot hold", expected="UTF-8 without white space", found=repr(topic))


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; none if there is no such file."""
    try:
        text = disk.read_file(path)
    except FileNotFoundError:
        return {}
    return parse_offsets(text, path)


def write_offsets(disk: Disk, directory: str, name: str, entries: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file, durably."""
    disk.replace_file(directory, name, format_offsets(entries))


def parse_epochs(text: bytes, path: str) -> list[EpochEntry]:
    """The entries as they stand in the file, in whatever order."""
    return [
        EpochEntry(_number(epoch, MAX_INT32, "an epoch", number, path), _number(offset, MAX_INT64, "an offset", number, path))
        for number, (epoch, offset) in _entries(text, path, ("epoch", "start offset"))
    ]


def format_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The file, in the order given."""
    return _format(f"{epoch} {start_offset}\n" for epoch, start_offset in entries)


def _format(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return f"{VERSION}\n{len(body)}\n{''.join(body)}".encode()


def _entries(text: bytes, path: str, fields: tuple[str, ...]) -> list[tuple[int, list[str]]]:
    """The fields of every entry, with the number of its line."""
    lines = text.splitlines()
    if lines and _number(_decoded(lines[0], 1, path), MAX_INT32, "a version", 1, path) != VERSION:
        raise CorruptFileError("line 1: a version that is not known", path=path, expected=VERSION, found=_decoded(lines[0], 1, path))
    if len(lines) < 2:
        return []
    count = _number(_decoded(lines[1], 2, path), MAX_INT32, "a number of entries", 2, path)
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        decoded = _decoded(line, number, path)
        found = _WHITE_SPACE.split(decoded.rstrip(" \t\v\f"))
        if len(found) != len(fields) or not found[0]:
            raise CorruptFileError(f"line {number}: malformed", path=path, expected=", ".join(fields), found=repr(decoded))
        entries.append((number, found))
    if len(entries) != count:
        raise CorruptFileError("line 2: not as many entries as it says", path=path, expected=count, found=len(entries))
    return entries


def _decoded(line: bytes, number: int, path: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"line {number}: malformed", path=path, expected="UTF-8", found=repr(line)) from error


def _number(field: str, maximum: int, what: str, line: int, path: str) -> int:
    if _DIGITS.match(field) and (number := int(field)) <= maximum:
        return number
    raise CorruptFileError(f"line {line}: not {what}", path=path, expected=f"a number from 0 to {maximum}", found=repr(field))
