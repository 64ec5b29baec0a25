"""Topics for asyncio: see `tidelog.aio`."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tidelog.errors import TidelogError
from tidelog.log.log_reading import Isolation
from tidelog.log.positions import EARLIEST, LATEST, Position
from tidelog.log.reading import DEFAULT_POLL_S, Overtaken
from tidelog.record.encoding import Headers, Row
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.record.kernel.record import Record
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store.appended import AppendSummary
from tidelog.store.read_only_store import ReadOnlyTopic
from tidelog.store.topic import Topic
from tidelog.store.topic_columns import DEFAULT_COLUMNS
from tidelog.store.topic_range import Positions
from tidelog.store.topic_rounds import Merge, RoundSettings
from tidelog.store.writer import DEFAULT_BUFFER_MEMORY, Writer

if TYPE_CHECKING:
    import pyarrow as pa

Run = Callable[..., Coroutine[Any, Any, Any]]
"""Makes a call in a thread and awaits it."""

_CHUNK_RECORDS = 1000
_CHUNK_BYTES = 1 << 20
"""What a thread reads ahead at most, but for the last record: a switch of threads takes as long as some hundred records."""

T = TypeVar("T", Topic, ReadOnlyTopic)


class _Reading(Generic[T]):
    """What both kinds of topic have."""

    def __init__(self, topic: T, run: Run) -> None:
        self.topic: T = topic
        """The topic itself."""
        self.name = topic.name
        self._run = run

    async def read(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        follow: bool = False,
        merge: Merge | None = None,
        poll_s: float = DEFAULT_POLL_S,
        when_overtaken: Overtaken = "raise",
    ) -> AsyncIterator[Record]:
        """`read`. A thread reads some records ahead; between two looks for more it waits in the loop."""
        settings = RoundSettings(isolation, follow, merge, when_overtaken, poll_s)
        rounds = await self._run(self.topic.rounds, start, end, partition, settings)
        while not rounds.is_done:
            ahead = _Ahead(await self._run(rounds.next_round))
            is_empty = True
            while chunk := await self._run(ahead.take):
                is_empty = False
                for record in chunk:
                    yield record
            if is_empty and not rounds.is_done:
                await asyncio.sleep(poll_s)

    async def arrow(
        self,
        start: Positions = EARLIEST,
        end: Positions = LATEST,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        when_overtaken: Overtaken = "raise",
    ) -> "AsyncIterator[pa.RecordBatch]":
        """`arrow`."""
        options: dict[str, Any] = {"partition": partition, "isolation": isolation, "when_overtaken": when_overtaken}
        batches = await self._run(self.topic.arrow, start, end, columns, **options)
        while (batch := await self._run(next, batches, None)) is not None:
            yield batch

    async def to_arrow(self, *arguments: Any, **options: Any) -> "pa.Table":
        """`to_arrow`, with its arguments."""
        return await self._run(self.topic.to_arrow, *arguments, **options)

    async def to_pandas(self, *arguments: Any, **options: Any) -> Any:
        """`to_pandas`, with its arguments."""
        return await self._run(self.topic.to_pandas, *arguments, **options)

    async def to_polars(self, *arguments: Any, **options: Any) -> Any:
        """`to_polars`, with its arguments."""
        return await self._run(self.topic.to_polars, *arguments, **options)

    async def table(
        self,
        as_of: Position | Mapping[int, int] | None = None,
        *,
        partition: int | None = None,
        isolation: Isolation = "committed",
        allow_incomplete: bool = False,
    ) -> Mapping[bytes, bytes]:
        """`table`."""
        options = {"partition": partition, "isolation": isolation, "allow_incomplete": allow_incomplete}
        found: Mapping[bytes, bytes] = await self._run(self.topic.table, as_of, **options)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class AsyncReadOnlyTopic(_Reading[ReadOnlyTopic]):
    """A topic that is only read."""


class AsyncTopic(_Reading[Topic]):
    """A topic to read and to append to."""

    async def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """`append`. Several at the same time share a sync."""
        options: dict[str, Any] = {"key": key, "headers": headers, "timestamp_ms": timestamp_ms, "partition": partition}
        appended: RecordMetadata = await self._run(self.topic.append, value, **options)
        return appended

    async def append_many(self, records: "Iterable[Row] | pa.Table | pa.RecordBatch", **options: Any) -> AppendSummary:
        """`append_many`. An iterable is iterated by a thread."""
        summary: AppendSummary = await self._run(self.topic.append_many, records, **options)
        return summary

    async def alter(self, config: Mapping[str, object] | None = None, *, reset: Iterable[str] = ()) -> None:
        """`Topic.alter`."""
        await self._run(self.topic.alter, config, reset=reset)

    def writer(self, *, buffer_memory: int = DEFAULT_BUFFER_MEMORY, **options: Any) -> "AsyncWriter":
        """`writer`, with its options. Close it, or use it in `async with`."""
        return AsyncWriter(self.topic.writer(buffer_memory=buffer_memory, **options), self._run, buffer_memory)


class AsyncWriter:
    """A writer whose `append` waits in the loop when the buffer is full. What it returns can be awaited."""

    def __init__(self, writer: Writer, run: Run, buffer_memory: int) -> None:
        self.writer = writer
        """The writer itself."""
        self._run = run
        self._limit_bytes = buffer_memory // 2
        self._pending: deque[tuple[WriteHandle, int]] = deque()
        self._pending_bytes = 0

    async def append(self, value: bytes | None, *, key: bytes | None = None, **options: Any) -> WriteHandle:
        """Hand a record over. It is appended when the handle that comes back is done."""
        pending = self._pending
        while pending and pending[0][0].done():
            self._pending_bytes -= pending.popleft()[1]
        # A record and what the buffer counts for it; far from full, `append` only puts it into a list, and no thread is needed.
        size_bytes = size_of(value) + size_of(key) + 256
        if self._pending_bytes + size_bytes < self._limit_bytes:
            handle = self.writer.append(value, key=key, **options)
        else:
            handle = await self._run(self.writer.append, value, key=key, **options)
        pending.append((handle, size_bytes))
        self._pending_bytes += size_bytes
        return handle

    async def flush(self) -> None:
        """`flush`: all that was handed over is appended when it returns."""
        await self._run(self.writer.flush)

    async def close(self) -> None:
        """`close`. Goes on if it is cancelled."""
        await asyncio.shield(asyncio.to_thread(self.writer.close))  # also when the store, with its threads, is closed already

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self.close()
        except TidelogError:
            if error is None:
                raise  # otherwise what happened first is worth more, a cancellation too; the handles know


def size_of(data: Any) -> int:
    """Of a key or a value; what is none is refused by who encodes it."""
    return len(data) if isinstance(data, (bytes, bytearray, memoryview)) else 0


class _Ahead:
    """Records that a thread reads ahead. What goes wrong is raised behind the records that came before it, as without a thread."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._error: Exception | None = None

    def take(self) -> list[Record]:
        """The next records, as many as are read ahead; none at the end."""
        if self._error is not None:
            raise self._error
        taken = []
        left_bytes = _CHUNK_BYTES
        try:
            for record in self._records:
                taken.append(record)
                left_bytes -= len(record.value or b"") + len(record.key or b"")
                if len(taken) >= _CHUNK_RECORDS or left_bytes <= 0:
                    break
        except Exception as error:
            if not taken:
                raise
            self._error = error
        return taken
