"""Searches in the bytes of an offset or time index: ends, quirks, and bounds."""

import struct
from functools import partial

import numpy as np
import pytest

from tidelog.record.kernel import index_search
from tidelog.record.views import view

OFFSETS = [(4, 100), (9, 250), (10, 400), (2**31 - 1, 2**31 - 1)]
TIMES = [(5, 4), (2**40, 9), (2**40 + 1, 9), (2**62, 2**31 - 1)]


def offset_index(entries: list[tuple[int, int]], spare: int = 3) -> memoryview:
    return exact(b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(8 * spare))


def time_index(entries: list[tuple[int, int]], spare: int = 3) -> memoryview:
    return exact(b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(12 * spare))


def exact(data: bytes) -> memoryview:
    """Memory of exactly this size, so that a sanitizer sees a read past its end."""
    return view(np.frombuffer(data, np.uint8).copy())


@pytest.mark.parametrize(
    ("target", "located"),
    [
        (-(2**63), (-1, -1, -1, 4, 100)),
        (-1, (-1, -1, -1, 4, 100)),
        (3, (-1, -1, -1, 4, 100)),
        (4, (0, 4, 100, 9, 250)),
        (8, (0, 4, 100, 9, 250)),
        (9, (1, 9, 250, 10, 400)),
        (10, (2, 10, 400, 2**31 - 1, 2**31 - 1)),
        (2**31 - 1, (3, 2**31 - 1, 2**31 - 1, -1, -1)),
        (2**63 - 1, (3, 2**31 - 1, 2**31 - 1, -1, -1)),
    ],
)
def test_offsets(target: int, located: tuple[int, ...]) -> None:
    index = offset_index(OFFSETS)
    slot, *entries = located
    assert index_search.find_offset(index, 4, target) == slot
    assert index_search.locate_offset(index, 4, target, 0) == tuple(entries)


def test_offsets_are_counted_from_the_base() -> None:
    assert index_search.locate_offset(offset_index(OFFSETS), 4, 1004, 1000) == (1004, 100, 1009, 250)
    assert index_search.locate_offset(offset_index(OFFSETS), 4, 4, 1000) == (-1, -1, 1004, 100)


@pytest.mark.parametrize(("target", "slot"), [(-5, 0), (4, 0), (5, 1), (10, 2), (11, 3), (2**31 - 1, 3), (2**31, 4), (2**40, 4)])
def test_how_many_offset_entries_stay_when_a_log_is_cut(target: int, slot: int) -> None:
    assert index_search.find_offset_from(offset_index(OFFSETS), 4, target) == slot


@pytest.mark.parametrize(
    ("position", "found"),
    [
        (0, (0, 4, 100)),
        (99, (0, 4, 100)),
        (100, (1, 9, 250)),  # entry 0 matches exactly, and Kafka passes over it
        (101, (1, 9, 250)),
        (250, (1, 9, 250)),
        (2**31 - 1, (3, 2**31 - 1, 2**31 - 1)),
        (2**31, (-1, -1, -1)),
        (2**40, (-1, -1, -1)),
    ],
)
def test_positions(position: int, found: tuple[int, int, int]) -> None:
    assert index_search.find_position(offset_index(OFFSETS), 4, position) == found


def test_an_only_entry_that_lies_exactly_at_the_position_is_passed_over_too() -> None:
    assert index_search.find_position(offset_index(OFFSETS), 1, 100) == (-1, -1, -1)
    assert index_search.find_position(offset_index(OFFSETS), 1, 99) == (0, 4, 100)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-(2**63), (-1, -1, -1)),
        (4, (-1, -1, -1)),
        (5, (0, 5, 4)),
        (2**40 - 1, (0, 5, 4)),
        (2**40, (1, 2**40, 9)),
        (2**62 - 1, (2, 2**40 + 1, 9)),
        (2**63 - 1, (3, 2**62, 2**31 - 1)),
    ],
)
def test_times(timestamp: int, found: tuple[int, int, int]) -> None:
    assert index_search.find_time(time_index(TIMES), 4, timestamp) == found


@pytest.mark.parametrize(("target", "slot"), [(0, 0), (4, 0), (5, 1), (9, 1), (10, 3), (2**31, 4)])
def test_how_many_time_entries_stay_when_a_log_is_cut(target: int, slot: int) -> None:
    assert index_search.find_time_by_offset(time_index(TIMES), 4, target) == slot


def test_entries_by_slot() -> None:
    assert [index_search.offset_entry(offset_index(OFFSETS, 0), slot) for slot in range(4)] == OFFSETS
    assert [index_search.time_entry(time_index(TIMES, 0), slot) for slot in range(4)] == TIMES
    assert index_search.time_entry(time_index([(-1, 0), (-(2**63), 5)]), 1) == (-(2**63), 5)


@pytest.mark.parametrize("index", [b"", bytes(80)])
def test_no_entries(index: bytes) -> None:
    assert index_search.find_offset(index, 0, 5) == -1
    assert index_search.locate_offset(index, 0, 5, 0) == (-1, -1, -1, -1)
    assert index_search.find_offset_from(index, 0, 5) == 0
    assert index_search.find_position(index, 0, 5) == (-1, -1, -1)
    assert index_search.find_time(index, 0, 5) == (-1, -1, -1)
    assert index_search.find_time_by_offset(index, 0, 5) == 0


@pytest.mark.parametrize("entries", [-1, 5, 2**61, 2**63 - 1])
def test_more_entries_than_there_are_bytes(entries: int) -> None:
    offsets, times = offset_index(OFFSETS, 0), time_index(TIMES, 0)
    for search, index in (
        (index_search.find_offset, offsets),
        (partial(index_search.locate_offset, base_offset=0), offsets),
        (index_search.find_offset_from, offsets),
        (index_search.find_position, offsets),
        (index_search.find_time, times),
        (index_search.find_time_by_offset, times),
    ):
        with pytest.raises(ValueError, match="do not hold"):
            search(index, entries, 5)
    for entry, index in ((index_search.offset_entry, offsets), (index_search.time_entry, times)):
        with pytest.raises(ValueError, match="have no entry"):
            entry(index, -1 if entries < 0 else entries - 1)


def test_a_last_entry_that_is_cut_off_does_not_count() -> None:
    assert index_search.find_offset(offset_index(OFFSETS, 0)[:-1], 3, 2**31) == 2
    with pytest.raises(ValueError, match="31 bytes do not hold 4 entries"):
        index_search.find_offset(offset_index(OFFSETS, 0)[:-1], 4, 2**31)
