"""Index entries for runs of batches: an append's few, or the tens of thousands that recovery walks at a time.

`IndexRun` is where a segment stands between two batches, and has the rules (`tidelog.record.kernel.indexing`). For a single batch call its
`add_batch` directly; at the end of a segment that is scanned its `last_time_entry`. A try that may fail works on a `copy`.
"""

from dataclasses import dataclass

from tidelog.record.headers import BatchHeaders
from tidelog.record.kernel.indexing import IndexRun
from tidelog.record.outcomes import IndexStop
from tidelog.record.views import view

__all__ = ["IndexRun", "IndexStop", "IndexedBatches", "index_batches"]

_OFFSET_ENTRY_SIZE = 8
_TIME_ENTRY_SIZE = 12
_STOPS = tuple(IndexStop)


@dataclass(frozen=True, slots=True)
class IndexedBatches:
    """The entries of a run, big-endian as in the files, to be appended to them."""

    offset_entries: bytes
    time_entries: bytes
    count_of_batches: int
    """How many batches are in; less than there were only if `stop` says why the next one is not."""
    stop: IndexStop


def index_batches(
    headers: BatchHeaders,
    run: IndexRun,
    file_position: int,
    *,
    free_offset_slots: int,
    free_time_slots: int,
) -> IndexedBatches:
    """Bring `run` past the batches of `headers`, the first of which lies at `file_position` of the segment's file.

    Where in their buffer they were walked does not matter. The free slots are those up to where an index counts as full (for the time index
    that is one before its last). The first batch that does not fit the segment, or whose entries do not fit an index, ends the run; then
    `run` is as it was before that batch.
    """
    count = len(headers)
    if count == 0:
        return IndexedBatches(b"", b"", 0, IndexStop.NONE)
    offset_entries = bytearray(_OFFSET_ENTRY_SIZE * count)
    time_entries = bytearray(_TIME_ENTRY_SIZE * count)
    stop, done, offset_count, time_count = run.add_batches(
        view(headers.flat),
        headers.capacity,
        headers.first,
        count,
        file_position - int(headers.flat[headers.first]),
        offset_entries,
        time_entries,
        free_offset_slots,
        free_time_slots,
    )
    return IndexedBatches(
        bytes(offset_entries[: _OFFSET_ENTRY_SIZE * offset_count]),
        bytes(time_entries[: _TIME_ENTRY_SIZE * time_count]),
        done,
        _STOPS[stop],
    )
