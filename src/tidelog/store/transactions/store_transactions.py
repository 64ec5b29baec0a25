"""The part of a store that its users reach transactions by: of one that is written, and of one that is only read."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NoReturn

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import ReadOnlyStoreError, TidelogError
from tidelog.log.read_only import ReadOnlyLog
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.read_only_topics import FoundTopic
from tidelog.store.store_file import StoreFile, read_store_file
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.decisions import IdState, foreign
from tidelog.store.transactions.hanging import (
    HangingTransaction,
    TransactionDescription,
    abort_hanging,
    describe,
    describe_hanging,
    find_hanging,
    in_order,
)
from tidelog.store.transactions.ids import producer_ids_of
from tidelog.store.transactions.markers import open_txn
from tidelog.store.transactions.state_table import read_states
from tidelog.store.transactions.transaction import Transaction


class StoreTransactions:
    """Transactions of a store."""

    _transactions: Coordinator

    def transaction(self, transactional_id: str, *, timeout_ms: int | None = None) -> Transaction:
        """Begin a transaction, over any topics and partitions. Readers of committed records see all of it, or nothing.

        Of an id one is open at a time: an earlier one is aborted, and raises `ProducerFencedError` when it is used again. It may stay open
        for `timeout_ms` from the first record that is written on, by default a minute; then it is aborted too.
        """
        return Transaction(self._transactions, self._transactions.begin(transactional_id, timeout_ms))

    def transactions(self) -> list[TransactionDescription]:
        """The last state of every transactional id, also of those that a broker has used here."""
        self._transactions.state.check()
        return sorted(map(describe, self._transactions.table.all()), key=lambda found: found.transactional_id)

    def hanging_transactions(self) -> list[HangingTransaction]:
        """Open transactions that this store will not end unasked, since somebody else has begun them. Readers of committed records wait."""
        self._transactions.state.check()
        return find_hanging(self._transactions)

    def abort_hanging(self, transaction: HangingTransaction) -> None:
        """Abort one of `hanging_transactions`: in all of its partitions, if a broker has written down which they are.

        Do it if its producer will not come back, and no broker either that could end it.
        """
        self._transactions.state.check()
        abort_hanging(self._transactions, transaction)


class ReadOnlyStoreTransactions:
    """Transactions of a store that is only read: what there is, and nothing to do about it."""

    paths: list[str]
    _pool: FilePool

    @abstractmethod
    def find(self) -> dict[str, FoundTopic]:
        """What is there now."""

    @abstractmethod
    def log(self, topic: str, partition: int) -> ReadOnlyLog:
        """The log of a partition."""

    def transactions(self) -> list[TransactionDescription]:
        """The last state of every transactional id. `is_ours` means: of the store whose directory it is."""
        return sorted(map(describe, self._states(_store_file(self._pool.disk, self.paths))), key=lambda found: found.transactional_id)

    def hanging_transactions(self) -> list[HangingTransaction]:
        """Open transactions that the store whose directory it is will not end unasked. Of a broker that runs, all that are open."""
        file = _store_file(self._pool.disk, self.paths)
        states = list(self._states(file))
        own_ids = range(0) if file is None else producer_ids_of(file.store_id)
        hanging: list[HangingTransaction] = []
        for log in self._all_logs(self.find()):
            try:
                opened = [open_txn(log.partition, entry) for entry in log.open_transactions]
            except TidelogError:
                continue  # damaged, or gone: it is told who reads it
            hanging += [describe_hanging(txn, state, log) for txn, state in foreign(states, opened, own_ids)]
        return in_order(hanging)

    def transaction(self, transactional_id: str, **options: Any) -> NoReturn:
        """Not here."""
        raise self._refused("begins no transactions")

    def abort_hanging(self, transaction: HangingTransaction) -> NoReturn:
        """Not here."""
        raise self._refused("aborts no transactions")

    def _refused(self, what: str) -> ReadOnlyStoreError:
        return ReadOnlyStoreError(f"a store that is only read {what}", path=self.paths[0], hint='open it with mode "a"')

    def _states(self, file: StoreFile | None) -> Iterator[IdState]:
        header = None if file is None else format_topic_id(file.store_id).encode()
        found = self.find().get(TRANSACTIONS.name)
        for log in self._all_logs({} if found is None else {found.name: found}):
            try:
                yield from read_states(log, header, "high_watermark").values()
            except TidelogError:
                continue

    def _all_logs(self, topics: dict[str, FoundTopic]) -> Iterator[ReadOnlyLog]:
        for name, found in topics.items():
            for number in found.partition_ids():
                try:
                    yield self.log(name, number)
                except TidelogError:
                    continue


def _store_file(disk: Disk, paths: list[str]) -> StoreFile | None:
    for path in paths:
        try:
            file = read_store_file(disk, path)
        except TidelogError:
            continue
        if file is not None:
            return file
    return None
