"""What a stream plans on the driver: its beginning, the end of each micro-batch, and the tasks."""

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from tidelog.disk.names import TopicPartition
from tidelog.errors import OffsetOutOfRangeError
from tidelog.spark.admission import Limits, admit, should_wait
from tidelog.spark.offset_bounds import check_named, check_start, starting_offset
from tidelog.spark.option_values import refuse as refuse_value
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.splits import Split, SplitPartition, pack, plan_splits
from tidelog.spark.stream_changes import Loss, Visible, beyond_reach, check_topic_ids, out_of_reach, refuse
from tidelog.spark.stream_gap_report import GapReport
from tidelog.spark.stream_logs import LivePartition, StreamLogs
from tidelog.spark.stream_offsets import StreamOffset
from tidelog.spark.stream_timeline import LogTimeline

logger = logging.getLogger("tidelog.spark")

_MAX_TRIES = 10

Live = Mapping[TopicPartition, LivePartition]
Ends = dict[TopicPartition, int]


class StreamPlanning:
    """The driver's side of one running query. For one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._logs = StreamLogs(options)
        self._gaps = GapReport(options.gap_report, options.isolation)
        self._initial: dict[str, Any] | None = None
        self._fixed: Ends | None = None
        """Where a query ends that reads what is there now, and no more."""
        self._seen: dict[str, Any] | None = None
        self._last_batch_ms: int | None = None
        self._told: set[str] = set()

    def initial_offset(self) -> dict[str, Any]:
        """Where the options say that the query begins, found out once."""
        if self._initial is None:
            live = self._logs.look()
            check_named(self._options, [partition.source for partition in live.values()])
            starts = {at: self._start(partition) for at, partition in live.items()}
            self._initial = StreamOffset(_topic_ids({}, live, starts), starts).to_json()
        return self._initial

    def _start(self, partition: LivePartition) -> int:
        source, log = partition.source, partition.log
        start, end = starting_offset(self._options, source, log), partition.visible.end_offset
        if start > end and self._options.fail_on_data_loss:
            raise refuse_value(
                self._options.starting.option,
                f"at most {end} for {source}",
                start,
                hint="-1 is the latest; failOnDataLoss=false begins there",
            )
        return min(end, check_start(self._options, source, log, start))

    def fix_end(self) -> None:
        """From now on nothing behind what is there now is read, and no partition that is not."""
        self._fixed = {at: partition.visible.end_offset for at, partition in self._logs.look().items()}

    def seen_offset(self) -> dict[str, Any] | None:
        """How far the topics went at the last look."""
        return self._seen

    def close(self) -> None:
        """Let go of all files."""
        self._logs.close()

    # How far

    def latest_offset(self, start_json: dict[str, Any], limit: ReadLimit, *, now_ms: int) -> dict[str, Any]:
        """How far the next micro-batch goes; where it goes nowhere, `start_json` as it is."""
        start = StreamOffset.of_json(start_json)
        live = self._logs.look()
        found = _visible(live)
        check_topic_ids(start, found)
        self._lost(beyond_reach(start.next_offsets, found))
        self._seen = _seen(start, live)
        if self._fixed is not None:
            live = {at: partition for at, partition in live.items() if at in self._fixed or at in start.next_offsets}
        is_first = start_json == self._initial
        joined = {at: partition.visible.start_offset for at, partition in live.items() if at not in start.next_offsets}
        begins = {at: start.next_offsets.get(at, joined.get(at, 0)) for at in live}
        tops = {at: self._top(at, partition, begins[at]) for at, partition in live.items()}
        ends = self._ends(live, begins, tops, limit, now_ms)
        if ends is None:
            return start_json  # a partition that joins meanwhile waits as well: it would begin a micro-batch, and another wait
        topic_ids = _topic_ids(start.topic_ids, live, ends)
        latest = StreamOffset(topic_ids, ends, begins if is_first else {at: begins[at] for at in joined if at in ends})
        if latest.is_as_far_as(start) and not is_first:
            return start_json
        self._last_batch_ms = now_ms
        return latest.to_json()

    def _top(self, at: TopicPartition, partition: LivePartition, begin: int) -> int:
        """How far a partition may be read at all. One that was away when the end was fixed stays where it is."""
        end = partition.visible.end_offset
        return end if self._fixed is None else min(end, self._fixed.get(at, begin))

    def _ends(self, live: Live, begins: Ends, tops: Ends, limit: ReadLimit, now_ms: int) -> Ends | None:
        """How far each partition goes now; None: the micro-batch waits. A log that ends before where the stream is goes back there."""
        is_all = isinstance(limit, ReadAllAvailable)
        available = sum(max(0, top - begins[at]) for at, top in tops.items())
        waited_ms = self._options.max_trigger_delay_ms if self._last_batch_ms is None else now_ms - self._last_batch_ms
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self._options.min_offsets_per_trigger
        is_waiting = should_wait(available, min_offsets=least, waited_ms=waited_ms, max_delay_ms=self._options.max_trigger_delay_ms)
        if is_waiting and not is_all and self._fixed is None:
            return None
        limits = self._limits(limit)
        if is_all or limits.is_unlimited:
            return tops
        return self._admit(live, begins, tops, limits)

    def _limits(self, limit: ReadLimit) -> Limits:
        """Spark's limit, which is one of ours, and the others."""
        max_offsets, max_bytes = self._options.max_offsets_per_trigger, self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            max_offsets = limit.max_rows if max_offsets is None else min(max_offsets, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            max_bytes = limit.max_bytes if max_bytes is None else min(max_bytes, limit.max_bytes)
        return Limits(max_offsets, max_bytes)

    def _admit(self, live: Live, begins: Ends, tops: Ends, limits: Limits) -> Ends:
        for attempt in range(_MAX_TRIES):
            try:
                lines = {at: _timeline(partition, begins[at], tops[at], limits) for at, partition in live.items()}
                admitted = admit(lines, limits)
                return {at: tops[at] if tops[at] <= begins[at] else min(end, tops[at]) for at, end in admitted.items()}
            except OffsetOutOfRangeError:
                if attempt + 1 == _MAX_TRIES:
                    raise
                self._logs.look()  # trimmed under us
        raise AssertionError("the last try raises")

    # Tasks

    def plan(self, start_json: dict[str, Any], end_json: dict[str, Any], columns: tuple[str, ...]) -> list[SplitPartition]:
        """The tasks of a micro-batch: a partition each, unless more were asked for."""
        start, end = StreamOffset.of_json(start_json), StreamOffset.of_json(end_json)
        live = self._logs.look()
        found = _visible(live)
        check_topic_ids(end, found)
        begins = start.begins(end)
        self._lost(out_of_reach(begins, end.next_offsets, found))
        ranges = {
            at: (max(begins[at], found[at].start_offset), min(stop, found[at].end_offset))
            for at, stop in sorted(end.next_offsets.items())
            if at in found
        }
        ranges = {at: (begin, stop) for at, (begin, stop) in ranges.items() if begin < stop and self._has_keys(live[at])}
        if self._options.fail_on_data_loss:
            lost = [gap for gap in self._gaps.look(live, ranges) if gap.is_data_loss]
            refuse(map(str, lost), live[lost[0].partition].log.directory if lost else None)
        else:
            self._gaps.look(live, ranges)
        return self._tasks(live, ranges, columns)

    def _tasks(self, live: Live, ranges: Mapping[TopicPartition, tuple[int, int]], columns: tuple[str, ...]) -> list[SplitPartition]:
        options = self._options
        packed: list[tuple[Split, ...]] = []
        whole: list[Split] = []
        for at, (begin, stop) in ranges.items():
            partition = live[at]
            splits = plan_splits(
                partition.log, partition.source, begin, stop, target_bytes=options.target_bytes, isolation=options.isolation
            )
            whole += splits
            packed += pack(splits, target_bytes=options.target_bytes, max_records=options.max_records_per_partition)
        if options.min_partitions is not None and len(packed) < options.min_partitions:
            packed = pack(whole, target_bytes=None, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        how = (columns, options.isolation, options.keys, None, options.fail_on_data_loss, False, self._gaps.asks_tasks)
        return [SplitPartition(splits, *how) for splits in packed]

    def _has_keys(self, partition: LivePartition) -> bool:
        keys = self._options.keys
        return keys is None or self._options.key_partitioner is None or partition.source.is_home_of(keys)

    def _lost(self, losses: list[Loss]) -> None:
        """Refuse, or say once in a run, what is gone."""
        if self._options.fail_on_data_loss:
            refuse(losses)
        for loss in losses:
            if str(loss) not in self._told:
                self._told.add(str(loss))
                logger.warning("tidelog: %s; failOnDataLoss=false goes on with what is there", loss)


def _visible(live: Live) -> dict[TopicPartition, Visible]:
    return {at: partition.visible for at, partition in live.items()}


def _seen(start: StreamOffset, live: Live) -> dict[str, Any]:
    """How far the topics go."""
    ends = {at: partition.visible.end_offset for at, partition in live.items()}
    return StreamOffset(_topic_ids(start.topic_ids, live, ends), ends).to_json()


def _timeline(partition: LivePartition, begin: int, top: int, limits: Limits) -> LogTimeline:
    """No further than the limit reaches: what lies behind need not be looked at."""
    start = max(begin, partition.log.log_start_offset)
    return LogTimeline(partition.log, start, top if limits.max_offsets is None else min(top, start + limits.max_offsets))


def _topic_ids(known: Mapping[str, str | None], live: Live, offsets: Ends) -> dict[str, str | None]:
    """The ids of the topics of some partitions. One that was known is kept where nothing says it any more."""
    ids = {at.topic: known.get(at.topic) for at in offsets}
    for at, partition in live.items():
        if at.topic in ids and partition.source.topic_id is not None:
            ids[at.topic] = partition.source.topic_id
    return ids
