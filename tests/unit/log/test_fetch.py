"""Reading: by offset and size, across segments, by position and time, as far as the isolation lets one see."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, a_batch, follower_batches, number_of, numbered, open_log, pool_of, stored_batches
from tidelog.errors import BatchTooLargeError, CorruptBatchError, LogClosedError, OffsetOutOfRangeError, UnsupportedError
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.log.positions import EARLIEST, LATEST, Time, epoch_ms

DENSE = {"index.interval.bytes": 0}
SPARSE = {"index.interval.bytes": 1 << 20}


@pytest.mark.parametrize("config", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_a_batch_larger_than_asked(config: dict[str, int], tmp_path: Path) -> None:
    with open_log(tmp_path, config) as log:
        for number in range(3):
            log.append(numbered(number, size=500))
        second = stored_batches(log)[1]
        for max_bytes in (0, 1, 60, 61, 62, 300, len(second.data) - 1):
            whole = log.fetch(1, max_bytes)
            assert (whole.data, whole.position, whole.is_first_incomplete, whole.next_offset) == (second.data, second.position, False, 2)
            part = log.fetch(1, max_bytes, min_one=False)
            assert (part.data, part.is_first_incomplete, part.next_offset) == (second.data[:max_bytes], max_bytes > 0, 1)
            assert list(part.batches) == list(part.records()) == []
        exact = log.fetch(1, len(second.data), min_one=False)
        assert (exact.data, exact.is_first_incomplete) == (second.data, False)


def test_the_largest_batch_that_the_caller_takes(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0, size=500))
        size = log.size_bytes
        assert len(log.fetch(0, 10, max_batch_bytes=size)) == size
        with pytest.raises(BatchTooLargeError, match=f"at most {size - 1} bytes, found {size}") as raised:
            log.fetch(0, 10, max_batch_bytes=size - 1)
        assert raised.value.position == 0
        assert raised.value.path == log.segments[0].file.path
        assert len(log.fetch(0, size, max_batch_bytes=1)) == size


def test_a_buffer_that_ends_inside_a_batch(tmp_path: Path) -> None:
    with open_log(tmp_path, DENSE) as log:
        for number in range(4):
            log.append(numbered(number))
        size = log.size_bytes // 4
        fetched = log.fetch(1, 2 * size + 20)
        assert len(fetched) == 2 * size + 20
        assert [number_of(record) for record in fetched.records()] == [1, 2]
        assert fetched.next_offset == 3


def test_records_below_the_asked_offset_are_in_the_bytes_only(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0, 10))
        fetched = log.fetch(7, 10_000)
        assert next(iter(fetched.batches)).base_offset == 0
        assert [record.offset for record in fetched.records()] == [7, 8, 9]
        assert [record.offset for record in log.read(7)] == [7, 8, 9]
        assert [record.offset for record in log.read(3, 5)] == [3, 4]


def test_out_of_range_names_the_range(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0, 10))
        log.delete_records_before(4)
        for offset in (-1, 0, 3, 11, 2**62):
            with pytest.raises(OffsetOutOfRangeError, match=f"expected 4 to 10, found {offset} ") as raised:
                log.fetch(offset, 100)
            assert (raised.value.offset, raised.value.log_start_offset, raised.value.log_end_offset) == (offset, 4, 10)
            assert isinstance(raised.value, LookupError)
            with pytest.raises(OffsetOutOfRangeError, match="EARLIEST"):
                list(log.read(offset, 2**63))
        assert log.fetch(10, 100).data == b""
        assert [record.offset for record in log.fetch(4, 100).records()] == [4, 5, 6, 7, 8, 9]


def test_one_fetch_is_of_one_segment_and_reading_crosses(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 250}) as log:
        for number in range(12):
            log.append(numbered(number))
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 3
        for segment in log.segments:
            assert len(log.fetch(segment.base_offset, 1 << 20)) == segment.size_bytes
        assert [number_of(record) for record in log.read()] == list(range(12))
        assert [number_of(record) for record in log.read(5, 9)] == [5, 6, 7, 8]
        assert [batch.base_offset for batch in log.batches(5, 9)] == [5, 6, 7, 8]


def test_gaps_are_crossed(tmp_path: Path) -> None:
    """Within a segment, at its end, and over a segment that has nothing at or above the offset."""
    with open_log(tmp_path, DENSE) as log:
        log.append_as_follower(follower_batches((0, 2), (7, 1)))
        log.roll()
        log.append_as_follower(follower_batches((30, 1)))
        log.append_as_follower(follower_batches((40, 1)))
        log.high_watermark = 41
        wanted = {0: 0, 1: 0, 2: 7, 7: 7, 8: 30, 20: 30, 31: 40}
        for offset, base in wanted.items():
            assert next(iter(log.fetch(offset, 10_000).batches)).base_offset == base, offset
        assert [record.offset for record in log.read()] == [0, 1, 7, 30, 40]
        assert [record.offset for record in log.read(8, 40)] == [30]


# Positions


@pytest.fixture
def timed(tmp_path: Path) -> "Log":
    """Ten records, one a second, several segments."""
    log = open_log(tmp_path, {"internal.segment.bytes": 250})
    for number in range(10):
        log.append(numbered(number, timestamp_ms=TIME + 1000 * number))
    return log


def test_positions(timed: Log) -> None:
    moment = datetime.fromtimestamp(TIME / 1000, UTC)
    with timed as log:

        def numbers(start: object, end: object) -> list[int]:
            return [number_of(record) for record in log.read(start, end)]  # type: ignore[arg-type]

        assert numbers(EARLIEST, LATEST) == list(range(10))
        assert numbers(LATEST, LATEST) == []
        assert numbers(3, LATEST) == list(range(3, 10))
        assert numbers(Time(TIME + 2000), Time(TIME + 5000)) == [2, 3, 4]
        assert numbers(Time(TIME + 2001), Time(TIME + 5001)) == [3, 4, 5]
        assert numbers(moment + timedelta(seconds=2), moment + timedelta(seconds=4)) == [2, 3]
        assert numbers(moment.astimezone(datetime.now().astimezone().tzinfo), 1) == [0]
        assert numbers(Time(TIME + 99_999), LATEST) == []
        assert numbers(EARLIEST, Time(TIME + 99_999)) == list(range(10))
        assert numbers(datetime(1950, 1, 1, tzinfo=UTC), 2) == [0, 1]
        assert numbers(5, 2**62) == [5, 6, 7, 8, 9]
        assert numbers(8, 3) == []


def test_datetimes_are_exact_to_the_millisecond(tmp_path: Path) -> None:
    """A float of seconds does not have every millisecond: 1,700,000,000.001 must not become …000."""
    start = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    with open_log(tmp_path) as log:
        for number in range(0, 1000, 50):
            log.append(numbered(number, timestamp_ms=TIME + number))
        for number in range(0, 1000, 50):
            found = next(iter(log.read(start + timedelta(milliseconds=number))))
            assert number_of(found) == number
    assert [epoch_ms(start + timedelta(milliseconds=ms)) for ms in range(1000)] == [TIME + ms for ms in range(1000)]
    for ms in (-1, 270_212_197_756, 1_086_009_440_909, 2_157_117_653_648, 137_901_125_855_524):  # thousandths of a float are less
        assert epoch_ms(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)) == ms


def test_what_is_no_position(timed: Log) -> None:
    with timed as log:
        with pytest.raises(ValueError, match="no time zone"):
            list(log.read(datetime(2023, 11, 14)))
        with pytest.raises(ValueError, match="no time zone"):
            list(log.batches(EARLIEST, datetime(2023, 11, 14)))
        for wrong in (True, 1.5, "0", None):
            with pytest.raises(TypeError, match="a position is"):
                list(log.read(wrong))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="when_overtaken"):
            list(log.read(when_overtaken="jump"))  # type: ignore[arg-type]


def test_special_offsets(timed: Log) -> None:
    with timed as log:
        log.delete_records_before(2)
        log.high_watermark = 8
        assert log.offset_for_time(-1) == log.latest == (8, -1)
        assert log.offset_for_time(-1, isolation="log_end") == (10, -1)
        assert log.offset_for_time(-2) == log.offset_for_time(-4) == log.earliest == (2, -1)
        assert log.offset_for_time(-3, isolation="log_end") == (9, TIME + 9000)
        assert log.offset_for_time(-3) is log.max_timestamp is None
        assert log.offset_for_time(-5) is log.offset_for_time(-6) is None
        with pytest.raises(ValueError, match="-7"):
            log.offset_for_time(-7)
        assert log.offset_for_time(0) == (2, TIME + 2000)
        assert log.offset_for_time(TIME + 7001) is None
        assert log.offset_for_time(TIME + 7001, isolation="log_end") == (8, TIME + 8000)


def test_isolation(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 250}) as log:
        for number in range(6):
            log.append(numbered(2 * number, 2))
        for mark in range(13):
            log.high_watermark = mark
            # A batch that the mark lies in is not seen, as in Kafka.
            seen = list(range(mark - mark % 2))
            assert [record.offset for record in log.read()] == seen
            assert [record.offset for record in log.read(isolation="log_end")] == list(range(12))
            for offset in range(12):
                assert bool(log.fetch(offset, 1000).data) == (offset in seen)
                assert log.fetch(offset, 1000, isolation="log_end").data
                for record in log.fetch(offset, 1000).records():
                    assert record.offset < mark


def test_topic_and_partition_of_records(tmp_path: Path) -> None:
    with open_log(tmp_path, name="a-b-7") as log:
        log.append(a_batch())
        record = next(iter(log.read()))
        assert (record.topic, record.partition) == ("a-b", 7)


def test_reading_a_closed_log(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(a_batch())
    with pytest.raises(LogClosedError):
        log.fetch(0, 100)
    with pytest.raises(LogClosedError):
        log.offset_for_time(0)
    with pytest.raises(LogClosedError):
        list(log.read())


# A segment that goes between finding it and opening it


def test_fetch_looks_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 100}, disk=disk) as log:
        for number in range(6):
            log.append(numbered(number))
        pool_of(log).drop_all()
        disk.run(1, lambda: log.delete_segments(2, "a test"), kind="open")
        with pytest.raises(OffsetOutOfRangeError, match="expected 2 to 6"):
            log.fetch(1, 100)


@pytest.mark.parametrize("kind", ["open", "mtime"])
def test_a_time_is_looked_up_again(kind: str, tmp_path: Path) -> None:
    """As a fetch does: the segment in which the time was to be looked up is deleted meanwhile."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 100, "index.interval.bytes": 0}, disk=disk) as log:
        for number in range(6):
            log.append(numbered(number, timestamp_ms=-1 if kind == "mtime" and number < 2 else TIME + number))
        pool_of(log).drop_all()
        disk.run(1, lambda: log.delete_segments(2, "a test"), kind=kind)
        assert log.offset_for_time(TIME) == (2, TIME + 2)
        assert disk.fired
        pool_of(log).drop_all()
        disk.run(1, lambda: log.delete_segments(1, "a test"), kind="open")
        assert log.max_timestamp == (5, TIME + 5)


# Damage


def damaged(tmp_path: Path, position: int, value: bytes, mode: Literal["r", "a"]) -> tuple[LogReading, str, int]:
    """A log of ten batches with other bytes in its sixth; its file, and where in it that batch lies."""
    with open_log(tmp_path, DENSE) as log:
        for number in range(10):
            log.append(numbered(number, 3, timestamp_ms=TIME + number))
        path, start = Path(log.segments[0].file.path), log.size_bytes // 2
    content = bytearray(path.read_bytes())
    content[start + position : start + position + len(value)] = value
    path.write_bytes(content)
    return Log.open(tmp_path / "tide-0", "r") if mode == "r" else open_log(tmp_path, DENSE), str(path), start


@pytest.mark.leaves
@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("position", "value", "place"),
    [(61, b"\xff\xff\xff", 61), (57, b"\x7f\xff\xff\xff", 0), (21, b"\0\4", 0), (21, b"\0\7", 21)],
    ids=["a record", "the count", "the payload", "the codec"],
)
def test_looking_up_a_time_in_a_damaged_batch_names_it(
    position: int, value: bytes, place: int, mode: Literal["r", "a"], tmp_path: Path
) -> None:
    log, path, start = damaged(tmp_path, position, value, mode)
    with pytest.raises((CorruptBatchError, UnsupportedError)) as raised:
        log.offset_for_time(TIME + 5)
    assert (raised.value.path, raised.value.position) == (path, start + place)
    log.close()  # type: ignore[attr-defined]


@pytest.mark.leaves
@pytest.mark.parametrize(("position", "value"), [(8, b"\0\0\0\1"), (16, b"\x09")], ids=["the size", "the format"])
def test_what_is_no_batch_is_named(position: int, value: bytes, tmp_path: Path) -> None:
    with open_log(tmp_path, SPARSE) as log:
        for number in range(10):
            log.append(numbered(number, 3, timestamp_ms=TIME + number))
        path, start = log.segments[0].file.path, log.size_bytes // 2
        with Path(path).open("r+b") as file:
            file.seek(start + position)
            file.write(value)
        place = start + (position if position == 16 else 0)
        for ask in (lambda: log.offset_for_time(TIME + 5), lambda: list(log.read(3))):
            with pytest.raises((CorruptBatchError, UnsupportedError)) as raised:
                ask()
            assert (raised.value.path, raised.value.position) == (path, place)


def test_a_size_below_nothing(tmp_path: Path) -> None:
    """It gave the first bytes of a batch, but for so many at its end."""
    for config in (DENSE, SPARSE):
        with open_log(tmp_path, config) as log:
            for number in range(3):
                log.append(numbered(number))
            for offset in range(3):
                assert log.fetch(offset, -5, min_one=False).data == b""
                assert log.fetch(offset, -5).next_offset == offset + 1
            log.truncate_to(0)
