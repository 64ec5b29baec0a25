"""From where to where a topic is read: what the caller says about all partitions or each, as positions of each partition."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidelog.errors import UnknownTopicError
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.positions import EARLIEST, LATEST, End, Position, Time, epoch_ms
from tidelog.log.reading import resolve

Positions = Position | Mapping[int, Position]
"""One position, or one for each partition; an offset by itself means something in one partition only."""


@dataclass(slots=True)
class PartitionRange:
    """What is to be read of one partition, and how far that has come."""

    partition: int
    log: LogReading
    start: Position
    """From where to go on. EARLIEST stays what it is until it is read, since the beginning of a log moves."""
    end: Position
    """Exclusive."""


def partition_ranges(
    open_log: Callable[[int], LogReading],
    there: Iterable[int],
    start: Positions,
    end: Positions,
    partition: int | None,
    isolation: Isolation,
    *,
    end_name: str = "end",
) -> list[PartitionRange]:
    """The range of each partition, the arguments checked. A start at a time, or at the end, is looked up now."""
    if isolation not in ("log_end", "high_watermark", "committed"):
        raise ValueError(f"isolation is 'high_watermark', 'committed' or 'log_end', not {isolation!r}")
    wanted = list(there) if partition is None else [partition]
    starts = _of_each(wanted, start, EARLIEST, "start", is_alone=partition is not None)
    ends = _of_each(wanted, end, LATEST, end_name, is_alone=partition is not None)
    found = []
    for number in wanted:
        log = open_log(number)
        log.refresh()
        first = starts[number]
        found.append(PartitionRange(number, log, EARLIEST if first is EARLIEST else resolve(log, first, isolation), ends[number]))
    return found


def _of_each(wanted: list[int], given: Positions, default: End, what: str, *, is_alone: bool) -> dict[int, Position]:
    if isinstance(given, Mapping):
        unknown = [] if is_alone else [number for number in given if number not in wanted]
        if unknown:
            raise UnknownTopicError(
                f"{what} names a partition that is not here",
                expected=f"some of {', '.join(map(str, wanted))}",
                found=unknown[0],
            )
        return {number: check_position(given.get(number, default)) for number in wanted}
    if isinstance(check_position(given), int) and len(wanted) > 1:
        raise of_one_partition(what, given, len(wanted))
    return dict.fromkeys(wanted, given)


def of_one_partition(what: str, given: object, count: int) -> ValueError:
    """An offset was given for several partitions."""
    return ValueError(
        f"{what}={given!r} is an offset, and the topic has {count} partitions: give partition=…, or {what}={{partition: offset}}, or a time"
    )


def check_position(position: Position) -> Position:
    """The position, if it is one: before anything is read."""
    if isinstance(position, (Time, datetime)):
        epoch_ms(position)
    elif isinstance(position, bool) or not isinstance(position, (int, End)):
        raise TypeError(f"a position is an offset, a Time, a datetime, EARLIEST or LATEST, not {position!r}")
    return position
