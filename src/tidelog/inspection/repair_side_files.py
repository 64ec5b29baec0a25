"""The files that follow from the batches: whether each is right, and what should be in its place.

Whoever repairs hands in `replace`, which gets the content of a file the moment it is known, so that nothing large is held.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tidelog.disk.checkpoints import format_epochs
from tidelog.disk.disk import Disk
from tidelog.disk.names import INDEX, LEADER_EPOCH_CHECKPOINT, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.errors import CorruptFileError
from tidelog.inspection.repair_files import PartitionFiles
from tidelog.inspection.repair_indexes import batches_of, index_faults
from tidelog.inspection.repair_plan import Action, RebuildEpochs, RebuildIndex, RebuildSnapshots, RebuildTxnIndex, Unrepaired
from tidelog.inspection.repair_state import LogReplay
from tidelog.inspection.repair_transactions import Expected, epochs_fault, snapshot_needs, txn_index_fault
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.recovery import ScannedSegment
from tidelog.log.segment import Segment

Replace = Callable[[str, bytes | None], None]
"""Put new content in the place of a file of the directory, by its name; None takes it away."""


def leave(name: str, content: bytes | None) -> None:
    """What a plan does with new content."""


@dataclass(slots=True)
class SideFiles:
    """Collects what is to be done about them while a directory is walked."""

    disk: Disk
    files: PartitionFiles
    index_interval_bytes: int
    log_start_offset: int
    """As the checkpoint above the directory has it; 0 without one."""
    replace: Replace = leave
    actions: list[Action] = field(default_factory=list)
    unrepaired: list[Unrepaired] = field(default_factory=list)
    end_offset: int | None = None
    """Where the log ends; None if damage leaves that open."""
    starts: list[tuple[int, int]] = field(default_factory=list)
    """Leader epochs in the order met, with the offset at which each begins."""
    has_gaps: bool = False
    """Whether an offset was found to be missing, as compaction leaves it: then the batches do not tell everything."""
    next_offset: int | None = None
    """Behind the batches that were looked through for gaps."""
    unsearched: list[tuple[Segment, int]] = field(default_factory=list)
    """Segments that were not yet, and where the last batch of each ends."""

    def _read(self, base_offset: int, kind: str) -> bytes | None:
        path = self.files.path_of(base_offset, kind)
        return None if path is None else self.disk.read_file(path)

    def check_indexes(self, segment: Segment, scanned: ScannedSegment) -> None:
        """Offset index and time index of a segment."""
        base_offset = segment.base_offset
        found = {kind: self._read(base_offset, kind) for kind in (INDEX, TIME_INDEX)}
        faults = dict(zip(found, index_faults(segment, scanned, found[INDEX], found[TIME_INDEX]), strict=True))
        kinds = tuple(kind for kind, fault in faults.items() if fault)
        if kinds:
            names = tuple(segment_file(base_offset, kind) for kind in kinds)
            reason = "; ".join(dict.fromkeys(faults[kind] for kind in kinds))
            self.actions.append(RebuildIndex(names, reason, sum(len(found[kind] or b"") for kind in kinds), base_offset, kinds))
            for kind in kinds:
                self.replace(segment_file(base_offset, kind), bytes(scanned.offset_entries if kind == INDEX else scanned.time_entries))

    def check_txn_index(self, segment: Segment, scanned: ScannedSegment, replay: LogReplay, *, is_first_known: bool) -> None:
        """The transaction index of a segment."""
        base_offset = segment.base_offset
        self.unsearched.append((segment, scanned.valid_bytes))
        content = self._read(base_offset, TXN_INDEX)
        aborted = replay.aborted[base_offset]
        if not content and not aborted:
            return
        is_certain = is_first_known and not self.has_gaps
        fault, right = txn_index_fault(content, Expected(aborted, base_offset, scanned.next_offset, is_certain), scanned.producers)
        if fault and is_certain and self._search_gaps():
            fault, right = txn_index_fault(content, Expected(aborted, base_offset, scanned.next_offset, False), scanned.producers)
        if fault:
            name = segment_file(base_offset, TXN_INDEX)
            self.actions.append(RebuildTxnIndex((name,), fault, len(content or b""), base_offset))
            self.replace(name, right)

    def _search_gaps(self) -> bool:
        """Whether an offset is missing so far. All headers are read once more, so it is asked only where it matters."""
        while self.unsearched and not self.has_gaps:
            segment, end = self.unsearched.pop(0)
            self.next_offset = segment.base_offset if self.next_offset is None else self.next_offset
            for _, headers in batches_of(segment, end):
                behind = np.concatenate(([self.next_offset], headers.last_offset[:-1] + 1))
                is_short = headers.count < headers.last_offset - headers.base_offset + 1
                self.has_gaps |= bool(((headers.base_offset > behind) | is_short)[headers.magic == 2].any())
                self.next_offset = int(headers.last_offset[-1]) + 1
        return self.has_gaps

    def snapshot_fault(self, offset: int) -> str:
        """What is wrong with a producer snapshot by itself; nothing if it parses."""
        path = f"{self.files.directory}/{self.files.snapshots[offset].name}"
        try:
            entries = parse_snapshot(self.disk.read_file(path), path)
        except CorruptFileError as error:
            return error.what
        is_of_another = any(batch.last_offset >= offset for entry in entries for batch in entry.batches)
        return "it knows batches behind its own offset" if is_of_another else ""

    def check_snapshots(self, replay: LogReplay, faults: dict[int, str], bases: list[int]) -> None:
        """The producer snapshots, once all segments were replayed."""
        end = self.end_offset
        faults = {
            offset: fault or (f"the log ends at offset {end}" if end is not None and offset > end else "")
            for offset, fault in faults.items()
        }
        start = max(self.log_start_offset, bases[0])
        needs = snapshot_needs(faults, bases, start, end, has_producers=replay.has_producers)
        offsets = sorted((*needs.rebuilt, *needs.removed))
        if not offsets:
            return
        names = tuple(segment_file(offset, SNAPSHOT) for offset in offsets)
        size = sum(self.files.snapshots[offset].size_bytes for offset in offsets if offset in self.files.snapshots)
        self.actions.append(RebuildSnapshots(names, needs.reason, size, needs.rebuilt, needs.removed))
        for offset in offsets:
            self.replace(segment_file(offset, SNAPSHOT), replay.snapshots.get(offset) if offset in needs.rebuilt else None)

    def check_epochs(self, replay: LogReplay) -> None:
        """The leader epochs, once all segments were replayed."""
        path = f"{self.files.directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            text: bytes | None = self.disk.read_file(path)
        except FileNotFoundError:
            text = None
        end = replay.next_offset if self.end_offset is not None else 1 << 62
        fault, entries = epochs_fault(text, path, replay.epochs, self.starts, self.log_start_offset, end)
        if fault:
            pairs = tuple((entry.epoch, entry.start_offset) for entry in entries)
            self.actions.append(RebuildEpochs((LEADER_EPOCH_CHECKPOINT,), fault, len(text or b""), pairs))
            self.replace(LEADER_EPOCH_CHECKPOINT, format_epochs(entries))
