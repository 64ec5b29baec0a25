"""A named consumer: the member of a group, that reads some topics and remembers how far it has come.

It is one of a kind: there is no rebalancing, the one member reads all partitions. Nothing is committed by itself.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import TracebackType

from tidelog.disk.names import TopicPartition
from tidelog.errors import ForkedError, InvalidGroupError, LogClosedError, TidelogError, TransactionError, UnknownTopicError
from tidelog.log.positions import Position as LogPosition
from tidelog.log.reading import DEFAULT_POLL_S, resolve
from tidelog.record.kernel.record import Record
from tidelog.store.groups import members
from tidelog.store.groups.cursor import PartitionCursor
from tidelog.store.groups.expiring import keep_positions
from tidelog.store.groups.fetching import AHEAD, ConsumerSettings, Fetching, end_in
from tidelog.store.groups.position import Position, check_partition, check_position
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import Source
from tidelog.store.topic_range import check_position as check_log_position

AnyPartition = TopicPartition | tuple[str, int]
Reset = str | timedelta
"""What `auto_offset_reset` may be."""


class Consumer:
    """Made by `Store.consumer`. A context manager; for one thread at a time."""

    def __init__(self, source: Source, keeper: Source, group: str, topics: tuple[str, ...], settings: ConsumerSettings) -> None:
        self.group = group
        """Its name."""
        self.topics = topics
        """What it reads."""
        self.keeper = keeper
        """The store that keeps its positions."""
        self._source = source
        self._settings = settings
        self._committed = Positions(keeper)
        self._is_closed = False
        self._pid = os.getpid()
        positions, name = self._committed, group
        self._fetching = Fetching(source, group, topics, settings, lambda: positions.of_and_pending(name))
        source.check()
        keeper.check()
        self._fetching.assign()
        members.join(keeper.paths[0], group, self)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that it reads: all of its topics."""
        return tuple(sorted(self._assigned()))

    def _assigned(self) -> dict[TopicPartition, PartitionCursor]:
        self._check()
        self._fetching.assign()
        return self._fetching.cursors

    # Reading

    def poll(self, max_records: int = AHEAD, timeout_s: float = 0) -> list[Record]:
        """The next records, at most so many; none if none come within `timeout_s`. What is given back counts as consumed.

        While a transaction is about to commit where to begin, that is waited for too, and `TransactionError` raised when time is up.
        """
        check_poll(max_records, timeout_s)
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                taken = self._take(max_records)
            except TransactionError:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise
            else:
                left_s = deadline_s - time.monotonic()
                if taken or left_s <= 0:
                    return taken
            time.sleep(min(left_s, DEFAULT_POLL_S))

    def _take(self, max_records: int) -> list[Record]:
        taken: list[Record] = []
        before: dict[PartitionCursor, Position] = {}
        try:
            while len(taken) < max_records and (cursor := self.ready()) is not None:
                position = cursor.committable
                assert position is not None
                before.setdefault(cursor, position)
                taken += cursor.take(max_records - len(taken))
        except TidelogError:
            if not taken:
                raise
            # What came before the error is given first: its partition raises again when it has its turn.
        except BaseException:  # an interrupt: nobody gets these
            for cursor, position in before.items():
                cursor.put_back(position)
            raise
        return taken

    def ready(self, ends: Mapping[TopicPartition, int] | None = None) -> PartitionCursor | None:
        """The partition whose turn it is, with records read ahead: for whoever waits in a way of their own."""
        self._check()
        return self._fetching.ready(ends)

    def ends(self) -> dict[TopicPartition, int] | None:
        """Up to where to iterate: what can be read now. None if it follows what comes."""
        self._check()
        return None if self._settings.follow else self._fetching.ends()

    def __iter__(self) -> Iterator[Record]:
        """The records. Each counts as consumed when it is given out. It ends where the topics end now, unless it is to follow them."""
        self._check()
        return self._iterate()

    def _iterate(self) -> Iterator[Record]:
        ends = self.ends()
        while True:
            cursor = self.ready(ends)
            if cursor is not None:
                yield from cursor.drain(end_in(ends, cursor.partition))
            elif ends is None:
                time.sleep(DEFAULT_POLL_S)
            else:
                return

    # Where it is

    def seek(self, partition: AnyPartition, to: LogPosition) -> None:
        """Go on somewhere else: at an offset, a time, EARLIEST or LATEST, the last three as they are now."""
        cursor = self._cursor(partition)
        if isinstance(check_log_position(to), int) and to < 0:  # type: ignore[operator]
            raise InvalidGroupError(f"no offset to seek to in {cursor.partition}", expected="0 or more", found=to)
        cursor.seek(resolve(self._fetching.log(cursor.partition), to, self._settings.isolation))

    def rewind(self) -> None:
        """Go back to what is committed, or else to where `auto_offset_reset` begins: as after an aborted transaction."""
        self._check()
        self._fetching.rewind()

    def position(self, partition: AnyPartition) -> int:
        """The offset of the record that comes next in a partition."""
        cursor = self._cursor(partition)
        self._fetching.begin()
        assert cursor.position is not None
        return cursor.position

    def positions(self) -> dict[TopicPartition, Position]:
        """What `commit` would commit: where it is in each partition that it has begun to read."""
        found = {partition: cursor.committable for partition, cursor in sorted(self._assigned().items())}
        return {partition: position for partition, position in found.items() if position is not None}

    def committed(self, partition: AnyPartition) -> Position | None:
        """What the group has committed for a partition; None: nothing."""
        self._check()
        return self._committed.of(self.group).get(check_partition(partition))

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are left to be read in each partition, now."""
        self._check()
        ends = self._fetching.ends()
        self._fetching.begin()
        positions = {partition: cursor.position or 0 for partition, cursor in self._fetching.cursors.items()}
        return {partition: max(0, end - positions[partition]) for partition, end in sorted(ends.items())}

    def _cursor(self, partition: AnyPartition) -> PartitionCursor:
        wanted = check_partition(partition)
        cursor = self._assigned().get(wanted)
        if cursor is None:
            raise UnknownTopicError(
                f"the consumer does not read {wanted}",
                path=self._source.paths[0],
                expected=f"a partition of {', '.join(self.topics)}",
                found=str(wanted),
            )
        return cursor

    # Committing

    def commit(self, positions: Mapping[AnyPartition, int | Position] | None = None) -> None:
        """Commit where it is, or the positions that are given: all of them or none. Durable when this returns.

        After a failed sync of the disk (`LogFailedError`) nobody knows which, until the store is opened again.
        """
        self._check()
        if positions is None:
            found = self.positions()
        elif isinstance(positions, Mapping):
            limit_bytes = self.keeper.config.offset_metadata_max_bytes
            given = {check_partition(partition): position for partition, position in positions.items()}
            found = {partition: check_position(partition, position, limit_bytes) for partition, position in given.items()}
            for partition in found:
                self._check_there(partition)
        else:
            raise InvalidGroupError("positions that are none", expected="a mapping of partitions to offsets", found=repr(positions))
        self._committed.commit(self.group, found)

    def _check_there(self, partition: TopicPartition) -> None:
        numbers = self._source.look(partition.topic, again=False)[1]
        if partition.partition not in numbers:
            raise UnknownTopicError(
                f"no partition {partition.partition} of topic {partition.topic!r}: nothing was committed", path=self._source.paths[0]
            )

    # Closing

    def close(self) -> None:
        """Leave the group. What was not committed is not; what was long ago is kept as if it were now. Does nothing the second time."""
        if not self._is_closed:
            self._is_closed = True
            self._fetching.close()
            if self._pid == os.getpid():
                keep_positions(self.keeper, self.group, self.topics)
                members.leave(self.keeper.paths[0], self.group, self)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @property
    def is_live(self) -> bool:
        """Whether it is the member of its group: not closed, nor are its stores."""
        return not self._is_closed and not self.keeper.is_closed and not self._source.is_closed

    def _check(self) -> None:
        path = self._source.paths[0]
        if self._pid != os.getpid():
            raise ForkedError("the consumer was made before this process was forked", path=path, hint="make one in the child")
        if self._is_closed:
            raise LogClosedError(f"the consumer of group {self.group!r} is closed", path=path)
        self._source.check()
        self.keeper.check()

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Consumer({self.group!r}, {', '.join(self.topics)}{'; closed' if self._is_closed else ''})"


def check_topics(topics: object) -> tuple[str, ...]:
    """The topics of a consumer: a name or several, each once."""
    names = (topics,) if isinstance(topics, str) else tuple(topics) if isinstance(topics, Iterable) else ()
    if not names or isinstance(topics, (bytes, Mapping)) or not all(isinstance(name, str) for name in names):
        raise InvalidGroupError("a consumer of no topics", expected="the name of a topic, or several", found=repr(topics))
    return tuple(dict.fromkeys(names))


def check_poll(max_records: object, timeout_s: object) -> None:
    """Raise for what `poll` cannot do."""
    if type(max_records) is not int or max_records < 1:
        raise ValueError(f"max_records is a number from 1 on, not {max_records!r}")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s >= 0:
        raise ValueError(f"timeout_s is a time in seconds from 0 on, not {timeout_s!r}")
