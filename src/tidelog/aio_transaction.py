"""Transactions for asyncio: see `tidelog.aio`.

    async with store.transaction("id") as tx:
        await tx.append("emails", b"…", key=b"…")

A record is put into a list, which takes no thread; only when some are to be written does a thread do it.
"""

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tidelog.aio_calls import to_the_end
from tidelog.aio_consumer import AsyncConsumer
from tidelog.aio_topic import AsyncTopic, Run, size_of
from tidelog.disk.disk import Buffer
from tidelog.errors import TidelogError, TransactionError
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.store.groups.offset_commits import CommitsPositions
from tidelog.store.store import Store
from tidelog.store.topic import Topic
from tidelog.store.transactions.transaction import Transaction

_logger = logging.getLogger(__name__)
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
        size_bytes = size_of(value) + size_of(key) + (_HEADERS_ROOM_BYTES if options.get("headers") else _ROOM_BYTES)
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
        """`commit`. Goes through if it is cancelled, which is told when it is over: nobody begins again in front of what it commits."""
        await to_the_end(self._run(self.transaction.commit))

    async def abort(self) -> None:
        """`abort`. Goes through if it is cancelled, as `commit` does."""
        await to_the_end(self._run(self.transaction.abort))

    async def __aenter__(self) -> Self:
        try:
            await to_the_end(self._run(self._begin))
        except asyncio.CancelledError:
            if self._begun is not None:  # nobody will use it, and nothing is written yet
                with suppress(TidelogError):
                    await to_the_end(self._run(self._begun.abort))
            raise
        return self

    def _begin(self) -> None:
        self._begun = self._store.transaction(self.transactional_id, timeout_ms=self._timeout_ms)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._begun is None:
            return
        try:
            await to_the_end(self._run(self.transaction.__exit__, kind, error, trace))
        except TidelogError as second:
            if error is None:
                raise
            _logger.warning("aborting transaction %s: %s", self.transactional_id, second)  # what happened first is worth more

    def __repr__(self) -> str:
        return f"AsyncTransaction({self.transactional_id!r})"
