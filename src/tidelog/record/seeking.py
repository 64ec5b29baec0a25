"""Find batches and records by offset and by time, in bytes that were read from a segment.

`find_batch(buffer, position, end, offset)` and `find_batch_by_time(buffer, position, end, timestamp_ms)` are the kernel's own; both give
(status, position, size, base offset, last offset, max timestamp), see `tidelog.record.kernel.seek`. `tidelog.record.outcomes.Seek` names
the statuses; a negative one goes to `raise_framing`.
"""

from typing import NoReturn

from tidelog.record.batch import RecordBatch, check_count
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tidelog.record.faults import raise_fault
from tidelog.record.kernel import seek as kernel
from tidelog.record.kernel.seek import find_batch, find_batch_by_time
from tidelog.record.layout import CODEC_MASK, HEADER_SIZE, TIMESTAMP_TYPE_BIT
from tidelog.record.legacy import LegacyBatch
from tidelog.record.outcomes import Seek

__all__ = ["Seek", "find_batch", "find_batch_by_time", "raise_framing", "record_at_time"]


def record_at_time(
    batch: RecordBatch | LegacyBatch,
    timestamp_ms: int,
    min_offset: int = 0,
    *,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record with a timestamp of `timestamp_ms` or more and an offset of `min_offset` or more.

    With the max timestamp of a batch this finds the first record that has it. Bad records raise where they are met, those behind the
    answer are not looked at.
    """
    if isinstance(batch, LegacyBatch):
        for record in batch.records(max_decompressed_bytes=max_decompressed_bytes):
            if record.timestamp_ms >= timestamp_ms and record.offset >= min_offset:
                return record.offset, record.timestamp_ms
        return None
    base_offset, _, _, _, _, attributes, _, base_timestamp_ms, max_timestamp_ms, _, _, _, count = batch.header()
    is_compressed = attributes & CODEC_MASK
    if is_compressed:
        payload, start = batch.payload(max_decompressed_bytes), 0
        end = len(payload)
    else:
        payload, start = batch.buffer, batch.position + HEADER_SIZE
        end = batch.position + batch.size_bytes
    check_count(count, end - start, batch.position)
    status, offset, found_ms, expected = kernel.find_record_by_time(
        payload,
        start,
        end,
        count,
        base_timestamp_ms,
        base_offset,
        attributes & TIMESTAMP_TYPE_BIT,
        max_timestamp_ms,
        timestamp_ms,
        min_offset,
    )
    if status < 0:
        # Then the numbers are those of a fault. A place in a decompressed payload means nothing to the caller: there the batch is named.
        raise_fault(-status, offset, found_ms, expected, batch.position if is_compressed else -1)
    return (offset, found_ms) if status else None


def raise_framing(answer: tuple[int, int, int, int, int, int]) -> NoReturn:
    """Raise what a negative status of `find_batch` or `find_batch_by_time` stands for."""
    status, position, found, expected, _, _ = answer
    raise_fault(-status, position, found, expected)
