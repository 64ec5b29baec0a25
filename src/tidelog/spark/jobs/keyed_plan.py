"""The plan of `table` and `history`: what is read by key, up to which point, and what can be told of the past of each partition.

Logs are looked at while somebody may write to them. What was seen of their segments is part of the plan (`unchanged_segments`), so that who
reads by it notices what has changed since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, UnknownPastError
from tidelog.log.positions import LATEST, Time, epoch_ms
from tidelog.spark.catalog import SourcePartition
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.running import check_gone
from tidelog.spark.jobs.topic_plan import Directory, Positions, TopicPlan, check_named, directory_path, plan_topics, position_in
from tidelog.spark.jobs.unchanged_segments import Guard, SegmentSeen, seen_segments
from tidelog.spark.splits import Split
from tidelog.store.known_points import KnownFrom
from tidelog.store.log_past import LogOutline, Span, checkpointed, outline, settled, span_of

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.log.segment_piece import SegmentPiece

GAP_PIECE_BYTES = 512 << 20
"""A walk over headers takes about so much less than reading everything."""
_MAX_PLANS = 5
_GONE = "gone"
"""What a task answers about a piece whose segment is not there any more."""
_NO_LOG = "no log"
"""The same, where its whole directory is not there."""


@dataclass(frozen=True, slots=True)
class PointInTime:
    """As of an offset of each partition, the last that counts, or as of a time; neither: all there is."""

    offsets: Mapping[TopicPartition, int]
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        if self.timestamp_ms is not None:
            return f"{self.timestamp_ms} ms"
        return ", ".join(f"offset {offset} of {partition}" for partition, offset in self.offsets.items()) or "now"


@dataclass(frozen=True, slots=True)
class KeyedPlan:
    """What is read by key, and what is known of the past of each partition; of that nothing if nobody asked."""

    topics: TopicPlan
    until: PointInTime
    known: Mapping[TopicPartition, KnownFrom]
    cleaned: Mapping[TopicPartition, int]
    """Up to where the cleaner has been."""
    segments: Mapping[TopicPartition, tuple[SegmentSeen, ...]]
    """Which files they were."""

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The last offset that counts of each partition."""
        return {_partition(one.source): one.end_offset - 1 for one in self.topics.partitions}

    def guard(self, split: Split, *, offset: int | None = None, timestamp_ms: int | None = None) -> Guard:
        """What a split counts on for the state as of a point to be whole; without one, for everything from the beginning."""
        partition = TopicPartition(split.topic, split.partition)
        return Guard.of(split, self.segments[partition], self.cleaned[partition], offset=offset, timestamp_ms=timestamp_ms)


def plan_keyed(
    tasks: Tasks,
    directory: Directory,
    topics: Sequence[str] | str | None,
    *,
    until: "Positions | None",
    isolation: "Isolation",
    piece_bytes: int | None,
    needs_past: bool,
) -> KeyedPlan:
    """The plan, up to a point that counts itself. With `needs_past`, executors look for gaps where no checkpoint speaks for a log.

    Of a log that somebody writes to a segment may go before it was looked at: then all is planned once more.
    """
    timestamp_ms = time_of(until)
    as_of = None if timestamp_ms is not None else until
    if as_of is not None:
        check_offsets(as_of, "as_of")
    for _ in range(_MAX_PLANS):
        looked = _Looks(piece_bytes or GAP_PIECE_BYTES, needs_past=needs_past)
        plan = plan_topics(
            directory, topics, workers=tasks.workers, as_of=as_of, isolation=isolation, piece_bytes=piece_bytes, look=looked.look
        )
        known = _known(tasks, looked.outlines)
        if known is not None:
            given = {} if until is None or timestamp_ms is not None else offsets_in(plan, until, "as_of")
            return KeyedPlan(plan, PointInTime(given, timestamp_ms), known, looked.cleaned, looked.segments)
    raise UnknownPastError(
        "segments went away again and again while this was planned",
        path=directory_path(directory),
        hint="run it again when whoever cleans or deletes there is done",
    )


class _Looks:
    """What the driver sees of each log while it plans."""

    def __init__(self, piece_bytes: int, *, needs_past: bool) -> None:
        self.outlines: dict[TopicPartition, LogOutline] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self.segments: dict[TopicPartition, tuple[SegmentSeen, ...]] = {}
        self._piece_bytes = piece_bytes
        self._needs_past = needs_past

    def look(self, log: "ReadOnlyLog", source: SourcePartition) -> None:
        """At a log that is open. Segments and checkpoint are those from before the past was looked at: what changes later is noticed."""

        def once() -> None:
            self.cleaned[log.partition] = checkpointed(log) or 0
            self.segments[log.partition] = seen_segments(log)
            if self._needs_past:
                self.outlines[log.partition] = outline(log, self._piece_bytes)

        settled(log, once)


def offsets_in(plan: TopicPlan, given: Positions, what: str) -> dict[TopicPartition, int]:
    """The offsets that are given for the partitions of a plan."""
    check_named(given, [one.source for one in plan.partitions], what)
    found = {}
    for one in plan.partitions:
        position = position_in(given, one.source, len(plan.partitions), LATEST, what)
        if isinstance(position, int):
            found[_partition(one.source)] = position
    return found


def time_of(given: "Positions | None") -> int | None:
    """The time that is given, in epoch milliseconds; None if it is none."""
    return epoch_ms(given) if isinstance(given, (Time, datetime)) else None


def check_offsets(given: Positions, what: str) -> None:
    """Raise unless all that is given are offsets: what is none would be passed over, and more be told than was asked for."""
    for own in given.values() if isinstance(given, Mapping) else [given]:
        if isinstance(own, Mapping):
            check_offsets(own, what)
        else:
            check_offset(own, what)


def check_offset(given: object, what: str) -> int:
    """An offset of a partition; -1 is before the first."""
    if isinstance(given, bool) or not isinstance(given, int) or given < -1:
        expected = "an offset, offsets by partition, or one Time or datetime for all partitions"
        raise InvalidConfigError(what, expected=expected, found=repr(given))
    return given


def _known(tasks: Tasks, outlines: Mapping[TopicPartition, LogOutline]) -> dict[TopicPartition, KnownFrom] | None:
    """What is known of each; None if a segment was not there any more."""
    pieces = [(partition, piece) for partition, found in outlines.items() for piece in found.pieces]
    spans: dict[TopicPartition, list[Span | None]] = {partition: [] for partition in outlines}
    if pieces:
        from tidelog.log.segment_piece import pack

        packs = pack(pieces, [max(1, piece.size_bytes) for _, piece in pieces], GAP_PIECE_BYTES, tasks.workers)
        for own, answers in zip(packs, tasks.run("look for gaps", _spans, packs), strict=True):
            for (partition, piece), span in zip(own, answers, strict=True):
                if span == _NO_LOG:
                    check_gone(piece.directory, f"tidelog {tasks.job}")
                if span in (_GONE, _NO_LOG):
                    return None
                spans[partition].append(span)
    return {partition: found.known(spans[partition]) for partition, found in outlines.items()}


def _spans(items: "Sequence[tuple[TopicPartition, SegmentPiece]]", _: str) -> "list[Span | str | None]":
    return [_span(piece) for _, piece in items]


def _span(piece: "SegmentPiece") -> Span | str | None:
    try:
        return span_of(piece)
    except FileNotFoundError:  # in every attempt of the task: only the driver can do something about it
        return _GONE if OS.exists(piece.directory) else _NO_LOG


def _partition(source: SourcePartition) -> TopicPartition:
    return TopicPartition(source.topic, source.partition)
