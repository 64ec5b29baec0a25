"""Every kind of damage to a segment: what is found behind it, what is restored, and how little is read for it."""

import errno
import random
import struct
import zlib
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.batches import message, patched
from tests.support.golden import GOLDEN
from tests.support.logs import QuietDisk, follower_batches, number_of, numbered, open_log
from tidelog.disk.disk import OS
from tidelog.inspection.salvage import salvage
from tidelog.inspection.salvage_choice import choose_runs, longest_rise
from tidelog.inspection.salvage_reader import BLOCK_BYTES, SECTOR_BYTES, SalvageReader, merge_ranges, overlaps
from tidelog.inspection.salvage_report import SalvageReport
from tidelog.inspection.salvage_scan import Run, WalkedSegment, walk_segment
from tidelog.inspection.salvage_search import find_batch_behind
from tidelog.record import NewBatch

SIZE = len(numbered(0, base_offset=0))


class BadDisk(QuietDisk):
    """Some stretches of the `.log` files it reads are refused; counts what was read."""

    def __init__(self, *bad: tuple[int, int]) -> None:
        self.bad = bad
        self.read_bytes = 0
        self.refused = 0
        self._logs: set[int] = set()

    def open(self, path: str, *, write: bool = False) -> int:
        fd = super().open(path, write=write)
        (self._logs.add if path.endswith(".log") and "new" not in path else self._logs.discard)(fd)
        return fd

    def read(self, fd: int, size: int, position: int) -> bytes:
        if fd in self._logs:
            self.read_bytes += size
            if any(start < position + size and position < end for start, end in self.bad):
                self.refused += 1
                raise OSError(errno.EIO, "a bad sector")
        return super().read(fd, size, position)


def make(tmp_path: Path, content: bytes, base_offset: int = 0, *, next_base: int | None = None) -> Path:
    directory = tmp_path / "tide-0"
    directory.mkdir(exist_ok=True)
    (directory / f"{base_offset:020d}.log").write_bytes(content)
    if next_base is not None:
        (directory / f"{next_base:020d}.log").write_bytes(follower_batches((next_base, 1)))
    return directory


def to_new(directory: Path, disk: QuietDisk | None = None) -> tuple[SalvageReport, list[int]]:
    target = directory.parent / "new" / "tide-0"
    report = salvage(directory, target, disk=disk or QuietDisk())
    with open_log(target.parent, {"max.message.bytes": 1 << 30, "segment.bytes": 1 << 30}, disk=QuietDisk()) as log:
        assert log.log_end_offset == report.log_end_offset
        return report, [number_of(record) for record in log.read()]


def lost(report: SalvageReport) -> list[tuple[int, int | None]]:
    return [(found.first_offset, found.last_offset) for found in report.lost]


@pytest.fixture
def ten() -> bytearray:
    return bytearray(follower_batches(*((offset, 1) for offset in range(10))))


def test_every_single_flipped_bit(ten: bytearray, tmp_path: Path) -> None:
    """One bit of the third batch: the others are all there, at their offsets; it is restored, or lost and said so."""
    for bit in range(SIZE * 8):
        damaged = bytearray(ten)
        damaged[2 * SIZE + bit // 8] ^= 1 << bit % 8
        path = tmp_path / "segment"
        path.write_bytes(damaged)
        reader = SalvageReader(OS, str(path))
        choice = choose_runs(walk_segment(reader, 0, None))
        reader.close()
        offsets = [offset for run in choice.kept for offset in range(run.first_offset, run.last_offset + 1)]
        outside_crc = bit // 8 in range(8) or bit // 8 in range(12, 17)
        assert offsets == [offset for offset in range(10) if outside_crc or offset != 2], bit


# Fields that no CRC covers


@pytest.mark.parametrize("magic", [0, 1, 3, 9, 255])
@pytest.mark.parametrize("number", [0, 4, 9])
def test_a_rotten_magic_is_restored(magic: int, number: int, ten: bytearray, tmp_path: Path) -> None:
    original = bytes(ten)
    ten[number * SIZE + 16] = magic
    report, found = to_new(make(tmp_path, bytes(ten)))
    assert found == list(range(10))
    assert report.lost == ()
    assert (tmp_path / "new" / "tide-0" / f"{0:020d}.log").read_bytes() == original
    assert any("magic" in finding for finding in report.findings)


@pytest.mark.parametrize("magic", [0, 1, 3, 9])
def test_a_rotten_magic_right_behind_damage(magic: int, ten: bytearray, tmp_path: Path) -> None:
    """Nothing but its own CRC, and an offset that can be, says that there is a batch."""
    ten[4 * SIZE : 4 * SIZE + 30] = b"\xff" * 30
    ten[5 * SIZE + 16] = magic
    report, found = to_new(make(tmp_path, bytes(ten)))
    assert found == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert lost(report) == [(4, 4)]


@pytest.mark.parametrize("offset", [0, 3, 5, 7, 12, 1 << 20, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
@pytest.mark.parametrize("number", [0, 4, 9])
def test_a_rotten_base_offset_is_restored(offset: int, number: int, ten: bytearray, tmp_path: Path) -> None:
    if offset == number:
        return
    original = bytes(ten)
    struct.pack_into(">q", ten, number * SIZE, offset)
    report, found = to_new(make(tmp_path, bytes(ten), next_base=10))
    assert found == list(range(11))
    assert report.lost == ()
    assert report.dropped_bytes == 0
    assert (tmp_path / "new" / "tide-0" / f"{0:020d}.log").read_bytes() == original
    assert any("base offset" in finding for finding in report.findings)


def test_a_batch_that_fits_nowhere_is_left_out(ten: bytearray, tmp_path: Path) -> None:
    """Two neighbours have rotten offsets: which is which nobody knows."""
    struct.pack_into(">q", ten, 4 * SIZE, 2)
    struct.pack_into(">q", ten, 5 * SIZE, 1)
    report, found = to_new(make(tmp_path, bytes(ten)))
    assert found == [0, 1, 2, 3, 6, 7, 8, 9]
    assert lost(report) == [(4, 5)]
    assert (tmp_path / "new" / "tide-0" / report.bad_files[0]).read_bytes() == bytes(ten[4 * SIZE : 6 * SIZE])


def test_a_gap_larger_than_the_batch_says_nothing_about_its_offset(tmp_path: Path) -> None:
    content = bytearray(follower_batches(*((offset, 1) for offset in (0, 1, 2, 3, 4, 6, 7))))
    struct.pack_into(">q", content, 4 * SIZE, 1)  # it may have been 4 or 5
    report, found = to_new(make(tmp_path, bytes(content)))
    assert found == [0, 1, 2, 3, 6, 7]
    assert lost(report) == [(4, 5)]
    assert report.bad_files == (f"bad-{0:020d}-at-{4 * SIZE}.log.tidelog",)


def test_a_rotten_epoch_is_restored(ten: bytearray, tmp_path: Path) -> None:
    original = bytes(ten)
    struct.pack_into(">i", ten, 4 * SIZE + 12, 1 << 20)
    report, found = to_new(make(tmp_path, bytes(ten)))
    assert found == list(range(10))
    assert (tmp_path / "new" / "tide-0" / f"{0:020d}.log").read_bytes() == original
    assert any("leader epoch" in finding for finding in report.findings)
    assert (tmp_path / "new" / "tide-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_epochs_that_rise_are_left_alone(tmp_path: Path) -> None:
    content = b"".join(follower_batches((offset, 1), epoch=epoch) for offset, epoch in enumerate((0, 0, 3, 4, 4)))
    report, _ = to_new(make(tmp_path, content))
    assert report.is_complete
    assert report.findings == ()
    assert (tmp_path / "new" / "tide-0" / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 2\n4 3\n"


# Lengths


@pytest.mark.parametrize("length", [0, -1, 13, 48, 1000, (1 << 31) - 1, SIZE - 12 + 1, 2 * SIZE - 12, 3 * SIZE - 12])
def test_a_length_that_lies(length: int, ten: bytearray, tmp_path: Path) -> None:
    """Also one that leads to the beginning of a later batch: those in between are found all the same."""
    struct.pack_into(">i", ten, 4 * SIZE + 8, length)
    report, found = to_new(make(tmp_path, bytes(ten)))
    assert found == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert lost(report) == [(4, 4)]


def test_lies_cost_no_more_than_the_file(tmp_path: Path) -> None:
    """Headers that each claim the rest of the file: every byte is read a few times for all of them, not once for each."""
    header = bytearray(numbered(0)[:61])
    count = 400
    rest = 8 << 20
    content = bytearray()
    for number in range(count):
        header[8:12] = (rest - number).to_bytes(4, "big")
        content += header
    content += bytes(rest) + follower_batches((5, 1))
    disk = BadDisk()
    report, found = to_new(make(tmp_path, bytes(content)), disk)
    assert found == [5]
    assert lost(report) == [(0, 4)]
    assert disk.read_bytes < 10 * len(content) + count * 4 * BLOCK_BYTES


def test_a_batch_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    large = numbered(1, 1, base_offset=1, size=3 << 20, partition_leader_epoch=0)
    content = follower_batches((0, 1)) + large + follower_batches((2, 1))
    report, found = to_new(make(tmp_path, content))
    assert found == [0, 1, 2]
    assert report.is_complete
    damaged = bytearray(content)
    damaged[1 << 20] ^= 1
    other = tmp_path / "other"
    other.mkdir()
    report, found = to_new(make(other, bytes(damaged)))
    assert found == [0, 2]
    assert lost(report) == [(1, 1)]


# What lies between batches


@pytest.mark.parametrize("inserted", [b"\0" * 5000, b"\xff" * 100, b"\x02" * 77, bytes(range(256)) * 20])
def test_bytes_that_do_not_belong_there(inserted: bytes, ten: bytearray, tmp_path: Path) -> None:
    report, found = to_new(make(tmp_path, bytes(ten[: 4 * SIZE]) + inserted + bytes(ten[4 * SIZE :])))
    assert found == list(range(10))
    assert report.lost == ()
    assert report.dropped_bytes == len(inserted)
    assert len(report.bad_files) == any(inserted)


def test_a_batch_in_the_value_of_a_damaged_one_is_no_batch_of_the_log(tmp_path: Path) -> None:
    """A log of a log: the inner batch is sound, and even has an offset that would fit."""
    inner = numbered(4, base_offset=4)
    outer = NewBatch([(b"k", inner * 2)], base_offset=4).encode()
    for place in (50, 65, len(outer) - 2):
        damaged = bytearray(outer)
        damaged[place] ^= 1
        work = tmp_path / str(place)
        work.mkdir()
        content = follower_batches(*((offset, 1) for offset in range(4))) + bytes(damaged) + follower_batches((5, 1))
        report, found = to_new(make(work, content))
        assert found == [0, 1, 2, 3, 5]
        assert lost(report) == [(4, 4)]


def test_an_inner_batch_at_an_offset_that_cannot_be(tmp_path: Path) -> None:
    """Here the header is damaged too, so that nobody knows where the outer one ends."""
    inner = numbered(0, base_offset=0)
    outer = bytearray(NewBatch([(b"k", inner)], base_offset=4).encode())
    outer[10] ^= 255
    content = follower_batches(*((offset, 1) for offset in range(4))) + bytes(outer) + follower_batches((5, 1))
    report, found = to_new(make(tmp_path, content))
    assert found == [0, 1, 2, 3, 5]
    assert lost(report) == [(4, 4)]


def test_legacy_messages_behind_damage(tmp_path: Path) -> None:
    messages = [message(offset, b"k", str(offset).encode(), magic=offset % 2) for offset in range(8)]
    damaged = bytearray(b"".join(messages))
    damaged[len(messages[0]) + 20] ^= 1
    damaged[len(messages[0]) + 9] ^= 255
    report, found = to_new(make(tmp_path, bytes(damaged)))
    assert found == [0, 2, 3, 4, 5, 6, 7]
    assert lost(report) == [(1, 1)]


@pytest.mark.parametrize("name", ["v1-gzip", "v0-lz4", "mixed-magic", "v1-wrapper-gaps"])
def test_wrappers_are_kept_whole(name: str, tmp_path: Path) -> None:
    content = (GOLDEN / "batches" / f"{name}.log").read_bytes()
    target = tmp_path / "new" / "tide-0"
    salvage(make(tmp_path, content), target, disk=QuietDisk())
    assert b"".join(path.read_bytes() for path in sorted(target.glob("*.log"))) == content


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_behind_lost_framing_are_found(magic: int, tmp_path: Path) -> None:
    """Also the last one, which is shorter than a header of today."""
    messages = [message(offset, None, str(offset).encode(), magic=magic) for offset in range(5)]
    content = bytearray(b"".join(messages))
    start = len(messages[0])
    content[start + 8 : start + 12] = struct.pack(">i", 3)
    report, found = to_new(make(tmp_path, bytes(content)))
    assert found == [0, 2, 3, 4]
    assert lost(report) == [(1, 1)]


def test_the_last_offset_of_all_is_not_believed(tmp_path: Path) -> None:
    """Behind it there is none for what follows; and one that overflows is none at all."""
    top = (1 << 63) - 1
    for delta in (0, 1, 5):
        work = tmp_path / str(delta)
        work.mkdir()
        rotten = patched(numbered(0), 0, struct.pack(">q", top))
        content = follower_batches((0, 1)) + patched(rotten, 23, struct.pack(">i", delta)) + follower_batches((2, 1))
        report, found = to_new(make(work, content))
        assert found[0] == 0
        assert found[-1] == 2
        assert report.log_end_offset == 3


def test_gaps_of_a_compacted_log_are_no_loss(tmp_path: Path) -> None:
    thin = patched(numbered(3, 1, base_offset=3), 23, struct.pack(">i", 4))  # offsets 3 to 7, one record
    content = follower_batches((0, 1)) + thin + follower_batches((10, 1), (15, 1))
    report, found = to_new(make(tmp_path, content))
    assert found == [0, 3, 10, 15]
    assert report.lost == ()
    assert [(gap.first_offset, gap.last_offset) for gap in report.gaps] == [(1, 2), (8, 9), (11, 14)]
    damaged = bytearray(content)
    damaged[SIZE + len(thin) + 70] ^= 1
    other = tmp_path / "other"
    other.mkdir()
    report, _ = to_new(make(other, bytes(damaged)))
    assert lost(report) == [(8, 14)]
    assert [(gap.first_offset, gap.last_offset) for gap in report.gaps] == [(1, 2)]


@pytest.mark.parametrize("spans", [((0, 2), (3, 2)), ((0, 1), (2, 1), (4, 1)), ((5, 1),)])
def test_a_gap_without_a_byte_is_no_loss(spans: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    """Also a small one of a log in which nothing else looks compacted: every batch is full."""
    report, found = to_new(make(tmp_path, follower_batches(*spans)))
    assert found == [offset for first, count in spans for offset in range(first, first + count)]
    assert report.lost == ()
    assert report.is_complete
    ends = [0, *(first + count for first, count in spans)]
    told = [(gap.first_offset, gap.last_offset) for gap in report.gaps]
    assert told == [(end, first - 1) for end, (first, _) in zip(ends, spans, strict=False) if first > end]


def test_bad_bytes_in_a_gap_are_a_loss_between_their_neighbours(tmp_path: Path) -> None:
    """What the bytes were nobody knows: at most all offsets between the batches before and behind them; the gap beside it is none."""
    content = follower_batches((0, 1)) + bytes([2] * 90) + follower_batches((5, 1), (9, 1))
    report, found = to_new(make(tmp_path, content))
    assert found == [0, 5, 9]
    assert lost(report) == [(1, 4)]
    assert [(gap.first_offset, gap.last_offset) for gap in report.gaps] == [(6, 8)]
    assert not report.is_complete


# A disk that fails


def test_what_the_disk_refuses_is_left_out(tmp_path: Path) -> None:
    content = follower_batches(*((offset, 1) for offset in range(400)))
    bad = (3 * SECTOR_BYTES, 4 * SECTOR_BYTES)
    disk = BadDisk(bad)
    report, found = to_new(make(tmp_path, content), disk)
    first, last = bad[0] // SIZE, (bad[1] - 1) // SIZE
    assert found == [*range(first), *range(last + 1, 400)]
    assert lost(report) == [(first, last)]
    assert report.segments[0].unreadable_bytes == SECTOR_BYTES
    assert any(f"bytes {bad[0]} to {bad[1] - 1} cannot be read" in finding for finding in report.findings)
    assert disk.refused < 20  # a refusal may take seconds: each sector is asked for once, and in the pieces that lead to it
    kept = (tmp_path / "new" / "tide-0" / report.bad_files[0]).read_bytes()
    assert len(kept) == (last + 1 - first) * SIZE
    assert bytes(SECTOR_BYTES) in kept


def test_a_file_that_cannot_be_read_at_all(tmp_path: Path) -> None:
    content = follower_batches(*((offset, 1) for offset in range(10)))
    report, found = to_new(make(tmp_path, content), BadDisk((0, len(content))))
    assert found == []
    assert lost(report) == [(0, None)]


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    class Closed(QuietDisk):
        def open(self, path: str, *, write: bool = False) -> int:
            if path.endswith(f"tide-0/{0:020d}.log") and "new" not in path:
                raise OSError(errno.EIO, "no")
            return super().open(path, write=write)

    content = follower_batches(*((offset, 1) for offset in range(10)))
    report, found = to_new(make(tmp_path, content, next_base=10), Closed())
    assert found == [10]
    assert lost(report) == [(0, 9)]


# The parts


def test_the_checksum_of_any_stretch(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(5 * BLOCK_BYTES + 77)
    (tmp_path / "file").write_bytes(data)
    reader = SalvageReader(OS, str(tmp_path / "file"))
    ends = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, len(data) - 1, len(data)]
    for start in ends:
        for end in ends:
            if start <= end:
                assert reader.crc32c.of(start, end) == crc32c(data[start:end])
                assert reader.crc32.of(start, end) == zlib.crc32(data[start:end])
    reader.close()


def test_stretches() -> None:
    assert merge_ranges([(5, 7), (0, 2), (2, 3), (6, 9), (4, 4)]) == [(0, 3), (5, 9)]
    assert [overlaps([(0, 3), (5, 9)], *where) for where in ((3, 5), (2, 5), (3, 6), (8, 20), (9, 10))] == [False, True, True, True, False]


def test_a_batch_is_found_at_every_place_of_a_window(tmp_path: Path) -> None:
    batch = numbered(0)
    for before in (*range(70), *range((1 << 14) - 90, (1 << 14) + 90, 7), 3 * (1 << 14) - 1):
        path = tmp_path / "file"
        path.write_bytes(b"\xee" * before + batch)
        reader = SalvageReader(OS, str(path))
        found = find_batch_behind(reader, 0, 0, 100)
        reader.close()
        assert found is not None
        assert found.position == before


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        ([(0, 4), (5, 9)], [0, 1]),
        ([(0, 4), (3, 9), (5, 9)], [0, 2]),
        ([(0, 0), (70, 70), (2, 2)], [0, 2]),
        ([(50, 50), (1, 5), (6, 9)], [1, 2]),
        ([(0, 3), (0, 2), (4, 9)], [0, 2]),
        ([(9, 9), (8, 8), (7, 7)], [2]),
        ([], []),
    ],
)
def test_the_most_batches_that_rise(spans: list[tuple[int, int]], kept: list[int]) -> None:
    runs = [Run(0, number, 1, last - first + 1, first, last, True) for number, (first, last) in enumerate(spans)]
    chosen = longest_rise(runs, WalkedSegment(0, "", 0, None))
    assert [runs.index(run) for run in chosen] == kept
