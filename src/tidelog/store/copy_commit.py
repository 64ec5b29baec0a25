"""Make a new store of logs that were copied: put together in the staging folder, and renamed to its place as a whole.

    step                                                     after a crash
    staged files are moved to staging/store/topic-0/…        the next job removes the staging folder; there is no target
    checkpoints, the store's file, the marker of a clean     the same
    shutdown, each durable
    staging/store is renamed to the target                   it is there, complete

So a target is there as a whole or not at all.
"""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from tidelog.disk.checkpoints import write_offsets
from tidelog.disk.clean_shutdown import write_marker
from tidelog.disk.disk import Disk
from tidelog.disk.names import (
    CLEANER_CHECKPOINT,
    INDEX,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TIME_INDEX,
    TopicPartition,
    segment_file,
)
from tidelog.disk.partition_metadata import write_metadata
from tidelog.errors import LogNotFoundError, NotAStoreError
from tidelog.log.storage_errors import storage_error
from tidelog.store.copying import CopiedLog
from tidelog.store.staging import Staging
from tidelog.store.store_file import StoreFile, write_store_file

_BUILT = "store"


def check_new_target(disk: Disk, target: str, sources: Sequence[str]) -> None:
    """Raise unless the target can become a store: it is missing, or empty, and lies beside what is copied."""
    parent = str(Path(target).parent)
    if not disk.exists(parent):
        raise LogNotFoundError("no such directory", path=parent, hint="make it first: only the last part of a path is created")
    for source in sources:
        if target == source or target.startswith(f"{source}/") or source.startswith(f"{target}/"):
            raise NotAStoreError(
                "the target lies in what is copied, or the other way round", path=target, expected="a place of its own", found=source
            )
    try:
        if disk.exists(target) and any(disk.names(target)):
            names = sorted(disk.names(target))
            raise NotAStoreError(
                "the target is not empty",
                path=target,
                expected="a new directory, or an empty one",
                found=f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}",
                hint="nothing is ever overwritten: name another one",
            )
    except NotADirectoryError as error:
        raise NotAStoreError("the target is not a directory", path=target) from error


def commit_store(
    disk: Disk,
    staging: Staging,
    target: str,
    logs: Sequence[CopiedLog],
    content: StoreFile,
    cleaner_offsets: Mapping[TopicPartition, int],
) -> None:
    """Put a new store in its place."""
    root = staging.file(_BUILT)
    try:
        disk.make_directory(root)
        for log in logs:
            build_partition(disk, f"{root}/{log.source.partition}", log, content.topics[log.source.partition.topic].topic_id)
        ends = {log.source.partition: log.settled.next_offset for log in logs}
        starts = {log.source.partition: log.source.log_start_offset for log in logs if starts_inside(log)}
        cleaned = {partition: min(offset, ends[partition]) for partition, offset in cleaner_offsets.items() if partition in ends}
        for name, offsets in ((LOG_START_OFFSET_CHECKPOINT, starts), (CLEANER_CHECKPOINT, cleaned)):
            if offsets:
                write_offsets(disk, root, name, offsets)
        for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT):
            write_offsets(disk, root, name, ends)
        write_store_file(disk, root, content)
        write_marker(disk, root)
        disk.sync_directory(root)
        _put_in_place(disk, root, target)
    except OSError as error:
        raise storage_error(error, target, "putting the new store in its place failed; it is not there") from error


def build_partition(disk: Disk, directory: str, log: CopiedLog, topic_id: UUID | None) -> None:
    """Make the directory of a partition from staged files, durably."""
    disk.make_directory(directory)
    for segment in log.segments:
        for kind in segment.sizes.kinds if segment.path is not None else (LOG, INDEX, TIME_INDEX):
            path = f"{directory}/{segment_file(segment.base_offset, kind)}"
            if segment.path is not None:
                disk.rename(segment.path + kind, path)
            else:
                disk.close(disk.create(path))
    for name, staged in (*log.settled.files, *log.kept_aside):
        disk.rename(staged, f"{directory}/{name}")
    if topic_id is not None:
        write_metadata(disk, directory, topic_id)
    disk.sync_directory(directory)


def starts_inside(log: CopiedLog) -> bool:
    """Whether the log starts behind the beginning of its first segment."""
    return log.source.log_start_offset > log.segments[0].base_offset


def _put_in_place(disk: Disk, root: str, target: str) -> None:
    try:
        if disk.exists(target):
            disk.remove_directory(target)
        disk.rename(root, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EBUSY):
            raise NotAStoreError(
                "the target is a file system of its own", path=target, expected="a directory within one", hint="name one inside of it"
            ) from error
        raise
    disk.sync_directory(str(Path(target).parent))
