"""Examine a partition directory: what is broken, and what should be in its place.

Planning and repairing are one walk. A plan only collects the actions; a repair hands in `replace`, which gets the content of each file
that is built anew the moment it is known, so that nothing large is held.
"""

import os
from dataclasses import dataclass
from itertools import pairwise

from tidelog.disk.directory_state import DirectoryState
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import LOG, SNAPSHOT, SWAP, parse_partition, segment_file
from tidelog.disk.partition_metadata import read_metadata
from tidelog.errors import CorruptFileError, RepairError
from tidelog.inspection.repair_files import look_at
from tidelog.inspection.repair_plan import (
    CutSegment,
    SetSegmentAside,
    SplitSegment,
    Unrepaired,
)
from tidelog.inspection.repair_side_files import Replace, SideFiles, leave
from tidelog.inspection.repair_state import LogReplay
from tidelog.inspection.salvage import end_of_swap
from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.inspection.salvage_scan import walk_segment
from tidelog.inspection.salvage_search import find_batch_behind
from tidelog.log.recovery import ScannedSegment, scan_segment
from tidelog.log.segment import Segment
from tidelog.log.split import pieces_of

_MAX_OFFSET = (1 << 63) - 1
_SALVAGE = "salvage copies what is sound into a new directory"


def examine(disk: Disk, path: str, cut_at: tuple[int, int] | None, interval: int, replace: Replace | None = None) -> "Examination":
    """Walk the directory; see `Examination`."""
    files = look_at(disk, path, lambda swap, base_offset: end_of_swap(disk, swap, base_offset))
    partition = parse_partition(os.path.basename(path))  # noqa: PTH119
    starts = DirectoryState.read(disk, os.path.dirname(path)).log_start_offsets  # noqa: PTH120
    log_start_offset = starts.get(partition, 0) if partition is not None else 0
    examined = Examination(disk, files, interval, log_start_offset, replace or leave, cut_at=cut_at)
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
class Examination(SideFiles):
    """One walk over a directory."""

    cut_at: tuple[int, int] | None = None

    def run(self) -> None:
        """All of it."""
        self._check_names()
        bases = self.files.base_offsets
        if self.cut_at is not None:
            bases = self._bases_before_cut(bases)
        pool = FilePool(self.disk)
        is_whole = True
        replay: LogReplay | None = None
        snapshots = {offset: self.snapshot_fault(offset) for offset in self.files.snapshots}
        for place, base_offset in enumerate(bases):
            if replay is None:
                wanted = (*(offset for offset, fault in snapshots.items() if fault), *bases[-2:])
                replay = LogReplay.begin(self.disk, self.files.directory, base_offset, wanted)
            segment = self._segment(pool, base_offset)
            scanned = scan_segment(segment, index_interval_bytes=self.index_interval_bytes)
            if not self._is_usable(segment, scanned, bases[place + 1 :]):
                is_whole = False
                self.starts += scanned.epoch_starts
                replay.add(scanned)
                continue
            if place + 1 < len(bases) and scanned.next_offset > bases[place + 1]:
                self._leave_alone(segment.file.path, None, f"offsets go on to {scanned.next_offset - 1}, into the next segment", _SALVAGE)
                is_whole = False
            self.check_indexes(segment, scanned)
            self.starts += scanned.epoch_starts
            if place + 1 == len(bases):
                replay.wanted |= {scanned.next_offset}
            replay.add(scanned)
            if is_whole:
                self.check_txn_index(segment, scanned, replay, is_first_known=bases[0] == 0)
        if replay is not None:
            replay.finish()
            self.end_offset = replay.next_offset if is_whole else None
            self.check_snapshots(replay, snapshots, bases)
            self.check_epochs(replay)

    def _check_names(self) -> None:
        directory = self.files.directory
        for name in self.files.foreign:
            self._leave_alone(f"{directory}/{name}", None, "named like a segment's, but by no offset of 20 digits", "move it elsewhere")
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
        if scanned.next_offset > _MAX_OFFSET:
            self._leave_alone(segment.file.path, None, "a batch has the last offset of all, and none is left behind it", _SALVAGE)
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
        if walked.bad or not rises or walked.runs[-1].last_offset >= _MAX_OFFSET:
            self._leave_alone(segment.file.path, None, "offsets too far from its base, and damage", _SALVAGE)
            return
        bases = tuple(base_offset for base_offset, _, _ in pieces_of(segment))
        names = tuple(
            segment_file(segment.base_offset, kind) for kind in sorted(self.files.segments[segment.base_offset]) if kind != SNAPSHOT
        )
        self.actions.append(SplitSegment(names, "offsets too far from its base", segment.size_bytes, segment.base_offset, bases))

    def _leave_alone(self, path: str, position: int | None, what: str, hint: str) -> None:
        self.unrepaired.append(Unrepaired(path, position, what, hint))
