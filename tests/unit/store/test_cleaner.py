"""The cleaner of a store: which log has its turn, by whom and when, and what becomes of those that cannot be cleaned."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.compacted_stores import before_each_pass, checkpoint_of, compacted, offsets_in, pairs, put
from tests.support.faulty_disk import FaultyDisk
from tests.support.kept_stores import DAY_MS, HOUR_MS, advance, open_store
from tests.support.logs import TIME, FakeClock, files_of
from tidelog.errors import CorruptBatchError
from tidelog.log.log import Log
from tidelog.store import Store
from tidelog.store.cleaner import Cleaner
from tidelog.store.uncleanable import backoff_ms

BACKOFF_MS = 15_000


def table(store: Store, letters: str, name: str = "table", **settings: object) -> Log:
    log = store.create_topic(name, config=compacted(**settings)).log(0)
    put(log, *pairs(letters))
    return log


def damage(log: Log) -> bytes:
    """Break a batch of the first segment: what was there."""
    path = Path(log.segments[0].path_of(".log"))
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    return before


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Choice


def test_the_filthiest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    with open_store(tmp_path / "store", FakeClock()) as store:
        half = table(store, "abababab", "half")
        store.compact()
        put(half, *pairs("abababababababab"))
        table(store, "ababab", "new")
        table(store, "ab", "clean", cleanup_policy="delete")
        before_each_pass(monkeypatch, lambda log: order.append(log.partition.topic))
        assert store.clean_once()
        assert store.metrics().cleaner.max_dirty_percent == 100
        assert store.clean_once()
        assert store.metrics().cleaner.max_dirty_percent < 100
        assert not store.clean_once()
        assert order == ["new", "half"]


def test_not_below_the_dirty_ratio_which_can_be_changed_live(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store, "abcdefgh")
        assert store.clean_once()
        put(log, *pairs("abcd"))
        assert not store.clean_once()
        store.topic("table").alter({"min.cleanable.dirty.ratio": 0.1})
        assert store.clean_once()
        assert offsets_in(log) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_what_is_too_old_must_be_compacted_whatever_the_ratio(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = table(store, "abcd", max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1)
        assert not store.clean_once()
        assert store.metrics().cleaner.max_compaction_delay_s == 0
        clock.advance(HOUR_MS + 5000)
        assert store.clean_once()
        assert store.metrics().cleaner.max_compaction_delay_s == 5
        assert checkpoint_of(store) == [f"table 0 {log.segments[-1].base_offset}"]


def test_policy_changed_on_a_live_topic(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store, "aaaaa", cleanup_policy="delete")
        assert not store.clean_once()
        store.topic("table").alter({"cleanup.policy": "compact,delete"})
        assert store.clean_once()
        assert offsets_in(log) == [3, 4]
        store.topic("table").alter({"cleanup.policy": "delete"})
        put(log, *pairs("aaaa"))
        assert not store.clean_once()


def between_choice_and_pass(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, when a log was chosen and nobody has begun to clean it yet."""
    real = Cleaner._clean

    def clean(self: Cleaner, log: Log) -> bool:
        monkeypatch.undo()
        act()
        return real(self, log)

    monkeypatch.setattr(Cleaner, "_clean", clean)


def test_a_log_that_is_set_otherwise_when_it_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store, "aaaa")
        between_choice_and_pass(monkeypatch, lambda: store.topic("table").alter({"cleanup.policy": "delete"}))
        assert not store.clean_once()
        assert offsets_in(log) == [0, 1, 2, 3]
        assert not (tmp_path / "store" / "cleaner-offset-checkpoint").exists()
        assert store.metrics().cleaner.totals == (0, 0, 0, 0, 0, 0)


def test_a_topic_that_became_another_of_the_same_name_when_its_log_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the new one have the paths of the old one's: a pass over the old log would read and replace them."""
    with open_store(tmp_path / "store", FakeClock()) as store:
        table(store, "aaaa")
        new: list[Log] = []

        def recreate() -> None:
            store.delete_topic("table")
            new.append(table(store, "bcde"))

        between_choice_and_pass(monkeypatch, recreate)
        assert not store.clean_once()
        assert store.metrics().cleaner.totals == (0, 0, 0, 0, 0, 0)
        assert offsets_in(new[0]) == [0, 1, 2, 3]
        assert store.clean_once()


# The checkpoint


def test_the_checkpoint_is_kept_and_partitions_that_are_gone_are_dropped(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with open_store(home, FakeClock()) as store:
        table(store, "aaaa", "one")
        table(store, "aaaa", "two")
        store.compact()
        assert checkpoint_of(store) == ["one 0 2", "two 0 2"]
        store.delete_topic("one")
        assert checkpoint_of(store) == ["two 0 2"]
    with (home / "cleaner-offset-checkpoint").open("w") as file:
        file.write("0\n3\ntwo 0 2\ngone 0 77\ntwo 5 1\n")
    with open_store(home, FakeClock()) as store:
        log = store.log("two", 0)
        assert store.compact("two").compacted == ()
        put(log, *pairs("aa"))
        store.compact("two")
        assert checkpoint_of(store) == ["two 0 4"]


@pytest.mark.parametrize("offset", [1, 99])
def test_a_checkpoint_outside_of_the_log_is_put_right(tmp_path: Path, offset: int) -> None:
    home = tmp_path / "store"
    with open_store(home, FakeClock()) as store:
        log = table(store, "abcdef", cleanup_policy="compact,delete")
        log.delete_records_before(3)
    (home / "cleaner-offset-checkpoint").write_text(f"0\n1\ntable 0 {offset}\n")
    with open_store(home, FakeClock()) as store:
        store.topic("table").alter({"min.cleanable.dirty.ratio": 1})
        if offset == 99:
            assert checkpoint_of(store) == ["table 0 3"], "at once: records that are appended there must not be taken for clean"
        assert not store.clean_once()
        assert checkpoint_of(store) == ["table 0 3"]


def test_a_checkpoint_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with open_store(home, FakeClock()) as store:
        table(store, "aaaa")
    (home / "cleaner-offset-checkpoint").write_text("nonsense")
    with open_store(home, FakeClock()) as store:
        assert store.clean_once()
        assert checkpoint_of(store) == ["table 0 2"]


def test_what_is_appended_behind_a_cut_is_not_clean(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store, "abcdabcd")
        store.compact(roll=True)
        assert checkpoint_of(store) == ["table 0 8"]
        log.truncate_to(4)
        assert checkpoint_of(store) == ["table 0 4"]
        put(log, *pairs("xxxxxxxx"))
        store.compact(roll=True)
        assert offsets_in(log) == [11]
        log.truncate_fully_and_start_at(3)
        assert checkpoint_of(store) == ["table 0 3"]


# By the clock


def test_the_scheduler_takes_the_turns_where_there_are_no_threads(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        logs = [table(store, "aaaaa", name) for name in ("one", "two", "three")]
        clock.advance(BACKOFF_MS - 1)
        assert "cleaner" not in store.scheduler.run_due()
        clock.advance(1)
        assert "cleaner" in store.scheduler.run_due()
        assert [offsets_in(log) for log in logs] == [[3, 4]] * 3
        assert store.metrics().cleaner.time_since_last_run_ms == 0


def test_a_year_of_a_compacted_topic(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = table(store, "", delete_retention_ms=DAY_MS, segment_ms=DAY_MS)
        for day in range(60):
            put(log, (b"a", b"v0"), (b"b", None if day % 7 == 2 else b"v1"), (b"c", b"v2"), timestamp_ms=clock.now_ms)
            advance(store, clock, 6 * DAY_MS, DAY_MS)
        assert log.log_end_offset == 180
        assert log.size_bytes < 12 * 80
        assert dict(store.topic("table").table()) == {b"a": b"v0", b"b": b"v1", b"c": b"v2"}
        metrics = store.metrics()
        assert metrics.failing_tasks == ()
        assert metrics.cleaner.totals.passes > 10
        assert metrics.cleaner.totals.records_removed > 150


def test_after_each_turn_compacted_logs_get_their_retention(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        both = table(store, "abcdef", "both", cleanup_policy="compact,delete", retention_ms=HOUR_MS, min_cleanable_dirty_ratio=1)
        only = table(store, "abcdef", "only", min_cleanable_dirty_ratio=1)
        clock.advance(2 * HOUR_MS)
        assert not store.clean_once()
        assert (offsets_in(both), offsets_in(only)) == ([], [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(("name", "value"), [("log.cleaner.enable", "false"), ("log.cleaner.threads", "0")])
def test_switched_off(tmp_path: Path, name: str, value: str) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock, config={name: value}) as store:
        log = table(store, "aaaa")
        advance(store, clock, DAY_MS, HOUR_MS)
        assert offsets_in(log) == [0, 1, 2, 3]
        assert f"compacted only by store.compact: {name}={value}" in str(store.explain())
        assert store.compact().records_removed == 1
    with tidelog.open(tmp_path / "store", config={name: value}) as store:
        assert store.metrics().cleaner.threads == 0


# Threads


def test_threads_clean_in_the_background(tmp_path: Path) -> None:
    config = {"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1}
    with tidelog.open(tmp_path / "store", config=config) as store:
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("tidelog-cleaner-")]
        assert sorted(names) == ["tidelog-cleaner-0", "tidelog-cleaner-1"]
        logs = [table(store, "aaaaa", f"table{number}", min_cleanable_dirty_ratio=0) for number in range(4)]
        until(lambda: all(offsets_in(log) == [3, 4] for log in logs))
        for log in logs:
            put(log, *pairs("aaaa"))
        until(lambda: all(offsets_in(log) == [7, 8] for log in logs))
        cleaner = store.metrics().cleaner
        assert (cleaner.threads, cleaner.dead_threads, cleaner.uncleanable) == (2, 0, ())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidelog-cleaner-")]


def test_two_threads_never_have_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[str] = []
    seen: set[int] = set()

    def watch(log: Log) -> None:
        name = log.partition.topic
        assert name not in running
        running.append(name)
        time.sleep(0.002)
        seen.add(len(running))
        running.remove(name)

    before_each_pass(monkeypatch, watch)
    with tidelog.open(tmp_path / "store", config={"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 0}) as store:
        logs = [table(store, "aaaaa", f"table{number}", min_cleanable_dirty_ratio=0) for number in range(2)]
        for _ in range(10):
            for log in logs:
                put(log, *pairs("aaaa"))
            time.sleep(0.01)
        until(lambda: all(len(offsets_in(log)) == 2 for log in logs))
        assert store.metrics().cleaner.totals.failures == 0
    assert 2 in seen, "and both work at the same time"


def test_not_even_what_no_pass_should_raise_ends_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raised: list[str] = []

    def clean(self: Any) -> bool:
        raised.append("")
        raise SystemExit

    monkeypatch.setattr("tidelog.store.cleaner.Cleaner._clean_filthiest", clean)
    with caplog.at_level(logging.CRITICAL, "tidelog"), tidelog.open(tmp_path / "store", config={"log.cleaner.backoff.ms": 1}) as store:
        until(lambda: len(raised) > 3)
        assert store.metrics().cleaner.dead_threads == 0
        assert store.metrics().dead_threads == 0


def test_a_thread_that_has_ended_is_counted(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store", config={"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1}) as store:
        ended = threading.Thread(target=lambda: None)
        ended.start()
        ended.join()
        store._cleaner._threads.append(ended)
        assert (store.metrics().cleaner.dead_threads, store.metrics().dead_threads) == (1, 1)
        assert "kafka_log_logcleaner_deadthreadcount 1" in store.metrics().to_prometheus()


def test_a_store_that_is_dropped_lets_its_threads_go(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path / "store", config={"log.cleaner.backoff.ms": 1})
    table(store, "aaaa")
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("tidelog-cleaner-")]
    logs = list(store._state.logs.values())
    dropped = [store]
    del store
    with pytest.warns(ResourceWarning, match="dropped without being closed"):
        dropped.clear()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    for log in logs:
        log.close()


# Failures


def test_a_log_that_cannot_be_cleaned_is_marked_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        bad, good = table(store, "aaaa", "bad"), table(store, "aaaa", "good")
        whole = damage(bad)
        before = files_of(bad)
        with caplog.at_level(logging.CRITICAL, "tidelog"):
            assert store.clean_once(), "the other has its turn"
            assert not store.clean_once()
        assert offsets_in(good) == [1, 2, 3]
        assert files_of(bad) == before
        cleaner = store.metrics().cleaner
        [mark] = cleaner.uncleanable
        assert (str(mark.partition), mark.failures, mark.since_ms, mark.retry_ms) == ("bad-0", 1, TIME, TIME + BACKOFF_MS)
        assert isinstance(mark.error, CorruptBatchError)
        assert cleaner.totals.failures == 1
        assert cleaner.directories[0][1:] == (1, bad.segments[0].size_bytes)
        explained = str(store.explain("bad"))
        assert f"could not be compacted, once since 2023-11-14T22:13:20Z, again 2023-11-14T22:13:35Z: {mark.cause}" in explained
        text = store.metrics().to_prometheus()
        assert f'kafka_log_logcleanermanager_uncleanable_partitions_count{{logDirectory="{tmp_path}/store"}} 1' in text
        assert 'tidelog_cleaner_uncleanable{topic="bad",partition="0"} 1' in text
        with caplog.at_level(logging.CRITICAL, "tidelog"):
            clock.advance(BACKOFF_MS - 1)
            store.clean_once()
            assert store.metrics().cleaner.totals.failures == 1
            clock.advance(1)
            store.clean_once()
        [mark] = store.metrics().cleaner.uncleanable
        assert (mark.failures, mark.since_ms, mark.retry_ms) == (2, TIME, clock.now_ms + 2 * BACKOFF_MS)
        Path(bad.segments[0].path_of(".log")).write_bytes(whole)
        clock.advance(2 * BACKOFF_MS)
        assert store.clean_once()
        assert store.metrics().cleaner.uncleanable == ()
        assert offsets_in(bad) == [1, 2, 3]


def test_an_error_that_is_kept_keeps_nothing_of_the_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Log) -> None:
        try:
            raise LookupError("inside")
        except LookupError as error:
            raise ZeroDivisionError("what nobody expects") from error

    before_each_pass(monkeypatch, fail)
    with open_store(tmp_path / "store", FakeClock()) as store:
        table(store, "aaaa")
        assert not store.clean_once()
        [mark] = store.metrics().cleaner.uncleanable
        assert mark.cause == "ZeroDivisionError: what nobody expects"
        assert mark.error.__cause__ is not None
        assert mark.error.__traceback__ is mark.error.__cause__.__traceback__ is None, "its frames would keep the offset map"
    assert "raise ZeroDivisionError" in caplog.text, "but where it came from is in the log"


def test_how_long_until_it_is_tried_again() -> None:
    assert [backoff_ms(failures, BACKOFF_MS) for failures in (1, 2, 3, 9, 99)] == [15_000, 30_000, 60_000, HOUR_MS, HOUR_MS]
    assert [backoff_ms(failures, 0) for failures in (1, 2)] == [1000, 2000]
    assert backoff_ms(1, DAY_MS) == backoff_ms(5, DAY_MS) == DAY_MS


def test_records_without_key_wait_for_something_to_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store, caplog.at_level(logging.CRITICAL, "tidelog"):
        log = store.create_topic("table", config=compacted(cleanup_policy="delete")).log(0)
        put(log, (b"a", b"v0"), (None, b"v1"), (b"a", b"v2"), (b"a", b"v3"), (b"a", b"v4"))
        store.topic("table").alter({"cleanup.policy": "compact,delete"})
        advance(store, clock, 10 * DAY_MS, HOUR_MS)
        assert store.metrics().cleaner.totals.failures == 1, "the log is not read again and again"
        assert offsets_in(log) == [0, 1, 2, 3, 4]
        log.delete_records_before(2)
        advance(store, clock, HOUR_MS, HOUR_MS)
        assert store.metrics().cleaner.uncleanable == ()
        assert offsets_in(log) == [3, 4]


@pytest.mark.leaves("batch-crc")
def test_a_mark_goes_with_its_topic_and_with_new_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store, caplog.at_level(logging.CRITICAL, "tidelog"):
        for name in ("one", "two"):
            damage(table(store, "aaaa", name))
        store.clean_once()
        assert len(store.metrics().cleaner.uncleanable) == 2
        store.delete_topic("one")
        store.topic("two").alter({"delete.retention.ms": 5})
        assert store.metrics().cleaner.uncleanable == ()


def test_a_disk_that_fails_leaves_the_log_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = FaultyDisk(), FakeClock()
    with open_store(tmp_path / "store", clock, disk=disk) as store, caplog.at_level(logging.CRITICAL, "tidelog"):
        log = table(store, "aaaaa")
        before = files_of(log)
        disk.fail(1, kind="write", on=".cleaned")
        assert not store.clean_once()
        assert files_of(log) == before
        assert log.failure is None
        clock.advance(HOUR_MS)
        assert store.clean_once()
        assert offsets_in(log) == [3, 4]


def test_a_checkpoint_that_cannot_be_written_is_written_next_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = FaultyDisk(), FakeClock()
    with open_store(tmp_path / "store", clock, disk=disk) as store, caplog.at_level(logging.CRITICAL, "tidelog"):
        log = table(store, "aaaaa")
        disk.fail(1, kind="rename", on="cleaner-offset-checkpoint")
        assert not store.clean_once()
        [mark] = store.metrics().cleaner.uncleanable
        assert "writing the cleaner's checkpoint failed: Input/output error" in mark.cause
        clock.advance(HOUR_MS)
        assert store.clean_once()
        assert checkpoint_of(store) == ["table 0 4"]
        assert offsets_in(log) == [3, 4]
