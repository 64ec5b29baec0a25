"""The table of the offset map, against a dict."""

import random
from typing import Any

import numpy as np
import pytest

from tidelog.record.kernel import offset_map as kernel
from tidelog.record.views import view

HIGH = 1 << 40  # offsets above 2^32


def table_of(slots: int) -> Any:
    return np.zeros(3 * slots, np.uint64)


def hashes_of(pairs: list[tuple[int, int]]) -> Any:
    return np.array([word for pair in pairs for word in pair], np.uint64)


def put(table: Any, pairs: list[tuple[int, int]], offsets: list[int], entries: int, limit: int, lengths: list[int] | None = None) -> Any:
    return kernel.put_hashes(
        view(table),
        len(table) // 3,
        view(hashes_of(pairs)),
        view(np.array(lengths if lengths is not None else [1] * len(pairs), np.int32)),
        view(np.array(offsets, np.int64)),
        entries,
        limit,
    )


def get(table: Any, pairs: list[tuple[int, int]], lengths: list[int] | None = None) -> list[int]:
    found = np.empty(len(pairs), np.int64)
    own = np.array(lengths if lengths is not None else [1] * len(pairs), np.int32)
    kernel.get_hashes(view(table), len(table) // 3, view(hashes_of(pairs)), view(own), view(found))
    return [int(offset) for offset in found]


@pytest.mark.parametrize("slots", [1, 2, 7, 64, 200])
@pytest.mark.parametrize("spread", [1, 3, 1 << 64])
def test_put_and_get_are_those_of_a_dict(slots: int, spread: int) -> None:
    rng = random.Random(slots * 7 + spread)
    table = table_of(slots)
    model: dict[tuple[int, int], int] = {}
    entries = 0
    for turn in range(30):
        pairs = [(rng.randrange(spread), rng.randrange(3)) for _ in range(rng.randrange(1, 100))]
        offsets = [HIGH + turn * 1000 + number for number in range(len(pairs))]
        taken, entries = put(table, pairs, offsets, entries, slots)
        expected = 0
        for pair, offset in zip(pairs, offsets, strict=True):
            if len(model) >= slots:
                break
            model[pair] = offset
            expected += 1
        assert (taken, entries) == (expected, len(model))
        asked = [*pairs, *((rng.randrange(spread), 3) for _ in range(5))]
        assert get(table, asked) == [model.get(pair, -1) for pair in asked]


def test_a_full_table_takes_no_key_that_it_has_either() -> None:
    table = table_of(4)
    assert put(table, [(1, 1), (2, 2), (1, 1)], [5, 6, 7], 0, 2) == (2, 2)
    assert get(table, [(1, 1), (2, 2)]) == [5, 6]


def test_null_keys_are_passed_over_even_when_it_is_full() -> None:
    table = table_of(4)
    assert put(table, [(0, 0), (1, 1), (0, 0), (2, 2)], [5, 6, 7, 8], 0, 1, lengths=[-1, 3, -1, 3]) == (3, 1)
    assert get(table, [(1, 1), (0, 0)], lengths=[3, -1]) == [6, -1]


def test_a_hash_of_zeros_and_the_offset_0_are_like_others() -> None:
    table = table_of(3)
    assert put(table, [(0, 0)], [0], 0, 3) == (1, 1)
    assert get(table, [(0, 0), (0, 1)]) == [0, -1]


def test_a_search_in_a_table_without_an_empty_slot_ends() -> None:
    table = table_of(2)
    put(table, [(1, 1), (2, 2)], [5, 6], 0, 2)
    assert get(table, [(3, 3)]) == [-1]


@pytest.mark.parametrize("first", [0, 5, HIGH, HIGH + 3])
@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 64])
def test_offsets_are_marked_in_their_window(first: int, width: int) -> None:
    table = table_of(100)
    offsets = [0, 1, 5, 6, 13, HIGH - 1, HIGH, HIGH + 3, HIGH + 8, HIGH + 70]
    put(table, [(number << 59, number) for number in range(len(offsets))], offsets, 0, 100)
    bits = np.zeros((width + 7) // 8 or 1, np.uint8)
    marked = kernel.mark_offsets(view(table), 100, first, first + width, view(bits))
    found = [first + int(bit) for bit in np.flatnonzero(np.unpackbits(bits, bitorder="little"))]
    assert found == [offset for offset in offsets if first <= offset < first + width]
    assert marked == len(found)


def test_what_does_not_fit_is_refused() -> None:
    table, one, offsets, found = table_of(4), np.ones(1, np.int32), np.ones(1, np.int64), np.empty(1, np.int64)
    hashes = np.zeros(2, np.uint64)
    with pytest.raises(ValueError, match="slots"):
        kernel.put_hashes(view(table), 5, view(hashes), view(one), view(offsets), 0, 1)
    with pytest.raises(ValueError, match="hashes"):
        kernel.put_hashes(view(table), 4, view(hashes[:1]), view(one), view(offsets), 0, 1)
    with pytest.raises(ValueError, match="offsets"):
        kernel.put_hashes(view(table), 4, view(hashes), view(one), view(offsets[:0]), 0, 1)
    with pytest.raises(ValueError, match="slots"):
        kernel.put_hashes(view(table), 4, view(hashes), view(one), view(offsets), 0, 5)
    with pytest.raises(ValueError, match="room"):
        kernel.get_hashes(view(table), 4, view(hashes), view(one), view(found[:0]))
    with pytest.raises(ValueError, match="slots"):
        kernel.get_hashes(view(table), 0, view(hashes), view(one), view(found))
    with pytest.raises(ValueError, match="bytes"):
        kernel.mark_offsets(view(table), 4, 0, 9, view(np.zeros(1, np.uint8)))
    with pytest.raises(ValueError, match="slots"):
        kernel.mark_offsets(view(table), 5, 0, 8, view(np.zeros(1, np.uint8)))
