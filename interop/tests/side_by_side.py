"""The same steps on a log of Kafka's and on one of ours: compared, and where they differ, made as short as that allows.

A case is a folder with a case.json. Kafka plays all cases of a folder (`Judge.play`), ours are replayed one by one. What is left of a
sequence that failed is kept in interop/regressions, as a case without answers, and is played from then on.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interop.judge import Judge
from tests.support.golden_partitions import Replay, file_differences

REGRESSIONS = Path(__file__).parents[1] / "regressions"
_ANSWERS = ("result", "error")
_EMPTY_TXN_INDEX = re.compile(r"\d+\.txnindex is only here \(0 bytes\)")
"""What is left where a log begins anew under the same file names: we empty the files, Kafka deletes them. It reads both alike."""

Differ = Callable[[Path, Path], list[str]]


def differences(case: Path, work: Path) -> list[str]:
    """How our log differs from what Kafka did: after a step, or in the files at the end, open and closed."""
    return differences_of(Replay(case, work))


def differences_of(replay: Replay) -> list[str]:
    """The same, of a log that goes through the steps in its own way."""
    case = replay.folder
    unopened = next((at for at, step in enumerate(replay.case["steps"]) if step["op"] == "reopen" and "error" in step), None)
    if unopened is not None:  # Kafka cannot open what it has written, so that there is nothing to compare with from there on
        replay.case["steps"] = replay.case["steps"][:unopened]
        with contextlib.closing(replay.log):
            return replay.run()
    if "close_error" in replay.case:
        return [f"Kafka could not close its log: {replay.case['close_error']}"]
    try:
        found = replay.run()
        epochs = [list(entry) for entry in replay.log.leader_epochs]
        if epochs != replay.case["leader_epochs"]:
            found.append(f"the leader epochs are {replay.case['leader_epochs']} in Kafka, {epochs} here")
        replay.log.flush()
        found += file_differences(case / "open", replay.directory, used_prefix=True)
    finally:
        replay.log.close()
    found += file_differences(case / "closed", replay.directory)
    return [difference for difference in found if not _EMPTY_TXN_INDEX.fullmatch(difference)]


def kind_of(difference: str) -> str:
    """A difference without its numbers, by which it is known again in a shorter sequence."""
    return re.sub(r"\d+", "N", difference.split(":")[0])


def shrink(case: dict[str, Any], kind: str, work: Path, judge: Judge, differ: Differ = differences) -> dict[str, Any]:
    """The case with as few steps as still show a difference of this kind."""
    size = max(1, len(case["steps"]) // 2)
    for round_number in range(40):
        steps = case["steps"]
        shorter = [case | {"steps": steps[:at] + steps[at + size :]} for at in range(0, len(steps), size)]
        failing = _first_of_kind(shorter, kind, work / str(round_number), judge, differ)
        if failing is not None:
            case = failing
            size = min(size, max(1, len(case["steps"]) // 2))
        elif size == 1:
            break
        else:
            size //= 2
    return case


def _first_of_kind(cases: list[dict[str, Any]], kind: str, work: Path, judge: Judge, differ: Differ) -> dict[str, Any] | None:
    """The first of these that differs in this way."""
    for number, case in enumerate(cases):
        folder = work / "cases" / f"{number:04}"
        folder.mkdir(parents=True)
        (folder / "case.json").write_text(json.dumps(case))
    judge.play(work / "cases")
    found = None
    for number, case in enumerate(cases):
        folder = work / "cases" / f"{number:04}"
        differing = differ(folder, work / "ours" / str(number))
        if differing and kind_of(differing[0]) == kind:  # not any of them: what follows from another one is something else
            found = case
            break
    shutil.rmtree(work)
    return found


def without_answers(case: dict[str, Any]) -> dict[str, Any]:
    """The case as it was before Kafka played it."""
    steps = [{name: value for name, value in step.items() if name not in _ANSWERS} for step in case["steps"]]
    return {"name": case["name"], "about": case["about"], "config": case["config"], "steps": steps}


def keep_regression(case: Path, found: list[str], work: Path, judge: Judge, into: Path = REGRESSIONS, differ: Differ = differences) -> Path:
    """Shrink a case that differs and keep what is left."""
    document = without_answers(json.loads((case / "case.json").read_text()))
    shortest = shrink(document, kind_of(found[0]), work, judge, differ)
    into.mkdir(exist_ok=True)
    kept = into / f"{document['name']}.json"
    kept.write_text(json.dumps(shortest | {"about": f"shrunk from {len(document['steps'])} steps: {found[0]}"}, indent=1) + "\n")
    return kept
