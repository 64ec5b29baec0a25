"""Which batches of transactions a cleaning may discard: Kafka's CleanedTransactionMetadata.

Batches are shown to it in the order of the log. Data of an aborted transaction goes at once. A marker may go when a pass met no batch of
its transaction any more: the abort marker of a transaction whose data went in an earlier pass, a commit marker whose records were all
superseded. Until then the aborted transaction stays in the transaction index of the new segment.
"""

import struct
from collections.abc import Iterable
from heapq import heappop, heappush

from tidelog.errors import InvalidRecordError
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType

_CONTROL_KEY = struct.Struct(">hh")


class TransactionTracker:
    """The transactions of one pass. Without files: what it is asked about are fields of batch headers."""

    def __init__(self) -> None:
        self._ahead: list[tuple[int, int, AbortedTxn]] = []
        """Aborted transactions whose first offset was not reached yet, by that offset."""
        self._added = 0
        self._aborted: dict[int, AbortedTxn] = {}
        """By producer, the aborted transaction it is inside of."""
        self._seen: set[int] = set()
        """Of these producers, those of whose aborted transaction a batch was met."""
        self._committed: set[int] = set()
        """Producers with a batch of a transaction that was not aborted, since their last marker."""
        self._kept: list[AbortedTxn] = []

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Transactions that the indexes name, before the batches are shown. One may be named for each segment that it reaches into."""
        for transaction in transactions:
            self._added += 1
            heappush(self._ahead, (transaction.first_offset, self._added, transaction))

    def discards_data(self, last_offset: int, producer_id: int, *, is_transactional: bool) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._reach(last_offset)
        if not is_transactional:
            return False
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def discards_control(self, last_offset: int, producer_id: int, control_type: ControlType | None) -> bool:
        """Whether a control batch is of no more use. `control_type` is None of one that was emptied."""
        self._reach(last_offset)
        if control_type is None:
            return True
        if control_type is ControlType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            was_seen = producer_id in self._seen
            self._seen.discard(producer_id)
            if transaction is None or not was_seen:
                return True
            self._kept.append(transaction)
            return False
        if control_type is ControlType.COMMIT:
            if producer_id in self._committed:
                self._committed.discard(producer_id)
                return False
            return True
        return False

    def take_kept(self) -> list[AbortedTxn]:
        """Aborted transactions whose marker stays, since this was last asked: for the transaction index of the segment being written."""
        kept, self._kept = self._kept, []
        return kept

    def _reach(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            transaction = heappop(self._ahead)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)


def control_type_of(batch: RecordBatch) -> ControlType | None:
    """What a control batch says; None if it holds no record any more."""
    record = next(iter(batch), None)
    if record is None:
        return None
    key = record.key
    version, type_id = _CONTROL_KEY.unpack_from(key) if key is not None and len(key) >= _CONTROL_KEY.size else (-1, -1)
    if version < 0:
        raise InvalidRecordError(
            f"the key of the control record at offset {record.offset}",
            position=batch.position,
            expected=f"at least {_CONTROL_KEY.size} bytes, version 0 or more",
            found="null" if key is None else key.hex(),
        )
    return ControlType(type_id) if type_id in ControlType._value2member_map_ and type_id >= 0 else ControlType.UNKNOWN
