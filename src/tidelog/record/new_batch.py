"""A batch to be written, as opposed to one that was read (`RecordBatch`)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import crc32c

from tidelog.errors import InvalidBatchError
from tidelog.record.control import ControlType, marker_record
from tidelog.record.encoding import MAX_BATCH_BYTES, BatchEncoder, BatchSettings, Row
from tidelog.record.layout import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    signed64,
)

_LENGTH = struct.Struct(">i")
MAX_OFFSET_DELTA = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Records and what is to stand in the header above them. `encode` gives the bytes; nothing is kept."""

    records: Sequence[Row]
    base_offset: int = 0
    timestamp_ms: int = -1
    """For tuples that bring no timestamp."""
    settings: BatchSettings = field(default_factory=BatchSettings)

    def encode(self) -> bytes:
        """The one batch with all the records, whatever its size."""
        if not self.records:
            raise InvalidBatchError("a batch to write has no records", expected="at least 1", found=0)
        encoder = BatchEncoder(replace(self.settings, batch_bytes=MAX_BATCH_BYTES), base_offset=self.base_offset)
        encoded = bytes(encoder.encode(list(self.records), timestamp_ms=self.timestamp_ms))
        (length,) = _LENGTH.unpack_from(encoded, LENGTH_POSITION)
        if length + LOG_OVERHEAD != len(encoded):
            raise InvalidBatchError("the records do not fit one batch", expected=f"at most {MAX_BATCH_BYTES} bytes", found=len(encoded))
        return encoded


def transaction_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = 0,
) -> bytes:
    """The batch that ends a transaction on a partition."""
    settings = BatchSettings(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )
    record = marker_record(control_type, coordinator_epoch=coordinator_epoch, timestamp_ms=timestamp_ms)
    return NewBatch([record], base_offset=base_offset, settings=settings).encode()


def empty_batch(
    *,
    base_offset: int,
    last_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    max_timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """The header that compaction leaves of a batch without records: no codec, no horizon, no base timestamp, all else kept."""
    last_offset_delta = signed64(last_offset - base_offset)
    if not -MAX_OFFSET_DELTA - 1 <= last_offset_delta <= MAX_OFFSET_DELTA:
        raise InvalidBatchError("offsets of one batch too far apart", expected=f"at most {MAX_OFFSET_DELTA}", found=last_offset_delta)
    header = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD,
            partition_leader_epoch,
            2,
            0,
            attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            last_offset_delta,
            -1,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            0,
        )
    )
    checksum = crc32c.crc32c(memoryview(header)[ATTRIBUTES_POSITION:])
    header[CRC_POSITION:ATTRIBUTES_POSITION] = checksum.to_bytes(4, "big")
    return bytes(header)
