"""Compaction in parts without Spark: tasks are done one after the other here, as values that travelled."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cleaning_replay import CleaningReplay
from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.parts_cleaning import clean_in_parts
from tidelog.compaction.parts_outcome import NotInParts
from tidelog.compaction.plan import CleaningPlan
from tidelog.log.log import Log

SECRET = bytes(range(16))
NOT_COUNTED = ("map_bytes_read", "map_messages_read", "buffer_utilization")
"""Of pieces that are read whole, not only as far as a map goes."""


class TasksHere:
    """Does every task twice, as a cluster may, and takes the second answer."""

    def __init__(self, folder: Path, workers: int = 3) -> None:
        self.folder = folder
        self.workers = workers
        self.stages: list[tuple[str, int]] = []
        self._calls = 0

    def run(self, what: str, function: Callable[[Any, str], Any], tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        self.stages.append((what, len(tasks)))
        return [self._twice(function, task) for task in tasks]

    def _twice(self, function: Callable[[Any, str], Any], task: Any) -> Any:
        for _ in range(2):
            self._calls += 1
            answer = function(pickle.loads(pickle.dumps(task)), f"{self.folder}/{self._calls}")
        return pickle.loads(pickle.dumps(answer))


def clean_parted(
    log: Log, plan: CleaningPlan, folder: Path, *, piece_bytes: int = 300, task_bytes: int = 700, drop_null_keys: bool = False
) -> CleanedLog:
    """One pass over a log in small parts. What cannot be done in parts is done in one go."""
    folder.mkdir(exist_ok=True)
    tasks = TasksHere(folder)
    options = {"secret": SECRET, "piece_bytes": piece_bytes, "task_bytes": task_bytes}
    (outcome,) = clean_in_parts([(log, plan)], tasks, drop_null_keys=drop_null_keys, **options)  # type: ignore[arg-type]
    if isinstance(outcome, NotInParts):
        return clean_log(log, plan, OffsetMap(1 << 20), plan.now_ms, drop_null_keys=drop_null_keys)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass
class PartedReplay(CleaningReplay):
    """Rounds of Kafka's cleaner, done in parts. Only what a map would have counted is not compared."""

    piece_bytes: int = 300
    task_bytes: int = 700

    def _cleaned(self, plan: CleaningPlan, step: dict[str, Any]) -> CleanedLog:
        folder = self.directory.parent / f"staging-{self.directory.name}-{self.rounds}"
        return clean_parted(self.log, plan, folder, piece_bytes=self.piece_bytes, task_bytes=self.task_bytes, drop_null_keys=True)

    def _compare(self, label: str, expected: Any, answer: dict[str, Any]) -> None:
        super()._compare(label, expected, {name: value for name, value in answer.items() if name not in NOT_COUNTED})
