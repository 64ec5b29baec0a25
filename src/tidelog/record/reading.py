"""Iterate the batches of a buffer, and count its records without decoding them."""

from collections.abc import Iterator

import numpy as np

from tidelog.record.batch import RecordBatch, as_batch_view
from tidelog.record.headers import FIELDS, BatchHeaders, check_counts, walk_block, walk_headers
from tidelog.record.legacy import LegacyBatch, flatten
from tidelog.record.views import Buffer

_WALK_BATCHES = 256


def read_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch | LegacyBatch]:
    """Views of the batches from `position` on, of any format.

    Ends in peace where no whole batch follows; a size or magic that cannot be raises after the batches before it.
    """
    if position < 0:
        raise ValueError(f"a position is 0 or more, not {position}")
    view = as_batch_view(buffer)
    flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
    while True:
        headers, error = walk_block(view, position, len(view), flat)
        starts, sizes, magics = headers.position.tolist(), headers.size_bytes.tolist(), headers.magic.tolist()
        for index, (start, size, magic) in enumerate(zip(starts, sizes, magics, strict=True)):
            if magic == 2:
                yield RecordBatch(view, start, size)
            else:
                yield LegacyBatch(view, headers[index : index + 1])
        if error is not None:
            raise error
        if len(headers) == 0:
            return
        position = headers.end_position
        flat = np.empty_like(flat)  # legacy batches keep theirs


def count_records(buffer: Buffer, headers: BatchHeaders | None = None) -> int:
    """How many records the batches hold: from their headers alone, but for compressed legacy wrappers, which have to be opened."""
    view = as_batch_view(buffer)
    if headers is None:
        headers = walk_headers(view)
    check_counts(headers)
    counts = headers.count
    total = int(counts[counts >= 0].sum())
    for index in (counts < 0).nonzero()[0].tolist():
        total += len(flatten(view, headers[index : index + 1], check_crcs=False).offsets)
    return total
