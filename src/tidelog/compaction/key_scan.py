"""Fill the offset map from the dirty part of a log: the last offset of every key, as far as the memory goes.

Batches are walked from the first dirty offset up to the bound. Control batches and data of aborted transactions have no say. When the map
is full, be it in the middle of a batch, the scan ends there: the rest of the log stays dirty for the next pass.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.batch_records import looked_into
from tidelog.compaction.batch_runs import runs_of
from tidelog.compaction.hooks import Hooks
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.pass_facts import KeyScan, ScannedSpan
from tidelog.compaction.segment_chunks import Chunk, ChunkReader, check_offsets
from tidelog.compaction.stats import Counts
from tidelog.compaction.transactions import TransactionTracker
from tidelog.errors import TidelogError
from tidelog.log.segment import Segment
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from tidelog.record.plain_records import PlainRecords

MAX_NAMED_NULL_KEYS = 100
MAX_SPANS = 1 << 16

Put = Callable[[memoryview, NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]], int]


def scan_keys(
    segments: Sequence[Segment],
    first_dirty: int,
    bound: int,
    aborted: Sequence[AbortedTxn],
    offset_map: OffsetMap,
    counts: Counts,
    hooks: Hooks,
    reader: ChunkReader,
    end_offset: int,
) -> KeyScan:
    """Fill `offset_map` from the segments that reach into [first_dirty, bound). Behind the last of them the next begins at `end_offset`."""
    offset_map.clear()
    scanner = _Scanner(first_dirty, offset_map, counts)
    scanner.tracker.add_aborted(aborted)
    for place, segment in enumerate(segments):
        hooks.check_done()
        is_last = place + 1 == len(segments)
        end = end_offset if is_last else segments[place + 1].base_offset
        for chunk in reader.read(segment, start_in(segment, first_dirty)):
            hooks.check_done()
            check_offsets(chunk, segment, end)
            try:
                scanner.take(chunk)
            except TidelogError as error:
                raise chunk.located(error, segment.file.path) if error.path is None else error from None
            hooks.throttle(chunk.headers.end_position - int(chunk.headers.position[0]))
            if scanner.is_full:
                return scanner.result()
            scanner.note_span(segment, chunk)
        offset_map.latest_offset = (bound if is_last else end) - 1
    return scanner.result()


def start_in(segment: Segment, first_dirty: int) -> int:
    """From where in a segment to read: at the index entry below the first dirty offset, if a batch that fits it lies there."""
    entry = segment.index.lookup(first_dirty)
    if not 0 < entry.position < segment.size_bytes:
        return 0
    opened = segment.file.open()
    head = segment.pool.disk.read(opened.fd, 27, entry.position)
    if len(head) < 27 or head[16] != 2:
        return 0
    base_offset = int.from_bytes(head[:8], "big", signed=True)
    last_offset = base_offset + int.from_bytes(head[23:27], "big", signed=True)
    return entry.position if segment.base_offset <= base_offset <= last_offset <= entry.offset <= first_dirty else 0


class _Scanner:
    def __init__(self, first_dirty: int, offset_map: OffsetMap, counts: Counts) -> None:
        self.first_dirty = first_dirty
        self.map = offset_map
        self.counts = counts
        self.tracker = TransactionTracker()
        self.records = PlainRecords()
        self.is_full = False
        self.has_tombstones = False
        self.is_ordered = True
        self.has_discarded = False
        self._last_offset = -1
        self._is_dull = True
        """Whether the chunk at hand has nothing but plain records with keys and values, all of them dirty."""
        self.spans: dict[tuple[int, int], ScannedSpan] = {}

    def result(self) -> KeyScan:
        return KeyScan(
            self.map.latest_offset + 1,
            self.is_full,
            self.has_tombstones,
            self.counts.null_keys > 0,
            self.is_ordered,
            self.has_discarded,
            self.spans,
        )

    def take(self, chunk: Chunk) -> None:
        """All batches of a chunk, or as many as the map takes."""
        headers = chunk.headers
        self._is_dull = not (headers.attributes & TRANSACTIONAL_BIT).any() and int(headers.base_offset[0]) >= self.first_dirty
        for run in runs_of(chunk, self.tracker):
            self._is_dull &= run.is_plain
            if run.is_plain:
                self._take_plain(chunk.buffer, run.headers)
            else:
                for index, is_discarded in enumerate(run.discarded):
                    self._take_batch(chunk.buffer, run.headers[index : index + 1], is_discarded)
                    if self.is_full:
                        return
            if self.is_full:
                return
        self.counts.map_bytes_read += headers.end_position - int(headers.position[0])

    def note_span(self, segment: Segment, chunk: Chunk) -> None:
        """Remember a chunk: if none of its records turns out to survive, it need not be read again."""
        headers = chunk.headers
        if self._is_dull and self.is_ordered and len(self.spans) < MAX_SPANS:
            position, end = chunk.file_position + int(headers.position[0]), chunk.file_position + headers.end_position
            first, last = int(headers.base_offset[0]), int(headers.last_offset[-1])
            self.spans[segment.base_offset, position] = ScannedSpan(end - position, first, last, int(headers.count.sum()))

    def _take_plain(self, buffer: memoryview, run: BatchHeaders) -> None:
        records = self.records
        records.scan(buffer, run)
        before = self.map.latest_offset
        taken = self._put(self.map.put_slices, buffer, records.offsets, records.key_starts, records.key_lengths, records.value_lengths)
        finished = len(run)
        put = before
        if self.is_full:
            ends = np.cumsum(run.count)
            finished = int(np.searchsorted(ends, taken, side="right"))
            own = slice(int(ends[finished - 1]) if finished else 0, taken)
            keyed = records.offsets[own][(records.key_lengths[own] >= 0) & (records.offsets[own] >= self.first_dirty)]
            put = int(keyed[-1]) if len(keyed) else -1
        latest = before
        if finished and int(run.last_offset[finished - 1]) >= self.first_dirty:
            latest = int(run.last_offset[finished - 1])
        self.map.latest_offset = put if self.is_full and put >= 0 else latest

    def _take_batch(self, buffer: memoryview, one: BatchHeaders, is_discarded: bool) -> None:
        last_offset = int(one.last_offset[0])
        if int(one.magic[0]) >= 2 and int(one.attributes[0]) & CONTROL_BIT:
            self.counts.map_messages_read += 1
        elif is_discarded:
            self.has_discarded = True
            self.counts.map_messages_read += int(one.count[0])
        else:
            records = looked_into(buffer, one)
            self._put(self.map.put, records.payload, records.offsets, records.key_starts, records.key_lengths, records.value_lengths)
        if not self.is_full and last_offset >= self.first_dirty:
            self.map.latest_offset = last_offset

    def _put(
        self,
        put: Put,
        payload: memoryview,
        offsets: NDArray[np.int64],
        key_starts: NDArray[np.int32],
        key_lengths: NDArray[np.int32],
        value_lengths: NDArray[np.int32],
    ) -> int:
        """The keys of some batches: how many records were taken."""
        count = len(offsets)
        if count == 0:
            return 0
        if int(offsets[0]) <= self._last_offset or not bool((offsets[1:] > offsets[:-1]).all()):
            self.is_ordered = False
        self._last_offset = int(offsets[-1])
        lengths = key_lengths
        if int(offsets[0]) < self.first_dirty or not self.is_ordered:
            lengths = np.where(offsets >= self.first_dirty, key_lengths, -1).astype(np.int32)
        taken = put(payload, key_starts, lengths, offsets)
        self.is_full = taken < count
        self.counts.map_messages_read += taken
        if int(value_lengths.min()) < 0:
            self.has_tombstones = True
            self._is_dull = False
        if int(key_lengths.min()) < 0:
            keyless = offsets[:taken][(key_lengths[:taken] < 0) & (offsets[:taken] >= self.first_dirty)]
            note_null_keys(self.counts, keyless)
            self._is_dull = False
        return taken


def note_null_keys(counts: Counts, offsets: NDArray[np.int64]) -> None:
    """Records without a key were met."""
    counts.null_keys += len(offsets)
    room = MAX_NAMED_NULL_KEYS - len(counts.null_key_offsets)
    counts.null_key_offsets += offsets[:room].tolist()
