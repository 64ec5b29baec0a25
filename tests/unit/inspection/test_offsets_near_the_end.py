"""Offsets near 2^63: whatever meets a batch that ends there, or overflows, says so by a typed error, or leaves it alone. In both modes."""

import struct
from pathlib import Path

import pytest

from tests.support.batches import patched
from tests.support.logs import QuietDisk, numbered
from tidelog.disk.disk import OS
from tidelog.disk.published_end import PublishedEnd
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.inspection import plan_repair, salvage, verify
from tidelog.log.log import Log

pytestmark = pytest.mark.leaves
TOP = (1 << 63) - 1
CASES = [(TOP, 0), (TOP, 1), (TOP - 1, 1), (TOP - 1, 5), (TOP, (1 << 31) - 1), (TOP - 9, 1 << 20)]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0] - TOP}+{case[1]}")
def batch(request: pytest.FixtureRequest) -> bytes:
    """A batch with a right CRC and offsets that cannot be."""
    first, delta = request.param
    return patched(patched(numbered(0, 2), 0, struct.pack(">q", first)), 23, struct.pack(">i", delta))


@pytest.fixture(params=[0, TOP - 10], ids=["segment 0", "segment near the end"])
def directory(request: pytest.FixtureRequest, batch: bytes, tmp_path: Path) -> Path:
    found = tmp_path / "tide-0"
    found.mkdir()
    (found / f"{request.param:020d}.log").write_bytes(batch)
    return found


@pytest.mark.parametrize("level", ["headers", "everything", "records"])
def test_verify_finds_it(directory: Path, level: str) -> None:
    errors = {finding.code for finding in verify(directory, level=level) if finding.severity == "error"}  # type: ignore[arg-type]
    assert errors & {"batch-offsets", "offset-overflow"}


def test_repair_leaves_it_alone(directory: Path) -> None:
    plan = plan_repair(directory)
    assert plan.unrepaired
    assert "salvage" in plan.unrepaired[0].hint
    assert not [action for action in plan.actions if "split" in action.what]


def test_salvage_leaves_it_out(directory: Path, tmp_path: Path) -> None:
    report = salvage(directory, tmp_path / "new" / "tide-0", disk=QuietDisk())
    assert report.batch_count == 0
    assert report.log_end_offset <= TOP
    assert report.bad_files


def test_opening_is_refused_by_a_typed_error(directory: Path) -> None:
    with pytest.raises(TidelogError):
        Log.open(directory, last_shutdown_clean=False).close()


def test_a_reader_raises_nothing_else(directory: Path) -> None:
    with Log.open(directory, mode="r") as log:
        try:
            offsets = [record.offset for record in log.read(isolation="log_end")]
        except TidelogError:
            return
        assert all(0 <= offset <= TOP for offset in offsets)


def test_an_end_behind_all_offsets_is_not_published(tmp_path: Path) -> None:
    published = PublishedEnd.open_for_writing(OS, str(tmp_path))
    published.publish(TOP, 0, 10, 0)
    with pytest.raises(DamagedLogError, match="the last offset that there can be"):
        published.publish(TOP + 1, 0, 10, 0)
