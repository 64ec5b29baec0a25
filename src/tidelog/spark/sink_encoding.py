"""One task of a write: rows in Arrow columns become batches in a staged file, in blocks of one partition each.

Rows are gathered until every partition can expect some batches, then sorted by where they go, and encoded. So memory is bounded, whatever
the number of rows, and the order of a task's rows stays what it is within each partition.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelog.errors import InvalidRecordTypeError, MessageTooLargeError, RefusedBatchError, UnknownTopicError
from tidelog.record.encoding import BatchEncoder, BatchSettings
from tidelog.record.headers import walk_headers
from tidelog.spark.sink_topics import SinkTopic, SinkTopics
from tidelog.store.batch_runs import batches_of, codec_for
from tidelog.store.partitioner import Partitioner

if TYPE_CHECKING:
    from tidelog.spark.sink_columns import SinkColumns
    from tidelog.spark.write_options import WriteOptions

LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES = 4 << 20, 32 << 20
_BATCHES_A_CHUNK = 4
_NO_TIMESTAMP_US = -1000
_OWN = ("key", "value", "headers", "timestamp_ms")


class SinkEncoder:
    """Encodes the rows of a task. One thread."""

    def __init__(self, options: "WriteOptions", columns: "SinkColumns", topics: SinkTopics, now_ms: int) -> None:
        self.topics: list[SinkTopic] = []
        """Those that were met, by the places that blocks have them."""
        self.has_many_rows = False
        """Whether there are more rows than fit into memory at once; known when the first block is there."""
        self._options = options
        self._columns = columns
        self._known = topics
        self._now_ms = now_ms
        self._places: dict[str, int] = {}
        self._partitioners: list[Partitioner] = []
        self._encoders: dict[BatchSettings, BatchEncoder] = {}

    def blocks(self, batches: "Iterable[pa.RecordBatch]") -> Iterator[tuple[int, int, memoryview, int]]:
        """Place of the topic, partition, batches and records of each block; good until the next is asked for."""
        pending: list[pa.RecordBatch] = []
        pending_bytes = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            pending.append(batch)
            pending_bytes += batch.nbytes
            if pending_bytes >= self._chunk_bytes():
                self.has_many_rows = True
                yield from self._encode(pending)
                pending, pending_bytes = [], 0
        if pending:
            yield from self._encode(pending)

    def _chunk_bytes(self) -> int:
        partitions = sum(topic.partitions for topic in self.topics)
        return min(MOST_CHUNK_BYTES, max(LEAST_CHUNK_BYTES, _BATCHES_A_CHUNK * self._options.batch_bytes * partitions))

    def _encode(self, batches: list["pa.RecordBatch"]) -> Iterator[tuple[int, int, memoryview, int]]:
        table = pa.Table.from_batches(batches).combine_chunks()
        rows = self._rows(table)
        groups = self._groups(table, rows)
        if len(groups) > 1:
            order = np.concatenate([indices for _, _, indices in groups])
            rows = rows.take(order).combine_chunks()
        first = 0
        for place, partition, indices in groups:
            part = rows.slice(first, len(indices))
            first += len(indices)
            yield place, partition, self._encode_part(self.topics[place], partition, part), part.num_rows

    def _encode_part(self, topic: SinkTopic, partition: int, rows: "pa.Table") -> memoryview:
        config = topic.config
        codec, level = codec_for(config, self._options.compression)
        batch_bytes = min(self._options.batch_bytes, config.max_message_bytes)
        settings = BatchSettings(compression=codec, level=level, batch_bytes=batch_bytes)
        encoder = self._encoders.get(settings)
        if encoder is None:
            encoder = self._encoders[settings] = BatchEncoder(settings)
        encoder.next_offset = 0
        try:
            encoded = encoder.encode_arrow(rows, timestamp_ms=self._now_ms)
        except TypeError as error:  # of a header without a name
            raise InvalidRecordTypeError(f"rows for {topic.name}-{partition}: {error}") from error
        largest = int(walk_headers(encoded).size_bytes.max())
        if largest > config.max_message_bytes:
            raise MessageTooLargeError(
                f"a record for {topic.name}-{partition} is larger than max.message.bytes",
                expected=f"at most {config.max_message_bytes} bytes in a batch",
                found=largest,
            )
        batches_of(encoded)  # offsets of each batch from 0 on, as a leader takes them
        return encoded

    # What the columns say

    def _rows(self, table: "pa.Table") -> "pa.Table":
        """The columns as the encoder takes them."""
        columns = self._columns
        found: dict[str, Any] = {"value": _as_bytes(table.column(columns.value))}
        if columns.key is not None:
            found["key"] = _as_bytes(table.column(columns.key))
        if columns.headers is not None:
            found["headers"] = table.column(columns.headers)
        if columns.timestamp is not None:
            found["timestamp_ms"] = _as_ms(table.column(columns.timestamp), self._now_ms)
        return pa.table(found)

    def _groups(self, table: "pa.Table", rows: "pa.Table") -> list[tuple[int, int, NDArray[np.int64]]]:
        """Place of the topic, partition, and which rows go there, in their order."""
        groups = []
        for name, chosen in self._by_topic(table):
            place = self._place(name)
            part = rows if chosen is None else rows.take(chosen)
            numbers = None if self._columns.partition is None else table.column(self._columns.partition)
            if numbers is not None and chosen is not None:
                numbers = numbers.take(chosen)
            partitions = self._partitions(place, part, numbers)
            order = _stable_order(partitions, self.topics[place].partitions)
            cuts = np.flatnonzero(np.diff(partitions[order])) + 1
            for indices in np.split(order, cuts):
                groups.append((place, int(partitions[indices[0]]), indices if chosen is None else chosen[indices]))
        return groups

    def _by_topic(self, table: "pa.Table") -> list[tuple[str, NDArray[np.int64] | None]]:
        if self._options.topic is not None:
            return [(self._options.topic, None)]
        column = table.column(self._columns.topic)
        if column.null_count:
            raise InvalidRecordTypeError("a row without a topic", expected="a name in column topic", found="null")
        encoded = column.combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        places = encoded.indices.to_numpy(zero_copy_only=False)
        return [(name, None if len(names) == 1 else np.flatnonzero(places == number)) for number, name in enumerate(names)]

    def _place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            topic = self._known.find(name)
            place = self._places[name] = len(self.topics)
            self.topics.append(topic)
            sticky_bytes = min(self._options.batch_bytes, topic.config.max_message_bytes)
            self._partitioners.append(Partitioner(topic.partitions, topic.here, Random(), sticky_bytes))  # noqa: S311
        return place

    def _partitions(self, place: int, rows: "pa.Table", numbers: Any) -> NDArray[np.int32]:
        topic = self.topics[place]
        count = rows.num_rows
        key = rows.column("key").combine_chunks() if "key" in rows.schema.names else pa.nulls(count, pa.binary())
        if isinstance(key, pa.ChunkedArray):
            key = key.chunk(0)
        if topic.config.is_compacted and key.null_count:
            raise RefusedBatchError(f"topic {topic.name!r} is compacted and takes no records without a key", found=f"{key.null_count} rows")
        if numbers is not None and numbers.null_count == 0:
            return _numbers(topic, numbers)
        if topic.partitions == 1 and numbers is None:
            return np.zeros(count, np.int32)
        found = self._partitioners[place].partitions(key, _sizes(rows))
        if numbers is not None and numbers.null_count < count:
            given = pc.is_valid(numbers).to_numpy(zero_copy_only=False)
            found[given] = _numbers(topic, numbers.drop_null())
        _check_partitions(topic, found)
        return found


def _as_bytes(column: Any) -> Any:
    """Text in UTF-8, which costs nothing: that is how it lies there."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _as_ms(column: Any, now_ms: int) -> Any:
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    lowest = pc.min(micros).as_py()
    if lowest is not None and lowest < 0:
        # A record without a timestamp, as it is read: that is none when it is written, either.
        micros = pc.if_else(pc.equal(micros, _NO_TIMESTAMP_US), None, micros)
        lowest = pc.min(micros).as_py()
    if lowest is not None and lowest < 0:
        raise InvalidRecordTypeError(
            "a timestamp that no record can have", expected="from 1970 on", found=f"{lowest} microseconds since 1970"
        )
    return pc.fill_null(pc.divide(micros, 1000), now_ms)


def _numbers(topic: SinkTopic, column: Any) -> NDArray[np.int32]:
    """Partitions that were given. They are checked as they are: what is no number of 32 bits is told as it was given."""
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    _check_partitions(topic, numbers)
    return numbers.astype(np.int32)


def _sizes(rows: "pa.Table") -> NDArray[np.int64]:
    sizes: NDArray[np.int64] = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy().astype(np.int64)
    return sizes


def _check_partitions(topic: SinkTopic, found: NDArray[np.int32] | NDArray[np.int64]) -> None:
    if len(topic.here) == topic.partitions and int(found.min()) >= 0 and int(found.max()) < topic.partitions:
        return
    wrong = sorted(set(np.unique(found).tolist()) - set(topic.here))
    if wrong:
        raise UnknownTopicError(
            f"no partition {wrong[0]} of topic {topic.name!r}", expected=f"one of {', '.join(map(str, topic.here))}", found=wrong[0]
        )


def _stable_order(partitions: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """By partition. Small numbers are sorted by their digits, several times as fast."""
    narrow = np.int16 if count <= np.iinfo(np.int16).max else np.int32
    return np.argsort(partitions.astype(narrow), kind="stable")
