"""Batches that come without a producer are stored as if they had come with one."""

from pathlib import Path

import pytest

from tests.support.logs import TIME, numbered, open_log
from tidelog.errors import CorruptBatchError, InvalidProducerEpochError, RefusedBatchError
from tidelog.log.log import Log
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.record import BatchSettings, NewBatch, transaction_marker
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType
from tidelog.record.layout import MAX_SEQUENCE, sequence_after

SIZES = (3, 1, 7, 2, 5, 4, 6, 1)
"""More than the five batches that a log remembers of a producer."""

CONFIGS: tuple[dict[str, object], ...] = (
    {},
    {"message.timestamp.type": "LogAppendTime"},
    {"internal.segment.bytes": 300},
    {"compression.type": "gzip"},
)


def rows(first: int, count: int) -> list[tuple[bytes, bytes, tuple[()], int]]:
    return [(b"k%d" % number, b"value %d" % number, (), TIME + number) for number in range(first, first + count)]


def plain_and_stamped(first_sequence: int, compression: str = "none") -> tuple[list[bytes], list[bytes]]:
    """The same records without a producer, and with one."""
    plain, stamped, first, sequence = [], [], 0, first_sequence
    for size in SIZES:
        plain.append(NewBatch(rows(first, size), settings=BatchSettings(compression=compression)).encode())
        settings = BatchSettings(compression=compression, producer_id=77, producer_epoch=3, base_sequence=sequence, is_transactional=True)
        stamped.append(NewBatch(rows(first, size), settings=settings).encode())
        first, sequence = first + size, sequence_after(sequence, size)
    return plain, stamped


def end_transaction(log: Log) -> None:
    log.append(
        transaction_marker(ControlType.COMMIT, producer_id=77, producer_epoch=3, coordinator_epoch=0, timestamp_ms=TIME),
        origin="coordinator",
    )


def files_of(log: Log) -> bytes:
    return b"".join((Path(log.directory) / f"{segment.base_offset:020d}.log").read_bytes() for segment in log.segments)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("sequence", [0, MAX_SEQUENCE - 9])
def test_the_log_has_the_same_bytes(tmp_path: Path, config: dict[str, object], compression: str, sequence: int) -> None:
    plain, stamped = plain_and_stamped(sequence, compression)
    with open_log(tmp_path / "one", config) as one, open_log(tmp_path / "two", config) as two:
        for log in (one, two):
            # Known with sequence numbers that go on, so that the first of these is the next.
            log.append(numbered(0, 1, producer_id=77, producer_epoch=3, base_sequence=(sequence - 1) & MAX_SEQUENCE, is_transactional=True))
        infos = one.append_run(b"".join(plain), stamp=ProducerStamp(77, 3, sequence))
        assert infos == [two.append(batch) for batch in stamped]
        assert files_of(one) == files_of(two)
        assert one.producer_entry(77) == two.producer_entry(77)
        assert one.open_transactions == two.open_transactions != ()
        assert one.last_stable_offset == 0
        for log in (one, two):
            end_transaction(log)


def test_its_batches_are_part_of_the_transaction(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append_run(plain_and_stamped(0)[0], stamp=ProducerStamp(77, 3, 0))
        assert list(log.read(isolation="committed")) == []
        end_transaction(log)
        assert [record.value for record in log.read(isolation="committed")] == [b"value %d" % number for number in range(sum(SIZES))]
        for batch in log.batches():
            assert isinstance(batch, RecordBatch)
            assert batch.is_transactional
            assert (batch.producer_id, batch.producer_epoch) == (77, 3)


def test_what_is_refused_is_refused_before_it_is_stamped(tmp_path: Path) -> None:
    good, other = plain_and_stamped(0)[0][:2]
    torn = bytearray(other)
    torn[-1] ^= 1
    with open_log(tmp_path) as log:
        with pytest.raises(RefusedBatchError, match="has a producer already"):
            log.append_run([good, plain_and_stamped(0)[1][0]], stamp=ProducerStamp(77, 3, 0))
        assert log.log_end_offset == 0
        with pytest.raises(CorruptBatchError) as caught:
            log.append_run([good, bytes(torn)], stamp=ProducerStamp(77, 3, 0))
        assert len(caught.value.appended) == 1  # type: ignore[attr-defined]
        assert log.log_end_offset == SIZES[0]
        with pytest.raises(InvalidProducerEpochError):
            log.append_run([good], stamp=ProducerStamp(77, 2, 0))
        end_transaction(log)


def test_a_batch_that_the_settings_forbid_is_not_let_in_without_its_producer(tmp_path: Path) -> None:
    keyless = NewBatch([(None, b"value", (), TIME)]).encode()
    with open_log(tmp_path, {"cleanup.policy": "compact"}) as log:
        with pytest.raises(RefusedBatchError, match="takes no records without a key"):
            log.append_run([keyless], stamp=ProducerStamp(77, 3, 0))
        assert log.log_end_offset == 0


def test_batches_of_more_than_a_mebibyte_and_in_many_runs(tmp_path: Path) -> None:
    """The CRC is moved over so many bytes in several steps."""
    config: dict[str, object] = {"max.message.bytes": 8 << 20}
    plain, stamped, sequence = [], [], 7
    for number, size in enumerate((5 << 20, 10, (1 << 20) - 40, 1 << 20, 2 << 20)):
        rows = [(b"k%d" % number, bytes([65 + number]) * size, (), TIME + number)]
        plain.append(NewBatch(rows).encode())
        settings = BatchSettings(producer_id=77, producer_epoch=3, base_sequence=sequence, is_transactional=True)
        stamped.append(NewBatch(rows, settings=settings).encode())
        sequence += 1
    with open_log(tmp_path / "one", config) as one, open_log(tmp_path / "two", config) as two:
        one.append_run(b"".join(plain), stamp=ProducerStamp(77, 3, 7))
        for batch in stamped:
            two.append(batch)
        assert files_of(one) == files_of(two)
        assert one.producer_entry(77) == two.producer_entry(77)
        for log in (one, two):
            end_transaction(log)
