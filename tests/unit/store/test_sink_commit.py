"""The commit of a pipeline: all of it, once, whatever comes between."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock
from tests.support.small_stores import QUIET, SMALL, open_store, state_of
from tests.support.staged import Rows, a_commit, stage
from tests.support.transactions import committed
from tests.support.verified import assert_verified
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEAN_SHUTDOWN, TopicPartition
from tidelog.errors import (
    DiskFullError,
    InvalidTimestampError,
    LockedError,
    RefusedBatchError,
    StagingError,
    StorageError,
    TidelogError,
    TransactionError,
    UnknownTopicError,
)
from tidelog.record.batch import RecordBatch
from tidelog.store import sink_commit
from tidelog.store.sink_commit import NewTopics, SinkCommit, SinkCommitted, commit_staged
from tidelog.store.staged_batches import StagedFile
from tidelog.store.transactions import upkeep
from tidelog.store.transactions.ledger import LedgerEntry, last_commit

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DAY_MS = 86_400_000
FIRST: Rows = {A0: [b"x:1", b"y:1"], A1: [b"z:1"], B0: [b"x:1"]}
SECOND: Rows = {A0: [b"x:2"], B0: [b"x:2", b"w:2"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_store(tmp_path / "data") as store:
        store.create_topic("a", 2)
        store.create_topic("b", 1)
    return tmp_path / "data"


def commit(data: Path, work: SinkCommit, *, clock: FakeClock | None = None, disk: Disk = QUIET, timeout_s: float = 0) -> SinkCommitted:
    return commit_staged([str(data)], work, lock_timeout_s=timeout_s, config=SMALL, clock=clock or FakeClock(), pool=FilePool(disk))


def found_in(data: Path) -> dict[str, list[bytes | None]]:
    """What readers of committed records see, who own nothing."""
    with tidelog.open(data, "r") as store:
        return {topic.name: committed(store, topic.name) for topic in store.topics(internal=False)}


def put(tmp_path: Path, data: Path, rows: Rows, name: str = "file", **options: Any) -> SinkCommit:
    batch_id = options.pop("batch_id", 0)
    query = options.pop("query", "q")
    (tmp_path / name).unlink(missing_ok=True)
    return a_commit(stage(tmp_path / name, data, rows, **options), batch_id=batch_id, query=query)


def ledger_of(data: Path) -> list[tuple[bytes | None, int]]:
    with open_store(data) as store:
        found = last_commit(state_of(store), "stream/q")
        return [] if found is None else [(found.name.encode(), found.batch_id)]


BOTH: Mapping[str, list[bytes]] = {"a": [b"x:1", b"y:1", b"z:1"], "b": [b"x:1"]}


def test_all_of_it_is_there_at_once(tmp_path: Path, data: Path) -> None:
    done = commit(data, put(tmp_path, data, FIRST))
    assert (done.records, done.repeats) == (4, None)
    assert found_in(data) == BOTH
    assert ledger_of(data) == [(b"stream/q", 0)]
    with tidelog.open(data, "r") as store:
        assert "__tidelog_commits" not in [topic.name for topic in store.topics(internal=False)]
        assert store.topic("__tidelog_commits").describe().partitions == 1


def test_the_ledgers_record_is_the_last_that_is_written(tmp_path: Path, data: Path) -> None:
    disk = FaultyDisk(QUIET)
    commit(data, put(tmp_path, data, FIRST), disk=disk)
    logs = [Path(call.path).parent.name for call in disk.calls if call.kind == "write" and call.path.endswith(".log")]
    batches = [name for name in logs if not name.startswith("__transaction")]
    assert batches.index("__tidelog_commits-0") > max(batches.index(str(partition)) for partition in FIRST)


def test_a_repetition_is_skipped_and_another_batch_is_not(tmp_path: Path, data: Path) -> None:
    commit(data, put(tmp_path, data, FIRST, batch_id=4))
    for batch_id in (4, 3, 0):
        done = commit(data, put(tmp_path, data, SECOND, batch_id=batch_id))
        assert done.records == 0
        assert done.repeats is not None
        assert (done.repeats.batch_id, done.repeats.records, done.repeats.committed_ms) == (4, 4, TIME)
    assert found_in(data) == BOTH
    assert commit(data, put(tmp_path, data, SECOND, batch_id=4, query="another")).records == 3
    assert commit(data, put(tmp_path, data, SECOND, batch_id=5)).records == 3
    assert found_in(data)["b"] == [b"x:1", b"x:2", b"w:2", b"x:2", b"w:2"]


def test_the_ledger_outlives_producers_records_and_the_target(tmp_path: Path, data: Path) -> None:
    """A month later, with records of 2020, after compaction and retention of what was written: a repetition is one all the same."""
    old_ms = 1_577_836_800_000
    clock = FakeClock()
    with open_store(data, clock=clock) as store:
        store.topic("a").alter({"cleanup.policy": "compact"})
        store.topic("b").alter({"retention.ms": "1000"})
    for batch_id in range(3):
        commit(data, put(tmp_path, data, FIRST, batch_id=batch_id, timestamp_ms=old_ms), clock=clock)
    clock.advance(30 * DAY_MS)
    with open_store(data, clock=clock) as store:
        store.compact(roll=True)
        store.log("b", 0).roll()
        store.retain()
        store.scheduler.run_due()
        clock.advance(DAY_MS)
        store.scheduler.run_due()
        assert committed(store, "b") == []
        assert sorted(committed(store, "a"), key=str) == [b"x:1", b"y:1", b"z:1"]
        assert store.transactions() == []
    assert commit(data, put(tmp_path, data, FIRST, batch_id=2, timestamp_ms=old_ms), clock=clock).repeats is not None
    assert found_in(data)["b"] == []
    assert commit(data, put(tmp_path, data, FIRST, batch_id=3, timestamp_ms=old_ms), clock=clock).records == 4
    assert found_in(data)["b"] == [b"x:1"]


def test_a_commit_that_failed_is_undone_and_the_replays_rows_are_written(tmp_path: Path, data: Path) -> None:
    """The upstream answers differently the second time: never half of one and half of the other."""
    commit(data, put(tmp_path, data, FIRST, query="another"))
    disk = FaultyDisk(QUIET)
    disk.fail(1, kind="write", on="b-0/00000000000000000000.log")
    with pytest.raises(TidelogError):
        commit(data, put(tmp_path, data, FIRST), disk=disk)
    assert found_in(data) == BOTH
    assert commit(data, put(tmp_path, data, SECOND)).records == 3
    assert found_in(data) == {"a": [b"x:1", b"y:1", b"x:2", b"z:1"], "b": [b"x:1", b"x:2", b"w:2"]}


def test_a_full_disk_leaves_nothing_to_be_seen(tmp_path: Path, data: Path) -> None:
    many = {A0: [b"k:%d" % number for number in range(2000)], B0: [b"k:1"]}
    work = put(tmp_path, data, many)
    disk = FaultyDisk(QUIET)
    disk.limit(20_000)
    with pytest.raises(DiskFullError):
        commit(data, work, disk=disk)
    disk.heal()
    assert found_in(data) == {"a": [], "b": []}
    assert commit(data, work, disk=disk).records == 2001
    assert len(found_in(data)["a"]) == 2000


def test_many_batches_a_partition_in_the_order_of_the_files(tmp_path: Path, data: Path) -> None:
    files = [
        stage(tmp_path / f"file{number}", data, {A0: [b"k:%d" % (100 * number + row) for row in range(100)]}, batch_bytes=300)
        for number in range(3)
    ]
    assert commit(data, a_commit(*files)).records == 300
    assert found_in(data)["a"] == [b"k:%d" % number for number in range(300)]
    with open_store(data) as store:
        batches = [batch for batch in store.log("a", 0).batches() if isinstance(batch, RecordBatch) and not batch.is_control]
        assert len(batches) == 18  # a log remembers five
        assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]


def test_a_torn_staged_file_is_told_before_anything_happens(tmp_path: Path, data: Path) -> None:
    work = put(tmp_path, data, FIRST)
    path = tmp_path / "file"
    whole = path.read_bytes()
    before = {found: found.read_bytes() for found in data.rglob("*") if found.is_file()}
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0x40
    swapped = bytearray(whole)
    swapped[57:61] = (9).to_bytes(4, "big")  # a count that the CRC does cover
    for content, match in (
        (whole[:-1], "another size"),
        (whole + b"x", "another size"),
        (bytes(damaged), "damaged"),
        (bytes(swapped), "damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(StagingError, match=match):
            commit(data, work)
    path.unlink()
    with pytest.raises(StagingError, match="gone"):
        commit(data, work)
    assert {found: found.read_bytes() for found in data.rglob("*") if found.is_file()} == before


def test_a_staged_file_that_cannot_be_looked_at_is_an_error_of_ours(tmp_path: Path, data: Path) -> None:
    disk = FaultyDisk(QUIET)
    work = put(tmp_path, data, FIRST)
    disk.fail(1, kind="size", on="file")
    with pytest.raises(StorageError, match="looking at a staged file failed"):
        commit(data, work, disk=disk)
    assert commit(data, work, disk=disk).records == 4


def test_what_the_log_refuses_is_refused_as_a_whole(tmp_path: Path, data: Path) -> None:
    with open_store(data) as store:
        store.topic("b").alter({"message.timestamp.before.max.ms": "1000"})
    with pytest.raises(InvalidTimestampError):
        commit(data, put(tmp_path, data, FIRST, timestamp_ms=TIME - 5000))
    assert found_in(data) == {"a": [], "b": []}
    assert commit(data, put(tmp_path, data, FIRST)).records == 4


@pytest.mark.parametrize(
    "setting", [{"compression.type": "zstd"}, {"message.timestamp.type": "LogAppendTime"}, {"internal.segment.bytes": "300"}]
)
def test_the_topics_settings_hold(tmp_path: Path, data: Path, setting: dict[str, str]) -> None:
    with open_store(data) as store:
        store.topic("a").alter(setting)
    rows = {A0: [b"k:%d" % number for number in range(50)]}
    commit(data, put(tmp_path, data, rows), clock=FakeClock(TIME + 7))
    assert found_in(data)["a"] == rows[A0]
    with open_store(data) as store:
        log = store.log("a", 0)
        batches = [batch for batch in log.batches() if isinstance(batch, RecordBatch) and not batch.is_control]
        assert {str(batch.compression) for batch in batches} == {setting.get("compression.type", "none")}
        expected = TIME + 7 if "message.timestamp.type" in setting else TIME
        assert {record.timestamp_ms for record in log.read()} == {expected}
        assert len(log.segments) > 1 or "internal.segment.bytes" not in setting


def test_only_the_partitions_that_it_writes_are_opened(tmp_path: Path, data: Path) -> None:
    with open_store(data) as store:
        store.create_topic("many", 40)
        for number in range(40):
            store.topic("many").append(b"value", partition=number)
    commit(data, put(tmp_path, data, {B0: [b"x:1"]}))
    done = commit(data, put(tmp_path, data, {B0: [b"x:2"]}, batch_id=1))
    assert done.opened_logs == 3  # its own, the state of its transactional id, and the ledger
    assert (data / CLEAN_SHUTDOWN).exists()
    with open_store(data) as store:
        assert len(committed(store, "many")) == 40
        assert committed(store, "b") == [b"x:1", b"x:2"]


def test_after_a_crash_everything_is_opened_once(tmp_path: Path, data: Path) -> None:
    commit(data, put(tmp_path, data, FIRST))
    (data / CLEAN_SHUTDOWN).unlink()
    done = commit(data, put(tmp_path, data, {B0: [b"x:2"]}, batch_id=1))
    assert done.opened_logs == 5
    assert (data / CLEAN_SHUTDOWN).exists()
    assert commit(data, put(tmp_path, data, {B0: [b"x:3"]}, batch_id=2)).opened_logs == 3


def test_an_unclean_directory_is_not_called_clean_when_one_log_cannot_be_opened(tmp_path: Path, data: Path) -> None:
    commit(data, put(tmp_path, data, FIRST))
    (data / CLEAN_SHUTDOWN).unlink()
    os.rename(data / "a-1", tmp_path / "kept")  # noqa: PTH104
    (data / "a-1").symlink_to(tmp_path / "kept")
    assert commit(data, put(tmp_path, data, {B0: [b"x:2"]}, batch_id=1)).records == 1
    assert not (data / CLEAN_SHUTDOWN).exists()


def test_a_live_owner_is_waited_for_and_named(tmp_path: Path, data: Path) -> None:
    work = put(tmp_path, data, FIRST)
    with open_store(data), pytest.raises(LockedError, match="already open"):
        commit(data, work, timeout_s=0.1)
    assert commit(data, work, timeout_s=0.1).records == 4


def test_topics_are_made_on_request(tmp_path: Path, data: Path) -> None:
    file = stage(tmp_path / "file", data, {TopicPartition("new", 2): [b"x:1"], A0: [b"x:1"]}, new={"new": 3})
    with pytest.raises(UnknownTopicError, match="new"):
        commit(data, a_commit(file))
    assert found_in(data)["a"] == []
    new_topics = NewTopics(3, {"cleanup.policy": "compact"})
    assert commit(data, a_commit(file, new_topics=new_topics)).records == 2
    with tidelog.open(data, "r") as store:
        topic = store.topic("new")
        assert topic.partitions == 3
        assert {setting.name: setting.value for setting in topic.describe().settings}["cleanup.policy"] == "compact"
        assert committed(store, "new") == [b"x:1"]


def test_a_store_is_made_on_request(tmp_path: Path) -> None:
    data = tmp_path / "fresh"
    file = stage(tmp_path / "file", data, {A0: [b"x:1"]}, new={"a": 1})
    assert commit(data, a_commit(file, new_topics=NewTopics())).records == 1
    assert found_in(data) == {"a": [b"x:1"]}


def test_a_topic_that_has_changed_meanwhile_is_told(tmp_path: Path, data: Path) -> None:
    work = put(tmp_path, data, FIRST)
    with open_store(data) as store:
        store.delete_topic("b")
        store.create_topic("b", 1)
    with pytest.raises(StagingError, match="not what it was"):
        commit(data, work)
    assert found_in(data) == {"a": [], "b": []}


def test_a_job_without_an_id_is_written_each_time_and_in_no_ledger(tmp_path: Path, data: Path) -> None:
    for name in ("one", "two"):
        commit(data, put(tmp_path, data, {B0: [b"x:1"]}, name, query=None))
    assert found_in(data)["b"] == [b"x:1"] * 2
    with tidelog.open(data, "r") as store:
        assert "__tidelog_commits" not in [topic.name for topic in store.topics()]


def test_batch_ids_of_another_checkpoint_are_not_taken_for_repetitions(tmp_path: Path, data: Path) -> None:
    file = stage(tmp_path / "file", data, FIRST)

    def of(origin: str, batch_id: int) -> SinkCommit:
        return SinkCommit((file,), "sink", LedgerEntry("stream/mine", batch_id, origin=origin))

    commit(data, of("one", 7))
    with pytest.raises(TransactionError, match="another checkpoint"):
        commit(data, of("two", 0))
    assert commit(data, of("one", 7)).repeats is not None
    assert commit(data, of("one", 8)).records == 4


def test_a_stream_that_goes_back_is_not_taken_for_a_repetition(tmp_path: Path, data: Path) -> None:
    """A crash brings the last batch again, and none before it: then the checkpoint was taken back, and what it brings is something else."""
    file = stage(tmp_path / "file", data, FIRST)

    def of(batch_id: int, origin: str | None = "one") -> SinkCommit:
        return SinkCommit((file,), "sink", LedgerEntry("stream/one", batch_id, origin=origin))

    commit(data, of(7))
    assert commit(data, of(7)).repeats is not None
    with pytest.raises(
        TransactionError, match=r"taken back, or copied.*expected batch 7.*found batch 6.*new checkpoint or another queryId"
    ):
        commit(data, of(6))
    assert found_in(data) == BOTH
    assert commit(data, of(8)).records == 4
    assert commit(data, of(3, None)).repeats is not None, "a batch job counts its runs itself"


def test_the_ledger_is_not_for_others(data: Path) -> None:
    with open_store(data) as store:
        store.create_topic("__tidelog_commits", exist_ok=True)
        with pytest.raises(RefusedBatchError, match="takes no records from outside"):
            store.topic("__tidelog_commits").append(b"{}", key=b"stream/q")
        with store.transaction("mine") as tx, pytest.raises(RefusedBatchError):
            tx.append("__tidelog_commits", b"{}", key=b"stream/q")


def test_a_ledger_that_somebody_has_made_before_it_is_used(tmp_path: Path, data: Path) -> None:
    with open_store(data) as store:
        store.create_topic("__tidelog_commits")
    assert commit(data, put(tmp_path, data, {B0: [b"x:1"]}, query=None)).records == 1
    assert commit(data, put(tmp_path, data, {B0: [b"x:2"]})).records == 1
    assert ledger_of(data) == [(b"stream/q", 0)]


def test_what_sinks_write_for_themselves_does_not_grow(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "DIRTY_BYTES", 2000)
    clock = FakeClock()
    sizes = []
    for batch_id in range(60):
        clock.advance(1000)
        commit(data, put(tmp_path, data, {B0: [b"x:%d" % batch_id]}, batch_id=batch_id), clock=clock)
        own = [*data.glob("__transaction_state-*/*.log"), *data.glob("__tidelog_commits-0/*.log")]
        sizes.append(sum(found.stat().st_size for found in own))
    assert max(sizes[30:]) < 8000
    assert ledger_of(data) == [(b"stream/q", 59)]
    assert commit(data, put(tmp_path, data, {B0: [b"x:0"]}, batch_id=59)).repeats is not None
    assert found_in(data)["b"] == [b"x:%d" % number for number in range(60)]


def test_appends_go_by_several_threads(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(data) as store:
        store.create_topic("wide", 12)
    monkeypatch.setattr(sink_commit, "_workers", lambda tasks: min(8, tasks))
    rows = {TopicPartition("wide", number): [b"%d:%d" % (number, row) for row in range(200)] for number in range(12)}
    files = [stage(tmp_path / f"file{number}", data, rows) for number in range(4)]
    assert commit(data, a_commit(*files)).records == 4 * 12 * 200
    with tidelog.open(data, "r") as store:
        for partition, values in rows.items():
            assert [record.value for record in store.topic("wide").read(partition=partition.partition)] == list(values) * 4


def own_files(tmp_path: Path, data: Path, rows: Rows, name: str = "own") -> list[StagedFile]:
    """A file for each partition, as tasks with many rows make them."""
    return [stage(tmp_path / f"{name}-{place}", data, {partition: rows[partition]}) for place, partition in enumerate(rows)]


def segments_of(data: Path, partition: TopicPartition) -> list[int]:
    return sorted(int(path.stem) for path in (data / str(partition)).glob("*.log"))


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_commit, "LEAST_SEGMENT_BYTES", 1)


@pytest.mark.usefixtures("small_segments")
def test_files_of_one_partition_become_segments(tmp_path: Path, data: Path) -> None:
    """Those of several tasks in their order, and between them what several partitions share, which is copied."""
    first, second = own_files(tmp_path, data, FIRST, "first"), own_files(tmp_path, data, SECOND, "second")
    shared = stage(tmp_path / "shared", data, {A0: [b"s:1"], B0: [b"s:1"]})
    inodes = {(tmp_path / f"first-{place}").stat().st_ino for place in range(len(FIRST))}
    done = commit(data, a_commit(*first, shared, *second))
    assert done.records == 9
    assert found_in(data) == {"a": [b"x:1", b"y:1", b"s:1", b"x:2", b"z:1"], "b": [b"x:1", b"s:1", b"x:2", b"w:2"]}
    assert segments_of(data, A0) == [0, 3]
    assert {(data / str(partition) / f"{0:020d}.log").stat().st_ino for partition in FIRST} == inodes
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("first", "second"))] == []
    assert commit(data, a_commit(stage(tmp_path / "next", data, SECOND), batch_id=1)).records == 3
    for partition in FIRST:
        assert_verified(data / str(partition))


@pytest.mark.usefixtures("small_segments")
def test_a_log_that_does_not_take_a_file_has_its_batches_appended(tmp_path: Path, data: Path) -> None:
    with open_store(data) as store:
        store.topic("a").alter({"compression.type": "gzip"})
    commit(data, a_commit(*own_files(tmp_path, data, FIRST)))
    assert found_in(data) == {"a": [b"x:1", b"y:1", b"z:1"], "b": [b"x:1"]}
    assert (tmp_path / "own-0").exists()
    assert not (tmp_path / "own-2").exists()


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("codec", ["producer", "gzip"])
def test_a_file_that_is_another_than_its_task_has_written_leaves_nothing(tmp_path: Path, data: Path, codec: str) -> None:
    """Whether it becomes a segment or, in another codec than the topic's, is appended batch by batch."""
    with open_store(data) as store:
        store.topic("a").alter({"compression.type": codec})
    files = own_files(tmp_path, data, FIRST)
    more = StagedFile.of(files[0].path, files[0].topics, [(0, 0, files[0].size_bytes, files[0].count + 1)])
    with pytest.raises(StagingError, match="other records than its task has written"):
        commit(data, a_commit(more, *files[1:]))
    assert found_in(data) == {"a": [], "b": []}
    damaged = own_files(tmp_path, data, FIRST, "damaged")
    content = bytearray(Path(damaged[0].path).read_bytes())
    content[-1] ^= 1
    Path(damaged[0].path).write_bytes(content)
    with pytest.raises(TidelogError, match="damaged-0"):
        commit(data, a_commit(*damaged))
    assert found_in(data) == {"a": [], "b": []}
    commit(data, a_commit(*own_files(tmp_path, data, FIRST, "good")))
    assert found_in(data) == {"a": [b"x:1", b"y:1", b"z:1"], "b": [b"x:1"]}
