"""What pieces of a log tell about its transactions, and what follows from it for each piece.

Which batches of transactions a cleaning may discard depends on the batches before them (`TransactionTracker`), so no piece can tell by
itself. Workers that read the pieces note every batch of a transaction and every marker as an event. When all are read, the events are shown
to the very same tracker in the order of the log: once as the scan for keys would, once as the rewriting would. That gives the batches whose
keys do not count, and the state of the tracker at the beginning of each piece. Logs without transactions have no events.

An event is a row of six numbers: position, base offset, last offset, producer id, kind, records without a key.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.segment_chunks import Chunk
from tidelog.compaction.transactions import TransactionTracker, control_type_of
from tidelog.log.segment_piece import SegmentPiece
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from tidelog.record.plain_records import MAGIC_V2

FIELDS = 6
_DATA, _EMPTIED, _FIRST_MARKER = 0, 1, 100
"""Kinds: data, a control batch without a record, and the type of a marker from 100 on; a type is -1 or more."""
_NO_ROWS: NDArray[np.int64] = np.empty((0, FIELDS), np.int64)

Events = NDArray[np.int64]


def events_of(chunk: Chunk, keyless: NDArray[np.int64] | None = None) -> Events:
    """The events of a chunk. `keyless` has for each batch how many of its records have no key."""
    headers = chunk.headers
    rows = marked_rows(headers)
    if len(rows) == 0:
        return _NO_ROWS
    events = np.zeros((len(rows), FIELDS), np.int64)
    events[:, 0] = headers.position[rows] + chunk.file_position
    events[:, 1] = headers.base_offset[rows]
    events[:, 2] = headers.last_offset[rows]
    events[:, 3] = headers.producer_id[rows]
    if keyless is not None:
        events[:, 5] = keyless[rows]
    controls = np.flatnonzero(headers.attributes[rows] & CONTROL_BIT)
    for at in controls.tolist():
        row = int(rows[at])
        kind = control_type_of(RecordBatch(chunk.buffer, int(headers.position[row]), int(headers.size_bytes[row])))
        events[at, 4] = _EMPTIED if kind is None else _FIRST_MARKER + int(kind)
    return events


def marked_rows(headers: BatchHeaders) -> NDArray[np.int64]:
    """The batches of transactions, and the control batches."""
    marked = (headers.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
    if headers.may_be_legacy:
        marked &= headers.magic == MAGIC_V2
    return np.flatnonzero(marked)


class PieceEvents(NamedTuple):
    """The events of a piece, and the aborted transactions to be known from its beginning on, if a segment begins with it."""

    piece: SegmentPiece
    events: Events
    aborted: tuple[AbortedTxn, ...]


@dataclass(slots=True)
class Followed:
    """What follows from all events of a log."""

    uncounted: Events
    """Rows of base and last offset: batches of the dirty part whose keys do not count, in the order of the log."""
    trackers: list[bytes] = field(default_factory=list)
    """For each piece that was asked for, the tracker as it is before its first batch, pickled."""
    keyless: int = 0
    """Records without a key in batches that were not discarded."""
    keyless_offsets: list[int] = field(default_factory=list)
    """Base offsets of their batches, the first hundred."""


def follow(
    pieces: Iterable[PieceEvents],
    *,
    scan_base: int,
    scan_position: int,
    scan_aborted: Sequence[AbortedTxn],
    first_dirty: int,
    wanted: Sequence[int],
) -> Followed:
    """Show the events to two trackers. The scan begins in the segment `scan_base`, at a position; `wanted` are places of pieces."""
    scanning, rewriting = TransactionTracker(), TransactionTracker()
    scanning.add_aborted(scan_aborted)
    uncounted: list[tuple[int, int]] = []
    followed = Followed(np.empty((0, 2), np.int64))
    asked = set(wanted)
    for place, (piece, events, aborted) in enumerate(pieces):
        if place in asked:
            followed.trackers.append(pickle.dumps(rewriting))
        rewriting.add_aborted(aborted)
        for position, base_offset, last_offset, producer_id, kind, keyless in events.tolist():
            is_scanned = (piece.base_offset, position) >= (scan_base, scan_position)
            is_discarded = is_scanned and _discards(scanning, last_offset, producer_id, kind)
            if is_discarded and kind == _DATA:
                uncounted.append((base_offset, last_offset))
            would_discard = _discards(rewriting, last_offset, producer_id, kind)
            if keyless and kind == _DATA and not (is_discarded if last_offset >= first_dirty else would_discard):
                followed.keyless += keyless
                followed.keyless_offsets.append(base_offset)
        rewriting.take_kept()
    if uncounted:
        followed.uncounted = np.array(uncounted, np.int64)
    del followed.keyless_offsets[100:]
    return followed


def _discards(tracker: TransactionTracker, last_offset: int, producer_id: int, kind: int) -> bool:
    if kind == _DATA:
        return tracker.discards_data(last_offset, producer_id, is_transactional=True)
    return tracker.discards_control(last_offset, producer_id, None if kind == _EMPTIED else ControlType(kind - _FIRST_MARKER))
