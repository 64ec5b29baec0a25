"""The scheduler: when tasks run, what happens to one that fails, and how it ends. And what a store does by it, on a simulated clock."""

import gc
import logging
import os
import threading
import time
import warnings
from pathlib import Path

import pytest

import tidelog
from tests.support.faulty_disk import FaultyDisk
from tests.support.kept_stores import DAY_MS, HOUR_MS, advance, fill, open_store, small_segments
from tests.support.logs import TIME, FakeClock, numbered, state_of
from tidelog.config import LONG_MAX
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.store.scheduler import Scheduler, Task, backoff_ms


class Counting:
    """A task that notes when it was run, and fails while it is told to."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.at: list[int] = []
        self.fails = False

    def __call__(self) -> None:
        self.at.append(self.clock.now_ms - TIME)
        if self.fails:
            raise OSError("no")


def run_through(scheduler: Scheduler, clock: FakeClock, ms: int, step_ms: int = 500) -> None:
    for _ in range(ms // step_ms):
        clock.advance(step_ms)
        scheduler.run_due()


def test_tasks_run_by_their_periods() -> None:
    clock = FakeClock()
    often, seldom, never = Counting(clock), Counting(clock), Counting(clock)
    scheduler = Scheduler([Task("often", 1000, often, 1000), Task("seldom", 3000, seldom, 2000), Task("never", LONG_MAX, never, 0)], clock)
    assert scheduler.run_due() == []
    assert scheduler.next_ms == TIME + 1000
    run_through(scheduler, clock, 8000)
    assert (often.at, seldom.at, never.at) == ([*range(1000, 9000, 1000)], [2000, 5000, 8000], [])
    reports = {report.name: report for report in scheduler.reports()}
    assert (reports["often"].runs, reports["often"].next_ms, reports["never"].next_ms) == (8, TIME + 9000, None)


def test_what_was_missed_is_done_once() -> None:
    clock = FakeClock()
    task = Counting(clock)
    scheduler = Scheduler([Task("task", 1000, task)], clock)
    clock.advance(DAY_MS)
    assert scheduler.run_due() == ["task"]
    assert scheduler.run_due() == []
    assert scheduler.run_due(clock.now_ms + 1000) == ["task"]


def test_a_clock_that_is_put_back_stops_nothing() -> None:
    clock = FakeClock()
    task = Counting(clock)
    scheduler = Scheduler([Task("task", 1000, task, 1000)], clock)
    clock.advance(1000)
    assert scheduler.run_due() == ["task"]
    clock.advance(-DAY_MS)
    assert scheduler.run_due() == []
    clock.advance(1000)
    assert scheduler.run_due() == ["task"]


def test_a_task_that_fails_is_logged_counted_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    bad, good = Counting(clock), Counting(clock)
    bad.fails = True
    scheduler = Scheduler([Task("bad", 600_000, bad), Task("good", 1000, good)], clock)
    with caplog.at_level(logging.ERROR, "tidelog"):
        run_through(scheduler, clock, 32_000)
    assert bad.at == [500, 1500, 3500, 7500, 15500, 31500]
    assert len(good.at) == 32
    report = scheduler.reports()[0]
    assert (report.runs, report.failures, report.failures_in_a_row, report.last_error) == (6, 6, 6, "OSError: no")
    assert [record.message for record in caplog.records][:2] == [
        "bad failed, 1 times in a row; again in 1000 ms",
        "bad failed, 2 times in a row; again in 2000 ms",
    ]
    bad.fails = False
    run_through(scheduler, clock, 32_000)
    report = scheduler.reports()[0]
    assert (report.failures, report.failures_in_a_row, report.last_error) == (6, 0, "OSError: no")
    assert report.next_ms == TIME + bad.at[-1] + 600_000


@pytest.mark.parametrize(("failures", "period_ms", "wait_ms"), [(1, 5, 1000), (9, 5, 256_000), (10, 5, 300_000), (99, HOUR_MS, HOUR_MS)])
def test_backoff(failures: int, period_ms: int, wait_ms: int) -> None:
    assert backoff_ms(failures, period_ms) == wait_ms


def test_the_thread_runs_what_is_due_and_waits_as_it_is_told() -> None:
    """The waiting is ours: it moves the clock, and a whole day takes no time."""
    clock = FakeClock()
    task = Counting(clock)
    done = threading.Event()

    def wait(wake: threading.Event, seconds: float) -> None:
        clock.advance(int(seconds * 1000))
        if clock.now_ms >= TIME + 600_000:
            done.set()
            wake.wait()

    scheduler = Scheduler([Task("task", 60_000, task, 60_000)], clock, wait=wait)
    scheduler.start()
    assert done.wait(20)
    assert not scheduler.is_dead
    scheduler.stop()
    assert task.at == [*range(60_000, 600_000, 60_000)]


def test_stopping_waits_for_the_task_that_runs() -> None:
    clock = FakeClock()
    begun, go_on, finished = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait()
        finished.set()

    scheduler = Scheduler([Task("slow", 1000, slow), Task("after", 1000, lambda: pytest.fail("it was stopped"))], clock)
    scheduler.start()
    assert begun.wait(20)
    threading.Timer(0.05, go_on.set).start()
    scheduler.stop()
    assert finished.is_set()
    assert not scheduler.is_dead
    assert scheduler.run_due(TIME + DAY_MS) == []


def test_a_task_may_stop_the_scheduler_or_ask_it_to_run() -> None:
    clock = FakeClock()
    ran: list[list[str]] = []

    def both() -> None:
        ran.append(scheduler.run_due())
        scheduler.stop()

    scheduler = Scheduler([Task("both", 1000, both)], clock)
    assert scheduler.run_due() == ["both"]
    assert ran == [[]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_seen() -> None:
    def wait(wake: threading.Event, seconds: float) -> None:
        raise SystemExit

    scheduler = Scheduler([], FakeClock(), wait=wait)
    scheduler.start()
    deadline = time.monotonic() + 20
    while not scheduler.is_dead and time.monotonic() < deadline:
        time.sleep(0.001)
    assert scheduler.is_dead
    scheduler.stop()
    assert not scheduler.is_dead


def test_periods_are_kafkas_settings(tmp_path: Path) -> None:
    config = {
        "log.retention.check.interval.ms": 11,
        "log.flush.scheduler.interval.ms": 12,
        "log.flush.offset.checkpoint.interval.ms": 13,
        "log.flush.start.offset.checkpoint.interval.ms": 14,
        "replica.high.watermark.checkpoint.interval.ms": 15,
        "producer.id.expiration.check.interval.ms": 16,
        "log.initial.task.delay.ms": 17,
    }
    with open_store(tmp_path / "store", FakeClock(), config=config) as store:
        tasks = [(report.period_ms, (report.next_ms or 0) - TIME) for report in store.scheduler.reports()]
    assert tasks[:6] == [(11, 17), (12, 17), (13, 17), (14, 17), (15, 15), (16, 16)]
    with open_store(tmp_path / "store", FakeClock()) as store:
        tasks = [(report.period_ms, (report.next_ms or TIME) - TIME) for report in store.scheduler.reports()]
    assert tasks[:6] == [(300_000, 30_000), (LONG_MAX, 0), (60_000, 30_000), (60_000, 30_000), (5000, 5000), (600_000, 600_000)]


def test_high_watermarks_are_written_down_in_one_file(tmp_path: Path) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    path = tmp_path / "store" / "replication-offset-checkpoint"
    with open_store(tmp_path / "store", clock, disk=disk) as store:
        topic = store.create_topic("emails", 3)
        for partition in range(3):
            topic.log(partition).append(numbered(0, partition + 1))
        clock.advance(5000)
        before = sum("replication" in call.path for call in disk.calls if call.kind == "rename")
        store.scheduler.run_due()
        assert read_offsets(OS, str(path)) == {TopicPartition("emails", number): number + 1 for number in range(3)}
        clock.advance(5000)
        store.scheduler.run_due()
        assert sum("replication" in call.path for call in disk.calls if call.kind == "rename") == before + 1


def test_files_of_deleted_segments_and_topics_go_when_their_time_has_come(tmp_path: Path) -> None:
    clock = FakeClock()
    home = tmp_path / "store"
    with open_store(home, clock) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0)
        fill(log, [TIME, TIME, TIME + HOUR_MS])
        store.create_topic("gone", 2)
        clock.advance(2000)
        store.delete_topic("gone")
        assert store.retain().segments == 1
        metrics = store.metrics()
        assert (metrics.deleted_topics, metrics.partitions[0].deleted_bytes) == (1, 2 * len(numbered(0)))

        def left() -> tuple[int, int]:
            return len([*home.glob("emails-0/*.deleted")]), len([*home.glob("gone-*-delete")])

        assert left() == (3, 2)
        advance(store, clock, 59_000, 1000)
        assert left() == (3, 2)
        advance(store, clock, 1000, 1000)
        assert left() == (0, 0)
        assert (store.metrics().deleted_topics, store.metrics().partitions[0].deleted_bytes) == (0, 0)


def test_a_file_that_could_not_be_removed_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    with open_store(tmp_path / "store", clock, disk=disk) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0)
        fill(log, [TIME, TIME, TIME + HOUR_MS])
        clock.advance(2000)
        store.retain()
        disk.fail(1, kind="remove", on=".deleted")
        with caplog.at_level(logging.ERROR, "tidelog"):
            advance(store, clock, 60_000, 1000)
        assert [report.failures for report in store.scheduler.reports() if report.name == "deleted files"] == [1]
        advance(store, clock, 2000, 1000)
        assert [*(tmp_path / "store").glob("emails-0/*.deleted")] == []


def test_a_topic_that_cannot_be_removed_does_not_keep_the_files_of_segments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    home = tmp_path / "store"
    with open_store(home, clock, disk=disk) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0)
        fill(log, [TIME, TIME, TIME + HOUR_MS])
        fill(store.create_topic("gone").log(0), [TIME])
        clock.advance(2000)
        store.delete_topic("gone")
        store.retain()
        disk.fail(1, kind="remove", on=f"{0:020d}.log", until_healed=True)
        with caplog.at_level(logging.ERROR, "tidelog"):
            advance(store, clock, 70_000, 1000)
        assert store.metrics().failing_tasks == ("deleted files",)
        assert ([*home.glob("emails-0/*.deleted")], len([*home.glob("gone-*-delete")])) == ([], 1)
        disk.heal()
        advance(store, clock, 70_000, 1000)
        assert (store.metrics().failing_tasks, [*home.glob("gone-*-delete")]) == ((), [])


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("emails").log(0)
        log.append(numbered(0, producer_id=7, producer_epoch=0, base_sequence=0))
        advance(store, clock, DAY_MS - 600_000, 600_000)
        assert 7 in state_of(log).producers.entries
        assert store.metrics().partitions[0].producers == 1
        advance(store, clock, 600_000, 600_000)
        assert state_of(log).producers.entries == {}


def test_what_is_due_is_flushed(tmp_path: Path) -> None:
    clock = FakeClock()
    config = {"log.flush.scheduler.interval.ms": 1000, "log.flush.interval.messages": 100, "log.flush.interval.ms": 2**62}
    with open_store(tmp_path / "store", clock, config=config) as store:
        log = store.create_topic("emails").log(0)
        log.append(numbered(0))
        store.topic("emails").alter({"flush.ms": 40_000})
        advance(store, clock, 39_000, 1000)
        assert log.flushed_end == 0
        advance(store, clock, 1000, 1000)
        assert log.flushed_end == 1


def test_a_checkpoint_that_could_not_be_written_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    path = tmp_path / "store" / "log-start-offset-checkpoint"
    with open_store(tmp_path / "store", clock, disk=disk) as store:
        log = store.create_topic("emails").log(0)
        fill(log, [TIME] * 3)
        disk.fail(1, kind="create", on="log-start-offset-checkpoint.tmp", until_healed=True)
        with pytest.raises(tidelog.TidelogError):
            log.delete_records_before(2)
        with caplog.at_level(logging.ERROR, "tidelog"):
            advance(store, clock, 30_000, 1000)
        assert set(store.metrics().failing_tasks) == {"recovery points", "log start offsets"}
        assert TopicPartition("emails", 0) not in read_offsets(OS, str(path))
        disk.heal()
        advance(store, clock, 60_000, 1000)
        assert store.metrics().failing_tasks == ()
        assert read_offsets(OS, str(path)) == {TopicPartition("emails", 0): 2}


@pytest.mark.leaves
def test_a_log_that_has_failed_does_not_keep_the_others_from_their_turn(tmp_path: Path) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    store = open_store(tmp_path / "store", clock, disk=disk)
    topic = store.create_topic("emails", 2, config=small_segments(retention_ms=1000))
    for partition in range(2):
        fill(topic.log(partition), [TIME, TIME, TIME + HOUR_MS])
    disk.fail(1, kind="sync", on="emails-0/00000000000000000002.log")
    with pytest.raises(tidelog.TidelogError):
        topic.log(0).append(numbered(9))
    clock.advance(30_000)
    assert "retention" in store.scheduler.run_due()
    metrics = store.metrics()
    assert metrics.failing_tasks == ()
    assert [(partition.segments, partition.is_failed) for partition in metrics.partitions] == [(2, True), (1, False)]
    assert metrics.offline_log_directories == 1
    [(left_alone, why)] = store.retain().left_alone
    assert str(left_alone) == "emails-0"
    assert why.startswith("it takes no more writes: ")
    store.close()


def test_a_store_looks_after_itself(tmp_path: Path) -> None:
    """The one test with a real clock and a real thread."""
    config = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 20, "log.segment.delete.delay.ms": 0}
    now_ms = time.time_ns() // 1_000_000
    with tidelog.open(tmp_path / "store", config=config) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=HOUR_MS)).log(0)
        fill(log, [now_ms - 2 * HOUR_MS] * 4 + [now_ms])
        deadline = time.monotonic() + 20
        while len(log.segments) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (len(log.segments), log.log_start_offset) == (1, 4)
        assert "tidelog-scheduler" in {thread.name for thread in threading.enumerate()}
    assert "tidelog-scheduler" not in {thread.name for thread in threading.enumerate()}


def test_a_store_that_is_dropped_ends_its_thread(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path / "store")
    thread, directories = store.scheduler._thread, store._state.directories
    assert thread is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del store
        gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    for directory in directories:
        directory.let_go()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_is_done_in_a_forked_child(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0)
        fill(log, [TIME, TIME, TIME + HOUR_MS])
        clock.advance(DAY_MS)
        child = os.fork()
        if child == 0:
            answer = 1
            try:
                assert store.scheduler.run_due() == []
                for call in (store.retain, store.metrics, store.explain):
                    with pytest.raises(tidelog.TidelogError, match="forked"):
                        call()
                store.scheduler.stop()
                answer = 0
            finally:
                os._exit(answer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(log.segments) == 2
        assert store.scheduler.run_due() != []
        assert len(log.segments) == 1
