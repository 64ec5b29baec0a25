"""Transactions: what readers of committed records see, the last stable offset, the transaction index, and what is left after failures."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, QuietDisk, check_log, copy_home, files_of, numbered, state_of, stored_batches
from tests.support.producers import (
    abort,
    aborted_on_disk,
    commit,
    committed_numbers,
    end_of_txn,
    in_txn,
    numbers,
    open_small,
    placed,
    producers_of,
    sent,
    snapshots_in,
)
from tidelog.errors import CoordinatorFencedError, DiskFullError, InvalidProducerEpochError, InvalidTxnStateError, RefusedBatchError
from tidelog.log.log import Log
from tidelog.log.positions import LATEST
from tidelog.log.segment import Segment
from tidelog.log.txn_index import AbortedTxn, collect_aborted, parse_entries

SMALL = {"internal.segment.bytes": 300, "index.interval.bytes": 0}
NO_WAIT = {"flush.messages": 2**63 - 1}
Moment = Literal["before", "after"]


# Begin, commit, abort


@pytest.mark.parametrize("config", [{}, SMALL, NO_WAIT], ids=["durable", "small", "weak"])
def test_committed_records_are_read_once_they_are_committed(config: dict[str, Any], tmp_path: Path) -> None:
    with open_small(tmp_path, config) as log:
        log.append(sent(9, 0, number=1))
        log.append(in_txn(1, 0, 2, number=10))
        log.append(sent(9, 1, number=2))
        assert log.last_stable_offset == 1
        assert committed_numbers(log) == [1]
        assert numbers(list(log.read())) == [1, 10, 11, 2]
        assert commit(log, 1) == 4
        assert log.last_stable_offset == log.high_watermark == 5
        assert committed_numbers(log) == [1, 10, 11, 2]
        assert aborted_on_disk(log) == []


@pytest.mark.parametrize("config", [{}, NO_WAIT], ids=["durable", "weak"])
@pytest.mark.parametrize("how", ["one", "run"])
def test_what_another_thread_syncs_at_once_is_not_committed_yet(
    how: str, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is written, and before its thread goes on another one makes the log durable and a third one reads."""
    seen: list[tuple[int, list[int]]] = []
    with open_small(tmp_path, config) as log:
        log.append(sent(9, 0, number=1))

        def then_look(write: Callable[..., None]) -> Callable[..., None]:
            def write_and_look(segment: Segment, *args: Any) -> None:
                write(segment, *args)
                other = threading.Thread(target=log.wait_until_durable, args=(2,))
                other.start()
                other.join()
                seen.append((log.last_stable_offset, committed_numbers(log)))

            return write_and_look

        for name in ("append", "append_batches"):
            monkeypatch.setattr(Segment, name, then_look(getattr(Segment, name)))
        if how == "one":
            log.append(in_txn(1, 0, number=10))
        else:
            log.append_run([in_txn(1, 0, number=10)])
        assert seen == [(1, [1])]
        monkeypatch.undo()
        commit(log, 1)
        assert committed_numbers(log) == [1, 10]


@pytest.mark.parametrize("config", [{}, NO_WAIT], ids=["durable", "weak"])
def test_a_transaction_that_could_not_begin_holds_nobody_up(config: dict[str, Any], tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, config, disk=disk) as log:
        log.append(sent(9, 0, number=1))
        disk.fail(1, error=errno.ENOSPC, kind="write", on=".log")
        with pytest.raises(DiskFullError):
            log.append(in_txn(1, 0, number=10))
        log.append(sent(9, 1, number=2))
        assert (log.last_stable_offset, committed_numbers(log)) == (2, [1, 2])


@pytest.mark.parametrize("config", [{}, SMALL, NO_WAIT], ids=["durable", "small", "weak"])
def test_aborted_records_are_not_read(config: dict[str, Any], tmp_path: Path) -> None:
    with open_small(tmp_path, config) as log:
        log.append(sent(9, 0, number=1))
        log.append(in_txn(1, 0, 2, number=10))
        log.append(sent(9, 1, number=2))
        assert abort(log, 1) == 4
        log.append(in_txn(1, 2, number=12))
        commit(log, 1)
        assert log.last_stable_offset == 7
        assert committed_numbers(log) == [1, 2, 12]
        assert numbers(list(log.read())) == [1, 10, 11, 2, 12]
        assert aborted_on_disk(log) == [AbortedTxn(1, 1, 4, 5)]
    with open_small(tmp_path, config) as log:
        assert committed_numbers(log) == [1, 2, 12]


def test_interleaved_producers(tmp_path: Path) -> None:
    """The last stable offset is that of the earliest one that is open; an entry has it as it is right after the abort, of others only."""
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, number=10))
        log.append(in_txn(2, 0, number=20))
        log.append(in_txn(3, 0, number=30))
        log.append(in_txn(1, 1, number=11))
        assert log.last_stable_offset == 0
        abort(log, 2)  # 4
        assert log.last_stable_offset == 0
        commit(log, 1)  # 5
        assert log.last_stable_offset == 2
        assert committed_numbers(log) == [10]
        log.append(in_txn(1, 2, number=12))  # 6
        abort(log, 3)  # 7
        assert log.last_stable_offset == 6
        assert committed_numbers(log) == [10, 11]
        abort(log, 1)  # 8
        assert log.last_stable_offset == 9
        assert committed_numbers(log) == [10, 11]
        assert aborted_on_disk(log) == [AbortedTxn(2, 1, 4, 0), AbortedTxn(3, 2, 7, 6), AbortedTxn(1, 6, 8, 9)]
        assert [(found.producer_id, found.first_offset) for found in log.fetch(0, 10_000, isolation="committed").aborted_transactions] == [
            (2, 1),
            (3, 2),
            (1, 6),
        ]


def test_a_marker_without_a_transaction(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        assert abort(log, 1) == 0
        assert commit(log, 2, epoch=3) == 1
        assert aborted_on_disk(log) == []
        assert not list(Path(log.directory).glob("*.txnindex"))
        assert log.last_stable_offset == 2
        with pytest.raises(InvalidProducerEpochError):
            log.append(sent(2, 0, epoch=2))
        assert log.append(sent(2, 0, epoch=3))[:2] == (2, 2)


def test_markers_that_are_refused(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, epoch=2))
        abort(log, 2, coordinator_epoch=5)
        before, known = files_of(log), producers_of(log)
        with pytest.raises(InvalidProducerEpochError):
            abort(log, 1, epoch=1)
        with pytest.raises(CoordinatorFencedError):
            commit(log, 2, coordinator_epoch=4)
        with pytest.raises(RefusedBatchError):
            log.append(end_of_txn(1, "abort", epoch=2))  # a client must not
        with pytest.raises(RefusedBatchError):
            log.append_run([end_of_txn(1, "abort", epoch=2)])
        assert files_of(log) == before
        assert producers_of(log) == known
        assert log.last_stable_offset == 0


def test_a_fenced_transaction_is_aborted_with_a_newer_epoch(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0))
        abort(log, 1, epoch=1)
        assert log.last_stable_offset == 2
        with pytest.raises(InvalidProducerEpochError):
            log.append(in_txn(1, 1))
        log.append(in_txn(1, 0, epoch=1, number=7))
        commit(log, 1, epoch=1)
        assert committed_numbers(log) == [7]


def test_outside_of_an_open_transaction(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0))
        with pytest.raises(InvalidTxnStateError):
            log.append(sent(1, 1))
        commit(log, 1)
        assert log.append(sent(1, 1))[:2] == (2, 2)
        assert log.last_stable_offset == 3


def test_a_duplicate_in_a_transaction_begins_none(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0))
        commit(log, 1)
        assert log.append(in_txn(1, 0))[:2] == (0, 0)
        assert log.last_stable_offset == log.log_end_offset == 2


# Reading


def mixed(log: Log) -> list[int]:
    """Twelve transactions of three producers over several segments, every third aborted: the numbers that are committed."""
    committed = []
    sequence = {1: 0, 2: 0, 3: 0}
    for turn in range(12):
        for producer_id in (1, 2, 3):
            log.append(in_txn(producer_id, sequence[producer_id], number=turn * 10 + producer_id))
            sequence[producer_id] += 1
        log.append(numbered(1000 + turn))
        for producer_id in (2, 1, 3):
            if (turn + producer_id) % 3 == 0:
                abort(log, producer_id)
            else:
                commit(log, producer_id)
                committed.append(turn * 10 + producer_id)
        committed.append(1000 + turn)
    return sorted(committed)


@pytest.mark.parametrize("config", [{}, SMALL], ids=["one segment", "many"])
@pytest.mark.parametrize("max_bytes", [1, 200, 100_000])
def test_from_any_offset_with_any_size(config: dict[str, Any], max_bytes: int, tmp_path: Path) -> None:
    """Each fetch names the aborted transactions that overlap it, also those that began before it."""
    with open_small(tmp_path, {**config, **NO_WAIT}) as log:
        expected = mixed(log)
        assert sorted(committed_numbers(log)) == expected
        by_offset = {record.offset: numbers([record])[0] for record in log.read(isolation="committed")}
        assert sorted(by_offset.values()) == expected
        for start in range(0, log.log_end_offset, 1 if max_bytes == 1 else 5):
            found: list[int] = []
            offset = start
            while offset < log.log_end_offset:
                fetched = log.fetch(offset, max_bytes, isolation="committed")
                found += numbers(list(fetched.records()))
                assert fetched.next_offset > offset
                offset = fetched.next_offset
            assert found == [number for at, number in by_offset.items() if at >= start]


def test_the_latest_of_committed_readers_is_the_last_stable_offset(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(sent(9, 0, timestamp_ms=TIME))
        log.append(in_txn(1, 0, timestamp_ms=TIME + 1))
        assert log.fetch(1, 1000, isolation="committed").data == b""
        assert list(log.read(LATEST, isolation="committed")) == []
        assert log.offset_for_time(TIME + 1, isolation="committed") is None
        found = log.offset_for_time(TIME + 1)
        assert found is not None
        assert found.offset == 1
        latest = log.offset_for_time(-1, isolation="committed")
        assert latest is not None
        assert latest.offset == 1


def test_a_marker_above_the_high_watermark_ends_nothing_yet(tmp_path: Path) -> None:
    """Facts 5.1: undecided until the marker lies below the high watermark."""
    with open_small(tmp_path) as log:
        log.high_watermark = 0
        log.append(in_txn(1, 0, number=10))
        log.append(in_txn(2, 0, number=20))
        abort(log, 2)
        commit(log, 1)
        for watermark, stable in ((2, 0), (1, 0), (0, 0), (3, 0), (4, 4)):
            log.high_watermark = watermark
            assert log.last_stable_offset == stable, watermark
            assert committed_numbers(log) == ([10] if stable == 4 else [])


def test_the_last_stable_offset_is_never_below_the_start(tmp_path: Path) -> None:
    """A transaction that is open while its first records are deleted, asked for before and behind that."""
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, 3))
        log.append(numbered(0, 2))
        assert log.last_stable_offset == 0
        assert log.delete_records_before(2) == 2
        assert log.last_stable_offset == 2
        assert list(log.read(isolation="committed")) == []
        assert log.delete_records_before(4) == 4
        assert log.last_stable_offset == 4
        abort(log, 1)
        assert log.last_stable_offset == 6


def test_delete_segments_under_an_open_transaction(tmp_path: Path) -> None:
    with open_small(tmp_path, SMALL) as log:
        log.append(in_txn(1, 0))
        for number in range(8):
            log.append(numbered(number))
        assert log.last_stable_offset == 0
        assert log.delete_segments(2, "a test") == 2
        start = log.log_start_offset
        assert start > 0
        assert log.last_stable_offset == start
        assert list(log.read(isolation="committed")) == []
        abort(log, 1)
        assert log.last_stable_offset == log.log_end_offset
        assert committed_numbers(log) == list(range(start - 1, 8))
    with open_small(tmp_path, SMALL) as log:
        assert committed_numbers(log) == list(range(start - 1, 8))


# The index


def test_the_entry_is_in_the_segment_of_the_marker(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, number=10))
        log.roll()
        log.append(numbered(5))
        log.roll()
        abort(log, 1)
        assert [path.name for path in sorted(Path(log.directory).glob("*.txnindex"))] == [f"{2:020}.txnindex"]
        golden = (Path(log.directory) / f"{2:020}.txnindex").read_bytes()
        assert golden == bytes.fromhex("00000000000000000001000000000000000000000000000000020000000000000003")
        assert committed_numbers(log) == [5]
        assert [len(log.fetch(offset, 1000, isolation="committed").aborted_transactions) for offset in (0, 1, 2)] == [1, 1, 1]


def test_which_entries_overlap_a_range() -> None:
    first, second, third = AbortedTxn(1, 0, 5, 2), AbortedTxn(2, 2, 8, 9), AbortedTxn(1, 10, 12, 13)
    assert collect_aborted([first, second, third], 0, 20) == ([first, second, third], False)
    assert collect_aborted([first, second, third], 6, 9) == ([second], True)
    assert collect_aborted([first, second, third], 5, 6) == ([first, second], True)
    assert collect_aborted([first, second, third], 0, 2) == ([first], True)
    assert collect_aborted([first, second, third], 9, 10) == ([], True)
    assert collect_aborted([], 0, 9) == ([], False)


def test_a_part_of_an_entry_is_no_entry() -> None:
    entries = [AbortedTxn(1, 2, 3, 4), AbortedTxn(2**63 - 1, 0, 2**62, 2**62 + 1)]
    content = b"".join(entry.pack() for entry in entries)
    for size in range(len(content) + 1):
        assert parse_entries(content[:size]) == entries[: size // 34]


def test_a_part_of_an_entry_that_a_crash_left_is_written_over(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0))
        abort(log, 1)
    index = tmp_path / "tide-0" / f"{0:020}.txnindex"
    index.write_bytes(index.read_bytes() + b"\0\0\0\0\7")
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 1))
        abort(log, 1)
        assert aborted_on_disk(log) == [AbortedTxn(1, 0, 1, 2), AbortedTxn(1, 2, 3, 4)]


def test_an_entry_below_its_segment_is_rebuilt(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, number=10))
        log.roll()
        log.append(numbered(5))
        abort(log, 1)
        log.roll()
        log.append(numbered(6))
    index = tmp_path / "tide-0" / f"{1:020}.txnindex"
    index.write_bytes(AbortedTxn(1, 0, 0, 1).pack())
    with open_small(tmp_path) as log:
        assert aborted_on_disk(log) == [AbortedTxn(1, 0, 2, 3)]
        assert committed_numbers(log) == [5, 6]


# After a crash


def story(log: Log) -> list[int]:
    """Open, committed and aborted transactions, over segments: what is committed."""
    log.append(in_txn(1, 0, number=10))
    log.append(in_txn(2, 0, number=20))
    commit(log, 2)
    log.append(numbered(5))
    log.roll()
    log.append(in_txn(2, 1, number=21))
    abort(log, 2)
    abort(log, 1)
    log.append(numbered(6))
    log.append(in_txn(3, 0, number=30))
    log.append(in_txn(2, 2, number=22))
    commit(log, 2)
    return [20, 5, 6]


@pytest.mark.parametrize("recovery_point", [0, 4, None])
@pytest.mark.parametrize("removed", ["", ".snapshot", ".txnindex", ".index"])
def test_recovered_with_open_transactions(recovery_point: int | None, removed: str, tmp_path: Path) -> None:
    with open_small(tmp_path / "home") as log:
        expected = story(log)
        entries, known, stable = aborted_on_disk(log), producers_of(log), log.last_stable_offset
        killed = copy_home(log, tmp_path / "killed")
        assert stable == 8
        assert committed_numbers(log) == expected
    if removed:
        for path in (killed / "tide-0").glob(f"*{removed}"):
            path.unlink()
    with open_small(killed, last_shutdown_clean=False, recovery_point=recovery_point) as log:
        assert log.last_stable_offset == stable
        assert aborted_on_disk(log) == entries
        assert committed_numbers(log) == expected
        assert {entry.producer_id: entry.transaction_start for entry in producers_of(log).values()} == {
            entry.producer_id: entry.transaction_start for entry in known.values()
        }
        abort(log, 3)
        assert log.last_stable_offset == log.log_end_offset
        assert committed_numbers(log) == [20, 5, 6, 22]


def test_an_entry_whose_marker_was_not_written_goes(tmp_path: Path) -> None:
    """Entries come first; killed in between, the transaction is open."""
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, number=10))
    (tmp_path / "tide-0" / f"{0:020}.txnindex").write_bytes(AbortedTxn(1, 0, 1, 2).pack())
    with open_small(tmp_path, last_shutdown_clean=False) as log:
        assert aborted_on_disk(log) == []
        assert log.last_stable_offset == 0
        commit(log, 1)
        assert committed_numbers(log) == [10]


def test_a_torn_marker_leaves_the_transaction_open(tmp_path: Path) -> None:
    with open_small(tmp_path / "home") as log:
        log.append(in_txn(1, 0, number=10))
        abort(log, 1)
        killed = copy_home(log, tmp_path / "killed")
    segment = killed / "tide-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    with open_small(killed, last_shutdown_clean=False) as log:
        assert log.log_end_offset == 1
        assert log.last_stable_offset == 0
        assert aborted_on_disk(log) == []
        assert commit(log, 1) == 1
        assert committed_numbers(log) == [10]


# Cut


@pytest.mark.parametrize("config", [{}, SMALL], ids=["one segment", "many"])
@pytest.mark.parametrize("offset", range(11))
def test_truncated_through_transactions(offset: int, config: dict[str, Any], tmp_path: Path) -> None:
    """What is left is as in a log that never had more."""
    with open_small(tmp_path / "short", config) as log:
        story(log)
        batches = [batch.data for batch in stored_batches(log) if batch.last_offset < offset]
    with open_small(tmp_path / "other", config) as other, open_small(tmp_path / "log", config) as log:
        for batch in batches:
            other.append_as_follower(batch)
        other.high_watermark = other.log_end_offset
        story(log)
        assert log.truncate_to(offset)
        assert log.last_stable_offset == other.last_stable_offset
        assert aborted_on_disk(log) == aborted_on_disk(other)
        assert committed_numbers(log) == committed_numbers(other)
        for producer_id, entry in producers_of(other).items():
            assert producers_of(log)[producer_id][:5] == entry[:5]
            assert producers_of(log)[producer_id].last_sequence == entry.last_sequence
        assert set(producers_of(log)) == set(producers_of(other))
        # An open transaction may be ended the other way now.
        for producer_id, entry in producers_of(log).items():
            if entry.transaction_start >= 0:
                commit(log, producer_id)
                other.append_as_follower(placed(other.log_end_offset, end_of_txn(producer_id, "commit")))
        other.high_watermark = other.log_end_offset
        assert committed_numbers(log) == committed_numbers(other)
        killed = copy_home(log, tmp_path / "killed")
        expected = committed_numbers(log)
        check_log(log)
    for home, is_clean in ((tmp_path / "log", None), (killed, False)):
        with open_small(home, config, last_shutdown_clean=is_clean) as log:
            assert committed_numbers(log) == expected


def test_a_truncated_abort_may_become_a_commit(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0, number=10))
        abort(log, 1)
        assert log.truncate_to(1)
        assert log.last_stable_offset == 0
        assert aborted_on_disk(log) == []
        commit(log, 1)
        assert committed_numbers(log) == [10]
    with open_small(tmp_path) as log:
        assert committed_numbers(log) == [10]


def test_begun_anew_there_are_no_transactions(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        story(log)
        log.truncate_fully_and_start_at(0)
        assert log.last_stable_offset == 0
        assert aborted_on_disk(log) == []
        log.append(in_txn(1, 0, number=1))
        commit(log, 1)
        log.append(in_txn(3, 0, number=3))
        assert committed_numbers(log) == [1]
        assert snapshots_in(log.directory) == []


# Failed writes


@pytest.mark.parametrize("config", [{}, NO_WAIT], ids=["durable", "weak"])
@pytest.mark.parametrize("on", [".txnindex", ".log"])
@pytest.mark.parametrize("size", [0, 10, 33])
def test_no_room_for_a_marker_or_its_entry(on: str, size: int, config: dict[str, Any], tmp_path: Path) -> None:
    """Rolled back: the transaction is open, and may end either way."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path, config, disk=disk) as log:
        log.append(in_txn(1, 0, number=10))
        abort(log, 2)
        log.append(in_txn(2, 0, number=20))
        for _ in range(2):
            if size:
                disk.shorten(1, size=size, on=on, then=errno.ENOSPC)
            else:
                disk.fail(1, error=errno.ENOSPC, kind="write", on=on)
            known, stable = producers_of(log), log.last_stable_offset
            with pytest.raises(DiskFullError):
                abort(log, 1)
            disk.heal()
            assert producers_of(log) == known
            assert log.last_stable_offset == stable == 0
            assert aborted_on_disk(log) == []
            check_log(log)
        commit(log, 1)
        abort(log, 2)
        assert aborted_on_disk(log) == [AbortedTxn(2, 2, 4, 5)]
        assert committed_numbers(log) == [10]
    with open_small(tmp_path, config) as log:
        assert committed_numbers(log) == [10]


ENDS: dict[str, Callable[[Log, int], int]] = {"commit": commit, "abort": abort}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("then", ENDS)
@pytest.mark.parametrize("has_index", [False, True])
def test_an_abort_that_is_interrupted_at_each_call(moment: Moment, then: str, has_index: bool, tmp_path: Path) -> None:
    """Interrupted, the transaction is open or aborted, nothing in between; if it is open it can be ended either way, for good."""
    for nth in range(1, 30):
        disk = FaultyDisk(QuietDisk())
        home = tmp_path / f"home-{nth}"
        with open_small(home, disk=disk) as log:
            if has_index:
                log.append(in_txn(5, 0, number=50))
                abort(log, 5)
            log.append(in_txn(1, 0, number=10))
            disk.interrupt(nth, moment=moment)
            try:
                abort(log, 1)
            except KeyboardInterrupt:
                where = disk.fired[0]
            else:
                disk.heal()
                assert nth > 2
                return
            disk.heal()
            if state_of(log).failure is not None:
                continue
            is_open = producers_of(log)[1].transaction_start >= 0
            own = [entry for entry in aborted_on_disk(log) if entry.producer_id == 1]
            assert len(own) == (not is_open), (where, own)
            log.flush()  # interrupted in its sync, the marker is there, but not for readers
            assert (log.last_stable_offset < log.log_end_offset) == is_open, where
            if is_open:
                ENDS[then](log, 1)
            log.append(in_txn(1, 1, number=11))
            commit(log, 1)
            expected = [10, 11] if is_open and then == "commit" else [11]
            assert committed_numbers(log) == expected, where
            killed = copy_home(log, tmp_path / f"killed-{nth}")
        for again, is_clean in ((home, None), (killed, False)):
            with open_small(again, last_shutdown_clean=is_clean) as log:
                assert committed_numbers(log) == expected, (where, is_clean)
    pytest.fail("always interrupted")


# As a follower


def leaders_bytes(tmp_path: Path) -> tuple[bytes, list[int], list[AbortedTxn], dict[int, Any]]:
    with open_small(tmp_path / "leader") as log:
        expected = story(log)
        data = b"".join(batch.data for batch in stored_batches(log))
        return data, expected, aborted_on_disk(log), producers_of(log)


def test_a_follower_of_everything_in_one_call(tmp_path: Path) -> None:
    """Several producers, transactions that begin and end in the same call. As in Kafka all of its beginnings come before all of its
    ends, so the last stable offset in an entry may be another than the leader's; what is read is the same."""
    data, expected, entries, known = leaders_bytes(tmp_path)
    with open_small(tmp_path / "follower") as log:
        log.append_as_follower(data)
        assert log.last_stable_offset == 0
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == 8
        assert producers_of(log) == known
        assert entries
        assert [entry[:3] for entry in aborted_on_disk(log)] == [entry[:3] for entry in entries]
        assert committed_numbers(log) == expected
        for offset in range(log.log_end_offset):
            fetched = log.fetch(offset, 1, isolation="committed")
            assert set(numbers(list(fetched.records()))) <= set(expected)


def test_a_follower_batch_by_batch(tmp_path: Path) -> None:
    data, expected, entries, known = leaders_bytes(tmp_path)
    with open_small(tmp_path / "follower") as log:
        position = 0
        while position < len(data):
            end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            log.append_as_follower(data[position:end])
            position = end
        log.high_watermark = log.log_end_offset
        assert aborted_on_disk(log) == entries
        assert producers_of(log) == known
        assert committed_numbers(log) == expected


def test_a_follower_with_tiny_indexes(tmp_path: Path) -> None:
    """One call goes into several segments: entries go with their markers."""
    data, expected, entries, known = leaders_bytes(tmp_path)
    config = {"segment.index.bytes": 24, "index.interval.bytes": 0}
    with open_small(tmp_path / "follower", config) as log:
        log.append_as_follower(data)
        log.high_watermark = log.log_end_offset
        assert len(log.segments) > 2
        assert producers_of(log) == known
        assert [entry[:3] for entry in aborted_on_disk(log)] == [entry[:3] for entry in entries]
        for path in Path(log.directory).glob("*.txnindex"):
            assert all(entry.last_offset >= int(path.stem) for entry in parse_entries(path.read_bytes()))
        assert committed_numbers(log) == expected
        check_log(log)


def test_a_followers_failed_entry_is_rolled_back(tmp_path: Path) -> None:
    data, expected, _, known = leaders_bytes(tmp_path)
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path / "follower", disk=disk) as log:
        for nth, on in ((1, ".txnindex"), (2, ".txnindex"), (1, ".log")):
            disk.fail(nth, error=errno.ENOSPC, kind="write", on=on)
            with pytest.raises(DiskFullError):
                log.append_as_follower(data)
            disk.heal()
            assert producers_of(log) == {}
            assert log.log_end_offset == 0
            assert aborted_on_disk(log) == []
        log.append_as_follower(data)
        log.high_watermark = log.log_end_offset
        assert producers_of(log) == known
        assert committed_numbers(log) == expected


def test_a_run_begins_transactions(tmp_path: Path) -> None:
    with open_small(tmp_path, SMALL) as log:
        log.append_run([in_txn(1, 0, number=10), in_txn(2, 0, number=20), numbered(1), in_txn(1, 1, number=11), numbered(2)])
        assert log.last_stable_offset == 0
        abort(log, 1)
        assert log.last_stable_offset == 1
        commit(log, 2)
        assert committed_numbers(log) == [20, 1, 2]


def test_what_was_stable_stays_stable(tmp_path: Path) -> None:
    """A transaction whose marker was below the high watermark is forgotten, also if the watermark is taken back."""
    with open_small(tmp_path) as log:
        log.high_watermark = 0
        log.append(in_txn(1, 0))
        commit(log, 1)
        log.append(sent(2, 0))
        log.high_watermark = 1
        assert log.last_stable_offset == 0
        log.high_watermark = 3
        assert log.last_stable_offset == 3
        log.high_watermark = 1
        assert log.last_stable_offset == 1


@pytest.mark.parametrize("config", [{}, {"segment.index.bytes": 24, "index.interval.bytes": 0}], ids=["one-segment", "a-batch-a-segment"])
def test_a_followers_call_is_refused_as_a_whole(config: dict[str, Any], tmp_path: Path) -> None:
    """The third batch breaks its producer's transaction: nothing of the call stays, nothing was rolled, and the offset is free."""
    with open_small(tmp_path, config) as log:
        log.append_as_follower(placed(0, in_txn(1, 0)))
        before = files_of(Path(log.directory))
        call = placed(1, in_txn(1, 1)) + placed(2, in_txn(1, 2)) + placed(9, sent(1, 3))
        with pytest.raises(InvalidTxnStateError):
            log.append_as_follower(call)
        assert files_of(Path(log.directory)) == before
        assert (log.log_end_offset, len(log.segments), producers_of(log)[1].last_sequence) == (1, 1, 0)
        log.append_as_follower(placed(1, in_txn(1, 1)))


def test_an_empty_segment_that_is_rolled_is_a_new_one(tmp_path: Path) -> None:
    """An abort was all it held. Kafka deletes the empty segment and makes another; the file of its transaction index goes with it."""
    with open_small(tmp_path) as log:
        log.append(in_txn(1, 0))
        log.roll()
        abort(log, 1)
        log.truncate_to(1)
        index = Path(log.directory) / f"{1:020}.txnindex"
        assert index.read_bytes() == b""
        log.roll()
        assert not index.exists()
        assert abort(log, 1) == 1
        assert aborted_on_disk(log) == [AbortedTxn(1, 0, 1, 2)]
    with open_small(tmp_path) as log:
        assert committed_numbers(log) == []
