"""Filtered copies, against the output of Kafka's own `MemoryRecords.filterTo`, which its cleaner uses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import golden_retain_cases
from tidelog.record import LegacyBatch, RecordBatch, read_batches, retain_records

CASES = golden_retain_cases()


def horizon_for(batch: RecordBatch | LegacyBatch, keep: list[bool], case: dict[str, Any]) -> int | None:
    """When a batch gets a horizon is the cleaner's decision: a kept tombstone, or the marker of an empty transaction."""
    keeps_tombstone = any(kept and record.value is None for kept, record in zip(keep, batch, strict=True))
    is_marker = batch.is_control and case["contains_marker_for_empty_txn"]
    return case["delete_horizon_ms"] if keeps_tombstone or is_marker else None


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_filtered_copy(path: Path) -> None:
    case = json.loads(path.read_text())
    data = path.with_name(f"{path.stem}.input.log").read_bytes()
    expected = path.with_name(f"{path.stem}.output.log").read_bytes()
    found = b""
    for batch in read_batches(data):
        keep = [record.offset in case["keep"] for record in batch]
        if case["retention"] != "DELETE":
            horizon = horizon_for(batch, keep, case)
            found += retain_records(batch, keep, delete_horizon_ms=horizon, keep_empty=case["retention"] == "RETAIN_EMPTY")

    if any(str(batch.compression) != "none" for batch in read_batches(expected)):
        # Compressed bytes depend on the library; everything they stand for must be the same.
        assert described(found) == described(expected)
    elif path.stem == "header-name-not-utf8":
        # Kafka decodes and encodes header names, and loses what was not UTF-8. We copy the bytes.
        assert described(found) == described(expected)
        assert b"\xff" in found
        assert b"\xff" not in expected[61:]
    else:
        assert found.hex() == expected.hex()


def described(data: bytes) -> list[tuple[Any, ...]]:
    """Everything about batches but their compressed bytes."""
    return [
        (
            *(batch.base_offset, batch.last_offset, batch.attributes, batch.max_timestamp_ms, batch.count, batch.partition_leader_epoch),
            *(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_valid),
            batch.base_timestamp_ms if isinstance(batch, RecordBatch) else None,
            list(batch),
        )
        for batch in read_batches(data)
    ]


def test_the_golden_files_are_there() -> None:
    assert len(CASES) > 90


def test_keep_must_match_the_batch() -> None:
    data = CASES[0].with_name(f"{CASES[0].stem}.input.log").read_bytes()
    (batch,) = read_batches(data)
    with pytest.raises(ValueError, match="keep has 1 entries"):
        retain_records(batch, [True])
