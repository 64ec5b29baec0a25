"""Which segments become one: as many as fit the limits of a segment, oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.log.roll import MAX_RELATIVE_OFFSET


class SegmentSizes(NamedTuple):
    """What the grouping looks at in a segment."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    """Of entries, without what is preallocated."""
    time_index_bytes: int


class SegmentGroup(NamedTuple):
    """Segments that become one, which has the base offset of the first."""

    base_offsets: tuple[int, ...]
    size_bytes: int
    index_bytes: int
    time_index_bytes: int

    @property
    def base_offset(self) -> int:
        """That of the new segment."""
        return self.base_offsets[0]

    @property
    def most_bytes(self) -> int:
        """What the new segment needs on disk at most, about: a batch whose tombstones get a horizon can grow by a little."""
        return self.size_bytes + self.size_bytes // 16 + self.index_bytes + self.time_index_bytes


def group_segments(segments: Sequence[SegmentSizes], config: LogConfig, bound: int) -> tuple[SegmentGroup, ...]:
    """The groups. A segment joins the one before it while sizes and indexes fit, and the offsets too unless it is empty."""
    groups: list[_Growing] = []
    for place, segment in enumerate(segments):
        end = segments[place + 1].base_offset if place + 1 < len(segments) else bound
        if not groups or not _joins(groups[-1], segment, end, config):
            groups.append(_Growing([]))
        groups[-1].add(segment)
    return tuple(SegmentGroup(tuple(group.base_offsets), group.size_bytes, group.index_bytes, group.time_index_bytes) for group in groups)


@dataclass(slots=True)
class _Growing:
    """A group while segments join it: a tuple that is made anew for each of ten thousand takes seconds."""

    base_offsets: list[int]
    size_bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0

    def add(self, segment: SegmentSizes) -> None:
        self.base_offsets.append(segment.base_offset)
        self.size_bytes += segment.size_bytes
        self.index_bytes += segment.index_bytes
        self.time_index_bytes += segment.time_index_bytes


def _joins(group: _Growing, segment: SegmentSizes, end: int, config: LogConfig) -> bool:
    return (
        group.size_bytes + segment.size_bytes <= config.segment_size_limit
        and group.index_bytes + segment.index_bytes <= config.segment_index_bytes
        and group.time_index_bytes + segment.time_index_bytes <= config.segment_index_bytes
        and (segment.size_bytes == 0 or end - 1 - group.base_offsets[0] <= MAX_RELATIVE_OFFSET)
    )
