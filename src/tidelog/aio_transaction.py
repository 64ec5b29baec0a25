"""Transactions for asyncio: see `tidelog.aio`.

    async with store.transaction("id") as tx:
        await tx.append("emails", b"…", key=b"…")

A record is put into a list, which takes no thread; only when some are to be written does a thread do it.
"""

import asyncio
from types import TracebackType
from typing import Any, Self

from tidelog.aio_consumer import AsyncConsumer
from tidelog.aio_topic import AsyncTopic, Run
from tidelog.disk.disk import Buffer
from tidelog.errors import TransactionError
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.store.groups.offset_commits import CommitsPositions
from tidelog.store.store import Store
from tidelog.store.topic import Topic
from tidelog.store.transactions.transaction import Transaction

_ROOM_BYTES = 1 << 10
_HEADERS_ROOM_BYTES = 1 << 16
"""What a record may take beside key and value, without headers and with some."""


class AsyncTransaction:
    """A transaction that begins with `async with`: leaving the block commits, an exception aborts and goes on.

    What `append` gives back can be awaited, behind the block: before that, it would wait for itself.
    """

    def __init__(self, store: Store, transactional_id: str, timeout_ms: int | None, run: Run) -> None:
        self.transactional_id = transactional_id
        self._store = store
        self._timeout_ms = timeout_ms
        self._run = run
        self._begun: Transaction | None = None

    @property
    def transaction(self) -> Transaction:
        """The transaction itself."""
        if self._begun is None:
            raise TransactionError("the transaction has not begun", path=self.transactional_id, hint="use it in `async with`")
        return self._begun

    async def append(
        self, topic: str | Topic | AsyncTopic, value: bytes | None, *, key: bytes | None = None, **options: Any
    ) -> WriteHandle:
        """`Transaction.append`, with its options."""
        target = topic.topic if isinstance(topic, AsyncTopic) else topic
        size_bytes = _size(value) + _size(key) + (_HEADERS_ROOM_BYTES if options.get("headers") else _ROOM_BYTES)
        if self.transaction.has_room(target, size_bytes):
            return self.transaction.append(target, value, key=key, **options)
        handle: WriteHandle = await self._run(self.transaction.append, target, value, key=key, **options)
        return handle

    async def append_batches(self, topic: str | Topic | AsyncTopic, partition: int, batches: Buffer) -> int:
        """`Transaction.append_batches`."""
        target = topic.topic if isinstance(topic, AsyncTopic) else topic
        count: int = await self._run(self.transaction.append_batches, target, partition, batches)
        return count

    async def commit_positions(self, consumer: AsyncConsumer | CommitsPositions) -> None:
        """`Transaction.commit_positions`, of an asyncio consumer or a plain one."""
        if isinstance(consumer, AsyncConsumer):
            await consumer.call(self.transaction.commit_positions, consumer.consumer)
        else:
            await self._run(self.transaction.commit_positions, consumer)

    async def commit(self) -> None:
        """`commit`. Goes on if it is cancelled."""
        await self._to_the_end(self.transaction.commit)

    async def abort(self) -> None:
        """`abort`. Goes on if it is cancelled."""
        await self._to_the_end(self.transaction.abort)

    async def _to_the_end(self, call: Any) -> None:
        ending = asyncio.ensure_future(self._run(call))
        ending.add_done_callback(_noticed)
        await asyncio.shield(ending)

    async def __aenter__(self) -> Self:
        self._begun = await self._run(self._store.transaction, self.transactional_id, timeout_ms=self._timeout_ms)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._begun is not None:
            await self._to_the_end(lambda: self.transaction.__exit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"AsyncTransaction({self.transactional_id!r})"


def _size(data: bytes | None) -> int:
    return len(data) if isinstance(data, (bytes, bytearray, memoryview)) else 0


def _noticed(ending: "asyncio.Future[Any]") -> None:
    """What went wrong was told to who waited; if nobody did any more, it is said nowhere, as of any call that was cancelled."""
    if not ending.cancelled():
        ending.exception()
