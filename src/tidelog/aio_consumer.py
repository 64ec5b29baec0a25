"""Named consumers and groups for asyncio: see `tidelog.aio`.

A thread reads some records ahead; they are handed out in the loop. So a call that is cancelled has consumed nothing: the position is behind
the last record that somebody got.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from tidelog.aio_calls import to_the_end
from tidelog.aio_topic import Run
from tidelog.disk.names import TopicPartition
from tidelog.errors import TransactionError
from tidelog.log.positions import Position as LogPosition
from tidelog.log.reading import DEFAULT_POLL_S
from tidelog.record.kernel.record import Record
from tidelog.store.groups.consumer import AnyPartition, Consumer, check_poll
from tidelog.store.groups.cursor import PartitionCursor
from tidelog.store.groups.fetching import AHEAD, end_in
from tidelog.store.groups.group import Group
from tidelog.store.groups.position import GroupLag, Position


class AsyncConsumer:
    """A consumer. Made by `AsyncStore.consumer`; an async context manager, for one task at a time."""

    def __init__(self, consumer: Consumer, run: Run) -> None:
        self.consumer = consumer
        """The consumer itself: what has nothing to do with where it is, as `assignment`, needs no twin.

        Where it is, its twins tell: after a poll that was cancelled, the consumer itself may be behind records that nobody got.
        """
        self._run = run
        self._lock = asyncio.Lock()
        self._last: asyncio.Future[Any] | None = None
        """The call that a thread makes, or has made last: one that was cancelled goes through, and is waited for."""
        self._undone: dict[PartitionCursor, Position] = {}
        """Where partitions were before a poll that was cancelled."""

    async def call(self, call: Any, *arguments: Any) -> Any:
        """Make a call that asks where the consumer is: one behind the other, and after what a cancelled poll had taken is put back."""
        async with self._lock:
            if self._last is not None and not self._last.done():
                await asyncio.wait([self._last])
            while self._undone:
                cursor, position = self._undone.popitem()
                cursor.put_back(position)
            self._last = asyncio.ensure_future(self._run(call, *arguments))
            self._last.add_done_callback(_noticed)
            return await asyncio.shield(self._last)

    # Reading

    async def poll(self, max_records: int = AHEAD, timeout_s: float = 0) -> list[Record]:
        """`Consumer.poll`. It waits in the loop."""
        check_poll(max_records, timeout_s)
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                taken = await self._take(max_records)
            except TransactionError:  # as in `Consumer.poll`
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise
            else:
                left_s = deadline_s - time.monotonic()
                if taken or left_s <= 0:
                    return taken
            await asyncio.sleep(min(left_s, DEFAULT_POLL_S))

    async def _take(self, max_records: int) -> list[Record]:
        taken: list[Record] = []
        before: dict[PartitionCursor, Position] = {}
        try:
            while len(taken) < max_records:
                cursor: PartitionCursor | None = await self.call(self.consumer.ready)
                if cursor is None:
                    break
                position = cursor.committable
                assert position is not None
                before.setdefault(cursor, position)
                taken += cursor.take(max_records - len(taken))
        except Exception:  # comes again with the next call; what was taken before it is handed out first
            if not taken:
                raise
        except BaseException:  # cancelled: nobody gets these
            self._undone.update(before)  # a thread may be reading there now
            raise
        return taken

    async def __aiter__(self) -> AsyncIterator[Record]:
        """The records, each of which counts as consumed when it is given out."""
        ends = await self.call(self.consumer.ends)
        while True:
            cursor: PartitionCursor | None = await self.call(self.consumer.ready, ends)
            if cursor is not None:
                for record in cursor.drain(end_in(ends, cursor.partition)):
                    yield record
            elif ends is None:
                await asyncio.sleep(DEFAULT_POLL_S)
            else:
                return

    # Where it is

    async def seek(self, partition: AnyPartition, to: LogPosition) -> None:
        """`Consumer.seek`."""
        await self.call(self.consumer.seek, partition, to)

    async def rewind(self) -> None:
        """`Consumer.rewind`."""
        await self.call(self.consumer.rewind)

    async def position(self, partition: AnyPartition) -> int:
        """`Consumer.position`."""
        found: int = await self.call(self.consumer.position, partition)
        return found

    async def positions(self) -> dict[TopicPartition, Position]:
        """`Consumer.positions`."""
        found: dict[TopicPartition, Position] = await self.call(self.consumer.positions)
        return found

    async def committed(self, partition: AnyPartition) -> Position | None:
        """`Consumer.committed`."""
        found: Position | None = await self.call(self.consumer.committed, partition)
        return found

    async def lag(self) -> dict[TopicPartition, int]:
        """`Consumer.lag`."""
        found: dict[TopicPartition, int] = await self.call(self.consumer.lag)
        return found

    async def commit(self, positions: Mapping[AnyPartition, int | Position] | None = None) -> None:
        """`Consumer.commit`."""
        await self.call(self.consumer.commit, positions)

    async def close(self) -> None:
        """`Consumer.close`, when the call that runs is done. Goes through if it is cancelled: behind it the group has no member."""
        await to_the_end(self._close())

    async def _close(self) -> None:
        async with self._lock:
            if self._last is not None and not self._last.done():
                await asyncio.wait([self._last])
            await asyncio.to_thread(self.consumer.close)  # also when the store, with its threads, is closed already

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self.consumer!r}"


class AsyncGroup:
    """A group. Made by `AsyncStore.group`."""

    def __init__(self, group: Group, run: Run) -> None:
        self.group = group
        """The group itself."""
        self.name = group.name
        self._run = run

    async def positions(self) -> dict[TopicPartition, Position]:
        """`Group.positions`."""
        found: dict[TopicPartition, Position] = await self._run(self.group.positions)
        return found

    async def lag(self) -> dict[TopicPartition, GroupLag]:
        """`Group.lag`."""
        found: dict[TopicPartition, GroupLag] = await self._run(self.group.lag)
        return found

    async def reset(self, to: LogPosition, topics: str | Iterable[str] | None = None) -> dict[TopicPartition, int]:
        """`Group.reset`."""
        found: dict[TopicPartition, int] = await self._run(self.group.reset, to, topics)
        return found

    async def delete(self) -> None:
        """`Group.delete`."""
        await self._run(self.group.delete)

    def __repr__(self) -> str:
        return f"Async{self.group!r}"


def _noticed(call: "asyncio.Future[Any]") -> None:
    """An error of a call that was cancelled is nobody's."""
    if not call.cancelled():
        call.exception()
