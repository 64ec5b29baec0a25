"""What a broker in KRaft mode has written down about topics, in the log `__cluster_metadata-0` of its data directory.

The log is one as any other. Beside its segments there are snapshots, `<offset>-<epoch>.checkpoint`, batches too, that stand for everything
below an offset. What its records are, `tidelog.schema.metadata_tables` lists; five kinds are about topics, and three say that those between
them count together or not at all. Of each only the first fields are read: those that a later Kafka adds come behind them. Only of a change
to a partition it is a tagged field that counts, its replicas: there all but the first two are tagged.

A broker may be writing meanwhile. A second look reads on where the first ended, and nothing at all if no file has changed. Files are read a
piece at a time, so it is the topics that take memory, not their history.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any
from uuid import UUID

from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import Disk
from tidelog.disk.names import LOG, TopicPartition, parse_segment_file, segment_file
from tidelog.errors import CorruptFileError, LogNotFoundError
from tidelog.log.storage_errors import storage_error
from tidelog.record import LegacyBatch, RecordBatch, read_batches
from tidelog.schema.decoders import metadata_frame
from tidelog.schema.fields import FieldReader
from tidelog.schema.metadata_tables import ABORT, BEGIN, CONFIG, END, PARTITION, PARTITION_CHANGE, REMOVE_TOPIC, TOPIC, metadata_kinds

TOPIC_RESOURCE = 2

_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_DIRECTORY = str(TopicPartition(CLUSTER_METADATA, 0))
_PIECE_BYTES = 1 << 20
_MAX_BATCH_BYTES = 64 << 20
"""A quorum writes none above 8 MiB. A length that promises more is not believed: it would be read into memory."""
_MARK = struct.Struct(">qiibI")
"""The start of a batch up to its CRC: if that is as it was, so is the log up to there."""
_FIRST_FIELDS = {TOPIC: 2, PARTITION: 3, CONFIG: 4, PARTITION_CHANGE: 2, REMOVE_TOPIC: 1}
"""How many fields of a kind are of use here."""


@dataclass
class DescribedTopic:
    """A topic as the brokers know it."""

    topic_id: UUID
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)
    """Its own settings. What comes from a broker's file of properties is nowhere in the directory."""
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False)
    """The brokers that each partition is assigned to, by their node ids."""


def read_cluster_metadata(disk: Disk, paths: Sequence[str]) -> dict[str, DescribedTopic]:
    """The topics by name, from the log directory that has the log."""
    directory = metadata_directory(disk, paths)
    if directory is None:
        raise LogNotFoundError(
            "no log of a broker in KRaft mode", path=f"{paths[0]}/{_DIRECTORY}", hint="adopt=True goes without it: give settings by alter"
        )
    return MetadataLog(disk, directory).topics()


def metadata_directory(disk: Disk, paths: Sequence[str]) -> str | None:
    """Where the log is, if one of the log directories has it."""
    return next((directory for directory in (f"{path}/{_DIRECTORY}" for path in paths) if disk.exists(directory)), None)


class MetadataLog:
    """The brokers' log, read as far as it goes whenever it is asked. Not for several threads."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._start_over()

    def _start_over(self) -> None:
        self._changes = TopicChanges()
        self._topics: dict[str, DescribedTopic] = {}
        self._seen: object = None
        """Names, sizes and times of the files, as of the last look."""
        self._failure: CorruptFileError | None = None
        """What was wrong then: as long as no file changes it still is, and need not be read again."""
        self._segment: int | None = None
        """Where it was read up to: in which segment, and to which byte."""
        self._position = 0
        self._last: tuple[int, bytes] | None = None
        """The place of the last batch that was read there, and its mark."""
        self._start_offset = 0
        """Below it the snapshot counts."""

    def topics(self) -> dict[str, DescribedTopic]:
        """The topics by name, as they are now. What is given back once does not change."""
        try:
            files = {entry.name: (entry.size_bytes, entry.mtime_ns) for entry in self._disk.entries(self._directory)}
            if files != self._seen:
                self._read_on(files)
        except OSError as error:
            self._start_over()
            raise storage_error(error, self._directory, "reading the brokers' log failed") from error
        except CorruptFileError as error:
            self._fail(error, files)
            raise
        except (ValueError, LookupError) as error:
            what = f"the brokers' log cannot be read: {error}"
            self._fail(CorruptFileError(what, path=self._directory, hint="adopt=True goes without it"), files)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self._topics

    def _fail(self, error: CorruptFileError, files: Mapping[str, object]) -> None:
        self._start_over()
        self._failure, self._seen = error, files

    def _read_on(self, files: Mapping[str, object]) -> None:
        segments = sorted(parsed.base_offset for name in files if (parsed := parse_segment_file(name)) and parsed[1:] == (LOG, ""))
        if not self._can_go_on(segments):
            self._start_over()
            snapshots = sorted(match.groups() for name in files if (match := _CHECKPOINT.match(name)))
            if snapshots:
                self._read(f"{'-'.join(snapshots[-1])}.checkpoint", 0, is_last=False)
                self._start_offset = int(snapshots[-1][0])
        for base_offset, next_base in zip_longest(segments, segments[1:]):
            is_passed = self._segment is not None and base_offset < self._segment
            if is_passed or (next_base is not None and next_base <= self._start_offset):
                continue
            if base_offset != self._segment:
                self._segment, self._position, self._last = base_offset, 0, None
            self._position = self._read(segment_file(base_offset, LOG), self._position, is_last=next_base is None)
        self._topics = self._changes.topics()
        self._seen = files

    def _can_go_on(self, segments: list[int]) -> bool:
        """Whether what was read is still there: a quorum may take back the end of a log, and what is below a snapshot goes."""
        if self._segment is None or self._segment not in segments:
            return False
        if self._last is None:
            return self._position == 0
        position, mark = self._last
        fd = self._disk.open(f"{self._directory}/{segment_file(self._segment, LOG)}")
        try:
            return self._disk.size(fd) >= self._position and self._disk.read(fd, _MARK.size, position) == mark
        finally:
            self._disk.close(fd)

    def _read(self, name: str, position: int, *, is_last: bool) -> int:
        """Take in a file from a position on: up to where.

        At the very end of the log a batch may be cut off: a crash leaves that, or it is still being written.
        """
        path = f"{self._directory}/{name}"
        fd = self._disk.open(path)
        try:
            size = self._disk.size(fd)
            piece_bytes = _PIECE_BYTES
            while position < size:
                piece = self._disk.read(fd, min(piece_bytes, size - position), position)
                end = 0
                for batch in read_batches(piece):
                    end = batch.position + batch.size_bytes
                    self._last = position + batch.position, bytes(piece[batch.position : batch.position + _MARK.size])
                    self._take(batch)
                if end == 0 and len(piece) < piece_bytes:
                    break
                if end == 0 and piece_bytes >= _MAX_BATCH_BYTES:
                    what = "a batch larger than the brokers' log has"
                    raise CorruptFileError(what, path=path, position=position, expected=f"at most {_MAX_BATCH_BYTES} bytes", found="more")
                piece_bytes = _PIECE_BYTES if end else 2 * piece_bytes
                position += end
        finally:
            self._disk.close(fd)
        if position < size and not is_last:
            raise CorruptFileError(
                "the brokers' log is cut off", path=path, position=position, expected="a whole batch", found=f"{size - position} bytes"
            )
        return position

    def _take(self, batch: RecordBatch | LegacyBatch) -> None:
        if batch.is_control or batch.last_offset < self._start_offset:
            return
        batch.ensure_valid()
        for record in batch:
            if record.offset >= self._start_offset and record.value is not None:
                self._changes.take(record.value)


class TopicChanges:
    """What is left of the changes that were taken so far. Raises `ValueError` or `LookupError` for one that cannot be."""

    def __init__(self) -> None:
        self._topics: dict[str, DescribedTopic] = {}
        self._names: dict[UUID, str] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._waiting: list[tuple[int, list[Any]]] | None = None
        """The changes of a transaction that has not ended: they count when it does."""

    def topics(self) -> dict[str, DescribedTopic]:
        """The topics, by name."""
        return {
            name: replace(topic, config=dict(self._configs.get(name, {})), replicas=dict(topic.replicas))
            for name, topic in self._topics.items()
        }

    def take(self, value: bytes) -> None:
        """The next record of the log."""
        reader = FieldReader(value)
        kind, _version = metadata_frame(reader)
        for change in self._committed(kind, reader):
            self._apply(*change)

    def _committed(self, kind: int, reader: FieldReader) -> Iterator[tuple[int, list[Any]]]:
        """The changes that count from now on."""
        if kind == BEGIN:
            self._waiting = []
        elif kind == ABORT:
            self._waiting = None
        elif kind == END:
            yield from self._waiting or ()
            self._waiting = None
        elif kind in _FIRST_FIELDS:
            message = metadata_kinds()[kind].value
            assert message is not None
            fields = message.read_first(reader, _FIRST_FIELDS[kind])
            if kind == PARTITION_CHANGE:
                fields.append(message.read_tagged(reader).get("replicas"))
            change = kind, fields
            if self._waiting is None:
                yield change
            else:
                self._waiting.append(change)

    def _apply(self, kind: int, fields: list[Any]) -> None:
        if kind == TOPIC:
            name, topic_id = fields
            self._topics[name], self._names[topic_id] = DescribedTopic(topic_id), name
        elif kind == PARTITION:
            partition, topic_id, replicas = fields
            topic = self._topics[self._names[topic_id]]
            topic.partitions = max(topic.partitions, partition + 1)
            topic.replicas[partition] = tuple(replicas)
        elif kind == PARTITION_CHANGE:
            partition, topic_id, replicas = fields
            if replicas is not None:
                self._topics[self._names[topic_id]].replicas[partition] = tuple(replicas)
        elif kind == REMOVE_TOPIC:
            name = self._names.pop(fields[0])
            del self._topics[name]
            self._configs.pop(name, None)
        else:
            resource_type, resource, setting, value = fields
            if resource_type == TOPIC_RESOURCE:
                settings = self._configs.setdefault(resource, {})
                settings.pop(setting, None)
                if value is not None:
                    settings[setting] = value
