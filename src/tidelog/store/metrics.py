"""What there is to measure: the numbers that Kafka exposes for its logs, and how the tasks of the store are doing, at one moment."""

import math
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.store.cleaner import Cleaner
from tidelog.store.cleaner_metrics import CleanerMetrics, measure_cleaner
from tidelog.store.cleaning_passes import Passes
from tidelog.store.groups.group_metrics import GroupMetrics, measure_groups
from tidelog.store.groups.source import OwnedSource
from tidelog.store.prometheus import to_prometheus
from tidelog.store.scheduler import Scheduler, TaskReport
from tidelog.store.state import StoreState

_MINUTE_S = 60.0


class PartitionMetrics(NamedTuple):
    """Kafka's `kafka.log:type=Log`, of one partition that is open."""

    partition: TopicPartition
    size_bytes: int
    """Size."""
    segments: int
    """NumLogSegments."""
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int
    deleted_bytes: int
    """Of deleted segments whose files wait to be removed."""
    producers: int
    """Producers that are remembered."""
    is_failed: bool
    """Takes no more writes."""
    flush_error: str | None = None
    """What went wrong with a flush in the background and was not done since."""


class TopicMetrics(NamedTuple):
    """What came in since the logs of a topic were opened: Kafka's `BrokerTopicMetrics`."""

    topic: str
    records_in: int
    """By offsets: markers of transactions count too."""
    bytes_in: int
    records_in_per_s: float
    """Over about the last minute, as of the last tick of the scheduler; 0 before the first."""
    bytes_in_per_s: float


class DirectoryMetrics(NamedTuple):
    """One log directory."""

    path: str
    is_offline: bool
    """LogDirectoryOffline: it cannot be read, or one of its logs has failed, for which Kafka would give up the directory."""
    free_bytes: int
    """Of its file system; 0 if that cannot be asked."""


class FlushMetrics(NamedTuple):
    """LogFlushRateAndTimeMs: syncs of `.log` files since the logs were opened."""

    syncs: int
    total_ms: float
    max_ms: float

    @property
    def mean_ms(self) -> float:
        """How long one took."""
        return self.total_ms / self.syncs if self.syncs else 0.0


class StoreMetrics(NamedTuple):
    """A store at one moment."""

    now_ms: int
    partitions: tuple[PartitionMetrics, ...]
    topics: tuple[TopicMetrics, ...]
    directories: tuple[DirectoryMetrics, ...]
    flush: FlushMetrics
    cleaner: CleanerMetrics
    tasks: tuple[TaskReport, ...]
    dead_threads: int
    """Threads that ended although nobody stopped them: always 0, or look into the log."""
    failed_partitions: int
    """Partitions that could not be opened."""
    deleted_topics: int
    """Deleted topics whose directories wait to be removed."""
    groups: tuple[GroupMetrics, ...] = ()
    """How far groups are behind."""

    @property
    def offline_log_directories(self) -> int:
        """OfflineLogDirectoryCount."""
        return sum(directory.is_offline for directory in self.directories)

    @property
    def failing_tasks(self) -> tuple[str, ...]:
        """The names of tasks whose last run failed."""
        return tuple(task.name for task in self.tasks if task.failures_in_a_row)

    def to_prometheus(self) -> str:
        """As text for Prometheus to scrape. What Kafka has too is named as its JMX exporter names it."""
        return to_prometheus(self)


class Rates:
    """How fast records and bytes come in, by topic: moving averages of a minute, moved on by `tick`."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._at_ms = state.clock()
        self._totals: dict[str, tuple[int, int]] = {}
        self.per_s: dict[str, tuple[float, float]] = {}
        """Records and bytes by topic. Replaced whole."""

    def tick(self) -> None:
        """Look how much came in since the last time."""
        now_ms, totals = self._state.clock(), totals_of(self._state)
        passed_s = (now_ms - self._at_ms) / 1000
        if passed_s < 0:  # the clock was put back: what came in since the last time is not counted, but what comes is
            self._at_ms, self._totals = now_ms, totals
        if passed_s <= 0:
            return
        share = 1 - math.exp(-passed_s / _MINUTE_S)
        rates = {}
        for topic, (records, size_bytes) in totals.items():
            before = self._totals.get(topic, (0, 0))
            now = (max(0, records - before[0]) / passed_s, max(0, size_bytes - before[1]) / passed_s)
            old = self.per_s.get(topic, now)
            rates[topic] = (old[0] + share * (now[0] - old[0]), old[1] + share * (now[1] - old[1]))
        self._at_ms, self._totals, self.per_s = now_ms, totals, rates


def totals_of(state: StoreState) -> dict[str, tuple[int, int]]:
    """Records and bytes that came in, by topic."""
    totals: dict[str, tuple[int, int]] = {}
    for partition, log in sorted(state.logs.items()):
        records, size_bytes = totals.get(partition.topic, (0, 0))
        appended = log.appended
        totals[partition.topic] = (records + appended.records, size_bytes + appended.size_bytes)
    return totals


def measure(state: StoreState, scheduler: Scheduler, rates: Rates, cleaner: Cleaner, passes: Passes) -> StoreMetrics:
    """A store as it is now."""
    logs = sorted(state.logs.items())
    flushes = [log.flush_stats for _, log in logs]
    no_rate = (0.0, 0.0)
    return StoreMetrics(
        now_ms=state.clock(),
        partitions=tuple(
            PartitionMetrics(
                partition,
                log.size_bytes,
                len(log.segments),
                log.log_start_offset,
                log.log_end_offset,
                log.high_watermark,
                log.recovery_point,
                log.deleted_bytes,
                log.producers,
                log.failure is not None,
                None if log.flush_error is None else str(log.flush_error),
            )
            for partition, log in logs
        ),
        topics=tuple(TopicMetrics(topic, *totals, *rates.per_s.get(topic, no_rate)) for topic, totals in totals_of(state).items()),
        directories=tuple(_directory(state, path) for path in state.paths),
        flush=FlushMetrics(
            sum(flush.syncs for flush in flushes),
            sum(flush.total_ms for flush in flushes),
            max((flush.max_ms for flush in flushes), default=0.0),
        ),
        cleaner=measure_cleaner(state, cleaner, passes),
        tasks=tuple(scheduler.reports()),
        dead_threads=int(scheduler.is_dead) + cleaner.dead_threads,
        failed_partitions=len(state.failures),
        deleted_topics=len(state.file.deleted),
        groups=measure_groups(OwnedSource(state)),
    )


def _directory(state: StoreState, path: str) -> DirectoryMetrics:
    try:
        free_bytes, is_offline = state.disk.free_bytes(path), False
    except OSError:
        free_bytes, is_offline = 0, True
    failed = [state.homes.get(partition) for partition, log in list(state.logs.items()) if log.failure is not None]
    has_failed = any(home is not None and home.path == path for home in failed)
    return DirectoryMetrics(path, is_offline or has_failed, free_bytes)
