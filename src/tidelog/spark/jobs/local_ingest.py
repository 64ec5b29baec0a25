"""`ingest` without Spark: files are read here, and go the way that the tasks of the sink go, into one staged file and one commit.

So what is appended, and what a run that is made again finds in the ledger, is the same as on Spark.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from tidelog.disk.disk import OS
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark.jobs.ingest_columns import choose_columns, record_columns, spark_name
from tidelog.spark.jobs.ingest_files import read_rows
from tidelog.spark.jobs.ingest_job import sink_options
from tidelog.spark.jobs.ingest_outcome import AppendedRange, Ingested
from tidelog.spark.jobs.ingest_source import format_of
from tidelog.spark.jobs.running import staged
from tidelog.spark.sink_columns import SinkColumns
from tidelog.spark.sink_topics import SinkTopics
from tidelog.spark.write_options import WriteOptions
from tidelog.store.directories import wait_for_owner
from tidelog.store.sink_commit import NewTopics, SinkCommit, SinkCommitted, commit_staged
from tidelog.store.staging import check_place, sweep_staging
from tidelog.store.transactions.ledger import LedgerEntry

if TYPE_CHECKING:
    import pyarrow as pa

_ID_PREFIX = "tidelog-spark-batch/"
"""What the transactional ids of the sink begin with, be it on Spark or here: a run is known again by either."""


def ingest_here(
    sources: Sequence[str],
    directory: str,
    topic: str,
    *,
    columns: Mapping[str, str | None],
    form: str | None = None,
    partitions: int = 1,
    config: Mapping[str, object] | None = None,
    compression: str | None = None,
    transactional_id: str | None = None,
    lock_timeout_s: float = 0,
    on_read: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Append the rows of files to a topic, which is made if it is missing, in one transaction.

    `columns` says which column of the rows is the key, value, headers, timestamp and partition, as `ingest` has it; expressions of SQL are
    for Spark. For `on_read` see `read_rows`.
    """
    chosen = sink_options(topic, (partitions, config or {}), transactional_id, 0, compression, lock_timeout_s)
    options = WriteOptions.of({"path": directory} | chosen, is_stream=False)
    topics = SinkTopics(OS, [directory], options)
    topics.check_store()
    topics.find(topic)
    check_place(directory, None)
    wait_for_owner(OS, [directory], lock_timeout_s)
    rows = _Records(read_rows(sources, format_of(sources, form), on_read), columns)
    sweep_staging(OS, [directory], wall_clock())
    done = SinkCommitted(0)
    with staged(directory) as staging:
        from tidelog.spark.sink_tasks import stage

        batches = iter(rows)
        files = stage(OS, options, rows.places, staging, [directory], f"local-{os.getpid()}", batches)
        if files:
            entry = None if transactional_id is None else LedgerEntry(f"batch/{transactional_id}", 0)
            new_topics = NewTopics(options.partitions, options.topic_config)
            commit = SinkCommit(files, f"{_ID_PREFIX}{transactional_id or uuid4()}", entry, new_topics)
            done = commit_staged([directory], commit, lock_timeout_s=lock_timeout_s)
    ranges = tuple(AppendedRange(*one) for one in done.ranges)
    return Ingested(directory, topic, False, rows.kinds, rows.count, ranges, (), done.repeats is not None)


class _Records:
    """The columns of records, batch by batch; the first batch says which there are."""

    def __init__(self, rows: "Iterator[pa.RecordBatch]", columns: Mapping[str, str | None]) -> None:
        self._rows = rows
        self._first = next(rows, None)
        there = [] if self._first is None else self._first.schema.names
        self._chosen = choose_columns(there, columns) if self._first is not None else {}
        self.places = SinkColumns(**{name: place for place, name in enumerate(self._chosen)}) if self._chosen else SinkColumns(0)
        self.kinds: tuple[tuple[str, str], ...] = ()
        self.count = 0

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        rows = self._first
        while rows is not None:
            batch = record_columns(rows, self._chosen)
            self.kinds = tuple((field.name, spark_name(field.type)) for field in batch.schema)
            self.count += batch.num_rows
            yield batch
            rows = next(self._rows, None)
