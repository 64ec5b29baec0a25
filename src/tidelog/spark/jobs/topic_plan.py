"""Which offsets of which partitions a job reads, and how that is shared out: from names, sizes and indexes, on the driver.

What the data source plans with is used here too: its catalogue of directories and replicas, its splits by offset. A plan is a small value
that prints itself.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.log.positions import EARLIEST, LATEST, End, Position
from tidelog.spark.catalog import SourcePartition, find_partitions
from tidelog.spark.jobs.running import task_bytes_for
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.splits import Split, pack, plan_splits
from tidelog.store.topic_range import check_position

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog

Directory = str | PathLike[str] | Sequence[str | PathLike[str]]
Positions = Position | Mapping[int, Position] | Mapping[str, Mapping[int, Position]]
"""One position for all, one for each partition of a topic, or that for each topic. An offset for all means something in one partition."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """What is read of one partition."""

    source: SourcePartition
    start_offset: int
    end_offset: int
    """Exclusive."""
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.source}: offsets {self.start_offset} to {self.end_offset}, {self.size_bytes} bytes"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a job reads, and what each of its tasks does."""

    partitions: tuple[PlannedPartition, ...]
    tasks: tuple[tuple[Split, ...], ...]

    @property
    def size_bytes(self) -> int:
        """About how many bytes of log are read."""
        return sum(one.size_bytes for one in self.partitions)

    @property
    def topics(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(dict.fromkeys(one.source.topic for one in self.partitions))

    def __str__(self) -> str:
        lines = [str(one) for one in self.partitions]
        return "\n".join([*lines, f"{len(self.partitions)} partitions, {self.size_bytes} bytes, in {len(self.tasks)} tasks"])


def plan_topics(
    directory: Directory,
    topics: Sequence[str] | str | None,
    *,
    workers: int,
    start: Positions = EARLIEST,
    end: Positions = LATEST,
    as_of: Positions | None = None,
    isolation: "Isolation" = "committed",
    piece_bytes: int | None = None,
    look: "Callable[[ReadOnlyLog, SourcePartition], None] | None" = None,
) -> TopicPlan:
    """The partitions of topics, or of all but Kafka's own, from one position up to, not including, another.

    `as_of`, instead of `end`, are offsets that count themselves. `look` sees each log while it is open.
    """
    if topics is not None and not topics:  # the option of the data source is called otherwise
        raise UnknownTopicError("no topic is named", path=", ".join(_paths(directory)), hint="None means all of them")
    sources = find_partitions(_options(directory, topics, isolation))
    for what, given in (("start", start), ("end", end), ("as_of", as_of)):
        check_named(given, sources, what)
    with ExitStack() as opened:
        logs = [(source, opened.enter_context(source.open())) for source in sources]
        if look is not None:
            for source, log in logs:
                look(log, source)
        bounds = [(source, log, *_bounds(source, log, start, end, as_of, isolation, len(sources))) for source, log in logs]

        def cut(target_bytes: int | None) -> list[list[Split]]:
            return [
                plan_splits(log, source, first, stop, target_bytes=target_bytes, isolation=isolation) for source, log, first, stop in bounds
            ]

        sizes = [sum(split.size_bytes for split in own) for own in cut(None)]
        target_bytes = piece_bytes or task_bytes_for(sum(sizes), workers)
        splits = [split for own in cut(target_bytes) for split in own]
    partitions = tuple(PlannedPartition(source, first, stop, size) for (source, _, first, stop), size in zip(bounds, sizes, strict=True))
    return TopicPlan(partitions, tuple(pack(splits, target_bytes=target_bytes)))


def position_in(given: Positions, source: SourcePartition, partitions: int, default: End, what: str) -> Position:
    """What `given` says about a partition; `partitions` is how many there are."""
    if isinstance(given, Mapping):
        if any(isinstance(name, str) for name in given):
            own: Any = given.get(source.topic, default)  # type: ignore[call-overload]
            return position_in(own, source, 1 if isinstance(own, Mapping) else partitions, default, what)
        return check_position(given.get(source.partition, default))  # type: ignore[call-overload]
    if isinstance(check_position(given), int) and partitions > 1:
        raise InvalidConfigError(
            f"{what}={given!r} is an offset, and there are {partitions} partitions",
            hint=f"{what}={{partition: offset}}, {what}={{topic: {{partition: offset}}}}, or a time",
        )
    return given


def check_named(given: Positions | None, sources: Sequence[SourcePartition], what: str) -> None:
    """Raise if `given` names a topic or a partition that is not read: it would be passed over, and more be told than was asked for."""
    if not isinstance(given, Mapping):
        return
    for name, own in given.items():
        there = [one for one in sources if name == (one.topic if isinstance(name, str) else one.partition)]
        if not there:
            known = dict.fromkeys(one.topic if isinstance(name, str) else one.partition for one in sources)
            raise UnknownTopicError(
                f"{what} names a {'topic' if isinstance(name, str) else 'partition'} that is not read",
                expected=f"some of {', '.join(map(str, known))}",
                found=repr(name),
            )
        if isinstance(name, str):
            check_named(own, there, what)


def directory_path(directory: Directory) -> str:
    """The first directory, without what a path ends with."""
    return _paths(directory)[0].rstrip("/") or "/"


def topic_names(topics: Sequence[str] | str | None) -> list[str] | None:
    """As a list, each once; None: all. A log that is named twice would be worked on twice at a time."""
    return [topics] if isinstance(topics, str) else None if topics is None else list(dict.fromkeys(topics))


def _options(directory: Directory, topics: Sequence[str] | str | None, isolation: "Isolation") -> ReadOptions:
    names = topic_names(topics)
    chosen = {"subscribePattern": ".*"} if names is None else {"subscribe": ",".join(names)}
    return ReadOptions.of({"path": json.dumps(_paths(directory)), "isolation": isolation, **chosen}, is_stream=False)


def _paths(directory: Directory) -> list[str]:
    if isinstance(directory, (str, PathLike)):
        return [fspath(directory)]
    return [fspath(one) for one in directory]


def _bounds(
    source: SourcePartition,
    log: "ReadOnlyLog",
    start: Positions,
    end: Positions,
    as_of: Positions | None,
    isolation: "Isolation",
    partitions: int,
) -> tuple[int, int]:
    from tidelog.log.reading import resolve

    latest = resolve(log, LATEST, isolation)
    first = resolve(log, position_in(start, source, partitions, EARLIEST, "start"), isolation)
    if as_of is None:
        behind = position_in(end, source, partitions, LATEST, "end")
    else:
        last = position_in(as_of, source, partitions, LATEST, "as_of")
        behind = max(0, last + 1) if isinstance(last, int) else last
    stop = min(latest, resolve(log, behind, isolation))
    return first, max(first, stop)
