"""When a record is on disk: before its append returns, or later where that was asked for by name; and one sync for many."""

import contextlib
import errno
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import FakeClock, a_batch, check_log, follower_batches, number_of, numbered, open_log, pool_of, state_of
from tidelog.disk.disk import Disk
from tidelog.errors import LogFailedError, StorageError
from tidelog.log.flushing import _background

LONG_MAX = 2**63 - 1


def syncs(disk: FaultyDisk) -> int:
    return disk.count("sync", ".log")


class SyncedDisk(Disk):
    """Knows how many bytes of each file a power cut would leave."""

    def __init__(self) -> None:
        self.synced: Counter[int] = Counter()
        self.sync_count = 0
        self.delay_s = 0.0
        self._lock = threading.Lock()

    def sync(self, fd: int) -> None:
        size = self.size(fd)
        time.sleep(self.delay_s)
        with self._lock:
            self.synced[fd] = max(size, self.synced[fd])
            self.sync_count += 1


def test_durable_by_default(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        for number in range(5):
            before = syncs(disk)
            log.append(numbered(number))
            assert syncs(disk) == before + 1
            assert (log.flushed_end, log.high_watermark) == (number + 1, number + 1)
        before = syncs(disk)
        log.append_run([numbered(5), numbered(6)])
        assert syncs(disk) == before + 1
        log.append_as_follower(follower_batches((7, 2)))
        assert syncs(disk) == before + 2
        assert log.flushed_end == 9


def test_a_roll_syncs_the_old_segment_and_the_directory_first(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 100}, disk=disk) as log:
        log.append(numbered(0))
        first = log.segments[0]
        mark = len(disk.calls)
        log.append(numbered(1))
        calls = [(call.kind, Path(call.path).name) for call in disk.calls[mark:]]
        new = Path(log.segments[1].path_of(".log")).name
        order = [
            calls.index(("sync", Path(first.path_of(".log")).name)),
            calls.index(("create", new)),
            calls.index(("sync_directory", "tide-0")),
            calls.index(("write", new)),
            calls.index(("sync", new)),
        ]
        assert order == sorted(order)
        assert log.recovery_point == 1


@pytest.mark.parametrize("messages", [2, 3, 7])
def test_flush_messages(messages: int, tmp_path: Path) -> None:
    """What a power cut can take is less than `flush.messages` records."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"flush.messages": messages}, disk=disk) as log:
        start = syncs(disk)
        for number in range(20):
            log.append(numbered(number))
            assert log.log_end_offset - log.flushed_end < messages
            assert log.high_watermark == number + 1
        assert syncs(disk) - start == 20 // messages
        log.append(numbered(20, 2 * messages))
        assert log.flushed_end == log.log_end_offset


def test_never_unless_asked(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, {"flush.messages": LONG_MAX}, disk=disk) as log:
        for number in range(20):
            log.append(numbered(number))
        assert (syncs(disk), log.flushed_end, log.recovery_point) == (0, 0, 0)
        log.flush()
        assert log.flushed_end == 20
        assert disk.count("sync", ".index") == disk.count("sync", ".timeindex") == syncs(disk) == 1


def test_flush_ms_by_the_next_append(tmp_path: Path) -> None:
    clock, disk = FakeClock(), FaultyDisk()
    with open_log(tmp_path, {"flush.messages": LONG_MAX, "flush.ms": 5000}, clock=clock, disk=disk) as log:
        log.append(numbered(0))
        clock.advance(4999)
        log.append(numbered(1))
        assert log.flushed_end == 0
        clock.advance(1)
        log.append(numbered(2))
        assert log.flushed_end == 3
        clock.advance(4999)
        log.append(numbered(3))
        assert log.flushed_end == 3


def test_flush_ms_is_kept_without_another_append(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_log(tmp_path, {"flush.messages": LONG_MAX, "flush.ms": 20}, clock=clock) as log:
        log.append(numbered(0))
        time.sleep(0.08)
        assert log.flushed_end == 0  # by this clock no time has passed
        clock.advance(20)
        deadline = time.monotonic() + 5
        while log.flushed_end == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert log.flushed_end == 1


def test_group_commit(tmp_path: Path) -> None:
    disk = SyncedDisk()
    disk.delay_s = 0.004
    failures: list[BaseException] = []
    appended: list[tuple[int, int]] = []
    batches = [numbered(number) for number in range(800)]
    with open_log(tmp_path, disk=disk) as log:
        disk.sync_count = 0

        def write(thread: int) -> None:
            try:
                for index in range(50):
                    info = log.append(batches[thread * 50 + index])
                    assert log.flushed_end > info.last_offset
                    assert log.high_watermark > info.last_offset
                    appended.append((info.first_offset, thread * 50 + index))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not failures
        assert not any(thread.is_alive() for thread in threads)
        assert disk.sync_count < 800 / 4
        assert log.flushed_end == log.log_end_offset == 800
        assert [(record.offset, number_of(record)) for record in log.read()] == sorted(appended)
        check_log(log)


def test_readers_see_nothing_that_a_power_cut_can_take(tmp_path: Path) -> None:
    """While the bytes are written but not synced, the high watermark and what it lets through stay."""
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        log.append(numbered(0))
        seen = []
        disk.run(1, lambda: seen.append((log.log_end_offset, log.high_watermark, log.flushed_end, len(list(log.read())))), kind="sync")
        log.append(numbered(1))
        assert seen == [(2, 1, 1, 1)]


def test_the_owner_cannot_show_what_is_not_durable(tmp_path: Path) -> None:
    """With `flush.messages=1` the high watermark stays at or below the flushed end, also when its owner asks for more, or waits."""
    disk = FaultyDisk()
    seen: list[bool] = []
    owners: list[threading.Thread] = []

    def show() -> None:
        log.high_watermark = 2
        seen.append(log.high_watermark <= log.flushed_end)

    def let_the_owner_try() -> None:
        owners.append(threading.Thread(target=show))
        owners[0].start()
        owners[0].join(0.2)

    with open_log(tmp_path, disk=disk) as log:
        log.append_as_follower(follower_batches((0, 1)))
        disk.run(1, let_the_owner_try, kind="sync", on=".log")
        log.append_as_follower(follower_batches((1, 1)))
        owners[0].join(10)
        assert seen == [True]


def test_a_failed_sync_closes_the_log_to_writes(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.append(numbered(0))
    disk.fail(1, kind="sync", on=".log")
    with pytest.raises(LogFailedError, match=r"takes no more writes: .*ordered by a test"):
        log.append(numbered(1))
    for call in (lambda: log.append(numbered(1)), log.flush, log.roll, lambda: log.append_run([numbered(1)])):
        with pytest.raises(LogFailedError):
            call()
    assert [number_of(record) for record in log.read()] == [0]
    log.close()
    with open_log(tmp_path) as log:
        assert not log.load_report.was_clean
        assert [number_of(record) for record in log.read()] == [0, 1]
        check_log(log)


def test_a_file_that_cannot_be_opened_for_the_sync(tmp_path: Path) -> None:
    """The batch is written but cannot be made durable: an error of ours, not a plain OSError; the log stays as it says it is."""
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        log.append(numbered(0))
        pool_of(log).drop_all()
        disk.fail(1, kind="open", on=".log")
        with contextlib.suppress(StorageError):
            log.append(numbered(1))
            assert log.flushed_end == 2
        disk.heal()


def test_what_is_refused_to_who_waits_is_an_error_of_ours(tmp_path: Path) -> None:
    """A sync for which there is no descriptor, a high watermark whose place cannot be read: both were a plain OSError."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"flush.messages": 2}, disk=disk) as log:
        log.append_run([numbered(0, 5), numbered(5, 5), numbered(10, 5)])
        asks: list[Callable[[], object]] = [
            lambda: log.append(numbered(15, 5)),
            lambda: log.append_as_follower(follower_batches((20, 5))),
        ]
        for ask in asks:
            disk.fail(1, error=errno.EMFILE, kind="sync", on=".log")
            with pytest.raises(StorageError, match="durable"):
                ask()
            assert log.flushed_end < log.log_end_offset
        log.wait_until_durable(25)
        disk.fail(1, kind="read")
        with pytest.raises(StorageError, match="high watermark"):
            log.high_watermark = 12
        log.high_watermark = 12
        assert (log.high_watermark, log.failure) == (12, None)


# The log is cut while somebody waits


def test_an_append_that_is_cut_off_does_not_wait_forever(tmp_path: Path) -> None:
    """A truncation between an append and its sync: the offset waited for will never be durable."""
    log = open_log(tmp_path)
    for number in range(10):
        log.append(numbered(number))
    queue = state_of(log).queue
    acknowledge = queue._acknowledge
    cuts: list[threading.Thread] = []

    def cut_first(end_offset: int) -> None:
        if not cuts:
            cuts.append(threading.Thread(target=log.truncate_to, args=(5,)))
            cuts[0].start()
            cuts[0].join(5)
        acknowledge(end_offset)

    queue._acknowledge = cut_first
    errors: list[StorageError] = []

    def append() -> None:
        try:
            log.append(numbered(10))
        except StorageError as error:
            errors.append(error)

    waits = threading.Thread(target=append, daemon=True)
    waits.start()
    waits.join(5)
    is_stuck = waits.is_alive()
    if is_stuck:  # let it go, so that the session can end
        state_of(log).fail(RuntimeError("the test gave up"))
        waits.join(5)
    assert not is_stuck
    assert "cut off" in str(errors[0])
    assert log.log_end_offset == 5
    check_log(log)
    log.close()


@pytest.mark.leaves("snapshot-beyond-end")
def test_a_flush_in_the_background_of_what_was_cut_off_ends(tmp_path: Path) -> None:
    """Rolled, and truncated before the background flush of the old segment came to it."""
    release = threading.Event()
    log = open_log(tmp_path, {"flush.messages": LONG_MAX})
    blocker = _background.submit(release.wait, 10)
    log.append(numbered(0, 10))
    log.roll()
    log.truncate_to(5)
    release.set()
    blocker.result(10)
    done = threading.Event()
    _background.submit(done.set)
    has_ended = done.wait(5)
    if not has_ended:
        state_of(log).fail(RuntimeError("the test gave up"))
        done.wait(5)
    assert has_ended
    log.close()


def test_bounds_after_a_restart_at_a_higher_offset(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(a_batch(10))
        log.truncate_fully_and_start_at(20)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (20, 20, 20)
        assert log.flushed_end == 20
        log.append(a_batch())
        check_log(log)


def test_flush_ms_is_kept_by_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """It was waited for until the clock was where it had been: an hour's records were at risk."""
    clock = FakeClock()
    with open_log(tmp_path, {"flush.messages": LONG_MAX, "flush.ms": 20}, clock=clock) as log:
        log.append(numbered(0))
        clock.advance(-3_600_000)
        deadline = time.monotonic() + 5
        while log.flushed_end == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert log.flushed_end == 1
        clock.advance(-3_600_000)
        log.append(numbered(1, timestamp_ms=clock()))  # by the append itself
        assert log.flushed_end == 2


@pytest.mark.parametrize("stricter", [{"flush.messages": 3}, {"flush.messages": 1}, {"flush.ms": 20}])
def test_stricter_settings_hold_for_what_was_appended_before(stricter: dict[str, int], tmp_path: Path) -> None:
    """They held from the next append on, and a deadline of an hour stayed one: who appends nothing more waited for it."""
    clock = FakeClock()
    weak = {"flush.messages": LONG_MAX, "flush.ms": 3_600_000}
    with open_log(tmp_path, weak, clock=clock) as log:
        for number in range(3):
            log.append(numbered(number))
        assert log.flushed_end == 0
        log.reconfigure({**weak, **stricter})
        clock.advance(20)
        deadline = time.monotonic() + 5
        while log.flushed_end == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert log.flushed_end == 3


def test_two_threads_may_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who came second, just before its flush, was told that the log is closed, which is what it wanted."""
    log = open_log(tmp_path)
    log.append(numbered(0))
    flush = log._state.flush

    def flush_late() -> None:
        monkeypatch.setattr(log._state, "flush", flush)
        log.close()
        flush()

    monkeypatch.setattr(log._state, "flush", flush_late)
    log.close()
    assert log.is_closed
