"""`tidelog repair`: mend a log in place, as far as nothing is lost by it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change
from tidelog.cli.output import in_options, note, plain, print_json, print_line
from tidelog.cli.sources import open_store, reading_disk, tell_what_is_odd
from tidelog.cli.targets import CLUSTER_METADATA, Target, bytes_of, own_directories, target_of
from tidelog.errors import InvalidConfigError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.inspection.repair_plan import RepairPlan


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    cut_at: Annotated[
        str | None,
        typer.Option("--cut-at", metavar="BASE:BYTE", help="Let the log end at this byte of the segment with this base offset."),
    ] = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Mend logs in place: indexes, snapshots, leader epochs, leftovers, a torn end.

    Every batch is read, and the plan is printed; --apply does it. Of what is replaced the old bytes are kept aside in the same directory.
    Damaged batches stay where they are, unless --cut-at says that the log is to end before them: salvage keeps what is behind.
    """
    target, cut = target_of(directory, topic), _cut_at(cut_at)
    if cut is not None and target.partition is None:
        raise InvalidConfigError("--cut-at is about one partition", hint="name the directory of the partition")
    with reading_disk("repair", io_limit, total_bytes=bytes_of(target)) as disk:
        tell_what_is_odd(target.root, disk)
        plans = [_plan(target, path, cut, disk) for path in own_directories(target)]
    steps = [_step(plan, action) for plan in plans for action in plan.actions]
    for plan in plans:
        for left in plan.unrepaired:
            if as_json:
                print_json({"type": "unrepaired"} | left.to_json())
            else:
                note(f"not repaired: {plain(in_options(str(left)))}")
    size_bytes = sum(step["size_bytes"] for step in steps)
    summary = f"{counted(len(steps), 'step')}, {format_size(size_bytes)} are replaced or moved" if steps else ""
    if not is_to_be_applied(Plan("repair", summary, tuple(steps)), apply=apply, as_json=as_json):
        return
    check_before_change(target, needed_bytes=2 * size_bytes)  # the old bytes are kept, and the new ones come beside them
    _apply([plan for plan in plans if not plan.is_empty], as_json=as_json)


def _cut_at(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    base, _, position = text.partition(":")
    if not base.isdigit() or not position.isdigit():
        raise InvalidConfigError(f"not a place to cut at: {text!r}", hint="BASE:BYTE, as in 1200:88342; verify names the byte")
    return int(base), int(position)


def _plan(target: Target, path: str, cut: tuple[int, int] | None, disk: "Disk") -> "RepairPlan":
    from tidelog.inspection.repair import plan_repair

    return plan_repair(path, disk=disk, cut_at=cut, config=settings_at(target, path, disk))


def settings_at(target: Target, path: str, disk: "Disk") -> Any:
    """How the topic of a partition directory is set, as far as can be known: how far apart entries of its index are."""
    from tidelog.disk.names import parse_partition

    partition = parse_partition(Path(path).name)
    assert partition is not None
    if partition.topic == CLUSTER_METADATA:
        return None
    with open_store(target.root, disk, tells=False) as store:
        return store.settings(partition.topic).config


def _step(plan: "RepairPlan", action: Any) -> dict[str, Any]:
    path = Path(plan.directory)
    return {**action.to_json(), "what": f"{path.name}: {action}", "directory": plan.directory, "reason": action.reason}


def _apply(plans: "list[RepairPlan]", *, as_json: bool) -> None:
    from tidelog.inspection.repair import apply_repair

    with change_log() as logger:
        for plan in plans:
            report = apply_repair(plan)
            name = Path(plan.directory).name
            for action in report.done:
                logger.info("%s: %s", name, action)
            if as_json:
                print_json(report.to_json() | {"command": "repair"})
                continue
            print_line(f"{plain(name)}: {counted(len(report.done), 'step')} done")
            for kept in report.kept_aside:
                print_line(f"  kept aside: {plain(kept)}")
