"""`tidelog retain`: delete what need not be kept any more."""

from typing import TYPE_CHECKING, Any

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import (
    RETENTION,
    check_before_change,
    deciding_settings,
    end_with,
    owned_store,
    place,
    print_left_alone,
    print_settings,
    refuse_one_partition,
    store_settings,
)
from tidelog.cli.outlook_words import segment_words
from tidelog.cli.output import print_json, print_line
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.targets import Target, target_of
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.store.read_only_store import ReadOnlyStore
    from tidelog.store.retaining import RetentionResult


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    config: options.Config = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Delete segments that are older or more than a topic's settings want to keep.

    The plan is printed, with where the settings are from; --apply does it. What --config says counts, this once. Of a directory that is no
    store a setting that is only assumed decides nothing: --config says what it is.
    """
    from tidelog.record.kernel.clock import wall_clock

    target, given = target_of(directory, topic), options.settings(config)
    refuse_one_partition(target)
    with reading_disk("retain", None) as disk, open_store(target.root, disk, given) as store:
        steps, left_alone = _steps(store, target, disk, wall_clock())
        facts = deciding_settings(store, [step["topic"] for step in steps if "base_offset" in step], RETENTION)
        print_settings(facts, as_json=as_json)
        print_left_alone(left_alone, as_json=as_json)
        size_bytes = sum(step.get("size_bytes", 0) for step in steps)
        segments = sum(1 for step in steps if "base_offset" in step)
        plan = Plan("retain", f"{counted(segments, 'segment')}, {format_size(size_bytes)}" if steps else "", tuple(steps))
        if not is_to_be_applied(plan, apply=apply, as_json=as_json):
            return
        check_before_change(target, facts)
        going = {(step["topic"], step["partition"]) for step in steps if "base_offset" in step}
        result = _retain(store, target, given, going)
    _print_result(result, as_json=as_json)


def _steps(store: "ReadOnlyStore", target: Target, disk: "Disk", now_ms: int) -> tuple[list[dict[str, Any]], list[tuple[Any, str]]]:
    steps: list[dict[str, Any]] = []
    left_alone = []
    for one in store.explain(target.topic, now_ms).partitions:
        if not target.has(one.partition.partition):
            continue
        if one.left_alone is not None:
            left_alone.append((one.partition, one.left_alone))
        config = store.settings(one.partition.topic).config
        for found in one.segments if one.left_alone is None else ():
            if found.goes_by is not None:
                segment = found.segment
                words = segment_words(found, config, now_ms).removeprefix("goes now: ")
                what = f"delete {one.partition} segment {segment.base_offset} ({format_size(segment.size_bytes)}): {words}"
                facts = {"base_offset": segment.base_offset, "next_offset": segment.end_offset, "size_bytes": segment.size_bytes}
                steps.append({"what": what} | place(one.partition) | facts | {"rule": found.goes_by, "why": found.why})
    if target.topic is None:
        steps += _deleted_topics(store, disk, now_ms)
    return steps, left_alone


def _deleted_topics(store: "ReadOnlyStore", disk: "Disk", now_ms: int) -> list[dict[str, Any]]:
    """Directories of deleted topics that wait for somebody to remove them."""
    from tidelog.store.store_file import read_store_file

    content = read_store_file(disk, store.paths[0])
    gone = [] if content is None else [topic for topic in content.deleted if topic.due_ms <= now_ms]
    return [
        {"what": f"remove the directories of topic {one.topic}, which was deleted", "topic": one.topic, "rule": "deleted"} for one in gone
    ]


def _retain(store: "ReadOnlyStore", target: Target, given: dict[str, str], going: set[tuple[str, int]]) -> "RetentionResult":
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.store.log_care import known_logs, retain_logs

    with change_log():
        if target.is_store:
            with owned_store(target, store_settings(given)) as owned:
                result = owned.retain(target.topic)
                owned.remove_deleted()
            return result
        only = None if target.partition is None else [target.partition]
        logs = [known for known in known_logs(store, target.topic, only) if tuple(known.partition) in going]
        return retain_logs(logs, wall_clock)


def _print_result(result: "RetentionResult", *, as_json: bool) -> None:
    for one in result.deleted:
        if as_json:
            facts = {"rule": one.rule, "segments": one.segments, "size_bytes": one.size_bytes, "records": one.records, "why": one.reason}
            print_json({"type": "result", "command": "retain"} | place(one.partition) | facts)
    if not as_json:
        print_line(f"retain: {counted(result.segments, 'segment')} went, {format_size(result.size_bytes)}")
    end_with(result.failures)
