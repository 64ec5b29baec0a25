"""Appending: what is refused leaves no trace, a run is the same as one by one, epochs only go up, followers take offsets as they come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import batch_of_payload, message, patched
from tests.support.logs import TIME, FakeClock, a_batch, check_log, files_of, follower_batches, number_of, numbered, open_log
from tidelog.disk.disk import Buffer
from tidelog.errors import (
    ChecksumError,
    CorruptBatchError,
    InvalidTimestampError,
    LogClosedError,
    MessageTooLargeError,
    RecordListTooLargeError,
    RefusedBatchError,
    TidelogError,
    UnexpectedOffsetError,
    UnsupportedMagicError,
)
from tidelog.log.append_queue import AppendRequest
from tidelog.log.log import Log
from tidelog.record import ControlType, NewBatch, RecordBatch, transaction_marker

HOUR_MS = 3_600_000
GOOD = a_batch()
TINY = {"internal.segment.bytes": 300, "index.interval.bytes": 0}

# Refusals: what, the batch, the error, and settings of the log beside the usual.
REFUSED: list[tuple[str, Buffer, type[TidelogError], dict[str, Any]]] = [
    ("nothing", b"", CorruptBatchError, {}),
    ("a piece of a header", GOOD[:40], CorruptBatchError, {}),
    ("a batch cut off", GOOD[:-1], CorruptBatchError, {}),
    ("bytes behind it", GOOD + b"x", RefusedBatchError, {}),
    ("two batches", GOOD + GOOD, RefusedBatchError, {}),
    ("offsets already", a_batch(base_offset=5), RefusedBatchError, {}),
    ("too large", a_batch(value=bytes(200)), MessageTooLargeError, {"max.message.bytes": 100}),
    ("larger than a segment", a_batch(value=bytes(200)), RecordListTooLargeError, {"internal.segment.bytes": 200}),
    ("a wrong CRC", GOOD[:-3] + b"x" + GOOD[-2:], ChecksumError, {}),
    ("magic 1", message(0, b"k", b"v"), UnsupportedMagicError, {}),
    ("magic 3", GOOD[:16] + b"\3" + GOOD[17:], UnsupportedMagicError, {}),
    (
        "a control batch",
        transaction_marker(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=TIME),
        RefusedBatchError,
        {},
    ),
    ("no records", batch_of_payload(b"", count=0), RefusedBatchError, {}),
    ("a count that is not the offsets'", patched(GOOD, 57, (2).to_bytes(4, "big")), RefusedBatchError, {}),
    ("a producer without sequence", patched(GOOD, 43, (7).to_bytes(8, "big")), RefusedBatchError, {}),
    ("records that do not parse", batch_of_payload(b"\xff" * 20, count=1), CorruptBatchError, {}),
    ("too old", a_batch(timestamp_ms=TIME - 11), InvalidTimestampError, {"message.timestamp.before.max.ms": 10}),
    ("too new", a_batch(timestamp_ms=TIME + HOUR_MS + 1), InvalidTimestampError, {}),
    ("no key in a compacted log", a_batch(key=None), RefusedBatchError, {"cleanup.policy": "compact"}),
    (
        "stamped by its sender",
        a_batch(append_time_ms=TIME),
        InvalidTimestampError,
        {"message.timestamp.type": "LogAppendTime"},
    ),
]


@pytest.mark.parametrize(("batch", "error", "config"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("is_run", [False, True], ids=["single", "run"])
def test_refused_and_nothing_written(
    batch: Buffer, error: type[TidelogError], config: dict[str, Any], is_run: bool, tmp_path: Path
) -> None:
    with open_log(tmp_path, config) as log:
        log.append(GOOD)
        before = files_of(log)
        with pytest.raises(error) as raised:
            log.append_run([batch]) if is_run else log.append(batch)
        assert type(raised.value) is error or error in (CorruptBatchError, RefusedBatchError)
        assert files_of(log) == before
        assert (log.log_end_offset, log.high_watermark, log.flushed_end) == (1, 1, 1)
        assert log.append(GOOD)[:2] == (1, 1)
        check_log(log)


@pytest.mark.parametrize(
    ("batch", "config"),
    [
        (a_batch(timestamp_ms=TIME - 10), {"message.timestamp.before.max.ms": 10}),
        (a_batch(timestamp_ms=TIME + HOUR_MS), {}),
        (a_batch(timestamp_ms=-1), {"message.timestamp.before.max.ms": 10}),
        (GOOD, {"max.message.bytes": len(GOOD)}),
        (GOOD, {"internal.segment.bytes": len(GOOD)}),
        (a_batch(key=None), {"cleanup.policy": "delete"}),
    ],
)
def test_limits_are_inclusive(batch: bytes, config: dict[str, Any], tmp_path: Path) -> None:
    with open_log(tmp_path, config) as log:
        assert log.append(batch)[:2] == (0, 0)
        assert log.append_run([batch, batch])[1][:2] == (2, 2)


def test_record_errors_name_the_records(tmp_path: Path) -> None:
    batch = NewBatch([(b"k", b"v", (), TIME), (b"k", b"v", (), TIME + 2 * HOUR_MS), (b"k", b"v", (), 0)]).encode()
    with open_log(tmp_path, {"message.timestamp.before.max.ms": 10}) as log:
        with pytest.raises(InvalidTimestampError) as raised:
            log.append(batch)
        assert [index for index, _ in raised.value.record_errors] == [1, 2]
        assert raised.value.kafka_error == "INVALID_TIMESTAMP"


def test_a_coordinator_may_append_markers(tmp_path: Path) -> None:
    marker = transaction_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=TIME)
    with open_log(tmp_path) as log:
        assert log.append(marker, origin="coordinator")[:2] == (0, 0)
        with pytest.raises(ValueError, match="origin"):
            log.append(GOOD, origin="someone")  # type: ignore[arg-type]
        assert list(log.read()) == []
        assert [batch.is_control for batch in log.fetch(0, 1000).batches] == [True]


def test_append_time_is_stamped(tmp_path: Path) -> None:
    clock = FakeClock(TIME + 77)
    with open_log(tmp_path, {"message.timestamp.type": "LogAppendTime"}, clock=clock) as log:
        assert log.append(a_batch(2, timestamp_ms=5)).log_append_time_ms == TIME + 77
        clock.advance(1)
        assert [info[2:4] for info in log.append_run([a_batch(timestamp_ms=9), a_batch(timestamp_ms=-1)])] == [(TIME + 78, TIME + 78)] * 2
        assert [record.timestamp_ms for record in log.read()] == [TIME + 77] * 2 + [TIME + 78] * 2


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_by_the_log(codec: str, tmp_path: Path) -> None:
    with open_log(tmp_path, {"compression.type": codec}) as log:
        for source in ("none", "gzip", "zstd", "lz4", "snappy"):
            log.append(numbered(log.log_end_offset, 3, compression=source))
        log.append_run([numbered(15, 1), numbered(16, 2, compression="lz4")])
        assert [number_of(record) for record in log.read()] == list(range(18))
        wanted = "none" if codec == "uncompressed" else codec
        assert {str(batch.compression) for batch in log.batches() if isinstance(batch, RecordBatch)} == {wanted}
        check_log(log)


# A run is the same as one by one


def runs() -> list[tuple[str, list[bytes], dict[str, Any]]]:
    plain = [numbered(n, 1 + n % 3, timestamp_ms=TIME + n * 7 % 40) for n in range(40)]
    mixed = [numbered(n, 1 + n % 2, compression=("none", "zstd", "gzip")[n % 3]) for n in range(30)]
    late = [numbered(n, timestamp_ms=TIME - 100 * (n % 4)) for n in range(20)]
    refused = [*plain[:11], a_batch(base_offset=3), *plain[11:15]]
    return [
        ("one segment", plain, {}),
        ("rolls by size", plain, {"internal.segment.bytes": 400}),
        ("rolls by age", late, {"segment.ms": 150}),
        ("rolls by full indexes", plain, {"segment.index.bytes": 48, "index.interval.bytes": 0}),
        ("dense indexes", plain, {"index.interval.bytes": 0}),
        ("codecs", mixed, {"internal.segment.bytes": 900}),
        ("another codec", mixed, {"compression.type": "gzip"}),
        ("append time", plain, {"message.timestamp.type": "LogAppendTime", "internal.segment.bytes": 900}),
        ("refused in the middle", refused, {}),
        ("refused in the middle, rolls", refused, {"internal.segment.bytes": 500}),
        ("refused first", [a_batch(base_offset=3), *plain[:3]], {}),
    ]


def one_by_one(log: Log, batches: list[bytes]) -> tuple[list[Any], type[TidelogError] | None]:
    infos: list[Any] = []
    for batch in batches:
        try:
            infos.append(log.append(batch))
        except TidelogError as error:
            return infos, type(error)
    return infos, None


def in_runs(size: int, is_joined: bool) -> Callable[[Log, list[bytes]], tuple[list[Any], type[TidelogError] | None]]:
    def append(log: Log, batches: list[bytes]) -> tuple[list[Any], type[TidelogError] | None]:
        infos: list[Any] = []
        for at in range(0, len(batches), size):
            run = batches[at : at + size]
            try:
                infos += log.append_run(b"".join(run) if is_joined else run)
            except TidelogError as error:
                return infos + list(error.appended), type(error)  # type: ignore[attr-defined]
        return infos, None

    return append


@pytest.mark.parametrize(("batches", "config"), [run[1:] for run in runs()], ids=[run[0] for run in runs()])
@pytest.mark.parametrize("is_joined", [False, True], ids=["list", "joined"])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_run_is_the_same_as_one_by_one(batches: list[bytes], config: dict[str, Any], is_joined: bool, size: int, tmp_path: Path) -> None:
    outcomes = []
    for name, append in (("single", one_by_one), ("runs", in_runs(size, is_joined))):
        with open_log(tmp_path / name, config) as log:
            infos, error = append(log, batches)
            bases = [segment.base_offset for segment in log.segments]
            check_log(log)
        outcomes.append((infos, error, bases, files_of(tmp_path / name / "tide-0")))
    assert outcomes[0] == outcomes[1]


def test_an_empty_run_does_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        assert log.append_run([]) == []
        assert log.log_end_offset == 0


# Leader epochs


def test_the_newest_epoch_is_the_default(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(GOOD)
        log.append(GOOD, leader_epoch=4)
        log.append(GOOD)
        log.append_run([GOOD, GOOD], leader_epoch=6)
        log.append_run([GOOD])
        assert [batch.epoch for batch in check_log(log)] == [0, 4, 4, 6, 6, 6]
        assert log.leader_epochs == ((0, 0), (4, 1), (6, 3))
        assert log.end_offset_for_epoch(4) == (4, 3)
        before = files_of(log)
        for refused in (5, 0, -1, 2**31):  # what does not fit 32 bits would make a checkpoint that nobody can read
            with pytest.raises(RefusedBatchError, match="leader epoch"):
                log.append(GOOD, leader_epoch=refused)
            with pytest.raises(RefusedBatchError, match="leader epoch"):
                log.append_run([GOOD], leader_epoch=refused)
        assert files_of(log) == before
    with open_log(tmp_path) as log:
        log.append(GOOD)
        assert check_log(log)[-1].epoch == 6


def test_an_epoch_that_is_no_number(tmp_path: Path) -> None:
    """It was written down as it was, and nobody could read that; or it was told to another thread, whose batch had nothing wrong."""
    with open_log(tmp_path) as log:
        for wrong in (1.5, "1"):
            with pytest.raises(TypeError):
                log.append(GOOD, leader_epoch=wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                log.append_run([GOOD], leader_epoch=wrong)  # type: ignore[arg-type]
        good, bad, another = (AppendRequest(memoryview(GOOD), epoch, "client") for epoch in (None, "1", None))  # type: ignore[arg-type]
        log._state._append_group([good, bad, another])
        assert (good.answer().first_offset, another.answer().first_offset) == (0, 1)
        with pytest.raises(TypeError):
            bad.answer()
        assert log.leader_epochs == ((0, 0),)


@pytest.mark.parametrize("is_clean", [True, False])
def test_no_lower_epoch_after_all_records_were_deleted(is_clean: bool, tmp_path: Path) -> None:
    """The epoch that starts at the end of the log is dropped when it is opened; that must not make the next append epoch 0."""
    with open_log(tmp_path) as log:
        log.append(GOOD, leader_epoch=5)
        log.delete_records_before(-1)
        assert log.leader_epochs == ((5, 1),)
    with open_log(tmp_path, last_shutdown_clean=is_clean) as log:
        log.append(GOOD)
        assert check_log(log)[-1].epoch == 5


# As a follower


def ending(batch: bytes, delta: int) -> bytes:
    """The batch with another last offset, which its CRC covers."""
    return patched(batch, 23, delta.to_bytes(4, "big", signed=True))


def test_offsets_are_taken_as_they_come(tmp_path: Path) -> None:
    with open_log(tmp_path, TINY) as log:
        info = log.append_as_follower(follower_batches((0, 2), (2, 1), epoch=3))
        assert info is not None
        assert info[:3] == (0, 2, TIME)
        assert log.append_as_follower(follower_batches((10, 1), (20, 2), epoch=3)) is not None
        assert log.log_end_offset == 22
        assert log.high_watermark == 0
        log.high_watermark = 22
        assert [record.offset for record in log.read()] == [0, 1, 2, 10, 20, 21]
        assert next(log.fetch(11, 10_000).records()).offset == 20
        assert log.leader_epochs == ((3, 0),)
        check_log(log)


def test_a_cut_off_batch_is_left_out(tmp_path: Path) -> None:
    data = follower_batches((0, 1), (1, 1))
    with open_log(tmp_path) as log:
        assert log.append_as_follower(data[:30]) is None
        info = log.append_as_follower(data[:-1])
        assert info is not None
        assert info.last_offset == 0
        check_log(log)


def test_batches_of_a_newer_leader_are_left_out(tmp_path: Path) -> None:
    data = follower_batches((0, 1), epoch=1) + follower_batches((1, 1), epoch=2) + follower_batches((2, 1), epoch=1)
    with open_log(tmp_path) as log:
        info = log.append_as_follower(data, leader_epoch=1)
        assert info is not None
        assert info.last_offset == 0
        assert log.append_as_follower(follower_batches((1, 1), epoch=2), leader_epoch=1) is None


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        (follower_batches((4, 1)), UnexpectedOffsetError),
        (follower_batches((5, 2), (6, 1)), UnexpectedOffsetError),
        (follower_batches((7, 1), (5, 1)), UnexpectedOffsetError),
        (follower_batches((5, 1))[:-1] + b"\1", ChecksumError),
        (follower_batches((5, 1), epoch=-1), RefusedBatchError),
        (ending(follower_batches((9, 1)), -3), UnexpectedOffsetError),
        (follower_batches((5, 1)) + ending(follower_batches((90, 1)), -30), UnexpectedOffsetError),
        (ending(follower_batches((2**63 - 3, 1)), 5), UnexpectedOffsetError),
        (follower_batches((2**63 - 1, 1)), UnexpectedOffsetError),
        (follower_batches((5, 1), (6, 60)), RecordListTooLargeError),
    ],
    ids=[
        "below the end",
        "overlapping",
        "going back",
        "bad CRC",
        "no epoch",
        "ending before it begins",
        "ending before it begins, behind another",
        "past all offsets",
        "the last of all offsets",
        "more than a segment",
    ],
)
def test_refused_of_a_follower(batches: bytes, error: type[TidelogError], tmp_path: Path) -> None:
    with open_log(tmp_path, TINY) as log:
        log.append_as_follower(follower_batches((0, 2), (2, 3)))
        before = files_of(log)
        with pytest.raises(error):
            log.append_as_follower(batches)
        assert files_of(log) == before
        assert log.log_end_offset == 5
        assert log.append_as_follower(follower_batches((5, 1))) is not None
        check_log(log)


def test_a_call_of_a_follower_is_refused_whole(tmp_path: Path) -> None:
    """More than a segment can hold is refused before anything is written, also where the indexes would have split the call."""
    with open_log(tmp_path, {**TINY, "segment.index.bytes": 24}) as log:
        log.append_as_follower(follower_batches((0, 2)))
        before = files_of(log)
        with pytest.raises(RecordListTooLargeError):
            log.append_as_follower(follower_batches((2, 1), (3, 1), (4, 60)))
        assert log.log_end_offset == 2
        assert files_of(log) == before
        with pytest.raises(RecordListTooLargeError):
            log.append_as_follower(follower_batches(*((offset, 1) for offset in range(2, 12))))
        assert files_of(log) == before


def test_an_index_that_fills_within_one_call(tmp_path: Path) -> None:
    """Whatever becomes of the rest of the call, it counts: largest timestamp, look-up by time, and reading."""
    config = {"index.interval.bytes": 0, "segment.index.bytes": 48}
    batches = b"".join(numbered(n, base_offset=n, timestamp_ms=TIME + n, partition_leader_epoch=0) for n in range(20))
    with open_log(tmp_path, config) as log:
        log.append_as_follower(batches)
        log.high_watermark = 20
        assert log.max_timestamp == (19, TIME + 19)
        assert [log.offset_for_time(TIME + n) for n in range(20)] == [(n, TIME + n) for n in range(20)]
        assert [number_of(record) for record in log.read()] == list(range(20))
        log.append(numbered(20, timestamp_ms=TIME))
        assert len(log.segments) > 1
        check_log(log)


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(GOOD)
    for call in (lambda: log.append(GOOD), lambda: log.append_run([GOOD]), lambda: log.append_as_follower(GOOD), log.roll, log.flush):
        with pytest.raises(LogClosedError):
            call()
    log.close()
