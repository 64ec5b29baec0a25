"""Metrics: the numbers are those of the logs, and the text is what Prometheus reads."""

import re
from pathlib import Path

import pytest

from tests.support.kept_stores import BATCH_BYTES, advance, fill, open_store, small_segments
from tests.support.logs import TIME, FakeClock, numbered
from tidelog.disk.names import TopicPartition
from tidelog.errors import LogClosedError
from tidelog.store.prometheus import _format
from tidelog.store.prometheus_family import Family

SEGMENT_BYTES = 2 * BATCH_BYTES
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|\Z)')


def parse(text: str) -> tuple[dict[str, str], Samples]:
    """Read the exposition format, as strictly as Prometheus does: the kind of each metric, and all samples."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    current = helped = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert helped == current
            assert current not in kinds, "a metric is told in one piece"
            assert kind in ("gauge", "counter")
            assert NAME.match(current)
            kinds[current] = kind
        else:
            matched = LINE.match(line)
            assert matched, line
            name, labels, value = matched.groups()
            assert name == current
            assert sum(len(one[0]) for one in LABEL.finditer(labels or "")) == len(labels or ""), line
            unescaped = [(one[1], re.sub(r"\\(.)", lambda found: ESCAPED[found[1]], one[2])) for one in LABEL.finditer(labels or "")]
            key = (name, tuple(unescaped))
            assert key not in samples
            samples[key] = float(value)
    return kinds, samples


def test_the_numbers_of_the_logs(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        topic = store.create_topic("emails", 2, config=small_segments(retention_ms=1000))
        fill(topic.log(0), [TIME, TIME, TIME, TIME, TIME + 10**6])
        topic.log(1).append(numbered(0, 3, timestamp_ms=TIME + 10**6))
        first, second = store.metrics().partitions
        assert first[:6] == (TopicPartition("emails", 0), 5 * BATCH_BYTES, 3, 0, 5, 5)
        assert second[1:6] == (topic.log(1).size_bytes, 1, 0, 3, 3)
        clock.advance(2000)
        store.retain()
        metrics = store.metrics()
        assert metrics.partitions[0][1:6] == (BATCH_BYTES, 1, 4, 5, 5)
        assert metrics.partitions[0].deleted_bytes == 2 * SEGMENT_BYTES
        [emails] = metrics.topics
        assert (emails.topic, emails.records_in, emails.bytes_in) == ("emails", 8, 5 * BATCH_BYTES + topic.log(1).size_bytes)
        [directory] = metrics.directories
        assert (directory.path, directory.is_offline, directory.free_bytes > 0) == (str(tmp_path / "store"), False, True)
        assert (metrics.offline_log_directories, metrics.dead_threads, metrics.failed_partitions) == (0, 0, 0)
        assert metrics.flush.syncs == 6 + 0
        assert 0 < metrics.flush.mean_ms <= metrics.flush.max_ms <= metrics.flush.total_ms
    with pytest.raises(LogClosedError):
        store.metrics()


def test_what_came_in_is_counted_from_the_opening_on(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        fill(store.create_topic("emails", config=small_segments()).log(0), [TIME] * 5)
    with open_store(tmp_path / "store", clock) as store:
        [emails] = store.metrics().topics
        assert (emails.records_in, emails.bytes_in) == (0, 0)
        fill(store.log("emails", 0), [TIME] * 2)
        [emails] = store.metrics().topics
        assert (emails.records_in, emails.bytes_in) == (2, 2 * BATCH_BYTES)


def test_rates_follow_what_comes_in(tmp_path: Path) -> None:
    """Ten records a second for five minutes, then nothing: as a meter of Kafka's goes."""
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("emails").log(0)
        assert store.metrics().topics[0].records_in_per_s == 0
        for _ in range(60):
            log.append(numbered(0, 50))
            advance(store, clock, 5000, 5000)
        [emails] = store.metrics().topics
        assert emails.records_in_per_s == pytest.approx(10)
        assert emails.bytes_in_per_s == pytest.approx(len(numbered(0, 50)) / 5)
        advance(store, clock, 60_000, 5000)
        assert store.metrics().topics[0].records_in_per_s == pytest.approx(10 / 2.718281828, rel=1e-3)


def test_rates_go_on_when_the_clock_was_put_back(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("emails").log(0)
        advance(store, clock, 10_000, 5000)
        clock.now_ms -= 3_600_000
        store.scheduler.run_due()
        for _ in range(60):
            advance(store, clock, 5000, 5000)
            log.append(numbered(0, 50))
        assert store.metrics().topics[0].records_in_per_s == pytest.approx(10, rel=0.05)


def test_the_tasks(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        advance(store, clock, 30_000, 1000)
        tasks = {task.name: task for task in store.metrics().tasks}
        assert (tasks["retention"].runs, tasks["high watermarks"].runs, tasks["deleted files"].runs) == (1, 6, 30)
        assert all(task.failures == 0 for task in tasks.values())


def test_as_text_for_prometheus(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        fill(store.create_topic("emails", 2, config=small_segments()).log(1), [TIME] * 5)
        advance(store, clock, 30_000, 5000)
        metrics = store.metrics()
        kinds, samples = parse(metrics.to_prometheus())

    def of(name: str, **labels: str) -> float:
        return samples[name, tuple(labels.items())]

    at = {"topic": "emails", "partition": "1"}
    assert of("kafka_log_log_size", **at) == 5 * BATCH_BYTES
    assert of("kafka_log_log_numlogsegments", **at) == 3
    assert of("kafka_log_log_logendoffset", **at) == 5
    assert of("kafka_log_log_logstartoffset", topic="emails", partition="0") == 0
    assert of("kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert of("kafka_log_logmanager_logdirectoryoffline", logDirectory=str(tmp_path / "store")) == 0
    assert of("kafka_log_logflushstats_logflushrateandtimems_count") == metrics.flush.syncs
    assert of("kafka_server_brokertopicmetrics_messagesin_total", topic="emails") == 5
    assert of("tidelog_task_runs_total", task="high watermarks") == 6
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        name for name in kinds if name.endswith(("_total", "rateandtimems_count"))
    }


def test_a_store_without_topics_has_metrics_too(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        kinds, _ = parse(store.metrics().to_prometheus())
    assert "kafka_log_logmanager_offlinelogdirectorycount" in kinds
    assert "kafka_log_log_size" not in kinds, "a metric without a sample is left out"


def test_labels_are_escaped_and_large_numbers_are_exact() -> None:
    family = Family("a_metric", "gauge", "What it is", [({"path": 'C:\\new "disk"\n'}, 2**53 - 1), ({"path": ""}, 0.25)])
    text = _format(family)
    assert str(2**53 - 1) in text
    assert parse(text)[1] == {("a_metric", (("path", 'C:\\new "disk"\n'),)): 2**53 - 1, ("a_metric", (("path", ""),)): 0.25}
