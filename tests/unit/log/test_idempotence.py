"""Idempotent appends: a batch that is sent again is answered as the first time and not written; whatever fails can be sent again."""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock, QuietDisk, check_log, copy_home, files_of, follower_batches, number_of, numbered, state_of
from tests.support.producers import aborted_on_disk, end_of_txn, in_txn, numbers, open_small, placed, producers_of, sent
from tidelog.errors import (
    CorruptBatchError,
    DiskFullError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    StorageError,
    TidelogError,
)
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.layout import CONTROL_BIT

NO_WAIT = {"flush.messages": 2**63 - 1}
SMALL = {"internal.segment.bytes": 300, "index.interval.bytes": 0}
CONFIGS: list[dict[str, Any]] = [{}, NO_WAIT]


def one(log: Log, batch: bytes) -> AppendInfo:
    return log.append(batch)


def as_run(log: Log, batch: bytes) -> AppendInfo:
    (info,) = log.append_run([batch])
    return info


WAYS = [one, as_run]


@pytest.mark.parametrize("config", CONFIGS, ids=["durable", "weak"])
@pytest.mark.parametrize("append", WAYS, ids=["single", "run"])
class TestDuplicates:
    def test_is_answered_as_the_first_time_and_not_written(
        self, append: Callable[[Log, bytes], AppendInfo], config: dict[str, Any], tmp_path: Path
    ) -> None:
        with open_small(tmp_path, config) as log:
            log.append(numbered(100))
            batch = sent(1, 0, 3)
            first = append(log, batch)
            assert first[:2] == (1, 3)
            log.append(numbered(101))
            before, known = files_of(log), producers_of(log)
            for _ in range(2):
                again = append(log, batch)
                assert again[:3] == first[:3]
            assert files_of(log) == before
            assert producers_of(log) == known
            assert log.append(sent(1, 3))[:2] == (5, 5)

    def test_five_are_known(self, append: Callable[[Log, bytes], AppendInfo], config: dict[str, Any], tmp_path: Path) -> None:
        with open_small(tmp_path, config) as log:
            for sequence in range(6):
                append(log, sent(1, sequence))
            for sequence in range(1, 6):
                assert append(log, sent(1, sequence))[:2] == (sequence, sequence)
            with pytest.raises(OutOfOrderSequenceError, match="expected sequence number 6, found 0"):
                append(log, sent(1, 0))
            assert log.log_end_offset == 6

    def test_is_recognised_after_a_reopen_if_it_is_the_newest(
        self, append: Callable[[Log, bytes], AppendInfo], config: dict[str, Any], tmp_path: Path
    ) -> None:
        with open_small(tmp_path, config) as log:
            for sequence in range(3):
                append(log, sent(1, sequence))
        with open_small(tmp_path, config) as log:
            assert append(log, sent(1, 2))[:2] == (2, 2)
            with pytest.raises(OutOfOrderSequenceError):
                append(log, sent(1, 1))
            assert append(log, sent(1, 3))[:2] == (3, 3)

    def test_is_recognised_after_a_kill(self, append: Callable[[Log, bytes], AppendInfo], config: dict[str, Any], tmp_path: Path) -> None:
        with open_small(tmp_path / "home", config) as log:
            for sequence in range(3):
                append(log, sent(1, sequence))
            killed = copy_home(log, tmp_path / "killed")
        with open_small(killed, config, last_shutdown_clean=False) as log:
            assert append(log, sent(1, 2))[:2] == (2, 2)
            assert append(log, sent(1, 3))[:2] == (3, 3)

    def test_out_of_order_leaves_no_trace(self, append: Callable[[Log, bytes], AppendInfo], config: dict[str, Any], tmp_path: Path) -> None:
        refused: list[tuple[bytes, type[TidelogError]]] = [
            (sent(1, 3, epoch=4), OutOfOrderSequenceError),
            (sent(1, 0, epoch=4), OutOfOrderSequenceError),  # a part of what was one batch
            (sent(1, 1, 2, epoch=4), OutOfOrderSequenceError),
            (sent(1, 5, epoch=5), OutOfOrderSequenceError),
            (sent(1, 2, epoch=3), InvalidProducerEpochError),
            (sent(2, 1), InvalidTxnStateError),
            (in_txn(2, 2), OutOfOrderSequenceError),
        ]
        with open_small(tmp_path, config) as log:
            log.append(sent(1, 0, 2, epoch=4))
            log.append(in_txn(2, 0))
            before, known = files_of(log), producers_of(log)
            for batch, error in refused:
                with pytest.raises(error):
                    append(log, batch)
            assert files_of(log) == before
            assert producers_of(log) == known
            assert append(log, sent(1, 2, epoch=4))[:2] == (3, 3)


def test_compressed_and_stamped_batches_are_recognised_too(tmp_path: Path) -> None:
    """The long way through `leader`: batches that are rebuilt, and an append time, which the duplicate's answer has too."""
    clock = FakeClock(TIME + 50)
    with open_small(tmp_path, {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"}, clock=clock) as log:
        first = log.append(sent(1, 0, 20))
        assert first.log_append_time_ms == TIME + 50
        clock.advance(10)
        again = log.append(sent(1, 0, 20))
        assert (again.first_offset, again.last_offset, again.log_append_time_ms) == (0, 19, TIME + 50)
        assert log.append(sent(1, 20, compression="zstd"))[:2] == (20, 20)
        assert log.append_run([sent(1, 20, compression="zstd"), sent(1, 21)])[1][:2] == (21, 21)


def test_two_records_are_another_batch_than_one(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(sent(1, 0, 2))
        with pytest.raises(OutOfOrderSequenceError):
            log.append(sent(1, 0, 1))
        with pytest.raises(OutOfOrderSequenceError):
            log.append(sent(1, 1, 1))


def test_sequence_numbers_go_on_behind_the_largest(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        last = 2**31 - 1
        log.append(sent(1, last - 1, 3, number=0))
        assert log.append(sent(1, last - 1, 3, number=0))[:2] == (0, 2)
        assert log.append(sent(1, 1))[:2] == (3, 3)
    with open_small(tmp_path) as log:
        assert log.append(sent(1, 2))[:2] == (4, 4)


def test_a_producer_is_known_by_its_first_bit(tmp_path: Path) -> None:
    """The largest id there is, and none."""
    with open_small(tmp_path) as log:
        for producer_id in (0, 255, 2**31, 2**63 - 1):
            log.append(sent(producer_id, 0))
        log.append(numbered(0))
        log.append(numbered(0))
        assert set(producers_of(log)) == {0, 255, 2**31, 2**63 - 1}
        assert log.append(sent(2**63 - 1, 0))[:2] == (3, 3)
        assert log.log_end_offset == 6


def test_a_truncated_batch_may_come_again(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        for sequence in range(4):
            log.append(sent(1, sequence))
        log.truncate_to(2)
        with pytest.raises(OutOfOrderSequenceError):
            log.append(sent(1, 3))
        assert log.append(sent(1, 2))[:2] == (2, 2)
        assert log.append(sent(1, 1))[:2] == (1, 1)


# Runs


def test_duplicates_inside_a_run(tmp_path: Path) -> None:
    with open_small(tmp_path, SMALL) as log:
        log.append(sent(1, 0))
        batches = [sent(1, 0), sent(1, 1), sent(1, 1), sent(2, 0), numbered(50), sent(1, 2), sent(2, 0), sent(1, 1), sent(1, 3)]
        infos = log.append_run(batches)
        assert [info.first_offset for info in infos] == [0, 1, 1, 2, 3, 4, 2, 1, 5]
        assert [number_of(record) for record in log.read()] == [0, 1, 0, 50, 2, 3]
        again = log.append_run(b"".join([sent(1, 1), sent(1, 2), sent(1, 3), sent(1, 4)]))
        assert [info.first_offset for info in again] == [1, 4, 5, 6]
        check_log(log)


@pytest.mark.parametrize("last", [sent(1, 0), sent(1, 7), sent(1, 2)], ids=["a duplicate", "out of order", "the next"])
def test_a_run_rolls_as_batches_do_one_by_one(last: bytes, tmp_path: Path) -> None:
    """Whether a batch is a duplicate, or its producer must not send it, is asked after the roll that it causes."""
    batches = [sent(1, 0), sent(1, 1), last]
    config = {"internal.segment.bytes": len(batches[0]) + len(batches[1])}
    bases = []
    for home, append in (("one", lambda log: [log.append(batch) for batch in batches]), ("run", lambda log: log.append_run(batches))):
        with open_small(tmp_path / home, config) as log:
            with suppress(OutOfOrderSequenceError):
                append(log)
            bases.append([segment.base_offset for segment in log.segments])
    assert bases == [[0, 2], [0, 2]]


def test_a_run_of_nothing_but_duplicates(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        batches = [sent(1, sequence) for sequence in range(5)]
        first = log.append_run(batches)
        before = files_of(log)
        assert [info[:3] for info in log.append_run(batches)] == [info[:3] for info in first]
        assert files_of(log) == before


def test_a_run_forgets_the_sixth_as_one_by_one(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        with pytest.raises(OutOfOrderSequenceError) as raised:
            log.append_run([*(sent(1, sequence) for sequence in range(6)), sent(1, 1), sent(1, 0)])
        assert [info.first_offset for info in raised.value.appended] == [0, 1, 2, 3, 4, 5, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("config", [{}, SMALL, NO_WAIT], ids=["durable", "small", "weak"])
@pytest.mark.parametrize(
    ("bad", "error"),
    [(sent(1, 9), OutOfOrderSequenceError), (sent(1, 4, epoch=7), OutOfOrderSequenceError), (b"no batch", CorruptBatchError)],
    ids=["out of order", "new epoch", "no batch"],
)
def test_a_refused_batch_leaves_those_before_it(bad: bytes, error: type[TidelogError], config: dict[str, Any], tmp_path: Path) -> None:
    with open_small(tmp_path, config) as log:
        log.append(sent(1, 0))
        with pytest.raises(error) as raised:
            log.append_run([sent(1, 1), sent(1, 0), sent(2, 0), sent(1, 2), bad, sent(1, 3)])
        assert [info.first_offset for info in raised.value.appended] == [1, 0, 2, 3]  # type: ignore[attr-defined]
        assert log.log_end_offset == 4
        assert producers_of(log)[1].last_sequence == 2
        # A client sends the rest, or all of it, again.
        infos = log.append_run([sent(1, 1), sent(2, 0), sent(1, 2), sent(1, 3)])
        assert [info.first_offset for info in infos] == [1, 2, 3, 4]
        check_log(log)


def test_new_epochs_and_transactions_inside_a_run(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        with pytest.raises(InvalidTxnStateError) as raised:
            log.append_run([sent(1, 5), sent(1, 0, epoch=1), in_txn(1, 1, epoch=1), in_txn(1, 2, epoch=1), sent(1, 3, epoch=1)])
        assert len(raised.value.appended) == 4  # type: ignore[attr-defined]
        with pytest.raises(InvalidProducerEpochError):
            log.append_run([in_txn(1, 3, epoch=1), sent(1, 6)])
        assert log.last_stable_offset == 2
        assert log.log_end_offset == 5


# Failed writes


@contextmanager
def failing(kind: str, log: Log, disk: FaultyDisk) -> Iterator[None]:
    if kind == "full":
        disk.shorten(1, size=40, on=".log", then=errno.ENOSPC)
        expected: type[BaseException] = DiskFullError
    elif kind == "failed":
        disk.fail(1, kind="write", on=".log")
        expected = StorageError
    else:
        disk.interrupt(1, kind="write", on=".log", moment="after")
        expected = KeyboardInterrupt
    known = producers_of(log)
    with pytest.raises(expected):
        yield
    disk.heal()
    assert producers_of(log) == known
    check_log(log)


@pytest.mark.parametrize("config", CONFIGS, ids=["durable", "weak"])
@pytest.mark.parametrize("kind", ["full", "failed", "interrupted"])
def test_a_failed_write_can_be_sent_again(kind: str, config: dict[str, Any], tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, config, disk=disk) as log:
        log.append(sent(1, 0))
        with failing(kind, log, disk):
            log.append(sent(1, 1))
        with failing(kind, log, disk):
            log.append_run([sent(1, 1), sent(1, 2)])
        with failing(kind, log, disk):
            log.append(sent(1, 0, epoch=1))
        with failing(kind, log, disk):
            log.append(in_txn(1, 1))
        with failing(kind, log, disk):
            log.append(sent(9, 0))  # somebody new
        assert log.last_stable_offset == 1
        assert log.append(sent(1, 0))[:2] == (0, 0)
        assert [info.first_offset for info in log.append_run([sent(1, 1), sent(1, 2)])] == [1, 2]
        assert log.append(sent(9, 3))[:2] == (3, 3)


def test_a_run_that_fails_in_its_second_segment(tmp_path: Path) -> None:
    """What went into the first segment stays, with its producers; the rest is as if it never came."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, SMALL, disk=disk) as log:
        batches = [sent(1, sequence) for sequence in range(8)]
        disk.fail(1, error=errno.ENOSPC, kind="create", on=".log")
        with pytest.raises(DiskFullError) as raised:
            log.append_run(batches)
        disk.heal()
        done = len(raised.value.appended)  # type: ignore[attr-defined]
        assert 0 < done < 8
        assert producers_of(log)[1].last_sequence == done - 1 == log.log_end_offset - 1
        kept = batches[max(0, done - 5) :]
        assert [info.first_offset for info in log.append_run(kept)] == list(range(max(0, done - 5), 8))
        check_log(log)


Moment = Literal["before", "after"]
ACTIONS: dict[str, tuple[Callable[[Log], Any], Callable[[Log], Any]]] = {
    "append": (lambda log: log.append(sent(1, 3)), lambda log: log.append(sent(1, 3))),
    "append that rolls": (lambda log: log.append(sent(1, 3, 3, size=40)), lambda log: log.append(sent(1, 3, 3, size=40))),
    "run": (
        lambda log: log.append_run([sent(1, 2), sent(1, 3), sent(2, 0)]),
        lambda log: log.append_run([sent(1, 3), sent(2, 0)]),
    ),
    "run that rolls": (
        lambda log: log.append_run([sent(1, sequence) for sequence in range(3, 9)]),
        lambda log: log.append_run([sent(1, sequence) for sequence in range(min(8, log.log_end_offset), 9)]),
    ),
    "new epoch": (lambda log: log.append(sent(1, 0, epoch=1)), lambda log: log.append(sent(1, 0, epoch=1))),
    "transaction": (lambda log: log.append(in_txn(1, 3)), lambda log: log.append(in_txn(1, 3))),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "config"),
    [*((name, SMALL) for name in ACTIONS), *((name, {**SMALL, **NO_WAIT}) for name in ("append", "run that rolls"))],
    ids=[*ACTIONS, "append, weak", "run that rolls, weak"],
)
def test_interrupted_at_each_call_and_sent_again(name: str, moment: Moment, config: dict[str, Any], tmp_path: Path) -> None:
    """Sent again it is in the log once: it was not there and is appended, or it was there and is a duplicate."""
    action, again = ACTIONS[name]
    for nth in range(1, 80):
        disk = FaultyDisk(QuietDisk())
        home = tmp_path / f"home-{nth}"
        with open_small(home, config, disk=disk) as log:
            for sequence in range(3):
                log.append(sent(1, sequence))
            for task in state_of(log)._pending:
                task.exception()
            disk.interrupt(nth, moment=moment)
            try:
                action(log)
            except KeyboardInterrupt:
                where = disk.fired[0]
                disk.heal()
            else:
                disk.heal()
                if not disk.fired:
                    return
                where = disk.fired[0]  # in the background
            if state_of(log).failure is None:
                again(log)
                found = numbers(list(log.read(isolation="log_end")))
                check_log(log)
            else:
                found = []
            killed = copy_home(log, tmp_path / f"killed-{nth}")
        with open_small(killed, config, last_shutdown_clean=False) as log:
            again(log)
            expected = {"append that rolls": [0, 1, 2, 3, 4, 5], "run": [0, 1, 2, 3, 0], "new epoch": [0, 1, 2, 0]}.get(
                name, list(range(9)) if name == "run that rolls" else [0, 1, 2, 3]
            )
            assert numbers(list(log.read(isolation="log_end"))) == expected, where
            assert found in ([], expected), where
            check_log(log)
    pytest.fail("always interrupted")


# Many threads


def test_many_threads_send_everything_twice(tmp_path: Path) -> None:
    """Group commit: every thread has a producer, every batch is sent until it was answered twice, always with the same offset."""
    with open_small(tmp_path, {"internal.segment.bytes": 2000}) as log:
        failures: list[BaseException] = []

        def work(producer_id: int) -> None:
            try:
                for sequence in range(30):
                    batch = sent(producer_id, sequence, number=producer_id * 1000 + sequence)
                    first = log.append(batch)
                    assert log.append(batch)[:2] == first[:2]
                    if sequence > 2:
                        log.append(sent(producer_id, sequence - 2))
                    if sequence % 7 == 0:
                        with pytest.raises(OutOfOrderSequenceError):
                            log.append(sent(producer_id, sequence + 5))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert failures == []
        found = numbers(list(log.read()))
        assert len(found) == 240
        for producer_id in range(8):
            assert [number - 1000 * producer_id for number in found if number // 1000 == producer_id] == list(range(30))
        check_log(log)


def queued(log: Log, disk: FaultyDisk, batches: list[bytes], before_commit: Callable[[], object] = lambda: None) -> list[object]:
    """Send batches from a thread each, so that all of them are in one group: the answers. Markers come from a coordinator."""
    entered, release = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert release.wait(10)
        before_commit()

    disk.run(1, hold, kind="sync", on=".log", moment="after")
    outcomes: list[object] = [None] * (len(batches) + 1)

    def write(place: int, batch: bytes) -> None:
        try:
            outcomes[place] = log.append(batch, origin="coordinator" if batch[22] & CONTROL_BIT else "client")
        except BaseException as error:
            outcomes[place] = error

    threads = [threading.Thread(target=write, args=(place, batch)) for place, batch in enumerate([numbered(999), *batches])]
    for expected, thread in enumerate(threads):  # the first queues nowhere
        thread.start()
        assert entered.wait(10)
        while len(state_of(log).queue.requests) < expected:
            threading.Event().wait(0.001)
    release.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    return outcomes[1:]


def offsets(outcomes: list[object]) -> list[object]:
    return [outcome.first_offset if isinstance(outcome, AppendInfo) else type(outcome) for outcome in outcomes]


def test_duplicates_in_one_group(tmp_path: Path) -> None:
    """The same batch from three threads at once, and one before its time: one write, three equal answers."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, disk=disk) as log:
        log.append(sent(1, 0))
        outcomes = queued(log, disk, [sent(1, 1), sent(1, 1), sent(1, 0), sent(1, 3), sent(1, 2), sent(2, 7), sent(1, 1), numbered(5)])
        assert offsets(outcomes) == [2, 2, 0, OutOfOrderSequenceError, 3, 4, 2, 5]
        assert log.log_end_offset == log.flushed_end == 6
        assert producers_of(log)[1].last_sequence == 2
        check_log(log)


def test_markers_in_a_group(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, disk=disk) as log:
        log.append(in_txn(1, 0, number=10))
        batches = [
            in_txn(2, 0, number=20),
            end_of_txn(1, "abort"),
            sent(2, 1),
            in_txn(1, 1, number=11),
            end_of_txn(2, "commit"),
            sent(2, 1),
        ]
        outcomes = queued(log, disk, batches)
        assert offsets(outcomes) == [2, 3, InvalidTxnStateError, 4, 5, 6]
        assert log.last_stable_offset == 4
        assert numbers(list(log.read(isolation="committed"))) == [999, 20]
        assert aborted_on_disk(log) == [AbortedTxn(1, 0, 3, 2)]
        check_log(log)


def test_a_group_that_fails(tmp_path: Path) -> None:
    """No room for the group, nor for any of it alone: all are refused, all can come again."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, disk=disk) as log:
        log.append(sent(1, 0))
        known = producers_of(log)
        batches = [sent(1, 1), sent(2, 0), sent(1, 2)]
        outcomes = queued(log, disk, batches, lambda: disk.fail(1, error=errno.ENOSPC, kind="write", on=".log", until_healed=True))
        disk.heal()
        assert len(outcomes) == 3
        # The first is written alone and refused; the third is then out of order.
        assert all(isinstance(outcome, (DiskFullError, OutOfOrderSequenceError)) for outcome in outcomes), outcomes
        assert producers_of(log) == known
        assert offsets([log.append(batch) for batch in batches]) == [2, 3, 4]
        check_log(log)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_a_group_whose_committer_is_interrupted(nth: int, moment: Moment, tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, {"internal.segment.bytes": 400}, disk=disk) as log:
        log.append(sent(1, 0))
        batches = [sent(producer_id, 0, number=producer_id) for producer_id in range(2, 7)]
        outcomes = queued(log, disk, batches, lambda: disk.interrupt(nth, moment=moment))
        disk.heal()
        assert sum(isinstance(outcome, KeyboardInterrupt) for outcome in outcomes) <= 1
        if state_of(log).failure is not None:
            return
        # Whoever has no offset sends it again; it is in the log once.
        for outcome, batch in zip(outcomes, batches, strict=True):
            info = log.append(batch)
            if isinstance(outcome, AppendInfo):
                assert info[:2] == outcome[:2]
        found = numbers(list(log.read()))
        assert sorted(number for number in found if number < 900) == [0, 2, 3, 4, 5, 6]
        check_log(log)


# As a follower


@pytest.mark.leaves("producer-sequence", "producer-epoch")
def test_a_follower_takes_what_its_leader_has(tmp_path: Path) -> None:
    """Several producers in one call, epochs that go down, sequences that jump, batches that repeat: all is written and remembered."""
    with open_small(tmp_path) as log:
        data = b"".join(
            placed(offset, sent(producer_id, sequence, epoch=epoch))
            for offset, (producer_id, sequence, epoch) in enumerate([(1, 0, 2), (2, 5, 0), (1, 1, 2), (1, 7, 2), (1, 3, 1), (2, 5, 0)])
        )
        info = log.append_as_follower(data)
        assert info is not None
        assert info[:2] == (0, 5)
        known = producers_of(log)
        assert (known[1].epoch, known[1].last_sequence, len(known[1].batches)) == (1, 3, 1)
        assert [batch.last_offset for batch in known[2].batches] == [1, 5]
        log.append_as_follower(follower_batches((6, 1)))
        log.high_watermark = 7
        assert log.append(sent(1, 4, epoch=1))[:2] == (7, 7)


def test_a_followers_failed_write(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, disk=disk) as log:
        log.append_as_follower(placed(0, sent(1, 0)))
        known = producers_of(log)
        data = placed(1, sent(1, 1)) + placed(2, in_txn(2, 0))
        disk.shorten(1, size=100, on=".log", then=errno.ENOSPC)
        with pytest.raises(DiskFullError):
            log.append_as_follower(data)
        assert producers_of(log) == known
        log.append_as_follower(data)
        assert producers_of(log)[2].transaction_start == 2
        with pytest.raises(InvalidTxnStateError):
            log.append_as_follower(placed(3, sent(2, 1)))
        assert log.log_end_offset == 3
        check_log(log)
