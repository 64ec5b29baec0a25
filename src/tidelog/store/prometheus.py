"""Metrics as text for Prometheus, in its exposition format 0.0.4.

What Kafka has too has the name that Prometheus' JMX exporter gives it (`kafka_log_log_size`), so that a dashboard for brokers shows a
store; what only a store has begins with `tidelog_`. Counters end in `_total` or `_count` and begin again at 0 when the store is opened.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.store.groups.group_metrics import of_groups
from tidelog.store.prometheus_cleaner import of_cleaner
from tidelog.store.prometheus_family import Family, Labels, one_value

if TYPE_CHECKING:
    from tidelog.store.metrics import StoreMetrics


def to_prometheus(metrics: "StoreMetrics") -> str:
    """All metrics of a store."""
    return as_text(families(metrics))


def as_text(families: Iterable[Family]) -> str:
    """Metrics as they are scraped; those without a value are left out."""
    return "".join(_format(family) for family in families if family.samples)


def families(metrics: "StoreMetrics") -> Iterator[Family]:
    """All metrics of a store, one after the other."""
    yield from _of_partitions(metrics)
    yield from _of_topics(metrics)
    yield from _of_directories(metrics)
    flush = metrics.flush
    time_ms = "kafka_log_logflushstats_logflushrateandtimems"
    yield one_value(f"{time_ms}_count", "counter", "Syncs of .log files", flush.syncs)
    yield one_value(f"{time_ms}_mean", "gauge", "How long a sync takes, in milliseconds", flush.mean_ms)
    yield one_value(f"{time_ms}_max", "gauge", "How long the longest sync took, in milliseconds", flush.max_ms)
    yield one_value("tidelog_log_flush_seconds_total", "counter", "How long all syncs took", flush.total_ms / 1000)
    yield one_value("tidelog_dead_threads", "gauge", "Threads that ended although nobody stopped them", metrics.dead_threads)
    yield one_value("tidelog_failed_partitions", "gauge", "Partitions that could not be opened", metrics.failed_partitions)
    yield one_value("tidelog_deleted_topics", "gauge", "Deleted topics whose files wait to be removed", metrics.deleted_topics)
    yield from of_cleaner(metrics.cleaner)
    yield from of_groups(metrics.groups)
    yield from _of_tasks(metrics)


def _of_partitions(metrics: "StoreMetrics") -> Iterator[Family]:
    def gauge(name: str, text: str, values: Iterable[float]) -> Family:
        labels = ({"topic": one.partition.topic, "partition": str(one.partition.partition)} for one in metrics.partitions)
        return Family(name, "gauge", text, list(zip(labels, values, strict=True)))

    all_of = metrics.partitions
    yield gauge("kafka_log_log_size", "Bytes of a partition", (one.size_bytes for one in all_of))
    yield gauge("kafka_log_log_numlogsegments", "Segments of a partition", (one.segments for one in all_of))
    yield gauge("kafka_log_log_logstartoffset", "The first offset that can be read", (one.log_start_offset for one in all_of))
    yield gauge("kafka_log_log_logendoffset", "The next offset to be assigned", (one.log_end_offset for one in all_of))
    yield gauge("tidelog_log_high_watermark", "The first offset that readers do not see yet", (one.high_watermark for one in all_of))
    yield gauge("tidelog_log_recovery_point", "Recovery does not look below", (one.recovery_point for one in all_of))
    yield gauge("tidelog_log_deleted_bytes", "Bytes of deleted segments that wait to be removed", (one.deleted_bytes for one in all_of))
    yield gauge("tidelog_log_producers", "Producers that are remembered", (one.producers for one in all_of))
    yield gauge("tidelog_log_failed", "1 if the log takes no more writes", (float(one.is_failed) for one in all_of))
    failing = (float(one.flush_error is not None) for one in all_of)
    yield gauge("tidelog_log_flush_failing", "1 if a flush in the background failed and was not done since", failing)


def _of_topics(metrics: "StoreMetrics") -> Iterator[Family]:
    def of(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        return Family(name, kind, text, list(zip(({"topic": one.topic} for one in metrics.topics), values, strict=True)))

    prefix = "kafka_server_brokertopicmetrics"
    topics = metrics.topics
    yield of(f"{prefix}_messagesin_total", "counter", "Records that came in", (one.records_in for one in topics))
    yield of(f"{prefix}_bytesin_total", "counter", "Bytes that came in", (one.bytes_in for one in topics))
    yield of(
        f"{prefix}_messagesinpersec_oneminuterate", "gauge", "Records that come in, a second", (one.records_in_per_s for one in topics)
    )
    yield of(f"{prefix}_bytesinpersec_oneminuterate", "gauge", "Bytes that come in, a second", (one.bytes_in_per_s for one in topics))


def _of_directories(metrics: "StoreMetrics") -> Iterator[Family]:
    paths = [{"logDirectory": directory.path} for directory in metrics.directories]
    offline = [float(directory.is_offline) for directory in metrics.directories]
    free = [float(directory.free_bytes) for directory in metrics.directories]
    name = "kafka_log_logmanager"
    yield one_value(f"{name}_offlinelogdirectorycount", "gauge", "Log directories that are offline", metrics.offline_log_directories)
    yield Family(f"{name}_logdirectoryoffline", "gauge", "1 if a log directory is offline", list(zip(paths, offline, strict=True)))
    yield Family("tidelog_log_directory_free_bytes", "gauge", "Bytes left on its file system", list(zip(paths, free, strict=True)))


def _of_tasks(metrics: "StoreMetrics") -> Iterator[Family]:
    def of(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        return Family(f"tidelog_task_{name}", kind, text, list(zip(({"task": task.name} for task in metrics.tasks), values, strict=True)))

    tasks = metrics.tasks
    yield of("runs_total", "counter", "How often a task was run", (task.runs for task in tasks))
    yield of("failures_total", "counter", "How often it failed", (task.failures for task in tasks))
    yield of("failing", "gauge", "How often it failed in a row, up to now", (task.failures_in_a_row for task in tasks))
    yield of("seconds_total", "counter", "How long its runs took", (task.total_s for task in tasks))


def _format(family: Family) -> str:
    lines = [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
    lines += [f"{family.name}{_labels(labels)} {value!r}" for labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
