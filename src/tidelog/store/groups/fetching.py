"""What a consumer reads, partition after partition: which there are, where each begins, and whose turn it is.

Records are handed out a few hundred of a partition at a time, so that none has to wait for another to end. Where to begin is decided when
a partition is first read: where the group has committed, or where `auto.offset.reset` says.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import (
    LogClosedError,
    LogNotFoundError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TidelogError,
    TransactionError,
)
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.positions import LATEST
from tidelog.log.reading import FETCH_BYTES, resolve
from tidelog.store.groups.cursor import PartitionCursor
from tidelog.store.groups.offset_reset import OffsetReset
from tidelog.store.groups.position import Position
from tidelog.store.groups.source import Source

_logger = logging.getLogger(__name__)

AHEAD = 500
"""So many records of a partition are decoded at a time."""
_FETCH_BYTES_TOGETHER = 50 << 20
_MIN_FETCH_BYTES = 64 << 10
_LOOK_AGAIN_S = 1.0
"""How often directories that are only read are listed, to see whether there are more partitions."""
_MAX_RESETS = 10


Committed = tuple[Mapping[TopicPartition, Position], Collection[TopicPartition]]
"""What a group has committed, and where a transaction that is not over is about to replace it."""


class ConsumerSettings(NamedTuple):
    """How to read."""

    reset: OffsetReset
    isolation: Isolation
    follow: bool

    def check(self) -> "ConsumerSettings":
        """These, if they are possible."""
        if self.isolation not in ("log_end", "high_watermark", "committed"):
            raise ValueError(f"isolation is 'high_watermark', 'committed' or 'log_end', not {self.isolation!r}")
        return self


def end_in(ends: Mapping[TopicPartition, int] | None, partition: TopicPartition) -> int | None:
    """Up to where a partition is to be read: nothing of one that is new since; None: there is no end."""
    return None if ends is None else ends.get(partition, 0)


class Fetching:
    """The reading side of a consumer. One thread at a time."""

    def __init__(
        self,
        source: Source,
        group: str,
        topics: tuple[str, ...],
        settings: ConsumerSettings,
        committed: Callable[[], Committed],
    ) -> None:
        self.cursors: dict[TopicPartition, PartitionCursor] = {}
        """How far each partition was read."""
        self._source = source
        self._group = group
        self._topics = topics
        self._settings = settings.check()
        self._committed = committed
        self._turns: deque[PartitionCursor] = deque()
        self._seen: dict[str, tuple[Hashable, list[int]]] = {}
        """Of each topic, what tells it from a later one of the same name, and its partitions."""
        self._has_new = False
        """Whether there are partitions where nobody knows yet where to begin."""
        self._looked_s = float("-inf")

    # What there is to read

    def assign(self) -> None:
        """Find partitions that are new, and forget those of a topic that was made again. A topic that is gone raises."""
        now_s = time.monotonic()
        is_due = now_s - self._looked_s >= _LOOK_AGAIN_S
        seen = {topic: self._source.look(topic, again=is_due) for topic in self._topics}
        if is_due:
            self._looked_s = now_s
        changed = [topic for topic in self._topics if self._seen.get(topic) is not seen[topic]]
        if changed:
            remade = {topic for topic in changed if topic in self._seen and self._seen[topic][0] != seen[topic][0]}
            self._seen = seen
            wanted = {TopicPartition(topic, number) for topic, (_, numbers) in seen.items() for number in numbers}
            self._keep(partition for partition in wanted if partition.topic not in remade)
            self._add(sorted(wanted - self.cursors.keys()), len(wanted))

    def _add(self, partitions: Iterable[TopicPartition], count: int) -> None:
        fetch_bytes = min(FETCH_BYTES, max(_MIN_FETCH_BYTES, _FETCH_BYTES_TOGETHER // max(1, count)))
        for partition in partitions:
            cursor = self.cursors[partition] = PartitionCursor(partition, self._settings.isolation, fetch_bytes)
            self._turns.append(cursor)
            self._has_new = True

    def _keep(self, partitions: Iterable[TopicPartition]) -> None:
        kept = set(partitions)
        self.cursors = {partition: cursor for partition, cursor in self.cursors.items() if partition in kept}
        self._turns = deque(cursor for cursor in self._turns if cursor.partition in kept)

    def log(self, partition: TopicPartition) -> LogReading:
        """The log of a partition, as it is now."""
        log = self._source.log(partition)
        log.refresh()
        return log

    # Reading

    def ready(self, ends: Mapping[TopicPartition, int] | None = None) -> PartitionCursor | None:
        """The partition whose turn it is and that has records read ahead; None if there is nothing now.

        With `ends` a partition that has come so far is left out.
        """
        self.assign()
        self.begin()
        for _ in range(len(self._turns)):
            cursor = self._turns[0]
            self._turns.rotate(-1)
            end = end_in(ends, cursor.partition)
            if not cursor.has_ahead:
                position = cursor.position
                if (end is not None and position is not None and position >= end) or not self._fill(cursor):
                    continue
            if cursor.has_ahead_below(end):
                return cursor
        return None

    def _fill(self, cursor: PartitionCursor) -> bool:
        last: TidelogError | None = None
        for _ in range(_MAX_RESETS):
            try:
                return cursor.fill(self._source.log(cursor.partition), AHEAD)
            except OffsetOutOfRangeError as error:
                self._reset(cursor, error)
            except (LogClosedError, LogNotFoundError) as error:
                self._source.check()  # the store is closed, or else the topic was deleted, and perhaps made again
                self._looked_s = float("-inf")
                self.assign()
                if self.cursors.get(cursor.partition) is not cursor:
                    return False
                last = error
        if last is not None:
            raise last
        return False

    def ends(self) -> dict[TopicPartition, int]:
        """Up to where each partition can be read now."""
        self.assign()
        return {partition: resolve(self.log(partition), LATEST, self._settings.isolation) for partition in self.cursors}

    def close(self) -> None:
        """Let go of what was read ahead."""
        self._keep(())

    # Where to begin

    def begin(self) -> None:
        """Find out where to begin in partitions where nobody has said so yet.

        Who reads committed records begins at stable positions (KIP-447): behind a transaction that is decided, and whose marker is missing,
        the position before it would hand out again what has had its effect.
        """
        if not self._has_new:
            return
        new = [cursor for cursor in self._turns if cursor.position is None]
        committed, pending = self._committed() if new else ({}, ())
        for cursor in new:
            if cursor.partition in pending and self._settings.isolation == "committed":
                raise TransactionError(
                    f"a transaction that is not over is about to commit the position of group {self._group!r} in {cursor.partition}",
                    path=self._source.paths[0],
                    hint="try again: the next transaction of its id ends it, and so does the clock; hanging_transactions() has a broker's",
                )
            found = committed.get(cursor.partition)
            if found is not None:
                cursor.seek(found.offset, found.leader_epoch)
            else:
                self._reset(cursor, None)
        self._has_new = False

    def rewind(self) -> None:
        """Forget where it is: the next look begins as the first one did."""
        for cursor in self._turns:
            cursor.forget()
        self._has_new = True

    def _reset(self, cursor: PartitionCursor, error: OffsetOutOfRangeError | None) -> None:
        """Begin where `auto.offset.reset` says: there is no position, or it is out of range."""
        rule = self._settings.reset
        to = rule.position(self._source.now_ms())
        if to is None:
            if error is not None:
                raise error
            raise NoOffsetForPartitionError(
                f"group {self._group!r} has no position in {cursor.partition}, and auto_offset_reset is 'none'",
                path=self._source.paths[0],
                hint="seek, commit a position first, or choose another auto_offset_reset",
            )
        offset = resolve(self.log(cursor.partition), to, self._settings.isolation)
        place = (cursor.partition, offset, rule.kind, self._group)
        if error is None:
            _logger.info("Resetting offset for partition %s to position %d (%s, group %s)", *place)
        else:
            _logger.warning("Fetch position %d is out of range for partition %s, resetting to %d (%s, group %s)", error.offset, *place)
        cursor.seek(offset)
