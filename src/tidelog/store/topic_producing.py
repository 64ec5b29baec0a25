"""Producing to a topic: one record, many, or through a writer that batches."""

from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.errors import LogClosedError, RefusedBatchError, TidelogError
from tidelog.log.log import Log
from tidelog.record.compression import Compression
from tidelog.record.encoding import DEFAULT_BATCH_BYTES, Headers, Row
from tidelog.record.kernel.single_batch import NO_HEADERS, SINGLE_OVERHEAD
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store.append_many import DEFAULT_MANY_BATCH_BYTES, append_many
from tidelog.store.append_targets import AppendTargets
from tidelog.store.appended import AppendSummary
from tidelog.store.partitioner import Partitioner
from tidelog.store.record_values import NO_TIMESTAMP, bytes_of, headers_of, partition_of, timestamp_of
from tidelog.store.state import StoreState
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.writer import DEFAULT_BUFFER_MEMORY, DEFAULT_LINGER_MS, Writer, WriterSettings

if TYPE_CHECKING:
    import pyarrow as pa


_new = tuple.__new__  # of a named tuple: takes half as long


class TopicProducing:
    """The producing side of a topic. What it works on is given by the topic it is part of."""

    name: str
    _state: StoreState
    _targets: AppendTargets | None = None

    @property
    @abstractmethod
    def topic_id(self) -> UUID | None:
        """By which it is told from another topic of the same name."""

    @property
    @abstractmethod
    def partitions(self) -> int:
        """How many there are."""

    @abstractmethod
    def partition_ids(self) -> list[int]:
        """The partitions that are here."""

    @abstractmethod
    def log(self, partition: int) -> Log:
        """The log of a partition."""

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Append one record. When this returns it is as durable as the topic's settings ask for: by default it is on disk.

        Without a timestamp it gets the time of the store's clock. Without a partition it goes where Kafka's clients would send it.
        """
        targets = self._targets or self._find_targets()
        if key.__class__ is not bytes:
            key = bytes_of(key, "key")
        if value.__class__ is not bytes:
            value = bytes_of(value, "value")
        if timestamp_ms is not None:
            timestamp_ms = timestamp_of(timestamp_ms)
        if timestamp_ms is None or timestamp_ms == NO_TIMESTAMP:
            timestamp_ms = self._state.clock()
        encoded = headers_of(headers)[1] if headers else NO_HEADERS
        if partition is not None:
            place = partition_of(partition)
        elif key is not None and targets.partitioner.count == 1:
            place = 0
        else:
            place = targets.partitioner.partition(key, _size(key, value, encoded))
        try:
            log = targets.logs.get(place) or targets.log(place)
            info = log.append_record(key, value, encoded, timestamp_ms)
        except LogClosedError:
            # The topic was deleted, perhaps made again, or the store is closed, which is said here.
            targets = self._targets = self._find_targets()
            if partition is None:
                place = targets.partitioner.partition(key, _size(key, value, encoded))
            info = targets.log(place).append_record(key, value, encoded, timestamp_ms)
        except TidelogError as error:
            if error.path is None and place in targets.logs:
                error.path = targets.logs[place].directory
            raise
        append_time_ms = info[3]
        return _new(RecordMetadata, (place, info[0], timestamp_ms if append_time_ms < 0 else append_time_ms))

    def append_many(
        self,
        records: "Iterable[Row] | pa.Table | pa.RecordBatch",
        *,
        compression: Compression | str | None = None,
        batch_bytes: int = DEFAULT_MANY_BATCH_BYTES,
    ) -> AppendSummary:
        """Append many records: tuples (key, value[, headers[, timestamp_ms]]), `Record`s, or an Arrow table.

        Of a list or a table every record is checked before the first byte is written. Any other iterable is taken in chunks, each checked
        before it is written. If something fails on the way, the error has what was appended until then as `durable`.
        """
        self._state.check()
        return append_many(self._find_targets(), records, self._state.clock, compression=compression, batch_bytes=batch_bytes)

    def writer(
        self,
        linger_ms: float = DEFAULT_LINGER_MS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        compression: Compression | str | None = None,
        idempotent: bool = True,
        *,
        buffer_memory: int = DEFAULT_BUFFER_MEMORY,
        retries: int = 1,
        retry_backoff_ms: float = 100,
    ) -> Writer:
        """A writer that gathers records and appends them in batches, from a thread of its own."""
        settings = WriterSettings(linger_ms, batch_bytes, compression, idempotent, buffer_memory, retries, retry_backoff_ms)
        return Writer(self._state, self.name, self._find_targets(settings.batch_bytes), settings)

    def _find_targets(self, sticky_bytes: int = DEFAULT_BATCH_BYTES) -> AppendTargets:
        if self.name in INTERNAL_TOPICS:
            raise RefusedBatchError(
                f"{self.name} takes no records from outside: groups and transactions write to it",
                path=self._state.paths[0],
                kafka_error="INVALID_TOPIC_EXCEPTION",
            )
        known = self.topic_id, self.partitions
        partitioner = Partitioner(known[1], self.partition_ids(), self._state.random, sticky_bytes)
        targets = AppendTargets(partitioner, partial(self._log_of, known))
        if self._targets is None:
            self._targets = targets
        return targets

    def _log_of(self, known: tuple[UUID | None, int], partition: int) -> Log:
        """The log of a partition, if the topic is the one whose id and partitions these are: in another of its name, keys lie elsewhere."""
        if (self.topic_id, self.partitions) == known:
            log = self.log(partition)
            if (self.topic_id, self.partitions) == known:  # asked again: somebody may have made another one meanwhile
                return log
        raise LogClosedError(f"topic {self.name!r} was deleted, and made again", path=self._state.paths[0])


def _size(key: bytes | None, value: bytes | None, headers: bytes) -> int:
    """About what a record takes by itself."""
    return len(key or b"") + len(value or b"") + len(headers) + SINGLE_OVERHEAD
