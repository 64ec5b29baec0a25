"""The two sparse indexes: entries written and pending, look-ups against a plain list, truncation, sizes, a full disk."""

import bisect
import errno
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, check_log, number_of, numbered, open_log, pool_of
from tidelog.disk.disk import OS
from tidelog.disk.file_pool import FilePool
from tidelog.errors import DiskFullError
from tidelog.log.index import PENDING_ENTRIES
from tidelog.log.offset_index import OffsetIndex
from tidelog.log.time_index import TimeIndex

BASE = 1000
MANY = 3 * PENDING_ENTRIES + 5


def offset_index(path: Path, pool: FilePool | None = None, *, size_bytes: int = 0) -> OffsetIndex:
    return OffsetIndex(pool or FilePool(OS), str(path), BASE, size_bytes=size_bytes)


def time_index(path: Path, pool: FilePool | None = None, *, size_bytes: int = 0) -> TimeIndex:
    return TimeIndex(pool or FilePool(OS), str(path), BASE, size_bytes=size_bytes)


def append(index: OffsetIndex, offset: int, position: int) -> None:
    index.append_bytes(struct.pack(">ii", offset - index.base_offset, position))


def fill_offsets(index: OffsetIndex, count: int) -> list[tuple[int, int]]:
    """Entries with odd steps, some written and the last ones pending."""
    choose = random.Random(3)
    entries: list[tuple[int, int]] = []
    offset, position = BASE, 0
    for _ in range(count):
        offset += choose.randint(1, 9)
        position += choose.randint(61, 400)
        index.make_room()
        append(index, offset, position)
        entries.append((offset, position))
    return entries


def fill_times(index: TimeIndex, count: int) -> list[tuple[int, int]]:
    choose = random.Random(4)
    entries: list[tuple[int, int]] = []
    timestamp_ms, offset = TIME, BASE
    for _ in range(count):
        timestamp_ms += choose.randint(1, 50)
        offset += choose.randint(0, 9)
        index.make_room()
        assert index.maybe_append(timestamp_ms, offset, index.last().timestamp_ms)
        entries.append((timestamp_ms, offset))
    return entries


COUNTS = [0, 1, 2, PENDING_ENTRIES, PENDING_ENTRIES + 1, MANY]
STATES: dict[str, Callable[[OffsetIndex | TimeIndex], None]] = {
    "pending": lambda index: None,
    "written": lambda index: index.write_pending(),
    "trimmed": lambda index: index.trim(),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("state", STATES)
def test_offset_look_up(count: int, state: str, tmp_path: Path) -> None:
    index = offset_index(tmp_path / "a.index")
    index.preallocate(8 * 1000)
    entries = fill_offsets(index, count)
    STATES[state](index)
    assert index.entries == count
    assert index.size_bytes == 8 * count
    assert list(struct.iter_unpack(">ii", index.entry_bytes())) == [(offset - BASE, position) for offset, position in entries]
    assert index.last() == (entries[-1] if entries else None)
    offsets = [entry[0] for entry in entries]
    for offset in range(BASE - 3, (offsets[-1] if offsets else BASE) + 4):
        slot = bisect.bisect_right(offsets, offset) - 1
        found = entries[slot] if slot >= 0 else (-1, -1)
        behind = entries[slot + 1] if slot + 1 < count else (-1, -1)
        assert index.locate(offset) == (*found, *behind)
        assert index.lookup(offset) == (entries[slot] if slot >= 0 else (BASE, 0))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("state", STATES)
def test_time_look_up(count: int, state: str, tmp_path: Path) -> None:
    index = time_index(tmp_path / "a.timeindex")
    index.preallocate(12 * 1000)
    entries = fill_times(index, count)
    STATES[state](index)
    assert index.last() == (entries[-1] if entries else (-1, BASE))
    times = [entry[0] for entry in entries]
    for timestamp_ms in (-1, 0, *range(TIME - 2, (times[-1] if times else TIME) + 3)):
        slot = bisect.bisect_right(times, timestamp_ms) - 1
        assert index.lookup(timestamp_ms) == (entries[slot] if slot >= 0 else (-1, BASE))


@pytest.mark.parametrize("count", COUNTS)
def test_offset_truncation(count: int, tmp_path: Path) -> None:
    pool = FilePool(OS)
    offsets = [entry[0] for entry in fill_offsets(offset_index(tmp_path / "x"), count)] if count < 65 else [BASE + 50, BASE + 400]
    for cut in {BASE - 1, BASE, *(o + d for o in offsets[:3] + offsets[-3:] for d in (-1, 0, 1)), BASE + 10_000}:
        path = tmp_path / f"{cut}.index"
        index = offset_index(path, pool)
        index.preallocate(8 * 500)
        entries = fill_offsets(index, count)
        index.truncate_to(cut)
        kept = [entry for entry in entries if entry[0] < cut]
        assert index.entries == len(kept)
        assert index.last() == (kept[-1] if kept else None)
        assert path.stat().st_size == 8 * 500
        # What was dropped is zeros on disk, and new entries go in its place.
        index.write_pending()
        assert not any(path.read_bytes()[8 * len(kept) :])
        append(index, BASE + 20_000, 7)
        index.trim()
        assert path.stat().st_size == 8 * (len(kept) + 1)
        assert index.last() == (BASE + 20_000, 7)


def test_time_truncation(tmp_path: Path) -> None:
    for cut in range(BASE - 1, BASE + 60, 7):
        index = time_index(tmp_path / f"{cut}.timeindex")
        index.preallocate(12 * 500)
        entries = fill_times(index, 12)
        index.truncate_to(cut)
        kept = [entry for entry in entries if entry[1] < cut]
        assert (index.entries, index.last()) == (len(kept), kept[-1] if kept else (-1, BASE))


def test_sizes(tmp_path: Path) -> None:
    """Rounded down to whole entries while active, cut to the entries afterwards, extended when active again."""
    offsets, times = offset_index(tmp_path / "a.index"), time_index(tmp_path / "a.timeindex")
    for index, entry_size in ((offsets, 8), (times, 12)):
        index.preallocate(100)
        path = Path(index.path)
        assert path.stat().st_size == 100 // entry_size * entry_size
        assert index.slots == 100 // entry_size
        assert not any(path.read_bytes())
    fill_offsets(offsets, 3)
    fill_times(times, 3)
    for index, entry_size in ((offsets, 8), (times, 12)):
        assert not any(Path(index.path).read_bytes())  # still pending
        index.trim()
        assert Path(index.path).stat().st_size == 3 * entry_size
        assert index.is_full
        index.preallocate(100)
        assert Path(index.path).stat().st_size == 100 // entry_size * entry_size
        assert index.entries == 3
        assert not index.is_full


def test_when_full(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path / "a.index"), time_index(tmp_path / "a.timeindex")
    offsets.preallocate(24)
    times.preallocate(36)
    fullness = []
    for number in range(1, 4):
        fullness.append((offsets.is_full, times.is_full))
        append(offsets, BASE + number, 100 * number)
        times.maybe_append(TIME + number, BASE + number, TIME + number - 1)
    fullness.append((offsets.is_full, times.is_full))
    assert fullness == [(False, False), (False, False), (False, True), (True, True)]


def test_only_newer_times_are_added(tmp_path: Path) -> None:
    index = time_index(tmp_path / "a.timeindex")
    index.preallocate(120)
    assert index.maybe_append(TIME, BASE, -1)
    assert not index.maybe_append(TIME, BASE + 1, TIME)
    assert not index.maybe_append(TIME - 1, BASE + 1, TIME)
    assert index.entries == 1


def test_found_again(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "a.index")
    index.preallocate(8 * 1000)
    entries = fill_offsets(index, MANY)
    index.trim()
    index.close()
    found = offset_index(tmp_path / "a.index", size_bytes=8 * MANY)
    assert (found.entries, found.slots, found.is_full) == (MANY, MANY, True)
    assert found.last() == entries[-1]
    assert found.read_last_entry() == struct.pack(">ii", entries[-1][0] - BASE, entries[-1][1])
    found.preallocate(8 * 1000)
    append(found, entries[-1][0] + 1, entries[-1][1] + 100)
    assert found.entries == MANY + 1
    # More entries than the settings give room for stay, and count as full.
    crowded = offset_index(tmp_path / "a.index", size_bytes=8 * MANY)
    crowded.preallocate(80)
    assert (crowded.entries, crowded.is_full) == (MANY, True)
    assert (tmp_path / "a.index").stat().st_size == 8 * MANY


def test_a_failed_write_loses_no_entry(tmp_path: Path) -> None:
    disk = FaultyDisk()
    index = offset_index(tmp_path / "a.index", FilePool(disk))
    index.preallocate(8 * 1000)
    entries = fill_offsets(index, PENDING_ENTRIES)
    disk.shorten(1, size=20, then=errno.ENOSPC)
    with pytest.raises(OSError, match="ordered by a test"):
        index.make_room()
    assert [index.lookup(offset) for offset, _ in entries] == entries
    index.make_room()
    assert [index.lookup(offset) for offset, _ in entries] == entries
    assert (tmp_path / "a.index").read_bytes()[: 8 * PENDING_ENTRIES] == index.entry_bytes()


def test_a_reader_of_a_grown_index_maps_it_again(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "a.index")
    entries = fill_offsets(index, 1)
    index.trim()
    assert index.lookup(entries[0][0]) == entries[0]
    index.preallocate(8 * 1000)
    for number in range(1, 200):
        append(index, entries[0][0] + number, entries[0][1] + number)
        index.write_pending()
        assert index.lookup(2**40) == (entries[0][0] + number, entries[0][1] + number)


# A full disk


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    """A real one of a megabyte. That the limited test disk does the same is tested beside it, wherever mounting is not allowed."""
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to mount a small file system here ({done.stderr.decode().strip()}); the limited disk stands in for it")
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


def test_an_index_grows_on_a_full_file_system(small_file_system: Path) -> None:
    """Preallocated space is a hole: writing into it can fail. It must raise, where a store through a map would kill the process."""
    index = offset_index(small_file_system / "a.index")
    index.preallocate(16 << 20)
    ballast = small_file_system / "ballast"
    fill_up(ballast, leave=3 * 4096)
    entries: list[tuple[int, int]] = []

    def grow() -> None:
        for number in range(1, 100_000):
            index.make_room()
            append(index, BASE + number, 100 * number)
            entries.append((BASE + number, 100 * number))

    with pytest.raises(OSError, match="No space left"):
        grow()
    assert len(entries) > PENDING_ENTRIES
    for entry in (entries[0], entries[len(entries) // 2], entries[-1]):
        assert index.lookup(entry[0]) == entry
    ballast.unlink()
    index.trim()
    assert list(struct.iter_unpack(">ii", (small_file_system / "a.index").read_bytes())) == [(o - BASE, p) for o, p in entries]


def fill_up(ballast: Path, leave: int) -> None:
    """Take all space of a file system but for some pages."""
    status = os.statvfs(ballast.parent)
    ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - leave))


@pytest.mark.parametrize("pages", range(1, 8))
def test_a_log_on_a_full_file_system(pages: int, small_file_system: Path) -> None:
    """Whichever of the files meets the end of the space first: refused whole, readable, and going on when there is room."""
    config = {"index.interval.bytes": 0, "segment.index.bytes": 1 << 20, "flush.messages": 2**63 - 1}
    ballast = small_file_system / "ballast"
    with open_log(small_file_system, config, disk=OS) as log:
        log.append(numbered(0, timestamp_ms=TIME))
        fill_up(ballast, leave=pages * 4096)
        refused = 0
        while refused < 3:
            number = log.log_end_offset
            try:
                log.append(numbered(number, timestamp_ms=TIME + number))
            except DiskFullError:
                refused += 1
                assert log.log_end_offset == number
        assert [number_of(record) for record in log.read()] == list(range(number))
        check_log(log)
        ballast.unlink()
        for more in range(number, number + 100):
            log.append(numbered(more, timestamp_ms=TIME + more))
        check_log(log)
    with open_log(small_file_system, config, disk=OS) as log:
        assert [number_of(record) for record in log.read()] == list(range(number + 100))
        check_log(log)


@pytest.mark.parametrize("blocks", range(1, 24, 2))
def test_a_log_on_a_limited_disk(blocks: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = {"index.interval.bytes": 0, "segment.index.bytes": 4096, "internal.segment.bytes": 3000, "flush.messages": 2**63 - 1}
    with open_log(tmp_path, config, disk=disk) as log:
        log.append(numbered(0, timestamp_ms=TIME))
        disk.limit(512 * blocks)
        refused = 0
        while refused < 3:
            number = log.log_end_offset
            try:
                log.append(numbered(number, timestamp_ms=TIME + number))
            except DiskFullError:
                refused += 1
                assert log.log_end_offset == number
        pool_of(log).drop_all()
        assert [number_of(record) for record in log.read()] == list(range(number))
        disk.heal()
        for more in range(number, number + 100):
            log.append(numbered(more, timestamp_ms=TIME + more))
        check_log(log)
    with open_log(tmp_path, config) as log:
        assert [number_of(record) for record in log.read()] == list(range(number + 100))
