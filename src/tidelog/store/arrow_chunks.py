"""An Arrow table, sliced into chunks of bounded size, and the partitions of its records."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidelog.config import LogConfig
from tidelog.errors import InvalidRecordTypeError
from tidelog.log.leader import timestamp_range
from tidelog.store.batch_runs import Chunk, RunEncoder, grouped
from tidelog.store.record_values import NO_TIMESTAMP, explain

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_RECORDS = 1 << 20
_SMALL_BYTES = 1 << 30
_OVERHEAD = 256
"""More than a batch has beside the key and the value of its only record; what codecs add to what they cannot compress comes on top."""


class ArrowChunks:
    """Chunks of a table or a record batch with the columns `value`, and if there are any `key`, `headers`, `timestamp_ms`, `partition`."""

    is_whole = True

    def __init__(self, records: "pa.Table | pa.RecordBatch", encoder: RunEncoder) -> None:
        import pyarrow as pa

        if not isinstance(records, (pa.Table, pa.RecordBatch)):
            raise InvalidRecordTypeError(
                "records that are neither rows nor a table", expected="a Table or a RecordBatch", found=type(records).__name__
            )
        self._table = records if isinstance(records, pa.Table) else pa.Table.from_batches([records])
        self._targets = encoder.targets
        self._partitioner = encoder.targets.partitioner
        self._chunk_bytes = encoder.chunk_bytes
        self._now_ms = encoder.now_ms

    def __iter__(self) -> Iterator[Chunk]:
        table = self._table
        size = max(1, min(_MAX_RECORDS, self._chunk_bytes * table.num_rows // max(1, table.nbytes)))
        for first in range(0, table.num_rows, size):
            try:
                part = _timed(table.slice(first, size).combine_chunks(), self._now_ms)
                is_alone = self._partitioner.count == 1 and "partition" not in part.schema.names
                part = part if is_alone else _without_views(part)
                groups = [(0, None)] if is_alone else grouped(self._partitions(part))
            except Exception as error:
                explain(error, table, first, is_arrow=True)
                raise
            config = self._targets.log(groups[0][0]).config
            yield Chunk(part, first, part.num_rows, groups, is_arrow=True, is_surely_fine=is_surely_fine(part, config, self._now_ms))

    def _partitions(self, chunk: "pa.Table") -> NDArray[np.int32]:
        """What the table says, or where each record goes by its key."""
        import pyarrow as pa

        names = chunk.schema.names
        if "partition" in names:
            return _numbers(chunk.column("partition"))
        key = _one(chunk.column("key")) if "key" in names else pa.nulls(chunk.num_rows, pa.binary())
        return self._partitioner.partitions(key, _value_sizes(chunk))


def is_surely_fine(chunk: "pa.Table", config: LogConfig, now_ms: int) -> bool:
    """Whether a look at whole columns tells that a topic with these settings takes every record.

    False means nothing: then the records are encoded and asked one by one, and what is wrong with one of them is said.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = chunk.schema.names
    if "headers" in names or "timestamp" in names or "value" not in names or config.compression_type != "producer":
        return False
    columns = [chunk.column(name) for name in ("key", "value") if name in names]
    if not all(pa.types.is_binary(column.type) for column in columns):
        return False
    if config.is_compacted and ("key" not in names or chunk.column("key").null_count):
        return False
    limit = min(config.max_message_bytes, _SMALL_BYTES)
    if sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns) > limit - limit // 64 - _OVERHEAD:
        return False
    if "timestamp_ms" not in names or config.is_append_time:
        return "timestamp_ms" not in names
    if not pa.types.is_int64(chunk.schema.field("timestamp_ms").type):
        return False
    lowest_ms, highest_ms = timestamp_range(config, now_ms)
    found = pc.min_max(chunk.column("timestamp_ms")).as_py()
    return found["min"] is None or max(0, lowest_ms) <= found["min"] <= found["max"] <= highest_ms


def _timed(chunk: "pa.Table", now_ms: int) -> "pa.Table":
    """With the time of the call where there is -1, as for a null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = chunk.schema.names
    if "timestamp_ms" not in names or not pa.types.is_integer(chunk.schema.field("timestamp_ms").type):
        return chunk
    times = chunk.column("timestamp_ms")
    is_none = pc.equal(times, NO_TIMESTAMP)
    if not pc.any(is_none).as_py():
        return chunk
    return chunk.set_column(names.index("timestamp_ms"), "timestamp_ms", pc.if_else(is_none, now_ms, times))


def _without_views(chunk: "pa.Table") -> "pa.Table":
    """The same with plain columns in place of views, of which Arrow cannot take some rows."""
    import pyarrow as pa

    for place, column in enumerate(chunk.schema):
        if pa.types.is_binary_view(column.type):
            chunk = chunk.set_column(place, column.name, chunk.column(place).cast(pa.binary()))
    return chunk


def _numbers(column: Any) -> NDArray[np.int32]:
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count:
        raise InvalidRecordTypeError(
            "a column of partitions that are no numbers", expected="whole numbers, no nulls", found=str(column.type)
        )
    try:
        numbers: NDArray[np.int32] = column.cast(pa.int32()).to_numpy()
    except pa.ArrowInvalid as error:
        raise InvalidRecordTypeError("a column of partitions with numbers too large", expected="int32", found=str(error)) from error
    return numbers


def _value_sizes(chunk: "pa.Table") -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = np.zeros(chunk.num_rows, np.int64)  # what is wrong is said when it is encoded
    if "value" not in chunk.schema.names:
        return nothing
    values = chunk.column("value")
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        try:
            values = values.cast(pa.binary())  # a dictionary, or nothing but nulls: whatever the encoder takes
        except pa.ArrowException:
            return nothing
    sizes: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    return sizes


def _one(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
