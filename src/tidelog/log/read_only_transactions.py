"""Transactions as a reader works them out: from the newest producer snapshot, and the batches behind it.

What is known is brought further when the high watermark goes up, not worked out anew. Only what lies below the high watermark is read: a
transaction whose marker lies above is open for readers. Aborted transactions that are met on the way are remembered, since after a crash
the transaction index may lack them.
"""

from collections.abc import Iterable, Iterator

from tidelog.disk.disk import Disk
from tidelog.log.producer_replay import producer_batches, replay
from tidelog.log.producer_state import ProducerState
from tidelog.log.producers import Marker, ProducerBatch, ProducerEntry
from tidelog.log.read_only_index import ReadOnlyTxnIndex
from tidelog.log.read_only_segment import LearnedTxns
from tidelog.log.segment import Segment
from tidelog.log.segment_read import find_offset
from tidelog.log.view import Bound, View
from tidelog.record.headers import walk_headers

_READ_BYTES = 1 << 20
_NEVER_MS = 1 << 62
"""Producers that are silent do not matter here: one with an open transaction is never forgotten."""


class ReadOnlyTransactions:
    """What is open and what was aborted, up to some offset. One thread at a time."""

    def __init__(self, disk: Disk, directory: str, learned: LearnedTxns) -> None:
        self._disk = disk
        self._directory = directory
        self._learned = learned
        self._state: ProducerState | None = None

    def forget(self) -> None:
        """The log was cut, or is another: what is known may not be so any more."""
        self._state = None
        self._learned.found = ()

    def first_open_offset(self, view: View, snapshots: Iterable[int], log_start_offset: int, bound: Bound) -> int | None:
        """Where the first transaction begins that is not over below the bound; None if there is none."""
        state = self._state
        if state is None or state.map_end_offset > bound.offset:
            self.forget()
            unsound = [segment.base_offset for segment in view.segments if not _has_sound_index(segment)]
            usable = [offset for offset in snapshots if not unsound or offset <= unsound[0]]
            state = ProducerState(self._disk, self._directory, usable, expiration_ms=_NEVER_MS, is_read_only=True)
            state.truncate_and_reload(log_start_offset, bound.offset, 0)
        start = max(state.map_end_offset, log_start_offset)
        if start < bound.offset:
            aborted = []
            for segment in view.segments[max(0, view.floor(start)) :]:
                if segment.base_offset > bound.base_offset:
                    break
                end = bound.position if segment.base_offset == bound.base_offset else segment.size_bytes
                aborted += replay(state, _batches_of(segment, start, end))
            self._learned.found = (*self._learned.found, *aborted)
            state.map_end_offset = bound.offset
        self._state = state
        return state.first_undecided_offset

    def producers(self) -> tuple[ProducerEntry, ...]:
        """Those that have a transaction open, as of the last look."""
        return () if self._state is None else self._state.with_open_transaction()


def _has_sound_index(segment: Segment) -> bool:
    return not isinstance(segment.txn_index, ReadOnlyTxnIndex) or segment.txn_index.is_sound


def _batches_of(segment: Segment, start_offset: int, end: int) -> Iterator[ProducerBatch | Marker]:
    """Of the batches from the one with `start_offset` on, up to a byte of the segment."""
    found = find_offset(segment, start_offset, end)
    if found is None:
        return
    position = found.position
    opened = segment.file.open()
    size = _READ_BYTES
    while position < end:
        chunk = memoryview(segment.pool.disk.read(opened.fd, min(size, end - position), position))
        headers = walk_headers(chunk)
        if len(headers) == 0:
            if size >= end - position or len(chunk) < min(size, end - position):
                return
            size *= 2  # a batch that is larger
            continue
        yield from producer_batches(chunk, headers)
        position += headers.end_position
        size = _READ_BYTES
