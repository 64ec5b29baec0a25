"""The streaming read, as Spark meets it: where a stream begins, how far the next micro-batch goes, and the tasks that read it.

One of these lives on the driver for as long as the query runs, in a process of its own, and keeps the logs open. The tasks have another
one, which only reads. So nothing is opened before it is asked for, and everything that a task needs is in its partition.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.option_values import ToldInOneLine, refuse
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.schema import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidelog.spark.stream_planning import StreamPlanning


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of records, with the offsets of `tidelog.spark.stream_offsets`."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        if options.isolation == "log_end":
            raise refuse("isolation", "committed or high_watermark: a stream cannot give back what is cut off later", "log_end")
        self.options = options
        self.columns = columns_of(schema)
        self._planning: StreamPlanning | None = None

    # On the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names
        """Where the query begins. Spark asks twice, and is told the same."""
        with ToldInOneLine():
            return self._plans().initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark takes one limit; the others are kept to by `latestOffset` itself."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch goes; `start` itself if there is none yet."""
        with ToldInOneLine():
            return self._plans().latest_offset(start, limit, now_ms=time.monotonic_ns() // 1_000_000)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the topics go, as of the last look: what the query has still before it."""
        return None if self._planning is None else self._planning.seen_offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what the query reads, though writers go on."""
        with ToldInOneLine():
            self._plans().fix_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. One that was cut short is planned again from what Spark has written down."""
        with ToldInOneLine():
            return self._plans().plan(start, end, self.columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept for a batch that is done: Spark has its offsets."""

    def stop(self) -> None:
        """The query ends."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None

    def _plans(self) -> "StreamPlanning":
        if self._planning is None:
            from tidelog.spark.stream_planning import StreamPlanning

            self.options.tell_ignored()
            self._planning = StreamPlanning(self.options)
        return self._planning

    # In a task

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The records of one task."""
        from tidelog.spark.split_reading import read_splits

        with ToldInOneLine():
            yield from read_splits(partition)
