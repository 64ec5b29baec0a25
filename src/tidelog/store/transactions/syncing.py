"""Make several logs durable side by side: each waits for the disk in a thread of its own."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.log.storage_errors import storage_error

SYNC_THREADS = 8


class Syncing:
    """Threads that sync, kept by the store, made when they are first needed. May be shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def sync(self, ends: Sequence[tuple[Log, int]]) -> list[tuple[Log, TidelogError]]:
        """Return when each log is durable up to its end offset, or cannot be made so: then why."""
        waiting = [(log, end) for log, end in ends if log.flushed_end < end]
        if not waiting:
            return []
        others = waiting[1:]
        futures = [self._threads().submit(_wait, log, end) for log, end in others] if others else []
        errors = [_wait(*waiting[0]), *(future.result() for future in futures)]
        return [(log, error) for (log, _), error in zip(waiting, errors, strict=True) if error is not None]

    def wait(self, log: Log, end_offset: int) -> None:
        """Return when a log is durable up to an offset."""
        error = _wait(log, end_offset)
        if error is not None:
            raise error

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)

    def _threads(self) -> ThreadPoolExecutor:
        executor = self._executor
        if executor is None:
            with self._lock:
                executor = self._executor = self._executor or ThreadPoolExecutor(SYNC_THREADS, "tidelog-sync")
        return executor


def _wait(log: Log, end_offset: int) -> TidelogError | None:
    try:
        log.wait_until_durable(end_offset)
    except TidelogError as error:
        return error
    except OSError as error:
        return storage_error(error, log.directory, "making a transaction durable failed")
    return None
