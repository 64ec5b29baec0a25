"""`tidelog.json`, the one file that a store adds at the root of its log directories: which topics there are, and how they are set.

    {
      "version": 1,
      "store_id": "tKgmCFRkTQ-VVKsXYAaXFA",
      "revision": 3,                                     goes up with every change
      "directories": 1,                                  log directories of the store; each has the same file
      "is_adopted": false,                               whether Tidelog found the directory, rather than made it
      "topics": {
        "emails": {"topic_id": "…", "partitions": 4, "config": {"retention.ms": "-1"}}
      },
      "deleted": [{"topic": "old", "partitions": 1, "suffix": "0123456789abcdef0123456789abcdef", "due_ms": 1700000000000,
                   "is_renamed": true}]
    }

A topic may also have "is_incomplete": true while its directories are being made, "absent": the partitions that another broker has, or with
"is_lazy": true those that nobody has used yet, and no "config" if nobody has told yet how it is set, or "refused": settings that a broker
has and that cannot be here. Then nothing is deleted or compacted. "next_producer_id" counts the ids that transactions were given.
The file is replaced whole, and each change is made so that after a crash it tells what is left to do: a topic is written down before its
directories are made, and struck out before they are renamed.

Of several log directories each has a copy. The one with the highest revision counts; after a crash it is copied to the others. Only the
very first revision may be missing in some of them: later on a directory without the file is not the store's, or its disk is not mounted.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tidelog.config.setting import LONG_MAX, LONG_MIN
from tidelog.disk.names import check_name
from tidelog.disk.partition_metadata import format_topic_id, parse_topic_id
from tidelog.errors import CorruptFileError, UnsupportedError

STORE_FILE = "tidelog.json"
VERSION = 1
MAX_PARTITIONS = 1_000_000
"""Of one topic. Far more than a directory should have; a number above it is a mistake, and would fill the disk."""

_SUFFIX = re.compile(r"[0-9a-f]{32}\Z")
_HOW_TO_MEND = "put it back from a backup or from another log directory of the store; or remove it, and adopt what is there"


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """What is written down about a topic."""

    topic_id: UUID | None
    """None of a topic that was adopted from a broker without ids."""
    partitions: int
    config: Mapping[str, str] | None
    """Its own settings by Kafka's names; None: not known."""
    is_incomplete: bool = False
    absent: frozenset[int] = frozenset()
    """Partitions that are not here: another broker has them, or nobody has used them yet."""
    is_lazy: bool = False
    """Whether the absent ones are made when they are first used."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Settings that a broker has for it and that cannot be here, until somebody gives others."""

    @property
    def is_set(self) -> bool:
        """Whether it is known how it is to be kept: if not, nothing of it is deleted or compacted."""
        return self.config is not None and not self.refused

    def partition_ids(self) -> list[int]:
        """Those that are here."""
        return [partition for partition in range(self.partitions) if partition not in self.absent]

    def is_due(self, partition: int) -> bool:
        """Whether the directory of a partition must be there. As long as they are being made, none has to."""
        return not self.is_incomplete and partition not in self.absent and 0 <= partition < self.partitions


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that is gone, whose directories are, or will be, named with a suffix, and removed when it is time."""

    topic: str
    partitions: int
    suffix: str
    due_ms: int
    is_renamed: bool = False
    """Whether all of its directories have their new names. What has the old name then is not the topic's."""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The content. Replaced whole."""

    store_id: UUID
    directories: int = 1
    is_adopted: bool = False
    revision: int = 0
    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    deleted: tuple[DeletedTopic, ...] = ()
    next_producer_id: int = 0
    """How many producer ids were set apart for transactions."""


def format_store_file(content: StoreFile) -> bytes:
    """The file, for people to read too."""
    document = {
        "version": VERSION,
        "store_id": format_topic_id(content.store_id),
        "revision": content.revision,
        "directories": content.directories,
        "is_adopted": content.is_adopted,
        "topics": {name: _format_topic(entry) for name, entry in sorted(content.topics.items())},
        "deleted": [
            {
                "topic": gone.topic,
                "partitions": gone.partitions,
                "suffix": gone.suffix,
                "due_ms": gone.due_ms,
                "is_renamed": gone.is_renamed,
            }
            for gone in content.deleted
        ],
    }
    if content.next_producer_id:
        document["next_producer_id"] = content.next_producer_id
    return json.dumps(document, indent=2).encode() + b"\n"


def _format_topic(entry: TopicEntry) -> dict[str, Any]:
    formatted: dict[str, Any] = {
        "topic_id": None if entry.topic_id is None else format_topic_id(entry.topic_id),
        "partitions": entry.partitions,
    }
    if entry.config is not None:
        formatted["config"] = dict(sorted(entry.config.items()))
    if entry.is_incomplete:
        formatted["is_incomplete"] = True
    if entry.absent:
        formatted["absent"] = sorted(entry.absent)
    if entry.is_lazy:
        formatted["is_lazy"] = True
    if entry.refused:
        formatted["refused"] = dict(sorted(entry.refused.items()))
    return formatted


def parse_store_file(text: bytes, path: str) -> StoreFile:
    """What the file says; `CorruptFileError` if it is none, `UnsupportedError` if a later release has written it."""
    try:
        document = json.loads(text)
        version = _whole(document["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(
            "not a store's file", path=path, expected="JSON with a version", found=repr(text[:40]), hint=_HOW_TO_MEND
        ) from error
    if version != VERSION:
        raise UnsupportedError(
            "written by another release of Tidelog",
            path=path,
            expected=f"version {VERSION}",
            found=f"version {version}",
            hint="open the store with that release, or a later one",
        )
    try:
        return StoreFile(
            store_id=parse_topic_id(document["store_id"]),
            directories=_whole(document["directories"], lowest=1),
            is_adopted=_boolean(document["is_adopted"]),
            revision=_whole(document["revision"]),
            topics={check_name(name): _parse_topic(entry) for name, entry in document["topics"].items()},
            deleted=tuple(_parse_deleted(gone) for gone in document["deleted"]),
            next_producer_id=_whole(document.get("next_producer_id", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CorruptFileError(f"a store's file that does not say what it has to: {reason}", path=path, hint=_HOW_TO_MEND) from error


def _parse_topic(entry: Mapping[str, Any]) -> TopicEntry:
    topic_id, config = entry["topic_id"], entry.get("config")
    partitions = _whole(entry["partitions"], lowest=1, highest=MAX_PARTITIONS)
    return TopicEntry(
        topic_id=None if topic_id is None else parse_topic_id(topic_id),
        partitions=partitions,
        config=None if config is None else {_text(name): _text(value) for name, value in config.items()},
        is_incomplete=_boolean(entry.get("is_incomplete", False)),
        absent=frozenset(_whole(partition, highest=partitions - 1) for partition in entry.get("absent", ())),
        is_lazy=_boolean(entry.get("is_lazy", False)),
        refused={_text(name): _text(value) for name, value in entry.get("refused", {}).items()},
    )


def _parse_deleted(gone: Mapping[str, Any]) -> DeletedTopic:
    partitions = _whole(gone["partitions"], lowest=1, highest=MAX_PARTITIONS)
    suffix = _text(gone["suffix"])
    if not _SUFFIX.match(suffix):
        raise ValueError(f"{suffix!r} is no suffix of a directory")
    due_ms = _whole(gone["due_ms"], lowest=LONG_MIN)
    return DeletedTopic(check_name(gone["topic"]), partitions, suffix, due_ms, _boolean(gone["is_renamed"]))


def _whole(value: object, *, lowest: int = 0, highest: int = LONG_MAX) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{value!r} is no whole number from {lowest} to {highest}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
