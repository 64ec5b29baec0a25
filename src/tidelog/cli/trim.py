"""`tidelog trim`: delete the records before an offset or a time."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change, deciding_settings, place, print_settings
from tidelog.cli.output import print_json, print_line
from tidelog.cli.positions import parse_position
from tidelog.cli.sources import open_store, reading_disk, the_partition
from tidelog.cli.targets import Target, target_of
from tidelog.errors import InvalidConfigError, OffsetOutOfRangeError, UnknownTopicError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.log.positions import Position
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.retention.trimming import Trimmed
    from tidelog.store.read_only_store import ReadOnlyStore


def command(
    directory: options.Directory,
    topic: options.OptionalTopic = None,
    before: Annotated[
        str, typer.Option("--before", "-b", help="An offset (of one partition), a time, 2h for two hours ago, latest for all.")
    ] = "",
    partition: options.Partition = None,
    config: options.Config = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Delete the records of a topic that come before an offset or a time.

    The log starts there from then on; segments that lie before it as a whole are removed. The plan is printed; --apply does it.
    """
    from tidelog.record.kernel.clock import wall_clock

    target = target_of(directory, topic, partition)
    if target.topic is None:
        raise UnknownTopicError("which topic?", path=str(directory), hint="tidelog trim DIRECTORY TOPIC --before WHERE")
    if not before:
        raise InvalidConfigError("before what?", hint="--before OFFSET, or a time, as 2026-11-16T18:00:00Z or 7d")
    given, where = options.settings(config), parse_position(before, "before", wall_clock())
    with reading_disk("trim", None) as disk, open_store(target.root, disk, given) as store:
        in_force = store.settings(target.topic).config
        if in_force.is_compacted and not in_force.is_deleted_by_age:
            raise InvalidConfigError(f"{target.topic} is only compacted: it keeps its records", hint="cleanup.policy=compact,delete")
        cuts = _cuts(store, target, where)
        facts = deciding_settings(store, [target.topic] if cuts else [], ("cleanup.policy",))
        print_settings(facts, as_json=as_json)
        size_bytes, records = sum(cut.step["size_bytes"] for cut in cuts), sum(cut.step["records"] for cut in cuts)
        summary = f"{counted(records, 'offset')}, {format_size(size_bytes)}" if cuts else ""
        if not is_to_be_applied(Plan("trim", summary, tuple(cut.step for cut in cuts)), apply=apply, as_json=as_json):
            return
        check_before_change(target, facts)
        done = _trim(store, target, given, cuts)
    for one in done:
        if as_json:
            row = {"log_start_offset": one.log_start_offset, "segments": one.segments, "size_bytes": one.size_bytes, "records": one.records}
            print_json({"type": "result", "command": "trim"} | place(one.partition) | row)
        else:
            print_line(str(one))


class _Cut(NamedTuple):
    partition: int
    offset: int
    step: dict[str, Any]


def _cuts(store: "ReadOnlyStore", target: Target, where: "Position") -> list[_Cut]:
    """Where each log would start. What is not known to be committed stays."""
    assert target.topic is not None
    topic = store.topic(target.topic)
    numbers = topic.partition_ids() if target.partition is None else [target.partition]
    if isinstance(where, int):
        numbers = [the_partition(topic, target.partition, "an offset (--before)")]
    cuts = []
    for number in numbers:
        log = topic.log(number)
        log.refresh()
        cut = _cut(log, where)
        if cut is not None:
            cuts.append(cut)
    return cuts


def _cut(log: "ReadOnlyLog", where: "Position") -> _Cut | None:
    from tidelog.log.reading import resolve
    from tidelog.retention import facts_of
    from tidelog.retention.trimming import going_below

    start, bound = log.log_start_offset, log.high_watermark
    if isinstance(where, int) and where > bound:
        raise OffsetOutOfRangeError(offset=where, log_start_offset=start, log_end_offset=bound, path=log.directory)
    offset = min(resolve(log, where, "high_watermark"), bound)
    if offset <= start:
        return None
    going = going_below(facts_of(log), offset)
    size_bytes = sum(removal.segment.size_bytes for removal in going)
    what = f"{log.partition}: start at {offset}, not at {start}; delete {counted(len(going), 'segment')}, {format_size(size_bytes)}"
    facts = {"log_start_offset": offset, "log_start_offset_before": start, "records": offset - start}
    step = {"what": what} | place(log.partition) | facts | {"segments": len(going), "size_bytes": size_bytes}
    return _Cut(log.partition.partition, offset, step)


def _trim(store: "ReadOnlyStore", target: Target, given: dict[str, str], cuts: list[_Cut]) -> "list[Trimmed]":
    from tidelog.cli.caring import owned_store, store_settings
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.retention.trimming import trim
    from tidelog.store.log_care import known_logs, trim_log

    assert target.topic is not None
    done = []
    with change_log() as logger:
        if target.is_store:
            with owned_store(target, store_settings(given)) as owned:
                for cut in cuts:
                    done.append(trim(owned.log(target.topic, cut.partition), cut.offset))
                    logger.info("trimmed %s", done[-1])
                owned.remove_deleted()
            return done
        logs = {known.partition.partition: known for known in known_logs(store, target.topic)}
        for cut in cuts:
            done.append(trim_log(logs[cut.partition], cut.offset, wall_clock))
            logger.info("trimmed %s", done[-1])
    return done
