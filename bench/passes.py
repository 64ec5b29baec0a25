"""Our side: one pass of each reading job, as a user would write it.

Reproduce: `.venv/bin/python -m bench`
"""
# ruff: noqa: B018 — reading an attribute is the work here

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.compute as pc

from tidelog.record import ColumnDecoder, read_batches, walk_headers

COLUMNS = ("offset", "timestamp_ms", "key", "value")
READ_BYTES = 4 << 20


def decode(decoder: ColumnDecoder, data: bytes | memoryview) -> int:
    """All records as columns, a chunk at a time; the records there were."""
    return sum(batch.num_rows for batch in decoder.decode(data))


def volume(data: bytes | memoryview, *, check_crcs: bool = False) -> tuple[int, int]:
    """Records, and bytes of keys and values: what both sides have to agree on."""
    count = 0
    size_bytes = 0
    for batch in ColumnDecoder(COLUMNS, check_crcs=check_crcs).decode(data):
        count += batch.num_rows
        for column in ("key", "value"):
            size_bytes += pc.sum(pc.binary_length(batch.column(column))).as_py() or 0
    return count, size_bytes


def iterate(data: bytes) -> None:
    """Every record as an object, its key and value read."""
    for batch in read_batches(data):
        for record in batch:
            record.key
            record.value


def object_volume(data: bytes) -> tuple[int, int]:
    """`volume` through objects."""
    count = 0
    size_bytes = 0
    for batch in read_batches(data):
        for record in batch:
            count += 1
            size_bytes += len(record.key or b"") + len(record.value or b"")
    return count, size_bytes


class FileReader:
    """Reads a file four mebibytes at a time into one buffer that is used again, and decodes the whole batches in it."""

    def __init__(self, path: Path, decoder: ColumnDecoder) -> None:
        self._path = path
        self._decoder = decoder
        self._buffer = memoryview(bytearray(READ_BYTES))

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)

    def read(self) -> int:
        """One pass over the file; the records there were."""
        buffer = self._buffer
        records = 0
        position = 0
        filled = 0
        while got := os.preadv(self._file, [buffer[filled:]], position):
            position += got
            filled += got
            records += decode(self._decoder, buffer[:filled])
            end = self._decoder.end_position
            if end == 0:
                raise AssertionError(f"no whole batch within {filled} bytes")
            # The batch that was cut off moves to the front; the next read goes on behind it.
            buffer[: filled - end] = buffer[end:filled]
            filled -= end
        return records


class TwoThreads:
    """Decodes the halves of a buffer at the same time, each thread with a decoder of its own."""

    def __init__(self, data: bytes) -> None:
        middle = walk_headers(data, max_bytes=len(data) // 2).end_position
        view = memoryview(data)
        self._halves = [(ColumnDecoder(COLUMNS, check_crcs=False), half) for half in (view[:middle], view[middle:])]

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(len(self._halves))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown()

    def decode(self) -> int:
        """One pass; the records there were in both halves."""
        return sum(self._threads.map(lambda half: decode(*half), self._halves))
