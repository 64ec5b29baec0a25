"""Offset index and time index held against the batches of their segment.

Both are read whole, up to a limit, and compared run by run while the `.log` is walked. An offset entry must point at the start of a batch
and hold its last offset (releases before 3.9.1 and 4.0.1 stored the last offset of a whole call with the position of its first batch: a
lower bound too); a time entry must hold the largest timestamp of the batch that its offset lies in. Zeros behind the entries are what a
preallocated file of an active segment looks like.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.inspection.finding import NOTHING, RECOVERY, REINDEX, Finding, Severity
from tidelog.inspection.segment_walk import Piece

MOST_INDEX_BYTES = 32 << 20
"""Of an index file is read; Kafka's default is 10 MiB."""
MOST_HELD = 1000

OFFSET_LAYOUT = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_LAYOUT = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(slots=True)
class IndexEntries:
    """The entries of an index file, in columns."""

    path: str
    columns: dict[str, np.ndarray]
    entry_size: int
    padding: int
    """Entries of zeros behind the last one."""

    def __len__(self) -> int:
        return len(self.columns["offset"])


def read_entries(disk: Disk, path: str, layout: np.dtype, *, is_active: bool) -> tuple[IndexEntries, list[Finding]]:
    """An index file, and what its size says. `is_active`: of the last segment, where zeros behind the entries are in order."""
    findings = []
    size = layout.itemsize
    fd = disk.open_plain(path)
    try:
        size_bytes = disk.size(fd)
        content = _read(disk, fd, min(size_bytes, MOST_INDEX_BYTES - MOST_INDEX_BYTES % size))
    finally:
        disk.close(fd)
    if size_bytes % size:
        what = f"the size of an index is no multiple of {size} bytes"
        findings.append(Finding("warning", "index-size", path, what, REINDEX, size_bytes - size_bytes % size, None, None, size_bytes))
    if size_bytes > MOST_INDEX_BYTES:
        what = f"only the first {MOST_INDEX_BYTES} bytes of an index were looked at"
        findings.append(Finding("note", "index-large", path, what, NOTHING, MOST_INDEX_BYTES, None, None, size_bytes))
    raw = np.frombuffer(content, layout, len(content) // size)
    names = layout.names or ()
    used = np.flatnonzero(np.logical_or.reduce([raw[name] != 0 for name in names]))
    count = int(used[-1]) + 1 if len(used) else 0
    if count == 0 and len(raw) and "timestamp" in names and not is_active:
        count = 1  # a first batch of one record from the very beginning of 1970; the batches will tell
    padding = len(raw) - count
    if padding and not is_active:
        what = f"{padding} empty entries at the end of an index that is no longer written to: a broker takes them for entries"
        findings.append(Finding("warning", "index-not-trimmed", path, what, REINDEX, count * size))
    columns = {name: raw[name][:count].astype(np.int64) for name in names}
    return IndexEntries(path, columns, size, padding), findings


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


def hold(held: list[Finding], findings: Iterable[Finding]) -> None:
    """Keep findings until the walk is over: the first thousand, since an index may be nothing but garbage."""
    for finding in findings:
        if len(held) < MOST_HELD:
            held.append(finding)


def settled(findings: list[Finding], entries: IndexEntries) -> list[Finding]:
    """Findings about an index with room behind its entries. Kafka leaves there what a truncation has dropped, and does not look at it.

    So if all that is wrong is a run of entries at the end, it is one note.
    """
    if not entries.padding:
        return findings
    rows = sorted({finding.position // entries.entry_size for finding in findings if finding.position is not None})
    if not rows or rows != list(range(len(entries) - len(rows), len(entries))):
        return findings
    what = f"{len(rows)} entries at the end that do not count, as a truncation leaves them in the index that is written to"
    return [Finding("note", "index-stale", entries.path, what, RECOVERY, rows[0] * entries.entry_size)]


def _read(disk: Disk, fd: int, size_bytes: int) -> bytes:
    """So many bytes, or what there is."""
    parts: list[bytes] = []
    position = 0
    while position < size_bytes:
        part = disk.read(fd, min(4 << 20, size_bytes - position), position)
        if not part:
            break
        parts.append(part)
        position += len(part)
    return b"".join(parts)
