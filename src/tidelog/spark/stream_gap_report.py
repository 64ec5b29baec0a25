"""What a stream says about offsets that it has no rows for: in the log of its process, and on request in a file.

Loss of data is always told, and refused if need be: at the ends of the logs by the plan, between batches by the tasks, who have the headers
in their hands. The rest is no loss, and to find it the driver reads what the tasks will read. So it does that only for somebody: for a
file, or for a log that shows information. There a kind of gap is told once for each partition, when it is first met. The file has one JSON
object a line for each partition and kind of every micro-batch:

    {"type": "gap", "topic": "emails", "partition": 0, "kind": "compacted", "start_offset": 17, "end_offset": 40, "missing": 21,
     "batch_start_offset": 0, "batch_end_offset": 40, "seen_ms": 1700000000000}

A micro-batch that is repeated after a crash is in it twice, with the same offsets.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.disk.names import TopicPartition
from tidelog.log.log_reading import Isolation
from tidelog.spark.gaps import Gap, KeptAs, find_gaps, how_kept, summarize
from tidelog.spark.option_values import refuse
from tidelog.spark.stream_logs import LivePartition

logger = logging.getLogger("tidelog.spark")

TO_LOG, NOWHERE = "log", "none"
"""What the option `gapReport` takes instead of the name of a file."""

Range = tuple[int, int]


class GapReport:
    """Finds the gaps of micro-batches and tells them. For one thread."""

    def __init__(self, target: str, isolation: Isolation) -> None:
        self._path = None if target in (TO_LOG, NOWHERE) else Path(target)
        if self._path is not None and not self._path.parent.is_dir():
            raise refuse("gapReport", "log, none, or a file in a directory that is there", target)
        self._target = target
        self._isolation = isolation
        self._is_failure_told = False
        self._told: set[tuple[TopicPartition, str]] = set()
        self._kept: dict[TopicPartition, KeptAs] = {}
        self._last: Mapping[TopicPartition, Range] | None = None

    @property
    def is_looking(self) -> bool:
        """Whether the driver looks for gaps itself, since somebody is told of all of them."""
        return self._path is not None or (self._target == TO_LOG and logger.isEnabledFor(logging.INFO))

    @property
    def asks_tasks(self) -> bool:
        """Whether tasks have to say what is lost between batches, since nobody else does."""
        return self._target != NOWHERE and not self.is_looking

    def look(self, live: Mapping[TopicPartition, LivePartition], ranges: Mapping[TopicPartition, Range]) -> list[Gap]:
        """Find and tell the gaps of a micro-batch, one for each partition and kind. A batch that is planned again is not told again."""
        if not self.is_looking or ranges == self._last:
            return []
        found = [gap for at, (start, end) in ranges.items() for gap in self._gaps(live[at], start, end)]
        self._last = dict(ranges)
        self.tell(found, ranges)
        return found

    def _gaps(self, partition: LivePartition, start: int, end: int) -> list[Gap]:
        log = partition.log

        def kept() -> KeptAs:
            if log.partition not in self._kept:
                self._kept[log.partition] = how_kept(log)
            return self._kept[log.partition]

        gaps = summarize(find_gaps(log, start, end, kept, isolation=self._isolation))
        if any(gap.kind == "lost" for gap in gaps):
            # The cleaner says where it has been after it has been there, and settings may be others by now.
            self._kept.pop(log.partition, None)
            gaps = summarize(find_gaps(log, start, end, kept, isolation=self._isolation))
        return gaps

    def tell(self, gaps: Iterable[Gap], ranges: Mapping[TopicPartition, Range]) -> None:
        """Say what was found."""
        lines = []
        for gap in gaps:
            if (gap.partition, gap.kind) not in self._told:
                self._told.add((gap.partition, gap.kind))
                logger.log(logging.WARNING if gap.is_data_loss else logging.INFO, "tidelog: %s", gap)
            lines.append(json.dumps(_object(gap, ranges[gap.partition])) + "\n")
        if self._path is not None and lines:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write("".join(lines))
            except OSError as error:  # what is told about a query must not end it
                if not self._is_failure_told:
                    self._is_failure_told = True
                    logger.warning("tidelog: the gap report cannot be written, and gaps are missing from it: %s", error)


def _object(gap: Gap, batch: Range) -> dict[str, Any]:
    return {
        "type": "gap",
        "topic": gap.partition.topic,
        "partition": gap.partition.partition,
        "kind": gap.kind,
        "start_offset": gap.start_offset,
        "end_offset": gap.end_offset,
        "missing": gap.missing,
        "batch_start_offset": batch[0],
        "batch_end_offset": batch[1],
        "seen_ms": time.time_ns() // 1_000_000,
    }
