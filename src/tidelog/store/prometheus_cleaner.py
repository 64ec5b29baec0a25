"""The metrics of the cleaner for Prometheus: Kafka's under the names that its JMX exporter gives them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.store.prometheus_family import Family, one_value

if TYPE_CHECKING:
    from tidelog.store.cleaner_metrics import CleanerMetrics


def of_cleaner(cleaner: "CleanerMetrics") -> Iterator[Family]:
    """All of them."""
    log, manager = "kafka_log_logcleaner", "kafka_log_logcleanermanager"
    yield one_value(
        f"{log}_max_buffer_utilization_percent", "gauge", "How full the dedupe buffer got", cleaner.max_buffer_utilization_percent
    )
    yield one_value(f"{log}_cleaner_recopy_percent", "gauge", "Of the bytes read, how many were written again", cleaner.recopy_percent)
    yield one_value(f"{log}_max_clean_time_secs", "gauge", "How long the longest of the last passes took", cleaner.max_clean_time_s)
    yield one_value(
        f"{log}_max_compaction_delay_secs", "gauge", "How much older than allowed a dirty record is", cleaner.max_compaction_delay_s
    )
    yield one_value(f"{log}_deadthreadcount", "gauge", "Cleaner threads that ended although nobody stopped them", cleaner.dead_threads)
    paths = [{"logDirectory": directory.path} for directory in cleaner.directories]
    counts = [float(directory.uncleanable_partitions) for directory in cleaner.directories]
    sizes = [float(directory.uncleanable_bytes) for directory in cleaner.directories]
    yield Family(
        f"{manager}_uncleanable_partitions_count",
        "gauge",
        "Partitions that could not be compacted the last time",
        list(zip(paths, counts, strict=True)),
    )
    yield Family(f"{manager}_uncleanable_bytes", "gauge", "Bytes in them that wait for it", list(zip(paths, sizes, strict=True)))
    yield one_value(f"{manager}_max_dirty_percent", "gauge", "The dirty ratio of the filthiest log", cleaner.max_dirty_percent)
    yield one_value(
        f"{manager}_time_since_last_run_ms", "gauge", "Since logs were last looked at for one to clean", cleaner.time_since_last_run_ms
    )
    yield one_value("kafka_utils_throttler_cleaner_io_total", "counter", "Bytes that the cleaner read and wrote", cleaner.io_bytes)
    totals = cleaner.totals
    yield one_value("tidelog_cleaner_throttled_seconds_total", "counter", "How long the throttle held it up", cleaner.throttled_s)
    yield one_value("tidelog_cleaner_passes_total", "counter", "Passes over a log", totals.passes)
    yield one_value("tidelog_cleaner_failures_total", "counter", "Passes that failed", totals.failures)
    yield one_value("tidelog_cleaner_aborted_total", "counter", "Passes that were aborted", totals.aborted)
    yield one_value("tidelog_cleaner_bytes_read_total", "counter", "Bytes of logs that were read", totals.bytes_read)
    yield one_value("tidelog_cleaner_bytes_written_total", "counter", "Bytes of logs that were written again", totals.bytes_written)
    yield one_value("tidelog_cleaner_records_removed_total", "counter", "Records that went", totals.records_removed)
    uncleanable = [({"topic": one.partition.topic, "partition": str(one.partition.partition)}, 1.0) for one in cleaner.uncleanable]
    yield Family("tidelog_cleaner_uncleanable", "gauge", "1 for a partition that could not be compacted the last time", uncleanable)
