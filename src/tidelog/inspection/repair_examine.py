"""Examine a partition directory: what is broken, and what should be in its place.

Planning and repairing are one walk. A plan only collects the actions; a repair hands in `replace`, which gets the content of each file
that is built anew the moment it is known, so that nothing large is held.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from tidelog.disk.checkpoints import format_epochs
from tidelog.disk.directory_state import DirectoryState
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import INDEX, LEADER_EPOCH_CHECKPOINT, LOG, SNAPSHOT, SWAP, TIME_INDEX, TXN_INDEX, parse_partition, segment_file
from tidelog.disk.partition_metadata import read_metadata
from tidelog.errors import CorruptFileError, RepairError
from tidelog.inspection.repair_files import PartitionFiles, look_at
from tidelog.inspection.repair_indexes import batches_of, index_faults
from tidelog.inspection.repair_plan import (
    Action,
    CutSegment,
    RebuildEpochs,
    RebuildIndex,
    RebuildSnapshots,
    RebuildTxnIndex,
    SetSegmentAside,
    SplitSegment,
    Unrepaired,
)
from tidelog.inspection.repair_state import LogReplay
from tidelog.inspection.repair_transactions import Expected, epochs_fault, snapshot_needs, txn_index_fault
from tidelog.inspection.salvage import end_of_swap
from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.inspection.salvage_scan import walk_segment
from tidelog.inspection.salvage_search import find_batch_behind
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.recovery import ScannedSegment, scan_segment
from tidelog.log.segment import Segment
from tidelog.log.split import pieces_of

Replace = Callable[[str, bytes | None], None]
"""Put new content in the place of a file of the directory, by its name; None takes it away."""

_SALVAGE = "salvage copies what is sound into a new directory"


def _leave(name: str, content: bytes | None) -> None:
    """What a plan does with new content."""


def examine(disk: Disk, path: str, cut_at: tuple[int, int] | None, interval: int, replace: Replace | None = None) -> "Examination":
    """Walk the directory; see `Examination`."""
    files = look_at(disk, path, lambda swap, base_offset: end_of_swap(disk, swap, base_offset))
    partition = parse_partition(os.path.basename(path))  # noqa: PTH119
    starts = DirectoryState.read(disk, os.path.dirname(path)).log_start_offsets  # noqa: PTH120
    log_start_offset = starts.get(partition, 0) if partition is not None else 0
    examined = Examination(disk, files, interval, log_start_offset, cut_at, replace or _leave)
    examined.run()
    if cut_at is not None and examined.end_offset is not None and examined.end_offset < log_start_offset:
        raise RepairError(
            "the log would end before it starts",
            path=path,
            expected=f"an end at offset {log_start_offset} or behind",
            found=examined.end_offset,
        )
    return examined


@dataclass(slots=True)
class Examination:
    """One walk over a directory."""

    disk: Disk
    files: PartitionFiles
    index_interval_bytes: int
    log_start_offset: int
    """As the checkpoint above the directory has it; 0 without one."""
    cut_at: tuple[int, int] | None = None
    replace: Replace = _leave
    actions: list[Action] = field(default_factory=list)
    unrepaired: list[Unrepaired] = field(default_factory=list)
    end_offset: int | None = None
    """Where the log ends; None if damage leaves that open."""
    _starts: list[tuple[int, int]] = field(default_factory=list)
    _is_compacted: bool = False

    def run(self) -> None:
        """All of it."""
        self._check_names()
        bases = self.files.base_offsets
        if self.cut_at is not None:
            bases = self._bases_before_cut(bases)
        pool = FilePool(self.disk)
        is_whole = True
        replay: LogReplay | None = None
        snapshots = {offset: self._snapshot_fault(offset) for offset in self.files.snapshots}
        for place, base_offset in enumerate(bases):
            if replay is None:
                wanted = (*(offset for offset, fault in snapshots.items() if fault), *bases[-2:])
                replay = LogReplay.begin(self.disk, self.files.directory, base_offset, wanted)
            segment = self._segment(pool, base_offset)
            scanned = scan_segment(segment, index_interval_bytes=self.index_interval_bytes)
            if not self._is_usable(segment, scanned, bases[place + 1 :]):
                is_whole = False
                self._starts += scanned.epoch_starts
                replay.add(scanned)
                continue
            if place + 1 < len(bases) and scanned.next_offset > bases[place + 1]:
                self._leave_alone(segment.file.path, None, f"offsets go on to {scanned.next_offset - 1}, into the next segment", _SALVAGE)
                is_whole = False
            self._check_indexes(segment, scanned)
            self._starts += scanned.epoch_starts
            if place + 1 == len(bases):
                replay.wanted |= {scanned.next_offset}
            replay.add(scanned)
            if is_whole:
                self._check_txn_index(segment, scanned, replay, is_first_known=bases[0] == 0)
        if replay is not None:
            replay.finish()
            self.end_offset = replay.next_offset if is_whole else None
            self._check_snapshots(replay, snapshots, bases)
            self._check_epochs(replay)

    def _check_names(self) -> None:
        directory = self.files.directory
        for name in self.files.foreign:
            self._leave_alone(f"{directory}/{name}", None, "named like a segment's, but not by 20 digits", "move it elsewhere")
        try:
            read_metadata(self.disk, directory)
        except CorruptFileError as error:
            self._leave_alone(error.path or directory, None, error.what, "only who knows the topic's id can write it again")

    def _bases_before_cut(self, bases: list[int]) -> list[int]:
        """The segments that stay; the others are set aside, the last one first."""
        assert self.cut_at is not None
        base_offset, position = self.cut_at
        entry = self.files.segments.get(base_offset, {}).get(LOG)
        if entry is None:
            raise RepairError("no segment has this base offset", path=self.files.directory, expected=f"one of {bases}", found=base_offset)
        if not 0 <= position <= entry.size_bytes:
            raise RepairError(
                "the segment has no such byte",
                path=f"{self.files.directory}/{entry.name}",
                expected=f"0 to {entry.size_bytes}",
                found=position,
            )
        for later in reversed([base for base in bases if base > base_offset]):
            self._set_aside(later, f"it lies behind the cut in segment {base_offset}")
        if position < entry.size_bytes:
            self._cut(base_offset, position, "asked for")
        return [base for base in bases if base <= base_offset]

    def _set_aside(self, base_offset: int, reason: str) -> None:
        files = self.files.segments[base_offset]
        names = tuple(segment_file(base_offset, kind) for kind in sorted(files))
        self.actions.append(SetSegmentAside(names, reason, files[LOG].size_bytes, base_offset))

    def _cut(self, base_offset: int, position: int, reason: str) -> None:
        size = self.files.segments[base_offset][LOG].size_bytes - position
        self.actions.append(CutSegment((segment_file(base_offset, LOG),), reason, size, base_offset, position))

    def _segment(self, pool: FilePool, base_offset: int) -> Segment:
        """The segment, as long as it will be."""
        entry = self.files.segments[base_offset][LOG]
        size = self.cut_at[1] if self.cut_at is not None and self.cut_at[0] == base_offset else entry.size_bytes
        segment = Segment(pool, self.files.directory, base_offset, size_bytes=size, index_bytes=0, time_index_bytes=0)
        if entry.name.endswith(SWAP):
            segment.restaged(SWAP)
        return segment

    def _is_usable(self, segment: Segment, scanned: ScannedSegment, later: list[int]) -> bool:
        """Whether the segment is sound, or will be once what is planned for it is done. Otherwise says why not."""
        if scanned.has_overflow:
            self._split(segment)
            return False
        if scanned.is_whole:
            return True
        path, position = segment.file.path, scanned.valid_bytes
        if self.cut_at is not None and self.cut_at[0] == segment.base_offset:
            raise RepairError(
                "the place of the cut is not behind a sound batch",
                path=path,
                position=self.cut_at[1],
                expected=f"{position} or less",
                found=self.cut_at[1],
            )
        what = "a batch is cut off" if scanned.error is None else scanned.error.what
        if scanned.is_below_base:
            self._leave_alone(path, position, what, _SALVAGE)
            return False
        has_data_behind = any(self.files.segments[base][LOG].size_bytes for base in later)
        if has_data_behind or not self._is_torn(segment, scanned):
            self._leave_alone(path, position, what, f"cut_at=({segment.base_offset}, {position}) cuts the log there; {_SALVAGE}")
            return False
        for base_offset in reversed(later):
            self._set_aside(base_offset, f"it is empty and lies behind the cut in segment {segment.base_offset}")
        self._cut(
            segment.base_offset,
            position,
            "the last batch is cut off" if scanned.error is None else "nothing but zeros behind the last batch",
        )
        return True

    def _is_torn(self, segment: Segment, scanned: ScannedSegment) -> bool:
        """Whether what follows the last sound batch is what a crash leaves: a part of a batch, or zeros; and no batch is behind it."""
        reader = SalvageReader(self.disk, segment.file.path)
        try:
            is_torn = scanned.error is None
            position = scanned.valid_bytes
            while not is_torn and position < reader.size_bytes:
                part = reader.read(position, 1 << 20)
                if any(part):
                    return False
                position += len(part)
            return find_batch_behind(reader, scanned.valid_bytes + 1, segment.base_offset, segment.base_offset + (1 << 32)) is None
        finally:
            reader.close()

    def _split(self, segment: Segment) -> None:
        reader = SalvageReader(self.disk, segment.file.path)
        try:
            walked = walk_segment(reader, segment.base_offset, None)
        finally:
            reader.close()
        rises = all(a.last_offset < b.first_offset for a, b in pairwise(walked.runs))
        if walked.bad or not rises:
            self._leave_alone(segment.file.path, None, "offsets too far from its base, and damage", _SALVAGE)
            return
        bases = tuple(base_offset for base_offset, _, _ in pieces_of(segment))
        names = tuple(
            segment_file(segment.base_offset, kind) for kind in sorted(self.files.segments[segment.base_offset]) if kind != SNAPSHOT
        )
        self.actions.append(SplitSegment(names, "offsets too far from its base", segment.size_bytes, segment.base_offset, bases))

    def _leave_alone(self, path: str, position: int | None, what: str, hint: str) -> None:
        self.unrepaired.append(Unrepaired(path, position, what, hint))

    def _read(self, base_offset: int, kind: str) -> bytes | None:
        path = self.files.path_of(base_offset, kind)
        return None if path is None else self.disk.read_file(path)

    def _check_indexes(self, segment: Segment, scanned: ScannedSegment) -> None:
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

    def _check_txn_index(self, segment: Segment, scanned: ScannedSegment, replay: LogReplay, *, is_first_known: bool) -> None:
        base_offset = segment.base_offset
        content = self._read(base_offset, TXN_INDEX)
        aborted = replay.aborted[base_offset]
        if not content and not aborted:
            return
        if not self._is_compacted:
            for _, headers in batches_of(segment, scanned.valid_bytes):
                self._is_compacted |= bool((headers.count < headers.last_offset - headers.base_offset + 1)[headers.magic == 2].any())
        is_certain = is_first_known and not self._is_compacted
        fault, right = txn_index_fault(content, Expected(aborted, base_offset, scanned.next_offset, is_certain), scanned.producers)
        if fault:
            name = segment_file(base_offset, TXN_INDEX)
            self.actions.append(RebuildTxnIndex((name,), fault, len(content or b""), base_offset))
            self.replace(name, right)

    def _snapshot_fault(self, offset: int) -> str:
        path = f"{self.files.directory}/{self.files.snapshots[offset].name}"
        try:
            entries = parse_snapshot(self.disk.read_file(path), path)
        except CorruptFileError as error:
            return error.what
        is_of_another = any(batch.last_offset >= offset for entry in entries for batch in entry.batches)
        return "it knows batches behind its own offset" if is_of_another else ""

    def _check_snapshots(self, replay: LogReplay, faults: dict[int, str], bases: list[int]) -> None:
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

    def _check_epochs(self, replay: LogReplay) -> None:
        path = f"{self.files.directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            text: bytes | None = self.disk.read_file(path)
        except FileNotFoundError:
            text = None
        end = replay.next_offset if self.end_offset is not None else 1 << 62
        fault, entries = epochs_fault(text, path, replay.epochs, self._starts, self.log_start_offset, end)
        if fault:
            pairs = tuple((entry.epoch, entry.start_offset) for entry in entries)
            self.actions.append(RebuildEpochs((LEADER_EPOCH_CHECKPOINT,), fault, len(text or b""), pairs))
            self.replace(LEADER_EPOCH_CHECKPOINT, format_epochs(entries))
