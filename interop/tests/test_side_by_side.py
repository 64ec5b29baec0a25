"""Kafka's log and ours do the same with the same calls, step by step and file by file.

TIDELOG_INTEROP_SEQUENCES says how many random sequences are compared, TIDELOG_INTEROP_SEED with which seed they begin. A sequence that
fails is shrunk and kept in interop/regressions: commit it with the fix.
"""

import json
import os
from pathlib import Path

import pytest

from interop.judge import Judge
from interop.tests.random_steps import write_case
from interop.tests.side_by_side import REGRESSIONS, differences, keep_regression
from tidelog.log.segment import Segment

SEQUENCES = int(os.environ.get("TIDELOG_INTEROP_SEQUENCES", "300"))
FIRST_SEED = int(os.environ.get("TIDELOG_INTEROP_SEED", "0"))
KEPT = sorted(path.stem for path in REGRESSIONS.glob("*.json"))


@pytest.fixture(scope="module")
def sequences(memory: Path, judge: Judge) -> Path:
    """Random sequences of calls, and those that failed once, with Kafka's answers."""
    folder = memory / "sequences"
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        write_case(seed, folder / str(seed), memory / "author" / str(seed))
    for name in KEPT:
        (folder / name).mkdir(parents=True)
        (folder / name / "case.json").write_bytes((REGRESSIONS / f"{name}.json").read_bytes())
    judge.play(folder)
    return folder


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEQUENCES))
def test_same_answers_and_same_files(seed: int, sequences: Path, memory: Path, judge: Judge) -> None:
    found = differences(sequences / str(seed), memory / "replay" / str(seed))
    if found:
        kept = keep_regression(sequences / str(seed), found, memory / "shrink" / str(seed), judge)
        pytest.fail("\n".join([f"seed {seed}, shrunk into {kept}:", *found]))


@pytest.mark.parametrize("name", KEPT)
def test_what_failed_once(name: str, sequences: Path, memory: Path) -> None:
    assert differences(sequences / name, memory / "replay" / name) == []


def test_a_sequence_that_fails_is_shrunk_and_kept(memory: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that forgets to write the last time entry of a segment differs; two steps are enough to show it."""
    monkeypatch.setattr(Segment, "_append_last_time_entry", lambda segment: None)
    for seed in range(99):
        folder = memory / "broken" / str(seed)
        write_case(seed, folder / "case", memory / "broken" / f"author-{seed}")
        judge.play(folder)
        found = differences(folder / "case", memory / "broken" / f"replay-{seed}")
        if found:
            break
    kept = keep_regression(folder / "case", found, memory / "broken" / "shrink", judge, memory / "kept")
    steps = json.loads(kept.read_text())["steps"]
    assert 1 <= len(steps) <= 3
    assert all("result" not in step for step in steps)
