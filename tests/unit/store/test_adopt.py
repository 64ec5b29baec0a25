"""A directory that somebody else has made, a broker's above all: adopted, and left alone until its settings are known."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.logs import FakeClock, a_batch
from tests.support.small_stores import failed, file_of, open_store, partitions_in, state_of, tree_of, values_of
from tests.unit.store.test_cluster_metadata import CONFIG
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import LogNotFoundError, NotAStoreError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.record import encode_batches, read_batches
from tidelog.store.store_file import STORE_FILE

GOLDEN = Path(__file__).parents[2] / "golden" / "broker"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())["topics"]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A copy of a real broker's data directory."""
    return Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))


def without_ours(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {name: content for name, content in tree.items() if name not in (STORE_FILE, ".lock")}


def test_nothing_of_a_broker_is_changed(broker: Path) -> None:
    before = tree_of(broker)
    with open_store(broker, adopt=True) as store:
        assert {topic.name for topic in store.topics()} == EXPECTED.keys()
        for topic in store.topics():
            found = topic.describe()
            assert found.topic_id is not None
            assert format_topic_id(found.topic_id) == EXPECTED[topic.name]["topic_id"]
            assert found.partitions == EXPECTED[topic.name]["partitions"]
            assert not found.is_looked_after
        assert state_of(store).logs == {}
        assert file_of(broker).is_adopted
    assert without_ours(tree_of(broker)) == before
    with open_store(broker) as store:
        assert {topic.name for topic in store.topics()} == EXPECTED.keys()
        assert not store.topic("emails").describe().is_looked_after
    assert without_ours(tree_of(broker)) == before


def test_a_simulated_year_changes_nothing(broker: Path) -> None:
    before = tree_of(broker)
    clock = FakeClock()
    with open_store(broker, adopt=True, clock=clock) as store:
        for _ in range(366):
            clock.advance(86_400_000)
            store.scheduler.run_due()
    assert without_ours(tree_of(broker)) == before


def test_a_log_is_opened_when_it_is_asked_for(broker: Path) -> None:
    with open_store(broker, adopt=True) as store:
        log = store.log("emails", 0)
        assert log.load_report.was_clean
        assert values_of(log) == [b"emails %d" % number for number in range(10)]
        log.append(a_batch())
        assert [str(partition) for partition in state_of(store).logs] == ["emails-0"]
    with open_store(broker) as store:
        assert store.log("emails", 0).log_end_offset == 11
        assert store.log("profiles", 1).log_end_offset == 0


def test_settings_make_it_looked_after(broker: Path) -> None:
    """It keeps its data unless something is said about that: one setting is not all of them."""
    with open_store(broker, adopt=True) as store:
        store.topic("emails").alter({"max.message.bytes": 5000})
        assert store.topic("emails").describe().is_looked_after
        assert {str(partition) for partition in state_of(store).logs} == {"emails-0", "emails-1", "emails-2"}
        assert not store.topic("plain").describe().is_looked_after
        assert file_of(broker).topics["emails"].config == {"max.message.bytes": "5000", "retention.ms": "-1"}
        store.topic("plain").alter({"retention.ms": 1000})
        store.topic("again").alter(reset=["retention.ms"])
        assert file_of(broker).topics["plain"].config == {"retention.ms": "1000"}
        assert file_of(broker).topics["again"].config == {}
    with open_store(broker, config={"log.retention.hours": 1}) as store:
        store.topic("profiles").alter({"flush.ms": 1})
        assert file_of(broker).topics["profiles"].config == {"flush.ms": "1"}
        assert {partition.topic for partition in state_of(store).logs} == EXPECTED.keys()


def test_settings_of_the_brokers_own_log(broker: Path) -> None:
    before = tree_of(broker)
    with open_store(broker, adopt="cluster-metadata") as store:
        configs = {name: entry.config for name, entry in file_of(broker).topics.items()}
        assert configs == {
            "emails": {"retention.ms": "172800000", "segment.bytes": "1048576"},
            "profiles": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.8", "retention.ms": "-1"},
            "plain": {"retention.bytes": "1000000000", "retention.ms": "-1"},
            "again": {"max.message.bytes": "2000000", "retention.ms": "-1"},
        }
        assert all(topic.describe().is_looked_after for topic in store.topics())
        assert store.log("emails", 2).config.retention_ms == 172_800_000
        assert failed(store) == set()
    for name in ("__cluster_metadata-0", *(path.name for path in broker.glob("*-delete"))):
        assert {path: content for path, content in tree_of(broker).items() if path.startswith(name)} == {
            path: content for path, content in before.items() if path.startswith(name)
        }


def test_settings_can_be_read_later_and_those_given_stay(broker: Path) -> None:
    with open_store(broker, adopt=True) as store:
        store.topic("emails").alter({"retention.ms": 5})
    with open_store(broker, adopt="cluster-metadata"):
        topics = file_of(broker).topics
        assert topics["emails"].config == {"retention.ms": "5"}
        assert topics["plain"].config == {"retention.bytes": "1000000000", "retention.ms": "-1"}
    revision = file_of(broker).revision
    open_store(broker, adopt="cluster-metadata").close()
    assert file_of(broker).revision == revision


def broker_says(broker: Path, *settings: tuple[str, str, str]) -> None:
    """Settings that the broker's controller has written down last: topic, name, value."""
    values = [CONFIG(2, *setting) for setting in settings]
    path = broker / "__cluster_metadata-0" / "00000000000000000000.log"
    content = path.read_bytes()
    *_, last = read_batches(content)
    path.write_bytes(content + encode_batches([(None, value) for value in values], base_offset=last.last_offset + 1, timestamp_ms=0))


def test_one_setting_that_cannot_be_here_is_reported_and_the_others_are_taken(broker: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A broker before 4.0 took smaller segments. Nothing of the topic is deleted until somebody says how large they are to be."""
    broker_says(broker, ("emails", "segment.bytes", "14"), ("emails", "retention.ms", "1"), ("plain", "retention.ms", "5"))
    clock = FakeClock()
    with open_store(broker, adopt="cluster-metadata", clock=clock) as store:
        emails = store.topic("emails")
        assert file_of(broker).topics["emails"].config == {"retention.ms": "1"}
        found = emails.describe()
        assert (found.is_looked_after, found.refused) == (False, (("segment.bytes", "14"),))
        assert ("retention.ms", "1") in [(setting.name, setting.value) for setting in found.settings]
        assert store.topic("plain").describe().is_looked_after
        assert "topic emails is not looked after until segment.bytes is given" in caplog.text
        clock.advance(10**12)
        left_alone = dict(store.retain("emails").left_alone)
        assert len(left_alone) == 3
        assert all("its broker has segment.bytes=14, which cannot be here" in why for why in left_alone.values())
        assert "segment.bytes=14" in str(store.explain("emails"))
        assert len(values_of(emails.log(0))) == 10
    with open_store(broker, clock=clock, adopt="cluster-metadata") as store:  # and it stays so
        emails = store.topic("emails")
        emails.alter({"flush.ms": 7})  # this says nothing about it
        assert not emails.describe().is_looked_after
        emails.alter({"segment.bytes": 2_000_000})
        assert (emails.describe().is_looked_after, emails.describe().refused) == (True, ())
        assert file_of(broker).topics["emails"].config == {"flush.ms": "7", "retention.ms": "1", "segment.bytes": "2000000"}
        assert store.retain("emails").segments > 0


def test_settings_that_contradict_each_other(broker: Path) -> None:
    broker_says(
        broker,
        ("plain", "min.compaction.lag.ms", "60"),
        ("plain", "max.compaction.lag.ms", "50"),
        ("again", "min.compaction.lag.ms", "60"),
        ("again", "retention.ms", "forever"),
    )
    with open_store(broker, adopt="cluster-metadata", config={"log.cleaner.max.compaction.lag.ms": 40}) as store:
        assert store.topic("plain").describe().refused == (("min.compaction.lag.ms", "60"),)
        again = store.topic("again")
        assert again.describe().refused == (("min.compaction.lag.ms", "60"), ("retention.ms", "forever"))
        assert file_of(broker).topics["again"].config == {"max.message.bytes": "2000000", "retention.ms": "-1"}
        again.alter(reset=["min.compaction.lag.ms"])
        assert again.describe().refused == (("retention.ms", "forever"),)
        again.alter({"retention.ms": -1})
        assert again.describe().is_looked_after


def test_a_topic_of_the_same_name_with_another_id_is_another(broker: Path) -> None:
    (broker / "plain-0" / "partition.metadata").write_text("version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA")
    with open_store(broker, adopt="cluster-metadata") as store:
        assert not store.topic("plain").describe().is_looked_after
        assert store.topic("emails").describe().is_looked_after


def test_partitions_of_other_brokers_are_absent(broker: Path) -> None:
    shutil.rmtree(broker / "emails-0")
    shutil.rmtree(broker / "profiles-1")
    with open_store(broker, adopt="cluster-metadata") as store:
        emails = store.topic("emails")
        assert (emails.partitions, emails.partition_ids(), emails.describe().absent) == (3, [1, 2], (0,))
        assert (store.topic("profiles").partitions, store.topic("profiles").partition_ids()) == (2, [0])
        with pytest.raises(UnknownTopicError, match="0 to 2, but for 0"):
            emails.log(0)
        assert failed(store) == set()
        store.delete_topic("emails")
        assert not any(name.startswith("emails") for name in partitions_in(broker))


def test_without_such_a_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogNotFoundError, match="KRaft"):
        open_store(tmp_path, adopt="cluster-metadata")
    with pytest.raises(NotAStoreError):
        open_store(tmp_path)
    open_store(tmp_path, adopt=True).close()


def test_several_directories_of_a_broker(broker: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("emails-1", "plain-0"):
        (broker / name).rename(other / name)
    with open_store(other, broker, adopt="cluster-metadata") as store:
        assert {topic.name: topic.partitions for topic in store.topics()} == {name: found["partitions"] for name, found in EXPECTED.items()}
        assert values_of(store.log("plain", 0))[0] == b"plain 0"
        assert failed(store) == set()


def test_logs_that_were_made_one_by_one(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log:
        log.append(a_batch())
    with pytest.raises(NotAStoreError):
        open_store(tmp_path)
    with open_store(tmp_path, adopt=True) as store:
        assert store.topic("a").topic_id is None
        assert store.log("a", 0).log_end_offset == 1
        store.create_topic("b")
    assert sorted(file_of(tmp_path).topics) == ["a", "b"]


def test_what_is_no_partition_is_left_alone(tmp_path: Path) -> None:
    for name in ("photos-2024", "a b-0", "emails-00", "__cluster_metadata-0", "x-0.0123456789abcdef0123456789abcdef-stray", "y-99999999"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log" if name != "photos-2024" else tmp_path / name / "a.jpg").write_bytes(b"")
    (tmp_path / "z-0").write_bytes(b"a file")
    before = tree_of(tmp_path)
    with open_store(tmp_path, adopt=True) as store:
        assert store.topics() == []
        store.create_topic("w")
    after = tree_of(tmp_path)
    assert {name: after[name] for name in before} == before


def test_topics_that_came_later_are_taken_in(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    with open_store(home) as store:
        store.create_topic("a")
    with open_store(other) as store:
        store.create_topic("b", 2).log(1).append(a_batch())
    for number in range(2):
        shutil.copytree(other / f"b-{number}", home / f"b-{number}")
    with open_store(home) as store:
        assert [topic.name for topic in store.topics()] == ["a"]
    with open_store(home, adopt=True) as store:
        assert [(topic.name, topic.describe().is_looked_after) for topic in store.topics()] == [("a", True), ("b", False)]
        assert store.log("b", 1).log_end_offset == 1


def test_partitions_that_a_broker_has_added_are_taken_in(broker: Path) -> None:
    with open_store(broker, adopt="cluster-metadata"):
        pass
    for number in (3, 5):
        shutil.copytree(broker / "emails-2", broker / f"emails-{number}")
    shutil.copytree(broker / "plain-0", broker / "profiles-2")  # of another topic
    with open_store(broker) as store:
        assert store.topic("emails").partition_ids() == [0, 1, 2]
    with open_store(broker, adopt=True) as store:
        assert store.topic("emails").partition_ids() == [0, 1, 2, 3, 5]
        assert store.topic("emails").describe().absent == (4,)
        assert store.log("emails", 5).config.retention_ms == 172_800_000
        assert store.topic("profiles").partitions in (2, 3)
        assert failed(store) <= {"profiles-2"}


@pytest.mark.leaves
def test_one_that_cannot_be_opened_is_told(broker: Path) -> None:
    (broker / "emails-1" / "partition.metadata").write_text("version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA")
    with open_store(broker, adopt=True) as store:
        store.topic("emails").alter({"flush.ms": 5})
        assert failed(store) == {"emails-1"}
        assert {str(partition) for partition in state_of(store).logs} == {"emails-0", "emails-2"}


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="adopt must be"):
        open_store(tmp_path, adopt="metadata")
