"""File names of a log directory and of a partition directory: built and parsed here, and nowhere else.

    00000000000000000042.log             a segment, named by its base offset in twenty digits
    00000000000000000042.log.cleaned     the same while it is rewritten, swapped in, or waiting to be removed
    emails-0                             a partition of a topic
    cut-00000000000000000042-at-813.log.tidelog   what recovery took out of a segment

A name that starts with a digit is taken for a segment's by Kafka, so ours start with a letter and end in `.tidelog`.
"""

import re
from typing import NamedTuple

from tidelog.errors import InvalidTopicError

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
"""In the order in which the files of a segment are renamed."""

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
OLD_CLEANED, OLD_DELETED = ".clean", ".delete"
"""How older descriptions of Kafka spell two of them; read, never written."""

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
OWN_SUFFIX = ".tidelog"
TEMPORARY_SUFFIX = ".tmp"

MAX_PARTITION = 0x7FFFFFFF

MAX_LENGTH = 249
"""Of a topic's name. Behind it a partition number, a suffix and a random id have to fit into a file name of 255 bytes."""

_HOW_TO_NAME = f"letters without accents, digits, '.', '_' and '-', at most {MAX_LENGTH} of them"
_MAX_NAME = 255
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")
_SEGMENT_FILE = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted|\.clean|\.delete)?\Z", re.ASCII
)
_PARTITION = re.compile(r"(.+)-(\d+)\Z", re.ASCII)
_SUFFIXED_PARTITION = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-(delete|future|stray)\Z", re.ASCII)


class SegmentFile(NamedTuple):
    """A file of a segment by its name: base offset, kind (".log", ...) and stage ("", ".cleaned", ".swap", ".deleted")."""

    base_offset: int
    kind: str
    stage: str

    @property
    def name(self) -> str:
        """The name as Kafka 4.x would write it."""
        return segment_file(self.base_offset, self.kind, self.stage)


class TopicPartition(NamedTuple):
    """A partition of a topic, and its directory's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def segment_file(base_offset: int, kind: str, stage: str = "") -> str:
    """The name of a file of a segment."""
    return f"{base_offset:020d}{kind}{stage}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """What a name says, or None if it is not one of a segment. The older spellings of a stage become today's."""
    match = _SEGMENT_FILE.match(name)
    if match is None:
        return None
    stage = match[3] or ""
    return SegmentFile(int(match[1]), match[2], {OLD_CLEANED: CLEANED, OLD_DELETED: DELETED}.get(stage, stage))


def is_foreign_segment_file(name: str) -> bool:
    """Whether Kafka would take the file for one of a segment, though its name has no offset of twenty digits."""
    return name.endswith(SEGMENT_KINDS) and _SEGMENT_FILE.match(name) is None


def parse_partition(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for any other name, also for one that waits to be deleted.

    A number of more than 31 bits is none: a checkpoint with it could be read by nobody, and what it says of others would be lost.
    """
    match = _PARTITION.match(name)
    if match is None or (partition := int(match[2])) > MAX_PARTITION:
        return None
    return TopicPartition(match[1], partition)


def is_set_aside(name: str) -> bool:
    """Whether a directory was renamed to be deleted, moved or looked at (`-delete`, `-future`, `-stray`)."""
    return _SUFFIXED_PARTITION.match(name) is not None


def deleted_directory(partition: TopicPartition, suffix: str) -> str:
    """The directory of a partition that waits to be removed; the topic is cut so that the name is one."""
    tail = f"-{partition.partition}.{suffix}-delete"
    return partition.topic[: _MAX_NAME - len(tail)] + tail


def cut_file(base_offset: int, position: int) -> str:
    """Where the bytes of a segment from `position` on are kept aside."""
    return f"cut-{base_offset:020d}-at-{position}{LOG}{OWN_SUFFIX}"


def rebuilt_file(base_offset: int, kind: str) -> str:
    """An index while it is written anew."""
    return f"rebuilt-{base_offset:020d}{kind}{OWN_SUFFIX}"


def is_rebuilt_file(name: str) -> bool:
    """Whether it is such an index, left by a crash."""
    return name.startswith("rebuilt-") and name.endswith(OWN_SUFFIX)


def check_name(name: object) -> str:
    """The name, if a topic may have it; `InvalidTopicError` otherwise."""
    if not isinstance(name, str):
        raise InvalidTopicError("a topic's name that is no text", expected="a str", found=repr(name))
    if name in ("", ".", ".."):
        raise InvalidTopicError(
            "a topic's name that cannot be", expected="a name, not empty, '.' or '..'", found=repr(name), hint=_HOW_TO_NAME
        )
    if not _LEGAL.match(name):
        what = "a topic's name with a character that it cannot have"
        raise InvalidTopicError(what, expected="a-z, A-Z, 0-9, . _ -", found=repr(name), hint=_HOW_TO_NAME)
    if len(name) > MAX_LENGTH:
        what = "a topic's name that is too long"
        raise InvalidTopicError(what, expected=f"at most {MAX_LENGTH} characters", found=len(name), hint=_HOW_TO_NAME)
    return name
