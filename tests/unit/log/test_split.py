"""A segment whose offsets are too far apart is split when it is met: its aborted transactions stay aborted, whatever stop came before."""

import shutil
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import follower_batches, open_log
from tests.support.producers import end_of_txn, in_txn, placed
from tidelog.config import LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.errors import DamagedLogError
from tidelog.inspection import apply_repair, plan_repair
from tidelog.log.segment import Segment
from tidelog.log.split import cleaned_pieces, pieces_of

FAR = (1 << 31) + 7
STEPS = (
    (0, in_txn(1, 0, 2)),
    (2, in_txn(2, 0, 2)),
    (4, end_of_txn(1, "abort")),
    (5, end_of_txn(2, "commit")),
    (6, in_txn(2, 2, 1)),
    (FAR, end_of_txn(2, "abort")),  # of a transaction that begins in the segment before
    (FAR + 1, in_txn(1, 2, 3)),
    (FAR + 4, end_of_txn(1, "abort")),
    (2 * FAR, in_txn(3, 0, 2)),
    (2 * FAR + 2, end_of_txn(3, "commit")),
)
COMMITTED = [2, 3, 2 * FAR, 2 * FAR + 1]


@pytest.fixture
def overflowing(tmp_path: Path) -> tuple[Path, Path]:
    """A log in segments as they should be; and the same in one, as a broker before 2.0 could leave it by compaction, without an index."""
    with open_log(tmp_path / "right") as log:
        for offset, batch in STEPS:
            log.append_as_follower(placed(offset, batch))
    right, wrong = Path(log.directory), tmp_path / "wrong" / "tide-0"
    assert len(list(right.glob("*.log"))) == 3
    assert len(list(right.glob("*.txnindex"))) == 2
    shutil.copytree(right, wrong)
    for kind in (".log", ".txnindex"):
        content = b"".join(path.read_bytes() for path in sorted(right.glob(f"*{kind}")))
        for path in wrong.glob(f"*{kind}"):
            path.unlink()
        (wrong / f"{0:020d}{kind}").write_bytes(content)
    for path in (*wrong.glob("*.index"), *wrong.glob("*.timeindex")):
        path.unlink()
    return right, wrong


def files(directory: Path, *kinds: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in kinds}


@pytest.mark.parametrize("was_clean", [True, False])
def test_the_pieces_have_the_transactions_of_the_whole(was_clean: bool, overflowing: tuple[Path, Path]) -> None:
    right, wrong = overflowing
    with open_log(wrong.parent, last_shutdown_clean=was_clean) as log:
        assert any("split segment 0" in action for action in log.load_report.actions)
        assert [record.offset for record in log.read(isolation="committed")] == COMMITTED
    assert files(wrong, ".log", ".txnindex") == files(right, ".log", ".txnindex")


def test_also_by_a_repair(overflowing: tuple[Path, Path]) -> None:
    right, wrong = overflowing
    apply_repair(plan_repair(wrong))
    assert files(wrong, ".log", ".txnindex") == files(right, ".log", ".txnindex")
    assert plan_repair(wrong).is_empty


def test_where_it_is_split(overflowing: tuple[Path, Path]) -> None:
    _, wrong = overflowing
    size = (wrong / f"{0:020d}.log").stat().st_size
    segment = Segment(FilePool(), str(wrong), 0, size_bytes=size, index_bytes=0, time_index_bytes=0)
    pieces = pieces_of(segment)
    assert [base_offset for base_offset, _, _ in pieces] == [0, FAR, 2 * FAR]
    assert pieces[0][1] == 0
    assert pieces[-1][2] == size


@pytest.mark.leaves
@pytest.mark.parametrize("has_next", [True, False])
@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_a_base_offset_gone_bad_is_no_reason(damaged: int, has_next: bool, tmp_path: Path) -> None:
    """No CRC covers it. A split would make a segment at that offset, and what follows would be cut off as not in order."""
    with open_log(tmp_path, {"index.interval.bytes": 1 << 20}) as log:
        for offset in range(0, 8, 2):
            log.append_as_follower(follower_batches((offset, 2)))
        if has_next:
            log.roll()
            log.append_as_follower(follower_batches((8, 2)))
    if damaged == 3 and not has_next:
        return  # the last batch of all: nothing tells that a broker has not left that gap
    path = Path(log.directory) / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[damaged * len(content) // 4 + 2] ^= 1  # 2^40 further
    path.write_bytes(content)
    before = files(Path(log.directory), ".log")
    with pytest.raises(DamagedLogError) as raised:
        open_log(tmp_path, {"index.interval.bytes": 1 << 20}, last_shutdown_clean=False, recovery_point=0)
    assert raised.value.path == str(path)
    assert files(Path(log.directory), ".log") == before


@pytest.mark.leaves
def test_a_part_of_a_batch_is_not_dropped_by_a_split(overflowing: tuple[Path, Path]) -> None:
    _, wrong = overflowing
    path = wrong / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])
    before = files(wrong, ".log")
    with pytest.raises(DamagedLogError, match="cut off"):
        open_log(wrong.parent, last_shutdown_clean=False)
    assert files(wrong, ".log") == before


def test_pieces_that_were_not_finished_go(overflowing: tuple[Path, Path]) -> None:
    _, wrong = overflowing
    disk = FaultyDisk()
    size = (wrong / f"{0:020d}.log").stat().st_size
    segment = Segment(FilePool(disk), str(wrong), 0, size_bytes=size, index_bytes=0, time_index_bytes=0)
    before = {path.name for path in wrong.iterdir()}
    disk.fail(1, kind="create", on=f"{2 * FAR:020d}.index.cleaned")
    with pytest.raises(OSError, match="ordered"):
        cleaned_pieces(segment, LogConfig())
    assert {path.name for path in wrong.iterdir()} == before
