"""`tidelog groups`: where groups of consumers stand, how far they are behind; reset."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_time
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change, place
from tidelog.cli.output import print_json, print_line
from tidelog.cli.positions import parse_position
from tidelog.cli.registry import new_app
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.tables import Column, number, optional, print_rows
from tidelog.cli.targets import changing_store, refuse_others, target_of
from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.names import TopicPartition
    from tidelog.store.groups.group import Group
    from tidelog.store.read_only_store import ReadOnlyStore

app = new_app(help="List or describe groups of consumers, with positions and lag, or reset one.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Which group.")]
_LAG = Column("lag", "LAG", number, is_right=True)
_GROUPS = (
    Column("group", "GROUP", style="bold"),
    Column("kind", "KIND"),
    Column("partitions", "PARTITIONS", number, is_right=True),
    _LAG,
    Column("commit_timestamp_ms", "LAST COMMIT", optional(format_time), style="dim"),
    Column("topics", "TOPICS", ", ".join),
)
_POSITIONS = (
    Column("topic", "TOPIC", style="bold"),
    Column("partition", "PARTITION", is_right=True),
    Column("position", "POSITION", number, is_right=True),
    Column("log_end_offset", "END", number, is_right=True),
    _LAG,
    Column("commit_timestamp_ms", "COMMITTED", optional(format_time), style="dim"),
    Column("metadata", "METADATA"),
)


@app.command("list")
def list_groups(directory: options.Directory, as_json: options.Json = False) -> None:
    """List groups, with how far each is behind in all of its partitions together."""
    with reading_disk("groups", None) as disk, open_store(directory, disk) as store:
        print_rows([group_object(group) for group in store.groups()], _GROUPS, as_json=as_json, empty="no groups")


@app.command("describe")
def describe(directory: options.Directory, group: GroupName, as_json: options.Json = False) -> None:
    """Show where a group stands in each partition, and how far it is behind."""
    with reading_disk("groups", None) as disk, open_store(directory, disk) as store:
        rows = position_objects(_known(store, group))
    print_rows(rows, _POSITIONS, as_json=as_json, empty="no positions")


@app.command("reset")
def reset(
    directory: options.StoreDirectory,
    group: GroupName,
    to: Annotated[str, typer.Option("--to", help="An offset, earliest, latest, a time, 2h for two hours ago.")] = "",
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="All partitions of this topic; otherwise those that the group has positions in.")
    ] = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Move the positions of a group to an offset or a time. The plan is printed; --apply does it.

    Where a partition does not have that offset, the nearest one that it has. Of a store only: a broker's groups are the broker's to change.
    """
    from tidelog.record.kernel.clock import wall_clock

    if not to:
        raise InvalidConfigError("reset to where?", hint="--to earliest, latest, an offset, or a time")
    refuse_others(directory)
    where = parse_position(to, "to", wall_clock())
    with reading_disk("groups", None) as disk, open_store(directory, disk) as store:
        found = store.group(group) if topics else _known(store, group)
        before = {partition: position.offset for partition, position in found.positions().items()}
        moved = found.would_reset(where, topics or None)
    steps = [
        _step(group, partition, before.get(partition), offset) for partition, offset in moved.items() if before.get(partition) != offset
    ]
    summary = f"{counted(len(steps), 'position')} of {group}" if steps else ""
    if not is_to_be_applied(Plan("groups reset", summary, tuple(steps)), apply=apply, as_json=as_json):
        return
    check_before_change(target_of(directory, None))
    with change_log() as logger, changing_store(directory) as owned:
        done = owned.group(group).reset(where, topics or None)
        for partition, offset in done.items():
            logger.info("group %s: %s is at %d", group, partition, offset)
    for partition, offset in done.items():
        if as_json:
            print_json({"type": "result", "command": "groups reset", "group": group} | place(partition) | {"position": offset})
        else:
            print_line(f"{partition}: {offset}")


def group_object(group: "Group") -> dict[str, Any]:
    """A group, summed up."""
    positions, lags = group.positions(), group.lag()
    known = [one.lag for one in lags.values() if one.lag is not None]
    return {
        "type": "group",
        "group": group.name,
        "kind": group.kind,
        "partitions": len(positions),
        "lag": sum(known) if known or not positions else None,
        "unknown_partitions": len(lags) - len(known),
        "commit_timestamp_ms": max((one.commit_timestamp_ms for one in positions.values()), default=None),
        "topics": sorted({partition.topic for partition in positions}),
    }


def position_objects(group: "Group") -> list[dict[str, Any]]:
    """Where a group stands, partition by partition."""
    lags = group.lag()
    return [
        {"type": "position", "group": group.name}
        | place(partition)
        | {
            "position": position.offset,
            "log_end_offset": lags[partition].log_end_offset,
            "lag": lags[partition].lag,
            "leader_epoch": position.leader_epoch,
            "commit_timestamp_ms": position.commit_timestamp_ms,
            "metadata": position.metadata,
        }
        for partition, position in group.positions().items()
    ]


def _known(store: "ReadOnlyStore", name: str) -> "Group":
    names = [group.name for group in store.groups()]
    if name not in names:
        raise UnknownTopicError(f"no group {name!r}", path=store.paths[0], hint=f"there are: {', '.join(names[:10]) or 'none'}")
    return store.group(name)


def _step(group: str, partition: "TopicPartition", before: int | None, offset: int) -> dict[str, Any]:
    what = f"{group}: {partition} from {'no position' if before is None else before} to {offset}"
    return {"what": what, "group": group} | place(partition) | {"position_before": before, "position": offset}
