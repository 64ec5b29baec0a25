"""Which segments become one."""

from tidelog.compaction.grouping import SegmentSizes, group_segments
from tidelog.config import LogConfig
from tidelog.log.roll import MAX_RELATIVE_OFFSET

CONFIG = LogConfig.of({"internal.segment.bytes": 100, "segment.index.bytes": 40})


def groups(*segments: tuple[int, ...], bound: int = 1000) -> list[tuple[int, ...]]:
    """(base, size, index bytes, time index bytes) each, with zeros for what is left out."""
    sizes = [SegmentSizes(*segment, *(0,) * (4 - len(segment))) for segment in segments]
    return [group.base_offsets for group in group_segments(sizes, CONFIG, bound)]


def test_by_size() -> None:
    assert groups((0, 50), (10, 50), (20, 1)) == [(0, 10), (20,)]
    assert groups((0, 50), (10, 51)) == [(0,), (10,)]
    assert groups((0, 150), (10, 0), (20, 10)) == [(0,), (10, 20)]


def test_by_index_size() -> None:
    assert groups((0, 1, 20), (10, 1, 20), (20, 1, 8)) == [(0, 10), (20,)]
    assert groups((0, 1, 0, 24), (10, 1, 0, 12), (20, 1, 0, 12)) == [(0, 10), (20,)]


def test_by_offsets() -> None:
    far = MAX_RELATIVE_OFFSET
    assert groups((0, 1), (10, 1), bound=far + 1) == [(0, 10)]
    assert groups((0, 1), (10, 1), bound=far + 2) == [(0,), (10,)]
    assert groups((0, 1), (10, 1), (far + 1, 1), bound=far + 5) == [(0, 10), (far + 1,)]
    assert groups((5, 1), (far + 5, 1), bound=far + 6) == [(5, far + 5)]


def test_an_empty_segment_joins_whatever_its_offsets() -> None:
    assert groups((0, 1), (1 << 40, 0), (1 << 41, 1), bound=1 << 42) == [(0, 1 << 40), (1 << 41,)]


def test_figures_of_a_group() -> None:
    (group,) = group_segments([SegmentSizes(3, 10, 8, 12), SegmentSizes(7, 20, 16, 24)], CONFIG, 100)
    assert tuple(group) == ((3, 7), 30, 24, 36)
    assert group.base_offset == 3
    assert group.most_bytes >= 30 + 24 + 36
    assert group_segments([], CONFIG, 0) == ()
