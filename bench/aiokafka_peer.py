"""aiokafka's record code, compiled: one pass of each job, in the shortest loop that its API allows.

Nothing is kept and nothing counted but what the job is about; how many units a pass has is known beforehand.

Reproduce: `.venv/bin/python -m bench --only aiokafka`
"""
# ruff: noqa: B018 — reading an attribute is the work here

from collections.abc import Sequence

import aiokafka
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from bench.jvm import CannotRunError

VERSION = f"aiokafka {aiokafka.__version__}, compiled"
NO_HEADERS: list[tuple[str, bytes | None]] = []


def require_compiled() -> None:
    """Its interpreted fallback would make us look some twenty times better than we are."""
    interpreted = [
        kind.__name__ for kind in (MemoryRecords, DefaultRecordBatch, DefaultRecordBatchBuilder) if "._crecords." not in kind.__module__
    ]
    if interpreted:
        raise CannotRunError(
            f"aiokafka runs interpreted here ({', '.join(interpreted)}): install a wheel with its extensions, unset AIOKAFKA_NO_EXTENSIONS"
        )


def read(data: bytes, *, check_crcs: bool = False) -> None:
    """Every record as an object, its key and value read."""
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        if check_crcs and not batch.validate_crc():
            raise AssertionError("a CRC does not match")
        for record in batch:
            record.key
            record.value


def volume(data: bytes) -> tuple[int, int]:
    """Records, and bytes of keys and values: what both sides have to agree on."""
    count = 0
    size_bytes = 0
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        for record in batch:
            count += 1
            size_bytes += len(record.key or b"") + len(record.value or b"")
    return count, size_bytes


def walk(data: bytes) -> None:
    """Every header field that a batch exposes, no record touched."""
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        batch.base_offset
        batch.magic
        batch.crc
        batch.attributes
        batch.last_offset_delta
        batch.first_timestamp
        batch.max_timestamp
        batch.producer_id
        batch.producer_epoch
        batch.base_sequence


def header_sums(data: bytes) -> tuple[int, ...]:
    """Batches, and a sum over each of some header fields."""
    sums = [0, 0, 0, 0]
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        for index, number in enumerate((1, batch.base_offset, batch.max_timestamp, batch.crc)):
            sums[index] += number
    return tuple(sums)


def build(rows: Sequence[tuple[bytes, bytes]], timestamp_ms: int, batch_bytes: int) -> list[bytearray]:
    """Batches of at most `batch_bytes`, one after the other."""
    batches: list[bytearray] = []
    builder = _builder(batch_bytes)
    append = builder.append
    offset = 0
    for key, value in rows:
        if append(offset, timestamp_ms, key, value, NO_HEADERS) is None:
            batches.append(builder.build())
            builder = _builder(batch_bytes)
            append = builder.append
            offset = 0
            append(offset, timestamp_ms, key, value, NO_HEADERS)
        offset += 1
    if offset:
        batches.append(builder.build())
    return batches


def _builder(batch_bytes: int) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=batch_bytes
    )
