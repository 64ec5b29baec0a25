"""One segment: its `.log` and its indexes in one pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.disk.names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.errors import TidelogError
from tidelog.inspection.batch_checks import Bounds, check_checksums, check_headers
from tidelog.inspection.directory_checks import PartitionFiles
from tidelog.inspection.finding import RECOVERY, REINDEX, REPAIR, SALVAGE, Finding, Severity
from tidelog.inspection.header_walk import HeaderWalk
from tidelog.inspection.index_checks import OffsetIndexChecks, TimeIndexChecks
from tidelog.inspection.index_entries import OFFSET_LAYOUT, TIME_LAYOUT, hold, read_entries, settled
from tidelog.inspection.kept_state_checks import check_txn_index, compare_snapshot, compare_txn_index
from tidelog.inspection.producer_checks import ProducerChecks
from tidelog.inspection.proofs import Proven
from tidelog.inspection.record_checks import RecordChecks
from tidelog.inspection.recovery_point_checks import torn_offset
from tidelog.inspection.segment_walk import LARGEST_SEGMENT, SegmentWalk
from tidelog.inspection.side_file_checks import EpochChecks, load_snapshot, load_txn_index, unreadable
from tidelog.inspection.walk_parts import Piece, Stretch, joined
from tidelog.log.txn_index import ENTRY as TXN_ENTRY
from tidelog.log.txn_index import AbortedTxn


@dataclass(slots=True)
class LogContext:
    """What goes on from segment to segment while a partition is walked."""

    disk: Disk
    files: PartitionFiles
    level: str
    known_from: int
    """Where the log starts, or where its first segment does: what lies below says nothing about producers."""
    bounds: Bounds
    producers: ProducerChecks
    epochs: EpochChecks
    snapshots: list[int]
    """Offsets of the producer snapshots that are still to be compared, ascending."""
    vanished: list[int]
    """Segments that were gone when it came to them."""
    records: RecordChecks = field(default_factory=RecordChecks)
    proven: Mapping[int, Proven] = field(default_factory=dict)
    """Of segments, by base offset, what need not be read again."""

    def path(self, base_offset: int, kind: str) -> str:
        """A file of a segment."""
        return f"{self.files.directory}/{segment_file(base_offset, kind)}"

    def check_snapshots(self, offset: int) -> Iterator[Finding]:
        """The snapshots up to and at `offset`, which is where the walk stands."""
        while self.snapshots and self.snapshots[0] <= offset:
            at = self.snapshots.pop(0)
            path = self.path(at, SNAPSHOT)
            entries, findings = load_snapshot(self.disk, path)
            yield from findings
            if entries is not None:
                # Compaction may have left nothing at all between the last batch and here.
                has_gaps = self.bounds.has_gaps or self.producers.has_lost_track or at > self.bounds.last_offset + 1
                replayed = self.producers.entries
                yield from compare_snapshot(path, at, entries, replayed, has_gaps=has_gaps, first_base=self.known_from)


class SegmentChecks:
    """One segment: its `.log` and its indexes in one pass."""

    def __init__(self, log: LogContext, base_offset: int, next_base: int | None) -> None:
        self.log = log
        self.disk = log.disk
        self.base_offset = base_offset
        self.bounds = log.bounds
        self.producers = log.producers
        self.path = log.path(base_offset, LOG)
        self.size_bytes = 0
        self.first_offset: int | None = None
        self.end = 0
        """Where its last batch ends."""
        self.torn_offset: int | None = None
        """The offset of a batch that is cut off at its end, or -1 if something else lies there; None if it ends with a whole batch."""
        self.is_unread = False
        """Whether some of it could not be read, or went away meanwhile."""
        log.bounds.path, log.bounds.base_offset, log.bounds.next_base = self.path, base_offset, next_base
        log.bounds.is_falling = False
        self._index: OffsetIndexChecks | None = None
        self._time_index: TimeIndexChecks | None = None
        self._is_trimmed = True
        self._about_index: list[Finding] = []
        """Told when the walk is over, and all of the index has been compared."""
        self._about_time_index: list[Finding] = []

    def run(self) -> Iterator[Finding]:
        """All findings about the segment."""
        self.producers.begin_segment()
        # The indexes first: a live log writes its entries behind the batches, so those that are read have theirs.
        yield from self._open_indexes()
        try:
            fd = self.disk.open_plain(self.path)
        except FileNotFoundError:
            self.log.vanished.append(self.base_offset)
            return
        except OSError as error:
            self.is_unread = True
            yield unreadable(error, self.path)
            return
        try:
            yield from self._walk(fd)
        except OSError as error:
            self.is_unread = True
            yield unreadable(error, self.path)
        finally:
            self.disk.close(fd)

    def _open_indexes(self) -> Iterator[Finding]:
        kinds = self.log.files.segments[self.base_offset]
        is_active = self.bounds.next_base is None
        for kind in (INDEX, TIME_INDEX):
            if kind not in kinds:
                continue
            path = self.log.path(self.base_offset, kind)
            try:
                entries, findings = read_entries(self.disk, path, OFFSET_LAYOUT if kind == INDEX else TIME_LAYOUT, is_active=is_active)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield unreadable(error, path)
                continue
            yield from findings
            self._is_trimmed = self._is_trimmed and entries.padding == 0
            if kind == INDEX:
                self._index = OffsetIndexChecks(entries, self.base_offset)
                hold(self._about_index, self._index.check_order())
            else:
                self._time_index = TimeIndexChecks(entries, self.base_offset)
                hold(self._about_time_index, self._time_index.check_order())

    def _walk(self, fd: int) -> Iterator[Finding]:
        self.size_bytes = size = self.disk.size(fd)
        bounds = self.bounds
        if size > LARGEST_SEGMENT:
            what = "a segment larger than its indexes can point into; what lies beyond was not read"
            yield Finding("error", "segment-size", self.path, what, SALVAGE, LARGEST_SEGMENT, None, f"at most {LARGEST_SEGMENT}", size)
        if not bounds.has_gaps and self.base_offset > bounds.last_offset + 1:
            bounds.has_gaps = True
        bounds.last_offset = max(bounds.last_offset, self.base_offset - 1)
        checks_crcs = self.log.level != "headers"
        walk_type = SegmentWalk if checks_crcs else HeaderWalk
        proven = self.log.proven.get(self.base_offset, ()) if checks_crcs else ()
        walk = walk_type(self.disk, fd, min(size, LARGEST_SEGMENT), self.base_offset, checks_crcs=checks_crcs, proven=proven)
        # Records are parsed where they lie; for everything else headers are enough.
        for part in walk if self.log.level == "records" else joined(walk):
            if isinstance(part, Stretch):
                yield self._stretch(part)
                self._note_tail(part, fd)
                bounds.has_gaps = bounds.has_gaps or part.kind != "magic"
            else:
                yield from self._piece(part, fd)
        self.end = walk.end
        has_grown = self.disk.size(fd) > walk.size_bytes
        if size:
            yield from self._missing_indexes()
        if self._index is not None:
            hold(self._about_index, self._index.check_end(walk.end, bounds.last_offset, has_grown))
            yield from settled(self._about_index, self._index.entries)
        if self._time_index is not None:
            is_closed = bounds.next_base is not None or (self._is_trimmed and not has_grown)
            hold(self._about_time_index, self._time_index.check_end(bounds.last_offset, has_grown, is_closed))
            yield from settled(self._about_time_index, self._time_index.entries)
        yield from self._check_txn_index()

    def _piece(self, piece: Piece, fd: int) -> Iterator[Finding]:
        bounds = self.bounds
        if self.first_offset is None:
            self.first_offset = int(piece.headers.base_offset[0])
        if len(piece.bad):
            yield from check_checksums(piece, self.path)
        yield from check_headers(piece, bounds)
        if self.log.level == "records" and not piece.is_proven:
            yield from self.log.records.check(piece, bounds)
        yield from self.log.epochs.check_batches(piece, self.path)
        if self._index is not None:
            hold(self._about_index, self._index.check_batches(piece))
        if self._time_index is not None:
            hold(self._about_time_index, self._time_index.check_batches(piece))
        yield from self._take_producers(piece, fd)

    def _take_producers(self, piece: Piece, fd: int) -> Iterator[Finding]:
        """The producers of a piece, with the snapshots that lie inside of it at their places."""
        first, count = 0, len(piece.headers)
        snapshots = self.log.snapshots
        while snapshots and snapshots[0] <= int(piece.headers.last_offset[-1]):
            stop = max(first, int(np.searchsorted(piece.headers.base_offset, snapshots[0])))
            yield from self.producers.take(piece, first, stop, self.bounds, self.disk, fd)
            first = stop
            yield from self.log.check_snapshots(snapshots[0])
        yield from self.producers.take(piece, first, count, self.bounds, self.disk, fd)

    def _stretch(self, part: Stretch) -> Finding:
        is_last = self.bounds.next_base is None
        size = part.end - part.start
        if part.kind == "magic":
            what = f"the magic of a batch is {part.reason}; its CRC says that it is 2"
            return Finding("error", "batch-magic", self.path, what, REPAIR, part.start, part.base_offset, 2, part.reason)
        if part.kind == "lost":
            what = f"{size} bytes that are no batches, with sound ones behind them: {part.reason}"
            return Finding(
                "error", "framing-lost", self.path, what, SALVAGE, part.start, self.bounds.last_offset + 1, None, f"bytes up to {part.end}"
            )
        if part.kind == "shrunk":
            return Finding("warning", "file-shrunk", self.path, part.reason, "verify again", part.start)
        code = {"torn": "torn-tail", "zeros": "zero-tail"}.get(part.kind, "garbage-tail")
        words = {"torn": "that are the beginning of a batch", "zeros": "of nothing but zeros"}.get(
            part.kind, f"that are no batches ({part.reason})"
        )
        what = f"{size} bytes {words} at the end of {'the log' if is_last else 'a segment with others behind it'}"
        severity: Severity = "warning" if is_last and part.kind != "garbage" else "error"
        return Finding(severity, code, self.path, what, RECOVERY if is_last else SALVAGE, part.start, self.bounds.last_offset + 1)

    def _note_tail(self, part: Stretch, fd: int) -> None:
        if part.kind == "shrunk":
            self.is_unread = True
        elif part.kind in ("torn", "zeros", "garbage"):
            self.torn_offset = torn_offset(self.disk.read(fd, 8, part.start) if part.kind == "torn" else b"")

    def _missing_indexes(self) -> Iterator[Finding]:
        for kind, name, checks in ((INDEX, "offset", self._index), (TIME_INDEX, "time", self._time_index)):
            is_there = kind in self.log.files.segments[self.base_offset] or self.disk.exists(self._file(kind))  # it may have come meanwhile
            if checks is None and not is_there:
                yield Finding("warning", "index-missing", self._file(kind), f"a segment with batches has no {name} index", REINDEX)

    def _check_txn_index(self) -> Iterator[Finding]:
        path = self._file(TXN_INDEX)
        entries: list[tuple[int, ...]] = []
        if TXN_INDEX in self.log.files.segments[self.base_offset]:
            try:
                content, entries = load_txn_index(self.disk, path)
            except FileNotFoundError:
                pass
            except (OSError, TidelogError) as error:
                yield unreadable(error, path)
                return
            else:
                yield from check_txn_index(path, content, entries, TXN_ENTRY.size, self.base_offset, self.bounds.last_offset + 1)
        yield from compare_txn_index(
            path,
            [AbortedTxn(*fields[1:]) for fields in entries],
            self.producers,
            has_gaps=self.bounds.has_gaps or self.producers.has_lost_track,
            first_base=self.log.known_from,
            entry_size=TXN_ENTRY.size,
        )

    def _file(self, kind: str) -> str:
        return self.log.path(self.base_offset, kind)
