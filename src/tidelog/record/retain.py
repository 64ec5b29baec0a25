"""Copy a batch keeping only some of its records, as log compaction does.

What stays: offsets with their gaps, producer fields, leader epoch, codec, type bits, and the last offset even if its record goes. What
changes: the base timestamp becomes the delete horizon if there is one, else the first kept record's time; the deltas follow it; the max
timestamp of a CreateTime batch is that of the kept records. A batch that keeps everything and gets no new horizon is copied as it is.

Legacy batches become v2, as Kafka's cleaner does it since 4.0: base and last offset are those of the kept records.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidelog.record.batch import RecordBatch, check_count
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, compress
from tidelog.record.encoding import MAX_BATCH_BYTES, BatchEncoder, BatchSettings, write_checksums
from tidelog.record.kernel import encode as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.layout import DELETE_HORIZON_BIT, HEADER, HEADER_SIZE, LOG_OVERHEAD, TIMESTAMP_TYPE_BIT, TimestampType
from tidelog.record.legacy import LegacyBatch
from tidelog.record.new_batch import empty_batch
from tidelog.record.scanning import scan_records
from tidelog.record.views import view

_GROWTH = 11  # what a longer timestamp delta and the longer length before it can add to a record


def retain_records(
    batch: RecordBatch | LegacyBatch,
    keep: Sequence[bool],
    *,
    delete_horizon_ms: int | None = None,
    keep_empty: bool = False,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """The batch with only the records for which `keep` is true (one entry a record, in order).

    `delete_horizon_ms` is a horizon to set; one that the batch has already stays. When nothing is left: with `keep_empty` the header of the
    batch, else no bytes at all.
    """
    flags = np.asarray(keep, dtype=np.bool_)
    if isinstance(batch, LegacyBatch):
        return _retain_legacy(batch, flags, delete_horizon_ms, keep_empty, max_decompressed_bytes)
    if batch.count < 0:
        check_count(batch.count, 0, batch.position)
    if len(flags) != batch.count:
        raise ValueError(f"keep has {len(flags)} entries for a batch of {batch.count} records")
    is_new_horizon = delete_horizon_ms is not None and batch.delete_horizon_ms is None
    if not flags.any():
        return _emptied(batch) if keep_empty else b""
    if flags.all() and not is_new_horizon:
        return batch.to_bytes()
    return _rewrite(batch, flags, delete_horizon_ms if is_new_horizon else batch.delete_horizon_ms, max_decompressed_bytes)


def _rewrite(batch: RecordBatch, flags: NDArray[np.bool_], horizon: int | None, max_bytes: int) -> bytes:
    scanned = scan_records(batch, max_decompressed_bytes=max_bytes)
    kept_timestamps = scanned.timestamps[flags]
    base_timestamp = horizon if horizon is not None else int(kept_timestamps[0])
    is_append_time = bool(batch.attributes & TIMESTAMP_TYPE_BIT)
    output = np.empty(len(scanned.payload) + _GROWTH * len(flags), np.uint8)
    size = kernel.retain_records(scanned.payload, view(scanned.timestamps), view(flags.view(np.uint8)), base_timestamp, view(output))
    records = compress(batch.compression, view(output)[:size])
    header = list(batch.header())
    header[1] = HEADER_SIZE - LOG_OVERHEAD + len(records)
    header[5] = batch.attributes | (0 if horizon is None else DELETE_HORIZON_BIT)
    header[7] = base_timestamp
    header[8] = batch.max_timestamp_ms if is_append_time else int(kept_timestamps.max())
    header[12] = len(kept_timestamps)
    out = Arena(HEADER_SIZE + len(records))
    out.append(HEADER.pack(*header))
    out.append(records)
    write_checksums(out.view())
    return bytes(out.view())


def _emptied(batch: RecordBatch) -> bytes:
    return empty_batch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes,
        max_timestamp_ms=batch.max_timestamp_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def _retain_legacy(
    batch: LegacyBatch,
    flags: NDArray[np.bool_],
    delete_horizon_ms: int | None,
    keep_empty: bool,
    max_decompressed_bytes: int,
) -> bytes:
    records = list(batch.records(max_decompressed_bytes=max_decompressed_bytes))
    if len(flags) != len(records):
        raise ValueError(f"keep has {len(flags)} entries for a batch of {len(records)} records")
    kept = [record for record, is_kept in zip(records, flags.tolist(), strict=True) if is_kept]
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if not kept:
        if not keep_empty:
            return b""
        return empty_batch(
            base_offset=records[0].offset,
            last_offset=batch.last_offset,
            partition_leader_epoch=-1,
            attributes=TIMESTAMP_TYPE_BIT if is_append_time else 0,
            max_timestamp_ms=batch.max_timestamp_ms,
        )
    settings = BatchSettings(
        compression=batch.compression,
        batch_bytes=MAX_BATCH_BYTES,
        append_time_ms=batch.max_timestamp_ms if is_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )
    return bytes(BatchEncoder(settings, base_offset=kept[0].offset).encode(kept, keep_offsets=True))
