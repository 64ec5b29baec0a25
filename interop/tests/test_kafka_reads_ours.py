"""What we write, Kafka reads: every codec, level, field and shape, judged by Kafka's own classes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.judge import Judge
from tests.support.golden import golden_logs, is_same
from tidelog.record import (
    LEVEL_RANGES,
    BatchSettings,
    Compression,
    ControlType,
    NewBatch,
    Record,
    empty_batch,
    encode_arrow,
    encode_batches,
    read_batches,
    retain_records,
    to_arrow,
    transaction_marker,
)

TIME = 1700000000000
SHAPES: list[Any] = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    (None, None),
    (b"headers", b"v", [("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("ключ", "значение".encode())]),
    (b"late", b"v", (), TIME - 5_000_000_000),
    (b"early", b"v", (), TIME + 2**33),
    (b"\x00\xff" * 40, bytes(range(256)) * 300),
]


def idempotent() -> bytes:
    settings = BatchSettings(producer_id=2**40, producer_epoch=7, base_sequence=2**31 - 4, partition_leader_epoch=9)
    return NewBatch(SHAPES, base_offset=2**33, timestamp_ms=TIME, settings=settings).encode()


def transaction() -> bytes:
    settings = BatchSettings(producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True)
    data = NewBatch(SHAPES, timestamp_ms=TIME, settings=settings).encode()
    for offset, control_type in ((9, ControlType.COMMIT), (10, ControlType.ABORT)):
        data += transaction_marker(
            control_type, producer_id=5, producer_epoch=1, coordinator_epoch=3, timestamp_ms=TIME, base_offset=offset
        )
    return data


def append_time() -> bytes:
    return NewBatch(SHAPES, timestamp_ms=TIME, settings=BatchSettings(append_time_ms=TIME + 77, compression="lz4")).encode()


def rewritten() -> bytes:
    """Every golden batch with every other record dropped, tombstones under a horizon."""
    out = b""
    for log in golden_logs():
        for batch in read_batches(log.data):
            keep = [index % 2 == 0 for index in range(len(list(batch)))]
            out += retain_records(batch, keep, delete_horizon_ms=TIME + 10**9, keep_empty=batch.magic == 2)
    return out


def empties() -> bytes:
    return empty_batch(
        base_offset=3, last_offset=9, partition_leader_epoch=2, attributes=0x10, max_timestamp_ms=TIME, producer_id=1, producer_epoch=0
    )


CASES: dict[str, Callable[[], bytes]] = {
    "idempotent": idempotent,
    "transaction": transaction,
    "append-time": append_time,
    "rewritten": rewritten,
    "empty": empties,
    "records": lambda: encode_batches([Record(b"v%d" % i, key=b"k", timestamp_ms=TIME + i) for i in range(1000)], batch_bytes=2000),
    "arrow": lambda: encode_arrow(to_arrow(encode_batches(SHAPES * 50, timestamp_ms=TIME)), batch_bytes=3000, compression="snappy"),
}
for codec in Compression:
    lowest, highest, default = LEVEL_RANGES.get(codec, (0, 0, 0))
    for level in {None, *((lowest, default, highest) if codec in LEVEL_RANGES else ())}:
        # Large enough for several blocks of every codec.
        CASES[f"{codec}-{level}"] = lambda codec=codec, level=level: encode_batches(  # type: ignore[misc]
            SHAPES * 3, compression=codec, level=level, batch_bytes=300_000, timestamp_ms=TIME, base_offset=2**40
        )


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory, judge: Judge) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """All cases, and what Kafka says of each."""
    folder: Path = tmp_path_factory.mktemp("ours")
    datas = {name: make() for name, make in CASES.items()}
    for name, data in datas.items():
        (folder / f"{name}.log").write_bytes(data)
    descriptions = judge.describe(folder / f"{name}.log" for name in datas)
    return {name: (data, description) for (name, data), description in zip(datas.items(), descriptions, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_kafka_reads_what_we_wrote(name: str, described: dict[str, tuple[bytes, dict[str, Any]]]) -> None:
    data, description = described[name]
    assert description.get("error") is None
    batches = list(read_batches(data))
    assert len(batches) == len(description["batches"]) > 0
    for batch, read in zip(batches, description["batches"], strict=True):
        assert read["is_valid"]
        assert (read["base_offset"], read["last_offset"], read["count"]) == (batch.base_offset, batch.last_offset, batch.count)
        assert (read["compression"], read["timestamp_type"]) == (str(batch.compression), str(batch.timestamp_type))
        for field in ("producer_id", "producer_epoch", "base_sequence", "last_sequence", "partition_leader_epoch", "max_timestamp_ms"):
            assert read[field] == getattr(batch, field)
        for field in ("is_transactional", "is_control", "delete_horizon_ms"):
            assert read[field] == getattr(batch, field)
        assert len(read["records"]) == batch.count
        for record, kafkas in zip(batch, read["records"], strict=True):
            assert (kafkas["offset"], kafkas["timestamp_ms"], kafkas["sequence"]) == (record.offset, record.timestamp_ms, record.sequence)
            assert is_same(kafkas["key"], record.key)
            assert is_same(kafkas["value"], record.value)
            assert [header[0] for header in kafkas["headers"]] == [name for name, _ in record.headers]
            assert all(is_same(theirs[1], ours[1]) for theirs, ours in zip(kafkas["headers"], record.headers, strict=True))


def test_what_went_in_is_what_kafka_read(described: dict[str, tuple[bytes, dict[str, Any]]]) -> None:
    """Not only what we read back: the rows themselves."""
    for name, (_, description) in described.items():
        if name.split("-")[0] in {str(codec) for codec in Compression}:
            records = [record for batch in description["batches"] for record in batch["records"]]
            assert len(records) == len(SHAPES) * 3
            for row, record in zip(SHAPES * 3, records, strict=True):
                assert is_same(record["key"], row[0])
                assert is_same(record["value"], row[1])
                assert record["timestamp_ms"] == (row[3] if len(row) == 4 else TIME)


def test_the_referee_can_say_no(tmp_path: Path, judge: Judge) -> None:
    damaged = bytearray(encode_batches(SHAPES))
    damaged[100] ^= 1
    (tmp_path / "damaged.log").write_bytes(damaged)
    (description,) = judge.describe([tmp_path / "damaged.log"])
    assert "crc" in description["error"].lower() or "corrupt" in description["error"].lower()
