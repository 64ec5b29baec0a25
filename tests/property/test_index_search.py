"""Index searches against a plain walk over the entries."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tidelog.record.kernel import index_search

columns = st.integers(0, 2**31 - 1)
timestamps = st.integers(-1, 2**62)


def ascending(numbers: st.SearchStrategy[int], count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(numbers, min_size=count, max_size=count, unique=True).map(sorted)


@st.composite
def offset_indexes(draw: st.DrawFn) -> list[tuple[int, int]]:
    count = draw(st.integers(0, 40))
    return list(zip(draw(ascending(columns, count)), draw(ascending(columns, count)), strict=True))


@st.composite
def time_indexes(draw: st.DrawFn) -> list[tuple[int, int]]:
    count = draw(st.integers(0, 40))
    return list(zip(draw(ascending(timestamps, count)), draw(ascending(columns, count)), strict=True))


def targets(known: list[int]) -> st.SearchStrategy[int]:
    near = [st.sampled_from(known).flatmap(lambda number: st.integers(number - 1, number + 1))] if known else []
    return st.one_of(*near, st.integers(-(2**63), 2**63 - 1), st.integers(-1, 2**32))


@given(offset_indexes(), st.data())
def test_offset_index(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    index = b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(8 * data.draw(st.integers(0, 3)))
    count = data.draw(st.integers(0, len(entries)))
    used = entries[:count]
    offset = data.draw(targets([entry[0] for entry in entries]))
    slot = max((number for number, entry in enumerate(used) if entry[0] <= offset), default=-1)
    found = used[slot] if slot >= 0 else (-1, -1)
    following = used[slot + 1] if slot + 1 < count else (-1, -1)
    assert index_search.find_offset(index, count, offset) == slot
    base = data.draw(st.integers(0, 2**40))
    located = [base + found[0] if slot >= 0 else -1, found[1], base + following[0] if slot + 1 < count else -1, following[1]]
    assert index_search.locate_offset(index, count, max(-1, min(base + offset, 2**63 - 1)), base) == tuple(located)
    assert index_search.find_offset_from(index, count, offset) == sum(entry[0] < offset for entry in used)
    for number, entry in enumerate(entries):
        assert index_search.offset_entry(index, number) == entry

    position = data.draw(targets([entry[1] for entry in entries]))
    # Kafka never compares entry 0 with the target but for "is it larger?", so an exact match there is not seen.
    candidates = [number for number, entry in enumerate(used) if entry[1] > position or (entry[1] == position and number > 0)]
    assert index_search.find_position(index, count, position) == ((candidates[0], *used[candidates[0]]) if candidates else (-1, -1, -1))


@given(time_indexes(), st.data())
def test_time_index(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    index = b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(12 * data.draw(st.integers(0, 3)))
    count = data.draw(st.integers(0, len(entries)))
    used = entries[:count]
    timestamp = data.draw(targets([entry[0] for entry in entries]))
    slot = max((number for number, entry in enumerate(used) if entry[0] <= timestamp), default=-1)
    assert index_search.find_time(index, count, timestamp) == ((slot, *used[slot]) if slot >= 0 else (-1, -1, -1))
    offset = data.draw(targets([entry[1] for entry in entries]))
    assert index_search.find_time_by_offset(index, count, offset) == sum(entry[1] < offset for entry in used)
    for number, entry in enumerate(entries):
        assert index_search.time_entry(index, number) == entry
