"""Records of a transaction before they are written: gathered by topic and partition, as a writer does it."""

import threading
from typing import TYPE_CHECKING

from tidelog.disk.names import TopicPartition
from tidelog.errors import TransactionError
from tidelog.log.log import Log
from tidelog.record.encoding import Headers
from tidelog.record.kernel.gathering import RowBuffer, RowGatherer, WriteHandle
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store.append_targets import AppendTargets
from tidelog.store.row_checks import SURELY_SMALL_BYTES, checked_row
from tidelog.store.write_batch import WriteBatch

if TYPE_CHECKING:
    from tidelog.store.transactions.writing import TransactionWriting

GATHER_BYTES = 1 << 20
"""What is gathered for a partition before it is written."""
LEAST_GATHER_BYTES = 1 << 14
ALL_GATHER_BYTES = 8 << 20
"""About what all partitions of a topic gather together, where there are not too many of them."""


class TransactionBatch(WriteBatch):
    """Rows for one partition. It is done when the transaction is, not when the rows are in the log."""

    __slots__ = ("owner", "target")

    def __init__(self, target: TopicPartition, room_bytes: int) -> None:
        super().__init__(target.partition, room_bytes, 0.0)
        self.target = target
        self.owner = threading.get_ident()

    def result(self, index: int, timestamp_ms: int, timeout_s: float | None) -> RecordMetadata:
        """See `WriteHandle.result`. The thread that has to end the transaction must not wait for its end."""
        if timeout_s is None and not self.is_done and self.owner == threading.get_ident():
            raise TransactionError(
                "where a record of a transaction went is known once the transaction is committed",
                expected="commit() first, or the end of the with block",
                hint="another thread may wait for it, or this one with a timeout",
            )
        return super().result(index, timestamp_ms, timeout_s)


class TopicGatherer(RowGatherer):
    """Gathers for one topic. Its lock is that of the transactional id: it keeps out who wants to end the transaction."""

    def __init__(self, topic: str, targets: AppendTargets, transaction: "TransactionWriting") -> None:
        super().__init__(RowBuffer(transaction.lock), transaction.clock, targets.partitioner.count, SURELY_SMALL_BYTES)
        self.topic = topic
        self._targets = targets
        self._transaction = transaction

    def append_checked(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None, partition: int | None
    ) -> WriteHandle:
        """What `append` does with a record that is not the common case, or that needs a new batch."""
        transaction, buffer = self._transaction, self.buffer
        transaction.check_open()
        row, size, place = checked_row(self._targets, self.clock(), None, value, key, headers, timestamp_ms, partition)
        with buffer.lock:
            transaction.check_open()
            batch = buffer.open.get(place)
            if batch is not None and size > batch.room_bytes and batch.rows:
                transaction.write([batch])
                del buffer.open[place]
                batch = None
            if batch is None:
                room_bytes = max(LEAST_GATHER_BYTES, min(GATHER_BYTES, ALL_GATHER_BYTES // (len(buffer.open) + 1)))
                batch = buffer.open[place] = transaction.begin_batch(TopicPartition(self.topic, place), room_bytes)
            index = len(batch.rows)
            batch.rows.append(row)
            batch.room_bytes -= size
        return WriteHandle(batch, index, row[3])

    def log(self, partition: int) -> Log:
        """Where what is gathered for a partition belongs. Raises if another topic has the name by now."""
        return self._targets.log(partition)

    @property
    def room_bytes(self) -> int:
        """What every open batch can take more."""
        with self.buffer.lock:
            return min((batch.room_bytes for batch in self.buffer.open.values()), default=LEAST_GATHER_BYTES)

    def take(self) -> list[TransactionBatch]:
        """All that is gathered; with the lock held."""
        taken = list(self.buffer.open.values())
        self.buffer.open.clear()
        return taken

    def close(self) -> None:
        """Take no more; with the lock held. What there is stays to be taken."""
        self.buffer.error = TransactionError("the transaction is over")  # asked for by `append`, which then goes the long way
