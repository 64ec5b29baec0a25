"""What happens to a log while it is being compacted: some wait for the pass, some abort it, the rest goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.compacted_stores import before_each_pass, checkpoint_of, compacted, names_in, offsets_in, pairs, put
from tests.support.kept_stores import HOUR_MS, advance, open_store
from tests.support.logs import FakeClock
from tidelog.errors import CleaningAbortedError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.store import Store

LETTERS = "ababababab"
DIFFERENT = "abcdefghij"
"""Of which something is left in every segment: an empty one is as old as its file, by a clock that is not the test's."""


class Held:
    """A pass that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None

    def hold(self, _: Log) -> None:
        self.began.set()
        assert self.go_on.wait(10)

    def finish(self) -> None:
        self.go_on.set()
        assert self.thread is not None
        self.thread.join(10)
        assert not self.thread.is_alive()


@contextmanager
def held_pass(store: Store, monkeypatch: pytest.MonkeyPatch, clean: Callable[[], object] | None = None) -> Iterator[Held]:
    held = Held()
    before_each_pass(monkeypatch, held.hold)
    held.thread = threading.Thread(target=clean or store.clean_once)
    held.thread.start()
    assert held.began.wait(10)
    try:
        yield held
    finally:
        held.finish()


def table(store: Store, letters: str = LETTERS, **settings: object) -> Log:
    log = store.create_topic("table", config=compacted(**settings)).log(0)
    put(log, *pairs(letters))
    return log


def waits(act: Callable[[], object], held: Held) -> None:
    """The call does not return before the pass has ended."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    held.finish()
    thread.join(10)
    assert not thread.is_alive()


def test_truncating_aborts_a_pass_and_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with held_pass(store, monkeypatch) as held:
            waits(lambda: log.truncate_to(5), held)
        assert offsets_in(log) == [0, 1, 2, 3, 4], "the pass has changed nothing"
        assert names_in(log, ".cleaned") == []
        metrics = store.metrics().cleaner
        assert (metrics.totals.aborted, metrics.totals.failures, metrics.uncleanable) == (1, 0, ())
        assert store.clean_once()
        assert offsets_in(log) == [2, 3, 4]


def test_compact_begins_again_after_a_truncation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with held_pass(store, monkeypatch, lambda: results.append(store.compact())) as held:
            waits(lambda: log.truncate_to(5), held)
        assert offsets_in(log) == [2, 3, 4]
        assert results[0].records_removed == 2
        assert results[0].failures == ()


def test_deleting_the_topic_aborts_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with held_pass(store, monkeypatch, lambda: results.append(store.compact())) as held:
            waits(lambda: store.delete_topic("table"), held)
        assert log.is_closed
        assert (results[0].partitions, results[0].failures) == ((), ())
        assert store.metrics().cleaner.uncleanable == ()
        with pytest.raises(UnknownTopicError):
            store.topic("table")
        assert not store.clean_once()
        again = table(store)
        assert store.compact().records_removed > 0
        assert offsets_in(again) == [6, 7, 8, 9]


def test_a_topic_that_is_not_compacted_any_more_aborts_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with held_pass(store, monkeypatch) as held:
            waits(lambda: store.topic("table").alter({"cleanup.policy": "delete"}), held)
        assert offsets_in(log) == list(range(10))
        assert store.metrics().cleaner.totals.aborted == 1
        store.topic("table").alter({"cleanup.policy": "compact"})
        with held_pass(store, monkeypatch):
            store.topic("table").alter({"delete.retention.ms": 5})  # any other change does not wait
        assert offsets_in(log) == [6, 7, 8, 9]


def test_retention_by_the_clock_leaves_a_log_that_is_being_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = table(store, DIFFERENT, cleanup_policy="compact,delete", retention_ms=HOUR_MS)
        other = store.create_topic("other", config=compacted(cleanup_policy="delete", retention_ms=HOUR_MS)).log(0)
        put(other, *pairs("aaaa"))
        clock.advance(2 * HOUR_MS)
        with held_pass(store, monkeypatch):
            assert "retention" in store.scheduler.run_due()
            assert (offsets_in(other), len(offsets_in(log))) == ([], 10)
            assert store.metrics().failing_tasks == ()
        assert offsets_in(log) == [], "the cleaner has let retention look after it when it was done"


def test_retention_by_hand_waits_for_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, results = FakeClock(), []
    with open_store(tmp_path / "store", clock) as store:
        log = table(store, DIFFERENT, cleanup_policy="compact,delete", retention_ms=HOUR_MS)
        clock.advance(2 * HOUR_MS)
        with held_pass(store, monkeypatch, store.compact) as held:
            waits(lambda: results.append(store.retain()), held)
        assert offsets_in(log) == []
        assert (results[0].left_alone, results[0].failures) == ((), ())


def test_retention_keeps_the_cleaner_off(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with store._state.cleanings.keeping_off([log.partition]):
            assert not store.clean_once()
            assert store.explain().partitions[0].cleaner == "compaction is paused (1)"
        assert store.clean_once()


def test_appends_reads_and_a_new_start_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store, cleanup_policy="compact,delete")
        with held_pass(store, monkeypatch):
            put(log, *pairs("cd"))
            assert log.delete_records_before(1) == 1
            assert offsets_in(log) == list(range(1, 12))
        assert offsets_in(log) == [6, 7, 8, 9, 10, 11]
        assert checkpoint_of(store) == ["table 0 8"]


def test_segments_that_go_during_a_pass_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who deletes segments of a log by hand does not ask the cleaner: the swap sees it."""
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        real = log.replace_segments

        def replace_segments(new: object, old: object) -> None:
            monkeypatch.undo()
            assert log.delete_segments(1, "by hand") == 1
            real(new, old)  # type: ignore[arg-type]

        monkeypatch.setattr(log, "replace_segments", replace_segments)
        assert not store.clean_once()
        assert store.metrics().cleaner.totals.aborted == 1
        assert names_in(log, ".cleaned") == []
        assert offsets_in(log) == list(range(2, 10))
        assert store.clean_once()
        assert offsets_in(log) == [6, 7, 8, 9]


def test_a_segment_that_takes_appends_is_never_replaced(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = table(store)
        with pytest.raises(CleaningAbortedError, match="are gone, or take appends"):
            log.replace_segments([], [log.segments[-1]])
        assert log.failure is None


def test_a_throttled_pass_stops_at_once(tmp_path: Path) -> None:
    config = {"log.cleaner.io.max.bytes.per.second": 0.001}
    with open_store(tmp_path / "store", FakeClock(), config=config) as store:
        log = table(store)
        store._passes.throttler._check_interval_s = 0.0
        thread = threading.Thread(target=store.clean_once)
        thread.start()
        while log.partition not in store.metrics().cleaner.in_progress:
            time.sleep(0.001)
        time.sleep(0.02)
        assert thread.is_alive()
        began_s = time.monotonic()
        log.truncate_to(9)
        assert time.monotonic() - began_s < 5
        thread.join()
        assert store.metrics().cleaner.throttled_s > 0
        store._passes.throttler.bytes_per_s = 1e12
        store._passes.throttler._resume_s = 0.0
        assert store.compact().records_removed > 0


def test_closing_the_store_aborts_a_pass_and_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store", FakeClock())
    log = table(store)
    with held_pass(store, monkeypatch) as held:
        waits(store.close, held)
    assert list(Path(log.directory).glob("*.cleaned")) == []
    assert not (tmp_path / "store" / "cleaner-offset-checkpoint").exists()


def test_a_log_that_is_closed_by_hand_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = table(store)
        with held_pass(store, monkeypatch):
            log.close()
        assert store.metrics().cleaner.uncleanable == ()
        advance(store, clock, HOUR_MS, HOUR_MS)
        again = store.log("table", 0)
        assert names_in(again, ".cleaned") == []
        assert offsets_in(again) == [6, 7, 8, 9], "retention has opened it again, and then the cleaner has had it"
