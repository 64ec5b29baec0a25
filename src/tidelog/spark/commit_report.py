"""What the commit of a batch has done, in a file: Spark hands on nothing of what its sink says.

    {"records": 2, "was_there_already": false, "ranges": [["emails", 0, 7, 10]]}

A range goes from one offset up to, not including, another; the end of the transaction takes one.
"""

import json
import logging

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.store.sink_commit import SinkCommitted

logger = logging.getLogger("tidelog.spark")


def write_report(disk: Disk, path: str, done: SinkCommitted | None) -> None:
    """Say it; `done` is None where there were no rows. What is committed is committed: if this cannot be written, that is only told."""
    ranges = [] if done is None else [(*partition, start, end) for partition, start, end in done.ranges]
    records = 0 if done is None else done.records
    content = {"records": records, "was_there_already": done is not None and done.repeats is not None, "ranges": ranges}
    try:
        fd = disk.create(path, exclusive=False)
        try:
            disk.write(fd, [json.dumps(content).encode()], 0)
        finally:
            disk.close(fd)
    except OSError as error:
        logger.warning("tidelog: the commit is done, but the report of it could not be written: %s", error)


def read_report(disk: Disk, path: str) -> tuple[bool, tuple[tuple[TopicPartition, int, int], ...]] | None:
    """Whether an earlier run had written the rows, and otherwise where they are; None if there is no whole report."""
    try:
        found = json.loads(disk.read_file(path))
    except (FileNotFoundError, ValueError):
        return None
    ranges = tuple((TopicPartition(topic, number), start, end) for topic, number, start, end in found["ranges"])
    return found["was_there_already"], ranges
