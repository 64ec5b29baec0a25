"""One pass of compaction over a log of a store: with the store's memory, throttle, disk space and checkpoint.

What a pass may use is the store's, whoever asks for it, a cleaner thread or `compact`: the dedupe buffer is divided by
`log.cleaner.threads`, and no more passes run at a time than there are shares. A pass takes no more of its share than its keys can need.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from tidelog.compaction.cleaning import CleanedLog, Hooks, clean_log
from tidelog.compaction.offset_map import BYTES_PER_ENTRY, MAX_MEMORY_BYTES, OffsetMap
from tidelog.compaction.plan import CleaningPlan, plan_cleaning
from tidelog.compaction.results import removed_by
from tidelog.compaction.throttler import Throttler
from tidelog.config import StoreConfig
from tidelog.errors import CleaningAbortedError, DiskFullError, TidelogError
from tidelog.log.log import Log
from tidelog.log.storage_errors import storage_error
from tidelog.retention import FreeSpaceFloor
from tidelog.store.state import StoreState

_LOOK_UP_S = 0.1


class PassTotals(NamedTuple):
    """What all passes did since the store was opened."""

    passes: int = 0
    failures: int = 0
    aborted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_removed: int = 0


class RecentPass(NamedTuple):
    """A pass that has ended."""

    cleaned: CleanedLog
    utilization: float
    """How full its share of the dedupe buffer got."""
    elapsed_s: float


class Passes:
    """What passes over the logs of a store share. May be shared between threads."""

    def __init__(self, state: StoreState, floor_bytes: int) -> None:
        config = state.config
        self._state = state
        self._floor_bytes = floor_bytes
        threads = max(1, config.log_cleaner_threads)
        self._share_bytes = share_of(config)
        self._shares = threading.Semaphore(threads)
        self._lock = threading.Lock()
        self.throttler = Throttler(config.log_cleaner_io_max_bytes_per_second)
        self.totals = PassTotals()
        self.recent: deque[RecentPass] = deque(maxlen=threads)
        """The last pass of each thread, or as many."""

    def plan(self, log: Log, now_ms: int) -> CleaningPlan:
        """What a pass over a log would be."""
        return plan_cleaning(log, log.config, self._state.cleaner_offset(log.partition), now_ms)

    def run(self, log: Log, plan: CleaningPlan, now_ms: int, *, drop_null_keys: bool = False, dry_run: bool = False) -> CleanedLog:
        """Make a pass. The caller has begun it: nobody else cleans the log meanwhile."""
        check_done = partial(self._check, log)
        try:
            with self._map_for(plan, check_done) as offset_map:
                hooks = Hooks(
                    throttle=lambda size_bytes: self.throttler.throttle(size_bytes, check_done),
                    check_done=check_done,
                    check_space=partial(self._make_room, log),
                )
                cleaned = clean_log(log, plan, offset_map, now_ms, hooks=hooks, drop_null_keys=drop_null_keys, dry_run=dry_run)
                entries = offset_map.entries
            if not dry_run:
                self._state.checkpoint_cleaner(log.partition, cleaned.next_dirty_offset)
                self._free_if_low(log)
                self._count(cleaned, entries)
                if cleaned.next_dirty_offset <= plan.first_dirty_offset:
                    raise TidelogError("a pass of compaction got nowhere", path=log.directory, found=f"offset {cleaned.next_dirty_offset}")
        except CleaningAbortedError:
            self._add(aborted=1)
            raise
        except Exception:  # only counted here; who asked for the pass marks the log and tells
            self._add(failures=1)
            raise
        return cleaned

    def _check(self, log: Log) -> None:
        self._state.cleanings.check_aborted(log.partition)
        if not log.config.is_compacted:
            raise CleaningAbortedError(f"{log.partition} is not compacted any more", hint="its cleanup.policy was changed")

    @contextmanager
    def _map_for(self, plan: CleaningPlan, check: Callable[[], None]) -> Iterator[OffsetMap]:
        """An offset map of one share of the memory, when one is free."""
        while not self._shares.acquire(timeout=_LOOK_UP_S):
            check()
        try:
            config = self._state.config
            yield OffsetMap(map_memory(config, plan), config.log_cleaner_io_buffer_load_factor)
        finally:
            self._shares.release()

    def _make_room(self, log: Log, size_bytes: int) -> None:
        """Raise if the files that are to be written do not fit. What waits to be removed does not wait when space is short."""
        free_bytes = self._free_bytes(log)
        if free_bytes - size_bytes < self._floor_bytes and log.deleted_bytes:
            log.remove_deleted(at_once=True)
            free_bytes = self._free_bytes(log)
        if free_bytes < size_bytes:
            raise DiskFullError(
                "not enough space to compact the next segments",
                path=log.directory,
                expected=f"{size_bytes} bytes free",
                found=free_bytes,
                hint=f"{size_bytes - free_bytes} bytes are missing; nothing of these segments was changed",
            )

    def _free_if_low(self, log: Log) -> None:
        if log.deleted_bytes and self._free_bytes(log) < self._floor_bytes:
            log.remove_deleted(at_once=True)

    def _free_bytes(self, log: Log) -> int:
        try:
            return self._state.disk.free_bytes(log.directory)
        except OSError as error:
            raise storage_error(error, log.directory, "asking for free space failed") from error

    def _count(self, cleaned: CleanedLog, entries: int) -> None:
        stats = cleaned.stats
        self.recent.append(RecentPass(cleaned, entries / max(1, self._share_bytes // BYTES_PER_ENTRY), stats.elapsed_ms / 1000))
        self._add(
            passes=1,
            bytes_read=stats.bytes_read,
            bytes_written=stats.bytes_written,
            records_removed=removed_by(stats),
        )

    def _add(self, **counts: int) -> None:
        with self._lock:
            self.totals = self.totals._replace(**{name: getattr(self.totals, name) + count for name, count in counts.items()})


def share_of(config: StoreConfig) -> int:
    """The dedupe buffer of one pass."""
    return min(config.log_cleaner_dedupe_buffer_size // max(1, config.log_cleaner_threads), MAX_MEMORY_BYTES)


def map_memory(config: StoreConfig, plan: CleaningPlan) -> int:
    """How much of that a plan can need: as if no key came twice, in a map that is half full."""
    most_keys = max(0, plan.bound - plan.first_dirty_offset)
    enough = int(2 * most_keys / max(config.log_cleaner_io_buffer_load_factor, 1e-6) + 2) * BYTES_PER_ENTRY
    return min(share_of(config), enough)


def floor_of(configured: int, policies: Iterable[object]) -> int:
    """The floor under the free space: the setting's, or that of a retention policy that has a higher one."""
    return max([configured, *(policy.min_free_bytes for policy in policies if isinstance(policy, FreeSpaceFloor))])
