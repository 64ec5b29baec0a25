"""Kafka's log cleaner and ours make the same of the same logs: what is chosen, what is counted, every file after every round.

TIDELOG_INTEROP_LOGS says how many random logs are cleaned, TIDELOG_INTEROP_SEED with which seed they begin. One that fails is shrunk and
kept in interop/regressions/compaction: commit it with the fix.
"""

import json
import os
from pathlib import Path

import pytest

from interop.judge import Judge
from interop.tests.compaction_side_by_side import REGRESSIONS, differences, differences_in_parts
from interop.tests.random_logs_to_clean import write_case
from interop.tests.side_by_side import keep_regression

LOGS = int(os.environ.get("TIDELOG_INTEROP_LOGS", "300"))
FIRST_SEED = int(os.environ.get("TIDELOG_INTEROP_SEED", "0"))
KEPT = sorted(path.stem for path in REGRESSIONS.glob("*.json"))


@pytest.fixture(scope="module")
def logs(memory: Path, judge: Judge) -> Path:
    """Random logs, and those that failed once, cleaned by Kafka."""
    folder = memory / "logs"
    for seed in range(FIRST_SEED, FIRST_SEED + LOGS):
        write_case(seed, folder / str(seed), memory / "author" / str(seed))
    for name in KEPT:
        (folder / name).mkdir(parents=True)
        (folder / name / "case.json").write_bytes((REGRESSIONS / f"{name}.json").read_bytes())
    judge.play(folder)
    return folder


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + LOGS))
def test_same_records_and_same_files(seed: int, logs: Path, memory: Path, judge: Judge) -> None:
    found = differences(logs / str(seed), memory / "replay" / str(seed))
    if found:
        kept = keep_regression(logs / str(seed), found, memory / "shrink" / str(seed), judge, REGRESSIONS, differences)
        pytest.fail("\n".join([f"seed {seed}, shrunk into {kept}:", *found]))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + LOGS))
def test_same_files_in_parts_as_on_spark(seed: int, logs: Path, memory: Path) -> None:
    """The stages of `tidelog.spark.jobs.compact`, each task done twice, by parts of one batch up to whole logs."""
    piece_bytes, task_bytes = ((1, 1), (300, 700), (300, 5000), (1 << 20, 1 << 20))[seed % 4]
    assert differences_in_parts(logs / str(seed), memory / "parts" / str(seed), piece_bytes=piece_bytes, task_bytes=task_bytes) == []


@pytest.mark.parametrize("name", KEPT)
def test_what_failed_once(name: str, logs: Path, memory: Path) -> None:
    assert differences(logs / name, memory / "replay" / name) == []


def test_the_logs_have_what_makes_cleaning_hard(logs: Path) -> None:
    """Of every kind of round there are some: that it drops records, fills its map, finds records without a key, merges segments."""
    seen = dict.fromkeys(("rounds", "dropped", "full map", "no key", "merged", "nothing cleanable", "eligible", "not eligible"), 0)
    for seed in range(FIRST_SEED, FIRST_SEED + LOGS):
        segments = 0
        for step in json.loads((logs / str(seed) / "case.json").read_text())["steps"]:
            result = step.get("result") or {}
            if step["op"] == "choose" and result:
                seen["eligible" if result["is_eligible"] else "not eligible"] += 1
            if step["op"] == "clean" and "next_dirty_offset" in result:
                seen["rounds"] += 1
                seen["dropped"] += result["messages_written"] < result["messages_read"]
                seen["full map"] += result["next_dirty_offset"] < result["bound"]
                seen["no key"] += result["invalid_messages_read"] > 0
                seen["merged"] += len(step["segment_bases"]) < segments
            elif step["op"] == "clean" and result:
                seen["nothing cleanable"] += 1
            segments = len(step.get("segment_bases", ())) or segments
    few = {what: count for what, count in seen.items() if count < LOGS // 10}
    assert not few, seen
