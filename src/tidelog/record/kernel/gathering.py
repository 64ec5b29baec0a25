"""Rows that are gathered one by one until there are enough of them for a batch.

This runs once a record, so the common case is compiled: a key and a value that are bytes, nothing else given, an open batch with room. All
the rest is the subclass's, in `RowGatherer.append_checked`.
"""

from collections.abc import Callable, Generator
from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.record_metadata import RecordMetadata

if not cython.compiled:  # compiled, these are C functions, named in gathering.pxd
    from tidelog.record.kernel.hashing import murmur2

ROW_OVERHEAD = 12
"""About what a record takes beside key, value and headers: lengths, deltas."""
OVERHEAD = ROW_OVERHEAD  # a C global when compiled (gathering.pxd)


class RowBatch:
    """Rows of one batch in the making. Who made it says what became of them."""

    __slots__ = ("__weakref__", "room_bytes", "rows")

    def __init__(self, room_bytes: int) -> None:
        self.rows: list[Any] = []
        self.room_bytes: int = room_bytes


class RowBuffer:
    """The open batches, by partition. Whoever touches them holds `lock`."""

    __slots__ = ("__weakref__", "error", "lock", "open")

    def __init__(self, lock: Any) -> None:
        self.lock: Any = lock
        self.open: dict[int, Any] = {}
        self.error: BaseException | None = None
        """What went wrong in the background, until somebody is told."""


class WriteHandle:
    """One record on its way. `result` waits for it; in asyncio, `await` does."""

    __slots__ = ("batch", "index", "timestamp_ms")

    def __init__(self, batch: Any, index: int, timestamp_ms: int) -> None:
        self.batch: Any = batch
        self.index: int = index
        self.timestamp_ms: int = timestamp_ms

    def done(self) -> bool:
        """Whether it is known what became of it."""
        return bool(self.batch.is_done)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went, once it is as durable as the topic's settings ask for; or what went wrong, raised.

        `timeout` in seconds; after it, `TimeoutError`: the record is still on its way.
        """
        return self.batch.result(self.index, self.timestamp_ms, timeout)  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self.batch.await_result(self.index, self.timestamp_ms)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        state = "done" if self.done() else "on its way"
        return f"WriteHandle(partition {self.batch.partition}, {state})"


class RowGatherer:
    """What adds rows to the open batches."""

    __slots__ = ("__weakref__", "buffer", "clock", "partition_count", "plain_bytes")

    def __init__(self, buffer: RowBuffer, clock: Callable[[], int], partition_count: int, plain_bytes: int) -> None:
        self.buffer: RowBuffer = buffer
        self.clock: Callable[[], int] = clock
        self.partition_count: int = partition_count
        self.plain_bytes: int = plain_bytes
        """Up to this size a row is not asked whether it may be written."""

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Any = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> WriteHandle:
        """Take a record, to be written soon. Waits only while more than `buffer_memory` waits to be written."""
        if type(key) is bytes and type(value) is bytes and timestamp_ms is None and partition is None and not headers:
            handle: WriteHandle | None = self.add_plain(key, value)
            if handle is not None:
                return handle
        return self.append_checked(value, key, headers, timestamp_ms, partition)

    def append_checked(
        self, value: bytes | None, key: bytes | None, headers: Any, timestamp_ms: int | None, partition: int | None
    ) -> WriteHandle:
        """What is not the common case, or has no open batch with room."""
        raise TypeError(f"{type(self).__name__} has no append_checked")

    def add_plain(self, key: bytes, value: bytes) -> Any:
        """Add a row where that is simple; None where it is not."""
        buffer = self.buffer
        size = len(key) + len(value) + OVERHEAD
        if size > self.plain_bytes or buffer.error is not None:
            return None
        place = 0
        if self.partition_count > 1:
            p: Any = key
            place = (murmur2(p, 0, len(key)) & 0x7FFFFFFF) % self.partition_count
        timestamp_ms = self.clock()
        with buffer.lock:
            found = buffer.open.get(place)
            if found is None:
                return None
            batch = found
            rows = batch.rows
            index = len(rows)
            if size > batch.room_bytes and index > 0:
                return None
            rows.append((key, value, None, timestamp_ms))
            batch.room_bytes -= size
        return WriteHandle(batch, index, timestamp_ms)
