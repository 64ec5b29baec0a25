"""Iterate the batches of a buffer, and count its records without decoding them."""

from collections.abc import Iterator

from tidelog.record.batch import RecordBatch, as_batch_view
from tidelog.record.headers import BatchHeaders, check_counts, walk_headers
from tidelog.record.legacy import LegacyBatch, flatten
from tidelog.record.views import Buffer

_WALK_BYTES = 1 << 20


def read_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch | LegacyBatch]:
    """Views of the batches from `position` on, of any format.

    Ends in peace where no whole batch follows; a size or magic that cannot be raises after the batches before it.
    """
    view = as_batch_view(buffer)
    while True:
        headers = walk_headers(view, position, max_bytes=_WALK_BYTES)
        if len(headers) == 0:
            return
        for index, (start, size, magic) in enumerate(zip(*headers.fields[:3].tolist(), strict=True)):
            if magic == 2:
                yield RecordBatch(view, start, size)
            else:
                yield LegacyBatch(view, headers[index : index + 1])
        position = headers.end_position


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
