"""Aborted transactions for readers of committed records: which ones a fetch has to name, and which batches they take away.

As in Kafka, a fetch names every aborted transaction that overlaps what it brings, and leaves the batches in: whoever reads them leaves out
those of a producer from the first offset of its aborted transaction to the abort marker.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from tidelog.errors import InvalidRecordError
from tidelog.log.segment import Segment
from tidelog.log.txn_index import AbortedTxn, collect_aborted
from tidelog.log.view import View
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType, parse_control_record
from tidelog.record.legacy import LegacyBatch


def aborted_in(view: View, segment: Segment, offset: int, end_position: int) -> list[AbortedTxn]:
    """The aborted transactions with records from `offset` up to a byte of a segment, or some behind it: the index is sparse."""
    place = view.floor(segment.base_offset)
    behind = segment.index.first_at_or_behind(end_position)
    if behind is not None:
        upper = behind.offset
    elif place + 1 < len(view.segments):
        upper = view.base_offsets[place + 1]
    else:
        upper = segment.end[0]
    found: list[AbortedTxn] = []
    for later in view.segments[place:]:
        entries = later.txn_index.entries()
        if not entries:
            continue
        collected = collect_aborted(entries, offset, upper)
        found += collected.found
        if collected.is_complete:
            break
    return found


class AbortedFilter:
    """Says of batches, one after the other in the order of the log, whether their records were aborted."""

    __slots__ = ("_aborted", "_ahead")

    def __init__(self, transactions: Iterable[AbortedTxn]) -> None:
        self._ahead = [(transaction.first_offset, transaction.producer_id) for transaction in transactions]
        heapify(self._ahead)
        self._aborted: set[int] = set()
        """Producers inside of an aborted transaction."""

    def is_aborted(self, batch: RecordBatch | LegacyBatch) -> bool:
        """Whether this batch, behind all that were asked about before, belongs to an aborted transaction."""
        if not isinstance(batch, RecordBatch) or batch.producer_id < 0:
            return False
        last_offset = batch.last_offset
        while self._ahead and self._ahead[0][0] <= last_offset:
            self._aborted.add(heappop(self._ahead)[1])
        if batch.producer_id not in self._aborted:
            return False
        if batch.is_control:
            if _is_abort(batch):
                self._aborted.discard(batch.producer_id)
            return False
        return batch.is_transactional


def _is_abort(batch: RecordBatch) -> bool:
    """Whether a control batch ends a transaction by aborting it. One that was emptied, or that means nothing, does not."""
    try:
        record = next(iter(batch), None)
        return record is not None and parse_control_record(record).type is ControlType.ABORT
    except InvalidRecordError:
        return False
