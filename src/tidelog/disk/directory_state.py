"""What the files at the root of a log directory say about its logs: checkpoints, clean shutdown, which logs there are.

Reading it changes nothing, so a log opened for reading uses it as it is; `LogDirectory` keeps one while it owns the directory.
"""

from dataclasses import dataclass, field

from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.clean_shutdown import read_marker
from tidelog.disk.disk import Disk
from tidelog.disk.names import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TopicPartition,
    is_set_aside,
    parse_partition,
)
from tidelog.errors import CorruptFileError

CLUSTER_METADATA = "__cluster_metadata"
"""The topic whose log the brokers look after apart from the others, marker or not."""

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The root of a log directory at one moment."""

    marker: bytes | None = None
    """What the clean shutdown marker holds; None if there is none."""
    is_new: bool = True
    """No log is there yet."""
    recovery_points: Offsets = field(default_factory=dict)
    log_start_offsets: Offsets = field(default_factory=dict)
    high_watermarks: Offsets = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Checkpoint files that do not parse; they count as empty, as for Kafka."""

    @property
    def was_clean(self) -> bool:
        """Whether the logs were closed in order, or there are none."""
        return self.marker is not None or self.is_new

    @classmethod
    def read(cls, disk: Disk, path: str) -> "DirectoryState":
        """Read a log directory that may not be there."""
        try:
            partitions, others = logs_in(disk, path)
        except FileNotFoundError:
            return cls()
        warnings: list[str] = []
        return cls(
            marker=read_marker(disk, path),
            is_new=not partitions and not others,
            recovery_points=_read(disk, path, RECOVERY_POINT_CHECKPOINT, warnings),
            log_start_offsets=_read(disk, path, LOG_START_OFFSET_CHECKPOINT, warnings),
            high_watermarks=_read(disk, path, REPLICATION_CHECKPOINT, warnings),
            warnings=tuple(warnings),
        )


def logs_in(disk: Disk, path: str) -> tuple[set[TopicPartition], set[str]]:
    """The partitions of a log directory, and the names of other logs that a broker may recover there: moving or stray ones.

    Those that wait to be deleted are never recovered.
    """
    partitions, others = set(), set()
    for entry in disk.entries(path):
        if not entry.is_directory:
            continue
        partition = parse_partition(entry.name)
        if partition is not None and partition.topic != CLUSTER_METADATA:
            partitions.add(partition)
        elif is_set_aside(entry.name) and not entry.name.endswith("-delete"):
            others.add(entry.name)
    return partitions, others


def _read(disk: Disk, path: str, name: str, warnings: list[str]) -> Offsets:
    try:
        return read_offsets(disk, f"{path}/{name}")
    except CorruptFileError as error:
        warnings.append(f"{error}; taken for empty")
        return {}
