"""What there is to measure about directories that this process only reads: the numbers of their logs, as they are on disk now."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import DELETED, RECOVERY_POINT_CHECKPOINT, TopicPartition
from tidelog.errors import CorruptFileError
from tidelog.log.read_only import ReadOnlyLog
from tidelog.store.prometheus import as_text
from tidelog.store.prometheus_family import Family


class FoundPartition(NamedTuple):
    """Kafka's `kafka.log:type=Log`, of one partition, as its files tell it."""

    partition: TopicPartition
    path: str
    size_bytes: int
    """Size."""
    segments: int
    """NumLogSegments."""
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    """As far as its owner has told others."""
    recovery_point: int
    """As its owner has written it down; 0 if it has not."""
    deleted_bytes: int
    """Of deleted segments whose files wait to be removed."""


class FoundDirectory(NamedTuple):
    """One log directory."""

    path: str
    free_bytes: int
    """Of its file system; 0 if that cannot be asked."""


class ReadOnlyMetrics(NamedTuple):
    """Directories that are only read, at one moment. What happens in another process, rates and tasks, cannot be seen from here."""

    now_ms: int
    partitions: tuple[FoundPartition, ...]
    directories: tuple[FoundDirectory, ...]
    unreadable: tuple[tuple[TopicPartition, str], ...]
    """Partitions that cannot be read, and why."""

    def to_prometheus(self) -> str:
        """As text for Prometheus to scrape, under the names that a store has too."""
        return as_text(_families(self))


def measure_log(disk: Disk, log: ReadOnlyLog, recovery_points: Mapping[TopicPartition, int]) -> FoundPartition:
    """A log as it is now."""
    log.refresh()
    deleted_bytes = 0
    with suppress(OSError):  # gone meanwhile
        deleted_bytes = sum(entry.size_bytes for entry in disk.entries(log.directory) if entry.name.endswith(DELETED))
    return FoundPartition(
        log.partition,
        log.directory,
        log.size_bytes,
        len(log.segments),
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        recovery_points.get(log.partition, 0),
        deleted_bytes,
    )


def recovery_points_of(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """What the checkpoint of a directory says; nothing if it cannot be read, as Kafka takes it."""
    with suppress(CorruptFileError, OSError):
        return read_offsets(disk, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
    return {}


def measure_directory(disk: Disk, path: str) -> FoundDirectory:
    """A directory as it is now."""
    try:
        return FoundDirectory(path, disk.free_bytes(path))
    except OSError:
        return FoundDirectory(path, 0)


def _families(metrics: ReadOnlyMetrics) -> Iterator[Family]:
    labels = [{"topic": one.partition.topic, "partition": str(one.partition.partition)} for one in metrics.partitions]
    for name, text, attribute in (
        ("kafka_log_log_size", "Bytes of a partition", "size_bytes"),
        ("kafka_log_log_numlogsegments", "Segments of a partition", "segments"),
        ("kafka_log_log_logstartoffset", "The first offset that can be read", "log_start_offset"),
        ("kafka_log_log_logendoffset", "The next offset to be assigned", "log_end_offset"),
        ("tidelog_log_high_watermark", "The first offset that readers do not see yet", "high_watermark"),
        ("tidelog_log_recovery_point", "Recovery does not look below", "recovery_point"),
        ("tidelog_log_deleted_bytes", "Bytes of deleted segments that wait to be removed", "deleted_bytes"),
    ):
        yield Family(name, "gauge", text, [(one, getattr(log, attribute)) for one, log in zip(labels, metrics.partitions, strict=True)])
    free: list[tuple[dict[str, str], float]] = [({"logDirectory": one.path}, one.free_bytes) for one in metrics.directories]
    yield Family("tidelog_log_directory_free_bytes", "gauge", "Bytes left on its file system", free)
    yield Family("tidelog_unreadable_partitions", "gauge", "Partitions that cannot be read", [({}, len(metrics.unreadable))])
