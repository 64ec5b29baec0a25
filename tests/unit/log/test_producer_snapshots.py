"""Producer snapshots: their bytes, when they are taken and when they go, and what is known again after a log was cut or opened."""

import errno
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, FakeClock, QuietDisk, check_log, copy_home, files_of, numbered, state_of
from tests.support.producers import abort, commit, in_txn, newest_only, open_small, placed, producers_of, read_snapshot, sent, snapshots_in
from tidelog.errors import CorruptFileError, DiskFullError, OutOfOrderSequenceError
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import format_snapshot, parse_snapshot
from tidelog.log.producers import BatchMetadata, ProducerEntry

SMALL = {"internal.segment.bytes": 300, "index.interval.bytes": 0}
"""Three batches a segment."""

# Facts 1.7: one producer; then those that have no batch, an open transaction, or the largest numbers there are.
GOLDEN = "0001cf53416b000000010000000000000009000100000018000000000000000e000000040000018bcfe56800ffffffffffffffffffffffff"
NINE = ProducerEntry(9, 1, -1, TIME, -1, (BatchMetadata(24, 14, 4, TIME),))
MANY = [
    NINE,
    ProducerEntry(0, 0, 3, TIME + 1, -1),
    ProducerEntry(2**63 - 1, 32767, 2**31 - 1, 2**62, 2**62, (BatchMetadata(2**31 - 1, 2**62, 2**31 - 1, 2**62),)),
]


# Bytes


def test_golden_bytes() -> None:
    assert format_snapshot([NINE]).hex() == GOLDEN
    assert parse_snapshot(bytes.fromhex(GOLDEN), "a path") == [NINE]


def test_no_producers_are_ten_bytes() -> None:
    content = format_snapshot([])
    assert len(content) == 10
    assert parse_snapshot(content, "a path") == []


def test_what_is_written_is_read() -> None:
    content = format_snapshot(MANY)
    assert len(content) == 10 + 46 * 3
    assert parse_snapshot(content, "a path") == MANY


def test_only_the_newest_batch_is_kept_with_the_last_timestamp() -> None:
    entry = NINE._replace(last_timestamp_ms=TIME + 7, batches=(BatchMetadata(1, 2, 0, TIME - 1), *NINE.batches))
    assert parse_snapshot(format_snapshot([entry]), "a path") == [
        NINE._replace(last_timestamp_ms=TIME + 7, batches=(BatchMetadata(24, 14, 4, TIME + 7),))
    ]


def test_every_cut_is_refused() -> None:
    content = format_snapshot(MANY)
    for size in range(len(content)):
        with pytest.raises(CorruptFileError) as raised:
            parse_snapshot(content[:size], "a path")
        assert raised.value.path == "a path"
    with pytest.raises(CorruptFileError):
        parse_snapshot(content + b"\0", "a path")
    with pytest.raises(CorruptFileError):
        parse_snapshot(bytes(len(content)), "a path")


def test_every_flipped_bit_is_refused() -> None:
    content = format_snapshot(MANY)
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            with pytest.raises(CorruptFileError):
                parse_snapshot(bytes(damaged), "a path")


@pytest.mark.parametrize("count", [0, 2, 4, -1, 2**31 - 1])
def test_a_count_that_is_not_that_of_the_entries(count: int) -> None:
    body = struct.pack(">i", count) + format_snapshot(MANY)[10:]
    with pytest.raises(CorruptFileError, match="another size than its entries"):
        parse_snapshot(struct.pack(">hI", 1, crc32c.crc32c(body)) + body, "a path")


# When they are taken


def test_on_roll_and_on_close(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(sent(1, 0, 2))
        assert snapshots_in(log.directory) == []
        log.roll()
        assert snapshots_in(log.directory) == [2]
        assert read_snapshot(log.directory, 2) == newest_only(producers_of(log))
        log.append(sent(1, 2))
        log.append(in_txn(2, 0))
        expected = newest_only(producers_of(log))
        assert expected[2].transaction_start == 3
    assert snapshots_in(log.directory) == [2, 4]
    assert read_snapshot(log.directory, 4) == expected


def test_a_snapshot_without_producers(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.append(numbered(0))
    assert (Path(log.directory) / f"{1:020}.snapshot").stat().st_size == 10
    with open_small(tmp_path) as log:
        pass
    assert snapshots_in(log.directory) == [1]


def test_an_empty_log_has_none(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        log.roll()
    assert snapshots_in(log.directory) == []


def test_when_the_log_rolls_by_itself(tmp_path: Path) -> None:
    with open_small(tmp_path, SMALL) as log:
        for sequence in range(8):
            log.append(sent(1, sequence))
            bases = [segment.base_offset for segment in log.segments][1:]
            assert snapshots_in(log.directory) == bases
        assert len(bases) > 1
        for base in bases:
            assert read_snapshot(log.directory, base)[1].last_sequence == base - 1


def test_in_a_run_over_several_segments(tmp_path: Path) -> None:
    with open_small(tmp_path, SMALL) as log:
        log.append_run([sent(1, sequence) for sequence in range(8)])
        bases = [segment.base_offset for segment in log.segments][1:]
        assert len(bases) > 1
        assert snapshots_in(log.directory) == bases
        for base in bases:
            assert read_snapshot(log.directory, base)[1].last_sequence == base - 1


def test_on_recovery(tmp_path: Path) -> None:
    """Before and behind what is recovered: at its base and at its end."""
    with open_small(tmp_path / "home", {"flush.messages": 1}) as log:
        log.append(sent(1, 0))
        log.roll()
        log.append(sent(1, 1))
        log.append(sent(1, 2))
        killed = copy_home(log, tmp_path / "killed")
        assert snapshots_in(killed / "tide-0") == [1]
    for path in (killed / "tide-0").glob("*.snapshot"):
        path.unlink()
    with open_small(killed, last_shutdown_clean=False) as log:
        assert snapshots_in(log.directory) == [1, 3]
        assert read_snapshot(log.directory, 1)[1].last_sequence == 0
        assert producers_of(log)[1].last_sequence == 2


def test_on_truncation(tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        for sequence in range(4):
            log.append(sent(1, sequence))
        log.truncate_to(3)
        assert snapshots_in(log.directory) == [3]
        assert read_snapshot(log.directory, 3)[1].last_sequence == 2
        log.roll()
        assert snapshots_in(log.directory) == [3]
        log.append(sent(1, 3))
    assert snapshots_in(log.directory) == [3, 4]


def test_none_of_a_log_that_was_begun_anew(tmp_path: Path) -> None:
    """Nothing is known of producers, so there is nothing to write down before something is appended."""
    with open_small(tmp_path) as log:
        log.append(sent(1, 0))
        log.roll()
        log.truncate_fully_and_start_at(24)
    assert snapshots_in(log.directory) == []
    with open_small(tmp_path) as log:
        assert snapshots_in(log.directory) == [24]  # as of any log that was closed in order and has none
        log.append(sent(1, 0))
    assert snapshots_in(log.directory) == [24, 25]


# Which are used on opening


def three_segments(home: Path, config: dict[str, Any] | None = None) -> dict[int, ProducerEntry]:
    """Closed, with bases 0, 2 and 4 and the end at 6: the producers."""
    with open_small(home, config) as log:
        for sequence in range(6):
            if sequence in (2, 4):
                log.roll()
            log.append(sent(1, sequence) if sequence < 5 else in_txn(1, sequence))
        assert snapshots_in(log.directory) == [2, 4]
        producers = producers_of(log)
    assert snapshots_in(log.directory) == [2, 4, 6]
    return producers


@pytest.mark.parametrize(
    ("damage", "how_many"),
    [
        (damage, how_many)
        for damage in ("missing", "empty", "cut", "flipped", "zeros")
        for how_many in (1, 2, 3)
        if (damage, how_many) != ("missing", 3)
    ],
)
def test_a_bad_snapshot_gives_way_to_the_one_before_it(damage: str, how_many: int, tmp_path: Path) -> None:
    producers = three_segments(tmp_path)
    directory = tmp_path / "tide-0"
    for offset in (6, 4, 2)[:how_many]:
        path = directory / f"{offset:020}.snapshot"
        content = bytearray(path.read_bytes())
        if damage == "missing":
            path.unlink()
            continue
        content[20] ^= 1
        path.write_bytes({"empty": b"", "cut": bytes(content[:-1]), "flipped": bytes(content), "zeros": bytes(len(content))}[damage])
    with open_small(tmp_path) as log:
        entry = producers_of(log)[1]
        assert entry.transaction_start == 5
        assert entry.last_sequence == 5
        # The batches behind the snapshot that was used are known again, and so are duplicates of them.
        newest = (6, 4, 2, 0)[how_many]
        assert [batch.last_offset for batch in entry.batches] == [batch.last_offset for batch in producers[1].batches][-(6 - newest + 1) :]
        # Of those that were bad, the last two bases and the end are there again.
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert read_snapshot(log.directory, 6) == newest_only(producers_of(log))


@pytest.mark.leaves("snapshot-transaction")
def test_closed_in_order_without_any_snapshot(tmp_path: Path) -> None:
    """A log of a release that had none: nothing is read, and there are empty ones at the last two bases and at the end."""
    three_segments(tmp_path)
    directory = tmp_path / "tide-0"
    for offset in (2, 4, 6):
        (directory / f"{offset:020}.snapshot").unlink()
    with open_small(tmp_path) as log:
        assert producers_of(log) == {}
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert log.last_stable_offset == 6


def test_killed_without_any_snapshot(tmp_path: Path) -> None:
    producers = three_segments(tmp_path)
    for offset in (2, 4, 6):
        (tmp_path / "tide-0" / f"{offset:020}.snapshot").unlink()
    with open_small(tmp_path, last_shutdown_clean=False, recovery_point=0) as log:
        assert producers_of(log) == newest_only(producers)  # from the snapshot that recovery took at the end
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert log.last_stable_offset == 5


def test_strays(tmp_path: Path) -> None:
    """Of those that belong to no segment only the newest stays, if it is behind the last base."""
    producers = three_segments(tmp_path)
    directory = tmp_path / "tide-0"
    good = (directory / f"{6:020}.snapshot").read_bytes()
    for offset in (1, 3, 5):
        (directory / f"{offset:020}.snapshot").write_bytes(good)
    with open_small(tmp_path) as log:
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert producers_of(log) == newest_only(producers)


def test_snapshots_behind_the_end_go(tmp_path: Path) -> None:
    producers = three_segments(tmp_path)
    directory = tmp_path / "tide-0"
    (directory / f"{9:020}.snapshot").write_bytes(format_snapshot([NINE]))
    with open_small(tmp_path) as log:
        assert 9 not in snapshots_in(log.directory)
        assert producers_of(log)[1].last_sequence == producers[1].last_sequence
        assert 9 not in producers_of(log)


def test_a_file_whose_name_is_almost_that_of_a_snapshot(tmp_path: Path) -> None:
    three_segments(tmp_path)
    directory = tmp_path / "tide-0"
    (directory / f"{6:020}.snapshot.tmp").write_bytes(b"half")
    (directory / f"{6:020}.snapshot.deleted").write_bytes(b"half")
    with open_small(tmp_path) as log:
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert not any(name.endswith((".deleted", ".tmp")) for name in files_of(log))


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_small(tmp_path, clock=clock, producer_id_expiration_ms=100) as log:
        log.append(sent(1, 0))
        log.append(in_txn(2, 0))
        log.append(sent(3, 0, timestamp_ms=TIME + 1))
    for now_ms, expected in ((TIME + 99, {1, 2, 3}), (TIME + 100, {2, 3}), (TIME + 101, {2})):
        clock.now_ms = now_ms
        with open_small(tmp_path, clock=clock, producer_id_expiration_ms=100) as log:
            assert set(producers_of(log)) == expected
    with open_small(tmp_path, clock=clock) as log:
        assert log.last_stable_offset == 1


@pytest.mark.leaves("producer-sequence")
def test_producers_that_fall_silent_are_forgotten(tmp_path: Path) -> None:
    with open_small(tmp_path, producer_id_expiration_ms=100) as log:
        log.append(sent(1, 4))
        log.append(in_txn(2, 0))
        state_of(log).producers.remove_expired(TIME + 99)
        assert set(producers_of(log)) == {1, 2}
        state_of(log).producers.remove_expired(TIME + 100)
        assert set(producers_of(log)) == {2}
        assert log.append(sent(1, 77))[:2] == (2, 2)  # unknown, so any sequence number


# When they go


def test_deleted_with_their_segment(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_small(tmp_path, {**SMALL, "file.delete.delay.ms": 100}, clock=clock) as log:
        for sequence in range(9):
            log.append(sent(1, sequence))
        bases = [segment.base_offset for segment in log.segments]
        assert log.delete_segments(2, "a test") == 2
        assert snapshots_in(log.directory) == bases[2:]
        assert f"{bases[1]:020}.snapshot.deleted" in files_of(log)
        clock.advance(100)
        log.checkpoint()
        assert not any(name.endswith(".deleted") for name in files_of(log))
        assert producers_of(log)[1].last_sequence == 8
        check_log(log)
    with open_small(tmp_path, SMALL) as log:
        # Facts 6.7: those at or below the log start go when it is opened.
        assert snapshots_in(log.directory) == [*bases[3:], 9]
        assert producers_of(log)[1].last_sequence == 8


def test_those_below_the_start_go_when_it_is_opened(tmp_path: Path) -> None:
    three_segments(tmp_path)
    with open_small(tmp_path) as log:
        assert log.delete_records_before(3) == 3
        assert snapshots_in(log.directory) == [2, 4, 6]
        assert producers_of(log)[1].last_sequence == 5
    with open_small(tmp_path) as log:
        assert snapshots_in(log.directory) == [4, 6]
        assert producers_of(log)[1].last_sequence == 5


@pytest.mark.leaves("producer-sequence")
def test_after_everything_was_deleted_producers_are_known_until_the_log_is_opened(tmp_path: Path) -> None:
    """As in Kafka: a snapshot at the log start does not count, so a log that begins at its end knows nobody."""
    with open_small(tmp_path) as log:
        log.append(sent(1, 0))
        log.append(sent(1, 1))
        log.delete_records_before(-1)
        assert log.append(sent(1, 1))[:2] == (1, 1)  # a duplicate of what cannot be read any more
        with pytest.raises(OutOfOrderSequenceError):
            log.append(sent(1, 5))
    with open_small(tmp_path) as log:
        assert log.log_start_offset == log.log_end_offset == 2
        assert producers_of(log) == {}
        assert log.append(sent(1, 5))[:2] == (2, 2)


def test_truncation_takes_those_behind_it(tmp_path: Path) -> None:
    three_segments(tmp_path)
    with open_small(tmp_path) as log:
        assert log.truncate_to(3)
        assert snapshots_in(log.directory) == [2, 3]
        assert producers_of(log)[1].last_sequence == 2
        assert log.append(sent(1, 3))[:2] == (3, 3)
        check_log(log)


# What is known after a cut


def history(log: Log) -> list[dict[int, ProducerEntry]]:
    """Three producers and their transactions, with a roll now and then: what is known after each of the offsets."""
    known = [producers_of(log)]
    steps: list[Callable[[], object]] = [
        lambda: log.append(sent(1, 0)),
        lambda: log.append(in_txn(2, 0)),
        lambda: log.append(in_txn(3, 0)),
        lambda: log.append(sent(1, 1)),
        lambda: abort(log, 2),
        lambda: log.append(sent(2, 1)),
        lambda: commit(log, 3, epoch=1),
        lambda: log.append(in_txn(3, 0, epoch=1)),
        lambda: log.append(in_txn(2, 2)),
        lambda: log.append(sent(1, 0, epoch=1)),
        lambda: abort(log, 2, coordinator_epoch=4),
        lambda: log.append(sent(1, 1, epoch=1)),
    ]
    for number, step in enumerate(steps):
        if number in (3, 7, 10):
            log.roll()
        step()
        assert log.log_end_offset == number + 1
        known.append(producers_of(log))
    return known


def seen(producers: dict[int, ProducerEntry]) -> dict[int, Any]:
    """What comes back from a snapshot and the batches behind it for sure: all but older batches."""
    return {
        producer_id: (entry.epoch, entry.last_sequence, entry.transaction_start, entry.coordinator_epoch, entry.last_timestamp_ms)
        for producer_id, entry in producers.items()
    }


@pytest.mark.parametrize("offset", range(12))
def test_truncated_producers_are_where_they_were(offset: int, tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        known = history(log)
        assert log.truncate_to(offset)
        assert seen(producers_of(log)) == seen(known[offset])
        starts = [entry.transaction_start for entry in known[offset].values() if entry.transaction_start >= 0]
        assert log.last_stable_offset == min([*starts, offset])
        check_log(log)
    with open_small(tmp_path) as log:
        assert seen(producers_of(log)) == seen(known[offset])


@pytest.mark.parametrize("offset", range(13))
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_killed_producers_are_where_they_were(offset: int, has_snapshots: bool, tmp_path: Path) -> None:
    """The log as a process leaves it that was killed when it had so many records."""
    with open_small(tmp_path / "home") as log:
        known = history(log)
        log.truncate_to(offset)
        killed = copy_home(log, tmp_path / "killed")
    if not has_snapshots:
        for path in (killed / "tide-0").glob("*.snapshot"):
            path.unlink()
    with open_small(killed, last_shutdown_clean=False) as log:
        assert seen(producers_of(log)) == seen(known[offset])
        assert snapshots_in(log.directory)[-1:] == ([offset] if offset else [])
    with open_small(killed) as log:
        assert seen(producers_of(log)) == seen(known[offset])


@pytest.mark.parametrize("offset", [0, 5, 40])
def test_a_log_that_begins_anew_knows_nobody(offset: int, tmp_path: Path) -> None:
    with open_small(tmp_path) as log:
        history(log)
        log.truncate_fully_and_start_at(offset)
        assert producers_of(log) == {}
        assert snapshots_in(log.directory) == []
        assert log.last_stable_offset == offset
        assert log.append(sent(1, 9))[:2] == (offset, offset)
    with open_small(tmp_path) as log:
        assert producers_of(log)[1].last_sequence == 9
        assert set(producers_of(log)) == {1}


@pytest.mark.parametrize("start", range(1, 12))
def test_a_log_that_starts_further_on_knows_all(start: int, tmp_path: Path) -> None:
    with open_small(tmp_path / "home") as log:
        known = history(log)[-1]
        log.delete_records_before(start)
        assert producers_of(log) == known
        killed = copy_home(log, tmp_path / "killed")
    with open_small(tmp_path / "home") as log:
        assert seen(producers_of(log)) == seen(known)
    with open_small(killed, last_shutdown_clean=False) as log:
        # What a snapshot at or below the start knew, and no batch above it says, is gone.
        for producer_id, entry in producers_of(log).items():
            assert entry.epoch == known[producer_id].epoch
            assert entry.last_sequence in (known[producer_id].last_sequence, -1)


def test_a_failed_snapshot_does_not_harm_the_roll(tmp_path: Path) -> None:
    """A full disk: the roll is refused, the log goes on, and the next try writes the snapshot."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path / "home", disk=disk) as log:
        log.append(sent(1, 0))
        disk.shorten(1, size=20, on=".snapshot", then=errno.ENOSPC)
        with pytest.raises(DiskFullError):
            log.roll()
        disk.heal()
        killed = copy_home(log, tmp_path / "killed")
        log.roll()
        assert read_snapshot(log.directory, 1)[1].last_sequence == 0
        log.append(sent(1, 1))
        check_log(log)
    with open_small(killed, last_shutdown_clean=False) as log:
        assert producers_of(log)[1].last_sequence == 0
        log.append(sent(1, 1))


@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_a_roll_over_a_gap_that_is_taken_back_leaves_no_snapshot_in_the_future(kind: str, tmp_path: Path) -> None:
    """A follower's segment was to begin at offset 10. The snapshot for it knows what was known at 3; when the log comes to 10 by another
    way, that must not be what is known there."""
    disk = FaultyDisk(QuietDisk())
    with open_small(tmp_path / "home", SMALL, disk=disk) as log:
        for offset in range(3):
            log.append_as_follower(placed(offset, sent(1, offset)))
        if kind == "failed":
            disk.fail(1, error=errno.ENOSPC, kind="create", on=".log")
        else:
            disk.interrupt(1, kind="create", on=".log", moment="after")
        with pytest.raises(DiskFullError if kind == "failed" else KeyboardInterrupt):
            log.append_as_follower(placed(10, sent(1, 3)))
        disk.heal()
        log.high_watermark = log.log_end_offset
        assert log.log_end_offset == 3
        log.append_run([sent(2, sequence) for sequence in range(7)])
        log.roll()
        assert log.log_end_offset == 10
        assert snapshots_in(log.directory) == [segment.base_offset for segment in log.segments[1:]]
        killed = copy_home(log, tmp_path / "killed")
    for home, is_clean in ((tmp_path / "home", None), (killed, False)):
        with open_small(home, SMALL, last_shutdown_clean=is_clean) as log:
            assert log.append(sent(2, 6))[:2] == (9, 9)
