"""A data directory, or several, with topics: what a broker's log manager is, as an object."""

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from random import Random
from types import TracebackType
from uuid import UUID

from tidelog.config import LogConfig, StoreConfig
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.plurals import counted
from tidelog.record.kernel.clock import wall_clock
from tidelog.retention import AnyPolicy
from tidelog.store import topic_changes, topic_deletion
from tidelog.store.finishing import finish_commits
from tidelog.store.groups.source import OwnedSource
from tidelog.store.groups.store_groups import StoreGroups
from tidelog.store.loading import Adopt, LoadProgress, Paths, close_logs, load
from tidelog.store.retaining import check_policies
from tidelog.store.staging import sweep_staging
from tidelog.store.state import StoreState
from tidelog.store.store_care import StoreCare
from tidelog.store.topic import Topic
from tidelog.store.topic_names import INTERNAL_TOPICS
from tidelog.store.transactions.store_transactions import StoreTransactions
from tidelog.store.writer import close_writers


class Store(StoreCare, StoreGroups, StoreTransactions):
    """Made by `tidelog.open`. A context manager; may be shared between threads."""

    def __init__(self, state: StoreState, policies: Sequence[AnyPolicy] = ()) -> None:
        self._state = state
        self._take_care(policies)

    @classmethod
    def open(
        cls,
        paths: Paths,
        *,
        config: Mapping[str, object] | StoreConfig | None = None,
        clock: Callable[[], int] | None = None,
        adopt: Adopt = False,
        lock_timeout_s: float = 0,
        pool: FilePool = SHARED,
        progress: Callable[[LoadProgress], None] | None = None,
        random: Random | None = None,
        policies: Sequence[AnyPolicy] = (),
        background: bool = True,
        only: Collection[TopicPartition] | None = None,
    ) -> "Store":
        """See `tidelog.open`. Without `background` nothing is done by the clock until `scheduler.run_due` is called.

        With `only` the other partitions are not opened before they are asked for, see `loading.load`.
        """
        check_policies(policies)
        state = load(
            paths,
            config,
            clock or wall_clock,
            pool,
            random or Random(),  # noqa: S311
            adopt=adopt,
            lock_timeout_s=lock_timeout_s,
            progress=progress,
            only=only,
        )
        try:
            store = cls(state, policies)
        except BaseException:  # a clock that is none, say: nobody else would give the directories back
            state.is_closed = True
            with suppress(TidelogError):  # the first error is the one to tell
                close_logs(state)
            raise
        try:
            finish_commits(state)
            sweep_staging(state.disk, state.paths, wall_clock())  # by the times of files, whatever clock the records have
            store._transactions.finish_all()
            if background:
                store.scheduler.start()
                store._cleaner.start()
        except BaseException:  # an interrupt too: nobody would close it
            store.close()
            raise
        return store

    @property
    def paths(self) -> list[str]:
        """Its log directories."""
        return self._state.paths

    @property
    def config(self) -> StoreConfig:
        """Its settings."""
        return self._state.config

    @property
    def failures(self) -> dict[TopicPartition, TidelogError]:
        """The partitions that could not be opened, and why."""
        return dict(self._state.failures)

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, object] | LogConfig | None = None,
        exist_ok: bool = False,
        topic_id: UUID | None = None,
    ) -> Topic:
        """Create a topic, on disk when this returns. With `exist_ok` one that is there is given back as it is, however it is set.

        Without a word about `retention.ms` it keeps its data for ever, which `describe` shows. A `topic_id` is that of the same topic
        under a broker.
        """
        topic_changes.create(self._state, name, partitions, config, topic_id, exist_ok=exist_ok)
        return Topic(self._state, name)

    def topics(self, *, internal: bool = True) -> list[Topic]:
        """All topics, by name; without `internal` those that Kafka keeps for itself are left out."""
        self._state.check()
        return [Topic(self._state, name) for name in sorted(self._state.file.topics) if internal or name not in INTERNAL_TOPICS]

    def topic(self, name: str) -> Topic:
        """A topic that is there."""
        self._state.entry(name)
        return Topic(self._state, name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and the positions of all groups in it.

        Its directories are renamed at once, and removed after `file.delete.delay.ms`.
        """
        topic_deletion.delete(self._state, name)

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition."""
        return self._state.log(TopicPartition(topic, partition))

    def _source(self) -> OwnedSource:
        return OwnedSource(self._state)

    # Closing

    def close(self) -> None:
        """Flush and close every log, and let go of the directories. Does nothing the second time, nor in a forked child."""
        state = self._state
        if state.pid != os.getpid():
            return  # everything is the parent's; a thread that does not exist here may hold the lock
        self._cleaner.stop()  # before the lock, which a task may want; and first, since a task may be a long pass
        self.scheduler.stop()
        unwritten = close_writers(state)
        self._transactions.close()
        with state.lock:
            if state.is_closed:
                return
            state.is_closed = True
            close_logs(state)
        if unwritten is not None:
            raise unwritten

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._state.is_closed

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None and not state.is_closed and state.pid == os.getpid():
            self.scheduler.abandon()
            self._cleaner.abandon()
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"Store({', '.join(self.paths)}; {counted(len(self._state.file.topics), 'topic')})"
