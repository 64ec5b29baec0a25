"""What a log remembers of a producer, and what it may append: Kafka's rules for idempotence, fencing and transactions.

Pure functions on immutable entries. `appended` is one data batch, `marked` the marker that ends a transaction; both check what the origin
of the batch calls for and give back the entry as it is afterwards. A leader checks everything of a client's; a follower takes what its
leader has accepted.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tidelog.errors import CoordinatorFencedError, InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError

Origin = Literal["client", "coordinator", "replication", "replay"]
"""Where a batch comes from. Replay is a log that is read again: what is in it was accepted once."""

NO_EPOCH = -1
NO_OFFSET = -1
KEPT_BATCHES = 5
MAX_SEQUENCE = 0x7FFFFFFF


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer, by which a duplicate is recognised."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Of its first record."""
        return decremented(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Of its first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """A producer."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_start: int = NO_OFFSET
    """First offset of its open transaction, or -1."""
    batches: tuple[BatchMetadata, ...] = ()
    """The last five, oldest first, all of `epoch`."""

    @property
    def last_sequence(self) -> int:
        """-1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerBatch(NamedTuple):
    """What counts of a batch: the fields of its header, with the offsets it was given."""

    producer_id: int
    epoch: int
    base_sequence: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    is_transactional: bool

    @property
    def last_sequence(self) -> int:
        """Sequences go on from 0 behind 2147483647."""
        return incremented(self.base_sequence, self.last_offset - self.first_offset)


class Marker(NamedTuple):
    """The end of a transaction."""

    producer_id: int
    epoch: int
    offset: int
    timestamp_ms: int
    coordinator_epoch: int
    is_abort: bool


class CompletedTxn(NamedTuple):
    """A transaction that had data and is over."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


def incremented(sequence: int, by: int) -> int:
    """A sequence number further on; it wraps in 31 bits."""
    return (sequence + by) & MAX_SEQUENCE if sequence >= 0 else -1


def decremented(sequence: int, by: int) -> int:
    """A sequence number further back."""
    return (sequence - by) & MAX_SEQUENCE if sequence >= 0 else -1


def find_duplicate(entry: ProducerEntry, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
    """The batch that was appended with exactly these sequence numbers, if it is one of the last five."""
    if epoch == entry.epoch:
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
    return None


def appended(entry: ProducerEntry, batch: ProducerBatch, origin: Origin) -> ProducerEntry:
    """The producer after a data batch; raises if it must not append it."""
    if batch.epoch < entry.epoch and origin in ("client", "coordinator"):
        raise _stale_epoch(entry, batch.epoch, batch.last_offset)
    if origin == "client":
        _check_sequence(entry, batch)
    start = entry.transaction_start
    if start >= 0 and not batch.is_transactional and origin != "replay":
        raise InvalidTxnStateError(
            f"producer {batch.producer_id} has an open transaction and sent a batch outside of it",
            expected=f"a transactional batch, or the end of the transaction that started at offset {start}",
            found="a batch that is not transactional",
        )
    if start < 0 and batch.is_transactional:
        start = batch.first_offset
    is_new_epoch = batch.epoch != entry.epoch
    kept = () if is_new_epoch else entry.batches[-(KEPT_BATCHES - 1) :]
    metadata = tuple.__new__(
        BatchMetadata, (batch.last_sequence, batch.last_offset, batch.last_offset - batch.first_offset, batch.max_timestamp_ms)
    )
    return tuple.__new__(
        ProducerEntry, (batch.producer_id, batch.epoch, entry.coordinator_epoch, batch.max_timestamp_ms, start, (*kept, metadata))
    )


def appended_behind(entry: ProducerEntry, batches: Iterable[BatchMetadata]) -> Iterator[ProducerEntry]:
    """The producer after each of some data batches that go on where its last one has ended: same epoch, next sequence, same transaction.

    What `appended` says of one after the other, without its checks: whoever has numbered them knows.
    """
    producer_id, epoch, coordinator_epoch, _, start, kept = entry
    new = tuple.__new__
    for metadata in batches:
        kept = (*kept[-(KEPT_BATCHES - 1) :], metadata)
        yield new(ProducerEntry, (producer_id, epoch, coordinator_epoch, metadata[3], start, kept))


def _check_sequence(entry: ProducerEntry, batch: ProducerBatch) -> None:
    """Batches come in order. Of a producer that is not known, or not any more, the first may have any sequence number."""
    if entry.epoch == NO_EPOCH:
        return
    if batch.epoch != entry.epoch:
        if batch.base_sequence != 0:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id} began epoch {batch.epoch} in the middle",
                expected="sequence number 0",
                found=batch.base_sequence,
            )
        return
    wanted = (entry.last_sequence + 1) & MAX_SEQUENCE
    if batch.base_sequence != wanted:
        raise OutOfOrderSequenceError(
            f"a batch of producer {batch.producer_id} is out of order", expected=f"sequence number {wanted}", found=batch.base_sequence
        )


def marked(entry: ProducerEntry, marker: Marker, origin: Origin) -> tuple[ProducerEntry, CompletedTxn | None]:
    """The producer after a marker, and the transaction that it ended, if that had data."""
    if origin in ("client", "coordinator"):
        if marker.epoch < entry.epoch:
            raise _stale_epoch(entry, marker.epoch, marker.offset)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFencedError(
                f"a marker for producer {marker.producer_id} from a coordinator that was replaced",
                expected=f"coordinator epoch {entry.coordinator_epoch} or more",
                found=marker.coordinator_epoch,
            )
    completed = None
    if entry.transaction_start >= 0:
        completed = CompletedTxn(marker.producer_id, entry.transaction_start, marker.offset, marker.is_abort)
    batches = entry.batches if marker.epoch == entry.epoch else ()
    return ProducerEntry(marker.producer_id, marker.epoch, marker.coordinator_epoch, marker.timestamp_ms, NO_OFFSET, batches), completed


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Whether a producer is forgotten: by the time of its last batch, and never while its transaction is open."""
    return entry.transaction_start < 0 and now_ms - entry.last_timestamp_ms >= expiration_ms


def _stale_epoch(entry: ProducerEntry, epoch: int, offset: int) -> InvalidProducerEpochError:
    return InvalidProducerEpochError(
        f"producer {entry.producer_id} was fenced (at offset {offset})", expected=f"epoch {entry.epoch} or more", found=epoch
    )
