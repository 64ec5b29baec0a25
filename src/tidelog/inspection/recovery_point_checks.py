"""The recovery point of a log held against its end: whether what was known to be flushed is gone.

What lies below the recovery point was synced before that was written down, and recovery trusts it. A log that ends below it is taken by
its owner as it is, and appends go on from there: so it has to be told before.

    a torn end below it     no crash leaves that: whoever cuts a log cuts between batches, whoever appends does so behind what is flushed
    a whole end below it    a store writes the point down before it cuts, so something is gone. A follower cuts first: if it was stopped in
                            between, or has cut inside of a batch, its checkpoint lies behind the end, and all is well
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.disk.disk import Disk
from tidelog.disk.names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, TopicPartition, parse_partition
from tidelog.disk.store_content import STORE_FILE
from tidelog.errors import TidelogError
from tidelog.inspection.finding import Finding
from tidelog.inspection.side_file_checks import load_checkpoint, read_side_file

_META_PROPERTIES = "meta.properties"
_OFFSET_BYTES = 8
_RESTORE = "restoring it from a backup or a replica: who opens it to write goes on from where it ends"


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """What the files above a partition directory say."""

    recovery_point: int = 0
    log_start_offset: int = 0
    is_of_store: bool = False
    """Whether the directory is a store's, and was never a broker's."""

    @classmethod
    def load(cls, disk: Disk, directory: str) -> "RecoveryPoint":
        """Nothing but zeros where there is no checkpoint, or none that can be read: that is told by who verifies the log directory."""
        root, partition = _home(directory)
        if partition is None:
            return cls()
        recovery_point, log_start_offset = (
            load_checkpoint(disk, f"{root}/{file}")[0].get(partition, 0)
            for file in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
        )
        is_of_store = disk.exists(f"{root}/{STORE_FILE}") and not disk.exists(f"{root}/{_META_PROPERTIES}")
        return cls(recovery_point, log_start_offset, is_of_store)

    def is_lost(self, end_offset: int, torn_offset: int | None) -> bool:
        """Whether what was flushed is gone from a log that ends there. `torn_offset` is that of a batch cut off at its end, or -1.

        Where the log starts behind its end, all of it was deleted. A torn batch from the recovery point on is a crash's: a follower has cut
        inside of a batch before.
        """
        if self.recovery_point <= max(end_offset, self.log_start_offset):
            return False
        if torn_offset is None:
            return self.is_of_store
        return torn_offset < self.recovery_point


class LogEnd(NamedTuple):
    """Where a log was found to end."""

    path: str
    """The file of its last segment; the directory if there is none."""
    position: int | None
    """The byte at which its last batch ends."""
    offset: int
    torn_offset: int | None
    """See `RecoveryPoint.is_lost`."""


def look_up(disk: Disk, directory: str) -> int:
    """The recovery point before a log is walked, whose owner may go on meanwhile; 0 if nothing says it.

    The file has a line for each log of the directory, and is asked for by each of them: so that line alone is read.
    """
    root, partition = _home(directory)
    if partition is None:
        return 0
    try:
        content = read_side_file(disk, f"{root}/{RECOVERY_POINT_CHECKPOINT}")
    except (TidelogError, OSError):
        return 0
    head = f"\n{partition.topic} {partition.partition} ".encode("utf-8", "surrogateescape")
    place = content.find(head)
    number = content[place + len(head) : place + len(head) + 20].partition(b"\n")[0] if place >= 0 else b""
    return int(number) if number.isdigit() else 0


def check_recovery_point(disk: Disk, directory: str, before: int, end: LogEnd) -> Iterator[Finding]:
    """Hold the recovery point that was looked up before the walk against where the log ends.

    Owners cut logs, and write it down: then it is another by now.
    """
    if before <= end.offset:
        return
    now = RecoveryPoint.load(disk, directory)
    if now.recovery_point != before or not now.is_lost(end.offset, end.torn_offset):
        return
    what = "the log ends below its recovery point: what was flushed in between is gone"
    expected = f"an end at offset {before} or more"
    yield Finding("error", "ends-below-recovery-point", end.path, what, _RESTORE, end.position, end.offset, expected, end.offset)


def _home(directory: str) -> tuple[str, TopicPartition | None]:
    """The log directory above that of a partition."""
    root, _, name = directory.rpartition("/")
    return root or ("/" if directory.startswith("/") else "."), parse_partition(name)


def torn_offset_at(disk: Disk, path: str, position: int) -> int:
    """The offset of a batch of which only the beginning is there, or -1 if that says none: zeros, or too few bytes."""
    fd = disk.open_plain(path)
    try:
        return torn_offset(disk.read(fd, _OFFSET_BYTES, position))
    finally:
        disk.close(fd)


def torn_offset(header: bytes) -> int:
    """The same of the bytes themselves."""
    return int.from_bytes(header, "big", signed=True) if len(header) == _OFFSET_BYTES and any(header) else -1


def lost_words(recovery_point: int, end_offset: int) -> str:
    """What is wrong, for people."""
    return f"the log ends at offset {end_offset}, below its recovery point {recovery_point}: what was flushed in between is gone"
