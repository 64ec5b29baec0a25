"""`store.compact`: what goes, what stays and why, and what a dry run says about it beforehand."""

import asyncio
import threading
from pathlib import Path

import pytest

import tidelog
import tidelog.aio
from tests.support.compacted_stores import before_each_pass, checkpoint_of, compacted, left_in, names_in, offsets_in, pairs, put
from tests.support.kept_stores import HOUR_MS, SpaceDisk, open_store
from tests.support.logs import TIME, FakeClock, files_of
from tests.support.producers import in_txn
from tidelog.compaction.results import CompactResult
from tidelog.errors import DiskFullError, LogClosedError, NullKeysError, UnknownTopicError, UnsupportedError
from tidelog.log.log import Log
from tidelog.retention import FreeSpaceFloor
from tidelog.store import Store


def topic_with(store: Store, letters: str, name: str = "table", **settings: object) -> Log:
    log = store.create_topic(name, config=compacted(**settings)).log(0)
    put(log, *pairs(letters))
    return log


def only(result: CompactResult) -> str:
    [one] = result.partitions
    assert one.passes == ()
    assert one.why is not None
    return one.why


def test_the_last_of_each_key_stays(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = topic_with(store, "abcabcaab")
        result = store.compact("table")
        assert left_in(log) == [(4, b"b", b"v4"), (5, b"c", b"v5"), (7, b"a", b"v7"), (8, b"b", b"v8")], "8 is in the active segment"
        [one] = result.partitions
        assert (one.records_removed, one.tombstones_removed, one.markers_removed, one.why) == (5, 0, 0, None)
        assert result.compacted == (one,)
        assert result.bytes_removed == one.bytes_removed > 0
        assert checkpoint_of(store) == ["table 0 8"]
        assert str(result).startswith("table-0: 5 of 8 records went, ")
        assert names_in(log, ".deleted") == []


def test_a_second_time_there_is_nothing_to_do_and_it_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = topic_with(store, "aaaa")
        assert store.compact("table", roll=True).records_removed == 3
        before = files_of(log)
        assert only(store.compact("table")) == "everything up to offset 4 is clean"
        assert files_of(log) == before
        put(log, (b"a", b"v9"))
        assert only(store.compact("table")) == "the only record that is not clean yet is in the active segment; roll=True"
        assert store.compact("table", roll=True).records_removed == 1
        assert offsets_in(log) == [4]


def test_why_nothing_was_compacted(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        topic_with(store, "aaa", "active", internal_segment_bytes=1 << 20)
        topic_with(store, "", "empty")
        topic_with(store, "aaaa", "kept", cleanup_policy="delete")
        topic_with(store, "aaaa", "young", min_compaction_lag_ms=HOUR_MS)
        log = topic_with(store, "", "open")
        log.append(in_txn(7, 0))
        put(log, *pairs("aaaa"))
        result = store.compact()
        assert {one.partition.topic: one.why for one in result.partitions} == {
            "active": "all 3 records are in the active segment; roll=True",
            "empty": "it is empty",
            "kept": "cleanup.policy=delete does not have compact",
            "young": f"nothing is dirty below offset 0: what follows is younger than min.compaction.lag.ms={HOUR_MS}",
            "open": "nothing is dirty below offset 0: what follows is not decided yet, or not below the high watermark",
        }
        assert result.records_removed == 0
        assert "active-0: nothing to compact, all 3 records are in the active segment; roll=True" in str(result)
        clock.advance(HOUR_MS + 1)
        assert store.compact("young").records_removed == 1
        assert store.compact("open", roll=True).compacted == (), "not past an open transaction, whatever is asked for"
        with pytest.raises(UnknownTopicError):
            store.compact("tabel")
    with pytest.raises(LogClosedError):
        store.compact()


def test_a_dry_run_tells_what_would_go_and_writes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = topic_with(store, "abab", delete_retention_ms=1000)
        put(log, (b"a", None), (b"b", b"v9"), (b"c", b"v9"))
        clock.advance(1)
        before, root = files_of(log), sorted((tmp_path / "store").iterdir())
        dry = store.compact("table", dry_run=True)
        assert files_of(log) == before
        assert sorted((tmp_path / "store").iterdir()) == root
        assert dry.dry_run
        text = str(dry)
        assert text.startswith("table-0: 4 of 6 records would go, ")
        assert "clean offsets 0 to 6" in text
        done = store.compact("table")
        assert [dry.records_removed, dry.bytes_removed, dry.tombstones_removed] == [
            done.records_removed,
            done.bytes_removed,
            done.tombstones_removed,
        ]
        clock.advance(2000)
        put(log, (b"c", b"v0"), (b"c", b"v1"))
        assert store.compact(dry_run=True).tombstones_removed == 1
        assert offsets_in(log)[0] == 4
        assert store.compact().tombstones_removed == 1
        assert offsets_in(log)[0] == 5


def test_a_dry_run_does_not_roll(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        topic_with(store, "aaa", internal_segment_bytes=1 << 20)
        log = topic_with(store, "aaa", "half")
        assert (
            only(store.compact("table", roll=True, dry_run=True)) == "all 3 records are in the active segment; a dry run does not roll it"
        )
        [half] = store.compact("half", roll=True, dry_run=True).partitions
        assert half.note == "without the records of the active segment, from offset 2 on: a dry run does not roll"
        assert len(log.segments) == 2


def test_with_little_memory_it_takes_several_passes_and_says_so(tmp_path: Path) -> None:
    config = {"log.cleaner.dedupe.buffer.size": 3 * 24, "log.cleaner.io.buffer.load.factor": 1.0}
    with open_store(tmp_path / "store", FakeClock(), config=config) as store:
        log = topic_with(store, "abcdefgabcdefg")
        dry = store.compact("table", dry_run=True)
        [first] = dry.partitions[0].passes
        assert first.stats.passes_needed > 1
        assert "passes; one would do with" in str(dry)
        [one] = store.compact("table", roll=True).partitions
        assert len(one.passes) == 5
        assert "; 5 passes, " in str(one)
        assert [record.value for record in log.read()] == [b"v7", b"v8", b"v9", b"v0", b"v1", b"v2", b"v3"]


def test_records_without_key_are_reported_and_nothing_is_changed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("table", config=compacted(cleanup_policy="delete")).log(0)
        put(log, (b"a", b"v0"), (None, b"v1"), (b"a", b"v2"), (None, b"v3"), (b"a", b"v4"))
        topic_with(store, "aaaa", "well")
        store.topic("table").alter({"cleanup.policy": "compact"})
        before = files_of(log)
        result = store.compact()
        [failure] = result.failures
        assert isinstance(failure.error, NullKeysError)
        assert (failure.error.offsets, failure.error.count, str(failure.error.partition)) == ((1, 3), 2, "table-0")
        assert files_of(log) == before
        assert [one.records_removed for one in result.partitions] == [1], "the other topic has its turn"
        assert "table-0: failed, " in str(result)
        assert "drop_null_keys=True" in str(result)
        assert "could not be compacted, once since 2023-11-14T22:13:20Z, not tried again before something changes" in str(store.explain())
        assert [str(one.partition) for one in store.metrics().cleaner.uncleanable] == ["table-0"]
        [one] = store.compact("table", drop_null_keys=True).partitions
        assert one.passes[0].null_key_offsets == (1, 3)
        assert offsets_in(log) == [2, 4]
        assert store.metrics().cleaner.uncleanable == ()


def test_space_is_looked_for_before_anything_is_written(tmp_path: Path) -> None:
    disk = SpaceDisk()
    with open_store(tmp_path / "store", FakeClock(), disk=disk) as store:
        log = topic_with(store, "aaaaaaaa")
        before = files_of(log)
        disk.free[log.directory] = 10
        [failure] = store.compact("table").failures
        assert isinstance(failure.error, DiskFullError)
        assert str(failure.error).endswith("bytes are missing; nothing of these segments was changed)")
        assert files_of(log) == before
        disk.free.clear()
        assert store.compact("table").records_removed == 5
        assert offsets_in(log) == [5, 6, 7]


@pytest.mark.parametrize(("floor_bytes", "policy_bytes", "waiting"), [(0, 0, 6), (10**15, 0, 0), (0, 10**15, 0)])
def test_below_the_floor_of_free_space_nothing_waits_to_be_removed(
    tmp_path: Path, floor_bytes: int, policy_bytes: int, waiting: int
) -> None:
    config = {"tidelog.cleaner.free.space.floor.bytes": floor_bytes}
    with open_store(tmp_path / "store", FakeClock(), config=config, policies=[FreeSpaceFloor(policy_bytes)]) as store:
        log = topic_with(store, "aaaaaaa", file_delete_delay_ms=60_000)
        result = store.compact("table")
        assert (result.peak_extra_bytes > 0) == (waiting > 0)
        assert len(names_in(log, ".log.deleted")) * 2 == waiting
        assert (log.deleted_bytes > 0) == (waiting > 0)


def test_a_pass_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = topic_with(store, "aaaa")
        began, go_on = threading.Event(), threading.Event()

        def hold(_: Log) -> None:
            began.set()
            assert go_on.wait(10)

        before_each_pass(monkeypatch, hold)
        first = threading.Thread(target=store.clean_once)
        first.start()
        assert began.wait(10)
        assert store.explain().partitions[0].cleaner == "compaction is in progress"
        assert store.metrics().cleaner.in_progress == (log.partition,)
        results: list[CompactResult] = []
        second = threading.Thread(target=lambda: results.append(store.compact()))
        second.start()
        second.join(0.1)
        assert second.is_alive()
        go_on.set()
        first.join()
        second.join()
        [one] = results[0].partitions
        assert one.why == "the 2 records that are not clean yet are in the active segment; roll=True"


def test_who_appends_faster_than_passes_are_made_does_not_keep_it_going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = topic_with(store, "aaaa")
        appended = 0

        def append(_: Log) -> None:
            nonlocal appended
            appended += 1
            assert appended < 10, "for ever"
            put(log, *pairs("bb"))

        before_each_pass(monkeypatch, append)
        [one] = store.compact("table").compacted
        assert (len(one.passes), appended) == (1, 1)
        assert store.compact("table").records_removed == 2, "what came meanwhile is the next one's"


def test_no_more_passes_at_a_time_than_there_is_memory_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        topic_with(store, "aaaa", "one")
        topic_with(store, "aaaa", "two")
        began, go_on, running = threading.Event(), threading.Event(), []

        def hold(log: Log) -> None:
            running.append(log.partition.topic)
            began.set()
            assert go_on.wait(10)

        before_each_pass(monkeypatch, hold)
        threads = [threading.Thread(target=store.compact, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        assert began.wait(10)
        threads[0].join(0.1)
        assert len(running) == 1, "one thread, one share"
        assert len(store.metrics().cleaner.in_progress) == 2
        go_on.set()
        for thread in threads:
            thread.join()
        assert sorted(running) == ["one", "two"]
        assert store.metrics().cleaner.totals.records_removed == 2


def test_closing_ends_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store", FakeClock(), config={"log.cleaner.io.max.bytes.per.second": 1})
    log = topic_with(store, "aaaa")
    before = {name: content for name, content in files_of(log).items() if name.endswith(".log")}
    began, errors = threading.Event(), []
    before_each_pass(monkeypatch, lambda _: began.set())
    monkeypatch.setattr(store._passes.throttler, "_check_interval_s", 0)

    def compact() -> None:
        try:
            store.compact()
        except LogClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    assert began.wait(10)
    store.close()
    thread.join()
    assert len(errors) == 1
    after = {name: content for name, content in files_of(tmp_path / "store" / "table-0").items() if name.endswith(".log")}
    assert after == before
    assert list((tmp_path / "store" / "table-0").glob("*.cleaned")) == []


def test_adopted_topics_are_left_alone_until_they_are_set(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with open_store(home, FakeClock()) as store:
        topic_with(store, "aaaa")
    (home / "tidelog.json").unlink()
    with open_store(home, FakeClock(), adopt=True, config={"log.cleanup.policy": "compact"}) as store:
        before = files_of(home / "table-0")
        result = store.compact()
        assert (result.partitions, result.left_alone[0][0].topic) == ((), "table")
        store.clean_once()
        assert files_of(home / "table-0") == before
        store.topic("table").alter(compacted())
        assert store.compact().records_removed == 1


def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with await tidelog.aio.open(tmp_path / "store", clock=lambda: TIME) as store:
            topic = await store.create_topic("table", config=compacted())
            for value in (b"v1", b"v2", b"v3"):
                await topic.append(value, key=b"a")
            assert (await store.compact("table", dry_run=True)).records_removed == 1
            result = await store.compact("table", roll=True)
            assert result.records_removed == 2

    asyncio.run(main())


def test_a_store_that_is_only_read_can_be_asked(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with open_store(home, FakeClock()) as store:
        topic_with(store, "abababab")
        topic_with(store, "aaa", "kept", cleanup_policy="delete")
        with tidelog.open(home, "r") as reader:
            before = files_of(home / "table-0")
            result = reader.compact(dry_run=True)
            assert files_of(home / "table-0") == before
            kept, table = result.partitions
            assert (kept.why, table.records_removed, result.dry_run) == ("cleanup.policy=delete does not have compact", 4, True)
            assert table.records_removed == store.compact(dry_run=True).records_removed
            assert "settings from tidelog.json" in str(result)
            with pytest.raises(UnsupportedError, match="dry_run=True"):
                reader.compact("table")
            store.compact()
            [table] = reader.compact("table", dry_run=True).partitions
            assert table.passes == ()


@pytest.mark.leaves("snapshot-beyond-end")
def test_a_cut_into_what_was_emptied_holds_until_the_log_is_opened_again(tmp_path: Path) -> None:
    """As in Kafka: no batch reaches the end that the cut gives, so loading finds the last one that there is."""
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = topic_with(store, "aaaaaaaa")
        store.compact("table", roll=True)
        assert offsets_in(log) == [7]
        assert log.truncate_to(5)
        assert (log.log_end_offset, offsets_in(log)) == (5, [])
        put(log, (b"a", b"new"))
        assert offsets_in(log) == [5]
        log.truncate_to(5)
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.log("table", 0)
        assert (log.log_end_offset, offsets_in(log)) == (log.segments[-1].base_offset, [])
        assert log.log_end_offset < 5
