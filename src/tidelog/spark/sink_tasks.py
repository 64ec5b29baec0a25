"""What a task of a write does with its disk: look for the driver's token, and write files of its own.

A task with few rows writes one file, with blocks of every partition in it. One with many writes a file for each partition, up to so many,
and none larger than a segment: such a file can become a segment without being copied. The disk is at work on those while the task encodes
the next rows, so that the commit, which syncs them for good, finds little left to wait for.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.disk.disk import Buffer, Disk
from tidelog.errors import StagingError, StorageError
from tidelog.log.storage_errors import storage_error
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.sink_encoding import SinkEncoder
from tidelog.spark.sink_topics import SinkTopics
from tidelog.store.sink_commit import LEAST_SEGMENT_BYTES
from tidelog.store.staged_batches import StagedFile, StagedTopic
from tidelog.store.staging import STAGED_SUFFIX, Staging

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.sink_columns import SinkColumns
    from tidelog.spark.write_options import WriteOptions

MAX_OWN_FILES = 64
"""Of a task: partitions beyond them share one."""
_SHARED = (-1, -1)


def stage(
    disk: Disk,
    options: "WriteOptions",
    columns: "SinkColumns",
    staging: Staging,
    paths: list[str],
    name: str,
    batches: "Iterator[pa.RecordBatch]",
) -> tuple[StagedFile, ...]:
    """Encode all rows into files of this attempt's own. What an attempt leaves that failed, it removes."""
    staging.check(disk)  # before topics are looked for: who does not see the driver's disk would not find them either
    encoder = SinkEncoder(options, columns, SinkTopics(disk, paths, options), wall_clock())
    files = _Files(disk, staging.file(name))
    try:
        for place, partition, encoded, count in encoder.blocks(batches):
            segment_bytes = encoder.topics[place].config.segment_size_limit
            is_large = encoder.has_many_rows and segment_bytes >= LEAST_SEGMENT_BYTES
            files.write(place, partition, encoded, count, segment_bytes if is_large else None)
        files.close()
    except BaseException:  # an interrupt too: a task that was cancelled
        files.remove()
        raise
    topics = [StagedTopic(topic.name, topic.partitions, topic.topic_id) for topic in encoder.topics]
    return tuple(StagedFile.of(file.path, topics, file.rows) for file in files.made)


class _File:
    """One that is being written."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.size_bytes = 0
        self.rows: list[tuple[int, int, int, int]] = []
        try:
            self.fd = disk.create(path)
        except FileNotFoundError as error:
            raise StagingError("the staging directory is gone", path=path, hint="the job was given up meanwhile") from error
        except OSError as error:
            raise storage_error(error, path, "making a staged file failed") from error


class _Files:
    """Those of a task."""

    def __init__(self, disk: Disk, prefix: str) -> None:
        self.made: list[_File] = []
        self._disk = disk
        self._prefix = prefix
        self._open: dict[tuple[int, int], _File] = {}
        self._executor: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None

    def write(self, place: int, partition: int, encoded: Buffer, count: int, most_bytes: int | None) -> None:
        """Write a block to the file of its partition; `most_bytes` is what that may have, None: to the one that all share."""
        key = (place, partition)
        if key not in self._open and (most_bytes is None or len(self._open) >= MAX_OWN_FILES):
            key, most_bytes = _SHARED, None
        file = self._open.get(key)
        if file is None or (most_bytes is not None and file.size_bytes + len(encoded) > most_bytes):
            file = self._begin(key)
        try:
            self._disk.write(file.fd, [encoded], file.size_bytes)
        except OSError as error:
            raise storage_error(error, file.path, "writing a staged file failed") from error
        file.size_bytes += len(encoded)
        file.rows.append((place, partition, len(encoded), count))
        if most_bytes is not None and (self._syncing is None or self._syncing.done()):
            self._wait()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "tidelog-sync-staged")
            self._syncing = self._executor.submit(self._sync, file)

    def _sync(self, file: _File) -> None:
        try:
            self._disk.sync(file.fd)
        except OSError as error:
            raise storage_error(error, file.path, "syncing a staged file failed") from error

    def _wait(self) -> None:
        """Until the disk is done. An error of a sync is told once, to whoever has asked for it: the commit would hear nothing of it."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def _begin(self, key: tuple[int, int]) -> _File:
        full = self._open.pop(key, None)
        if full is not None:
            try:
                self._wait()
            finally:
                self._disk.close(full.fd)
        file = self._open[key] = _File(self._disk, f"{self._prefix}-{len(self.made)}{STAGED_SUFFIX}")
        self.made.append(file)
        return file

    def close(self) -> None:
        """Let go of all. Raises if something did not get to the disk."""
        try:
            if self._executor is not None:
                self._executor.shutdown()
            self._wait()
        finally:
            while self._open:
                self._disk.close(self._open.popitem()[1].fd)

    def remove(self) -> None:
        """Leave none of them."""
        with suppress(StorageError):  # somebody has failed already, and nothing of this is to stay
            self.close()
        for file in self.made:
            with suppress(OSError):
                self._disk.remove(file.path)
