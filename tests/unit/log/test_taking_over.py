"""A file of ready batches becomes a segment: the log is what it would be had they been appended, whatever goes wrong on the way."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_session import placed
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, check_log, copy_home, number_of, numbered, open_log, state_of
from tests.support.readers import open_reader
from tests.unit.log.test_producer_stamp import end_transaction, files_of, plain_and_stamped
from tidelog.errors import CorruptBatchError, LogFailedError, RefusedBatchError, StorageError, TidelogError
from tidelog.log import segment, taking_over
from tidelog.log.log import Log
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.log.read_only import ReadOnlyLog

STAMP = ProducerStamp(77, 3, 0)
DAY_MS = 86_400_000


def staged(path: Path, *batches: bytes) -> str:
    path.write_bytes(b"".join(batches))
    return str(path)


def numbers(log: Log | ReadOnlyLog) -> list[int]:
    return [number_of(record) for record in log.read(isolation="log_end")]


@pytest.mark.parametrize("config", [{}, {"message.timestamp.type": "LogAppendTime"}, {"index.interval.bytes": 0}], ids=str)
@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("behind", [0, 2], ids=["into an empty log", "behind others"])
@pytest.mark.parametrize("piece_bytes", [150, 1 << 20])
def test_the_log_has_the_same_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, object], compression: str, behind: int, piece_bytes: int
) -> None:
    monkeypatch.setattr(taking_over, "PIECE_BYTES", piece_bytes)
    plain, stamped = plain_and_stamped(0, compression)
    with open_log(tmp_path / "one", config) as one, open_log(tmp_path / "two", config) as two:
        for log in (one, two):
            log.append_run([numbered(number) for number in range(behind)])
        info = one.append_file(staged(tmp_path / "staged", *plain), STAMP)
        infos = [two.append(batch) for batch in stamped]
        assert info is not None
        assert (info.first_offset, info.last_offset) == (infos[0].first_offset, infos[-1].last_offset)
        assert (info.max_timestamp_ms, info.log_append_time_ms) == (max(one.max_timestamp_ms for one in infos), infos[0].log_append_time_ms)
        assert files_of(one) == files_of(two)
        assert one.producer_entry(77) == two.producer_entry(77)
        assert one.open_transactions == two.open_transactions != ()
        assert one.last_stable_offset == two.last_stable_offset == behind
        assert [segment.base_offset for segment in one.segments] == [0, behind][: 1 + bool(behind)]
        assert not (tmp_path / "staged").exists()
        for log in (one, two):
            end_transaction(log)
            check_log(log)
        assert one.offset_for_time(TIME + 5) == two.offset_for_time(TIME + 5)
    with open_log(tmp_path / "one", config) as one, open_log(tmp_path / "two", config) as two:
        assert [*one.read()] == [*two.read()] != []
        assert one.load_report.cuts == []


def test_several_files_one_behind_the_other(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for number in range(3):
            path = staged(tmp_path / "staged", numbered(2 * number), numbered(2 * number + 1))
            assert log.append_file(path, ProducerStamp(77, 3, 2 * number)) is not None
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
        assert numbers(log) == list(range(6))
        log.append(numbered(6))
        assert numbers(log) == list(range(7))
        check_log(log)
        end_transaction(log)


@pytest.mark.parametrize(
    "config",
    [
        {"compression.type": "gzip"},
        {"internal.segment.bytes": 150},
        {"segment.ms": DAY_MS - 1},
        {"segment.index.bytes": 12},
    ],
    ids=str,
)
def test_what_the_log_would_not_have_written_like_this_is_left_to_be_appended(tmp_path: Path, config: dict[str, object]) -> None:
    content = [numbered(0, timestamp_ms=TIME - DAY_MS), numbered(1)]
    path = staged(tmp_path / "staged", *content)
    with open_log(tmp_path, config) as log:
        before = log.segments
        assert log.append_file(path, STAMP) is None
        assert (log.log_end_offset, log.segments, log.open_transactions) == (0, before, ())
    assert Path(path).read_bytes() == b"".join(content)


def test_a_file_elsewhere_or_of_somebody_else_is_left_to_be_appended(tmp_path: Path) -> None:
    class Elsewhere(FaultyDisk):
        def can_rename_into(self, path: str, directory: str) -> bool:
            return False

    class Strangers(FaultyDisk):
        def has_rights_of(self, path: str, like: str) -> bool:
            return False

    path = staged(tmp_path / "staged", numbered(0))
    for disk in (Elsewhere(), Strangers()):
        with open_log(tmp_path / type(disk).__name__, disk=disk) as log:
            assert log.append_file(path, STAMP) is None
            assert log.log_end_offset == 0
    refusing = FaultyDisk()
    with open_log(tmp_path / "refused", disk=refusing) as log:
        refusing.fail(1, kind="open", on="staged", error=errno.EACCES)
        assert log.append_file(path, STAMP) is None
    assert Path(path).read_bytes() == numbered(0)


def test_a_file_with_a_second_name_is_left_to_be_appended(tmp_path: Path) -> None:
    """Whoever has the other name would see it change, or could change the log."""
    path = staged(tmp_path / "staged", numbered(0))
    (tmp_path / "backup").hardlink_to(path)
    with open_log(tmp_path) as log:
        assert log.append_file(path, STAMP) is None
        assert log.log_end_offset == 0
    assert (tmp_path / "backup").read_bytes() == numbered(0)


@pytest.mark.parametrize("config", [{}, {"preallocate": True}], ids=str)
def test_a_file_that_the_system_does_not_rename_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, object]
) -> None:
    """Between directories that have quotas of their own it refuses, though they are on one file system."""
    monkeypatch.setattr(segment, "_COPY_BYTES", 100)
    disk, (plain, stamped) = FaultyDisk(), plain_and_stamped(0)
    with open_log(tmp_path / "one", config, disk=disk) as one, open_log(tmp_path / "two", config) as two:
        disk.fail(1, kind="rename", on=".log", error=errno.EXDEV)
        info = one.append_file(staged(tmp_path / "staged", *plain), STAMP)
        infos = [two.append(batch) for batch in stamped]
        assert info is not None
        assert [call.kind for call in disk.fired] == ["rename"]
        assert (info.first_offset, info.last_offset) == (infos[0].first_offset, infos[-1].last_offset)
        for log in (one, two):
            end_transaction(log)
            check_log(log)
    assert files_of(one) == files_of(two)
    with open_log(tmp_path / "one", config) as one:
        assert [record.value for record in one.read()] == [b"value %d" % number for number in range(info.last_offset + 1)]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, disk=disk) as log:
        disk.fail(1, kind="rename", on=".log", error=errno.EXDEV)
        disk.shorten(1, size=40, on="0.log", then=errno.ENOSPC)
        with pytest.raises(StorageError, match="rolled back"):
            log.append_file(staged(tmp_path / "staged", numbered(0)), STAMP)
        assert (log.log_end_offset, log.open_transactions) == (0, ())
        log.append(numbered(0))
        check_log(log)


def test_a_segment_that_begins_too_far_back_is_not_filled(tmp_path: Path) -> None:
    """A log that was cut in a gap may go on in an empty segment to which its offsets are not relative any more."""
    with open_log(tmp_path) as log:
        log.append_as_follower(placed(numbered(0), 3_000_000_000, 0))
        log.truncate_to(2_900_000_000)
        assert [segment.base_offset for segment in log.segments] == [0]
        assert log.append_file(staged(tmp_path / "staged", numbered(0)), STAMP) is None
        log.append(numbered(0))
        assert [segment.base_offset for segment in log.segments] == [0, 2_900_000_000]


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """It once was read again and again, with the log locked."""
    disk = FaultyDisk()
    path = staged(tmp_path / "staged", numbered(0))
    with open_log(tmp_path, disk=disk) as log:
        disk.run(1, lambda: Path(path).write_bytes(b""), kind="read", on="staged")
        with pytest.raises(CorruptBatchError, match="shorter"):
            log.append_file(path, STAMP)
        log.append(numbered(0))
        check_log(log)


def test_nobody_sees_the_batches_before_the_name_of_the_file_is_durable(tmp_path: Path) -> None:
    disk, ends = FaultyDisk(), list[int]()
    with open_log(tmp_path, disk=disk) as log:
        log.append(numbered(0))
        log.roll()
        disk.run(1, lambda: ends.append(log.log_end_offset), kind="sync_directory", on="tide-0", moment="after")
        log.append_file(staged(tmp_path / "staged", numbered(1)), STAMP)
        assert (ends, log.log_end_offset) == ([1], 2)


def test_a_reader_that_was_about_to_open_the_empty_file_does_not_keep_it_for_others(tmp_path: Path) -> None:
    """It opened the file before another took its name, and put it among the open ones only afterwards."""
    with open_log(tmp_path) as log:
        slow = log.segments[-1].file
        late = state_of(log).pool.open_file(slow.path)
        log.append_file(staged(tmp_path / "staged", numbered(0)), STAMP)
        slow.keep(late)
        assert numbers(log) == [0]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ([numbered(0), numbered(1)[:-1]], CorruptBatchError),
        ([numbered(0), numbered(1)[:-1] + b"?"], CorruptBatchError),
        ([numbered(0), numbered(1, producer_id=5, producer_epoch=0, base_sequence=0)], RefusedBatchError),
        ([numbered(0), numbered(1, timestamp_ms=TIME + 400 * DAY_MS)], TidelogError),
    ],
    ids=["cut off", "another byte", "a producer", "a time"],
)
def test_what_is_refused_changes_nothing(tmp_path: Path, content: list[bytes], error: type[Exception]) -> None:
    path = staged(tmp_path / "staged", *content)
    with open_log(tmp_path) as log:
        log.append(numbered(0))
        with pytest.raises(error):
            log.append_file(path, STAMP)
        assert (log.log_end_offset, len(log.segments), log.open_transactions) == (1, 1, ())
        log.append(numbered(1))
        check_log(log)
    assert Path(path).read_bytes() == b"".join(content)


@pytest.mark.parametrize(
    ("piece_bytes", "codec"), [(150, "producer"), (1 << 20, "producer"), (1 << 20, "gzip")], ids=["in pieces", "at once", "built anew"]
)
@pytest.mark.parametrize(
    ("byte", "value", "at"), [(-1, 0xFF, 0), (16, 3, 16), (8, 0xFF, 0)], ids=["another byte", "another format", "a size that cannot be"]
)
def test_the_error_says_where_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte: int, value: int, at: int, piece_bytes: int, codec: str
) -> None:
    """It once was where in the batch, or in the piece of the file that was in memory, or behind batches as they are in another codec."""
    monkeypatch.setattr(taking_over, "PIECE_BYTES", piece_bytes)
    good, bad = [numbered(number) for number in range(5)], bytearray(numbered(5))
    bad[byte] = value
    path = staged(tmp_path / "staged", *good, bytes(bad), numbered(6))
    with open_log(tmp_path, {"compression.type": codec}) as log:
        with pytest.raises(TidelogError) as caught:
            log.append_file(path, STAMP)
        assert (caught.value.path, caught.value.position) == (path, sum(map(len, good)) + at)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with open_log(tmp_path) as log, pytest.raises(StorageError, match="opening a file of batches failed"):
        log.append_file(str(tmp_path / "staged"), STAMP)


def test_a_reader_in_another_process_sees_the_file_that_took_the_place_of_an_empty_one(tmp_path: Path) -> None:
    with open_log(tmp_path) as log, open_reader(tmp_path / "tide-0") as reader:
        assert numbers(reader) == []
        log.append_file(staged(tmp_path / "staged", numbered(0, 3)), STAMP)
        assert [*reader.read()] == []
        log.wait_until_durable(3)
        assert [number_of(record) for record in reader.read(isolation="high_watermark")] == [0, 1, 2]
        assert list(reader.read(isolation="committed")) == []
        end_transaction(log)
        assert [number_of(record) for record in reader.read(isolation="committed")] == [0, 1, 2]


ADDS = 4


def take(log: Log, home: Path) -> object:
    return log.append_file(staged(home / "staged", numbered(log.log_end_offset, 2), numbered(log.log_end_offset + 2, 2)), STAMP)


def prepared(home: Path, disk: FaultyDisk, behind: int) -> Log:
    log = open_log(home, {"index.interval.bytes": 0}, disk=disk)
    for number in range(behind):
        log.append(numbered(number))
    return log


def faults() -> list[tuple[str, Callable[[FaultyDisk, int], None]]]:
    found: list[tuple[str, Any]] = [
        (f"interrupt {moment}", lambda disk, nth, moment=moment: disk.interrupt(nth, moment=moment)) for moment in ("before", "after")
    ]
    found += [
        (f"{errno.errorcode[error]} {moment}", lambda disk, nth, error=error, moment=moment: disk.fail(nth, error=error, moment=moment))
        for error in (errno.EIO, errno.ENOSPC, errno.EMFILE)
        for moment in ("before", "after")
    ]
    return found


@pytest.mark.parametrize("behind", [0, 2], ids=["into an empty log", "behind others"])
@pytest.mark.parametrize(("name", "order"), faults(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_fault_at_each_call(tmp_path: Path, name: str, order: Callable[[FaultyDisk, int], None], behind: int) -> None:
    disk = FaultyDisk()
    with prepared(tmp_path / "counted", disk, behind) as log:
        mark = disk.count()
        take(log, tmp_path)
        calls = disk.count() - mark
    assert calls > 8
    has_failed = [fault_at(tmp_path / f"home-{nth}", order, nth, behind) for nth in range(1, calls + 1)]
    assert sum(has_failed) <= calls // 2, "most are recoverable; to fail for good everywhere would be too easy"


def fault_at(home: Path, order: Callable[[FaultyDisk, int], None], nth: int, behind: int) -> bool:
    disk = FaultyDisk()
    with prepared(home, disk, behind) as log:
        order(disk, nth)
        answer: object = None
        with suppress(TidelogError, KeyboardInterrupt):
            answer = take(log, home)
        where = disk.fired[0] if disk.fired else None
        disk.heal()
        end = log.log_end_offset
        assert end in (behind, behind + ADDS), where
        assert answer is None or end == behind + ADDS, where
        assert numbers(log) == list(range(end)), where
        has_failed = state_of(log).failure is not None
        if has_failed:
            with pytest.raises(LogFailedError, match="takes no more writes"):
                log.append(numbered(end))
        else:
            log.append(numbered(end))
            end += 1
            check_log(log)
        killed = copy_home(log, home.with_name(home.name + "-killed"))
    with open_log(killed, last_shutdown_clean=False) as log:
        assert has_failed or numbers(log) == list(range(end)), where
        assert numbers(log) == list(range(log.log_end_offset)), where
        assert log.log_end_offset >= behind, where
        assert has_failed or log.load_report.cuts == [], where
    with open_log(home) as log:
        assert numbers(log) == list(range(log.log_end_offset)), where
        log.append(numbered(log.log_end_offset))
        check_log(log)
    return has_failed
