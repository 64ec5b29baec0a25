"""`tidelog compact`: keep the last record of each key, now."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size, parse_rate
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import (
    COMPACTION,
    check_before_change,
    deciding_settings,
    end_with,
    owned_store,
    place,
    print_left_alone,
    print_settings,
    refuse_laid_over,
    refuse_one_partition,
    store_settings,
)
from tidelog.cli.compact_plan import compaction_steps, exact_steps
from tidelog.cli.on_spark import job, refuse_io_limit, shows_progress, spark_session
from tidelog.cli.output import plain, print_json, print_line
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.targets import Target, changing_store, refuse_others, target_of
from tidelog.errors import InvalidConfigError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.store.read_only_store import ReadOnlyStore


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    roll: Annotated[bool, typer.Option("--roll", help="End the active segments first, so that their records take part.")] = False,
    drop_null_keys: Annotated[bool, typer.Option("--drop-null-keys", help="Drop records without a key, as Kafka does.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Read the records, and say how many would go.")] = False,
    config: options.Config = None,
    spark: options.Spark = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Compact topics now: keep the last record of each key, whatever the dirty ratio.

    Never past what may not be cleaned: the active segment, open transactions, records younger than min.compaction.lag.ms. The plan is
    printed, with where the settings are from; --apply does it. What --config says counts, this once. A topic that is not compacted stays.
    """
    target, given = target_of(directory, topic), options.settings(config)
    refuse_one_partition(target)
    if exact and roll:
        raise InvalidConfigError(
            "--exact reads what could be cleaned now, and --roll would end segments first", hint="leave out one of them"
        )
    if spark is not None:
        refuse_io_limit(io_limit)
        refuse_others(target.root)  # a job opens a store
    with reading_disk("compact", io_limit) as disk, open_store(target.root, disk, given) as store:
        found = exact_steps(store, target, drop_null_keys=drop_null_keys) if exact else compaction_steps(store, target, roll=roll)
        facts = deciding_settings(store, [step["topic"] for step in found.steps], COMPACTION)
        if spark is not None:
            refuse_laid_over(store, facts)
        print_settings(facts, as_json=as_json)
        print_left_alone(found.worth_telling(target), as_json=as_json)
        size_bytes = sum(step["size_bytes"] for step in found.steps)
        summary = f"{counted(len(found.steps), 'partition')}, {format_size(size_bytes)} to be read" if found.steps else ""
        if not is_to_be_applied(Plan("compact", summary, found.steps), apply=apply, as_json=as_json):
            return
        needed = max((step["most_extra_bytes"] for step in found.steps), default=0)
        check_before_change(target, facts, needed_bytes=needed)
        rate = 0 if io_limit is None else parse_rate(io_limit)
        settings = store_settings(given, rate)
        with change_log():
            if spark is not None:
                result = _by_spark(target, settings, spark, roll=roll, drop_null_keys=drop_null_keys)
            else:
                planned = {(step["topic"], step["partition"]) for step in found.steps}
                total_bytes = size_bytes + sum(step["cleanable_bytes"] for step in found.steps)  # its keys first, then all of it
                with reading_disk("compact", io_limit, total_bytes=total_bytes) as cleaning:
                    result = _compact(store, target, planned, settings, cleaning, roll=roll, drop_null_keys=drop_null_keys)
    _print_result(result, as_json=as_json)


def _compact(
    store: "ReadOnlyStore", target: Target, planned: Collection[tuple[str, int]], settings: dict[str, Any], disk: "Disk", **how: bool
) -> Any:
    """By the disk that counts what is read, and keeps to the limit. Of a directory that is no store only logs of the plan are opened."""
    from tidelog.config import StoreConfig
    from tidelog.disk.file_pool import FilePool
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.store.log_care import compact_logs, known_logs

    if target.is_store:
        with owned_store(target, settings, FilePool(disk)) as owned:
            done = owned.compact(target.topic, **how)
            owned.remove_deleted()
        return done
    logs = [known for known in known_logs(store, target.topic) if tuple(known.partition) in planned]
    return compact_logs(logs, StoreConfig.of(settings), wall_clock, pool=FilePool(disk), **how)


def _by_spark(target: Target, settings: dict[str, Any], master: str, *, roll: bool, drop_null_keys: bool) -> Any:
    with spark_session(master) as session:
        done = job("compact")(
            session, target.path, target.topic, roll=roll, drop_null_keys=drop_null_keys, config=settings, progress=shows_progress()
        )
    with changing_store(target.root):
        pass  # opening removes the files that were replaced: nobody comes back for them when their delay has passed
    return done


def _print_result(result: Any, *, as_json: bool) -> None:
    for one in result.partitions:
        if as_json:
            facts = {"records_removed": one.records_removed, "bytes_removed": one.bytes_removed}
            facts |= {"tombstones_removed": one.tombstones_removed, "markers_removed": one.markers_removed}
            facts |= {"next_dirty_offset": one.passes[-1].next_dirty_offset if one.passes else None, "why": one.why, "note": one.note}
            print_json({"type": "result", "command": "compact"} | place(one.partition) | facts)
        elif one.passes:
            print_line(plain(str(one)))
    end_with(result.failures)
