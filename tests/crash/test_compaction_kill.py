"""kill -9 of a process that appends and compacts: what was acknowledged is there, or a later record of its key is."""

from pathlib import Path
from random import Random

from tests.crash.compactor import record_of
from tests.support.compaction_kill import Compactors, compaction_kill_round, faults_of

ROUNDS = 12


def test_nothing_acknowledged_is_missing_after_a_kill(tmp_path: Path) -> None:
    draw = Random(8)
    with Compactors() as compactors:
        for number in range(ROUNDS):
            assert compaction_kill_round(compactors, tmp_path / str(number), draw) == [], f"round {number}"
        assert compactors.others["passes"] > ROUNDS  # killed in the middle of something
        assert compactors.others["failed"] == 0


def test_what_is_missing_would_be_found() -> None:
    """The check itself: a key that comes twice, the later record lost, and the earlier one gone already."""
    key = record_of(0)[0]
    later = next(number for number in range(1, 200) if record_of(number)[0] == key)
    acknowledged = {0: 0, 1: later}
    assert faults_of({0: record_of(0), 1: record_of(later)}, acknowledged, [0]) == []
    assert faults_of({1: record_of(later)}, acknowledged, [0]) == []
    assert len(faults_of({0: record_of(0)}, acknowledged, [0])) == 1
    assert len(faults_of({}, acknowledged, [0])) == 2
    assert len(faults_of({0: record_of(0), 1: record_of(0)}, acknowledged, [0])) == 1
    assert len(faults_of({1: record_of(later), 2: record_of(later)}, acknowledged, [0])) == 1
