"""Scan the records of a v2 batch: check every one, and say where its parts lie, without copying them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelog.record.batch import RecordBatch, check_count
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Compression
from tidelog.record.faults import raise_fault
from tidelog.record.headers import Int64Array
from tidelog.record.kernel import records as kernel
from tidelog.record.layout import HEADER_SIZE, TIMESTAMP_TYPE_BIT
from tidelog.record.slots import Totals, Want
from tidelog.record.views import view

_NO_BYTES = view(np.zeros(1, np.uint8))
_NO_OFFSETS = view(np.zeros(1, np.int32))


@dataclass(frozen=True, slots=True)
class ScannedRecords:
    """The records of one batch."""

    payload: memoryview
    """Decompressed; the slices point into it."""
    offsets: Int64Array
    timestamps: Int64Array
    slices: NDArray[np.int32]
    """Six rows: key start, key length, value start, value length, headers start, header count; an entry a record, -1 for a null."""


def scan_records(batch: RecordBatch, *, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> ScannedRecords:
    """Scan a batch; bad records raise."""
    payload = batch.payload(max_decompressed_bytes)
    count = batch.count
    check_count(count, len(payload), batch.position)
    is_append_time = int(bool(batch.attributes & TIMESTAMP_TYPE_BIT))
    described = np.array(
        [0, len(payload), count, batch.base_offset, batch.base_timestamp_ms, is_append_time, batch.max_timestamp_ms], np.int64
    )
    offsets, timestamps = np.empty(max(1, count), np.int64), np.empty(max(1, count), np.int64)
    slices = np.empty(6 * max(1, count), np.int32)
    totals, fault = np.zeros(len(Totals), np.int64), np.zeros(5, np.int64)
    is_good = kernel.decode_batches(
        payload,
        view(described),
        int(Want.SLICES),
        view(offsets),
        view(timestamps),
        _NO_OFFSETS,
        _NO_BYTES,
        _NO_BYTES,
        _NO_OFFSETS,
        _NO_BYTES,
        _NO_BYTES,
        view(slices),
        view(totals),
        view(fault),
    )
    if not is_good:
        kind, position, found, expected = (int(number) for number in fault[:4])
        if batch.compression is Compression.NONE:
            raise_fault(kind, batch.position + HEADER_SIZE + position, found, expected)
        raise_fault(kind, position, found, expected, batch.position)
    return ScannedRecords(payload, offsets[:count], timestamps[:count], slices.reshape(6, -1)[:, :count])
