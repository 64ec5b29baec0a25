"""A fetch that begins where no batch seems to be: a gap that compaction left, or a batch whose last offset is rotten."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import follower_batches, numbered, open_log
from tests.support.readers import open_reader
from tidelog.errors import ChecksumError, CorruptBatchError, DamagedLogError
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading

pytestmark = pytest.mark.leaves()
LAST_OFFSET_DELTA, BASE_OFFSET = 23, 0


def rot(log: LogReading, number: int, value: int, *, segment: int = 0, field: int = LAST_OFFSET_DELTA, size: int = 4) -> None:
    """Write another number into the header of a batch."""
    path = Path(log.directory) / f"{log.segments[segment].base_offset:020d}.log"
    content, position = bytearray(path.read_bytes()), 0
    for _ in range(number):
        position += int.from_bytes(content[position + 8 : position + 12], "big") + 12
    content[position + field : position + field + size] = value.to_bytes(size, "big", signed=True)
    path.write_bytes(content)


@pytest.fixture(params=["owner", "reader"])
def reading(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens a log as its owner reads it, or a reader beside it: four batches of five records, in segments of so many bytes."""
    opened: list[Any] = []

    def make(config: dict[str, Any]) -> LogReading:
        owner = open_log(tmp_path, {"index.interval.bytes": 0, **config})
        opened.append(owner)
        for number in range(0, 20, 5):
            owner.append(numbered(number, 5))
        if request.param == "owner":
            return owner
        opened.append(open_reader(Path(owner.directory)))
        return opened[-1]  # type: ignore[no-any-return]

    yield make
    for log in reversed(opened):
        log.close()


@pytest.mark.parametrize("delta", [-1, 0, 1, -5, -(2**31)])
@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("config", [{}, {"internal.segment.bytes": 250}])
def test_a_rotten_last_offset_is_not_passed_over(delta: int, number: int, config: dict[str, Any], reading: Any) -> None:
    log = reading(config)
    if config and number == 3:
        rot(log, 0, delta, segment=len(log.segments) - 1)
    elif config:
        rot(log, 0, delta, segment=number)
    else:
        rot(log, number, delta)
    for offset in range(5 * number, 5 * number + 5):
        # What is wrong with the last segment a reader finds before it is asked for anything.
        with pytest.raises((ChecksumError, DamagedLogError), match="the CRC of a batch"):
            list(log.read(start=offset))
        with pytest.raises((ChecksumError, DamagedLogError), match="the CRC of a batch"):
            list(log.fetch(offset, 100_000).records())
    if number != 3:
        assert [record.offset for record in log.read(start=5 * number + 5)] == [*range(5 * number + 5, 20)]


def test_the_error_says_where(reading: Any) -> None:
    log = reading({})
    rot(log, 1, 0)
    size = log.size_bytes // 4
    with pytest.raises(ChecksumError, match="the CRC of a batch does not match") as raised:
        log.fetch(7, 1000)
    assert raised.value.position == size
    assert str(raised.value.path).endswith("00000000000000000000.log")


def test_a_rotten_first_offset_is_not_passed_over(reading: Any) -> None:
    """It lies outside of the CRC: the batch before it tells."""
    log = reading({"index.interval.bytes": 1 << 20})
    rot(log, 2, 3, field=BASE_OFFSET, size=8)
    with pytest.raises(CorruptBatchError, match="go back"):
        list(log.read(start=12))


def test_gaps_of_compaction_are_passed_over(tmp_path: Path) -> None:
    """Between batches, at the end of a segment, and over a whole one."""
    config = {"internal.segment.bytes": 400, "index.interval.bytes": 0}
    with open_log(tmp_path, config) as owner:
        for span in ((0, 2), (7, 2), (20, 3), (40, 1), (60, 2), (90, 1)):
            owner.append_as_follower(follower_batches(span))
        assert len(owner.segments) > 1
        with open_reader(Path(owner.directory)) as reader:
            kept = [0, 1, 7, 8, 20, 21, 22, 40, 60, 61, 90]
            for log in (owner, reader):
                for offset in range(91):
                    assert [record.offset for record in log.read(start=offset, isolation="log_end")] == [at for at in kept if at >= offset]


def test_a_segment_without_batches_is_passed_over(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0))
        log.roll()
        log.append(numbered(1))
    (Path(log.directory) / "00000000000000000000.log").write_bytes(b"")
    for suffix in (".index", ".timeindex"):
        (Path(log.directory) / f"00000000000000000000{suffix}").write_bytes(b"")
    with Log.open(log.directory) as again:
        assert [record.offset for record in again.read()] == [1]
