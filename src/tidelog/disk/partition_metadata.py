"""`partition.metadata`: the id of the topic that a partition directory belongs to.

    version: 0
    topic_id: tKgmCFRkTQ-VVKsXYAaXFA

Two lines, no line end behind the second. The id is sixteen bytes in URL-safe base64 without padding; all zeros is no id. A broker in KRaft
mode takes a partition directory without this file for a stray, so it is written before the first record.
"""

import base64
import re
import uuid

from tidelog.disk.disk import Disk
from tidelog.disk.names import PARTITION_METADATA
from tidelog.errors import CorruptFileError, InconsistentTopicIdError

TopicId = uuid.UUID

VERSION = 0
ZERO_ID = TopicId(int=0)

_BASE64 = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_VERSION = re.compile(r"\+?[0-9]{1,10}\Z")
_COLON = re.compile(r":[ \t\v\f]+")


def format_topic_id(topic_id: TopicId) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id.bytes)[:22].decode()


def parse_topic_id(text: str) -> TopicId:
    """The id of Kafka's 22 characters; `ValueError` if they are none."""
    if not _BASE64.match(text):
        raise ValueError(f"not a topic id: expected 22 characters of URL-safe base64, found {text!r}")
    return TopicId(bytes=base64.urlsafe_b64decode(text + "=="))


def format_metadata(topic_id: TopicId) -> bytes:
    """The file."""
    assert topic_id != ZERO_ID
    return f"version: {VERSION}\ntopic_id: {format_topic_id(topic_id)}".encode()


def parse_metadata(text: bytes, path: str) -> TopicId:
    """The id in the file. As in Kafka a later version and lines behind these two are no fault: a newer release may have written it."""
    lines = text.splitlines()
    version = _value(lines, 1, "version", path)
    if not _VERSION.match(version):
        raise CorruptFileError("line 1: not a version", path=path, expected="a number from 0", found=repr(version))
    written = _value(lines, 2, "topic_id", path)
    try:
        topic_id = parse_topic_id(written)
    except ValueError as error:
        raise CorruptFileError(
            "line 2: not a topic id", path=path, expected="22 characters of URL-safe base64", found=repr(written)
        ) from error
    if topic_id == ZERO_ID:
        raise CorruptFileError("line 2: not a topic id", path=path, expected="an id other than zero", found=repr(written))
    return topic_id


def read_metadata(disk: Disk, directory: str) -> TopicId | None:
    """The topic's id of a partition directory; None if there is no such file."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        text = disk.read_file(path)
    except FileNotFoundError:
        return None
    return parse_metadata(text, path)


def write_metadata(disk: Disk, directory: str, topic_id: TopicId) -> None:
    """Give a partition directory its topic's id, durably."""
    disk.replace_file(directory, PARTITION_METADATA, format_metadata(topic_id))


def check_topic_id(disk: Disk, directory: str, topic_id: TopicId | None) -> TopicId | None:
    """The id that a partition directory has from now on: the one it had, which a given one must be, or the given one, written down."""
    found = read_metadata(disk, directory)
    if topic_id is None or found == topic_id:
        return found
    if found is not None:
        raise InconsistentTopicIdError(
            "the partition belongs to another topic of this name",
            path=f"{directory}/{PARTITION_METADATA}",
            expected=format_topic_id(topic_id),
            found=format_topic_id(found),
        )
    write_metadata(disk, directory, topic_id)
    return topic_id


def _value(lines: list[bytes], number: int, key: str, path: str) -> str:
    line = lines[number - 1].decode(errors="backslashreplace") if number <= len(lines) else None
    parts = [] if line is None else _COLON.split(line, maxsplit=1)
    if len(parts) != 2 or parts[0] != key:
        raise CorruptFileError(
            f"line {number}: malformed", path=path, expected=f"{key}: …", found="the end of the file" if line is None else repr(line)
        )
    return parts[1]
