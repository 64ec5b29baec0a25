"""What would be done to a directory that is only read: a broker's, a backup's, a store's. Asked of real ones; not a byte changes."""

import shutil
from pathlib import Path

import pytest

import tidelog
from tests.support.kept_stores import BATCH_BYTES, DAY_MS, HOUR_MS, fill, open_store, small_segments
from tests.support.logs import TIME, FakeClock, numbered
from tests.support.small_stores import open_store as open_small
from tests.support.small_stores import tree_of
from tests.unit.store.test_adopt import broker_says
from tests.unit.store.test_metrics import parse
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, LogClosedError, TidelogError, UnknownTopicError
from tidelog.store import ReadOnlyStore, grid

GOLDEN = Path(__file__).parents[2] / "golden" / "broker" / "data"
SEGMENT_BYTES = 2 * BATCH_BYTES


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A copy of a real broker's data directory."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def newest_ms(path: Path) -> int:
    with tidelog.open(path, "r") as store:
        newest = store.log("emails", 0).max_timestamp
        assert newest is not None
        return newest.timestamp_ms


def test_a_brokers_directory_by_its_own_settings(broker: Path) -> None:
    before = tree_of(broker)
    now_ms = newest_ms(broker) + HOUR_MS
    with tidelog.open(broker, "r", clock=lambda: now_ms) as store:
        explanation = store.explain()
        assert [str(one.partition) for one in explanation.partitions] == [
            "again-0", "emails-0", "emails-1", "emails-2", "plain-0", "profiles-0", "profiles-1",
        ]  # fmt: skip
        assert {one.settings_from for one in explanation.partitions} == {"__cluster_metadata"}
        assert all(one.left_alone is None for one in explanation.partitions)
        assert (explanation.now_ms, explanation.next_check_ms) == (now_ms, None)
        [segment] = explanation.partitions[1].segments
        assert segment.goes_by is None
        later = store.explain("emails", now_ms + 3 * DAY_MS)  # its own retention.ms is two days
        assert [one.segments[0].goes_by for one in later.partitions if one.segments[0].segment.size_bytes] == ["time"]
        assert "retention.ms is 172800000" in str(later)
        assert "emails-0 (settings from __cluster_metadata):" in str(later)
        profiles = store.explain("profiles").partitions[0].cleaning
        assert profiles is not None
        assert "not compacted" not in profiles.why
        with pytest.raises(UnknownTopicError):
            store.explain("none")
    assert tree_of(broker) == before


def test_what_is_not_written_down_is_as_the_caller_says(broker: Path) -> None:
    now_ms = newest_ms(broker) + 2 * HOUR_MS
    with tidelog.open(broker, "r", {"log.retention.hours": 1}, clock=lambda: now_ms) as store:
        plain, emails = store.explain("plain").partitions[0], store.explain("emails").partitions[0]
        assert plain.settings_from == emails.settings_from == "__cluster_metadata and the settings given on opening"
        assert (plain.segments[0].goes_by, emails.segments[0].goes_by) == ("time", None)
    shutil.rmtree(broker / "__cluster_metadata-0")
    with tidelog.open(broker, "r", {"log.retention.hours": 1}, clock=lambda: now_ms) as store:
        emails = store.explain("emails").partitions[0]
        assert (emails.segments[0].goes_by, emails.settings_from) == ("time", "the settings given on opening")
    with tidelog.open(broker, "r", clock=lambda: now_ms) as store:
        emails = store.explain("emails").partitions[0]
        assert (emails.segments[0].goes_by, emails.settings_from) == (None, "Kafka's defaults")
    with pytest.raises(InvalidConfigError, match="did you mean"):
        tidelog.open(broker, "r", {"log.retention.hour": 1})


def test_a_brokers_log_that_is_of_no_use_is_told(broker: Path) -> None:
    broker_says(broker, ("emails", "segment.bytes", "14"))
    (broker / "plain-0" / "partition.metadata").write_text("version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA")
    with tidelog.open(broker, "r") as store:
        emails, plain = store.explain("emails").partitions[0], store.explain("plain").partitions[0]
        assert emails.left_alone == "its broker has segment.bytes=14, which cannot be here, so what it does is not known"
        assert (len(emails.segments), emails.cleaning) == (1, None)
        assert plain.settings_from == "Kafka's defaults: __cluster_metadata knows another topic of this name"
    path = broker / "__cluster_metadata-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with tidelog.open(broker, "r") as store:
        assert "Kafka's defaults (" in str(store.explain("emails").partitions[0].settings_from)
        assert "CRC" in str(store.explain("emails").partitions[0].settings_from)


def test_a_stores_directory_by_its_own_file(tmp_path: Path, broker: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        topic = store.create_topic("old", 2, config=small_segments(retention_ms=1000))
        fill(topic.log(0), [TIME, TIME, TIME, TIME, TIME + HOUR_MS])
        clock.advance(1001)
        with tidelog.open(tmp_path / "store", "r", clock=clock) as beside:
            assert beside.explain().partitions[0].settings_from == "tidelog.json"
            ours, theirs = store.explain(), beside.explain()
            assert [one[:4] for one in ours.partitions] == [one[:4] for one in theirs.partitions]
            table = [{"retention.ms": 10**10}, {"retention.bytes": 0}]
            assert beside.what_if("old", table).rows == store.what_if("old", table).rows
            fill(topic.log(1), [TIME, TIME, TIME])  # what comes meanwhile is seen
            assert [one[:4] for one in beside.explain().partitions] == [one[:4] for one in store.explain().partitions]
    with open_small(broker, adopt=True), tidelog.open(broker, "r") as beside:
        assert all("its settings are not known" in str(one.left_alone) for one in beside.explain().partitions)
        assert beside.explain().partitions[0].settings_from == "tidelog.json"


def test_what_if_on_a_brokers_directory(broker: Path) -> None:
    before = tree_of(broker)
    now_ms = newest_ms(broker) + 2 * HOUR_MS
    with tidelog.open(broker, "r", clock=lambda: now_ms) as store:
        table = store.what_if("emails", grid({"retention.ms": [HOUR_MS, DAY_MS]}), count_by="batches")
        assert table.settings_from == "__cluster_metadata"
        assert [(row.config, row.segments, row.records) for row in table.rows] == [
            ({"retention.ms": str(HOUR_MS)}, 1, 10),
            ({"retention.ms": str(DAY_MS)}, 0, 0),
        ]
        with pytest.raises(InvalidConfigError):
            store.what_if("emails", [{"retention.mx": 1}])
    assert tree_of(broker) == before


def test_metrics_of_a_brokers_directory(broker: Path) -> None:
    (broker / "emails-0" / "00000000000000000007.log.deleted").write_bytes(b"12345")
    with tidelog.open(broker, "r") as store:
        metrics = store.metrics()
        emails = next(one for one in metrics.partitions if one.partition == TopicPartition("emails", 0))
        log = store.log("emails", 0)
        assert emails[2:] == (log.size_bytes, 1, 0, 10, log.high_watermark, 10, 5)
        assert len(metrics.partitions) == 7
        assert [directory.free_bytes > 0 for directory in metrics.directories] == [True]
        kinds, samples = parse(metrics.to_prometheus())
        assert samples["kafka_log_log_logendoffset", (("topic", "emails"), ("partition", "0"))] == 10
        assert samples["tidelog_unreadable_partitions", ()] == 0
        assert set(kinds.values()) == {"gauge"}
        assert kinds.keys() - {"tidelog_unreadable_partitions"} <= _names_of_a_store(broker)


def _names_of_a_store(broker: Path) -> set[str]:
    with open_small(broker, adopt="cluster-metadata") as store:
        store.log("emails", 0)
        return set(parse(store.metrics().to_prometheus())[0])


def test_partitions_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        store.create_topic("a", 2).log(0).append(numbered(0))
    (tmp_path / "a-1").rename(tmp_path / "elsewhere")
    with tidelog.open(tmp_path, "r") as reader:
        metrics = reader.metrics()
        assert [one.partition.partition for one in metrics.partitions] == [0]
        [(partition, why)] = metrics.unreadable
        assert (partition, "missing" in why) == (TopicPartition("a", 1), True)
        explained = reader.explain("a").partitions
        assert "it cannot be read" in str(explained[1].left_alone)
    with pytest.raises(LogClosedError):
        reader.metrics()
    with pytest.raises(LogClosedError):
        reader.explain()


@pytest.mark.leaves("ends-below-recovery-point")
def test_a_partition_whose_files_are_lost_is_told_and_by_no_bare_error(tmp_path: Path) -> None:
    """Reading gives nothing, as of a log that is just being made; who asks what is in it hears of it."""
    with open_small(tmp_path) as store:
        store.create_topic("a", 1, {"cleanup.policy": "compact,delete", "retention.ms": 1000}).append(b"value", key=b"key")
    for file in (tmp_path / "a-0").iterdir():
        file.unlink()
    with tidelog.open(tmp_path, "r") as reader:
        assert list(reader.topic("a").read()) == []
        asked = (
            lambda: reader.topic("a").table(as_of=0),
            lambda: reader.what_if("a", [{"retention.ms": 1}]),
        )
        for ask in asked:
            with pytest.raises(TidelogError, match="a partition without a segment"):
                ask()
        [explained] = reader.explain("a").partitions
        assert "a partition without a segment" in str(explained)
        assert reader.compact("a", dry_run=True).failures


def test_opened_by_its_class(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        store.create_topic("a")
    with ReadOnlyStore.open(tmp_path) as read_only:
        assert read_only.explain().now_ms > TIME
