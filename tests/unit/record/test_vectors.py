"""Published and computed vectors: whole batches, varints, hashes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidelog.record import (
    BatchSettings,
    ControlType,
    NewBatch,
    empty_batch,
    encode_batches,
    murmur2,
    partitions_for_keys,
    read_batches,
    siphash128,
    transaction_marker,
)

TWO_RECORDS = (
    "00000000000000640000004200000007020e1140d20000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000210000000026b0276000e000a02026b0100"
)
COMMIT_MARKER = (
    "000000000000002a0000004200000000023427fa0f0030000000000000018bcfe568000000018bcfe56800"
    "00000000000000090001ffffffff000000012000000008000000010c00000000000300"
)
EMPTY_BATCH = "000000000000000a000000310000000002b71c301b000000000004ffffffffffffffff0000018bcfe56800000000000000000900010000001400000000"
TIME = 1700000000000


def test_a_record_and_a_tombstone() -> None:
    settings = BatchSettings(partition_leader_epoch=7)
    batch = NewBatch([(b"k", b"v", (), TIME), (b"k", None, (), TIME + 5)], base_offset=100, settings=settings)
    assert batch.encode().hex() == TWO_RECORDS
    (read,) = read_batches(bytes.fromhex(TWO_RECORDS))
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in read] == [(100, TIME, b"k", b"v"), (101, TIME + 5, b"k", None)]


def test_a_commit_marker() -> None:
    marker = transaction_marker(ControlType.COMMIT, producer_id=9, producer_epoch=1, coordinator_epoch=3, timestamp_ms=TIME, base_offset=42)
    assert marker.hex() == COMMIT_MARKER
    assert len(marker) == 78


def test_an_empty_batch() -> None:
    batch = empty_batch(
        base_offset=10,
        last_offset=14,
        partition_leader_epoch=0,
        attributes=0x44,  # codec and horizon go
        max_timestamp_ms=TIME,
        producer_id=9,
        producer_epoch=1,
        base_sequence=20,
    )
    assert batch.hex() == EMPTY_BATCH
    (read,) = read_batches(batch)
    assert (list(read), read.next_offset, read.last_sequence) == ([], 15, 24)


@pytest.mark.parametrize(
    ("delta", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**32, "8080808020"),
        (2**62, "808080808080808080" + "01"),
    ],
)
def test_varints_of_timestamp_deltas(delta: int, encoded: str) -> None:
    base = 2**31 if delta < 0 else 0
    data = encode_batches([(None, b"", (), base), (None, b"", (), base + delta)])
    (batch,) = read_batches(data)
    assert [record.timestamp_ms for record in batch] == [base, base + delta]
    # second record: length, attributes, then the delta
    second = data[61 + 7 :]
    assert second[2 : 2 + len(encoded) // 2].hex() == encoded


def test_siphash_vectors() -> None:
    lines = Path(__file__).with_name("siphash128_vectors.txt").read_text().splitlines()[1:]
    messages = [bytes(range(size)) for size in range(64)]
    assert [row.tobytes().hex() for row in siphash128(messages, bytes(range(16)))] == lines
    assert len(lines) == 64


def test_siphash_takes_columns_with_nulls_and_slices() -> None:
    secret = b"0123456789abcdef"
    column = pa.array([b"drop", b"a", None, b"", b"a"], pa.binary()).slice(1)
    hashes = siphash128(column, secret)
    assert hashes.shape == (4, 2)
    assert (hashes[0] == hashes[3]).all()
    assert (hashes[1] == 0).all()
    assert (hashes[2] != 0).any()
    assert (siphash128([b"a"], b"another secret!!") != hashes[0]).any()
    with pytest.raises(ValueError, match="takes 16"):
        siphash128([b"a"], b"short")


def test_murmur2_vectors_of_kafka() -> None:
    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    assert murmur2(list(vectors)).tolist() == list(vectors.values())
    assert partitions_for_keys(list(vectors), 7).tolist() == [(hash_ & 0x7FFFFFFF) % 7 for hash_ in vectors.values()]
    assert murmur2([]).dtype == np.int32
    with pytest.raises(ValueError, match="at least one partition"):
        partitions_for_keys([b"a"], 0)
