"""KeyboardInterrupt at every call to the disk of an append, a roll, a flush, also in the thread that syncs for others.

Afterwards the log works and holds what it should, or says that it has failed; nothing acknowledged is lost, and nobody waits forever.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import check_log, copy_home, follower_batches, number_of, numbered, open_log, state_of
from tidelog.errors import CorruptBatchError, LogFailedError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log

Moment = Literal["before", "after"]
CONFIG = {"internal.segment.bytes": 400, "index.interval.bytes": 0}

# What is done, and how many records it adds.
ACTIONS: dict[str, tuple[Callable[[Log], Any], int]] = {
    "append": (lambda log: log.append(numbered(log.log_end_offset)), 1),
    "append of a new epoch": (lambda log: log.append(numbered(log.log_end_offset), leader_epoch=log.leader_epochs[-1][0] + 1), 1),
    "append that rolls": (lambda log: log.append(numbered(log.log_end_offset, 4, size=60)), 4),
    "run": (lambda log: log.append_run([numbered(log.log_end_offset), numbered(log.log_end_offset + 1)]), 2),
    "roll": (lambda log: log.roll(), 0),
    "flush": (lambda log: log.flush(), 0),
    "checkpoint": (lambda log: log.checkpoint(), 0),
}


def prepare(home: Path, disk: FaultyDisk, config: dict[str, Any]) -> Log:
    log = open_log(home, config, disk=disk)
    for number in range(3):
        log.append(numbered(number))
    return log


def call_counts() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ACTIONS:
        yield name, CONFIG
        yield name, {**CONFIG, "flush.messages": 2**63 - 1}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("name", "config"), list(call_counts()), ids=lambda value: value if isinstance(value, str) else str(len(value)))
def test_interrupted_at_each_call(name: str, config: dict[str, Any], moment: Moment, tmp_path: Path) -> None:
    action, adds = ACTIONS[name]
    disk = FaultyDisk()
    with prepare(tmp_path / "counted", disk, config) as log:
        mark = disk.count()
        action(log)
        calls = disk.count() - mark
    assert calls > 0 or "flush.messages" in config
    failed = 0
    for nth in range(1, calls + 1):
        failed += interrupt_at(tmp_path / f"home-{nth}", action, adds, config, nth, moment)
    # Most points are recoverable; failing for good everywhere would be too easy.
    assert failed <= calls // 2


def interrupt_at(home: Path, action: Callable[[Log], Any], adds: int, config: dict[str, Any], nth: int, moment: Moment) -> bool:
    disk = FaultyDisk()
    with prepare(home, disk, config) as log:
        return check_interrupted(log, disk, action, adds, nth, moment)


def check_interrupted(log: Log, disk: FaultyDisk, action: Callable[[Log], Any], adds: int, nth: int, moment: Moment) -> bool:
    home, config = Path(log.directory).parent, log.config.overrides()
    disk.interrupt(nth, moment=moment)
    if "flush.messages" in config:
        # The background flush shares the disk: an order may fall to it.
        for task in state_of(log)._pending:
            task.exception()
    was_interrupted = False
    try:
        action(log)
    except KeyboardInterrupt:
        was_interrupted = True
    where = disk.fired[0] if disk.fired else None
    disk.heal()
    end = log.log_end_offset
    assert end in (3, 3 + adds), where
    if not was_interrupted:
        assert end == 3 + adds, where
    # Readers see a part of what is there, in order.
    assert [number_of(record) for record in log.read(isolation="log_end")] == list(range(end)), where
    has_failed = state_of(log).failure is not None
    if has_failed:
        with pytest.raises(LogFailedError, match="takes no more writes") as raised:
            log.append(numbered(end))
        assert raised.value.__cause__ is state_of(log).failure
    else:
        log.append(numbered(end))
        end += 1
        check_log(log)
    # Killed here, the log is found whole: nothing of the interrupted write is behind what came after it.
    killed = copy_home(log, home.with_name(home.name + "-killed"))
    log.close()
    with open_log(killed, config, last_shutdown_clean=False) as log:
        assert [number_of(record) for record in log.read()] == list(range(end)), where
        assert has_failed or log.load_report.cuts == [], where
    with open_log(home, config) as log:
        assert [number_of(record) for record in log.read()] == list(range(log.log_end_offset)), where
        assert log.log_end_offset == end, where
        log.append(numbered(log.log_end_offset))
        check_log(log)
    return has_failed


TRUNCATIONS: dict[str, tuple[Callable[[Log], Any], int]] = {
    "in the last segment": (lambda log: log.truncate_to(4), 4),
    "in an earlier one": (lambda log: log.truncate_to(1), 1),
    "at the very beginning": (lambda log: log.truncate_to(0), 0),
    "at the first segment, anew": (lambda log: log.truncate_fully_and_start_at(0), 0),
    "elsewhere, anew": (lambda log: log.truncate_fully_and_start_at(2), 2),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", TRUNCATIONS)
def test_interrupted_in_a_truncation(name: str, moment: Moment, tmp_path: Path) -> None:
    """The log fails, or goes on with bounds that fit: nothing that is appended from then on may count as flushed already."""
    truncate, cut = TRUNCATIONS[name]
    for nth in range(1, 80):
        disk = FaultyDisk()
        with open_log(tmp_path / f"home-{nth}", CONFIG, disk=disk) as log:
            for number in range(3):
                log.append(numbered(number))
            log.roll()
            log.append(numbered(3))
            log.append(numbered(4))
            disk.interrupt(nth, moment=moment)
            try:
                truncate(log)
            except KeyboardInterrupt:
                where = disk.fired[0]
            else:
                disk.heal()
                assert nth > 5
                assert log.log_end_offset == cut
                break
            disk.heal()
            if state_of(log).failure is None:
                before = disk.count("sync", ".log")
                log.append(numbered(log.log_end_offset))
                assert disk.count("sync", ".log") > before, where
                check_log(log)
            else:
                with pytest.raises(LogFailedError):
                    log.append(numbered(0))
        with open_log(tmp_path / f"home-{nth}", CONFIG) as log:
            log.append(numbered(log.log_end_offset))
            assert [number_of(record) for record in log.read()] == list(range(log.log_start_offset, log.log_end_offset)), where
            check_log(log)
    else:
        pytest.fail("always interrupted")


@pytest.mark.leaves
def test_a_truncation_that_finds_damage_fails_the_log(tmp_path: Path) -> None:
    """When it looks for the largest timestamp that is left, the file is cut already."""
    with open_log(tmp_path, {"index.interval.bytes": 1 << 20}) as log:
        for number in range(4):
            log.append(numbered(number))
        with Path(log.segments[0].path_of(".log")).open("r+b") as file:
            file.seek(16)
            file.write(b"\x09")  # a magic that there is not
        with pytest.raises(TidelogError):
            log.truncate_to(3)
        assert log.log_end_offset == 4 or state_of(log).failure is not None
        with pytest.raises(LogFailedError):
            log.append(numbered(4))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_roll_over_a_gap_is_taken_back(moment: Moment, tmp_path: Path) -> None:
    """A follower's segment begins where its batch does. Interrupted before the batch is in, it must not become the end of the log."""
    for nth in range(1, 60):
        disk = FaultyDisk()
        home = tmp_path / f"home-{nth}"
        with prepare(home, disk, CONFIG) as log:
            log.append_as_follower(follower_batches((3, 1)))
            disk.interrupt(nth, moment=moment)
            try:
                log.append_as_follower(follower_batches((100, 1), (101, 3)))
            except KeyboardInterrupt:
                pass
            else:
                disk.heal()
                assert nth > 5
                break
            where = disk.fired[0]
            disk.heal()
            end = log.log_end_offset
            # 100 is the empty segment: rolled, as in Kafka, before the batches were refused.
            assert end in (4, 100, 104), where
            killed = copy_home(log, tmp_path / f"killed-{nth}")
        for again, is_clean in ((home, None), (killed, False)):
            with open_log(again, CONFIG, last_shutdown_clean=is_clean) as log:
                assert log.log_end_offset == end, where
                check_log(log)
    else:
        pytest.fail("always interrupted")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupted_in_the_thread_that_syncs_for_others(moment: Moment, tmp_path: Path) -> None:
    """The first of eight threads holds the mutex in its sync, the others queue; it is interrupted, and one of them does the work."""
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        log.append(numbered(0))
        entered, release = threading.Event(), threading.Event()
        outcomes: dict[int, object] = {}

        def hold() -> None:
            entered.set()
            assert release.wait(10)
            raise KeyboardInterrupt

        disk.run(1, hold, kind="sync", on=".log", moment=moment)

        def write(number: int) -> None:
            try:
                outcomes[number] = log.append(numbered(number))
            except BaseException as error:
                outcomes[number] = error

        first = threading.Thread(target=write, args=(100,))
        first.start()
        assert entered.wait(10)
        others = [threading.Thread(target=write, args=(number,)) for number in range(101, 108)]
        for thread in others:
            thread.start()
        while len(state_of(log).queue.requests) < 7:  # the first queues nowhere
            threading.Event().wait(0.005)
        release.set()
        for thread in (first, *others):
            thread.join(10)
            assert not thread.is_alive()
        assert isinstance(outcomes.pop(100), KeyboardInterrupt)
        assert not any(isinstance(outcome, BaseException) for outcome in outcomes.values()), outcomes
        assert log.flushed_end == log.high_watermark == 9
        assert {number_of(record) for record in log.read()} == {0, *range(100, 108)}
        check_log(log)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_interrupted_in_the_thread_that_appends_for_others(nth: int, moment: Moment, tmp_path: Path) -> None:
    """While the first thread syncs, four more queue, one of them with a batch that is refused. Whoever commits for them is interrupted at
    the nth call to the disk: the others are in the log once, and know where."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 300}, disk=disk) as log:
        log.append(numbered(0))
        entered, release = threading.Event(), threading.Event()
        outcomes: dict[int, object] = {}

        def hold() -> None:
            entered.set()
            assert release.wait(10)
            disk.interrupt(nth, moment=moment)

        disk.run(1, hold, kind="sync", on=".log", moment="after")

        def write(number: int) -> None:
            try:
                outcomes[number] = log.append(numbered(number) if number != 102 else b"no batch")
            except BaseException as error:
                outcomes[number] = error

        threads = [threading.Thread(target=write, args=(number,)) for number in range(100, 105)]
        for expected, thread in enumerate(threads):  # the first queues nowhere
            thread.start()
            assert entered.wait(10)
            while len(state_of(log).queue.requests) < expected:
                threading.Event().wait(0.001)
        release.set()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert disk.fired
        disk.heal()
        interrupted = {number for number, outcome in outcomes.items() if isinstance(outcome, KeyboardInterrupt)}
        assert len(interrupted) <= 1
        assert isinstance(outcomes[102], CorruptBatchError) or interrupted == {102}
        if state_of(log).failure is None:
            held = {number_of(record): record.offset for record in log.read()}
            assert len(held) == log.log_end_offset
            for number in {100, 101, 103, 104} - interrupted:
                outcome = outcomes[number]
                assert isinstance(outcome, AppendInfo), outcome
                assert held.pop(number) == outcome.first_offset
            assert set(held) <= {0} | interrupted
            log.append(numbered(200))
            check_log(log)


def test_a_failed_sync_is_told_to_all_that_wait(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.append(numbered(0))
    entered, release = threading.Event(), threading.Event()
    outcomes: list[object] = []

    def hold() -> None:
        entered.set()
        assert release.wait(10)
        raise OSError(5, "ordered by a test")

    disk.run(1, hold, kind="sync", on=".log")

    def write() -> None:
        try:
            outcomes.append(log.append(numbered(1)))
        except BaseException as error:
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(6)]
    threads[0].start()
    assert entered.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(state_of(log).queue.requests) < 5:
        threading.Event().wait(0.005)
    release.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [type(outcome) for outcome in outcomes] == [LogFailedError] * 6
    assert log.high_watermark == 1
    log.close()
