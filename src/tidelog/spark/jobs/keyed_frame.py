"""What `table` and `history` have in common: the plan of what is read by key, what can be told of the past, and the rows as a DataFrame.

The DataFrame is evaluated when somebody asks for its rows. Until then the log goes on, and may be compacted past the point that it is
about: every task looks for that when it has read its splits, and raises rather than leave rows out.
"""

import pickle
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, UnknownPastError
from tidelog.log.positions import LATEST, Time, epoch_ms
from tidelog.spark.catalog import SourcePartition
from tidelog.spark.jobs.local_tasks import Tasks
from tidelog.spark.jobs.topic_plan import Directory, Positions, TopicPlan, plan_topics, position_in
from tidelog.spark.schema import SPARK_TYPES
from tidelog.spark.splits import Split
from tidelog.store.known_points import KnownFrom
from tidelog.store.log_past import LogOutline, Span, checkpointed, outline, span_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.log.segment_piece import SegmentPiece
    from tidelog.spark.latest_by_key import KeyedReading

GAP_PIECE_BYTES = 512 << 20
"""A walk over headers takes about so much less than reading everything."""
IS_TOMBSTONE, IS_COMPLETE, IS_VERSION = "is_tombstone", "is_complete", "is_version"
ADDED = (IS_TOMBSTONE, IS_COMPLETE, IS_VERSION)
DETAILS_SCHEMA = (
    "topic string, partition int, start_offset long, last_offset long, size_bytes long, is_complete boolean, first_known_offset long, "
    "first_known_timestamp_ms long, why string"
)


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

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The last offset that counts of each partition."""
        return {_partition(one.source): one.end_offset - 1 for one in self.topics.partitions}


class KeyedItem(NamedTuple):
    """A split, what counts of it, and what has to be so when it was read."""

    split: Split
    reading: "KeyedReading"
    is_complete: bool
    cleaned_at_most: int | None
    """The cleaner's checkpoint may not be above that; None: whatever it is."""


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
    """The plan, up to a point that counts itself. With `needs_past`, executors look for gaps where no checkpoint speaks for a log."""
    outlines: dict[TopicPartition, LogOutline] = {}
    cleaned: dict[TopicPartition, int] = {}

    def look(log: "ReadOnlyLog", source: SourcePartition) -> None:
        cleaned[log.partition] = checkpointed(log) or 0
        if needs_past:
            outlines[log.partition] = outline(log, piece_bytes or GAP_PIECE_BYTES)

    timestamp_ms = time_of(until)
    end = LATEST if until is None or timestamp_ms is not None else behind(until)
    plan = plan_topics(directory, topics, workers=tasks.workers, end=end, isolation=isolation, piece_bytes=piece_bytes, look=look)
    given = {} if until is None or timestamp_ms is not None else offsets_in(plan, until, "as_of")
    return KeyedPlan(plan, PointInTime(given, timestamp_ms), _known(tasks, outlines), cleaned)


def offsets_in(plan: TopicPlan, given: Positions, what: str) -> dict[TopicPartition, int]:
    """The offsets that are given for the partitions of a plan."""
    found = {}
    for one in plan.partitions:
        position = position_in(given, one.source, len(plan.partitions), LATEST, what)
        if isinstance(position, int):
            found[_partition(one.source)] = position
    return found


def time_of(given: "Positions | None") -> int | None:
    """The time that is given, in epoch milliseconds; None if it is none."""
    return epoch_ms(given) if isinstance(given, (Time, datetime)) else None


def behind(given: Positions) -> Positions:
    """Offsets that count themselves, as ends that do not."""
    if isinstance(given, Mapping):
        return {name: behind(own) for name, own in given.items()}  # type: ignore[return-value]
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidConfigError("as_of", expected="an offset, offsets by partition, a Time or a datetime", found=repr(given))
    return max(0, given + 1)


def _known(tasks: Tasks, outlines: Mapping[TopicPartition, LogOutline]) -> dict[TopicPartition, KnownFrom]:
    pieces = [(partition, piece) for partition, found in outlines.items() for piece in found.pieces]
    spans: dict[TopicPartition, list[Span | None]] = {partition: [] for partition in outlines}
    if pieces:
        from tidelog.log.segment_piece import pack

        packs = pack(pieces, [max(1, piece.size_bytes) for _, piece in pieces], GAP_PIECE_BYTES, tasks.workers)
        for own, answers in zip(packs, tasks.run("look for gaps", _spans, packs), strict=True):
            for (partition, _), span in zip(own, answers, strict=True):
                spans[partition].append(span)
    return {partition: found.known(spans[partition]) for partition, found in outlines.items()}


def _spans(items: "Sequence[tuple[TopicPartition, SegmentPiece]]", _: str) -> list[Span | None]:
    return [span_of(piece) for _, piece in items]


def detail_rows(plan: KeyedPlan, incomplete: Collection[TopicPartition]) -> list[tuple[object, ...]]:
    """A row for each partition, as `DETAILS_SCHEMA` has it."""
    rows = []
    for one in plan.topics.partitions:
        partition = _partition(one.source)
        known = plan.known.get(partition)
        facts = (None, None, None) if known is None else (known.first_offset, known.first_timestamp_ms, known.why)
        rows.append((*partition, one.start_offset, one.end_offset - 1, one.size_bytes, partition not in incomplete, *facts))
    return rows


def keyed_frame(spark: "SparkSession", tasks: Sequence[Sequence[KeyedItem]], columns: Sequence[str]) -> "DataFrame":
    """The rows of all tasks, with whether each is a tombstone, all of its past is there, and it counts whatever comes behind it."""
    schema = ", ".join([*(f"{name} {SPARK_TYPES[name]}" for name in columns), *(f"{name} boolean" for name in ADDED)])
    worker = _KeyedWorker([pickle.dumps(list(items)) for items in tasks], tuple(columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark about the version of pandas, which is not used here
        return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(worker, schema)


class _KeyedWorker:
    """What executors run."""

    def __init__(self, tasks: list[bytes], columns: tuple[str, ...]) -> None:
        self._tasks = tasks
        self._columns = columns

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows_of(pickle.loads(self._tasks[number]), self._columns)  # noqa: S301 - our own driver


def rows_of(items: Sequence[KeyedItem], columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """The rows of one task."""
    import pyarrow as pa

    from tidelog.spark.latest_by_key import read_keyed

    for item in items:
        for batch in read_keyed(item.split, item.reading):
            offsets, timestamps_ms = batch.column("offset").to_numpy(), batch.column("timestamp").view("int64").to_numpy() // 1000
            is_version = pa.array(item.reading.is_version(offsets, timestamps_ms))
            arrays = [*(batch.column(name) for name in columns), batch.column("value").is_null()]
            yield pa.RecordBatch.from_arrays([*arrays, pa.repeat(item.is_complete, batch.num_rows), is_version], [*columns, *ADDED])
        _check_cleaned(item)


def _check_cleaned(item: KeyedItem) -> None:
    """Raise if the log was compacted past the point while it was read, or before."""
    from tidelog.log.read_only import open_read_only

    if item.cleaned_at_most is None:
        return
    with open_read_only(item.split.directory) as log:
        found = checkpointed(log) or 0
    if found > item.cleaned_at_most:
        raise UnknownPastError(
            f"{item.split.topic}-{item.split.partition} was compacted since this was planned",
            path=item.split.directory,
            expected=f"nothing cleaned from offset {item.cleaned_at_most} on",
            found=found,
            hint="plan it again",
        )


def _partition(source: SourcePartition) -> TopicPartition:
    return TopicPartition(source.topic, source.partition)
