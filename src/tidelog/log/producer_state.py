"""The producers of a log: who may append what, which transactions are open, and the snapshots of all that.

Kept by the log under its lock. `check` looks at one batch and changes nothing; once the batch is written, `apply` takes its effect over. So
an append that fails leaves nothing behind. What is known is known up to `map_end_offset`; a snapshot holds it up to its own offset.

A transaction is undecided from its first batch to its marker, and unstable until the marker lies below the high watermark. Readers of
committed records stop at the first unstable offset.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.disk.checkpoints import MAX_INT64
from tidelog.disk.disk import Disk
from tidelog.disk.names import DELETED, SNAPSHOT, segment_file
from tidelog.errors import CorruptFileError
from tidelog.log.producer_snapshot import format_snapshot, parse_snapshot
from tidelog.log.producers import (
    BatchMetadata,
    CompletedTxn,
    Marker,
    Origin,
    ProducerBatch,
    ProducerEntry,
    appended,
    find_duplicate,
    is_expired,
    marked,
)
from tidelog.log.txn_index import AbortedTxn


class Effect(NamedTuple):
    """What a batch changes, once it is in the log."""

    entry: ProducerEntry
    started: int
    """The first offset of a transaction that it begins, or -1."""
    completed: CompletedTxn | None
    last_offset: int
    """Of the batch."""


class UnstableTxn(NamedTuple):
    """A transaction that is open, or whose marker may still be above the high watermark."""

    first_offset: int
    producer_id: int
    last_offset: int
    """Of its marker; -1 while it is open."""


Entries = dict[int, ProducerEntry]


class ProducerState:
    """The producers of one log. Its methods are called with the log's lock held; `first_unstable_offset` may be called by anyone."""

    def __init__(self, disk: Disk, directory: str, snapshots: Iterable[int], *, expiration_ms: int, is_read_only: bool = False) -> None:
        self._disk = disk
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._is_read_only = is_read_only
        self.entries: Entries = {}
        self.unstable: tuple[UnstableTxn, ...] = ()
        """By the first offset. Replaced whole."""
        self.map_end_offset = 0
        """Everything below has been taken in."""
        self.snapshots = set(snapshots)
        """Offsets of the snapshots that there are."""
        self.last_snapshot_offset = 0

    # Append

    def find_duplicate(self, batch: ProducerBatch, pending: Entries) -> BatchMetadata | None:
        """The batch that this one repeats. `pending` are entries that go before those of the log: of batches about to be written."""
        entry = pending.get(batch.producer_id) or self.entries.get(batch.producer_id)
        return None if entry is None else find_duplicate(entry, batch.epoch, batch.base_sequence, batch.last_sequence)

    def check(self, batch: ProducerBatch | Marker, origin: Origin, pending: Entries) -> Effect:
        """What the batch will change. Raises if its producer must not append it."""
        producer_id = batch.producer_id
        entry = pending.get(producer_id) or self.entries.get(producer_id) or ProducerEntry(producer_id)
        if isinstance(batch, Marker):
            after, completed = marked(entry, batch, origin)
            return Effect(after, -1, completed, batch.offset)
        after = appended(entry, batch, origin)
        started = after.transaction_start if entry.transaction_start < 0 else -1
        return tuple.__new__(Effect, (after, started, None, batch.last_offset))

    def aborted_by(self, effects: Iterable[Effect]) -> list[AbortedTxn]:
        """What goes into the transaction index for the batches of one call."""
        for effect in effects:
            if effect.completed is not None:
                return _taken_in(self.unstable, effects)[1]
        return []

    def announce(self, effects: Iterable[Effect]) -> None:
        """The batches of a call are about to be written: transactions that begin with them are open before anybody can read them."""
        started = [effect for effect in effects if effect[1] >= 0]
        if started:
            self.unstable = _taken_in(self.unstable, started)[0]

    def take_back(self, effects: Iterable[Effect]) -> None:
        """They were not written after all."""
        started = {effect[1] for effect in effects if effect[1] >= 0}
        if started:
            self.unstable = tuple(txn for txn in self.unstable if txn.first_offset not in started)

    def apply(self, effects: Iterable[Effect]) -> None:
        """The batches of a call are in the log. To apply them twice does no harm."""
        has_transactions = False
        for effect in effects:
            entry, started, completed, _ = effect
            self.entries[entry[0]] = entry
            if started >= 0 or completed is not None:
                has_transactions = True
        if has_transactions:
            self.unstable = _taken_in(self.unstable, effects)[0]

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the first transaction begins that is open, or whose marker is not below the high watermark."""
        for transaction in self.unstable:
            if transaction.last_offset < 0 or transaction.last_offset >= high_watermark:
                return transaction.first_offset
        return None

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the first transaction begins that is open."""
        return self.first_unstable_offset(MAX_INT64)

    def with_open_transaction(self) -> tuple[ProducerEntry, ...]:
        """The producers that have one, by where it begins. May be called by anyone."""
        entries = (self.entries.get(txn.producer_id) for txn in self.unstable if txn.last_offset < 0)
        return tuple(entry for entry in entries if entry is not None and entry.transaction_start >= 0)

    def forget_stable(self, high_watermark: int) -> None:
        """Drop transactions whose marker lies below the high watermark."""
        if self.unstable:
            self.unstable = tuple(txn for txn in self.unstable if txn.last_offset < 0 or txn.last_offset >= high_watermark)

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that have been silent for too long."""
        gone = [entry.producer_id for entry in self.entries.values() if is_expired(entry, now_ms, self._expiration_ms)]
        for producer_id in gone:
            del self.entries[producer_id]

    # Snapshots

    def take_snapshot(self, *, is_durable: bool = False) -> None:
        """Write down what is known, unless there is a snapshot that is as far."""
        offset = self.map_end_offset
        if offset <= self.last_snapshot_offset:
            return
        if not self._is_read_only:
            fd = self._disk.create(self.path_of(offset), exclusive=False)
            try:
                self._disk.write(fd, [format_snapshot(self.entries.values())], 0)
                if is_durable:
                    self._disk.sync(fd)
            finally:
                self._disk.close(fd)
            self.snapshots.add(offset)
        self.last_snapshot_offset = offset

    def path_of(self, offset: int, stage: str = "") -> str:
        """Where a snapshot is."""
        return f"{self._directory}/{segment_file(offset, SNAPSHOT, stage)}"

    def remove_snapshot(self, offset: int) -> None:
        """Remove one for good."""
        self.snapshots.discard(offset)
        if not self._is_read_only and self._disk.exists(self.path_of(offset)):
            self._disk.remove(self.path_of(offset))

    def set_aside(self, base_offsets: Iterable[int]) -> None:
        """The segments with these base offsets are deleted, and their snapshots with them."""
        for offset in base_offsets:
            if offset in self.snapshots:
                self._disk.rename(self.path_of(offset), self.path_of(offset, DELETED))
                self.snapshots.discard(offset)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Of the snapshots that belong to no segment, only the newest may stay, and only behind the last segment's base."""
        bases = set(base_offsets)
        strays = sorted(self.snapshots - bases)
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        for offset in strays:
            self.remove_snapshot(offset)

    # Cutting

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to what the newest usable snapshot says, if the log does not end where the knowledge does."""
        for offset in sorted(self.snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self.remove_snapshot(offset)
        if log_end_offset != self.map_end_offset:
            self.entries.clear()
            self.unstable = ()
            self._load_snapshot(log_start_offset, now_ms)
        else:
            self.start_moved(log_start_offset)

    def _load_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while self.snapshots:
            offset = max(self.snapshots)
            path = self.path_of(offset)
            try:
                entries = parse_snapshot(self._disk.read_file(path), path)
            except (CorruptFileError, FileNotFoundError):
                self.remove_snapshot(offset)
                continue
            for entry in entries:
                if not is_expired(entry, now_ms, self._expiration_ms):
                    self.entries[entry.producer_id] = entry
            opened = (
                UnstableTxn(entry.transaction_start, entry.producer_id, -1)
                for entry in self.entries.values()
                if entry.transaction_start >= 0
            )
            self.unstable = tuple(sorted(opened))
            self.last_snapshot_offset = self.map_end_offset = offset
            return
        self.last_snapshot_offset = self.map_end_offset = log_start_offset

    def start_moved(self, log_start_offset: int) -> None:
        """The log starts further on."""
        self.forget_stable(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self.last_snapshot_offset = max(self.snapshots, default=log_start_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything."""
        self.entries.clear()
        self.unstable = ()
        for snapshot in sorted(self.snapshots):
            self.remove_snapshot(snapshot)
        # Nothing is known, so there is nothing to write down before the log has grown.
        self.last_snapshot_offset = self.map_end_offset = offset


def _taken_in(unstable: tuple[UnstableTxn, ...], effects: Iterable[Effect]) -> tuple[tuple[UnstableTxn, ...], list[AbortedTxn]]:
    """The transactions after the batches of a call, and those that the call aborted. As in Kafka all beginnings come before all ends."""
    found = {txn.first_offset: txn for txn in unstable}
    found |= {
        effect.started: UnstableTxn(effect.started, effect.entry.producer_id, -1)
        for effect in effects
        if effect.started >= 0 and effect.started not in found
    }
    after = dict(sorted(found.items()))
    aborted = []
    for effect in effects:
        completed = effect.completed
        if completed is None:
            continue
        producer_id, first_offset, last_offset, is_aborted = completed
        if is_aborted:
            others = (txn.first_offset for txn in after.values() if txn.last_offset < 0 and txn.producer_id != producer_id)
            aborted.append(AbortedTxn(producer_id, first_offset, last_offset, next(others, last_offset + 1)))
        if first_offset in after:
            after[first_offset] = after[first_offset]._replace(last_offset=last_offset)
    return tuple(after.values()), aborted
