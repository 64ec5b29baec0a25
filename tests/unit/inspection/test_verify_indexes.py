"""verify and the indexes: each entry is held against the batches."""

import shutil
import struct
from pathlib import Path

import pytest

from tests.support.batches import TIME
from tests.support.golden import GOLDEN
from tests.support.logs import a_batch
from tests.support.verified import codes, notes, write_epochs, write_segment
from tidelog.inspection import verify
from tidelog.inspection.finding import MOST_ALIKE

OFFSET = struct.Struct(">ii")
TIMES = struct.Struct(">qi")
SIZES = [len(a_batch(2))] * 6
POSITIONS = [sum(SIZES[:number]) for number in range(6)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Six batches of two records, each a millisecond later, rolled: a segment with one record follows."""
    batches = [a_batch(2, base_offset=2 * number, timestamp_ms=TIME + number, partition_leader_epoch=0) for number in range(6)]
    write_segment(tmp_path, 0, batches)
    write_segment(tmp_path, 12, [a_batch(base_offset=12, partition_leader_epoch=0)])
    write_epochs(tmp_path, (0, 0))
    return tmp_path


def index_of(directory: Path, kind: str = "index") -> Path:
    return directory / f"00000000000000000000.{kind}"


def entries(*pairs: tuple[int, int], layout: struct.Struct = OFFSET) -> bytes:
    return b"".join(layout.pack(*pair) for pair in pairs)


def test_in_order(directory: Path) -> None:
    assert list(verify(directory)) == []
    assert list(verify(directory, level="headers")) == []


def test_an_index_may_be_sparse(directory: Path) -> None:
    index_of(directory).write_bytes(entries((5, POSITIONS[2])))
    index_of(directory, "timeindex").write_bytes(entries((TIME + 5, 11), layout=TIMES))
    assert list(verify(directory)) == []
    index_of(directory).write_bytes(b"")
    assert list(verify(directory)) == []


FAULTS = {
    "an entry of the first batch": (entries((1, 0), (3, POSITIONS[1])), {"index-entry"}),
    "a negative offset": (entries((-1, POSITIONS[1])), {"index-entry", "index-offset"}),
    "a negative position": (entries((3, -POSITIONS[1])), {"index-entry", "index-position"}),
    "no batch there": (entries((3, POSITIONS[1] + 1)), {"index-position"}),
    "behind the end": (entries((3, POSITIONS[1]), (13, sum(SIZES))), {"index-position"}),
    "far behind the end": (entries((3, POSITIONS[1]), (13, 2**31 - 1)), {"index-position"}),
    "not the last offset": (entries((2, POSITIONS[1])), {"index-offset"}),
    "behind the next entry's batch": (entries((5, POSITIONS[1]), (7, POSITIONS[2])), {"index-offset"}),
    "behind the end of the segment": (entries((3, POSITIONS[1]), (12, POSITIONS[5])), {"index-offset"}),
    "offsets that fall": (entries((5, POSITIONS[2]), (3, POSITIONS[1])), {"index-order"}),
    "twice the same": (entries((3, POSITIONS[1]), (3, POSITIONS[1])), {"index-order"}),
    "half an entry": (entries((3, POSITIONS[1])) + b"\x00\x00\x00", {"index-size"}),
    "zeros behind it": (entries((3, POSITIONS[1])) + bytes(16), {"index-not-trimmed"}),
    "zeros between": (entries((3, POSITIONS[1]), (0, 0), (7, POSITIONS[3])), {"index-entry", "index-order"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_offset_index(directory: Path, fault: str) -> None:
    content, expected = FAULTS[fault]
    index_of(directory).write_bytes(content)
    found = [finding for finding in verify(directory) if finding.code != "index-per-call"]
    assert expected <= {finding.code for finding in found} <= expected | {"index-order", "index-position", "index-offset"}
    assert {finding.severity for finding in found} == {"warning"}
    assert {finding.path for finding in found} == {str(index_of(directory))}
    assert found == [finding for finding in verify(directory, level="headers") if finding.code != "index-per-call"]


TIME_FAULTS = {
    "another timestamp": (entries((TIME + 2, 3), (TIME + 5, 11), layout=TIMES), {"time-index-timestamp"}),
    "another batch": (entries((TIME + 1, 5), (TIME + 5, 11), layout=TIMES), {"time-index-timestamp"}),
    "behind the end": (entries((TIME + 5, 11), (TIME + 6, 13), layout=TIMES), {"time-index-offset"}),
    "negative": (entries((-1, 3), (TIME + 5, 11), layout=TIMES), {"time-index-entry", "time-index-timestamp"}),
    "that falls": (entries((TIME + 3, 7), (TIME + 1, 3), (TIME + 5, 11), layout=TIMES), {"time-index-order"}),
    "not up to the largest": (entries((TIME + 1, 3), layout=TIMES), {"time-index-short"}),
    "nothing": (b"", {"time-index-short"}),
    "half an entry": (entries((TIME + 5, 11), layout=TIMES) + b"\x01", {"index-size"}),
    "zeros behind it": (entries((TIME + 5, 11), layout=TIMES) + bytes(24), {"index-not-trimmed"}),
    "nothing but zeros": (bytes(24), {"index-not-trimmed", "time-index-timestamp", "time-index-short"}),
}


@pytest.mark.parametrize("fault", TIME_FAULTS)
def test_time_index(directory: Path, fault: str) -> None:
    content, expected = TIME_FAULTS[fault]
    index_of(directory, "timeindex").write_bytes(content)
    found = list(verify(directory))
    assert {finding.code for finding in found} == expected
    assert {finding.path for finding in found} == {str(index_of(directory, "timeindex"))}


def test_an_entry_between_batches(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, [a_batch(base_offset=0), a_batch(base_offset=9, timestamp_ms=TIME + 1)])
    index_of(tmp_path, "timeindex").write_bytes(entries((TIME + 1, 5), layout=TIMES))
    assert codes(tmp_path) == ["time-index-offset"]


def test_missing_indexes(directory: Path) -> None:
    index_of(directory).unlink()
    assert codes(directory) == ["index-missing"]
    index_of(directory, "timeindex").unlink()
    found = list(verify(directory))
    assert [finding.path for finding in found] == [str(index_of(directory)), str(index_of(directory, "timeindex"))]
    (directory / "00000000000000000012.log").write_bytes(b"")
    for kind in ("index", "timeindex"):
        (directory / f"00000000000000000012.{kind}").unlink()
    assert len(list(verify(directory))) == 2  # a new segment has no indexes yet


def test_the_active_segment_is_preallocated(directory: Path) -> None:
    for kind, size in (("index", 10 << 20), ("timeindex", (10 << 20) // 12 * 12)):
        with (directory / f"00000000000000000012.{kind}").open("r+b") as file:
            file.truncate(0)
            file.truncate(size)
    assert list(verify(directory)) == []


def test_what_a_truncation_leaves_in_an_index_that_is_written_to() -> None:
    for case in ("truncate-to-inside-batch", "truncate-to-first-segment", "truncate-to-start", "compacted"):
        directory = GOLDEN / "partitions" / case / "open"
        assert codes(directory) == []
        assert "index-stale" in notes(directory)


def test_garbage_in_the_middle_of_it_is_not_what_a_truncation_leaves(directory: Path) -> None:
    last = directory / "00000000000000000012.log"
    batches = [a_batch(base_offset=12 + number, partition_leader_epoch=0) for number in range(4)]
    write_segment(directory, 12, batches)
    with last.with_suffix(".index").open("r+b") as file:
        file.seek(0)
        file.write(entries((1, POSITIONS[1] + 3)))
        file.truncate(400)
    assert codes(directory) == ["index-position"]


def test_entries_of_older_releases(directory: Path) -> None:
    # (last offset of a call, position of its first batch)
    index_of(directory).write_bytes(entries((5, POSITIONS[1]), (11, POSITIONS[3])))
    assert codes(directory) == []
    assert notes(directory) == ["index-per-call"]
    index_of(directory, "timeindex").write_bytes(entries((TIME + 1, 2), (TIME + 5, 10), layout=TIMES))
    assert codes(directory) == []
    assert notes(directory) == ["index-per-call", "time-index-inside"]


def test_times_that_fall(tmp_path: Path) -> None:
    batches = [a_batch(base_offset=number, timestamp_ms=TIME - number) for number in range(4)]
    write_segment(tmp_path, 0, batches)
    assert list(verify(tmp_path)) == []
    index_of(tmp_path, "timeindex").write_bytes(entries((TIME - 2, 2), layout=TIMES))
    assert codes(tmp_path) == ["time-index-behind", "time-index-short"]
    write_segment(tmp_path, 0, [a_batch(base_offset=number) for number in range(4)])
    assert list(verify(tmp_path)) == []
    index_of(tmp_path, "timeindex").write_bytes(entries((TIME, 2), layout=TIMES))
    assert codes(tmp_path) == ["time-index-behind"]  # the first of them counts


def test_an_index_of_garbage_gives_a_few_findings(directory: Path) -> None:
    index_of(directory).write_bytes(b"\xa5" * 80_000)
    found = list(verify(directory))
    assert [finding.code for finding in found].count("index-entry") == MOST_ALIKE + 1
    assert len(found) <= 4 * (MOST_ALIKE + 1)


def test_a_wrong_index_hides_no_bad_batch(directory: Path) -> None:
    shutil.copy(index_of(directory, "timeindex"), index_of(directory))
    log = index_of(directory, "log")
    content = bytearray(log.read_bytes())
    content[POSITIONS[3] + 70] ^= 1
    log.write_bytes(content)
    assert "batch-crc" in codes(directory)
