import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import GOLDEN
from tests.unit.disk.failing_disk import REPLACE, FailingDisk
from tidelog.disk.checkpoints import EpochEntry, parse_epochs
from tidelog.disk.disk import OS
from tidelog.errors import CorruptFileError, RefusedBatchError
from tidelog.log.leader_epoch_cache import LeaderEpochCache, assigned, truncated_end, truncated_start

Pairs = list[tuple[int, int]]


def cache_of(directory: Path, pairs: Pairs, disk: FailingDisk | None = None) -> LeaderEpochCache:
    cache = LeaderEpochCache.load(OS if disk is None else disk, str(directory))
    cache.assign_many(pairs)
    return cache


def on_disk(directory: Path) -> Pairs:
    return [(entry.epoch, entry.start_offset) for entry in parse_epochs((directory / "leader-epoch-checkpoint").read_bytes(), "")]


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (5, 20, None),  # the latest, at its start
        (5, 99, None),  # and above
        (5, 19, [(1, 0), (3, 10), (5, 19)]),
        (5, 10, [(1, 0), (5, 10)]),
        (6, 30, [(1, 0), (3, 10), (5, 20), (6, 30)]),
        (6, 20, [(1, 0), (3, 10), (6, 20)]),
        (6, 15, [(1, 0), (3, 10), (6, 15)]),
        (6, 0, [(6, 0)]),
        (4, 30, [(1, 0), (3, 10), (4, 30)]),
        (3, 30, [(1, 0), (3, 30)]),
        (3, 10, [(1, 0), (3, 10)]),
        (0, 30, [(0, 30)]),
        (2, 5, [(1, 0), (2, 5)]),
    ],
)
def test_assign(tmp_path: Path, epoch: int, start: int, expected: Pairs | None) -> None:
    before = [(1, 0), (3, 10), (5, 20)]
    disk = FailingDisk()
    cache = cache_of(tmp_path, before, disk)
    disk.calls.clear()
    assert cache.assign(epoch, start) == (expected is not None)
    assert disk.calls == ([] if expected is None else REPLACE)
    assert [*cache.entries] == on_disk(tmp_path) == (before if expected is None else expected)
    assert cache.latest_epoch == cache.entries[-1].epoch
    assert not cache.assign(*cache.entries[-1])


def test_the_file_has_kafkas_bytes(tmp_path: Path) -> None:
    cache_of(tmp_path, [(0, 0), (4, 2**40)])
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n4 1099511627776\n"


def test_many_are_written_once(tmp_path: Path) -> None:
    disk = FailingDisk()
    cache = cache_of(tmp_path, [(0, 0), (0, 5), (1, 7), (2, 9)], disk)
    assert disk.calls == ["read_file", *REPLACE]
    assert [*cache.entries] == on_disk(tmp_path) == [(0, 0), (1, 7), (2, 9)]
    disk.calls.clear()
    assert not cache.assign_many([])
    assert not cache.assign_many([(2, 9), (2, 100)])
    assert disk.calls == []


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1)])
def test_no_epoch_is_refused(tmp_path: Path, pair: tuple[int, int]) -> None:
    cache = cache_of(tmp_path, [])
    for _ in range(2):
        with pytest.raises(RefusedBatchError):
            cache.assign(*pair)
        with pytest.raises(RefusedBatchError):
            cache.assign_many([(0, 0), pair])
        assert cache.entries == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("offset", "left"),
    [(21, [(1, 5), (3, 10), (5, 20)]), (20, [(1, 5), (3, 10)]), (11, [(1, 5), (3, 10)]), (10, [(1, 5)]), (6, [(1, 5)]), (5, []), (0, [])],
)
def test_truncate_end(tmp_path: Path, offset: int, left: Pairs) -> None:
    cache = cache_of(tmp_path, [(1, 5), (3, 10), (5, 20)])
    assert cache.truncate_end(offset) == (len(left) < 3)
    assert [*cache.entries] == on_disk(tmp_path) == left
    assert cache.latest_epoch == (left[-1][0] if left else None)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, [(1, 5), (3, 10), (5, 20)]),
        (4, [(1, 5), (3, 10), (5, 20)]),
        (5, [(1, 5), (3, 10), (5, 20)]),
        (6, [(1, 6), (3, 10), (5, 20)]),
        (9, [(1, 9), (3, 10), (5, 20)]),
        (10, [(3, 10), (5, 20)]),
        (11, [(3, 11), (5, 20)]),
        (20, [(5, 20)]),
        (99, [(5, 99)]),
    ],
)
def test_truncate_start(tmp_path: Path, offset: int, left: Pairs) -> None:
    cache = cache_of(tmp_path, [(1, 5), (3, 10), (5, 20)])
    assert cache.truncate_start(offset) == (offset > 5)
    assert [*cache.entries] == on_disk(tmp_path) == left


def test_clear(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, [(1, 5)])
    assert cache.clear()
    assert cache.entries == ()
    assert cache.latest_epoch is None
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"
    assert not cache.clear()
    assert not cache.truncate_end(0)
    assert not cache.truncate_start(9)
    assert cache.assign(0, 0)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, None), (0, (0, 5)), (1, (1, 10)), (2, (1, 10)), (3, (3, 20)), (4, (3, 20)), (5, (5, 77)), (6, None)],
)
def test_end_offset_for(tmp_path: Path, epoch: int, end: tuple[int, int] | None) -> None:
    assert cache_of(tmp_path, [(1, 5), (3, 10), (5, 20)]).end_offset_for(epoch, 77) == end
    assert LeaderEpochCache(OS, "nowhere").end_offset_for(epoch, 77) is None


def test_load(tmp_path: Path) -> None:
    assert LeaderEpochCache.load(OS, str(tmp_path)).entries == ()
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_bytes(b"")
    assert LeaderEpochCache.load(OS, str(tmp_path)).entries == ()
    file.write_bytes(b"0\n2\n3 0\n4 9\n")
    assert LeaderEpochCache.load(OS, str(tmp_path)).entries == (EpochEntry(3, 0), EpochEntry(4, 9))
    file.write_bytes(b"0\n3\n3 0\n5 9\n4 9\n")
    assert LeaderEpochCache.load(OS, str(tmp_path)).entries == (EpochEntry(3, 0), EpochEntry(4, 9))
    file.write_bytes(b"0\n1\n")
    with pytest.raises(CorruptFileError) as caught:
        LeaderEpochCache.load(OS, str(tmp_path))
    assert caught.value.path == str(file)


def test_read_only_changes_no_file(tmp_path: Path) -> None:
    cache_of(tmp_path, [(1, 5), (3, 10)])
    before = (tmp_path / "leader-epoch-checkpoint").read_bytes()
    disk = FailingDisk()
    cache = LeaderEpochCache.load(disk, str(tmp_path), read_only=True)
    assert cache.truncate_end(10)
    assert cache.truncate_start(7)
    assert cache.assign(4, 8)
    assert not cache.assign(4, 9)
    assert cache.entries == (EpochEntry(1, 7), EpochEntry(4, 8))
    assert disk.calls == ["read_file"]
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == before


CHANGES: list[Callable[[LeaderEpochCache], object]] = [
    lambda cache: cache.assign(6, 30),
    lambda cache: cache.assign(5, 19),
    lambda cache: cache.assign_many([(6, 30), (7, 40)]),
    lambda cache: cache.truncate_end(20),
    lambda cache: cache.truncate_start(7),
    lambda cache: cache.clear(),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fail_at", range(len(REPLACE)))
@pytest.mark.parametrize("next_call", ["same", "assign", "restore", "nothing new"])
def test_a_failed_write_changes_nothing(tmp_path: Path, change: Callable[[LeaderEpochCache], object], fail_at: int, next_call: str) -> None:
    disk = FailingDisk()
    before = [(1, 5), (3, 10), (5, 20)]
    cache = cache_of(tmp_path, before, disk)
    entries = cache.entries
    disk.fail_at = len(disk.calls) + fail_at
    with pytest.raises(OSError, match=f"no {REPLACE[fail_at]}"):
        change(cache)
    assert cache.entries is entries
    assert cache.latest_epoch == 5
    if fail_at < REPLACE.index("sync_directory"):
        assert on_disk(tmp_path) == before
    # Whatever comes next, the file says the same as the memory.
    if next_call == "same":
        assert change(cache)
    elif next_call == "assign":
        assert not cache.assign(5, 25)
    elif next_call == "restore":
        cache.restore(entries)
    else:
        assert not cache.truncate_end(1000)
    assert on_disk(tmp_path) == [*cache.entries]
    if cache.entries:
        disk.calls.clear()
        cache.assign(*cache.entries[-1])
        assert disk.calls == []


def test_restore(tmp_path: Path) -> None:
    disk = FailingDisk()
    cache = cache_of(tmp_path, [(1, 5)], disk)
    entries = cache.entries
    disk.calls.clear()
    cache.restore(entries)
    assert disk.calls == []
    cache.assign(2, 9)
    cache.restore(entries)
    assert cache.entries == entries
    assert cache.latest_epoch == 1
    assert on_disk(tmp_path) == [(1, 5)]
    disk.calls.clear()
    assert not cache.assign(1, 9)
    assert disk.calls == []


def test_restore_holds_in_memory_where_the_disk_fails(tmp_path: Path) -> None:
    disk = FailingDisk()
    cache = cache_of(tmp_path, [(1, 5)], disk)
    entries = cache.entries
    cache.assign(2, 9)
    disk.fail_at = len(disk.calls)
    with pytest.raises(OSError, match="no create"):
        cache.restore(entries)
    assert cache.entries == entries
    assert on_disk(tmp_path) == [(1, 5), (2, 9)]
    assert not cache.assign(1, 10)
    assert on_disk(tmp_path) == [(1, 5)]


steps = st.tuples(st.integers(0, 6), st.integers(0, 12))


def epoch_at(entries: tuple[EpochEntry, ...], offset: int) -> int | None:
    return max((entry.epoch for entry in entries if entry.start_offset <= offset), default=None)


@given(st.lists(steps, max_size=12), st.integers(0, 13), st.integers(0, 8))
def test_entries_rise_and_answers_agree_with_a_plain_search(pairs: Pairs, offset: int, epoch: int) -> None:
    entries: tuple[EpochEntry, ...] = ()
    for pair in pairs:
        entries = assigned(entries, *pair)
        assert entries[-1].epoch == pair[0]
        assert entries[-1].start_offset <= pair[1]
    for one, next_one in itertools.pairwise(entries):
        assert one.epoch < next_one.epoch
        assert one.start_offset < next_one.start_offset
    cache = LeaderEpochCache(OS, "nowhere", entries)
    higher = [entry.start_offset for entry in entries if entry.epoch > epoch]
    if higher:
        lower = [entry.epoch for entry in entries if entry.epoch <= epoch]
        assert cache.end_offset_for(epoch, 99) == (max(lower, default=epoch), higher[0])
    else:
        assert cache.end_offset_for(epoch, 99) == ((epoch, 99) if entries and entries[-1].epoch == epoch else None)
    cut = LeaderEpochCache(OS, "nowhere", truncated_start(truncated_end(entries, 10), offset))
    for place in range(offset, 10):
        assert epoch_at(cut.entries, place) == epoch_at(entries, place)
    assert all(entry.start_offset >= offset for entry in cut.entries)


GOLDEN_EPOCHS = sorted(GOLDEN.glob("*/*/closed/leader-epoch-checkpoint"))


def test_what_kafka_wrote_is_loaded_as_it_stands() -> None:
    for path in GOLDEN_EPOCHS:
        assert [*LeaderEpochCache.load(OS, str(path.parent)).entries] == parse_epochs(path.read_bytes(), str(path))
