"""The same log cleaned by Kafka's Cleaner and by ours, and what differs (`tests/support/cleaning_replay.py`)."""

import re
from pathlib import Path
from typing import Any

from interop.tests.side_by_side import REGRESSIONS as ALL_REGRESSIONS
from interop.tests.side_by_side import differences_of
from tests.support.cleaning_replay import CleaningReplay

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
    replay = CleaningReplay(case, work)
    steps = replay.case["steps"]
    unclean = next((at for at, step in enumerate(steps) if step["op"] == "clean" and _is_failure(step)), None)
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
