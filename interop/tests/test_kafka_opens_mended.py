"""A real UnifiedLog opens what repair and salvage made of every golden directory, as after a clean stop, and finds nothing to mend."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from interop.judge import Judge
from tests.support.golden_partitions import golden_cases, load_case
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.salvage import salvage

LATER = (".snapshot", "leader-epoch-checkpoint", ".deleted")
"""What Kafka writes when it opens or closes a log that is in order: a snapshot, and epochs without those that begin at its very end."""


def repaired(folder: Path, directory: Path) -> bool:
    case = load_case(folder)
    shutil.copytree(folder / "before", directory)
    plan = plan_repair(directory, config=case["config"])
    if plan.unrepaired or plan.is_empty:
        return False
    apply_repair(plan)
    return True


def salvaged(folder: Path, directory: Path) -> bool:
    if not list((folder / "before").glob("*.log")):
        return False
    salvage(folder / "before", directory, index_interval_bytes=int(load_case(folder)["config"]["index.interval.bytes"]))
    return True


@pytest.mark.parametrize("mend", [repaired, salvaged], ids=["repair", "salvage"])
def test_kafka_finds_nothing_to_mend(mend: Any, memory: Path, judge: Judge) -> None:
    jobs: list[dict[str, Any]] = []
    before: dict[str, dict[str, bytes]] = {}
    for folder in golden_cases("recovery"):
        case = load_case(folder)
        directory = memory / mend.__name__ / folder.name / "tide-0"
        directory.parent.mkdir(parents=True)
        if case["log_start_offset"] or not mend(folder, directory):
            continue
        before[str(directory)] = {path.name: path.read_bytes() for path in directory.iterdir()}
        jobs.append(
            {
                "directory": str(directory),
                "config": case["config"],
                "log_start_offset": 0,
                "recovery_point": 0,
                "last_shutdown_clean": True,
                "now_ms": case["now_ms"],
                "times": [],
                "closed": str(directory.parent / "closed"),
            }
        )
    assert len(jobs) > 70
    for job, answer in zip(jobs, judge.open_logs(jobs), strict=True):
        assert "error" not in answer, (job, answer)
        closed = {path.name: path.read_bytes() for path in Path(job["closed"]).iterdir()}
        for name, content in before[job["directory"]].items():
            assert name.endswith(LATER) or closed[name] == content, (job["directory"], name)
