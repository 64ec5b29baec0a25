"""The same log cleaned by Kafka's Cleaner and by ours, and what differs (`tests/support/cleaning_replay.py`).

Ours is the local one, or the one in parts, which is what the job on Spark runs (`tests/support/in_parts.py`). That has no map, so there it
ends at a round whose map was full.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interop.tests.side_by_side import REGRESSIONS as ALL_REGRESSIONS
from interop.tests.side_by_side import differences_of
from tests.support.cleaning_replay import CleaningReplay
from tests.support.in_parts import PartedReplay

REGRESSIONS = ALL_REGRESSIONS / "compaction"

_FAILURES = (
    # Segments that it merges just fill an index: but one that is full but for one entry takes no more.
    "Attempt to append to a full time index",
    "Attempt to append to a full index",
    # The last batch of a round stays, though nothing of it does, and is of an old format.
    "Empty batches are only supported for magic v2",
)
"""What Kafka's cleaner fails with, and ours does not. A broker would mark the partition uncleanable."""

_EPOCHS = re.compile("leader-epoch-checkpoint|the leader epochs are")


def differences(case: Path, work: Path) -> list[str]:
    """How our log differs from Kafka's, in any step or any file."""
    return _differences(CleaningReplay(case, work), _is_failure)


def differences_in_parts(case: Path, work: Path, *, piece_bytes: int, task_bytes: int) -> list[str]:
    """The same, cleaned in parts of these sizes."""
    replay = PartedReplay(case, work, piece_bytes=piece_bytes, task_bytes=task_bytes)
    return _differences(replay, lambda step: _is_failure(step) or _has_full_map(step))


def _differences(replay: CleaningReplay, ends: Callable[[dict[str, Any]], bool]) -> list[str]:
    steps = replay.case["steps"]
    unclean = next((at for at, step in enumerate(steps) if step["op"] == "clean" and ends(step)), None)
    if unclean is not None:
        replay.case["steps"] = steps[:unclean]
        try:
            found = replay.run()
        finally:
            replay.log.close()
    else:
        found = differences_of(replay) if replay.compare_bytes else replay.run_to_the_end()
    # With a batch of an old format Kafka forgets its leader epochs; we keep them.
    return [difference for difference in found if not (replay.has_legacy and _EPOCHS.search(difference))]


def _is_failure(step: dict[str, Any]) -> bool:
    return (step.get("error", {}).get("message") or "").startswith(_FAILURES)


def _has_full_map(step: dict[str, Any]) -> bool:
    result = step.get("result") or {}
    return bool(result.get("next_dirty_offset", 0) < result.get("bound", 0)) and "next_dirty_offset" in result
