"""The reading of `reindex`: what each segment gives by itself, and whether a log is fit to be built upon.

Of each segment an outline is kept, which is small. What producers did in it is not: a log has that for every batch, and a whole one may
have more than memory does. Who follows the producers is given one segment after the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelog.disk.disk import Disk
from tidelog.disk.names import parse_segment_file, segment_file
from tidelog.errors import DamagedLogError
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.log.recovery import ScannedSegment, ScanSpace, scan_segment
from tidelog.log.segment import Segment

KEPT_BATCHES = 1 << 20
"""What producers did is kept from the scan to the replay up to so many batches; segments with more are read again."""


@dataclass(frozen=True, slots=True)
class SegmentIndexed:
    """What the scan of a segment gave, without the entries."""

    base_offset: int
    size_bytes: int
    valid_bytes: int
    next_offset: int
    producers: list[ProducerBatch | Marker]
    error: str | None

    def outline(self) -> "SegmentIndexed":
        """Without what producers did: of a whole log that may be more than memory has."""
        return replace(self, producers=[])


def scan_for_index(segment: Segment, index_interval_bytes: int, space: ScanSpace | None = None) -> ScannedSegment:
    """Read a segment and build its indexes in memory: recovery's own scan."""
    return scan_segment(segment, index_interval_bytes=index_interval_bytes, space=space)


def indexed(scanned: ScannedSegment) -> SegmentIndexed:
    """What is left of a scan when its entries were taken."""
    error = None if scanned.error is None else scanned.error.what  # where it is, is said by who tells it
    if scanned.has_overflow:
        error = "offsets too far from the base of the segment: opening the log splits it"
    return SegmentIndexed(scanned.base_offset, scanned.size_bytes, scanned.valid_bytes, scanned.next_offset, scanned.producers, error)


class Scans:
    """The scans of a log in one process."""

    def __init__(self, index_interval_bytes: int) -> None:
        self._index_interval_bytes = index_interval_bytes
        self._space = ScanSpace()
        self._kept: dict[int, SegmentIndexed] = {}
        self._room = KEPT_BATCHES

    def scan(self, segment: Segment) -> ScannedSegment:
        """Read a segment. What it gives is good until the next one is read."""
        return scan_for_index(segment, self._index_interval_bytes, self._space)

    def keep(self, one: SegmentIndexed) -> SegmentIndexed:
        """The outline. The rest is kept for later while there is room."""
        if len(one.producers) <= self._room:
            self._room -= len(one.producers)
            self._kept[one.base_offset] = one
        return one.outline()

    def again(self, segments: Sequence[Segment]) -> Iterator[SegmentIndexed]:
        """What each segment gave, one after the other; what was not kept is read again."""
        for segment in segments:
            kept = self._kept.pop(segment.base_offset, None)
            yield kept if kept is not None else indexed(self.scan(segment))


def check_settled(disk: Disk, directory: str) -> None:
    """Raise if a swap or a deletion is under way, or was cut off: only opening the log can say which files count."""
    for name in disk.names(directory):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.stage in (".cleaned", ".swap"):
            raise DamagedLogError(
                "a replacement of segments was cut off", path=f"{directory}/{name}", hint="open the log once: that finishes or undoes it"
            )


def check_sound(directory: str, scanned: Sequence[SegmentIndexed]) -> str | None:
    """Raise if batches inside of the log are damaged; of a torn end, which opening cuts off, only say so."""
    for place, one in enumerate(scanned):
        if one.valid_bytes == one.size_bytes and one.error is None:
            continue
        path = f"{directory}/{segment_file(one.base_offset, '.log')}"
        if any(later.size_bytes for later in scanned[place + 1 :]) or one.error is not None:
            raise DamagedLogError(
                one.error or "a batch is cut off, and segments follow",
                path=path,
                position=one.valid_bytes,
                hint="nothing was changed; verify says more, repair and salvage keep what is sound",
            )
        return f"the last {one.size_bytes - one.valid_bytes} bytes are no whole batch: opening the log cuts them off"
    return None
