"""A batch to be written, as opposed to one that was read (`RecordBatch`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import crc32c

from tidelog.errors import InvalidBatchError
from tidelog.record.control import ControlType, marker_record
from tidelog.record.encoding import MAX_BATCH_BYTES, BatchEncoder, BatchSettings, Row
from tidelog.record.layout import ATTRIBUTES_POSITION, CODEC_MASK, CRC_POSITION, DELETE_HORIZON_BIT, HEADER, HEADER_SIZE, LOG_OVERHEAD


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Records and what is to stand in the header above them. `encode` gives the bytes; nothing is kept."""

    records: Sequence[Row]
    base_offset: int = 0
    timestamp_ms: int = -1
    """For records that bring no timestamp."""
    settings: BatchSettings = field(default_factory=BatchSettings)

    def encode(self) -> bytes:
        """The one batch with all the records, whatever its size."""
        if not self.records:
            raise InvalidBatchError("a batch to write has no records", expected="at least 1", found=0)
        settings = BatchSettings(
            **{name: getattr(self.settings, name) for name in BatchSettings.__dataclass_fields__} | {"batch_bytes": MAX_BATCH_BYTES}
        )
        encoder = BatchEncoder(settings, base_offset=self.base_offset)
        return bytes(encoder.encode(list(self.records), timestamp_ms=self.timestamp_ms))


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
    header = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD,
            partition_leader_epoch,
            2,
            0,
            attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            last_offset - base_offset,
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
