"""Producers and transactions: whether their batches follow each other, and what files about them must say.

The log is replayed as a broker does it when it opens. Batches that are not part of a transaction are taken together: only a producer's last
one counts. Where compaction has taken batches out, the log no longer tells what the files were made from, and less is asked of them.
"""

from collections.abc import Iterator

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.errors import InvalidRecordError, TidelogError
from tidelog.inspection.batch_checks import Bounds
from tidelog.inspection.finding import NOTHING, SALVAGE, Finding
from tidelog.inspection.walk_parts import Piece
from tidelog.log.producer_replay import read_marker
from tidelog.log.producers import MAX_SEQUENCE, Marker, ProducerBatch, ProducerEntry, appended, marked
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.batch import RecordBatch
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT

MOST_REMEMBERED = 1_000_000
LARGEST_CONTROL_BATCH = 1 << 20


class ProducerChecks:
    """The producers of one log while it is walked."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        """Producers as they are now."""
        self._open: dict[int, int] = {}
        """Producers of open transactions by first offset, ascending."""
        self.aborted: list[AbortedTxn] = []
        """What the transaction index of the segment must hold, by the replay."""
        self.abort_markers: dict[int, int] = {}
        """Producers of the abort markers of the segment, by offset."""
        self.starts: set[int] = set()
        """Where transactions begin in the segment."""
        self.has_lost_track = False
        """There were too many producers, or too many markers in a segment, to remember them all: what is known is not everything."""

    def begin_segment(self) -> None:
        """What belongs to one segment starts anew."""
        self.aborted = []
        self.abort_markers = {}
        self.starts = set()

    def take(self, piece: Piece, first: int, end: int, bounds: Bounds, disk: Disk, fd: int) -> Iterator[Finding]:
        """Rows `first` to `end` of a run of batches. Of a marker that is not in memory the bytes are read again."""
        headers = piece.headers[first:end]
        producer_ids = headers.producer_id
        if len(producer_ids) == 0 or int(producer_ids.max()) < 0:
            return
        rows = np.flatnonzero(producer_ids >= 0)
        if len(piece.bad):
            rows = rows[~np.isin(rows + first, piece.bad)]
        if len(rows) == 0:
            return
        part = Piece(headers, piece.shift, piece.view, piece.bad)
        if (headers.attributes[rows] & (CONTROL_BIT | TRANSACTIONAL_BIT)).any():
            yield from self._take_one_by_one(part, rows, bounds, disk, fd)
        else:
            yield from self._take_together(part, rows, bounds)
        if len(self.entries) > MOST_REMEMBERED or len(self.abort_markers) > MOST_REMEMBERED or len(self.starts) > MOST_REMEMBERED:
            self.has_lost_track = True
            self.entries.clear()
            self._open.clear()
            self.begin_segment()
            what = f"more than {MOST_REMEMBERED} producers or markers: snapshots and transaction indexes are not held against them any more"
            yield Finding("note", "producers-many", bounds.path, what, NOTHING, piece.start)

    def _take_together(self, piece: Piece, rows: np.ndarray, bounds: Bounds) -> Iterator[Finding]:
        headers = piece.headers
        order = rows[np.argsort(headers.producer_id[rows], kind="stable")]
        producers, epochs = headers.producer_id[order], headers.producer_epoch[order]
        sequences = headers.base_sequence[order]
        following = (sequences + (headers.last_offset[order] - headers.base_offset[order]) + 1) & MAX_SEQUENCE
        is_first = np.concatenate(([True], producers[1:] != producers[:-1]))
        if not bounds.has_gaps:
            same = ~is_first[1:] & (epochs[1:] == epochs[:-1])
            for at in (np.flatnonzero(same & (sequences[1:] != following[:-1])) + 1).tolist():
                yield self._out_of_order(piece, int(order[at]), int(following[at - 1]), bounds)
            for at in (np.flatnonzero(~is_first[1:] & (epochs[1:] < epochs[:-1])) + 1).tolist():
                yield self._stale(piece, int(order[at]), int(epochs[at - 1]), bounds)
        lasts = np.flatnonzero(np.concatenate((is_first[1:], [True]))).tolist()
        for start, last in zip(np.flatnonzero(is_first).tolist(), lasts, strict=True):
            yield from self._check_next(piece, int(order[start]), bounds)
            self._apply(_batch(piece, int(order[last])))

    def _take_one_by_one(self, piece: Piece, rows: np.ndarray, bounds: Bounds, disk: Disk, fd: int) -> Iterator[Finding]:
        attributes = piece.headers.attributes
        for row in rows.tolist():
            if not int(attributes[row]) & CONTROL_BIT:
                yield from self._check_next(piece, row, bounds)
                self._apply(_batch(piece, row))
                continue
            position, size = int(piece.headers.position[row]), int(piece.headers.size_bytes[row])
            try:
                if piece.view is not None:
                    marker = read_marker(RecordBatch(piece.view, position, size))
                elif size > LARGEST_CONTROL_BATCH:
                    raise InvalidRecordError("it is too large")
                else:
                    marker = read_marker(RecordBatch(memoryview(disk.read(fd, size, position + piece.shift)), 0, size))
            except TidelogError as error:
                offset = int(piece.headers.base_offset[row])
                place = position + piece.shift
                yield Finding(
                    "error", "control-record", bounds.path, f"a control batch that says nothing: {error.what}", SALVAGE, place, offset
                )
                continue
            if marker is None:
                continue
            self._end_transaction(marker)

    def _end_transaction(self, marker: Marker) -> None:
        entry = self.entries.get(marker.producer_id) or ProducerEntry(marker.producer_id)
        self.entries[marker.producer_id], completed = marked(entry, marker, "replay")
        if completed is not None:
            self._open.pop(completed.first_offset, None)
        if not marker.is_abort:
            return
        self.abort_markers[marker.offset] = marker.producer_id
        if completed is not None:
            # Of this producer nothing is open any more.
            stable = next(iter(self._open), marker.offset + 1)
            self.aborted.append(AbortedTxn(marker.producer_id, completed.first_offset, marker.offset, stable))

    def _apply(self, batch: ProducerBatch) -> None:
        entry = self.entries.get(batch.producer_id) or ProducerEntry(batch.producer_id)
        self.entries[batch.producer_id] = after = appended(entry, batch, "replay")
        if entry.transaction_start < 0 <= after.transaction_start:
            self._open[after.transaction_start] = batch.producer_id
            self.starts.add(after.transaction_start)

    def _check_next(self, piece: Piece, row: int, bounds: Bounds) -> Iterator[Finding]:
        """A batch against what is known of its producer."""
        entry = self.entries.get(int(piece.headers.producer_id[row]))
        if entry is None or bounds.has_gaps:
            return
        epoch, sequence = int(piece.headers.producer_epoch[row]), int(piece.headers.base_sequence[row])
        if epoch < entry.epoch:
            yield self._stale(piece, row, entry.epoch, bounds)
        elif epoch == entry.epoch and entry.batches and sequence != (entry.last_sequence + 1) & MAX_SEQUENCE:
            yield self._out_of_order(piece, row, (entry.last_sequence + 1) & MAX_SEQUENCE, bounds)

    def _out_of_order(self, piece: Piece, row: int, expected: int, bounds: Bounds) -> Finding:
        headers = piece.headers
        what = f"the sequence of producer {int(headers.producer_id[row])} does not go on where it ended"
        position, offset = int(headers.position[row]) + piece.shift, int(headers.base_offset[row])
        return Finding(
            "warning", "producer-sequence", bounds.path, what, NOTHING, position, offset, expected, int(headers.base_sequence[row])
        )

    def _stale(self, piece: Piece, row: int, known: int, bounds: Bounds) -> Finding:
        headers = piece.headers
        what = f"producer {int(headers.producer_id[row])} goes on with an epoch that was fenced"
        position, offset = int(headers.position[row]) + piece.shift, int(headers.base_offset[row])
        found = int(headers.producer_epoch[row])
        return Finding("warning", "producer-epoch", bounds.path, what, NOTHING, position, offset, f"{known} or more", found)


def _batch(piece: Piece, row: int) -> ProducerBatch:
    headers = piece.headers
    return ProducerBatch(
        int(headers.producer_id[row]),
        int(headers.producer_epoch[row]),
        int(headers.base_sequence[row]),
        int(headers.base_offset[row]),
        int(headers.last_offset[row]),
        int(headers.max_timestamp_ms[row]),
        bool(int(headers.attributes[row]) & TRANSACTIONAL_BIT),
    )
