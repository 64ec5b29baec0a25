"""Groups: positions, lag, reset and delete; what a commit writes; positions of deleted topics; metrics."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk, Moment
from tests.support.groups import A0, A1, B0, key, offsets, offsets_log, write
from tests.support.logs import TIME, FakeClock, QuietDisk
from tests.support.small_stores import open_store, partitions_in
from tidelog import EARLIEST, LATEST, Time
from tidelog.disk.names import TopicPartition
from tidelog.errors import DiskFullError, InvalidGroupError, StorageError, UnknownTopicError
from tidelog.schema.consumer_offsets import OffsetCommitKey, OffsetCommitValue, parse_key, parse_offset_value
from tidelog.store import GroupLag, Position, Store, topic_deletion
from tidelog.store.groups import expiring
from tidelog.store.groups import positions as positions_module
from tidelog.store.groups.offset_commits import Rows, commit_rows
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import OwnedSource
from tidelog.store.internal_topics import partition_of_id
from tidelog.store.state import StoreState


def a_store(path: Path, clock: FakeClock) -> Store:
    store = open_store(path, clock=clock)
    for topic, partitions in (("a", 2), ("b", 1)):
        made = store.create_topic(topic, partitions)
        for number in range(10):
            made.append(b"%d" % number, partition=number % partitions, timestamp_ms=TIME + number)
    return store


def test_what_a_commit_writes(tmp_path: Path) -> None:
    clock = FakeClock()
    with a_store(tmp_path / "store", clock) as store:
        with store.consumer("a group", ["a", "b"]) as consumer:
            consumer.poll(3)
            clock.advance(5)
            consumer.commit()
            log = offsets_log(store, "a group")
            [batch] = log.batches()
            assert (batch.count, log.partition.partition) == (3, partition_of_id("a group", 50))
            assert partitions_in(tmp_path / "store") == {"a-0", "a-1", "b-0", str(log.partition)}
            keys = [parse_key(record.key or b"") for record in batch]
            assert keys == [OffsetCommitKey("a group", *partition) for partition in (A0, A1, B0)]
            found = [parse_offset_value(record.value or b"") for record in batch]
            assert found[0] == OffsetCommitValue(3, 0, "", TIME + 5)
            assert {record.timestamp_ms for record in batch} == {TIME + 5}
            first = next(iter(batch))
            assert first.key == b"\x00\x01\x00\x07a group\x00\x01a\x00\x00\x00\x00"
            assert first.value == bytes([0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]) + (TIME + 5).to_bytes(8, "big")
        assert store.group("a group").positions()[A0] == Position(3, 0, "", TIME + 5)


def test_a_commit_is_one_durable_append(tmp_path: Path) -> None:
    class Counting(QuietDisk):
        syncs = 0

        def sync(self, fd: int) -> None:
            Counting.syncs += 1

    disk = FaultyDisk(Counting())
    with open_store(tmp_path / "store", disk=disk) as store:
        store.create_topic("a", 3).append(b"0")
        with store.consumer("g", "a") as consumer:
            consumer.poll()
            consumer.commit()
            before = Counting.syncs
            consumer.commit()
            assert Counting.syncs == before + 1
            assert offsets_log(store, "g").flushed_end == offsets_log(store, "g").log_end_offset == 6


def test_lag(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        write(offsets_log(store, "g"), "g", {A0: 2, A1: 9, B0: 10, TopicPartition("gone", 0): 5})
        assert store.group("g").lag() == {
            A0: GroupLag(2, 5, 3),
            A1: GroupLag(9, 5, 0),  # ahead of the end: it was cut
            B0: GroupLag(10, 10, 0),
            TopicPartition("gone", 0): GroupLag(5, None, None),
        }
        metrics = store.metrics()
        assert [(one.group, one.partition, one.position, one.log_end_offset, one.lag) for one in metrics.groups] == [
            ("g", A0, 2, 5, 3),
            ("g", A1, 9, 5, 0),
            ("g", B0, 10, 10, 0),
            ("g", TopicPartition("gone", 0), 5, None, None),
        ]
        text = metrics.to_prometheus()
        assert 'tidelog_group_lag{group="g",topic="a",partition="0"} 3.0' in text
        assert 'tidelog_group_position{group="g",topic="gone",partition="0"} 5.0' in text
        assert 'tidelog_group_lag{group="g",topic="gone"' not in text


def test_groups_are_listed(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        assert store.groups() == []
        for name in ("zeta", "alpha", "mid"):
            write(offsets_log(store, name), name, {A0: 1})
        assert [(group.name, group.kind) for group in store.groups()] == [("alpha", "simple"), ("mid", "simple"), ("zeta", "simple")]
        assert store.group("nobody").positions() == {}
        assert store.group("nobody").lag() == {}


def test_reset(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        group = store.group("g")
        assert group.reset(EARLIEST) == {}  # no positions, no topics: nothing to do
        assert group.reset(LATEST, "a") == {A0: 5, A1: 5}
        assert offsets(store, "g") == {A0: 5, A1: 5}
        assert group.reset(Time(TIME + 4), ["a", "b"]) == {A0: 2, A1: 2, B0: 4}
        assert group.reset(datetime.fromtimestamp(TIME / 1000 + 0.007, UTC)) == {A0: 4, A1: 3, B0: 7}
        assert group.reset(Time(TIME + 1000)) == {A0: 5, A1: 5, B0: 10}
        assert group.reset(8) == {A0: 5, A1: 5, B0: 8}  # as Kafka's tool: the nearest that there is
        store.log("b", 0).delete_records_before(3)
        assert group.reset(EARLIEST, "b") == {B0: 3}
        assert group.reset(1, "b") == {B0: 3}
        with store.consumer("g", "b") as consumer:
            assert [record.offset for record in consumer.poll(2)] == [3, 4]


def test_wrong_resets_change_nothing(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        group = store.group("g")
        group.reset(1, "a")
        with pytest.raises(UnknownTopicError):
            group.reset(0, ["a", "nowhere"])
        with pytest.raises(InvalidGroupError):
            group.reset(-1)
        with pytest.raises(InvalidGroupError):
            group.reset(1, [])
        with pytest.raises(TypeError):
            group.reset("earliest")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no time zone"):
            group.reset(datetime(2026, 1, 1))
        assert offsets(store, "g") == {A0: 1, A1: 1}


def test_delete(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        store.group("g").reset(1, ["a", "b"])
        store.group("h").reset(1, "a")
        store.group("g").delete()
        assert offsets(store, "g") == {}
        assert [group.name for group in store.groups()] == ["h"]
        end_offset = offsets_log(store, "g").log_end_offset
        store.group("g").delete()
        assert offsets_log(store, "g").log_end_offset == end_offset
    with open_store(tmp_path / "store") as store:
        assert [group.name for group in store.groups()] == ["h"]


def test_a_brokers_group_of_a_newer_kind_is_not_deleted(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        log = offsets_log(store, "c")
        write(log, "c", {A0: 1})
        log.append_record(b"\x00\x03\x00\x01c", b"\x00\x00", b"\x00", TIME)
        with pytest.raises(InvalidGroupError, match="consumer group of a broker"):
            store.group("c").delete()
        assert offsets(store, "c") == {A0: 1}


def test_positions_go_with_their_topic(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store:
        for name in ("g", "h", "i"):
            store.group(name).reset(1, ["a", "b"] if name != "i" else "b")
        store.delete_topic("a")
        assert {name: offsets(store, name) for name in "ghi"} == {name: {B0: 1} for name in "ghi"}
        store.delete_topic("b")
        assert store.groups() == []


def test_positions_that_cannot_be_taken_back_do_not_stop_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise DiskFullError("no space left")

    with a_store(tmp_path / "store", FakeClock()) as store:
        store.group("g").reset(0, "a")
        monkeypatch.setattr(expiring, "append_rows", fail)
        store.delete_topic("a")
        assert [topic.name for topic in store.topics(internal=False)] == ["b"]
        assert "not all positions in topic a, which is deleted, could be taken back" in caplog.text


def test_keys_of_several_topics_are_the_same_bytes_again(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store, store.consumer("g", ["a", "b"]) as consumer:
        consumer.commit({A0: 1, B0: 2})
        consumer.commit({B0: 3})
        found = [record.key for record in offsets_log(store, "g").read()]
        assert found == [key("g", A0), key("g", B0), key("g", B0)]


def test_the_log_that_a_consumer_commits_to_is_looked_for_again_when_need_be(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", FakeClock()) as store, store.consumer("g", "a") as consumer:
        consumer.commit({A0: 1})
        offsets_log(store, "g").close()
        consumer.commit({A0: 2})
        assert offsets(store, "g") == {A0: 2}
        store.delete_topic("__consumer_offsets")
        consumer.commit({A1: 3})
        assert offsets(store, "g") == {A1: 3}
        store.delete_topic("__consumer_offsets")
        store.create_topic("__consumer_offsets", 3)  # another place for the group
        consumer.commit({A0: 4})
        assert offsets(store, "g") == {A0: 4}
        assert offsets_log(store, "g").partition.partition == partition_of_id("g", 3)
        positions = Positions(OwnedSource(store._state))
        for name in ("h", "i", "k"):
            positions.commit(name, {A0: Position(9)})
            assert offsets(store, name) == {A0: 9}


def test_what_is_committed_while_a_topic_is_deleted_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = topic_deletion.delete

    def commit_first(state: StoreState, name: str) -> None:
        Positions(OwnedSource(state)).commit("g", {A0: Position(5)})
        delete(state, name)

    with a_store(tmp_path / "store", FakeClock()) as store:
        store.group("g").reset(1, "a")
        monkeypatch.setattr(topic_deletion, "delete", commit_first)
        store.delete_topic("a")
        assert offsets(store, "g") == {}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_is_deleted_while_a_commit_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_made_again: bool) -> None:
    """The commit comes behind what takes back the positions: the group must not begin there in a new topic of the name."""

    def delete_first(group: str, positions: Mapping[TopicPartition, Position], now_ms: int) -> Rows:
        monkeypatch.undo()
        store.delete_topic("a")
        if is_made_again:
            store.create_topic("a", 1)
        return commit_rows(group, positions, now_ms)

    with a_store(tmp_path / "store", FakeClock()) as store, store.consumer("g", ["a", "b"]) as consumer:
        monkeypatch.setattr(positions_module, "commit_rows", delete_first)
        consumer.commit({A0: 5, A1: Position(6), B0: 7})
        assert offsets(store, "g") == {B0: 7}


def test_a_deletion_that_fails_keeps_the_positions(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_store(tmp_path, disk=disk) as store:
        store.create_topic("a").append(b"one")
        store.group("g").reset(1, "a")
        disk.fail(1, kind="create", on="tidelog.json.tmp")
        with pytest.raises(StorageError):
            store.delete_topic("a")
        assert offsets(store, "g") == {A0: 1}


def test_a_deletion_that_is_decided_takes_the_positions_after_a_crash_too(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_store(tmp_path / "data", disk=disk) as store:
        store.create_topic("a").append(b"one")
        store.group("g").reset(1, "a")
        disk.interrupt(1, kind="rename", on="-delete")  # behind the decision
        with pytest.raises(KeyboardInterrupt):
            store.delete_topic("a")
        shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        assert offsets(store, "g") == {A0: 1}
        store.create_topic("a").append(b"new")
        assert offsets(store, "g") == {}
    with open_store(tmp_path / "copy") as copy:
        assert offsets(copy, "g") == {}
        copy.create_topic("a").append(b"new")
        with copy.consumer("g", "a") as consumer:
            assert [record.value for record in consumer.poll()] == [b"new"]


def test_a_creation_that_is_undone_keeps_the_positions_of_another_stores_topic(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_store(tmp_path / "theirs") as theirs, open_store(tmp_path / "ours", disk=disk) as ours:
        theirs.create_topic("a").append(b"one")
        with theirs.consumer("g", "a", positions=ours) as consumer:
            consumer.poll()
            consumer.commit()
        disk.fail(1, kind="create", on="a-0/00000000000000000000.log")
        with pytest.raises(StorageError):
            ours.create_topic("a")
        assert offsets(ours, "g") == {A0: 1}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_topic_and_its_positions_go_together_wherever_it_is_cut_off(tmp_path: Path, moment: Moment) -> None:
    outcomes = set()
    for number in range(1, 200):
        home, disk = tmp_path / str(number), FaultyDisk(QuietDisk())
        home.mkdir()
        with open_store(home / "data", disk=disk) as store:
            store.create_topic("a").append(b"one")
            store.group("g").reset(1, "a")
            disk.interrupt(number, moment=moment)
            with suppress(KeyboardInterrupt):
                store.delete_topic("a")
            disk.heal()
            shutil.copytree(home / "data", home / "copy", ignore=shutil.ignore_patterns(".lock"))
        with open_store(home / "copy") as copy:
            is_there = "a" in [topic.name for topic in copy.topics()]
            assert offsets(copy, "g") == ({A0: 1} if is_there else {})
            outcomes.add(is_there)
        shutil.rmtree(home)
        if not disk.fired:
            break
    else:
        raise AssertionError("never through")
    assert outcomes == {True, False}
