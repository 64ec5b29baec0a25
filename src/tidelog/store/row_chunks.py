"""Tuples and `Record`s, taken in chunks of bounded size, and their partitions."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import InvalidRecordTypeError
from tidelog.record.encoding import Row
from tidelog.record.kernel.record import Record
from tidelog.store.batch_runs import Chunk, RunEncoder, grouped
from tidelog.store.record_values import NO_TIMESTAMP, explain

_FIRST_RECORDS = 16
_MAX_RECORDS = 1 << 16


class RowChunks:
    """Chunks of rows. How many records there are in one follows from how large they were in the one before."""

    def __init__(self, records: Iterable[Row], encoder: RunEncoder) -> None:
        if isinstance(records, (str, bytes, bytearray, dict)) or not isinstance(records, Iterable):
            raise InvalidRecordTypeError("records that are none", expected="an iterable of tuples", found=type(records).__name__)
        self.is_whole = isinstance(records, (list, tuple))
        self._records = records
        self._partitioner = encoder.targets.partitioner
        self._chunk_bytes = encoder.chunk_bytes

    def __iter__(self) -> Iterator[Chunk]:
        iterator = iter(self._records)
        first, size = 0, _FIRST_RECORDS
        while rows := list(islice(iterator, size)):
            try:
                chunk = self._chunk(rows, first)
            except Exception as error:
                explain(error, rows, first, is_arrow=False)
                raise
            yield chunk
            first += len(rows)
            size = max(1, min(_MAX_RECORDS, self._chunk_bytes * len(rows) // max(1, chunk.size_bytes), 8 * size))

    def _chunk(self, rows: list[Any], first: int) -> Chunk:
        rows = _settled(rows)
        groups = [(0, None)] if self._partitioner.count == 1 else grouped(self._partitions(rows))
        return Chunk(rows, first, len(rows), groups, is_arrow=False)

    def _partitions(self, rows: list[Any]) -> NDArray[np.int32]:
        """Where each goes; the size of a record counts only without a key."""
        keys = [row.key if type(row) is Record else row[0] for row in rows]
        if None not in keys:
            return self._partitioner.partitions(keys, np.empty(0, np.int64))
        values = (row.value if type(row) is Record else row[1] for row in rows)
        return self._partitioner.partitions(keys, np.fromiter((len(value or b"") for value in values), np.int64, len(rows)))


def _settled(rows: list[Any]) -> list[Any]:
    """The same rows, good to be encoded twice: without a timestamp of -1, which means none, and with headers that are no iterator."""
    if set(map(type, rows)) == {tuple} and set(map(len, rows)) == {2}:
        return rows  # nobody brings any
    return [_settled_row(row) for row in rows]


def _settled_row(row: Any) -> Any:
    if isinstance(row, Record):
        if row.timestamp_ms == NO_TIMESTAMP:
            row = (row.key, row.value, row.headers)
        elif type(row.headers) is not tuple:
            row = (row.key, row.value, row.headers, row.timestamp_ms)
    if not isinstance(row, tuple) or len(row) < 3:
        return row
    if len(row) == 4 and row[3] == NO_TIMESTAMP:
        row = row[:3]
    headers = row[2]
    if not headers or isinstance(headers, (tuple, list)):
        return row
    return (row[0], row[1], list(headers), *row[3:])
