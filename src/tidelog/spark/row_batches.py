"""Decoded records in Spark's columns: built in bulk, and joined or cut to the size at which batches travel best.

Spark takes batches of some ten thousand rows and a few mebibytes at about twice the rate of small or of very large ones.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.errors import InvalidRecordError
from tidelog.record.columns import ColumnDecoder
from tidelog.spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ROWS, MANY_ROWS = 16 << 10, 64 << 10
MANY_BYTES = 8 << 20
_DECODED = {"timestamp": "timestamp_ms", "timestampType": "timestamp_type"}
_OF_PARTITION = ("topic", "partition")


class RowBatches:
    """Decodes batches of a log, and arranges what comes out. One thread at a time."""

    def __init__(self, columns: Sequence[str], keys: frozenset[bytes] | None) -> None:
        self._schema = arrow_schema(columns)
        names = [_DECODED.get(column, column) for column in columns if column not in _OF_PARTITION]
        if keys is not None:
            names.append("key")
        # Offsets cost nothing and are always needed: they say where to go on.
        self._decoder = ColumnDecoder(["offset", *dict.fromkeys(name for name in names if name != "offset")])
        self._keys = None if keys is None else _key_set(keys)
        self._key_decoder = None if keys is None else ColumnDecoder(["offset", "key"])
        self._repeated: dict[tuple[str, Any], pa.Array] = {}

    def decode(self, batches: memoryview) -> "Iterator[pa.RecordBatch]":
        """The records of whole batches, with their offsets first. Of those that are not wanted some may come along."""
        if self._key_decoder is not None and not any(self._matches(part).true_count for part in self._key_decoder.decode(batches)):
            return iter(())
        return self._decoder.decode(batches)

    def _matches(self, decoded: "pa.RecordBatch") -> Any:
        import pyarrow.compute as pc

        return pc.is_in(decoded.column("key"), value_set=self._keys)

    def arrange(self, decoded: "pa.RecordBatch", topic: str, partition: int) -> "pa.RecordBatch":
        """The columns that were asked for, of the records that were."""
        import pyarrow as pa

        if self._keys is not None:
            decoded = decoded.filter(self._matches(decoded))
        count = decoded.num_rows
        arrays = []
        for field in self._schema:
            if field.name == "topic":
                arrays.append(self._repeat("topic", topic, count))
            elif field.name == "partition":
                arrays.append(self._repeat("partition", partition, count))
            else:
                column = decoded.column(_DECODED.get(field.name, field.name))
                arrays.append(column if column.type == field.type else _converted(column, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _repeat(self, column: str, value: Any, count: int) -> "pa.Array":
        """The same value so many times: made once for the largest count, and cut."""
        import pyarrow as pa

        known = self._repeated.get((column, value))
        if known is None or len(known) < count:
            if len(self._repeated) > 64:
                self._repeated.clear()  # a task may have many small partitions
            known = pa.repeat(pa.scalar(value, self._schema.field(column).type), max(count, FEW_ROWS))
            self._repeated[column, value] = known
        return known if len(known) == count else known.slice(0, count)


def _key_set(keys: frozenset[bytes]) -> "pa.Array":
    import pyarrow as pa

    return pa.array(sorted(keys), pa.binary())


def _converted(column: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(kind):
        try:
            return pc.multiply_checked(column, 1000).view(kind)
        except pa.ArrowInvalid:
            raise InvalidRecordError(
                "a timestamp that Spark cannot hold",
                expected="at most 9223372036854775 ms",
                found=pc.max(pc.abs(column)).as_py(),
                hint="option columns leaves the timestamp out",
            ) from None
    if pa.types.is_list(kind):
        return _headers(column, kind)
    return column.cast(kind)


def _headers(column: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    """As in Spark's Kafka source a record without headers has null there, not an empty list."""
    import pyarrow as pa

    # Of a part of a column the offsets begin further on.
    offsets = column.offsets
    items = column.values
    header = kind.value_field.type
    items = pa.StructArray.from_arrays([items.field(0), items.field(1)], fields=[header.field(0), header.field(1)])
    is_none = np.diff(offsets.to_numpy()) == 0
    if column.offset:
        offsets = pa.array(offsets.to_numpy())
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=pa.array(is_none) if is_none.any() else None)


def joined(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The same rows in batches of a size that travels well."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if not waiting and batch.num_rows >= FEW_ROWS:
            yield from _cut(batch)
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= FEW_ROWS or size_bytes >= MANY_BYTES // 4:
            yield from _cut(_concatenated(waiting))
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield from _cut(_concatenated(waiting))


def _concatenated(batches: "list[pa.RecordBatch]") -> "pa.RecordBatch":
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _cut(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
    count = max(-(-batch.num_rows // MANY_ROWS), -(-batch.nbytes // MANY_BYTES))
    if count == 1:
        yield batch
        return
    step = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
