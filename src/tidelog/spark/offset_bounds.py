"""From which offset to which each partition is read: what the options ask for, looked up in the logs as Spark's Kafka source has it.

A time is looked up as Kafka's ListOffsets does: the first record in offset order that is not older. Later records may well be older, so
this is no filter. Where no record is at or after a starting time the query fails, or begins at the latest offset if it is told to; where
none is at or after an ending time it ends at the latest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.errors import DataLossError, InvalidConfigError, OffsetOutOfRangeError
from tidelog.spark.option_values import refuse
from tidelog.spark.read_options import EARLIEST_OFFSET, LATEST_OFFSET, OffsetLimit, ReadOptions

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.spark.catalog import SourcePartition


def check_named(options: ReadOptions, sources: Sequence["SourcePartition"]) -> None:
    """Refuse JSON that leaves one of the partitions out, or names one that is not read: as in Spark's Kafka source all are to be named."""
    chosen = {(source.topic, source.partition) for source in sources}
    for limit in (options.starting, options.ending):
        if limit.kind not in ("offsets", "timestamps"):
            continue
        for topic, partition in sorted(chosen - limit.numbers.keys()):
            raise refuse(
                limit.option,
                f"every partition that is read, with {topic}-{partition}",
                _named(limit),
                hint="-2 is the earliest, -1 the latest",
            )
        for topic, partition in sorted(limit.numbers.keys() - chosen):
            raise refuse(limit.option, "no partition but those that are read", f"{topic}-{partition}")
    _check_order(options, sources)


def _check_order(options: ReadOptions, sources: Sequence["SourcePartition"]) -> None:
    """Refuse an end that lies before the start, where that can be seen without looking."""
    starting, ending = options.starting, options.ending
    is_by_offset = (starting.kind, ending.kind) == ("offsets", "offsets")
    timed = ("timestamp", "timestamps")
    if not is_by_offset and not (starting.kind in timed and ending.kind in timed):
        return
    for source in sources:
        first, last = _number(starting, source), _number(ending, source)
        if last >= 0 and first > last:
            raise refuse(ending.option, f"{first} or more for {source}, where {starting.option} begins", last)


def _number(limit: OffsetLimit, source: "SourcePartition") -> int:
    return limit.timestamp_ms if limit.kind == "timestamp" else limit.numbers[source.topic, source.partition]


def latest_offset(log: "ReadOnlyLog", isolation: "Isolation") -> int:
    """The first offset that a reader does not see."""
    from tidelog.log.positions import LATEST
    from tidelog.log.reading import resolve

    return resolve(log, LATEST, isolation)


def starting_offset(options: ReadOptions, source: "SourcePartition", log: "ReadOnlyLog") -> int:
    """The first offset to read of a partition."""
    limit = options.starting
    if limit.kind == "earliest":
        return log.log_start_offset
    if limit.kind == "latest":
        return latest_offset(log, options.isolation)
    if limit.kind == "offsets":
        offset = limit.numbers[source.topic, source.partition]
        if offset == EARLIEST_OFFSET:
            return log.log_start_offset
        return latest_offset(log, options.isolation) if offset == LATEST_OFFSET else offset
    timestamp_ms = _number(limit, source)
    found = _offset_for_time(log, timestamp_ms, options)
    if found is None and options.on_no_match == "error":
        raise InvalidConfigError(
            f"option {limit.option}: no record of {source} is at or after {timestamp_ms} ms",
            hint="startingOffsetsByTimestampStrategy=latest begins at the end there",
        )
    return latest_offset(log, options.isolation) if found is None else found


def ending_offset(options: ReadOptions, source: "SourcePartition", log: "ReadOnlyLog") -> int:
    """The first offset not to read any more of a partition: at most the first that readers do not see."""
    limit = options.ending
    latest = latest_offset(log, options.isolation)
    if limit.kind == "latest":
        return latest
    if limit.kind == "offsets":
        offset = limit.numbers[source.topic, source.partition]
        if offset > latest and options.fail_on_data_loss:
            raise DataLossError(
                f"option {limit.option}: offset {offset} of {source} is beyond what readers see",
                path=source.directory,
                expected=f"at most {latest}",
                found=offset,
                hint="-1 is the latest; failOnDataLoss=false ends there",
            )
        return latest if offset == LATEST_OFFSET else min(offset, latest)
    found = _offset_for_time(log, _number(limit, source), options)
    return latest if found is None else min(found, latest)


def check_start(options: ReadOptions, source: "SourcePartition", log: "ReadOnlyLog", start: int) -> int:
    """Where reading can begin: a start below the log's own is lost data, unless that is allowed."""
    if start >= log.log_start_offset:
        return start
    if options.fail_on_data_loss:
        raise DataLossError(
            f"offsets {start} to {log.log_start_offset - 1} of {source} are not there any more",
            path=source.directory,
            hint="-2 is the earliest; failOnDataLoss=false goes on with what is there",
        )
    return log.log_start_offset


def _offset_for_time(log: "ReadOnlyLog", timestamp_ms: int, options: ReadOptions) -> int | None:
    try:
        found = log.offset_for_time(timestamp_ms, isolation=options.isolation)
    except OffsetOutOfRangeError:
        return None
    return None if found is None else found.offset


def _named(limit: OffsetLimit) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(limit.numbers)) or "none"
