"""When positions go: Kafka's rule as a table, and the task that writes the tombstones."""

import errno
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.groups import A0, A1, B0, end, key, offsets, offsets_log, write
from tests.support.logs import TIME, FakeClock, QuietDisk
from tests.support.small_stores import open_store
from tidelog.disk.names import TopicPartition
from tidelog.record import NewBatch
from tidelog.schema.consumer_offsets import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from tidelog.store import Position
from tidelog.store.groups.expiring import expire_positions
from tidelog.store.groups.expiry import Expired, expired
from tidelog.store.groups.positions_table import GroupRecords, Stored

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
NOW = TIME + 100 * DAY_MS


def member(*topics: str) -> MemberMetadata:
    subscription = b"\x00\x00" + len(topics).to_bytes(4, "big") + b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return MemberMetadata("m", None, "c", "h", 1, 1, subscription + b"\xff\xff\xff\xff", b"")


def classic(*members: MemberMetadata, protocol_type: str = "consumer", since_ms: int = -1) -> GroupMetadataValue:
    return GroupMetadataValue(protocol_type, 1, None, None, since_ms, members)


def group(ages_ms: dict[TopicPartition, int], metadata: GroupMetadataValue | None = None, **more: Any) -> GroupRecords:
    positions = {partition: Stored(OffsetCommitValue(1, commit_timestamp_ms=NOW - age_ms), 0, b"") for partition, age_ms in ages_ms.items()}
    return GroupRecords(positions, metadata, None if metadata is None else b"key", **more)


def decide(found: GroupRecords, live: tuple[str, ...] | None = None, pending: tuple[TopicPartition, ...] = ()) -> Expired:
    return expired(found, now_ms=NOW, retention_ms=WEEK_MS, live_topics=live, pending=pending)


OLD_AND_NEW = {A0: WEEK_MS, A1: WEEK_MS - 1, B0: WEEK_MS + 1}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (group(OLD_AND_NEW), Expired((A0, B0), False)),
        (group({A0: WEEK_MS, B0: WEEK_MS}), Expired((A0, B0), True)),
        (group({}), Expired((), True)),
        # empty: since then, however old the commits are
        (group(OLD_AND_NEW, classic(since_ms=NOW - WEEK_MS + 1)), Expired((), False)),
        (group(OLD_AND_NEW, classic(since_ms=NOW - WEEK_MS)), Expired((A0, A1, B0), True)),
        (group(OLD_AND_NEW, classic()), Expired((A0, B0), False)),
        (group({A0: WEEK_MS}, classic(protocol_type="connect", since_ms=NOW - WEEK_MS)), Expired((A0,), True)),
        # with members: what nobody subscribes to
        (group(OLD_AND_NEW, classic(member("a"), since_ms=0)), Expired((B0,), False)),
        (group(OLD_AND_NEW, classic(member("a"), member("b"))), Expired((), False)),
        (group({A0: WEEK_MS}, classic(member("c"))), Expired((A0,), False)),
        (group(OLD_AND_NEW, classic(member("c"), protocol_type="connect")), Expired((), False)),
        (group(OLD_AND_NEW, classic(MemberMetadata("m", None, "c", "h", 1, 1, b"\x00", b""))), Expired((), False)),
        # what cannot be read, and the newer kinds
        (GroupRecords(group(OLD_AND_NEW).positions, None, b"key"), Expired((), False)),
        (group(OLD_AND_NEW, others={b"x": "consumer"}), Expired((), False)),
    ],
)
def test_the_rule(found: GroupRecords, expected: Expired) -> None:
    assert decide(found) == expected


def test_a_live_member_keeps_what_it_reads() -> None:
    assert decide(group(OLD_AND_NEW), live=("a",)) == Expired((B0,), False)
    assert decide(group({B0: WEEK_MS}), live=("a",)) == Expired((B0,), False)
    assert decide(group({B0: WEEK_MS}, classic(since_ms=0)), live=("b",)) == Expired((), False)


def test_what_a_transaction_is_about_to_replace_stays() -> None:
    assert decide(group({A0: WEEK_MS, B0: WEEK_MS}), pending=(A0,)) == Expired((B0,), False)


def test_a_time_of_its_own_goes_first() -> None:
    found = group({A0: 0, A1: 2 * WEEK_MS})
    found.positions[A0].value = OffsetCommitValue(1, commit_timestamp_ms=NOW, expire_timestamp_ms=NOW)
    found.positions[A1].value = OffsetCommitValue(1, commit_timestamp_ms=0, expire_timestamp_ms=NOW + 1)
    assert decide(found) == Expired((A0,), False)


def test_the_task(tmp_path: Path) -> None:
    clock = FakeClock()
    config = {"offsets.retention.minutes": 60, "offsets.retention.check.interval.ms": 600_000}
    with open_store(tmp_path / "store", clock=clock, config=config) as store:
        store.create_topic("a", 2)
        store.create_topic("b")
        for name in ("g", "h", "live"):
            store.group(name).reset(0, ["a", "b"])
        with store.consumer("live", "a"):
            clock.advance(30 * 60_000)
            store.group("h").reset(0, "b")
            clock.advance(29 * 60_000 + 59_999)
            assert "positions" in store.scheduler.run_due()
            assert [len(offsets(store, name)) for name in ("g", "h", "live")] == [3, 3, 3]
            clock.advance(1)
            assert expire_positions(store._state) == 3 + 2 + 1
            assert {name: set(offsets(store, name)) for name in ("g", "h", "live")} == {"g": set(), "h": {B0}, "live": {A0, A1}}
            clock.advance(600_000)
            assert "positions" in store.scheduler.run_due()
            assert expire_positions(store._state) == 0  # it has done nothing twice
        assert expire_positions(store._state) == 0  # it was in use up to now
        clock.advance(60 * 60_000)
        assert expire_positions(store._state) == 2 + 1
        assert store.groups() == []
    with open_store(tmp_path / "store", clock=clock, config=config) as store:
        assert store.groups() == []


def test_a_transaction_keeps_a_position_until_it_ends(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1, B0: 1})
        write(log, "g", {A0: 5}, producer=7)
        clock.advance(WEEK_MS)
        assert expire_positions(store._state) == 1
        assert offsets(store, "g") == {A0: 1}
        end(log, 7, "abort")
        assert expire_positions(store._state) == 1
        assert store.groups() == []


def test_the_group_of_a_broker_goes_with_its_last_position(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        log = offsets_log(store, "c")
        write(log, "c", {A0: 1})
        empty = b"\x00\x03" + b"\x00\x08consumer" + b"\x00\x00\x00\x01" + b"\xff\xff" * 2 + TIME.to_bytes(8, "big") + b"\x00" * 4
        log.append(NewBatch([(b"\x00\x02\x00\x01c", empty)], timestamp_ms=TIME).encode())
        assert store.group("c").kind == "classic"
        clock.advance(WEEK_MS - 1)
        assert expire_positions(store._state) == 0
        clock.advance(1)
        assert expire_positions(store._state) == 2
        assert [record.key for record in log.read() if record.value is None] == [key("c", A0), b"\x00\x02\x00\x01c"]
        assert store.groups() == []


def test_of_an_adopted_topic_nothing_goes_until_its_settings_are_known(tmp_path: Path) -> None:
    clock, config = FakeClock(), {"offsets.topic.num.partitions": 1}
    with open_store(tmp_path / "store", clock=clock, config=config) as store:
        write(offsets_log(store, "g"), "g", {A0: 1})
    (tmp_path / "store" / "tidelog.json").unlink()
    clock.advance(2 * WEEK_MS)
    with open_store(tmp_path / "store", clock=clock, config=config, adopt=True) as store:
        assert expire_positions(store._state) == 0
        assert offsets(store, "g") == {A0: 1}
        store.topic("__consumer_offsets").alter({"cleanup.policy": "compact"})
        assert expire_positions(store._state) == 1
        assert offsets(store, "g") == {}


def test_what_a_consumer_used_until_now_stays(tmp_path: Path) -> None:
    """Kafka counts from when a group became empty. There may have been nothing to commit for long."""
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        store.create_topic("a", 2)
        store.create_topic("b")
        store.group("g").reset(0, ["a", "b"])
        before = store.group("g").positions()
        log = offsets_log(store, "g")
        with store.consumer("g", "a") as consumer:
            consumer.commit({A0: Position(0, 3, "a note")})
            clock.advance(2 * WEEK_MS)
        after = store.group("g").positions()
        assert after[A0] == Position(0, 3, "a note", clock.now_ms)
        assert after[A1] == before[A1]._replace(commit_timestamp_ms=clock.now_ms)
        assert after[B0] == before[B0], "nobody has read it"
        assert expire_positions(store._state) == 1
        clock.advance(WEEK_MS - 1)
        assert expire_positions(store._state) == 0
        clock.advance(1)
        assert expire_positions(store._state) == 2
        end_offset = log.log_end_offset
        store.consumer("g", "a").close()
        assert log.log_end_offset == end_offset, "nothing is made up"


def test_what_was_committed_lately_is_not_written_again(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        store.create_topic("a", 2)
        store.group("g").reset(0, "a")
        log = offsets_log(store, "g")
        end_offset = log.log_end_offset
        clock.advance(WEEK_MS // 2 - 1)
        store.consumer("g", "a").close()
        assert log.log_end_offset == end_offset
        clock.advance(1)
        store.consumer("g", "a").close()
        assert log.log_end_offset == end_offset + 2


def test_what_a_transaction_is_about_to_commit_is_not_overtaken(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        store.create_topic("a", 2)
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1})
        clock.advance(WEEK_MS)
        with store.consumer("g", "a"):
            write(log, "g", {A0: 5}, producer=7)
        end(log, 7, "commit")
        assert offsets(store, "g") == {A0: 5}


def test_what_a_transaction_has_just_written_is_not_overtaken_before_it_is_durable(tmp_path: Path) -> None:
    """Another thread commits: what it has appended is not seen until its sync is done, and the old position must not come behind it."""
    clock = FakeClock()
    with open_store(tmp_path / "store", clock=clock) as store:
        topic = store.create_topic("a", 2)
        for _ in range(5):
            topic.append(b"x", partition=0)
        store.group("g").reset(1, "a")
        clock.advance(WEEK_MS)
        consumer = store.consumer("g", "a")
        assert len(consumer.poll()) == 4
        with store.transaction("id") as tx:
            tx.commit_positions(consumer)
            tx._open.write(tx._open._take())
            consumer.close()
        assert offsets(store, "g")[A0] == 5


def test_a_store_that_cannot_keep_them_closes_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, disk = FakeClock(), FaultyDisk(QuietDisk())
    with open_store(tmp_path / "store", clock=clock, disk=disk) as store:
        store.create_topic("a", 2)
        store.group("g").reset(0, "a")
        clock.advance(WEEK_MS)
        disk.fail(1, kind="write", on=".log", error=errno.ENOSPC)
        consumer = store.consumer("g", "a")
        consumer.close()
        assert consumer.is_closed
        assert "expire as of their commit" in caplog.text
    with tidelog.open(tmp_path / "store", "r", clock=clock) as directory:
        directory.consumer("g", "a").close()
