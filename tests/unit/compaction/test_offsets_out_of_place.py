"""A base offset that is damaged: no CRC covers it. Compaction says so, and changes nothing."""

from pathlib import Path

import pytest

from tests.support.logs import TIME
from tidelog.errors import DamagedLogError
from tidelog.record import NewBatch
from tidelog.store.store import Store

BATCHES = 4


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three segments of four batches of ten records, and the active one."""
    with Store.open(tmp_path / "data", background=False, clock=lambda: TIME) as store:
        log = store.create_topic("tide", config={"cleanup.policy": "compact"}).log(0)
        for _ in range(3):
            for number in range(BATCHES):
                log.append(NewBatch([(b"key-%d" % number, b"v" * 20, (), TIME)] * 10).encode())
            log.roll()
    return tmp_path / "data"


@pytest.mark.parametrize("byte", [0, 3, 6], ids=["too far for a segment", "just too far", "in the next segment"])
@pytest.mark.leaves
def test_nothing_is_changed(directory: Path, byte: int) -> None:
    path = directory / "tide-0" / f"{40:020}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 + byte] ^= 1
    path.write_bytes(content)
    before = {file.name: file.read_bytes() for file in (directory / "tide-0").glob("*.log")}
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        for _ in range(2):
            (failure,) = store.compact("tide").failures
            assert isinstance(failure.error, DamagedLogError)
            assert failure.error.position == len(content) // 2
            assert "belong" in str(failure.error)
    assert {file.name: file.read_bytes() for file in (directory / "tide-0").glob("*.log")} == before
