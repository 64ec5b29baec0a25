"""Entries of keys: only the last offset of a key in a piece, as long as that saves something, and every bucket in the order of the log."""

from pathlib import Path

import numpy as np
import pytest

from tidelog.compaction import key_entries
from tidelog.compaction.key_entries import KeyEntries, KeyFile
from tidelog.compaction.last_offset_search import LastOffsetTable
from tidelog.disk.disk import OS

SECRET = bytes(16)


def add(entries: KeyEntries, keys: list[bytes], first_offset: int) -> None:
    data = b"".join(keys)
    lengths = np.array([len(key) for key in keys], np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    entries.add_dirty(memoryview(data), starts, lengths, np.arange(first_offset, first_offset + len(keys), dtype=np.int64))


def written(entries: KeyEntries, path: Path, buckets: int) -> list[np.ndarray]:
    entries.write(OS, str(path), buckets)
    file = KeyFile(OS, str(path))
    try:
        return [file.dirty(bucket) for bucket in range(buckets)]
    finally:
        file.close()


@pytest.mark.parametrize(("distinct", "is_combined"), [(50, True), (4000, False)])
def test_keys_that_come_often_are_written_once(distinct: int, is_combined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_entries, "_MAP_ENTRIES", 256)
    monkeypatch.setattr(key_entries, "_ENOUGH_KEYS", 256)
    keys = [b"key-%d" % (number * 7919 % distinct) for number in range(4000)]
    entries = KeyEntries(SECRET, combines=True)
    for start in range(0, len(keys), 100):
        add(entries, keys[start : start + 100], start)
        entries.settle()
    found = written(entries, tmp_path / "keys", 4)
    assert sum(map(len, found)) == (distinct if is_combined else 4000)
    expected = sorted({key: offset for offset, key in enumerate(keys)}.values())
    last = []
    for bucket in found:
        table = LastOffsetTable(8)
        table.put(bucket)
        last += table.offsets().tolist()
    assert sorted(last) == expected


@pytest.mark.parametrize("distinct", [300, 4000])
def test_a_small_piece_has_a_small_map_and_more_keys_than_that_are_not_lost(distinct: int, tmp_path: Path) -> None:
    """It was 6 MiB for every piece: with ten thousand small segments most of the time went into emptying it."""
    keys = [b"key-%d" % (number * 7919 % distinct) for number in range(4000)]
    entries = KeyEntries(SECRET, combines=True, piece_bytes=20_000)
    assert entries._map is not None
    assert entries._map.memory_bytes <= 40_000
    for start in range(0, len(keys), 100):
        add(entries, keys[start : start + 100], start)
        entries.settle()
    table = LastOffsetTable(8)
    for bucket in written(entries, tmp_path / "keys", 4):
        table.put(bucket)
    assert sorted(table.offsets().tolist()) == sorted({key: offset for offset, key in enumerate(keys)}.values())


def test_a_bucket_is_in_the_order_of_the_log(tmp_path: Path) -> None:
    entries = KeyEntries(SECRET, combines=False)
    add(entries, [b"a", b"b", b"a", b"c"] * 500, 0)
    for bucket in written(entries, tmp_path / "keys", 3):
        offsets = bucket[:, 2].astype(np.int64)
        assert (np.diff(offsets) > 0).all()


def test_a_table_is_not_crowded_by_one_bucket_or_by_sorted_entries(tmp_path: Path) -> None:
    """It was: keys of a bucket had the same high bits, by which the table places them, and a search took minutes for a second's work."""
    entries = KeyEntries(SECRET, combines=True)
    add(entries, [b"key-%d" % number for number in range(200_000)], 0)
    for bucket in written(entries, tmp_path / "keys", 16):
        table = LastOffsetTable()
        table.put(bucket[np.argsort(bucket[:, 0])])
        rows = table._table.reshape(-1, 3)
        home = ((rows[:, 0] >> np.uint64(32)) * np.uint64(len(rows))) >> np.uint64(32)
        taken = rows[:, 2] != 0
        assert (np.flatnonzero(taken) - home[taken].astype(np.int64)).max() < 200
