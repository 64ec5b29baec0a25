"""Partitions that could not be compacted, why, and when it is tried again.

Kafka marks such a partition until the broker is started again. Here it is tried again after a while, twice as long each time, up to an
hour: a full disk may have room then. Records without key do not go away by waiting, so a log that has some is left until its start has
passed them, its settings are changed, or somebody compacts it by hand.
"""

import logging
import threading
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import NullKeysError, TidelogError

FIRST_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 3_600_000
_log = logging.getLogger("tidelog")


class Uncleanable(NamedTuple):
    """A partition that could not be compacted the last time."""

    partition: TopicPartition
    error: Exception
    since_ms: int
    failures: int
    """In a row."""
    retry_ms: int | None
    """When it is tried again; None: not by time."""

    @property
    def cause(self) -> str:
        """What went wrong."""
        return f"{type(self.error).__name__}: {self.error}"

    def may_try(self, now_ms: int, log_start_offset: int) -> bool:
        """Whether it is time to try again."""
        if isinstance(self.error, NullKeysError) and self.error.offsets:
            return log_start_offset > self.error.offsets[0]
        return self.retry_ms is None or now_ms >= self.retry_ms


def backoff_ms(failures: int, first_ms: int) -> int:
    """How long to wait after that many failures in a row."""
    first_ms = max(FIRST_BACKOFF_MS, first_ms)
    return max(first_ms, min(first_ms << min(failures - 1, 30), MAX_BACKOFF_MS))


class UncleanableTable:
    """All of them. May be shared between threads."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, Uncleanable] = {}
        self._lock = threading.Lock()

    def mark(self, partition: TopicPartition, error: Exception, now_ms: int, first_backoff_ms: int) -> Uncleanable:
        """A pass has failed."""
        unexpected = None if isinstance(error, TidelogError) else error
        _log.warning("%s could not be compacted: %s", partition, error, exc_info=unexpected)
        _forget_frames(error)
        with self._lock:
            before = self._found.get(partition)
            failures = 1 if before is None else before.failures + 1
            since_ms = now_ms if before is None else before.since_ms
            retry_ms = None if isinstance(error, NullKeysError) else now_ms + backoff_ms(failures, first_backoff_ms)
            self._found[partition] = mark = Uncleanable(partition, error, since_ms, failures, retry_ms)
            return mark

    def clear(self, partition: TopicPartition) -> None:
        """A pass went well, or what was wrong may be different now."""
        with self._lock:
            self._found.pop(partition, None)

    def get(self, partition: TopicPartition) -> Uncleanable | None:
        """What is wrong with a partition; None if nothing is."""
        return self._found.get(partition)

    def all(self) -> tuple[Uncleanable, ...]:
        """All of them, by partition."""
        with self._lock:
            return tuple(mark for _, mark in sorted(self._found.items()))


def _forget_frames(error: BaseException) -> None:
    """An error that is kept must not keep what the pass worked with: its frames have the offset map."""
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            rest += [one.__cause__, one.__context__]
