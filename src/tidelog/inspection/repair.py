"""Repair a partition directory in place: plan first, then do what the plan says, and keep the old bytes of whatever is replaced.

    plan = plan_repair(directory)         reads everything, changes nothing; `print(plan)`
    report = apply_repair(plan)           owns the directory while it works

What is built anew are files that follow from the batches: indexes, transaction indexes, producer snapshots, leader epochs. A segment whose
offsets are too far apart is split, leftovers of interrupted work go. A torn batch at the very end is cut off. Nothing else is ever taken
out of the log unless `cut_at` names the place: a damaged batch with sound ones behind it is for salvage.

Only what is broken is touched; a file that is right keeps its bytes and its time.
"""

import os
from typing import Any

from tidelog.config import LogConfig
from tidelog.disk.disk import OS, Disk
from tidelog.errors import TidelogError
from tidelog.inspection.repair_apply import carry_out
from tidelog.inspection.repair_examine import examine
from tidelog.inspection.repair_files import PartitionFiles
from tidelog.inspection.repair_plan import Action, FinishSwap, RemoveLeftover, RepairPlan, RepairReport
from tidelog.log.storage_errors import storage_error

__all__ = ["RepairPlan", "RepairReport", "apply_repair", "plan_repair"]


def plan_repair(
    directory: str | os.PathLike[str],
    *,
    disk: Disk = OS,
    cut_at: tuple[int, int] | None = None,
    config: LogConfig | dict[str, Any] | None = None,
) -> RepairPlan:
    """What is broken in a partition directory, and what would be done about it. Every batch is read, nothing is changed.

    `cut_at` is the base offset of a segment and a position in it: the log is to end there, and all behind it to be kept aside. Of `config`
    only `index.interval.bytes` counts.
    """
    path = os.path.abspath(directory)  # noqa: PTH100 - as the disk takes it
    interval = LogConfig.of(config).index_interval_bytes
    try:
        return _plan(disk, path, cut_at, interval)
    except OSError as error:
        if isinstance(error, TidelogError):
            raise
        raise storage_error(error, path, "looking at the directory failed") from error


def _plan(disk: Disk, path: str, cut_at: tuple[int, int] | None, interval: int) -> RepairPlan:
    examined = examine(disk, path, cut_at, interval)
    actions = (*leftover_actions(examined.files), *examined.actions)
    return RepairPlan(path, actions, tuple(examined.unrepaired), tuple(examined.files.entries), interval, cut_at)


def leftover_actions(files: PartitionFiles) -> list[Action]:
    """What loading does about leftovers, in its order."""
    actions: list[Action] = [RemoveLeftover((left.name,), left.reason, left.size_bytes) for left in (*files.undone, *files.replaced)]
    actions += [FinishSwap((swap.name, swap.final), "it replaces what was there", swap.size_bytes) for swap in files.swapped]
    actions += [RemoveLeftover((left.name,), left.reason, left.size_bytes) for left in files.orphans]
    return actions


def apply_repair(plan: RepairPlan, *, disk: Disk = OS) -> RepairReport:
    """Do what the plan says. `LockedError` if somebody has the directory open, `RepairError` if it is not as it was when planned.

    A crash at any step leaves of each file the old or the new one, and what is left to do is found by planning again.
    """
    if plan.is_empty:
        return RepairReport(plan.directory, (), (), plan.unrepaired)
    return carry_out(plan, disk)
