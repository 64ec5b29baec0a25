"""What a broker in KRaft mode has written down about topics, in the log `__cluster_metadata-0` of its data directory.

The log is one as any other. Beside its segments there are snapshots, `<offset>-<epoch>.checkpoint`, batches too, that stand for everything
below an offset. The value of a record is

    frame version     unsigned varint, 0 or 1
    kind              unsigned varint
    version           unsigned varint
    fields            those of the kind, in order, then tagged fields; those that come behind what is asked for are not looked at

    kind                        fields
      2  TopicRecord            name (compact string), topic id (16 bytes)
      3  PartitionRecord        partition (4 bytes), topic id (16 bytes), replicas …
      4  ConfigRecord           type of resource (1 byte; 2 is a topic), name (compact string), setting (compact string),
                                value (compact string, or null: as if never given)
      9  RemoveTopicRecord      topic id (16 bytes)
     23, 24, 25                 a transaction begins, ends, is aborted: what was in between counts at its end, or never

A compact string is its length plus one as an unsigned varint, 0 being null, and that many bytes of UTF-8. Kinds that are not listed here
say nothing about topics.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import Disk
from tidelog.disk.names import LOG, TopicPartition, parse_segment_file
from tidelog.errors import CorruptFileError, LogNotFoundError
from tidelog.log.storage_errors import storage_error
from tidelog.record import read_batches

TOPIC, PARTITION, CONFIG, REMOVE_TOPIC, BEGIN, END, ABORT = 2, 3, 4, 9, 23, 24, 25
TOPIC_RESOURCE = 2

_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_DIRECTORY = str(TopicPartition(CLUSTER_METADATA, 0))


@dataclass
class DescribedTopic:
    """A topic as the brokers know it."""

    topic_id: UUID
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)
    """Its own settings. What comes from a broker's file of properties is nowhere in the directory."""


def read_cluster_metadata(disk: Disk, paths: Sequence[str]) -> dict[str, DescribedTopic]:
    """The topics by name, from the log directory that has the log."""
    for path in paths:
        directory = f"{path}/{_DIRECTORY}"
        if disk.exists(directory):
            try:
                return topics_of(_values(disk, directory))
            except OSError as error:
                raise storage_error(error, directory, "reading the brokers' log failed") from error
            except (ValueError, LookupError) as error:
                if isinstance(error, CorruptFileError):
                    raise
                raise CorruptFileError(
                    f"the brokers' log cannot be read: {error}", path=directory, hint="adopt=True goes without it"
                ) from error
    raise LogNotFoundError(
        "no log of a broker in KRaft mode", path=f"{paths[0]}/{_DIRECTORY}", hint="adopt=True goes without it: give settings by alter"
    )


def _values(disk: Disk, directory: str) -> Iterator[bytes]:
    """The values of all records that count: of the newest snapshot, then of the log from there on."""
    names = list(disk.names(directory))
    snapshots = sorted(match.groups() for name in names if (match := _CHECKPOINT.match(name)))
    start = 0
    if snapshots:
        yield from _values_of(disk, f"{directory}/{'-'.join(snapshots[-1])}.checkpoint", 0, is_last=False)
        start = int(snapshots[-1][0])
    segments = sorted(parsed for name in names if (parsed := parse_segment_file(name)) and (parsed.kind, parsed.stage) == (LOG, ""))
    for segment in segments:
        yield from _values_of(disk, f"{directory}/{segment.name}", start, is_last=segment is segments[-1])


def _values_of(disk: Disk, path: str, start: int, *, is_last: bool) -> Iterator[bytes]:
    """Those of one file. At the very end of the log a batch may be cut off: a crash leaves that, and it was never answered for."""
    content, end = disk.read_file(path), 0
    for batch in read_batches(content):
        end = batch.position + batch.size_bytes
        if batch.is_control or batch.last_offset < start:
            continue
        batch.ensure_valid()
        for record in batch:
            if record.offset >= start and record.value is not None:
                yield record.value
    if end < len(content) and not is_last:
        raise CorruptFileError(
            "the brokers' log is cut off", path=path, position=end, expected="a whole batch", found=f"{len(content) - end} bytes"
        )


def topics_of(values: Iterable[bytes]) -> dict[str, DescribedTopic]:
    """What is left of all changes to topics, in their order."""
    topics: dict[str, DescribedTopic] = {}
    names: dict[UUID, str] = {}
    configs: dict[str, dict[str, str]] = {}
    for kind, fields in _committed(_Fields.of(value) for value in values):
        if kind == TOPIC:
            name, topic_id = fields.text(), fields.uuid()
            topics[name], names[topic_id] = DescribedTopic(topic_id), name
        elif kind == PARTITION:
            partition, topic_id = fields.whole(4), fields.uuid()
            topic = topics[names[topic_id]]
            topic.partitions = max(topic.partitions, partition + 1)
        elif kind == REMOVE_TOPIC:
            name = names.pop(fields.uuid())
            del topics[name]
            configs.pop(name, None)
        elif kind == CONFIG and fields.whole(1) == TOPIC_RESOURCE:
            name, setting, value = fields.text(), fields.text(), fields.text_or_none()
            settings = configs.setdefault(name, {})
            settings.pop(setting, None)
            if value is not None:
                settings[setting] = value
    for name, topic in topics.items():
        topic.config = configs.get(name, {})
    return topics


def _committed(changes: Iterable[tuple[int, "_Fields"]]) -> Iterator[tuple[int, "_Fields"]]:
    """The changes that count: those of a transaction when it ends."""
    waiting: list[tuple[int, _Fields]] | None = None
    for kind, fields in changes:
        if kind == BEGIN:
            waiting = []
        elif kind == ABORT:
            waiting = None
        elif kind == END:
            yield from waiting or ()
            waiting = None
        elif waiting is not None:
            waiting.append((kind, fields))
        else:
            yield kind, fields


class _Fields:
    """Fields one behind the other. Raises `ValueError` or `LookupError` where there is less than there should be."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @classmethod
    def of(cls, value: bytes) -> tuple[int, "_Fields"]:
        """The kind of a record, and its fields."""
        fields = cls(value)
        frame = fields.varint()
        if frame not in (0, 1):
            raise ValueError(f"a record of frame version {frame}, not 0 or 1")
        kind, _version = fields.varint(), fields.varint()
        return kind, fields

    def varint(self) -> int:
        """An unsigned one of at most 32 bits."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self._data[self._position]
            self._position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a varint that does not end")

    def whole(self, size: int) -> int:
        """A big-endian number."""
        return int.from_bytes(self._take(size), "big", signed=True)

    def uuid(self) -> UUID:
        """An id."""
        return UUID(bytes=self._take(16))

    def text(self) -> str:
        """A compact string."""
        text = self.text_or_none()
        if text is None:
            raise ValueError("null in place of a text")
        return text

    def text_or_none(self) -> str | None:
        """A compact string, or null."""
        size = self.varint()
        return None if size == 0 else self._take(size - 1).decode()

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError(f"a record that ends at byte {len(self._data)}, not at {end}")
        taken = self._data[self._position : end]
        self._position = end
        return taken
