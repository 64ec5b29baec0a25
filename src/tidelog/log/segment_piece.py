"""Pieces of a segment: runs of whole batches, so that several workers can share one `.log`.

A cut is made where the offset index has an entry. That is what an index says, not what is known: who works on a piece reads on to its end,
and has to come out exactly there. If every piece of a segment does, each cut lay between two batches, since the first piece begins at 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.errors import CorruptFileError
from tidelog.log.segment import Segment

T = TypeVar("T")
_HEAD_BYTES = 27
_MAGIC_V2 = 2


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """The batches of a segment from one position to another. Small: it travels to whoever reads them."""

    directory: str
    base_offset: int
    segment_bytes: int
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Of the piece."""
        return self.end - self.start

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.start == 0 and self.end == self.segment_bytes

    def open(self, pool: FilePool = SHARED) -> Segment:
        """The segment, to read its batches; its indexes are not looked at."""
        return Segment(pool, self.directory, self.base_offset, size_bytes=self.segment_bytes, index_bytes=0, time_index_bytes=0)

    def misplaced(self, position: int) -> CorruptFileError:
        """The error to raise if the last batch of the piece does not end where the next piece begins."""
        segment = self.open()
        return CorruptFileError(
            "an entry of the offset index does not point at a batch",
            path=f"{segment.path_of('.index')}",
            expected=f"a position between two batches of the segment, as {position}",
            found=self.end,
            hint="reindex builds it anew",
        )


def cut_segment(segment: Segment, target_bytes: int) -> list[SegmentPiece]:
    """The pieces of a rolled segment, of about `target_bytes` each as far as its index has entries; none if it is empty."""
    size = segment.size_bytes
    if size == 0:
        return []
    cuts = [0]
    if segment.index.entries:
        opened = None
        while cuts[-1] + 2 * target_bytes <= size or (
            size - cuts[-1] > target_bytes and size - cuts[-1] - target_bytes > target_bytes // 2
        ):
            entry = segment.index.first_at_or_behind(cuts[-1] + target_bytes)
            if entry is None or not cuts[-1] < entry.position < size:
                break
            opened = opened or segment.file.open()
            if not _is_batch(segment.pool.disk.read(opened.fd, _HEAD_BYTES, entry.position), entry.offset, segment.base_offset):
                break
            cuts.append(entry.position)
    return [SegmentPiece(segment.directory, segment.base_offset, size, start, end) for start, end in pairwise([*cuts, size])]


def cut_segments(segments: Sequence[Segment], target_bytes: int) -> list[SegmentPiece]:
    """The pieces of all of them, in order."""
    return [piece for segment in segments for piece in cut_segment(segment, target_bytes)]


def pack(items: Sequence[T], weights: Sequence[int], task_bytes: int, workers: int) -> list[list[T]]:
    """Share items out in order, so that a task has about so many bytes and all workers have something."""
    total = sum(weights)
    share = max(1, min(task_bytes, -(-total // max(1, workers))))
    packs: list[list[T]] = []
    room = 0
    for item, weight in zip(items, weights, strict=True):
        if not packs or room < weight // 2 + 1:
            packs.append([])
            room = share
        packs[-1].append(item)
        room -= max(1, weight)
    return packs


def _is_batch(head: bytes, last_offset: int, segment_base: int) -> bool:
    """Whether what an entry points at looks like the batch that it names. Old formats do not say enough to tell."""
    if len(head) < _HEAD_BYTES or head[16] != _MAGIC_V2:
        return False
    base_offset = int.from_bytes(head[:8], "big", signed=True)
    return segment_base <= base_offset <= base_offset + int.from_bytes(head[23:27], "big", signed=True) == last_offset
