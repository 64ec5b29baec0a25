"""Topics of a store: create, list, describe, alter, delete; and what several threads make of it."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.faulty_disk import FaultyDisk, Moment
from tests.support.logs import FakeClock, QuietDisk, a_batch, numbered
from tests.support.small_stores import failed, file_of, open_store, partitions_in, state_of, tree_of, values_of
from tidelog.config import LONG_MAX, LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.disk.partition_metadata import format_topic_id, parse_topic_id
from tidelog.errors import (
    DiskFullError,
    InvalidConfigError,
    InvalidTopicError,
    LogClosedError,
    LogFailedError,
    StorageError,
    TidelogError,
    TopicExistsError,
    UnknownTopicError,
)
from tidelog.log.log import Log
from tidelog.store.topic import SettingDescription, Topic
from tidelog.store.topic_deletion import remove_due


def setting(topic: Topic, name: str) -> SettingDescription:
    (found,) = [found for found in topic.describe().settings if found.name == name]
    return found


class TestCreate:
    def test_what_there_is_then(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("emails", 3, {"segment.ms": 1000, "cleanup.policy": ["compact"]})
            assert (topic.name, topic.partitions, topic.partition_ids()) == ("emails", 3, [0, 1, 2])
            assert isinstance(topic.topic_id, UUID)
            for number in range(3):
                log = topic.log(number)
                assert log.partition == TopicPartition("emails", number)
                assert log.topic_id == topic.topic_id
                assert (log.config.segment_ms, log.config.is_compacted, log.config.retention_ms) == (1000, True, -1)
                written = (tmp_path / f"emails-{number}" / "partition.metadata").read_text()
                assert written == f"version: 0\ntopic_id: {format_topic_id(topic.topic_id)}"
            assert store.topic("emails").log(1) is topic.log(1) is store.log("emails", 1)
        (entry,) = file_of(tmp_path).topics.values()
        assert entry.config == {"segment.ms": "1000", "cleanup.policy": "compact", "retention.ms": "-1"}
        assert not entry.is_incomplete
        with open_store(tmp_path) as store:
            assert store.topic("emails").topic_id == entry.topic_id
            assert store.topic("emails").log(2).config.segment_ms == 1000

    def test_the_number_of_partitions(self, tmp_path: Path) -> None:
        with open_store(tmp_path, config={"num.partitions": 3}) as store:
            assert store.create_topic("a").partitions == 3
            for bad in (0, -1, True, 1.0, "1", 1_000_001):
                with pytest.raises(InvalidTopicError, match="number of partitions"):
                    store.create_topic("b", bad)  # type: ignore[arg-type]
            assert [topic.name for topic in store.topics()] == ["a"]

    def test_one_that_is_there(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("a", 2, {"retention.ms": 5})
            with pytest.raises(TopicExistsError, match="exist_ok") as raised:
                store.create_topic("a")
            assert isinstance(raised.value, ValueError)
            same = store.create_topic("a", 7, {"retention.ms": 9}, exist_ok=True)
            assert same.partitions == 2
            assert same.log(0) is topic.log(0)
            assert same.log(0).config.retention_ms == 5
            assert store.create_topic("b", exist_ok=True).partitions == 1

    def test_names(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a.b")
            store.create_topic("x" * 249)
            before = tree_of(tmp_path)
            for bad in ("a_b", "", "..", "a/b", "x" * 250, None, ["a"], "__cluster_metadata"):
                for exist_ok in (False, True):
                    with pytest.raises(InvalidTopicError):
                        store.create_topic(bad, exist_ok=exist_ok)  # type: ignore[arg-type]
            assert tree_of(tmp_path) == before
            store.delete_topic("a.b")
            store.create_topic("a_b")
            store.delete_topic("x" * 249)
            assert max(len(path.name) for path in tmp_path.iterdir()) == 255

    def test_ids(self, tmp_path: Path) -> None:
        given = parse_topic_id("tKgmCFRkTQ-VVKsXYAaXFA")
        with open_store(tmp_path) as store:
            assert store.create_topic("a", topic_id=given).topic_id == given
            assert "topic_id: tKgmCFRkTQ-VVKsXYAaXFA" in (tmp_path / "a-0" / "partition.metadata").read_text()
            for bad in (given, UUID(int=0), UUID(int=1), "tKgmCFRkTQ-VVKsXYAaXFA"):
                with pytest.raises(InvalidTopicError, match="id"):
                    store.create_topic("b", topic_id=bad)  # type: ignore[arg-type]
            store.delete_topic("a")
            assert store.create_topic("b", topic_id=given).topic_id == given

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"retention.m": 1}, "did you mean retention.ms"),
            ({"log.retention.ms": 1}, "a log has retention.ms"),
            ({"retention.ms": -2}, "expected a whole number from -1 to 9223372036854775807, found -2"),
            ({"segment.bytes": 5}, "expected a whole number from 1048576"),
            ({"cleanup.policy": "compress"}, "expected any of compact, delete"),
            ({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4}, "expected at most 4"),
            ({"min.compaction.lag.ms": 50}, "expected at most 40"),
        ],
    )
    def test_settings_that_cannot_be(self, config: dict[str, object], message: str, tmp_path: Path) -> None:
        with open_store(tmp_path, config={"log.cleaner.max.compaction.lag.ms": 40}) as store:
            topic = store.create_topic("there")
            before = tree_of(tmp_path)
            for attempt in (lambda: store.create_topic("a", config=config), lambda: topic.alter(config)):
                with pytest.raises(InvalidConfigError, match=message):
                    attempt()
            assert tree_of(tmp_path) == before
            assert [topic.name for topic in store.topics()] == ["there"]

    @pytest.mark.parametrize("config", ["retention.ms=5", [("retention.ms", 5)], ["retention.ms"]])
    def test_settings_that_are_none(self, config: Any, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("there")
            for attempt in (
                lambda: store.create_topic("a", config=config),
                lambda: topic.alter(config),
                lambda: store.what_if("there", [config]),
            ):
                with pytest.raises(InvalidConfigError, match="a mapping of names to values"):
                    attempt()

    def test_data_is_kept_for_ever_unless_told_otherwise(self, tmp_path: Path) -> None:
        with open_store(tmp_path / "a") as store:
            assert file_of(tmp_path / "a").topics == {}
            store.create_topic("default")
            store.create_topic("told", config={"retention.ms": 7})
            store.create_topic("config", config=LogConfig.of({"retention.bytes": 7}))
            topics = file_of(tmp_path / "a").topics
            assert topics["default"].config == {"retention.ms": "-1"}
            assert topics["told"].config == {"retention.ms": "7"}
            assert topics["config"].config == {"retention.bytes": "7", "retention.ms": "-1"}
        with open_store(tmp_path / "b", config={"log.retention.hours": 1}) as store:
            assert store.create_topic("default").log(0).config.retention_ms == 3_600_000
            assert file_of(tmp_path / "b").topics["default"].config == {}

    @pytest.mark.parametrize("kind", ["make_directory", "create", "rename", "sync_directory"])
    def test_a_creation_that_fails_is_undone(self, kind: str, tmp_path: Path) -> None:
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            store.create_topic("there")
            total = 0
            while True:
                disk.fail(total + 1, kind=kind)
                fired = len(disk.fired)
                try:
                    store.create_topic("a", 2)
                except StorageError:
                    assert [topic.name for topic in store.topics()] == ["there"]
                    assert file_of(tmp_path).topics.keys() == {"there"}
                    assert partitions_in(tmp_path) == {"there-0"}
                assert len(disk.fired) in (fired, fired + 1)
                disk.heal()
                if len(disk.fired) == fired:
                    break
                total += 1
                store.create_topic("a", 2, exist_ok=True).log(1).append(a_batch())
                store.delete_topic("a")
            assert total >= 2
            assert failed(store) == set()

    def test_checkpoints_of_an_older_topic_of_the_name_do_not_count(self, tmp_path: Path) -> None:
        """After a crash, recovery would begin behind what was appended."""
        open_store(tmp_path).close()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
            (tmp_path / name).write_text("0\n1\na 0 1000\n")
        with open_store(tmp_path) as store:
            log = store.create_topic("a").log(0)
            assert (log.log_start_offset, log.recovery_point) == (0, 0)
            assert state_of(store).directories[0].recovery_point(TopicPartition("a", 0)) in (None, 0)
            assert log.append(a_batch()).last_offset == 0
            assert "1000" not in "".join(path.read_text() for path in tmp_path.glob("*-checkpoint"))

    def test_an_interrupted_creation_is_undone(self, tmp_path: Path) -> None:
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            disk.interrupt(1, kind="create", on="a-1/00000000000000000000.log")
            with pytest.raises(KeyboardInterrupt):
                store.create_topic("a", 2)
            assert store.topics() == []
            assert partitions_in(tmp_path) == set()
            store.create_topic("a", 2)

    def test_a_creation_that_can_be_neither_finished_nor_undone(self, tmp_path: Path) -> None:
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            disk.run(1, lambda: disk.fail(1, until_healed=True), kind="make_directory")
            with pytest.raises(StorageError):
                store.create_topic("a", 2)
            disk.heal()
            assert store.create_topic("a", 2, exist_ok=True).log(1).append(a_batch()).last_offset == 0
        assert not file_of(tmp_path).topics["a"].is_incomplete

    @pytest.mark.parametrize(("partitions", "is_the_same"), [(2, True), (3, False)])
    def test_a_creation_that_was_left_is_finished_by_asking_again(self, tmp_path: Path, partitions: int, is_the_same: bool) -> None:
        """On a full disk not even the undoing could be written; with room again, the next try was told that the topic was there already."""
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            disk.run(1, lambda: disk.fail(1, until_healed=True), kind="make_directory")
            with pytest.raises(StorageError):
                store.create_topic("a", 2)
            disk.heal()
            if is_the_same:
                assert store.create_topic("a", partitions).log(1).append(a_batch()).last_offset == 0
            with pytest.raises(TopicExistsError):
                store.create_topic("a", partitions)
        assert not file_of(tmp_path).topics["a"].is_incomplete


class TestDescribe:
    def test_our_own_defaults_are_marked(self, tmp_path: Path) -> None:
        with open_store(tmp_path, config={"log.roll.hours": 1}) as store:
            topic = store.create_topic("a", config={"flush.ms": 9, "retention.bytes": -1})
            assert setting(topic, "retention.ms") == ("retention.ms", "-1", "tidelog", "604800000")
            assert setting(topic, "flush.messages") == ("flush.messages", "1", "tidelog", str(LONG_MAX))
            assert setting(topic, "flush.ms") == ("flush.ms", "9", "topic", str(LONG_MAX))
            assert setting(topic, "retention.bytes") == ("retention.bytes", "-1", "topic", "-1")
            assert setting(topic, "segment.ms") == ("segment.ms", "3600000", "store", "604800000")
            assert setting(topic, "segment.jitter.ms") == ("segment.jitter.ms", "0", "kafka", "0")
            marked = {found.name for found in topic.describe().settings if found.source == "tidelog"}
            assert marked == {"retention.ms", "flush.messages"}

    def test_what_it_is(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("a", 2)
            described = topic.describe()
            assert (described.name, described.topic_id, described.partitions) == ("a", topic.topic_id, 2)
            assert (described.absent, described.is_looked_after) == ((), True)
            assert repr(topic) == "Topic('a', 2 partitions)"

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            with pytest.raises(UnknownTopicError, match="there are none yet"):
                store.topic("emails")
            topic = store.create_topic("emails", 2)
            with pytest.raises(UnknownTopicError, match=r"no topic 'email' \(did you mean emails\?\)") as raised:
                store.topic("email")
            assert isinstance(raised.value, LookupError)
            with pytest.raises(UnknownTopicError, match="there are: emails"):
                store.delete_topic("xyz")
            for bad in (2, -1, "0", None):
                with pytest.raises(UnknownTopicError, match=r"no partition .* of topic 'emails'.*0 to 1"):
                    topic.log(bad)  # type: ignore[arg-type]
            for bad_name in (None, 5, ["emails"]):
                with pytest.raises(UnknownTopicError):
                    store.topic(bad_name)  # type: ignore[arg-type]


class TestAlter:
    def test_settings_change_at_once_and_stay(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("a", 2, {"retention.ms": 5, "flush.ms": 7})
            other = store.create_topic("b")
            topic.alter({"retention.ms": 6, "max.message.bytes": "10"}, reset=["flush.ms"])
            for number in range(2):
                config = topic.log(number).config
                assert (config.retention_ms, config.max_message_bytes, config.flush_ms) == (6, 10, LONG_MAX)
            assert other.log(0).config.max_message_bytes == 1_048_588
            with pytest.raises(TidelogError, match="larger"):
                topic.log(1).append(a_batch())
            topic.alter(reset="max.message.bytes")
            topic.log(1).append(a_batch())
        with open_store(tmp_path) as store:
            assert store.topic("a").log(1).config.overrides()["retention.ms"] == "6"
            assert file_of(tmp_path).topics["a"].config == {"retention.ms": "6"}

    def test_nothing_new_writes_nothing(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            topic = store.create_topic("a", config={"retention.ms": 5})
            revision = file_of(tmp_path).revision
            topic.alter({"retention.ms": "5"})
            topic.alter()
            assert file_of(tmp_path).revision == revision

    def test_durable_on_and_off_while_others_append(self, tmp_path: Path) -> None:
        """What is answered for in the durable mode is flushed, whenever the mode was switched."""
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            topic = store.create_topic("a", 1)
            log = topic.log(0)
            stop = threading.Event()

            def append(thread: int) -> int:
                count = 0
                while not stop.is_set():
                    was_durable = log.config.is_durable
                    info = log.append(numbered(thread * 1_000_000 + count))
                    if was_durable and log.config.is_durable:
                        assert log.flushed_end > info.last_offset
                    count += 1
                return count

            with ThreadPoolExecutor(4) as executor:
                tasks = [executor.submit(append, thread) for thread in range(3)]
                try:
                    for _ in range(30):
                        topic.alter({"flush.messages": LONG_MAX})
                        assert not log.config.is_durable
                        topic.alter({"flush.messages": 1})
                        end = log.log_end_offset
                        log.append(numbered(9_999_999))
                        assert log.flushed_end > end
                finally:
                    stop.set()
                total = sum(task.result() for task in tasks) + 30
            assert log.log_end_offset == log.high_watermark == log.flushed_end == total
            assert len(set(values_of(log))) == total - 29

    def test_a_log_that_has_failed_does_not_keep_the_others_from_it(self, tmp_path: Path) -> None:
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            topic = store.create_topic("a", 3)
            disk.fail(1, kind="sync", on="a-1/00000000000000000000.log")
            with pytest.raises(LogFailedError):
                topic.log(1).append(a_batch())
            with pytest.raises(LogFailedError):
                topic.alter({"retention.ms": 99})
            assert [topic.log(number).config.retention_ms for number in (0, 2)] == [99, 99]
            topic.log(1).close()
            assert topic.log(1).config.retention_ms == 99
            topic.log(1).append(a_batch())

    def test_a_disk_that_refuses_one_log_does_not_keep_the_others_from_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        reconfigure = Log.reconfigure

        def refuse_the_first(log: Log, config: LogConfig) -> None:
            if log.partition.partition == 0:
                raise StorageError("no descriptor is left", path=log.directory)
            reconfigure(log, config)

        with open_store(tmp_path) as store:
            topic = store.create_topic("a", 2, {"flush.messages": 100})
            topic.log(1).append(a_batch())
            with monkeypatch.context() as patched:
                patched.setattr(Log, "reconfigure", refuse_the_first)
                with pytest.raises(StorageError, match="a-0: no descriptor"):
                    topic.alter({"flush.messages": 1})
            assert topic.log(1).config.is_durable
            assert topic.log(1).flushed_end == topic.log(1).log_end_offset


class TestDelete:
    def test_directories_are_renamed_now_and_removed_later(self, tmp_path: Path) -> None:
        clock = FakeClock()
        with open_store(tmp_path, clock=clock) as store:
            topic = store.create_topic("a", 2, {"file.delete.delay.ms": 5000})
            log = topic.log(0)
            log.append(a_batch())
            store.create_topic("b").log(0).append(a_batch())
            store.delete_topic("a")
            assert [topic.name for topic in store.topics()] == ["b"]
            assert partitions_in(tmp_path) == {"b-0"}
            assert len([*tmp_path.glob("a-?.*-delete")]) == 2
            assert "a 0" not in (tmp_path / "recovery-point-offset-checkpoint").read_text()
            with pytest.raises(LogClosedError):
                log.append(a_batch())
            with pytest.raises(UnknownTopicError):
                topic.log(0)
            assert repr(topic) == "Topic('a', deleted)"
            clock.advance(4999)
            assert remove_due(state_of(store)) == 0
            assert len([*tmp_path.glob("a-?.*-delete")]) == 2
            clock.advance(1)
            assert remove_due(state_of(store)) == 1
            assert [*tmp_path.glob("a-*")] == []
            assert file_of(tmp_path).deleted == ()

    def test_it_is_removed_after_the_store_was_opened_again(self, tmp_path: Path) -> None:
        clock = FakeClock()
        with open_store(tmp_path, clock=clock) as store:
            store.create_topic("a", 2)
            store.delete_topic("a")
        clock.advance(60_000)
        with open_store(tmp_path, clock=clock) as store:
            assert len([*tmp_path.glob("a-?.*-delete")]) == 2
            assert remove_due(state_of(store)) == 1
            assert [*tmp_path.glob("a-*")] == []

    def test_again_and_again(self, tmp_path: Path) -> None:
        """Each of the name begins at offset 0, with an id of its own."""
        clock = FakeClock()
        ids = set()
        with open_store(tmp_path, clock=clock) as store:
            for count in range(1, 4):
                topic = store.create_topic("a")
                ids.add(topic.topic_id)
                assert topic.log(0).append(a_batch(count)).last_offset == count - 1
                topic.log(0).checkpoint()
                store.delete_topic("a")
            assert len([*tmp_path.glob("a-0.*-delete")]) == 3
            clock.advance(60_000)
            assert remove_due(state_of(store)) == 3
        assert len(ids) == 3

    def test_what_could_not_be_renamed_is_later_and_never_mixed_up(self, tmp_path: Path) -> None:
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            store.create_topic("a", 2).log(1).append(a_batch(5))
            disk.fail(1, kind="rename", on="-delete", until_healed=True)
            store.delete_topic("a")
            assert store.topics() == []
            with pytest.raises(StorageError, match="renaming"):
                store.create_topic("a", 2)
            with pytest.raises(StorageError, match="renaming"):
                remove_due(state_of(store))
            disk.heal()
            assert store.create_topic("a", 2).log(1).log_end_offset == 0
            assert len([*tmp_path.glob("a-?.*-delete")]) == 2

    def test_what_comes_to_lie_there_later_is_not_the_topics(self, tmp_path: Path) -> None:
        """A backup that is put back while the old directories still wait for their removal."""
        home = tmp_path / "home"
        with open_store(home) as store:
            store.create_topic("a").log(0).append(a_batch())
        shutil.copytree(home / "a-0", tmp_path / "backup")
        with open_store(home) as store:
            store.delete_topic("a")
        shutil.copytree(tmp_path / "backup", home / "a-0")
        before = tree_of(home / "a-0")
        clock = FakeClock()
        clock.advance(100_000)
        with open_store(home, clock=clock) as store:
            assert remove_due(state_of(store)) == 1
            assert tree_of(home / "a-0") == before
        with open_store(home, adopt=True) as store:
            assert store.topic("a").log(0).log_end_offset == 1

    def test_what_cannot_be_removed_does_not_hold_up_the_rest(self, tmp_path: Path) -> None:
        clock, disk = FakeClock(), FaultyDisk()
        with open_store(tmp_path, clock=clock, disk=disk) as store:
            for name in ("a", "b", "c"):
                store.create_topic(name)
                store.delete_topic(name)
            clock.advance(60_000)
            disk.fail(1, kind="remove", on="leader-epoch-checkpoint")
            disk.fail(1, kind="remove_directory")
            with pytest.raises(StorageError, match="removing the directories of a failed"):
                remove_due(state_of(store))
            assert len([*tmp_path.glob("?-0.*-delete")]) == 1
            assert remove_due(state_of(store)) == 1
            assert [*tmp_path.glob("?-0*")] == []

    def test_a_deletion_that_fails_leaves_the_topic(self, tmp_path: Path) -> None:
        """Also when the file was renamed, and only the sync behind it failed: it is put back."""
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            topic = store.create_topic("a")
            topic.log(0).append(a_batch())
            for fail in ({"kind": "create", "on": "tidelog.json.tmp"}, {"kind": "rename", "on": "tidelog.json", "moment": "after"}):
                disk.fail(1, **fail)  # type: ignore[arg-type]
                with pytest.raises(StorageError, match="writing the store's file failed"):
                    store.delete_topic("a")
                assert file_of(tmp_path).topics.keys() == {"a"}
                topic.log(0).append(a_batch())
            assert topic.log(0).log_end_offset == 3

    def test_a_deletion_in_doubt_stops_the_topic(self, tmp_path: Path) -> None:
        """The new file is there, and the old one cannot be put back: what were appended now would be gone after a crash."""
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            topic = store.create_topic("a", 2)
            disk.run(1, lambda: disk.fail(1, until_healed=True, on=str(tmp_path)), kind="rename", on="tidelog.json", moment="after")
            disk.fail(2, kind="create", on="tidelog.json.tmp", until_healed=True)
            with pytest.raises(StorageError):
                store.delete_topic("a")
            disk.heal()
            assert file_of(tmp_path).topics == {}
            assert failed(store) == {"a-0", "a-1"}
            with pytest.raises(LogFailedError, match="half-way"):
                topic.log(0)
            store.create_topic("b")
            assert file_of(tmp_path).topics.keys() == {"a", "b"}
            topic.log(0).append(a_batch())
            assert failed(store) == set()

    def test_with_settings_that_nobody_understands(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a")
            store.create_topic("b")
        text = (tmp_path / "tidelog.json").read_text().replace('"retention.ms": "-1"', '"retention.mx": "-1"', 1)
        (tmp_path / "tidelog.json").write_text(text)
        with open_store(tmp_path) as store:
            assert failed(store) == {"a-0"}
            with pytest.raises(InvalidConfigError, match=r"retention\.mx"):
                store.topic("a").describe()
            store.log("b", 0).append(a_batch())
            store.delete_topic("a")

    def test_on_a_full_disk(self, tmp_path: Path) -> None:
        """The log cannot be closed in order, and need not be."""
        disk = FaultyDisk()
        with open_store(tmp_path, disk=disk) as store:
            log = store.create_topic("a").log(0)
            log.append(a_batch())
            disk.limit(0)
            with pytest.raises(DiskFullError):
                store.delete_topic("a")
            disk.limit(4096)
            store.delete_topic("a")
            assert store.topics() == []


class TestThreads:
    def test_topics_from_several_threads(self, tmp_path: Path) -> None:
        """Every name is created once, deleted once, and every change that was acknowledged is there."""
        names = [f"t{number}" for number in range(6)]
        with open_store(tmp_path / "one", tmp_path / "two") as store:

            def work(thread: int) -> list[str]:
                done = []
                for number in range(len(names)):
                    name = names[(number + thread) % len(names)]
                    try:
                        store.create_topic(name, 2)
                        done.append(f"created {name}")
                    except TopicExistsError:
                        pass
                    store.create_topic(name, exist_ok=True).alter({f"{'flush' if thread % 2 else 'segment'}.ms": thread + 1})
                    store.log(name, 1).append(numbered(thread))
                return done

            with ThreadPoolExecutor(4) as executor:
                done = [event for events in executor.map(work, range(4)) for event in events]
            assert sorted(done) == [f"created {name}" for name in names]
            assert all(store.log(name, 1).log_end_offset == 4 for name in names)
            assert file_of(tmp_path / "one") == file_of(tmp_path / "two") == state_of(store).file

            def delete(thread: int) -> int:
                count = 0
                for name in names:
                    try:
                        store.delete_topic(name)
                        count += 1
                    except UnknownTopicError:
                        pass
                return count

            with ThreadPoolExecutor(4) as executor:
                assert sum(executor.map(delete, range(4))) == len(names)
            assert partitions_in(tmp_path / "one") == partitions_in(tmp_path / "two") == set()

    def test_a_topic_that_comes_and_goes_while_others_append(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            stop = threading.Event()

            def append() -> int:
                count = 0
                while not stop.is_set():
                    try:
                        store.create_topic("a", exist_ok=True).log(0).append(a_batch())
                        count += 1
                    except (UnknownTopicError, LogClosedError):
                        pass
                return count

            with ThreadPoolExecutor(3) as executor:
                tasks = [executor.submit(append) for _ in range(3)]
                try:
                    for _ in range(15):
                        store.create_topic("a", exist_ok=True).log(0)
                        store.delete_topic("a")
                finally:
                    stop.set()
                assert sum(task.result() for task in tasks) > 0
            assert failed(store) == set()

    def test_closing_while_others_append(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        topic = store.create_topic("a", 2)
        begun = threading.Barrier(3)

        def append(number: int) -> int:
            count = 0
            begun.wait()
            try:
                while True:
                    topic.log(number).append(a_batch())
                    count += 1
            except LogClosedError:
                return count

        with ThreadPoolExecutor(2) as executor:
            tasks = [executor.submit(append, number) for number in range(2)]
            begun.wait()
            store.close()
            counts = [task.result() for task in tasks]
        with open_store(tmp_path) as store:
            assert [store.log("a", number).log_end_offset for number in range(2)] == counts


def test_a_topic_under_another_store_keeps_its_id(tmp_path: Path) -> None:
    """As a topic that moves under a broker and back: its directories are copied while the store is closed."""
    topic_id = uuid4()
    for name in ("one", "two"):
        with open_store(tmp_path / name) as store:
            store.create_topic("a", topic_id=topic_id).log(0).append(numbered(0 if name == "one" else 7))
    shutil.rmtree(tmp_path / "two" / "a-0")
    shutil.copytree(tmp_path / "one" / "a-0", tmp_path / "two" / "a-0")
    with open_store(tmp_path / "two") as store:
        log = store.log("a", 0)
        log.append(numbered(1))
        assert log.topic_id == topic_id
        assert values_of(log) == [b"0.......", b"1......."]
    with open_store(tmp_path / "other") as store:
        store.create_topic("a")
    shutil.rmtree(tmp_path / "other" / "a-0")
    shutil.copytree(tmp_path / "two" / "a-0", tmp_path / "other" / "a-0")
    with open_store(tmp_path / "other") as store, pytest.raises(TidelogError, match="belongs to another topic"):
        store.log("a", 0)


class TestInterrupts:
    """Ctrl-C while the store's file is replaced: memory and disk tell the same."""

    @pytest.mark.parametrize("moment", ["before", "after"])
    @pytest.mark.parametrize("change", ["create", "alter", "delete"])
    def test_at_every_call(self, change: str, moment: Moment, tmp_path: Path) -> None:
        for number in range(1, 300):
            home, disk = tmp_path / str(number), FaultyDisk(QuietDisk())
            with open_store(home, disk=disk) as store:
                store.create_topic("a", 2)
                disk.interrupt(number, moment=moment)
                was_interrupted = False
                try:
                    if change == "create":
                        store.create_topic("b", 2)
                    elif change == "alter":
                        store.topic("a").alter({"retention.ms": 5})
                    else:
                        store.delete_topic("a")
                except KeyboardInterrupt:
                    was_interrupted = True
                disk.heal()
                inside = state_of(store)
                assert file_of(home).topics == inside.file.topics
                assert file_of(home).deleted == inside.file.deleted
                if was_interrupted and change == "create" and not inside.is_in_doubt:
                    assert "b" not in inside.file.topics
                if "a" not in inside.file.topics:
                    assert [log for partition, log in inside.logs.items() if partition.topic == "a" and not log.is_closed] == []
                store.create_topic("a", exist_ok=True).log(0).append(a_batch())
                assert failed(store) == set()
            shutil.rmtree(home)
            if not disk.fired:
                return
        raise AssertionError("never through")

    def test_twice(self, tmp_path: Path) -> None:
        """The second comes while the old file is put back: then it is in doubt, and nothing may be appended that could be gone."""
        disk = FaultyDisk(QuietDisk())
        with open_store(tmp_path, disk=disk) as store:
            topic = store.create_topic("a")
            disk.interrupt(1, kind="rename", on="tidelog.json", moment="after")
            disk.interrupt(2, kind="create", on="tidelog.json.tmp")
            with pytest.raises(KeyboardInterrupt):
                store.delete_topic("a")
            assert len(disk.fired) == 2
            with pytest.raises(LogFailedError, match="half-way: KeyboardInterrupt"):
                topic.log(0)
            store.create_topic("b")
            topic.log(0).append(a_batch())
            assert file_of(tmp_path).topics.keys() == {"a", "b"}
