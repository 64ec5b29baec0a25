"""Staged files for tests, as a task of a pipeline leaves them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.logs import TIME
from tests.support.small_stores import file_of
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import TopicPartition
from tidelog.record.encoding import BatchEncoder, BatchSettings
from tidelog.store.batch_runs import batches_of
from tidelog.store.sink_commit import NewTopics, SinkCommit
from tidelog.store.staged_batches import StagedFile, StagedTopic
from tidelog.store.transactions.ledger import LedgerEntry

Rows = Mapping[TopicPartition, Sequence[bytes]]


def stage(
    path: Path,
    data: Path,
    rows: Rows,
    *,
    timestamp_ms: int = TIME,
    batch_bytes: int = 200,
    new: Mapping[str, int] | None = None,
    compression: str = "none",
    disk: Disk = OS,
) -> StagedFile:
    """A file with a block for each partition. Keys are the values up to the first colon."""
    known = file_of(data).topics if (data / "tidelog.json").exists() else {}
    names = list(dict.fromkeys(partition.topic for partition in rows))
    topics = [
        StagedTopic(name, known[name].partitions, known[name].topic_id)
        if name in known
        else StagedTopic(name, (new or {}).get(name, 1), None)
        for name in names
    ]
    blocks, content = [], b""
    for partition, values in rows.items():
        encoder = BatchEncoder(BatchSettings(batch_bytes=batch_bytes, compression=compression))
        encoded = encoder.encode([(value.partition(b":")[0], value, (), timestamp_ms) for value in values])
        batches_of(encoded)
        blocks.append((names.index(partition.topic), partition.partition, len(encoded), len(values)))
        content += bytes(encoded)
    fd = disk.create(str(path))
    disk.write(fd, [content], 0)
    disk.close(fd)
    return StagedFile.of(str(path), topics, blocks)


def a_commit(*files: StagedFile, batch_id: int = 0, query: str | None = "q", new_topics: NewTopics | None = None) -> SinkCommit:
    """A micro-batch of a query."""
    entry = None if query is None else LedgerEntry(f"stream/{query}", batch_id)
    return SinkCommit(files, f"sink-{query}", entry, new_topics)
