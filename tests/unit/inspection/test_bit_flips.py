"""One bit flipped anywhere: verify tells, or it does no harm, or it is on the list of what the format cannot show (docs/verify.md)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import load_case
from tests.support.logs import TIME, a_batch
from tests.support.verified import write_epochs, write_segment
from tidelog.disk.checkpoints import format_offsets, parse_offsets
from tidelog.disk.names import TopicPartition
from tidelog.disk.partition_metadata import parse_metadata
from tidelog.disk.published_end import PUBLISHED_END, FlushedEnd, format_flushed_end
from tidelog.errors import TidelogError
from tidelog.inspection import verify, verify_log_directory
from tidelog.log.log import Log

UNSEEN_HEADER_BYTES = {
    "base offset": range(8),
    "partition leader epoch": range(12, 16),
}
"""Of a batch: what lies outside of its CRC, and is found only if something else says it too. The size and the magic always are."""


def complaints(directory: Path, **options: Any) -> set[object]:
    return {finding for finding in verify(directory, **options) if finding.severity != "note"}


def everything_read(directory: Path, work: Path, config: dict[str, str]) -> object:
    """All that a reader can learn from a log: its batches, where times are, which epoch an offset has."""
    copy = work / "copy" / "tide-0"
    shutil.copytree(directory, copy)
    try:
        with Log.open(copy, config=config, last_shutdown_clean=True, recovery_point=0, log_start_offset=0, clock=lambda: TIME) as log:
            end = log.log_end_offset
            times = [log.offset_for_time(TIME + ms, isolation="log_end") for ms in range(-1, 70)]
            fetched = [log.fetch(offset, 1, isolation="log_end").data for offset in range(log.log_start_offset, end)]
            return end, times, [bytes(data) for data in fetched], [log.end_offset_for_epoch(epoch) for epoch in range(10)]
    except TidelogError as error:
        return type(error)
    finally:
        shutil.rmtree(copy.parent)


@pytest.mark.parametrize(
    ("case", "masks"),
    [
        ("transactions", (0x01, 0x80)),
        pytest.param("transactions", (0x02, 0x04, 0x08, 0x10, 0x20, 0x40), marks=pytest.mark.slow),
        ("leader-epochs", (0x02,)),
    ],
    ids=["transactions", "transactions, all other bits", "leader-epochs"],
)
def test_every_byte_of_every_file(tmp_path: Path, case: str, masks: tuple[int, ...]) -> None:
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "partitions" / case / "closed", directory)
    config = load_case(GOLDEN / "partitions" / case)["config"]
    before, sound = complaints(directory), everything_read(directory, tmp_path, config)
    count = 0
    harmful = []
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        for position in range(len(content)):
            for mask in masks:
                flipped = bytearray(content)
                flipped[position] ^= mask
                path.write_bytes(flipped)
                count += 1
                if complaints(directory) <= before and everything_read(directory, tmp_path, config) != sound:
                    harmful.append((path.name, position, mask))
        path.write_bytes(content)
    assert count > 1000
    # In these dense logs something else says every field outside of the CRC; only the start of the first leader epoch stands alone,
    # since the start of a log may have been moved.
    assert {(name, position) for name, position, _ in harmful} <= {("leader-epoch-checkpoint", 6)}


def flips(path: Path) -> Iterator[tuple[int, bytes]]:
    """Where a bit was flipped and what the file is then, for each bit in turn; in the end it is as it was."""
    content = path.read_bytes()
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        yield bit // 8, bytes(flipped)
    path.write_bytes(content)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log directory with one partition."""
    shutil.copytree(GOLDEN / "partitions" / "transactions" / "closed", tmp_path / "home" / "tide-0")
    return tmp_path / "home"


def test_every_bit_of_the_flushed_end(home: Path) -> None:
    path = home / "tide-0" / PUBLISHED_END
    path.write_bytes(format_flushed_end(FlushedEnd(12, 11, 76, 0)))
    assert complaints(home / "tide-0") == set()
    assert [position for position, _ in flips(path) if not complaints(home / "tide-0")] == []


def test_every_bit_of_the_topic_id(home: Path) -> None:
    path = home / "tide-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: hJ3Qm0GLTzqLmWvYqL2kVw")
    assert complaints(home / "tide-0") == set()
    missed = [(position, content) for position, content in flips(path) if not complaints(home / "tide-0")]
    assert missed
    # One id is as good as another; all else is the same file to a reader.
    for position, content in missed:
        is_in_id = position >= content.index(b"topic_id: ") + len("topic_id: ")
        assert is_in_id or parse_metadata(content, "") == parse_metadata(path.read_bytes(), ""), content


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("recovery-point-offset-checkpoint", 12),
        ("replication-offset-checkpoint", 10),
        ("log-start-offset-checkpoint", 5),
        ("cleaner-offset-checkpoint", 11),
    ],
)
def test_every_bit_of_the_checkpoints(name: str, offset: int, home: Path) -> None:
    path = home / name
    partition = TopicPartition("tide", 0)
    path.write_bytes(format_offsets({partition: offset}))
    assert list(verify_log_directory(home)) == []
    missed = [content for _, content in flips(path) if not list(verify_log_directory(home))]
    assert missed
    # An offset that the log has could be the right one; all else is the same file to a reader.
    for content in missed:
        assert 0 <= parse_offsets(content, name)[partition] <= 12, content
        assert content.split()[:-1] == path.read_bytes().split()[:-1] or parse_offsets(content, name) == {partition: offset}, content


def undetected(directory: Path, log: Path, positions: range) -> set[int]:
    """Bytes of a file where a flipped bit goes unnoticed."""
    content = log.read_bytes()
    before = complaints(directory)
    missed = set()
    for position in positions:
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            log.write_bytes(flipped)
            if complaints(directory) <= before:
                missed.add(position - positions.start)
    log.write_bytes(content)
    return missed


def test_what_the_format_cannot_show(tmp_path: Path) -> None:
    # Compacted, sparsely indexed, and without leader epochs: nothing says again where a batch is, or whose it was.
    batches = [a_batch(base_offset=offset, partition_leader_epoch=4) for offset in (0, 1000, 50_000)]
    write_segment(tmp_path, 0, batches)
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    log = tmp_path / "00000000000000000000.log"
    second = len(batches[0])
    missed = undetected(tmp_path, log, range(second, second + len(batches[1])))
    listed = {position for positions in UNSEEN_HEADER_BYTES.values() for position in positions}
    assert missed
    assert missed <= listed
    # The first leader epoch is told apart as soon as there is an entry for it, and offsets as soon as the log is dense.
    dense = [a_batch(base_offset=offset, partition_leader_epoch=4) for offset in range(3)]
    write_segment(tmp_path, 0, dense)
    write_epochs(tmp_path, (4, 0))
    assert undetected(tmp_path, log, range(len(dense[0]), 2 * len(dense[0]))) == set()
