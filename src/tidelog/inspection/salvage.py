"""Salvage: copy what is sound of a damaged partition directory into a new one, with the same offsets.

    walk      every segment from end to end, past all damage      (`salvage_scan`, `salvage_search`, `salvage_reader`)
    choose    which batches belong into the log, by their neighbours      (`salvage_choice`)
    copy      them into new segments, and the bad bytes into files of their own      (`salvage_copy`)
    build     indexes, snapshots and leader epochs from what was written, every CRC checked again      (`salvage_build`)

The source is only read, and no lock is taken: it may be a copy, or lie on a disk that fails. Memory is bounded, whatever lengths claim, and
so is the work for each byte.
"""

import os
from bisect import bisect_right
from collections.abc import Callable

from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import (
    CLEANED,
    LOG,
    segment_file,
)
from tidelog.errors import LogNotFoundError, TidelogError
from tidelog.inspection.repair_files import PartitionFiles, look_at
from tidelog.inspection.salvage_build import build
from tidelog.inspection.salvage_choice import choose_runs
from tidelog.inspection.salvage_copy import Copier, Piece, keep_bad_bytes
from tidelog.inspection.salvage_pieces import Pieces, gather
from tidelog.inspection.salvage_reader import SalvageReader, merge_ranges
from tidelog.inspection.salvage_report import LostRange, OpenTransaction, SalvageReport, SegmentSalvage
from tidelog.inspection.salvage_scan import WalkedSegment, walk_segment
from tidelog.inspection.salvage_target import claim_target, missing_above, take_back
from tidelog.log.load_report import Progress
from tidelog.log.storage_errors import storage_error
from tidelog.log.swap import cleaned_to_swap, swap_to_final

_INDEX_INTERVAL_BYTES = 4096


def salvage(
    directory: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    disk: Disk = OS,
    progress: Callable[[Progress], None] | None = None,
    index_interval_bytes: int = _INDEX_INTERVAL_BYTES,
) -> SalvageReport:
    """Copy what is sound of a partition directory into `target`, which must not exist or be empty, and say what was lost.

    What the source's disk refuses is damage like any other. What the target's disk refuses raises `StorageError`. However it ends before
    its end, by an interrupt too: what was made so far is taken away again, as far as the disk lets it.
    """
    source, new = os.path.abspath(directory), os.path.abspath(target)  # noqa: PTH100 - as the disk takes them
    try:
        files = look_at(disk, source, lambda path, base_offset: end_of_swap(disk, path, base_offset))
    except OSError as error:
        raise error if isinstance(error, TidelogError) else storage_error(error, source, "reading failed") from error
    if not files.base_offsets:
        raise LogNotFoundError("no segment to salvage", path=source, expected="a file named by 20 digits and .log", found="none")
    missing = missing_above(disk, new)
    claim_target(disk, source, new)
    try:
        findings = [f"{source}/{name}: named like a segment's but by no offset of 20 digits; left out" for name in files.foreign]
        findings += [f"{source}/{left.name}: left out, {left.reason}" for left in (*files.undone, *files.replaced)]
        walked = _walk_all(disk, files, progress, findings)
        pieces = gather(
            walked, files.orphan_bases, [choose_runs(segment) for segment in walked], lambda segment: _open(disk, segment), findings
        )
        return _write(disk, source, new, walked, pieces, index_interval_bytes, findings)
    except BaseException as error:
        take_back(disk, new, missing)
        if isinstance(error, TidelogError) or not isinstance(error, OSError):
            raise
        raise storage_error(error, new, "salvaging failed") from error


def end_of_swap(disk: Disk, path: str, base_offset: int) -> int:
    """The next offset of a `.log.swap`, as far as it is sound."""
    reader = SalvageReader(disk, path)
    try:
        kept = choose_runs(walk_segment(reader, base_offset, None)).kept
    finally:
        reader.close()
    return kept[-1].last_offset + 1 if kept else base_offset


def _walk_all(disk: Disk, files: PartitionFiles, progress: Callable[[Progress], None] | None, findings: list[str]) -> list[WalkedSegment]:
    bases = files.base_offsets
    total = sum(files.segments[base][LOG].size_bytes for base in bases)
    walked: list[WalkedSegment] = []
    done_bytes = 0
    for place, base_offset in enumerate(bases):
        path = files.path_of(base_offset, LOG)
        assert path is not None
        next_base = bases[place + 1] if place + 1 < len(bases) else None
        size = files.segments[base_offset][LOG].size_bytes
        try:
            reader = SalvageReader(disk, path)
        except OSError as error:
            findings.append(f"{path}: cannot be opened: {error.strerror}")
            walked.append(WalkedSegment(base_offset, path, 0, next_base, bad=[(0, size)] if size else []))
        else:
            try:
                walked.append(walk_segment(reader, base_offset, next_base))
            except OSError as error:
                raise storage_error(error, path, "reading failed") from error
            finally:
                reader.close()
        for start, end in walked[-1].unreadable:
            findings.append(f"{path}: bytes {start} to {end - 1} cannot be read")
        done_bytes += size
        if progress is not None:
            progress(Progress(place + 1, len(bases), done_bytes, total))
    return walked


def _open(disk: Disk, walked: WalkedSegment) -> SalvageReader:
    return SalvageReader(disk, walked.path, walked.unreadable)


def _write(
    disk: Disk,
    source: str,
    target: str,
    walked: list[WalkedSegment],
    pieces: Pieces,
    index_interval_bytes: int,
    findings: list[str],
) -> SalvageReport:
    bad_files, tail_is_bad = _keep_bad(disk, target, walked, pieces)
    copier = Copier(disk, target, findings)
    _copy_all(disk, copier, walked, pieces.pieces)
    segments, replay = build(disk, source, target, copier.sizes, index_interval_bytes, findings)
    disk.sync_directory(target)
    cleaned_to_swap(disk, target, segments)
    swap_to_final(disk, target, segments)
    disk.sync_directory(os.path.dirname(target))  # noqa: PTH120
    lost = list(pieces.lost)
    if tail_is_bad:
        lost.append(LostRange(replay.next_offset, None, "damaged bytes behind the last batch"))
    missing = (*lost, *pieces.gaps)  # a marker that was cut out whole leaves a gap
    opened = tuple(
        OpenTransaction(producer_id, first, any(gone.last_offset is None or gone.last_offset > first for gone in missing))
        for producer_id, first in replay.open_transactions
    )
    kept = copier.kept_bytes
    return SalvageReport(
        source,
        target,
        min(copier.sizes),
        replay.next_offset,
        copier.batch_count,
        copier.record_count,
        sum(kept.values()),
        sum(segment.size_bytes - kept.get(segment.base_offset, 0) for segment in walked),
        tuple(lost),
        tuple(pieces.gaps),
        tuple(
            SegmentSalvage(
                segment.base_offset,
                segment.size_bytes,
                kept.get(segment.base_offset, 0),
                segment.size_bytes - kept.get(segment.base_offset, 0),
                sum(end - start for start, end in segment.unreadable),
            )
            for segment in walked
        ),
        opened,
        tuple(bad_files),
        tuple(findings),
    )


def _keep_bad(disk: Disk, target: str, walked: list[WalkedSegment], pieces: Pieces) -> tuple[list[str], bool]:
    """Put bad bytes into files: their names, and whether there are any behind the last batch of the log."""
    names: list[str] = []
    tail_is_bad = False
    for place, segment in enumerate(walked):
        dropped = pieces.dropped[place]
        bad = merge_ranges([*segment.bad, *dropped])
        kept_end = (
            max((piece.run.end_position for piece in pieces.pieces if piece.walked is segment), default=0)
            if place + 1 == len(walked)
            else 0
        )
        if not bad or segment.size_bytes == 0:
            tail_is_bad |= bool(bad) and place + 1 == len(walked)
            continue
        reader = _open(disk, segment)
        try:
            for start, end in bad:
                name = keep_bad_bytes(disk, target, reader, segment.base_offset, start, end)
                if name is not None:
                    names.append(name)
                is_refused = any(first < end and start < last for first, last in segment.unreadable)
                if place + 1 == len(walked) and end > kept_end and (name is not None or is_refused):
                    tail_is_bad = True
        finally:
            reader.close()
    return names, tail_is_bad


def _copy_all(disk: Disk, copier: Copier, walked: list[WalkedSegment], pieces: list[Piece]) -> None:
    bases = [segment.base_offset for segment in walked]
    current, reader = -1, None
    opened: WalkedSegment | None = None
    try:
        for piece in pieces:
            base_offset = bases[bisect_right(bases, piece.first_offset) - 1]
            if base_offset != current:
                copier.begin(base_offset)
                current = base_offset
            if reader is None or opened is not piece.walked:
                if reader is not None:
                    reader.close()
                reader, opened = _open(disk, piece.walked), piece.walked
            copier.copy(reader, piece)
        if bases[-1] > (pieces[-1].last_offset if pieces else -1):
            copier.begin(bases[-1])  # without a batch: it says where the log goes on
    finally:
        if reader is not None:
            reader.close()
        copier.close()
    for segment in walked:
        if segment.base_offset in copier.sizes and segment.size_bytes:
            # Of a segment without timestamps, retention knows the age by this.
            new = f"{copier.target}/{segment_file(segment.base_offset, LOG, CLEANED)}"
            disk.set_mtime_ns(new, disk.mtime_ns(segment.path))
