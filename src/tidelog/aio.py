"""The asyncio twins of what waits: opening, appending, reading, closing.

    async with await aio.open("data") as store:
        topic = await store.create_topic("emails", exist_ok=True)
        await topic.append(b"bill@gmail.com", key=b"123")
        async for record in topic.read(follow=True):
            …

The work is done by the same code, in threads of the store's own, so that the loop goes on meanwhile; appends that run at the same time
share a sync. Whoever follows a topic waits in the loop, not in a thread. A call that is cancelled before a thread has taken it is not made;
one that runs already goes through, and nobody hears of it: an append may be in the log then.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from tidelog.aio_calls import to_the_end
from tidelog.aio_consumer import AsyncConsumer, AsyncGroup
from tidelog.aio_topic import AsyncReadOnlyTopic, AsyncTopic, AsyncWriter, Run
from tidelog.aio_transaction import AsyncTransaction
from tidelog.compaction.results import CompactResult
from tidelog.config import LogConfig, StoreConfig
from tidelog.errors import LogClosedError
from tidelog.retention import AnyPolicy
from tidelog.store import open as open_store
from tidelog.store.explain import Explanation
from tidelog.store.loading import Adopt, LoadProgress, Paths
from tidelog.store.metrics import StoreMetrics
from tidelog.store.read_only_metrics import ReadOnlyMetrics
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.retaining import RetentionResult
from tidelog.store.store import Store
from tidelog.store.transactions.hanging import HangingTransaction, TransactionDescription
from tidelog.store.what_if import CountBy, WhatIf

__all__ = [
    "AsyncConsumer",
    "AsyncGroup",
    "AsyncReadOnlyStore",
    "AsyncReadOnlyTopic",
    "AsyncStore",
    "AsyncTopic",
    "AsyncTransaction",
    "AsyncWriter",
    "open",
]

DEFAULT_THREADS = 32
"""Appends that are made at the same time share a sync, so more threads than processors are of use."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", Store, ReadOnlyStore)


@overload
async def open(  # noqa: A001
    path: Paths,
    mode: Literal["a"] = "a",
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    *,
    policies: Sequence[AnyPolicy] = (),
    progress: Callable[[LoadProgress], None] | None = None,
    threads: int = DEFAULT_THREADS,
) -> "AsyncStore": ...


@overload
async def open(  # noqa: A001
    path: Paths,
    mode: Literal["r"],
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    *,
    threads: int = DEFAULT_THREADS,
) -> "AsyncReadOnlyStore": ...


async def open(  # noqa: A001
    path: Paths,
    mode: Literal["a", "r"] = "a",
    config: Mapping[str, object] | StoreConfig | None = None,
    clock: Callable[[], int] | None = None,
    adopt: Adopt = False,
    lock_timeout_s: float = 0,
    *,
    policies: Sequence[AnyPolicy] = (),
    progress: Callable[[LoadProgress], None] | None = None,
    threads: int = DEFAULT_THREADS,
) -> "AsyncStore | AsyncReadOnlyStore":
    """`tidelog.open`; up to `threads` calls are made at a time. `clock` and `progress` are called by threads, not in the loop."""
    executor = ThreadPoolExecutor(threads, "tidelog-aio")
    call: Callable[..., Any] = open_store  # which knows what goes with which mode
    opening: Future[Any] = executor.submit(call, path, mode, config, clock, adopt, lock_timeout_s, policies=policies, progress=progress)
    try:
        store: Any = await asyncio.wrap_future(opening)
    except BaseException:  # a cancelled task too
        # A store that is opened all the same has to be given back, by the thread that opens it: this loop may be gone then.
        opening.add_done_callback(_close_abandoned)
        executor.shutdown(wait=False)
        raise
    return AsyncReadOnlyStore(store, executor) if mode == "r" else AsyncStore(store, executor)


def _close_abandoned(opening: "Future[Any]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class _Opened(Generic[S]):
    """What both kinds of store have."""

    def __init__(self, store: S, executor: ThreadPoolExecutor) -> None:
        self.store: S = store
        """The store itself: what it answers from memory needs no twin."""
        self._executor = executor
        self._closing: asyncio.Future[None] | None = None

    async def _run(self, call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        if self._closing is not None:
            raise LogClosedError("the store is closed", path=self.store.paths[0])
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(call, *arguments, **options))

    @property
    def _runner(self) -> Run:
        return self._run

    async def transactions(self) -> list[TransactionDescription]:
        """`transactions`."""
        return await self._run(self.store.transactions)

    async def hanging_transactions(self) -> list[HangingTransaction]:
        """`hanging_transactions`."""
        return await self._run(self.store.hanging_transactions)

    # What is done to it, and what would be

    async def compact(
        self, topic: str | None = None, *, roll: bool = False, dry_run: bool = False, drop_null_keys: bool = False
    ) -> CompactResult:
        """`compact`."""
        return await self._run(self.store.compact, topic, roll=roll, dry_run=dry_run, drop_null_keys=drop_null_keys)

    async def explain(self, topic: str | None = None, now_ms: int | None = None) -> Explanation:
        """`explain`."""
        return await self._run(self.store.explain, topic, now_ms)

    async def what_if(
        self, topic: str, configs: Iterable[Mapping[str, object]], *, now_ms: int | None = None, count_by: CountBy = "offsets"
    ) -> WhatIf:
        """`what_if`."""
        return await self._run(self.store.what_if, topic, configs, now_ms=now_ms, count_by=count_by)

    # Groups

    async def consumer(
        self, group: str, topics: str | Iterable[str], *, positions: "AsyncStore | Store | None" = None, **options: Any
    ) -> AsyncConsumer:
        """`consumer`, with its options. Close it, or use it in `async with`."""
        keeper = _keeper(positions)
        joining = asyncio.ensure_future(self._run(self.store.consumer, group, topics, positions=keeper, **options))
        try:
            return AsyncConsumer(await to_the_end(joining), self._runner)
        except asyncio.CancelledError:
            if not joining.cancelled() and joining.exception() is None:  # nobody will use it, and the group is to have no member
                await to_the_end(asyncio.to_thread(joining.result().close))
            raise

    async def groups(self) -> list[AsyncGroup]:
        """All groups that something is known of, by name."""
        return [AsyncGroup(group, self._runner) for group in await self._run(self.store.groups)]

    def group(self, name: str, *, positions: "AsyncStore | Store | None" = None) -> AsyncGroup:
        """A group by its name. `positions` is another store, that keeps its positions."""
        return AsyncGroup(self.store.group(name, positions=_keeper(positions)), self._runner)

    async def close(self) -> None:
        """`close`, when the calls that run are done. Goes on if it is cancelled."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(None, self._close)
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        self._executor.shutdown(wait=True)
        self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_closing", self) is None and not self.store.is_closed:
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.store.paths)})"


def _keeper(positions: "AsyncStore | Store | None") -> Store | None:
    """The store that keeps positions, whichever of its two forms is given."""
    return positions.store if isinstance(positions, AsyncStore) else positions


class AsyncReadOnlyStore(_Opened[ReadOnlyStore]):
    """A store that is only read. Made by `open(…, mode="r")`."""

    async def topics(self) -> list[AsyncReadOnlyTopic]:
        """All topics, by name, as they are now."""
        return [AsyncReadOnlyTopic(topic, self._runner) for topic in await self._run(self.store.topics)]

    async def topic(self, name: str) -> AsyncReadOnlyTopic:
        """A topic that is there."""
        return AsyncReadOnlyTopic(await self._run(self.store.topic, name), self._runner)

    async def metrics(self) -> ReadOnlyMetrics:
        """`ReadOnlyStore.metrics`."""
        return await self._run(self.store.metrics)


class AsyncStore(_Opened[Store]):
    """A store. Made by `open`."""

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, object] | LogConfig | None = None,
        exist_ok: bool = False,
        topic_id: UUID | None = None,
    ) -> AsyncTopic:
        """`Store.create_topic`."""
        return AsyncTopic(await self._run(self.store.create_topic, name, partitions, config, exist_ok, topic_id), self._runner)

    async def topics(self) -> list[AsyncTopic]:
        """All topics, by name."""
        return [AsyncTopic(topic, self._runner) for topic in await self._run(self.store.topics)]

    async def topic(self, name: str) -> AsyncTopic:
        """A topic that is there."""
        return AsyncTopic(await self._run(self.store.topic, name), self._runner)

    async def delete_topic(self, name: str) -> None:
        """`Store.delete_topic`."""
        await self._run(self.store.delete_topic, name)

    def transaction(self, transactional_id: str, *, timeout_ms: int | None = None) -> AsyncTransaction:
        """`Store.transaction`. It begins with `async with`."""
        return AsyncTransaction(self.store, transactional_id, timeout_ms, self._runner)

    async def abort_hanging(self, transaction: HangingTransaction) -> None:
        """`Store.abort_hanging`."""
        await self._run(self.store.abort_hanging, transaction)

    async def retain(self, topic: str | None = None) -> RetentionResult:
        """`Store.retain`."""
        return await self._run(self.store.retain, topic)

    async def remove_deleted(self) -> int:
        """`Store.remove_deleted`."""
        return await self._run(self.store.remove_deleted)

    async def metrics(self) -> StoreMetrics:
        """`Store.metrics`."""
        return await self._run(self.store.metrics)

    async def flush(self) -> None:
        """`Store.flush`."""
        await self._run(self.store.flush)
