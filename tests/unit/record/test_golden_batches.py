"""What Kafka reads from its own bytes, we read too: batch by batch, as objects and as columns."""

import pytest

from tests.support.golden import GoldenLog, golden_logs, is_same
from tidelog.record import (
    COLUMNS,
    ControlType,
    Record,
    checksums_match,
    count_records,
    parse_control_record,
    read_batches,
    to_arrow,
    walk_headers,
)

LOGS = golden_logs()
HEADER_FIELDS = (
    "base_offset",
    "last_offset",
    "next_offset",
    "base_sequence",
    "last_sequence",
    "producer_id",
    "producer_epoch",
    "partition_leader_epoch",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
    "position",
    "size_bytes",
    "max_timestamp_ms",
    "magic",
    "crc",
    "is_valid",
)

every_log = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)


def test_the_golden_files_are_there() -> None:
    assert len(LOGS) > 90
    assert {batch["magic"] for log in LOGS for batch in log.batches} == {0, 1, 2}
    assert {batch["compression"] for log in LOGS for batch in log.batches} == {"none", "gzip", "snappy", "lz4", "zstd"}


@every_log
def test_headers_of_batches(log: GoldenLog) -> None:
    batches = list(read_batches(log.data))
    assert len(batches) == len(log.batches)
    for batch, described in zip(batches, log.batches, strict=True):
        assert {field: getattr(batch, field) for field in HEADER_FIELDS} == {field: described[field] for field in HEADER_FIELDS}
        assert str(batch.compression) == described["compression"]
        assert str(batch.timestamp_type) == described["timestamp_type"]
        assert described["count"] in (None, batch.count)
        batch.ensure_valid()


@every_log
def test_records(log: GoldenLog) -> None:
    for batch, described in zip(read_batches(log.data), log.batches, strict=True):
        records = list(batch)
        assert len(records) == len(described["records"])
        for record, expected in zip(records, described["records"], strict=True):
            assert (record.offset, record.timestamp_ms, record.sequence) == tuple(
                expected[k] for k in ("offset", "timestamp_ms", "sequence")
            )
            assert record.timestamp_type == batch.timestamp_type or batch.magic < 2
            assert is_same(expected["key"], record.key)
            assert is_same(expected["value"], record.value)
            assert [name for name, _ in record.headers] == [name for name, _ in expected["headers"]]
            assert all(is_same(value, got) for (_, value), (_, got) in zip(expected["headers"], record.headers, strict=True))
            if "control_type" in expected:
                control = parse_control_record(record)
                assert control.type is ControlType[expected["control_type"]]
                assert control.coordinator_epoch == expected.get("coordinator_epoch")


@every_log
def test_columns_are_the_records(log: GoldenLog) -> None:
    rows = to_arrow(log.data, COLUMNS).to_pylist()
    expected = []
    for batch in read_batches(log.data):
        for record in batch:
            expected.append(
                {
                    "offset": record.offset,
                    "timestamp_ms": record.timestamp_ms,
                    "timestamp_type": int(record.timestamp_type),
                    "key": record.key,
                    "value": record.value,
                    "headers": [{"key": name, "value": value} for name, value in record.headers],
                    "sequence": record.sequence,
                    "producer_id": batch.producer_id,
                    "producer_epoch": batch.producer_epoch,
                    "partition_leader_epoch": batch.partition_leader_epoch,
                    "is_transactional": batch.is_transactional,
                    "is_control": batch.is_control,
                }
            )
    assert rows == expected
    assert count_records(log.data) == len(expected)


@every_log
def test_header_arrays_are_the_batches(log: GoldenLog) -> None:
    headers = walk_headers(log.data)
    assert headers.end_position == len(log.data)
    assert checksums_match(log.data, headers).all()
    for field in ("last_offset", "position", "size_bytes", "magic", "crc", "producer_id", "base_sequence", "max_timestamp_ms"):
        assert getattr(headers, field).tolist() == [batch[field] for batch in log.batches]
    for count, described in zip(headers.count.tolist(), log.batches, strict=True):
        assert count == (len(described["records"]) if described["magic"] == 2 or described["compression"] == "none" else -1)


@every_log
def test_every_single_bit_flip_behind_the_crc_is_noticed(log: GoldenLog) -> None:
    data = bytearray(log.data[:4096])
    headers = walk_headers(bytes(data))
    for position, size, magic in zip(headers.position.tolist(), headers.size_bytes.tolist(), headers.magic.tolist(), strict=True):
        first_protected = position + (21 if magic == 2 else 17)  # from 16 on a legacy message, but its magic would change the format
        for at in {first_protected, position + size // 2, position + size - 1}:
            if at >= first_protected:
                data[at] ^= 0x10
                damaged = checksums_match(bytes(data), walk_headers(bytes(data)))
                assert not damaged.all(), f"a flip at byte {at} went unnoticed"
                data[at] ^= 0x10


def test_records_know_topic_and_partition_when_told() -> None:
    log = next(log for log in LOGS if log.name == "v2-create-time-none")
    (batch,) = read_batches(log.data)
    first: Record = next(iter(batch.records(topic="emails", partition=3)))
    assert (first.topic, first.partition) == ("emails", 3)
