"""What there is to measure about the cleaner: what Kafka's `LogCleaner` and `LogCleanerManager` expose, and which logs are in trouble."""

from typing import NamedTuple

from tidelog.compaction.choice import choose
from tidelog.compaction.plan import cleanable_log
from tidelog.disk.names import TopicPartition
from tidelog.store.cleaner import Cleaner
from tidelog.store.cleaning_passes import Passes, PassTotals
from tidelog.store.state import StoreState
from tidelog.store.uncleanable import Uncleanable


class DirectoryCleaning(NamedTuple):
    """Of one log directory."""

    path: str
    uncleanable_partitions: int
    """uncleanable-partitions-count."""
    uncleanable_bytes: int
    """uncleanable-bytes: what waits in them to be cleaned."""


class CleanerMetrics(NamedTuple):
    """The cleaner of a store at one moment. What is about last passes is about those of each thread."""

    threads: int
    """Cleaner threads that were started; 0 where the scheduler takes their turns, or nobody does."""
    dead_threads: int
    """DeadThreadCount."""
    max_buffer_utilization_percent: float
    """How full the share of the dedupe buffer got, at most, in the last passes."""
    recopy_percent: float
    """cleaner-recopy-percent: of the bytes that the last passes read, how many they wrote again."""
    max_clean_time_s: float
    """How long the longest of the last passes took."""
    max_compaction_delay_s: float
    """By how much the oldest dirty record is older than `max.compaction.lag.ms` allows, as of the last look."""
    max_dirty_percent: float
    """The dirty ratio of the filthiest log, as of the last look."""
    time_since_last_run_ms: int
    """Since logs were last looked at for one to clean."""
    in_progress: tuple[TopicPartition, ...]
    """Logs that are being compacted now."""
    uncleanable: tuple[Uncleanable, ...]
    """Logs that could not be compacted the last time, with the cause."""
    directories: tuple[DirectoryCleaning, ...]
    totals: PassTotals
    """Since the store was opened."""
    io_bytes: int
    """cleaner-io: what passed the throttle since the store was opened."""
    throttled_s: float
    """How long the throttle held it up."""


def measure_cleaner(state: StoreState, cleaner: Cleaner, passes: Passes) -> CleanerMetrics:
    """The cleaner as it is now."""
    recent = list(passes.recent)
    read = sum(one.cleaned.stats.bytes_read for one in recent)
    written = sum(one.cleaned.stats.bytes_written for one in recent)
    marks = state.uncleanable.all()
    return CleanerMetrics(
        threads=cleaner.threads,
        dead_threads=cleaner.dead_threads,
        max_buffer_utilization_percent=100 * max((one.utilization for one in recent), default=0.0),
        recopy_percent=100 * written / max(1, read),
        max_clean_time_s=max((one.elapsed_s for one in recent), default=0.0),
        max_compaction_delay_s=cleaner.max_compaction_delay_ms / 1000,
        max_dirty_percent=100 * cleaner.max_dirty_ratio,
        time_since_last_run_ms=max(0, state.clock() - cleaner.last_run_ms),
        in_progress=state.cleanings.in_progress(),
        uncleanable=marks,
        directories=tuple(_directory(state, path, marks) for path in state.paths),
        totals=passes.totals,
        io_bytes=passes.throttler.total_bytes,
        throttled_s=passes.throttler.waited_s,
    )


def _directory(state: StoreState, path: str, marks: tuple[Uncleanable, ...]) -> DirectoryCleaning:
    here = [mark.partition for mark in marks if (home := state.homes.get(mark.partition)) is not None and home.path == path]
    return DirectoryCleaning(path, len(here), sum(_cleanable_bytes(state, partition) for partition in here))


def _cleanable_bytes(state: StoreState, partition: TopicPartition) -> int:
    log = state.logs.get(partition)
    if log is None or log.is_closed:
        return 0
    try:
        facts = cleanable_log(log, log.config, state.cleaner_offset(partition), log.segments)
        return choose(facts, log.config, state.clock()).cleanable_bytes
    except OSError:  # what is wrong may be the disk
        return 0
