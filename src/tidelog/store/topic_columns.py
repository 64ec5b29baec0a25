"""The records of a topic as Arrow columns: fetch after fetch through the column decoder, never all of it in memory.

A fetch brings whole batches. Most of the time all of them are wanted and go to the decoder as they are. Where there are markers of
transactions, or batches that were aborted, the others are put together first; rows below the start and from the end on are cut off.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import CorruptBatchError, OffsetOutOfRangeError
from tidelog.log.aborted import AbortedFilter
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.positions import LATEST
from tidelog.log.reading import Overtaken, cut_off, goes_back, placed, resolve
from tidelog.record.column_schema import COLUMNS, RECORD_COLUMNS, arrow_schema
from tidelog.record.columns import ColumnDecoder
from tidelog.record.headers import BatchHeaders, verify_checksums, walk_headers
from tidelog.record.layout import CONTROL_BIT
from tidelog.record.reading import read_batches
from tidelog.store.topic_range import PartitionRange

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_COLUMNS = ("partition", *RECORD_COLUMNS)
TOPIC_COLUMNS = ("topic", "partition", *COLUMNS)
FETCH_BYTES = 2 << 20
"""As much as the decoder takes at a time."""


def topic_schema(columns: Sequence[str]) -> "pa.Schema":
    """The Arrow schema of these columns, in their order."""
    import pyarrow as pa

    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names, not {columns!r}")
    unknown = [column for column in columns if column not in TOPIC_COLUMNS]
    if unknown or not columns:
        raise ValueError(
            f"unknown column {unknown[0]!r}: choose from {', '.join(TOPIC_COLUMNS)}" if unknown else "no columns were asked for"
        )
    if len(set(columns)) < len(columns):
        raise ValueError(f"a column is asked for twice: {', '.join(columns)}")
    own = {
        "topic": pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        "partition": pa.field("partition", pa.int32(), nullable=False),
    }
    return pa.schema([own[column] if column in own else arrow_schema([column]).field(0) for column in columns])


class TopicColumns:
    """Reads ranges of partitions into the same columns. One thread at a time."""

    def __init__(self, topic: str, columns: Sequence[str], isolation: Isolation, when_overtaken: Overtaken) -> None:
        self.schema = topic_schema(columns)
        self._topic = topic
        self._isolation: Isolation = isolation
        self._when_overtaken = when_overtaken
        # Offsets cost nothing and are always needed: they say where to go on.
        wanted = [column for column in columns if column not in ("topic", "partition", "offset")]
        self._decoder = ColumnDecoder(["offset", *wanted])
        self._is_decoded_as_asked = self.schema.equals(self._decoder.schema)

    def read(self, ranges: Sequence[PartitionRange]) -> "Iterator[pa.RecordBatch]":
        """The partitions one after the other. Up to where is decided now."""
        stops = []
        for part in ranges:
            part.log.refresh()
            stops.append(min(resolve(part.log, part.end, self._isolation), resolve(part.log, LATEST, self._isolation)))
        return self._read(ranges, stops)

    def _read(self, ranges: Sequence[PartitionRange], stops: Sequence[int]) -> "Iterator[pa.RecordBatch]":
        for part, stop in zip(ranges, stops, strict=True):
            offset = resolve(part.log, part.start, self._isolation)
            for decoded in self._iterate(part.log, offset, stop):
                yield decoded if self._is_decoded_as_asked else self._arrange(decoded, part.partition)

    def _iterate(self, log: LogReading, offset: int, stop: int) -> "Iterator[pa.RecordBatch]":
        while offset < stop:
            try:
                fetched = log.fetch(offset, FETCH_BYTES, isolation=self._isolation)
            except OffsetOutOfRangeError as error:
                if self._when_overtaken == "skip" and offset < error.log_start_offset:
                    offset = error.log_start_offset
                    continue
                raise
            if not fetched.data:
                return
            try:
                headers = walk_up_to(log, fetched, stop)
                for decoded in self._decoder.decode(_wanted(fetched, headers)):
                    rows = cut_rows(decoded, offset, stop)
                    if rows.num_rows:
                        offset = rows.column(0)[-1].as_py() + 1
                        yield rows
                offset = int(headers.last_offset[-1]) + 1
            except CorruptBatchError as error:
                # The bytes of a log that somebody else cuts and writes on may change while they are read.
                if not log.is_outdated(fetched):
                    raise placed(error, log, fetched)  # noqa: B904 - the same error

    def _arrange(self, decoded: "pa.RecordBatch", partition: int) -> "pa.RecordBatch":
        """The columns as they were asked for."""
        import pyarrow as pa

        count = decoded.num_rows
        arrays = []
        for name in self.schema.names:
            if name == "partition":
                arrays.append(pa.array(np.full(count, partition, np.int32)))
            elif name == "topic":
                arrays.append(pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([self._topic])))
            else:
                arrays.append(decoded.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def walk_up_to(log: LogReading, fetched: Fetched, stop: int) -> BatchHeaders:
    """The headers of a fetch up to an offset, if they go up from where it was asked for: anything else is damage."""
    headers = walk_headers(fetched.data)
    if not len(headers):
        raise cut_off(log, fetched)
    last_offsets = headers.last_offset
    if last_offsets[0] < fetched.offset:
        raise goes_back(log, fetched, fetched.offset, int(last_offsets[0]))
    falls = np.flatnonzero(last_offsets[1:] <= last_offsets[:-1])
    if len(falls):
        raise goes_back(log, fetched, int(last_offsets[falls[0]]) + 1, int(last_offsets[falls[0] + 1]))
    if last_offsets[-1] < stop:
        return headers
    return headers[: int(np.searchsorted(last_offsets, stop - 1)) + 1]


def _wanted(fetched: Fetched, headers: BatchHeaders) -> bytes | memoryview:
    """The batches of data that were not aborted, back to back."""
    source = memoryview(fetched.data)
    has_control = bool(((headers.attributes & CONTROL_BIT != 0) & (headers.magic == 2)).any())
    if not has_control and not fetched.aborted_transactions:
        return source[: headers.end_position]
    verify_checksums(source, headers)  # what is left out has to be what it says, too
    aborted = AbortedFilter(fetched.aborted_transactions)
    parts = []
    for batch in read_batches(source[: headers.end_position]):
        if not aborted.is_aborted(batch) and not batch.is_control:
            parts.append(source[batch.position : batch.position + batch.size_bytes])
    return b"".join(parts)


def cut_rows(decoded: "pa.RecordBatch", offset: int, stop: int) -> "pa.RecordBatch":
    """Without the rows outside of the range."""
    count = decoded.num_rows
    if count == 0:
        return decoded
    offsets = decoded.column(0)
    if offsets[0].as_py() >= offset and offsets[count - 1].as_py() < stop:
        return decoded
    first, last = np.searchsorted(offsets.to_numpy(), [offset, stop]).tolist()
    return decoded.slice(first, max(0, last - first))
