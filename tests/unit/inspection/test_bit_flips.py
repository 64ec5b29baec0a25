"""One bit flipped anywhere: verify tells, or it does no harm, or it is on the list of what the format cannot show (docs/verify.md)."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import load_case
from tests.support.logs import TIME, a_batch
from tests.support.verified import write_epochs, write_segment
from tidelog.errors import TidelogError
from tidelog.inspection import verify
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


@pytest.mark.parametrize(("case", "masks"), [("transactions", (0x01, 0x80)), ("leader-epochs", (0x02,))])
def test_every_byte_of_every_file(tmp_path: Path, case: str, masks: tuple[int, ...]) -> None:
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "partitions" / case / "closed", directory)
    config = load_case(GOLDEN / "partitions" / case)["config"]
    before, sound = complaints(directory), everything_read(directory, tmp_path, config)
    flips = 0
    harmful = []
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        for position in range(len(content)):
            for mask in masks:
                flipped = bytearray(content)
                flipped[position] ^= mask
                path.write_bytes(flipped)
                flips += 1
                if complaints(directory) <= before and everything_read(directory, tmp_path, config) != sound:
                    harmful.append((path.name, position, mask))
        path.write_bytes(content)
    assert flips > 1000
    # In these dense logs something else says every field outside of the CRC; only the start of the first leader epoch stands alone,
    # since the start of a log may have been moved.
    assert {(name, position) for name, position, _ in harmful} <= {("leader-epoch-checkpoint", 6)}


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
