"""The writers that Spark meets: of a batch, and of a stream. Tasks encode and stage, the driver commits.

Where each step runs, which is nowhere the same process:

    __init__    on the driver, when the write is planned: everything that can be wrong is told there; of a stream once more to commit
    prepare     there too, and only there: the staging directory is made
    pickled     right behind it, with the directories as the driver has them: a path may mean another place elsewhere
    write       in tasks, which may run twice, or late
    commit      on the driver, if every task is done: of a stream by an object that has never seen the staging directory
    abort       likewise, if one was not, or if the commit raised
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidelog.errors import InvalidConfigError, StagingError, TransactionError
from tidelog.spark.option_values import ToldInOneLine
from tidelog.spark.sink_columns import find_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidelog.disk.process_identity import ProcessIdentity
    from tidelog.spark.write_options import WriteOptions
    from tidelog.store.sink_commit import SinkCommitted
    from tidelog.store.staged_batches import StagedFile
    from tidelog.store.staging import Staging
    from tidelog.store.transactions.ledger import LedgerEntry

QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""By which a task knows the query it is part of; the id is kept in the query's checkpoint. A name of Spark's own: a test notices."""
COMMIT_MODULE = "pyspark.sql.worker.python_streaming_sink_runner"
"""What is loaded in a process that commits or aborts a batch of a stream. A private name of Spark's: a test notices when it changes."""
ID_PREFIX = "tidelog-spark-"
"""What the transactional ids of sinks begin with."""

logger = logging.getLogger("tidelog.spark")


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task tells the driver."""

    staging: "Staging"
    files: "tuple[StagedFile, ...]"
    """None of a task without rows."""
    query_id: str | None = None
    """That Spark has for the stream."""


class _Sink:
    """What both writers have in common."""

    def __init__(self, options: "WriteOptions", schema: "StructType", *, overwrite: bool = False) -> None:
        self._options = options
        self._columns = find_columns(schema, has_topic=options.topic is not None)
        self._staging: Staging | None = None
        self._directories: list[str] | None = None
        if COMMIT_MODULE not in sys.modules:  # one that only ends what has begun must not fail
            self._check(overwrite=overwrite)

    def _check(self, *, overwrite: bool) -> None:
        """Whatever can be told before a task has run."""
        from tidelog.disk.disk import OS
        from tidelog.spark.sink_topics import SinkTopics
        from tidelog.store.directories import wait_for_owner
        from tidelog.store.staging import check_place

        self._options.tell_ignored()
        if overwrite:
            raise self._refused_overwrite()
        paths, topics = self._paths(), SinkTopics(OS, self._paths(), self._options)
        topics.check_store()
        if self._options.topic is not None:
            topics.find(self._options.topic)
        check_place(paths[0], self._options.staging_directory)
        wait_for_owner(OS, paths, self._options.lock_timeout_s)

    def _refused_overwrite(self) -> InvalidConfigError:
        return InvalidConfigError(
            "a log is not overwritten",
            expected='mode("append")',
            found='mode("overwrite")',
            hint="delete the topic first, or write another",
        )

    def _paths(self) -> list[str]:
        """The directories of the store, resolved once, on the driver."""
        from tidelog.spark.catalog import resolve_directories

        if self._directories is None:
            self._directories = resolve_directories(self._options.paths)
        return self._directories

    def prepare(self) -> None:
        """Make the staging directory, unless it is there, or this only ends what has begun.

        An error is told here: of one while the writer is pickled Spark would show how it pickles.
        """
        if self._staging is None and COMMIT_MODULE not in sys.modules:
            self._staging = self._make_staging()

    def __getstate__(self) -> dict[str, Any]:
        self.prepare()
        return self.__dict__

    def _make_staging(self) -> "Staging":
        from tidelog.disk.disk import OS
        from tidelog.record.kernel.clock import wall_clock
        from tidelog.store.staging import Staging, discard_labelled, sweep_staging

        directory, options, owner = self._paths()[0], self._options, _owner()
        sweep_staging(OS, [directory], wall_clock(), within=options.staging_directory)
        if options.label is not None:
            discard_labelled(OS, directory, options.label, owner, within=options.staging_directory)
        return Staging.make(OS, directory, owner, label=options.label, within=options.staging_directory)

    def _stage(self, iterator: "Iterator[pa.RecordBatch]") -> Staged:
        from pyspark import TaskContext

        from tidelog.disk.disk import OS
        from tidelog.spark.sink_tasks import stage

        context = TaskContext.get()
        assert self._staging is not None, "made when the writer was sent here"
        number, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
        files = stage(OS, self._options, self._columns, self._staging, self._paths(), f"{number:05d}-{attempt}", iterator)
        return Staged(self._staging, files, query_id)

    def _commit(self, messages: Sequence[Staged], transactional_id: str, entry: "LedgerEntry | None") -> "SinkCommitted | None":
        from tidelog.store.sink_commit import NewTopics, SinkCommit, commit_staged

        files = tuple(file for message in messages for file in message.files)
        if not files:
            return None
        options = self._options
        new_topics = NewTopics(options.partitions, options.topic_config) if options.create_topics else None
        commit = SinkCommit(files, transactional_id, entry, new_topics)
        return commit_staged(self._paths(), commit, lock_timeout_s=options.lock_timeout_s)

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what was staged. What cannot be removed now is found by the next job, or when the store is opened."""
        from tidelog.disk.disk import OS
        from tidelog.store.staging import discard_labelled

        found = {message.staging for message in messages if isinstance(message, Staged)} | {self._staging} - {None}
        try:
            for staging in found:
                staging.discard(OS)  # type: ignore[union-attr]
            if self._options.label is not None:
                discard_labelled(OS, self._paths()[0], self._options.label, _owner(), within=self._options.staging_directory)
        except OSError as error:
            logger.warning("tidelog: what was staged could not be removed yet: %s", error)


class TidelogWriter(_Sink, DataSourceArrowWriter):
    """`df.write.format("tidelog").mode("append")`."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Staged:
        """In a task: encode and stage."""
        with ToldInOneLine():
            return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: append everything, in one transaction."""
        from tidelog.disk.disk import OS
        from tidelog.spark.commit_report import write_report
        from tidelog.store.transactions.ledger import LedgerEntry

        name = self._options.transactional_id
        entry = None if name is None else LedgerEntry(f"batch/{name}", self._options.batch_id)
        with ToldInOneLine():
            done = self._commit(_all_staged(messages), f"{ID_PREFIX}batch/{name or uuid4()}", entry)
        if done is not None and done.repeats is not None:
            logger.warning(
                "tidelog: nothing was written: run %d of %r is done already (the last was run %d, %d records); batchId counts the runs",
                self._options.batch_id,
                name,
                done.repeats.batch_id,
                done.repeats.records,
            )
        if self._options.commit_report is not None:
            write_report(OS, self._options.commit_report, done)
        self._discard(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: give up what was staged."""
        self._discard(messages)


class TidelogStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """`df.writeStream.format("tidelog")`."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Staged:
        """In a task: encode and stage."""
        with ToldInOneLine():
            return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver: append a micro-batch in one transaction, unless the ledger says that it is there."""
        from tidelog.store.transactions.ledger import LedgerEntry

        staged = _all_staged(messages)
        if any(message.files for message in staged):
            with ToldInOneLine():
                query_id = self._query_id(staged)
                entry = LedgerEntry(f"stream/{query_id}", batchId, origin=staged[0].query_id)
                done = self._commit(staged, f"{ID_PREFIX}stream/{query_id}", entry)
            if done is not None and done.repeats is not None:
                logger.warning("tidelog: batch %d of query %s was there already: skipped", batchId, query_id)
        self._discard(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver: give up what was staged."""
        self._discard(messages)

    def _query_id(self, staged: Sequence[Staged]) -> str:
        found = {message.query_id for message in staged}
        if len(found) > 1:
            raise StagingError("staged files of different queries", found=", ".join(sorted(map(str, found))))
        query_id = self._options.query_id or found.pop()
        if query_id is None:
            raise TransactionError(
                "the stream does not say its id, without which a repetition could not be told",
                expected=f"the property {QUERY_ID_PROPERTY} in tasks",
                found="none",
                hint="the option queryId gives it one",
            )
        return query_id

    def _refused_overwrite(self) -> InvalidConfigError:
        return InvalidConfigError("a log is not overwritten", expected='outputMode("append") or "update"', found='outputMode("complete")')


def _all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What the tasks have told, in the order of the DataFrame's partitions."""
    return [message for message in messages if isinstance(message, Staged)]


def _owner() -> "ProcessIdentity":
    """The process that a job ends with: the driver's JVM, above the Python workers that come and go."""
    import os

    from tidelog.disk.process_identity import ProcessIdentity, ancestors

    return ProcessIdentity.of(next((pid for pid, name in ancestors() if name == "java"), os.getpid()))
