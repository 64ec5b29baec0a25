"""Retention of a store: what is never deleted unasked, what a policy of one's own may and may not do, and the floor of free space."""

import hashlib
import logging
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import tidelog
from tests.support.golden import GOLDEN
from tests.support.kept_stores import BATCH_BYTES, DAY_MS, HOUR_MS, SpaceDisk, advance, fill, open_store, small_segments
from tests.support.logs import TIME, FakeClock, number_of, numbered
from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.retention import Expired, FreeSpaceFloor, LogFacts, StoreFacts

IN_2020 = 1_577_836_800_000
YEAR_MS = 365 * DAY_MS
SEGMENT_BYTES = 2 * BATCH_BYTES
OWN = {"tidelog.json", ".lock"}
BROKER = ("compacted", "transactions", "producers", "log-start", "legacy", "times-missing", "leader-epochs")
"""Golden partitions: closed by a broker, years ago, one of them compacted."""


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def broker_directory(home: Path) -> Path:
    """A directory as a broker leaves it when it is stopped, with partitions that Kafka wrote and what else lies there."""
    home.mkdir()
    entries = []
    for number, case in enumerate(BROKER):
        shutil.copytree(GOLDEN / "partitions" / case / "closed", home / f"{case}-{number}")
        entries.append(f"{case} {number} 0")
    deleted = home / f"old-0.{'0' * 32}-delete"
    deleted.mkdir()
    (deleted / f"{0:020d}.log").write_bytes(b"")
    metadata = home / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "quorum-state").write_text("{}")
    (home / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    (home / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (home / name).write_text("\n".join(["0", str(len(entries)), *entries, ""]))
    (home / "log-start-offset-checkpoint").write_text("0\n0\n")
    return home


def snapshot(home: Path) -> dict[str, str]:
    """Every name below a directory, with a digest of what is in it."""
    found = {}
    for path in sorted(home.rglob("*")):
        if path.name not in OWN:
            found[str(path.relative_to(home))] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
    return found


@pytest.mark.parametrize("config", [{}, {"log.retention.ms": 1, "log.retention.bytes": 0, "log.cleanup.policy": "compact,delete"}])
def test_a_year_in_an_adopted_directory_changes_not_one_byte(tmp_path: Path, config: Mapping[str, object]) -> None:
    """Whatever the store is told about topics in general: nobody has said how these are to be kept."""
    home = broker_directory(tmp_path / "broker")
    before = snapshot(home)
    clock = FakeClock(TIME + YEAR_MS)
    with open_store(home, clock, adopt=True, config=dict(config), policies=[FreeSpaceFloor(2**62), Everything()]) as store:
        assert [topic.name for topic in store.topics()] == sorted(BROKER)
        advance(store, clock, YEAR_MS, 6 * HOUR_MS)
        runs = {report.name: report.runs for report in store.scheduler.reports()}
        assert runs["retention"] == runs["high watermarks"] == 365 * 4
        assert store.metrics().failing_tasks == ()
        result = store.retain()
        assert (result.deleted, len(result.left_alone)) == ((), len(BROKER))
        assert all("Topic.alter" in why for _, why in result.left_alone)
        assert len(str(store.explain()).splitlines()) > len(BROKER)
    assert snapshot(home) == before
    assert {path.name for path in home.iterdir()} >= OWN


def test_records_of_2020_stay_in_a_topic_that_nobody_has_set(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("diary", config={"internal.segment.bytes": SEGMENT_BYTES}).log(0)
        fill(log, [IN_2020 + number for number in range(10)])
        assert store.retain().deleted == ()
        advance(store, clock, 10 * YEAR_MS, 30 * DAY_MS)
        assert [number_of(record) for record in log.read()] == list(range(10))
        [setting] = [one for one in store.topic("diary").describe().settings if one.name == "retention.ms"]
        assert (setting.value, setting.source) == ("-1", "tidelog")


@pytest.mark.parametrize("given", [{"log.retention.ms": -1}, {"log.retention.hours": 20 * 365 * 24}])
def test_kafkas_seven_days_are_nobodys_word_where_the_store_had_a_retention_once(tmp_path: Path, given: Mapping[str, object]) -> None:
    """What a store is opened with is not kept: without it the next opening deleted what was a week old, though nobody had asked for it."""
    clock = FakeClock()
    with open_store(tmp_path / "store", clock, config=given) as store:
        log = store.create_topic("diary", config={"internal.segment.bytes": SEGMENT_BYTES}).log(0)
        fill(log, [clock() - 30 * DAY_MS] * 10)
        assert store.retain().deleted == ()
    with open_store(tmp_path / "store", clock) as store:
        assert store.retain().deleted == ()
        assert not any(segment.goes_by for segment in store.explain().partitions[0].segments)
        [setting] = [one for one in store.topic("diary").describe().settings if one.name == "retention.ms"]
        assert (setting.value, setting.source) == ("-1", "tidelog")
        [now] = store.what_if("diary", [{}]).rows
        assert now.segments == 0
    with tidelog.open(tmp_path / "store", "r", clock=clock) as copy:
        assert not any(segment.goes_by for segment in copy.explain().partitions[0].segments)
    with open_store(tmp_path / "store", clock, config={"log.retention.hours": 24}) as store:
        assert store.retain().records == 10


def test_a_retention_that_is_taken_back_is_as_if_never_given(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        topic = store.create_topic("diary", config={"internal.segment.bytes": SEGMENT_BYTES, "retention.ms": 60 * DAY_MS})
        fill(topic.log(0), [clock() - 30 * DAY_MS] * 10)
        topic.alter(reset=["retention.ms"])
        assert store.retain().deleted == ()
        assert topic.log(0).config.retention_ms == -1
        topic.alter({"retention.ms": 7 * DAY_MS})
        assert store.retain().records == 10


def test_what_went_is_told_by_rule_and_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        old = store.create_topic("old", 2, config=small_segments(retention_ms=1000))
        large = store.create_topic("large", config=small_segments(retention_bytes=SEGMENT_BYTES))
        fill(old.log(0), [TIME, TIME, TIME, TIME, TIME + HOUR_MS])
        fill(old.log(1), [TIME, TIME, TIME + HOUR_MS])
        fill(large.log(0), [TIME] * 6)
        large.log(0).delete_records_before(3)
        clock.advance(1001)
        assert store.retain("large").segments == 2
        with caplog.at_level(logging.INFO, "tidelog"):
            result = store.retain()
        assert [one[:5] for one in result.deleted] == [
            (TopicPartition("old", 0), "time", 2, 2 * SEGMENT_BYTES, 4),
            (TopicPartition("old", 1), "time", 1, SEGMENT_BYTES, 2),
        ]
        assert (result.segments, result.size_bytes, result.records, result.failures) == (3, 3 * SEGMENT_BYTES, 6, ())
        line = (
            f"old-0: 2 segments, {2 * SEGMENT_BYTES} bytes, 4 records by time: its newest record is 1001 ms old, and retention.ms is 1000"
        )
        assert str(result).splitlines()[0] == line
        assert caplog.records[0].message == f"deleted from {line}"
        assert (bases(old.log(0)), bases(old.log(1)), bases(large.log(0))) == ([4], [2], [4])
        assert str(store.retain()) == "nothing was deleted"
        with pytest.raises(UnknownTopicError):
            store.retain("none")


def test_rules_come_in_kafkas_order_within_a_round(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        topic = store.create_topic("both", config=small_segments(retention_bytes=3 * SEGMENT_BYTES, retention_ms=1000))
        fill(topic.log(0), [TIME + 1000 * (number // 2) for number in range(12)])
        topic.log(0).delete_records_before(2)
        clock.advance(4500)
        result = store.retain()
        assert [(one.rule, one.segments, one.records) for one in result.deleted] == [("log start", 1, 0), ("size", 2, 4), ("time", 1, 2)]
        assert bases(topic.log(0)) == [8, 10]


def test_the_active_segment_goes_after_a_roll_and_an_empty_one_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("old", config=small_segments(retention_ms=1000)).log(0)
        fill(log, [TIME] * 3)
        clock.advance(DAY_MS)
        assert store.retain().segments == 2
        assert (log.log_start_offset, log.log_end_offset, bases(log), log.size_bytes) == (3, 3, [3], 0)
        clock.advance(YEAR_MS)
        assert store.retain().segments == 0
        log.append(numbered(3, timestamp_ms=clock.now_ms))
        assert [record.offset for record in log.read()] == [3]


@pytest.mark.parametrize("policy", ["compact", ""])
def test_without_delete_only_what_was_deleted_by_request_goes(tmp_path: Path, policy: str) -> None:
    clock, disk = FakeClock(), SpaceDisk()
    disk.free[str(tmp_path / "store")] = 0
    policies = [Everything(), FreeSpaceFloor(2**40), EverythingInStore()]
    with open_store(tmp_path / "store", clock, disk=disk, policies=policies) as store:
        topic = store.create_topic("kept", config=small_segments(retention_ms=1, retention_bytes=0))
        fill(topic.log(0), [TIME] * 6)
        topic.log(0).delete_records_before(3)
        topic.alter({"cleanup.policy": policy})
        clock.advance(YEAR_MS)
        assert [(one.rule, one.segments) for one in store.retain().deleted] == [("log start", 1)]
        topic.alter({"cleanup.policy": "delete"})
        assert [(one.rule, one.segments) for one in store.retain().deleted] == [("size", 2)]


@dataclass
class Everything:
    """A policy that keeps nothing."""

    name: str = "everything"

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
        return {segment.base_offset: "why not" for segment in log.segments}


@dataclass
class EverythingInStore:
    """A policy for the whole store that keeps nothing."""

    name: str = "everything in store"

    def expired_in_store(self, store: StoreFacts, now_ms: int) -> Iterable[Expired]:
        return [Expired(facts.partition, segment.base_offset, "") for facts in store.partitions for segment in facts.log.segments]


@dataclass
class Named:
    """A policy that names the segments it is told to."""

    offsets: list[int]
    name: str = "named"
    seen: list[LogFacts] = field(default_factory=list)

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
        self.seen.append(log)
        return dict.fromkeys(self.offsets, "it was named")


@pytest.mark.parametrize(
    ("named", "left"), [([], [0, 2, 4]), ([0], [2, 4]), ([2], [0, 2, 4]), ([0, 4], [2, 4]), ([4, 2, 0, 99, -1], [5]), ([2, 4], [0, 2, 4])]
)
def test_a_policy_names_segments_and_the_oldest_of_them_go(tmp_path: Path, named: list[int], left: list[int]) -> None:
    """Not those behind one that it did not name."""
    policy = Named(named)
    with open_store(tmp_path / "store", FakeClock(), policies=[policy]) as store:
        log = store.create_topic("emails", config=small_segments()).log(0)
        fill(log, [TIME] * 5)
        result = store.retain()
        assert bases(log) == left
        assert [(one.rule, one.reason) for one in result.deleted] == ([("named", "it was named")] if left != [0, 2, 4] else [])
        assert policy.seen[0].partition == TopicPartition("emails", 0)
        if named:
            assert store.retain().deleted == () or named == [0, 4]


def test_a_policy_cannot_go_past_the_high_watermark(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock(), policies=[Everything(), EverythingInStore()]) as store:
        log = store.create_topic("emails", config=small_segments()).log(0)
        fill(log, [TIME] * 6)
        log.high_watermark = 3
        assert [(one.rule, one.segments) for one in store.retain().deleted] == [("everything", 1)]
        assert (bases(log), log.log_start_offset) == ([2, 4], 2)


def test_a_record_that_comes_while_a_policy_thinks_is_not_deleted(tmp_path: Path) -> None:
    """What it said about the active segment was said about another content of it."""

    class Slow(Everything):
        def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
            answer = super().expired(log, config, now_ms)
            store.log("emails", 0).append(numbered(3))
            return answer

    with open_store(tmp_path / "store", FakeClock(), policies=[Slow()]) as store:
        log = store.create_topic("emails", config=small_segments()).log(0)
        fill(log, [TIME] * 3)
        assert [(one.rule, one.segments) for one in store.retain().deleted] == [("everything", 1)]
        assert [number_of(record) for record in log.read()] == [2, 3]


def test_what_is_wrong_with_a_policy_is_told_and_stops_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Everything):
        def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
            if log.partition == TopicPartition("emails", 0):
                raise RuntimeError("I cannot decide")
            return super().expired(log, config, now_ms)

        def expired_in_store(self, store: StoreFacts, now_ms: int) -> Iterable[Expired]:
            raise ZeroDivisionError

    clock = FakeClock()
    with open_store(tmp_path / "store", clock, policies=[Broken()]) as store:
        topic = store.create_topic("emails", 2, config=small_segments())
        for partition in range(2):
            fill(topic.log(partition), [TIME] * 3)
        clock.advance(30_000)
        with caplog.at_level(logging.ERROR, "tidelog"):
            store.scheduler.run_due()
        assert [bases(topic.log(partition)) for partition in range(2)] == [[0, 2], [3]]
        assert store.metrics().failing_tasks == ("retention",)
        assert "I cannot decide" in caplog.text
        failures = store.retain().failures
        assert [(failure.partition, type(failure.error)) for failure in failures] == [
            (TopicPartition("emails", 0), RuntimeError),
            (None, ZeroDivisionError),
        ]


def test_what_is_no_policy_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="not a policy of retention"):
        tidelog.open(tmp_path / "store", policies=["time"])  # type: ignore[list-item]
    with pytest.raises(InvalidConfigError, match="not a policy of retention"):  # the class, and every round would have failed
        tidelog.open(tmp_path / "store", policies=[FreeSpaceFloor])  # type: ignore[list-item]
    with pytest.raises(InvalidConfigError, match="a list of them"):
        tidelog.open(tmp_path / "store", policies=FreeSpaceFloor(1))  # type: ignore[call-overload]
    assert not (tmp_path / "store").exists()
    with pytest.raises(InvalidConfigError, match="floor"):
        FreeSpaceFloor(-1)


def test_the_oldest_of_all_partitions_go_when_space_runs_out(tmp_path: Path) -> None:
    clock, disk = FakeClock(), SpaceDisk()
    home = str(tmp_path / "store")
    disk.free[home] = 10**9
    with open_store(tmp_path / "store", clock, disk=disk, policies=[FreeSpaceFloor(10**9)]) as store:
        topic = store.create_topic("emails", 3, config=small_segments())
        fill(topic.log(0), [TIME - 90, TIME - 90, TIME - 60, TIME - 60, TIME])
        fill(topic.log(1), [TIME - 80, TIME - 80, TIME - 70, TIME - 70, TIME])
        fill(topic.log(2), [TIME - 99])
        assert store.retain().deleted == ()
        disk.free[home] -= 2 * SEGMENT_BYTES + 1
        assert store.retain("emails").deleted == (), "it is asked only about the whole store"
        explained = [[one.goes_by for one in partition.segments] for partition in store.explain().partitions]
        assert explained == [["free space", None, None], ["free space", "free space", None], [None]]
        assert {one.goes_by for one in store.explain("emails").partitions[0].segments} == {None}
        result = store.retain()
        assert [(str(one.partition), one.rule, one.segments) for one in result.deleted] == [
            ("emails-0", "free space", 1),
            ("emails-1", "free space", 2),
        ]
        assert result.deleted[0].reason == f"{10**9 - 2 * SEGMENT_BYTES - 1} bytes are free, and the floor is {10**9}"
        assert [bases(topic.log(partition)) for partition in range(3)] == [[2, 4], [4], [0]]
        assert store.retain().deleted == (), "what waits to be removed counts as free"
        advance(store, clock, 60_000, 1000)
        disk.free[home] = 0
        assert store.retain().segments == 1
        assert store.retain().segments == 0, "no active segment goes for it"


def test_deleted_topics_count_as_free_and_file_systems_are_looked_at_one_by_one(tmp_path: Path) -> None:
    clock, disk = FakeClock(), SpaceDisk()
    homes = [tmp_path / "a", tmp_path / "b"]
    with open_store(homes, clock, disk=disk, policies=[FreeSpaceFloor(1000)]) as store:
        topic = store.create_topic("emails", 2, config=small_segments())
        for partition in range(2):
            fill(topic.log(partition), [TIME] * 5)
        disk.free |= {str(homes[0]): 1000 - SEGMENT_BYTES, str(homes[1]): 1000 - SEGMENT_BYTES}
        disk.file_systems |= {str(homes[0]): 1, str(homes[1]): 1}
        assert store.retain().segments == 1, "they share their space: one segment is enough"
        disk.file_systems |= {str(homes[1]): 2}
        assert [str(one.partition) for one in store.retain().deleted] == ["emails-1"]
        gone = store.create_topic("gone", 2)
        for partition in range(2):
            fill(gone.log(partition), [TIME] * 2)
        store.delete_topic("gone")
        disk.free |= {str(home): 1000 - 2 * SEGMENT_BYTES for home in homes}
        assert store.retain().deleted == ()


def test_rounds_at_the_same_time_delete_what_one_would(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("large", config=small_segments(retention_bytes=3 * SEGMENT_BYTES)).log(0)
        fill(log, [TIME] * 40)
        threads = [threading.Thread(target=store.retain) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bases(log) == [34, 36, 38]


def test_the_count_that_was_decided_on_is_not_of_other_segments(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("emails", config=small_segments()).log(0)
        fill(log, [TIME] * 10)
        assert log.delete_segments(2, "size", end_offset=4) == 2
        assert log.delete_segments(2, "size", end_offset=4) == 0
        assert log.delete_segments(5, "size", end_offset=7) == 1
        assert bases(log) == [6, 8]
