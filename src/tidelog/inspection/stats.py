"""What is in the segments of a log: records, bytes, codecs, sizes, times; by headers alone unless records are asked for.

The count of records is exact: every batch header has it. Of old formats a compressed message does not say how many are in it, so these are
looked into. What can only be known from records, tombstones and the number of distinct keys, is None until they are asked for. Damage does
not end it: bytes that are no batches are counted as such, and `verify` says more about them.
"""

from collections.abc import Iterable
from os import PathLike, fspath

from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import parse_partition
from tidelog.errors import LogNotFoundError
from tidelog.inspection.distinct_keys import no_keys
from tidelog.inspection.header_walk import HeaderWalk
from tidelog.inspection.partition_segments import listed_segments
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.inspection.segment_walk import SegmentWalk
from tidelog.inspection.stats_counting import Counting, Watcher
from tidelog.inspection.walk_parts import Stretch
from tidelog.log.segment_piece import SegmentPiece
from tidelog.log.storage_errors import typed_refusals


def stats(directory: str | PathLike[str], *, records: bool = False, disk: Disk = OS) -> list[SegmentStats]:
    """The figures of every segment of a partition directory. With `records` every record is looked at, otherwise headers only."""
    path = fspath(directory).rstrip("/")
    if parse_partition(path.rpartition("/")[2]) is None or not disk.exists(path):
        raise LogNotFoundError("not a partition directory", path=path, expected="topic-partition, as in emails-0")
    found = []
    with typed_refusals(path, "reading failed"):
        for segment in listed_segments(path, disk):
            piece = SegmentPiece(path, segment.base_offset, segment.size_bytes, 0, segment.size_bytes)
            try:
                found.append(piece_stats(piece, records=records, disk=disk))
            except FileNotFoundError:
                continue  # its owner has removed it meanwhile
    return found


def piece_stats(piece: SegmentPiece, *, records: bool = False, disk: Disk = OS, watcher: Watcher | None = None) -> SegmentStats:
    """The figures of a piece."""
    figures = SegmentStats(piece.directory, piece.base_offset)
    if records:
        figures.tombstones = figures.null_keys = figures.key_bytes = figures.value_bytes = 0
        figures.keys = no_keys()
    if piece.size_bytes == 0:
        return figures
    fd = disk.open_plain(piece.open().path_of(".log"))
    try:
        walk = (SegmentWalk if records else HeaderWalk)(disk, fd, piece.end, piece.base_offset, checks_crcs=False)
        walk.position = walk.end = piece.start
        counting = Counting(figures, disk, fd, watcher)
        for part in walk:
            if isinstance(part, Stretch):
                # One with a wrong magic follows as a batch; and what is not there any more is no damage.
                lost_bytes = part.end - part.start if part.kind not in ("magic", "shrunk") else 0
                figures.damaged_bytes += lost_bytes
                figures.size_bytes += lost_bytes
            else:
                counting.take(part)
    finally:
        disk.close(fd)
    return figures


def merged(parts: Iterable[SegmentStats]) -> list[SegmentStats]:
    """One for each segment, in order."""
    found: dict[tuple[str, int], SegmentStats] = {}
    for part in parts:
        key = part.directory, part.base_offset
        if key in found:
            found[key].add(part)
        else:
            found[key] = part
    return [found[key] for key in sorted(found)]
