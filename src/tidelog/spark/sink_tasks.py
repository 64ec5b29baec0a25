"""What a task of a write does with its disk: look for the driver's token, and write one file."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.disk.disk import Disk
from tidelog.errors import StagingError
from tidelog.log.storage_errors import storage_error
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.sink_encoding import SinkEncoder
from tidelog.spark.sink_topics import SinkTopics
from tidelog.store.staged_batches import StagedFile, StagedTopic
from tidelog.store.staging import STAGED_SUFFIX, Staging

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.sink_columns import SinkColumns
    from tidelog.spark.write_options import WriteOptions


def stage(
    disk: Disk,
    options: "WriteOptions",
    columns: "SinkColumns",
    staging: Staging,
    paths: list[str],
    name: str,
    batches: "Iterator[pa.RecordBatch]",
) -> StagedFile | None:
    """Encode all rows into a file of this attempt's own; None if there are none. What an attempt leaves that failed, it removes."""
    staging.check(disk)  # before topics are looked for: who does not see the driver's disk would not find them either
    encoder = SinkEncoder(options, columns, SinkTopics(disk, paths, options), wall_clock())
    path = staging.file(name + STAGED_SUFFIX)
    rows: list[tuple[int, int, int, int]] = []
    position, fd = 0, -1
    try:
        for place, partition, encoded, count in encoder.blocks(batches):
            if fd < 0:
                fd = _create(disk, path)
            try:
                disk.write(fd, [encoded], position, len(encoded))
            except OSError as error:
                raise storage_error(error, path, "writing a staged file failed") from error
            position += len(encoded)
            rows.append((place, partition, len(encoded), count))
    except BaseException:  # an interrupt too: a task that was cancelled
        if fd >= 0:
            with suppress(OSError):
                disk.remove(path)
        raise
    finally:
        if fd >= 0:
            disk.close(fd)
    if not rows:
        return None
    return StagedFile.of(path, [StagedTopic(topic.name, topic.partitions, topic.topic_id) for topic in encoder.topics], rows)


def _create(disk: Disk, path: str) -> int:
    try:
        return disk.create(path)
    except FileNotFoundError as error:
        raise StagingError("the staging directory is gone", path=path, hint="the job was given up meanwhile") from error
    except OSError as error:
        raise storage_error(error, path, "making a staged file failed") from error
