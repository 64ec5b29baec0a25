"""Split a chunk of batches into runs that the kernel takes whole, and single batches that need a closer look.

Most logs consist of plain data batches. Control batches, compressed and legacy ones, and what transactions discard are looked at one by
one; transactions have to be followed in the order of the log, so that is done here.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidelog.compaction.segment_chunks import Chunk
from tidelog.compaction.transactions import TransactionTracker, control_type_of
from tidelog.record.batch import RecordBatch
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from tidelog.record.plain_records import MAGIC_V2, are_plain


class BatchRun(NamedTuple):
    """Batches one behind the other, of one kind."""

    headers: BatchHeaders
    is_plain: bool
    """Data batches, v2, not compressed, not discarded."""
    discarded: tuple[bool, ...]
    """If not plain: for each batch, whether its transaction has no more use for it."""


def runs_of(chunk: Chunk, tracker: TransactionTracker) -> Iterator[BatchRun]:
    """The runs of a chunk. All its transactions have been followed when the first is given."""
    headers = chunk.headers
    plain = are_plain(headers)
    discarded = _follow(chunk, tracker)
    if discarded:
        plain[[index for index, is_discarded in discarded.items() if is_discarded]] = False
    elif plain.all():
        yield BatchRun(headers, True, ())
        return
    edges = [0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(headers)]
    for first, end in pairwise(edges):
        is_plain = bool(plain[first])
        yield BatchRun(headers[first:end], is_plain, () if is_plain else tuple(discarded.get(index, False) for index in range(first, end)))


def _follow(chunk: Chunk, tracker: TransactionTracker) -> dict[int, bool]:
    """Show the batches of transactions to the tracker: what it says of each, by its place. Others tell it nothing that these do not."""
    headers = chunk.headers
    attributes = headers.attributes
    marked = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
    if headers.may_be_legacy:
        marked &= headers.magic == MAGIC_V2
    places = np.flatnonzero(marked)
    if len(places) == 0:
        return {}
    said = {}
    rows = (attributes, headers.last_offset, headers.producer_id, headers.position, headers.size_bytes)
    for index, bits, last_offset, producer_id, position, size in zip(places.tolist(), *(row[places].tolist() for row in rows), strict=True):
        if bits & CONTROL_BIT:
            control_type = control_type_of(RecordBatch(chunk.buffer, position, size))
            said[index] = tracker.discards_control(last_offset, producer_id, control_type)
        else:
            said[index] = tracker.discards_data(last_offset, producer_id, is_transactional=True)
    return said
