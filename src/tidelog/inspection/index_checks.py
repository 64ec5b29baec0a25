"""Offset index and time index held against the batches of their segment.

They are compared run by run while the `.log` is walked. An offset entry must point at the start of a batch and hold its last offset
(releases before 3.9.1 and 4.0.1 stored the last offset of a whole call with the position of its first batch: a lower bound too); a time
entry must hold the largest timestamp of the batch that its offset lies in.
"""

from collections.abc import Iterator

import numpy as np

from tidelog.inspection.finding import NOTHING, REINDEX, Finding, Severity
from tidelog.inspection.index_entries import IndexEntries
from tidelog.inspection.walk_parts import Piece


class OffsetIndexChecks:
    """One `.index`, entry by entry as the walk passes the batches."""

    def __init__(self, entries: IndexEntries, base_offset: int) -> None:
        self.entries = entries
        self.base_offset = base_offset
        positions = entries.columns["position"]
        self._order = np.argsort(positions, kind="stable")
        self._positions = positions[self._order]
        self._offsets = entries.columns["offset"][self._order] + base_offset
        self._done = 0
        self._pending = -1
        """The offset of an entry that spans several batches: the next entry's batch must lie behind it."""
        self.per_call = 0

    def check_order(self) -> Iterator[Finding]:
        """What can be said without the batches."""
        offsets, positions = self.entries.columns["offset"], self.entries.columns["position"]
        for row in np.flatnonzero((offsets < 0) | (positions <= 0)).tolist():
            what = "an entry that no batch can have: the first of a segment has none"
            yield self._finding(row, "index-entry", what, "a position above 0", f"offset {offsets[row]}, position {positions[row]}")
        falls = np.flatnonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0)) + 1
        for row in falls.tolist():
            what = "the entries of an index do not rise"
            expected = f"above offset {offsets[row - 1]}, position {positions[row - 1]}"
            yield self._finding(row, "index-order", what, expected, f"offset {offsets[row]}, position {positions[row]}")

    def check_batches(self, piece: Piece) -> Iterator[Finding]:
        """The entries that point into this run of batches, or between the one before and this."""
        start = self._done
        self._done = end = int(np.searchsorted(self._positions, piece.end))
        if start == end:
            return
        starts = piece.headers.position + piece.shift
        wanted = self._positions[start:end]
        rows = np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)
        is_start = starts[rows] == wanted
        last = piece.headers.last_offset[rows]
        offsets = self._offsets[start:end]
        if is_start.all() and (last == offsets).all() and self._pending < 0:
            return
        first = piece.headers.base_offset[rows]
        bad = set(piece.bad.tolist())
        for at, row in enumerate(rows.tolist()):
            entry = int(self._order[start + at])
            if not is_start[at]:
                yield self._finding(entry, "index-position", "an entry does not point at a batch", "the start of a batch", int(wanted[at]))
                continue
            if 0 <= int(first[at]) <= self._pending:
                what = "an entry holds an offset behind its batch"
                yield self._finding(entry - 1, "index-offset", what, f"below {int(first[at])}", self._pending)
            self._pending = -1
            if row in bad:
                continue
            if offsets[at] > last[at]:
                self._pending = int(offsets[at])
                self.per_call += 1
            elif offsets[at] < last[at]:
                what = "an entry does not hold the last offset of its batch"
                yield self._finding(entry, "index-offset", what, int(last[at]), int(offsets[at]))

    def check_end(self, end: int, last_offset: int, has_grown: bool) -> Iterator[Finding]:
        """The walk is over: entries that point behind it."""
        if self._pending > last_offset:
            what = "an entry holds an offset behind the end of the segment"
            yield self._finding(len(self.entries) - 1, "index-offset", what, f"at most {last_offset}", self._pending)
        elif self.per_call:
            what = f"{self.per_call} entries stand for several batches, as releases before 3.9.1 and 4.0.1 wrote them"
            yield Finding("note", "index-per-call", self.entries.path, what, NOTHING)
        if has_grown:
            return
        for at in range(self._done, len(self._positions)):
            position = int(self._positions[at])
            what = "an entry points behind the last batch"
            yield self._finding(int(self._order[at]), "index-position", what, f"below {end}", position)

    def _finding(self, row: int, code: str, what: str, expected: str | int, found: str | int) -> Finding:
        offset = self.base_offset + int(self.entries.columns["offset"][row])
        return Finding("warning", code, self.entries.path, what, REINDEX, row * self.entries.entry_size, offset, expected, found)


class TimeIndexChecks:
    """One `.timeindex`."""

    def __init__(self, entries: IndexEntries, base_offset: int) -> None:
        self.entries = entries
        self.base_offset = base_offset
        offsets = entries.columns["offset"] + base_offset
        self._order = np.argsort(offsets, kind="stable")
        self._offsets = offsets[self._order]
        self._timestamps = entries.columns["timestamp"][self._order]
        self._done = 0
        self._largest = -1
        """Timestamp of the batches passed so far."""

    def check_order(self) -> Iterator[Finding]:
        """What can be said without the batches."""
        timestamps, offsets = self.entries.columns["timestamp"], self.entries.columns["offset"]
        for row in np.flatnonzero((offsets < 0) | (timestamps < 0)).tolist():
            yield self._finding(
                row, "time-index-entry", "an entry that no batch can have", "numbers from 0", f"{timestamps[row]}, {offsets[row]}"
            )
        for row in (np.flatnonzero((np.diff(timestamps) <= 0) | (np.diff(offsets) <= 0)) + 1).tolist():
            expected = f"above time {timestamps[row - 1]}, offset {offsets[row - 1]}"
            yield self._finding(
                row,
                "time-index-order",
                "the entries of a time index do not rise",
                expected,
                f"time {timestamps[row]}, offset {offsets[row]}",
            )

    def check_batches(self, piece: Piece) -> Iterator[Finding]:
        """The entries whose offset lies in this run of batches."""
        last, times = piece.headers.last_offset, piece.headers.max_timestamp_ms
        if len(piece.bad):
            times = times.copy()
            times[piece.bad] = -1
        if len(last) > 1 and (last[1:] < last[:-1]).any():
            last = np.maximum.accumulate(last)
        start = self._done
        self._done = end = max(start, int(np.searchsorted(self._offsets, int(last[-1]), "right")))
        before = self._largest
        self._largest = max(before, int(times.max()))
        if start == end:
            return
        offsets = self._offsets[start:end]
        rows = np.minimum(np.searchsorted(last, offsets), len(last) - 1)
        expected, found = times[rows], self._timestamps[start:end]
        earlier = np.maximum.accumulate(np.concatenate(([before], times)))[rows]
        if (expected == found).all() and (earlier < found).all() and (last[rows] == offsets).all():
            return
        first = piece.headers.base_offset[rows]
        bad = set(piece.bad.tolist())
        for at, row in enumerate(rows.tolist()):
            if row in bad:
                continue
            entry = int(self._order[start + at])
            if first[at] > offsets[at]:
                what = "an entry holds an offset that no batch has"
                yield self._finding(entry, "time-index-offset", what, f"from {int(first[at])} to {int(last[row])}", int(offsets[at]))
            elif expected[at] != found[at]:
                what = "an entry does not hold the largest timestamp of its batch"
                yield self._finding(entry, "time-index-timestamp", what, int(expected[at]), int(found[at]))
            elif earlier[at] >= found[at]:
                # Kafka forgets the largest timestamp so far when it truncates, so this happens without damage.
                what = "a batch before this entry is as late as it, or later: a search by time passes over it"
                yield self._finding(entry, "time-index-behind", what, f"above {int(earlier[at])}", int(found[at]))
            elif last[row] > offsets[at]:
                what = "an entry holds an offset inside of a batch, as older releases wrote it"
                yield self._finding(entry, "time-index-inside", what, int(last[row]), int(offsets[at]), "note")

    def check_end(self, last_offset: int, has_grown: bool, is_closed: bool) -> Iterator[Finding]:
        """The walk is over."""
        if not has_grown:
            for at in range(self._done, len(self._offsets)):
                what = "an entry lies behind the last batch"
                yield self._finding(
                    int(self._order[at]), "time-index-offset", what, f"at most offset {last_offset}", int(self._offsets[at])
                )
        latest = int(self._timestamps[-1]) if len(self._timestamps) else -1
        if is_closed and self._done == len(self._offsets) and latest < self._largest:
            what = "the last entry of a finished segment is not its largest timestamp: searches by time and retention by time go wrong"
            end = len(self.entries) * self.entries.entry_size
            yield Finding("warning", "time-index-short", self.entries.path, what, REINDEX, end, None, self._largest, latest)

    def _finding(self, row: int, code: str, what: str, expected: str | int, found: str | int, severity: Severity = "warning") -> Finding:
        offset = self.base_offset + int(self.entries.columns["offset"][row])
        mend = REINDEX if severity == "warning" else NOTHING
        return Finding(severity, code, self.entries.path, what, mend, row * self.entries.entry_size, offset, expected, found)
