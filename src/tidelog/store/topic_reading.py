"""Reading a topic: records, columns, and the latest value of each key. Works on any log, opened to write or only to read."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.positions import EARLIEST, LATEST, Position, Time, epoch_ms
from tidelog.log.reading import DEFAULT_POLL_S, Overtaken
from tidelog.record.kernel.record import Record
from tidelog.store import frames, topic_table
from tidelog.store.topic_columns import DEFAULT_COLUMNS, TopicColumns
from tidelog.store.topic_range import PartitionRange, Positions, of_one_partition, partition_ranges
from tidelog.store.topic_rounds import Merge, Rounds, RoundSettings, follow_rounds

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class TopicReading:
    """The reading side of a topic. What it works on is given by the topic it is part of."""

    name: str

    @abstractmethod
    def partition_ids(self) -> list[int]:
        """The partitions that are here."""

    @abstractmethod
    def log(self, partition: int) -> LogReading:
        """The log of a partition."""

    # Records

    def read(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        follow: bool = False,
        merge: Merge | None = None,
        poll_s: float = DEFAULT_POLL_S,
        when_overtaken: Overtaken = "raise",
    ) -> Iterator[Record]:
        """The records from one position up to, not including, another: of all partitions or one, each in the order of its offsets.

        A position is a time, EARLIEST or LATEST, an offset if it is about one partition, or one of these for each partition in a dict,
        where a partition that is not named is read from its beginning, or to its end. What is there at the moment of the call is
        read; with `follow` also what comes, which is looked for every `poll_s` seconds.

        Between partitions there is no order, unless `merge="time"` merges them by timestamp; what follows can only be merged with what
        is there when it is looked for. If the start of a log overtakes the reading it raises, or goes on there with "skip".
        """
        settings = RoundSettings(isolation, follow, merge, when_overtaken, poll_s)
        rounds = self.rounds(start, end, partition, settings)
        return follow_rounds(rounds, poll_s) if follow else rounds.next_round()

    def rounds(self, start: Positions, end: Positions, partition: int | None, settings: RoundSettings) -> Rounds:
        """What `read` reads, a round at a time, for whoever waits in a way of their own."""
        return Rounds(self._ranges(start, end, partition, settings.isolation), settings)

    # Columns

    def arrow(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        when_overtaken: Overtaken = "raise",
    ) -> "Iterator[pa.RecordBatch]":
        """The same records as Arrow record batches of about two mebibytes of log each; one batch is of one partition.

        `columns` are those of the record layer, and `topic` and `partition`. Those that are not asked for are not copied.
        """
        reader = TopicColumns(self.name, columns, isolation, when_overtaken)
        return reader.read(self._ranges(start, end, partition, isolation))

    def to_arrow(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
    ) -> "pa.Table":
        """All of `arrow` as one table."""
        import pyarrow as pa

        reader = TopicColumns(self.name, columns, isolation, "raise")
        return pa.Table.from_batches(reader.read(self._ranges(start, end, partition, isolation)), reader.schema)

    def to_pandas(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
    ) -> "pd.DataFrame":
        """All of `arrow` as a pandas frame."""
        frames.need("pandas")
        return frames.to_pandas(self.to_arrow(start, end, columns, partition=partition, isolation=isolation))

    def to_polars(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
    ) -> "pl.DataFrame":
        """All of `arrow` as a Polars frame."""
        frames.need("polars")
        return frames.to_polars(self.to_arrow(start, end, columns, partition=partition, isolation=isolation))

    def to_duckdb(
        self,
        connection: "duckdb.DuckDBPyConnection | None" = None,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
    ) -> "duckdb.DuckDBPyRelation":
        """All of `arrow` as a DuckDB relation, of a connection or of the default one."""
        frames.need("duckdb")
        return frames.to_duckdb(self.to_arrow(start, end, columns, partition=partition, isolation=isolation), connection)

    # The latest values

    def table(
        self,
        as_of: Position | Mapping[int, int] | None = None,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        allow_incomplete: bool = False,
    ) -> Mapping[bytes, bytes]:
        """The latest value of each key. A tombstone takes a key away; records without a key do not count.

        `as_of` an offset, or one for each partition, that record is the last that counts. As of a time, those records count whose own
        timestamp is not above it, wherever they are in the log. A point of which compaction or retention has taken records away raises
        `UnknownPastError`, which names the first that can be told; with `allow_incomplete` what is left is the answer.
        """
        until_ms = None
        end: Positions = LATEST
        if isinstance(as_of, (Time, datetime)):
            until_ms = epoch_ms(as_of)
        elif isinstance(as_of, Mapping):
            end = {number: _behind(offset) for number, offset in as_of.items()}
        elif as_of is not None:
            end = _behind(as_of)
            if partition is None and (count := len(self.partition_ids())) > 1:
                raise of_one_partition("as_of", as_of, count)
        ranges = partition_ranges(self.log, self.partition_ids(), EARLIEST, end, partition, isolation, end_name="as_of")
        return topic_table.table_of(self.name, ranges, isolation, until_ms, allow_incomplete=allow_incomplete)

    def _ranges(self, start: Positions, end: Positions, partition: int | None, isolation: Isolation) -> list[PartitionRange]:
        return partition_ranges(self.log, self.partition_ids(), start, end, partition, isolation)


def _behind(offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"as_of is an offset, an offset for each partition, a Time or a datetime, not {offset!r}")
    return offset + 1
