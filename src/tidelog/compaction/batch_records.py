"""One batch of whatever format, with the columns of its records."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.record.batch import RecordBatch
from tidelog.record.headers import BatchHeaders
from tidelog.record.legacy import LegacyBatch, flatten
from tidelog.record.scanning import scan_records


class BatchRecords(NamedTuple):
    """A batch with the columns of its records."""

    batch: RecordBatch | LegacyBatch
    payload: memoryview
    offsets: NDArray[np.int64]
    key_starts: NDArray[np.int32]
    key_lengths: NDArray[np.int32]
    value_lengths: NDArray[np.int32]


def looked_into(buffer: memoryview, one: BatchHeaders) -> BatchRecords:
    """The first of these batches, of whatever format, with its records."""
    if int(one.magic[0]) < 2:
        messages = flatten(buffer, one, check_crcs=True)
        slices = messages.slices
        return BatchRecords(LegacyBatch(buffer, one), messages.payload, messages.offsets, slices[0], slices[1], slices[3])
    batch = RecordBatch(buffer, int(one.position[0]), int(one.size_bytes[0]))
    scanned = scan_records(batch)
    return BatchRecords(batch, scanned.payload, scanned.offsets, scanned.slices[0], scanned.slices[1], scanned.slices[3])
