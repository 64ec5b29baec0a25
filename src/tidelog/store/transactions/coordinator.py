"""The coordinator of a store: who has which transactional id, and the things that all transactions share."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from uuid import UUID

from tidelog.disk.names import TopicPartition
from tidelog.errors import LogClosedError, ProducerFencedError, RefusedBatchError, TidelogError, TransactionError
from tidelog.log.log import Log
from tidelog.record.encoding import DEFAULT_BATCH_BYTES
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.append_targets import AppendTargets
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.partitioner import Partitioner
from tidelog.store.state import StoreState
from tidelog.store.store_file import TopicEntry
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.transactions.decisions import PENDING, PREPARED, IdState, next_identity
from tidelog.store.transactions.finishing import finish_all, settle_id
from tidelog.store.transactions.ids import ProducerIds, check_timeout, check_transactional_id
from tidelog.store.transactions.open_transaction import OpenTransaction
from tidelog.store.transactions.state_table import StateTable
from tidelog.store.transactions.syncing import Syncing
from tidelog.store.transactions.transactional_id import TransactionalId
from tidelog.store.transactions.writing import TransactionWriting
from tidelog.store.write_sending import SharedEncoder

_logger = logging.getLogger(__name__)


class Coordinator:
    """One for a store. May be shared between threads."""

    def __init__(self, state: StoreState) -> None:
        self.state = state
        self.table = StateTable(state)
        self.syncing = Syncing()
        self.unfinished: set[str] = set()
        """Ids whose last transaction is decided, or to be aborted, and could not be ended everywhere."""
        self.has_strays = False
        """Whether open transactions of ours without a state could not be ended."""
        self._ids = ProducerIds(state)
        self._owners: dict[str, TransactionalId] = {}
        self._targets: dict[str, tuple[TopicEntry, AppendTargets]] = {}
        self._encoders: deque[SharedEncoder] = deque()
        self._is_closed = False

    def owners(self) -> list[TransactionalId]:
        """The ids that this process has used, and has not forgotten."""
        return list(self._owners.values())

    @contextmanager
    def holding(self, name: str, *, wait: bool = True) -> Iterator[TransactionalId | None]:
        """An id, whether or not it was used before, with its lock held. Unless `wait`, None if somebody is at it."""
        while True:
            owner = self._owners.setdefault(name, TransactionalId(name))
            if not owner.lock.acquire(blocking=wait):
                yield None
                return
            try:
                if self._owners.get(name) is owner:  # otherwise it was forgotten meanwhile, and another has its place
                    yield owner
                    return
            finally:
                owner.lock.release()

    def forget_unused(self) -> None:
        """Drop the ids that nothing is known of any more: a program may make up a new one every time."""
        for owner in self.owners():
            with self.holding(owner.name, wait=False) as held:
                if held is not None and held.current is None and held.name not in self.unfinished:
                    with suppress(TidelogError):  # whether there is a state cannot be told
                        if self.table.get(held.name) is None:
                            del self._owners[held.name]

    def finish_all(self) -> None:
        """See `finishing.finish_all`."""
        finish_all(self)

    def begin(self, transactional_id: object, timeout_ms: object) -> OpenTransaction:
        """A new transaction of an id. Whoever had the id is fenced; what is left of its transaction is brought to an end first."""
        self.state.check()
        name = check_transactional_id(transactional_id)
        limit_ms = check_timeout(timeout_ms, self.state.config.transaction_max_timeout_ms)
        with self.holding(name) as owner:
            assert owner is not None, "it was waited for"
            self._check()
            self.fence(owner, f"transactional id {name!r} was taken by a later transaction")
            known = self.table.get(name)
            if known is not None and known.value.status in PENDING:
                if not known.is_ours:
                    raise self._foreign(known)
                settle_id(self, owner)
            owner.current = OpenTransaction(self, owner, limit_ms)
            return owner.current

    def fence(self, owner: TransactionalId, reason: str) -> None:
        """End the transaction that an id has open, if there is one, with the lock of the id held."""
        if owner.current is not None:
            fenced = ProducerFencedError(reason, path=self.state.paths[0])
            owner.current.stop(fenced)
            settle_id(self, owner, aborted=fenced)

    def _foreign(self, known: IdState) -> TransactionError:
        value = known.value
        is_decided = value.status in PREPARED
        return TransactionError(
            f"a broker has a transaction of {known.transactional_id!r} that is not over",
            path=self.state.paths[0],
            expected="none, or one that is complete",
            found=f"{value.status.name.lower()} of producer {value.producer_id}, epoch {value.producer_epoch}",
            hint="it is decided: start the broker, which finishes it" if is_decided else "let the broker finish it, or abort_hanging() it",
        )

    def identify(self, transaction: TransactionWriting) -> None:
        """Give a transaction its producer id and epoch, and the log of its state, before it writes for the first time."""
        name = transaction.owner.name
        self.set_ids_apart()
        log = internal_log(self.state, TRANSACTIONS, name)
        known = self.table.get(name)
        producer = next_identity(None if known is None else known.value, transaction.owner.floor_epoch)
        transaction.producer_id, transaction.epoch = producer or (self._ids.take(), 0)
        transaction.state_from, transaction.started_ms = log.log_end_offset, self.state.clock()
        transaction.log = log
        if known is not None and not known.is_ours:
            # From a broker: that the id is ours now has to be known before anything is, or nobody would end what a crash leaves.
            self.syncing.wait(log, transaction.write_state(TransactionStatus.EMPTY))

    def set_ids_apart(self) -> None:
        """Write down that transactions are used here, before the first state of ours: otherwise no opening looks for it."""
        self._ids.set_apart()

    def is_undecided(self, transaction: OpenTransaction) -> bool:
        """Whether the log of the state has no decision of this transaction."""
        known = self.table.get(transaction.owner.name)
        value = None if known is None else known.value
        is_its_own = value is not None and (value.producer_id, value.producer_epoch) == (transaction.producer_id, transaction.epoch)
        return value is None or not is_its_own or value.status is not TransactionStatus.PREPARE_COMMIT

    # What transactions share

    def targets(self, topic: str) -> AppendTargets:
        """Where the records of a topic go."""
        if topic in INTERNAL_TOPICS:
            raise RefusedBatchError(
                f"{topic} takes no records from outside",
                path=self.state.paths[0],
                hint="groups and transactions write to it",
                kafka_error="INVALID_TOPIC_EXCEPTION",
            )
        entry = self.state.entry(topic)
        known = self._targets.get(topic)
        if known is None or known[0] is not entry:
            partitioner = Partitioner(entry.partitions, entry.partition_ids(), self.state.random, DEFAULT_BATCH_BYTES)
            known = self._targets[topic] = entry, AppendTargets(partitioner, partial(self._log, topic, (entry.topic_id, entry.partitions)))
        return known[1]

    def _log(self, topic: str, known: tuple[UUID | None, int], number: int) -> Log:
        """The log of a partition, if the topic is the one whose id and partitions these are: in another of its name, keys lie elsewhere."""
        if self._is_still(topic, known):
            log = self.state.log(TopicPartition(topic, number))
            if self._is_still(topic, known):  # asked again: somebody may have made another one meanwhile
                return log
        raise TransactionError(
            f"topic {topic!r} was deleted, and made again", path=self.state.paths[0], hint="run the transaction again from its beginning"
        )

    def _is_still(self, topic: str, known: tuple[UUID | None, int]) -> bool:
        entry = self.state.entry(topic)
        return (entry.topic_id, entry.partitions) == known

    @contextmanager
    def encoder(self) -> Iterator[SharedEncoder]:
        """An encoder to be used by one thread; its memory is used again."""
        try:
            encoder = self._encoders.pop()
        except IndexError:
            encoder = SharedEncoder()
        yield encoder
        if len(self._encoders) < 4:
            self._encoders.append(encoder)

    # Closing

    def _check(self) -> None:
        self.state.check()
        if self._is_closed:
            raise LogClosedError("the store is closed", path=self.state.paths[0])

    def close(self) -> list[TidelogError]:
        """Abort what is open, and end the threads. What could not be done is given back: the next opening does it."""
        self._is_closed = True
        errors: list[TidelogError] = []
        for owner in self.owners():
            with owner.lock:
                try:
                    self.fence(owner, "the store was closed")
                except TidelogError as error:
                    errors.append(error)
                    _logger.warning("transaction %s could not be aborted yet: %s", owner.name, error)
        self.syncing.close()
        return errors
