"""Entries are shared out into buckets by their hash, each bucket in the order in which they came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.record.kernel import buckets as kernel
from tidelog.record.views import view

words = st.integers(0, (1 << 64) - 1)


def flat(entries: list[tuple[int, int, int]]) -> memoryview:
    return view(np.array(entries, np.uint64).reshape(-1))


@given(st.lists(st.tuples(words, words, words), max_size=60), st.integers(1, 70_000))
def test_every_entry_is_once_in_the_bucket_of_its_low_half(entries: list[tuple[int, int, int]], buckets: int) -> None:
    counts = np.zeros(buckets, np.int64)
    kernel.count_entries(flat(entries), view(counts))
    out = np.zeros(3 * len(entries), np.uint64)
    places = np.cumsum(counts) - counts
    kernel.place_entries(flat(entries), view(places), view(out))
    expected = sorted(entries, key=lambda entry: (entry[0] & 0xFFFFFFFF) * buckets >> 32)  # stable
    assert [tuple(row) for row in out.reshape(-1, 3).tolist()] == expected
    assert places.tolist() == np.cumsum(counts).tolist()


def test_what_does_not_fit_is_refused() -> None:
    entries = flat([(1, 2, 3), (1, 2, 4)])
    for place in (-1, 1, 1 << 40):
        with pytest.raises(ValueError, match="more entries than were counted"):
            kernel.place_entries(entries, view(np.array([place], np.int64)), view(np.zeros(3, np.uint64)))
    with pytest.raises(ValueError, match="no room"):
        kernel.place_entries(entries, view(np.zeros(1, np.int64)), view(np.zeros(0, np.uint64)))
    with pytest.raises(ValueError, match="0 buckets"):
        kernel.count_entries(entries, view(np.zeros(0, np.int64)))
