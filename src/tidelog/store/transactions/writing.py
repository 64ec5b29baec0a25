"""A transaction while records are added: what it has gathered, what it has written, and what the logs have to know of it.

Of each partition there are batches with sequence numbers from 0 on. After an error or an interrupt on the way the transaction can only be
aborted: nothing is tried twice under the same numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.disk.names import TopicPartition
from tidelog.errors import ProducerFencedError, TidelogError, TransactionError
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log
from tidelog.record.encoding import BatchSettings
from tidelog.record.layout import sequence_after
from tidelog.schema.transaction_state import TransactionLogValue, TransactionStatus
from tidelog.store.append_many import DEFAULT_MANY_BATCH_BYTES
from tidelog.store.batch_runs import batches_of, codec_for
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.transactions.gathering import TopicGatherer, TransactionBatch
from tidelog.store.transactions.input_topics import InputTopics
from tidelog.store.transactions.transactional_id import TransactionalId, Written
from tidelog.store.write_batch import Outcome

if TYPE_CHECKING:
    from tidelog.store.transactions.coordinator import Coordinator


class TransactionWriting:
    """The part of an open transaction that takes records and writes them."""

    def __init__(self, coordinator: "Coordinator", owner: TransactionalId, timeout_ms: int) -> None:
        self.coordinator = coordinator
        self.owner = owner
        self.lock = owner.lock
        self.clock = coordinator.state.clock
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        """Known once something is written."""
        self.started_ms = -1
        self.log: Log | None = None
        """Of the state."""
        self.state_from = 0
        """Where the log of the state ended before this transaction wrote to it."""
        self.is_in_doubt = False
        """Whether a state is being written: after an interrupt it may be there or not."""
        self.is_decided = False
        """Whether the decision to commit it is durable."""
        self.partitions: dict[TopicPartition, None] = {}
        """Where something may have been written."""
        self.written: dict[TopicPartition, Written] = {}
        self.topics: dict[str, TopicGatherer] = {}
        self.positions: dict[TopicPartition, TransactionBatch] = {}
        """Rows for `__consumer_offsets`, and what else the store keeps for itself."""
        self._inputs: dict[TopicPartition, InputTopics] = {}
        """Of the positions in each batch: those of several groups may lie in several partitions, and are left out one after the other."""
        self.is_ending = False
        self.is_stopped = False
        """Whether it ends without having been committed."""
        self.is_abandoned = False
        """Whether nobody holds it any more."""
        self.failure: BaseException | None = None
        """Why it can only be aborted."""
        self._over: TidelogError | None = None
        self._batches: list[TransactionBatch] = []
        """All whose handles are not told yet what has become of the transaction."""

    # Gathering

    def check_open(self) -> None:
        """Raise if nothing more can be done with it, or nothing but to abort it."""
        self.coordinator.state.check()
        if self._over is not None:
            raise self._over.with_traceback(None)
        if self.is_ending:
            raise TransactionError("the transaction is over", path=self.owner.name)
        if self.failure is not None:
            raise TransactionError(
                f"the transaction can only be aborted: {self.failure}", path=self.owner.name, hint="run it again from its beginning"
            ) from self.failure

    def gatherer(self, topic: str) -> TopicGatherer:
        """What takes the records for a topic."""
        with self.lock:
            self.check_open()
            found = self.topics.get(topic)
            if found is None:
                found = self.topics[topic] = TopicGatherer(topic, self.coordinator.targets(topic), self)
            return found

    def add_positions(self, log: Log, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Take records for `__consumer_offsets`, or another topic that the store keeps for itself: they are written at the end."""
        now_ms = self.clock()
        with self.lock:
            self.check_open()
            batch = self.positions.get(log.partition)
            if batch is None:
                batch = self.positions[log.partition] = self.begin_batch(log.partition, 0)
            new = [(key, value, None, now_ms) for key, value in rows]
            if log.partition.topic == OFFSETS.name:
                inputs = self._inputs.setdefault(log.partition, InputTopics(self.coordinator.state))
                batch.rows = inputs.left_of(batch.rows)
                inputs.note(key for key, *_ in new)
            batch.rows += new

    def begin_batch(self, partition: TopicPartition, room_bytes: int) -> TransactionBatch:
        """A batch to be filled, with the lock held."""
        batch = TransactionBatch(partition, room_bytes)
        self._batches.append(batch)
        return batch

    # Writing, with the lock held

    def write(self, batches: Sequence[TransactionBatch]) -> None:
        """Append what is gathered in some batches. After an error or an interrupt the transaction can only be aborted."""
        with self.writing():
            self._write([batch for batch in batches if batch.rows])

    def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        """Write down that the transaction has records in some partitions, before it has."""
        with self.lock:
            self.check_open()
            with self.writing():
                self._enlist([partition for partition in partitions if partition not in self.partitions])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What is written in here is written, or the transaction can only be aborted."""
        self.failure = TransactionError("an interrupt while it was written")
        try:
            yield
        except Exception as error:
            self.failure = error
            raise
        self.failure = None

    def _write(self, batches: Sequence[TransactionBatch]) -> None:
        logs = [self._log_for(batch.target) for batch in batches]  # one that is not there raises before anything is written
        self._enlist([batch.target for batch in batches if batch.target not in self.partitions])
        for batch, log in zip(batches, logs, strict=True):
            if batch.target.topic == OFFSETS.name:
                self._append_positions(batch, log)
            else:
                self._append(batch, log)

    def _log_for(self, target: TopicPartition) -> Log:
        gatherer = self.topics.get(target.topic)
        return self.coordinator.state.log(target) if gatherer is None else gatherer.log(target.partition)

    def _append_positions(self, batch: TransactionBatch, log: Log) -> None:
        """Whoever deletes a topic does it before, and they are left out; or behind this, and takes them back."""
        with self.coordinator.state.changing():
            batch.rows = self._inputs[batch.target].left_of(batch.rows)
            if batch.rows:
                self._append(batch, log)

    def _enlist(self, new: Sequence[TopicPartition]) -> None:
        if not new:
            return
        state = self.coordinator.state
        if self.log is None:
            self.coordinator.identify(self)
        self.partitions |= dict.fromkeys(new)
        end_offset = self.write_state(TransactionStatus.ONGOING)
        if self.log is not None and not all(state.entry(partition.topic).is_set for partition in new):
            # Such a log is not opened with the store, and what is open in it would not be found without the state.
            self.coordinator.syncing.wait(self.log, end_offset)

    def write_state(self, status: TransactionStatus) -> int:
        """Append a state; it is not waited for. Gives back the offset behind it."""
        assert self.log is not None, "identified before anything is written"
        now_ms = self.clock()
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timeout_ms=self.timeout_ms,
            status=status,
            partitions=None if status is TransactionStatus.EMPTY else tuple(self.partitions),
            last_update_ms=now_ms,
            start_ms=self.started_ms,
        )
        self.is_in_doubt = True
        end_offset = self.coordinator.table.append(self.log, self.owner.name, value)
        self.is_in_doubt = False
        return end_offset

    def _append(self, batch: TransactionBatch, log: Log) -> None:
        written = self.written.get(batch.target)
        self.check_producer(log, written)
        if written is None:
            written = self.written[batch.target] = Written(log)
        config = log.config
        codec, level = codec_for(config, None)
        settings = BatchSettings(
            compression=codec,
            level=level,
            batch_bytes=min(DEFAULT_MANY_BATCH_BYTES, config.max_message_bytes),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            is_transactional=True,
        )
        with self.coordinator.encoder() as encoder:
            batches, counts = batches_of(encoder.encode(batch.rows, settings, written.next_sequence))
            try:
                infos = log.append_run(batches, wait=False)
            except TidelogError as error:
                error.path = error.path or log.directory
                raise
        written.log, written.end_offset = log, infos[-1].last_offset + 1
        written.next_sequence = sequence_after(written.next_sequence, len(batch.rows))
        batch.outcomes = _outcomes(infos, counts)
        batch.rows = []

    def check_producer(self, log: Log, written: Written | None) -> None:
        """Whether the log knows of this transaction what it has to, and of no later one."""
        entry = log.producer_entry(self.producer_id)
        if written is None:
            if entry is not None and (entry.epoch >= self.epoch or entry.transaction_start >= 0):
                self.owner.floor_epoch = max(self.owner.floor_epoch, entry.epoch)
                raise ProducerFencedError(
                    f"the log knows a later transaction of {self.owner.name!r} than its state does",
                    path=log.directory,
                    expected=f"an epoch below {self.epoch}",
                    found=entry.epoch,
                    hint="begin another transaction",
                )
        elif (
            entry is None
            or entry.epoch != self.epoch
            or entry.transaction_start < 0
            or sequence_after(entry.last_sequence, 1) != written.next_sequence
        ):
            raise TransactionError("what the transaction has written before was cut off, or its topic deleted", path=log.directory)

    def _take(self) -> list[TransactionBatch]:
        """All that is gathered; nothing more is taken."""
        taken = [*self.positions.values()]
        self.positions = {}
        for gatherer in self.topics.values():
            gatherer.close()
            taken += gatherer.take()
        return taken


def _outcomes(infos: Sequence[AppendInfo], counts: Sequence[int]) -> list[Outcome]:
    outcomes, first = [], 0
    for info, count in zip(infos, counts, strict=True):
        outcomes.append(Outcome(first, info.first_offset, info.log_append_time_ms, None))
        first += count
    return outcomes
