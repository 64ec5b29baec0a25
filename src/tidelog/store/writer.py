"""A writer: records one by one in, batches out, from a thread of its own.

`append` only puts the record into a list. The thread takes the lists that are full, or have lingered long enough, encodes them and appends
them in runs, so that the cost of a batch, and of a sync, is shared by many records.
"""

import threading
import warnings
from dataclasses import dataclass
from types import TracebackType

from tidelog.errors import InvalidConfigError, InvalidTimestampError, MessageTooLargeError, RefusedBatchError, TidelogError
from tidelog.log.leader import timestamp_range
from tidelog.record.compression import Compression
from tidelog.record.encoding import MAX_BATCH_BYTES, Headers
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.store.append_targets import AppendTargets
from tidelog.store.record_values import NO_TIMESTAMP, bytes_of, headers_of, partition_of, timestamp_of
from tidelog.store.single_record import NO_HEADERS, encode_single
from tidelog.store.state import StoreState
from tidelog.store.write_batch import Row, WriteBatch, WriteHandle
from tidelog.store.write_buffer import BATCH_OVERHEAD, RECORD_OVERHEAD, WriteBuffer
from tidelog.store.write_sending import SendSettings, send_all

DEFAULT_LINGER_MS = 5
DEFAULT_BUFFER_MEMORY = 32 << 20
_SURELY_SMALL_BYTES = 1 << 10
"""Up to here a record is not asked whether the topic takes it: what `max.message.bytes` is about is larger, or the log says so."""


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


class Writer:
    """Made by `Topic.writer`. A context manager; may be shared between threads. Records of one thread to one partition keep their order.

    What goes wrong in the background is raised by the handles it is about, and once more by the next `append`, `flush` or `close`.
    """

    def __init__(self, state: StoreState, topic: str, targets: AppendTargets, settings: WriterSettings) -> None:
        self.topic = topic
        self._state = state
        self._clock = state.clock
        self._targets = targets
        self._partitioner = targets.partitioner
        self._only_partition = 0 if targets.partitioner.count == 1 else -1
        self._count = targets.partitioner.count
        self._settings = settings
        self._buffer = WriteBuffer(settings.linger_ms / 1000, settings.batch_bytes, settings.buffer_memory)
        self._plain_bytes = min(settings.batch_bytes, _SURELY_SMALL_BYTES)
        producer_id = state.random.getrandbits(62) if settings.idempotent else -1
        sending = SendSettings(settings.batch_bytes, settings.compression, settings.retries, settings.retry_backoff_ms / 1000)
        self._thread = threading.Thread(
            target=send_all, args=(self._buffer, targets, sending, producer_id), name=f"tidelog-writer-{topic}", daemon=True
        )
        self._thread.start()
        state.writers.add(self)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> WriteHandle:
        """Take a record, to be written soon. Waits only while more than `buffer_memory` waits to be written."""
        buffer = self._buffer
        if buffer.error is not None:
            self._raise_error()
        if (
            key.__class__ is bytes
            and value.__class__ is bytes
            and timestamp_ms is None
            and not headers
            and partition is None
            and (size := len(key) + len(value) + RECORD_OVERHEAD) <= self._plain_bytes
        ):
            place = self._only_partition
            if place < 0:
                place = partition_for_key(key, self._count)
            time_ms = self._clock()
            row: Row = (key, value, None, time_ms)
        else:
            row, size, place = self._checked(value, key, headers, timestamp_ms, partition)
            time_ms = row[3]
        with buffer.lock:
            try:
                batch = buffer.open[place]
            except KeyError:
                batch = self._next_batch(place)
            rows = batch.rows
            if size > batch.room_bytes and rows:
                buffer.full(batch)
                batch = self._next_batch(place)
                rows = batch.rows
            index = len(rows)
            rows.append(row)
            batch.room_bytes -= size
        return WriteHandle(batch, index, time_ms)

    def _next_batch(self, partition: int) -> WriteBatch:
        """Another batch, with the buffer's lock held."""
        self._state.check()
        return self._buffer.begin(partition)

    def _checked(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None, partition: int | None
    ) -> tuple[Row, int, int]:
        """The record as a row, its size, and its partition. What the log would refuse is refused here, while the caller is there."""
        key, value = bytes_of(key, "key"), bytes_of(value, "value")
        pairs, encoded = headers_of(headers) if headers else (None, NO_HEADERS)
        given_ms = NO_TIMESTAMP if timestamp_ms is None else timestamp_of(timestamp_ms)
        now_ms = self._clock()
        row = (key, value, pairs, now_ms if given_ms == NO_TIMESTAMP else given_ms)
        size = len(key or b"") + len(value or b"") + len(encoded) + RECORD_OVERHEAD
        place = self._partitioner.partition(key, size) if partition is None else partition_of(partition)
        log = self._targets.logs.get(place) or self._targets.log(place)
        config = log.config
        if key is None and config.is_compacted:
            raise RefusedBatchError("a compacted topic takes no records without a key", path=log.directory)
        if given_ms != NO_TIMESTAMP:
            lowest_ms, highest_ms = timestamp_range(config, now_ms)
            if not lowest_ms <= given_ms <= highest_ms:
                raise InvalidTimestampError(
                    "a timestamp that the log does not take",
                    path=log.directory,
                    expected=f"{lowest_ms} to {highest_ms}",
                    found=given_ms,
                    hint="message.timestamp.before.max.ms and message.timestamp.after.max.ms set the limits",
                )
        if size > config.max_message_bytes - BATCH_OVERHEAD and self._settings.compression is None:
            exact = len(encode_single(key, value, encoded, row[3]))
            if exact > config.max_message_bytes:
                raise MessageTooLargeError(
                    "a record is larger than max.message.bytes",
                    path=log.directory,
                    expected=f"at most {config.max_message_bytes}",
                    found=exact,
                )
        return row, size, place

    def flush(self) -> None:
        """Wait until everything that was taken before is written, as durably as the topic's settings ask for."""
        self._buffer.check_owned()
        for batch in self._buffer.flush():
            batch.wait(None)
        self._raise_error()

    def close(self) -> None:
        """Write what there is, and end. Does nothing the second time."""
        self._buffer.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._raise_error()

    def _raise_error(self) -> None:
        error = self._buffer.take_error()
        if error is not None:
            raise error

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._buffer.is_closed

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except TidelogError:
            if error is None:
                raise  # otherwise what happened first is worth more; the handles know

    def __del__(self) -> None:
        buffer = getattr(self, "_buffer", None)
        if buffer is not None and not buffer.is_closed:
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)
            buffer.close()

    def __repr__(self) -> str:
        return f"Writer({self.topic!r}, {self._count} partitions)"


def close_writers(state: StoreState) -> Exception | None:
    """Close the writers of a store, so that what they have gathered is written: what went wrong with the first that could not."""
    first: Exception | None = None
    for writer in list(state.writers):
        try:
            writer.close()
        except Exception as error:  # whatever it is: the others, and the logs, are still to be closed
            first = first or error
    return first
