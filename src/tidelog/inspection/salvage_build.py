"""Build what belongs to the segments that salvage has copied: indexes, snapshots, leader epochs, the topic's id.

All of it comes from the new files, so every CRC of what was written is checked once more.
"""

from typing import NamedTuple

from tidelog.disk.checkpoints import EpochEntry, format_epochs, parse_epochs
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEANED, INDEX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.disk.partition_metadata import parse_metadata
from tidelog.errors import StorageError, TidelogError
from tidelog.inspection.repair_state import LogReplay, fitting_epochs
from tidelog.log.recovery import ScannedSegment, scan_segment
from tidelog.log.segment import Segment


class Built(NamedTuple):
    """The new segments, still `.cleaned`, and what their batches say."""

    segments: list[Segment]
    replay: LogReplay


def build(disk: Disk, source: str, target: str, sizes: dict[int, int], index_interval_bytes: int, findings: list[str]) -> Built:
    """All of it, durable but for the names. `sizes` are those of the new `.log.cleaned` files, by base offset."""
    pool = FilePool(disk)
    bases = sorted(sizes)
    replay = LogReplay.begin(disk, source, bases[0], ())
    new = []
    for place, base_offset in enumerate(bases):
        segment = Segment(pool, target, base_offset, size_bytes=sizes[base_offset], index_bytes=0, time_index_bytes=0)
        segment.restaged(CLEANED)
        scanned = scan_segment(segment, index_interval_bytes=index_interval_bytes)
        if not scanned.is_whole:
            raise StorageError("what was written does not read back as it should", path=segment.file.path, position=scanned.valid_bytes)
        if place >= len(bases) - 2:
            replay.wanted |= {base_offset}
        if place + 1 == len(bases):
            replay.wanted |= {scanned.next_offset}
        replay.add(scanned)
        _write_indexes(disk, segment, scanned, replay)
        new.append(segment)
    replay.finish()
    for offset, content in replay.snapshots.items():
        if offset > bases[0] or offset == replay.next_offset > 0:
            _write_durable(disk, f"{target}/{segment_file(offset, SNAPSHOT)}", content)
    epochs = fitting_epochs(_found_epochs(disk, source, findings), replay.epochs, replay.next_offset)
    if epochs:
        disk.replace_file(target, LEADER_EPOCH_CHECKPOINT, format_epochs(epochs))
    _copy_metadata(disk, source, target, findings)
    return Built(new, replay)


def _write_indexes(disk: Disk, segment: Segment, scanned: ScannedSegment, replay: LogReplay) -> None:
    _write_durable(disk, segment.path_of(INDEX), bytes(scanned.offset_entries))
    _write_durable(disk, segment.path_of(TIME_INDEX), bytes(scanned.time_entries))
    aborted = replay.aborted[segment.base_offset]
    if aborted:
        _write_durable(disk, segment.path_of(TXN_INDEX), b"".join(entry.pack() for entry in aborted))


def _found_epochs(disk: Disk, source: str, findings: list[str]) -> list[EpochEntry]:
    path = f"{source}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return parse_epochs(disk.read_file(path), path)
    except FileNotFoundError:
        return []
    except (TidelogError, OSError) as error:
        findings.append(f"{error}; built from the batches")
        return []


def _copy_metadata(disk: Disk, source: str, target: str, findings: list[str]) -> None:
    path = f"{source}/{PARTITION_METADATA}"
    try:
        content = disk.read_file(path)
        parse_metadata(content, path)
    except FileNotFoundError:
        return
    except (TidelogError, OSError) as error:
        findings.append(f"{error}; left out: a broker takes a partition without a topic id for a stray")
        return
    disk.replace_file(target, PARTITION_METADATA, content)


def _write_durable(disk: Disk, path: str, content: bytes) -> None:
    """Write a new file and sync it; its name is not durable yet."""
    fd = disk.create(path)
    try:
        disk.write(fd, [content], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
