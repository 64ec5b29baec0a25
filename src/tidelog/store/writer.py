"""A writer: records one by one in, batches out, from a thread of its own.

`append` only puts the record into a list. The thread takes the lists that are full, or have lingered long enough, encodes them and appends
them in runs, so that the cost of a batch, and of a sync, is shared by many records.
"""

import threading
import warnings
from dataclasses import dataclass
from types import TracebackType

from tidelog.errors import InvalidConfigError, TidelogError
from tidelog.plurals import counted
from tidelog.record.compression import Compression
from tidelog.record.encoding import MAX_BATCH_BYTES, Headers
from tidelog.record.kernel.gathering import RowGatherer, WriteHandle
from tidelog.store.append_targets import AppendTargets
from tidelog.store.row_checks import SURELY_SMALL_BYTES, checked_row
from tidelog.store.state import StoreState
from tidelog.store.write_batch import Row, WriteBatch
from tidelog.store.write_buffer import WriteBuffer
from tidelog.store.write_sending import SendSettings, send_all

DEFAULT_LINGER_MS = 5
DEFAULT_BUFFER_MEMORY = 32 << 20


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How a writer batches. The defaults of linger and retries are ours, the others Kafka's."""

    linger_ms: float
    batch_bytes: int
    compression: Compression | str | None
    idempotent: bool
    buffer_memory: int
    retries: int
    retry_backoff_ms: float

    def __post_init__(self) -> None:
        ranges = (
            ("linger_ms", self.linger_ms, 0, 86_400_000),
            ("batch_bytes", self.batch_bytes, 1, MAX_BATCH_BYTES),
            ("buffer_memory", self.buffer_memory, 1, 1 << 62),
            ("retries", self.retries, 0, MAX_BATCH_BYTES),
            ("retry_backoff_ms", self.retry_backoff_ms, 0, 86_400_000),
        )
        for name, number, lowest, highest in ranges:
            if not lowest <= number <= highest:
                raise InvalidConfigError(f"{name} of a writer out of range", expected=f"{lowest} to {highest}", found=number)
        if self.compression is not None:
            Compression.of(self.compression)


class Writer(RowGatherer):
    """Made by `Topic.writer`. A context manager; may be shared between threads. Records of one thread to one partition keep their order.

    What goes wrong in the background is raised by the handles it is about, and once more by the next `append`, `flush` or `close`.
    """

    buffer: WriteBuffer

    def __init__(self, state: StoreState, topic: str, targets: AppendTargets, settings: WriterSettings) -> None:
        buffer = WriteBuffer(settings.linger_ms / 1000, settings.batch_bytes, settings.buffer_memory)
        super().__init__(buffer, state.clock, targets.partitioner.count, min(settings.batch_bytes, SURELY_SMALL_BYTES))
        self.topic = topic
        self._state = state
        self._targets = targets
        self._settings = settings
        producer_id = state.random.getrandbits(62) if settings.idempotent else -1
        sending = SendSettings(settings.batch_bytes, settings.compression, settings.retries, settings.retry_backoff_ms / 1000)
        self._thread = threading.Thread(
            target=send_all, args=(buffer, targets, sending, producer_id), name=f"tidelog-writer-{topic}", daemon=True
        )
        self._thread.start()
        state.writers.add(self)

    def append_checked(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None, partition: int | None
    ) -> WriteHandle:
        """What `append` does with a record that is not the common case, or that needs a new batch."""
        buffer = self.buffer
        if buffer.error is not None:
            self._raise_error()
        row, size, place = self._checked(value, key, headers, timestamp_ms, partition)
        with buffer.lock:
            batch: WriteBatch = buffer.open.get(place) or self._next_batch(place)
            if size > batch.room_bytes and batch.rows:
                buffer.full(batch)
                batch = self._next_batch(place)
            index = len(batch.rows)
            batch.rows.append(row)
            batch.room_bytes -= size
        return WriteHandle(batch, index, row[3])

    def _next_batch(self, partition: int) -> WriteBatch:
        """Another batch, with the buffer's lock held."""
        self._state.check()
        return self.buffer.begin(partition)

    def _checked(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None, partition: int | None
    ) -> tuple[Row, int, int]:
        """The record as a row, its size, and its partition. What the log would refuse is refused here, while the caller is there."""
        return checked_row(self._targets, self.clock(), self._settings.compression, value, key, headers, timestamp_ms, partition)

    def flush(self) -> None:
        """Wait until everything that was taken before is written, as durably as the topic's settings ask for."""
        self.buffer.check_owned()
        for batch in self.buffer.flush():
            batch.wait(None)
        self._raise_error()

    def close(self) -> None:
        """Write what there is, and end. Does nothing the second time."""
        self.buffer.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._raise_error()

    def _raise_error(self) -> None:
        error = self.buffer.take_error()
        if error is not None:
            raise error

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.buffer.is_closed

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except TidelogError:
            if error is None:
                raise  # otherwise what happened first is worth more; the handles know

    def __del__(self) -> None:
        buffer = getattr(self, "buffer", None)
        if buffer is not None and not buffer.is_closed:
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)
            buffer.close()

    def __repr__(self) -> str:
        return f"Writer({self.topic!r}, {counted(self.partition_count, 'partition')})"


def close_writers(state: StoreState) -> Exception | None:
    """Close the writers of a store, so that what they have gathered is written: what went wrong with the first that could not."""
    first: Exception | None = None
    for writer in list(state.writers):
        try:
            writer.close()
        except Exception as error:  # whatever it is: the others, and the logs, are still to be closed
            first = first or error
    return first
