"""Repair a partition directory in place: plan first, then do what the plan says, and keep the old bytes of whatever is replaced.

    plan = plan_repair(directory)         reads everything, changes nothing; `print(plan)`
    report = apply_repair(plan)           owns the directory while it works

What is built anew are files that follow from the batches: indexes, transaction indexes, producer snapshots, leader epochs. A segment whose
offsets are too far apart is split, leftovers of interrupted work go. A torn batch at the very end is cut off. Nothing else is ever taken
out of the log unless `cut_at` names the place: a damaged batch with sound ones behind it is for salvage.

Only what is broken is touched; a file that is right keeps its bytes and its time.
"""

import os
from collections.abc import Iterator
from typing import Any

from tidelog.config import LogConfig
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import LOG
from tidelog.errors import RepairError, TidelogError
from tidelog.inspection.recovery_point_checks import RecoveryPoint, lost_words, torn_offset_at
from tidelog.inspection.repair_apply import carry_out
from tidelog.inspection.repair_examine import Examination, examine
from tidelog.inspection.repair_files import PartitionFiles
from tidelog.inspection.repair_plan import Action, CutSegment, FinishSwap, RemoveLeftover, RepairPlan, RepairReport, Unrepaired
from tidelog.log.storage_errors import storage_error

__all__ = ["RepairPlan", "RepairReport", "apply_repair", "plan_repair"]

_RESTORE = "restore it from a backup or a replica, as it is; opening it to write, or a repair that is applied, goes on from where it ends"


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
        if isinstance(error, FileNotFoundError):
            raise RepairError(
                "the directory has changed while it was looked at", path=path, hint="somebody has it open: plan again"
            ) from error
        raise storage_error(error, path, "looking at the directory failed") from error


def _plan(disk: Disk, path: str, cut_at: tuple[int, int] | None, interval: int) -> RepairPlan:
    examined = examine(disk, path, cut_at, interval)
    actions = (*leftover_actions(examined.files), *examined.actions)
    unrepaired = (*examined.unrepaired, *(_lost(disk, examined) if cut_at is None else ()))
    return RepairPlan(path, actions, unrepaired, tuple(examined.files.entries), interval, cut_at)


def _lost(disk: Disk, examined: Examination) -> Iterator[Unrepaired]:
    """What verify says of a log that ends below its recovery point: no repair brings that back.

    Like opening the log, a repair that has something to do writes the recovery point down anew, and the log is in order then.
    """
    directory, bases = examined.files.directory, examined.files.base_offsets
    end_offset = examined.end_offset if bases else 0
    if end_offset is None:
        return  # damage, which is told, leaves it open
    path = (examined.files.path_of(bases[-1], LOG) or directory) if bases else directory
    cut = next((action for action in examined.actions if isinstance(action, CutSegment)), None)
    torn_offset = None if cut is None else torn_offset_at(disk, path, cut.position)
    known = RecoveryPoint.load(disk, directory)
    if known.is_lost(end_offset, torn_offset):
        position = None if cut is None else cut.position
        yield Unrepaired(path, position, lost_words(known.recovery_point, end_offset), _RESTORE)


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
