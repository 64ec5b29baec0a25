"""Copy the batches of a group of segments, leaving out what compaction removes.

In the order of the log: transactions say what may be discarded, `rules` what stays of the rest. A batch that keeps all its records is
copied as it is; one that keeps some is written anew, with the same offsets; of one that keeps none at most the header stays. Plain batches
go through the kernel run by run (`plain_rewriting`), the others one by one.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.batch_records import BatchRecords, looked_into
from tidelog.compaction.batch_runs import runs_of
from tidelog.compaction.cleaned_segment import Target
from tidelog.compaction.hooks import Hooks
from tidelog.compaction.key_scan import note_null_keys
from tidelog.compaction.offset_map import checked_slices
from tidelog.compaction.output import Output
from tidelog.compaction.pass_facts import PassFacts
from tidelog.compaction.plain_rewriting import PlainRewriter
from tidelog.compaction.rules import BatchFacts, LastRecord, keeps_tombstones, new_horizon_ms, records_to_keep, rule_for_batch
from tidelog.compaction.segment_chunks import Chunk, ChunkReader
from tidelog.compaction.stats import Counts
from tidelog.compaction.survivor_bits import LastOffsets
from tidelog.compaction.transactions import TransactionTracker
from tidelog.errors import TidelogError
from tidelog.log.segment import Segment
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import CONTROL_BIT, DELETE_HORIZON_BIT, HEADER_SIZE
from tidelog.record.retain import retain_records


class Rewriter:
    """Rewrites one group after the other of a pass. One thread."""

    def __init__(self, facts: PassFacts, last_offsets: LastOffsets, counts: Counts, hooks: Hooks, reader: ChunkReader) -> None:
        self._facts = facts
        self._known = last_offsets
        self._counts = counts
        self._hooks = hooks
        self._reader = reader
        self._output = Output(counts, hooks)
        self._plain = PlainRewriter(facts, last_offsets, self._output)
        self.tracker = TransactionTracker()
        self._last_records: Mapping[int, LastRecord] = {}

    def begin_group(self, target: Target, last_records: Mapping[int, LastRecord]) -> None:
        """Where the batches go, and the producers as they are now."""
        self._output.target = target
        self._last_records = last_records
        self._plain.begin_group(last_records)

    def rewrite(self, segment: Segment, target: Target, *, keeps_legacy: bool, start: int = 0, end: int | None = None) -> None:
        """Copy what stays of one segment, or of the batches from one position to another."""
        for chunk in self._reader.read(segment, start, skip=partial(self._skip_dead, segment.base_offset), end=end):
            self._hooks.check_done()
            try:
                self._rewrite_chunk(chunk, keeps_legacy)
            except TidelogError as error:
                raise chunk.located(error, segment.file.path) if error.path is None else error from None
            size_bytes = chunk.headers.end_position - int(chunk.headers.position[0])
            self._counts.bytes_read += size_bytes
            self._hooks.throttle(size_bytes)
            target.note_aborted(self.tracker.take_kept())
        self._output.flush()

    def _skip_dead(self, base_offset: int, position: int) -> int:
        """How many bytes need not be read again: what filled the map was there, and none of it survives."""
        span = self._facts.scan.spans.get((base_offset, position))
        if span is None or not self._plain.is_dead(span):
            return 0
        self._counts.bytes_read += span.size_bytes
        self._counts.messages_read += span.records
        return span.size_bytes

    def _rewrite_chunk(self, chunk: Chunk, keeps_legacy: bool) -> None:
        one_by_one = partial(self._rewrite_batch, chunk.buffer, is_discarded=False, keeps_legacy=keeps_legacy)
        for run in runs_of(chunk, self.tracker):
            if run.is_plain:
                self._plain.rewrite(chunk.buffer, run.headers, one_by_one)
            else:
                for index, is_discarded in enumerate(run.discarded):
                    one = run.headers[index : index + 1]
                    self._rewrite_batch(chunk.buffer, one, is_discarded=is_discarded, keeps_legacy=keeps_legacy)
        for offsets in self._plain.null_keys:
            self._note_keyless(offsets)
        self._plain.null_keys.clear()

    def _rewrite_batch(self, buffer: memoryview, one: BatchHeaders, *, is_discarded: bool, keeps_legacy: bool) -> None:
        facts, counts = facts_of(one), self._counts
        rule = rule_for_batch(
            facts,
            is_discardable=is_discarded,
            last_records=self._last_records,
            bound=self._facts.bound,
            now_ms=self._facts.now_ms,
        )
        if rule.drops_records:
            count = max(0, int(one.count[0]))
            if facts.is_control:
                counts.markers_removed += count
            else:
                counts.aborted_messages_removed += count
            if not rule.keeps_empty:
                return
        records = looked_into(buffer, one)
        counts.messages_read += len(records.offsets)
        if rule.drops_records:
            keep = np.zeros(len(records.offsets), np.bool_)
        elif facts.is_control:
            keep = np.ones(len(records.offsets), np.bool_)
        else:
            keep = self._judged(facts, records, keeps_legacy=keeps_legacy)
        horizon = new_horizon_ms(
            facts,
            rule,
            keeps_tombstone=bool((records.value_lengths[keep] < 0).any()),
            now_ms=self._facts.now_ms,
            delete_retention_ms=self._facts.delete_retention_ms,
        )
        kept = int(np.count_nonzero(keep))
        counts.messages_written += kept
        written = retain_records(records.batch, keep, delete_horizon_ms=horizon, keep_empty=rule.keeps_empty)  # type: ignore[arg-type]
        counts.batches_kept_empty += kept == 0 and len(written) == HEADER_SIZE
        self._output.append(written)
        self._output.flush_if_large()

    def _judged(self, facts: BatchFacts, records: BatchRecords, *, keeps_legacy: bool) -> NDArray[np.bool_]:
        offsets, key_lengths, value_lengths = records.offsets, records.key_lengths, records.value_lengths
        keep = records_to_keep(
            offsets,
            key_lengths,
            value_lengths,
            self._known.last_offsets(*checked_slices(records.payload, records.key_starts, key_lengths), offsets),
            latest_offset=self._facts.latest_offset,
            tombstones_stay=keeps_tombstones(facts, keeps_legacy=keeps_legacy, now_ms=self._facts.now_ms),
        )
        keyless = offsets[~keep & (key_lengths < 0)]
        if len(keyless):
            self._counts.invalid_messages_read += len(keyless)
            self._note_keyless(keyless)
        self._counts.tombstones_removed += int(np.count_nonzero(~keep & (key_lengths >= 0) & (value_lengths < 0)))
        return keep

    def _note_keyless(self, offsets: NDArray[np.int64]) -> None:
        """Those of the dirty part were noted when the map was filled."""
        below = offsets[offsets < self._facts.first_dirty_offset]
        if len(below):
            note_null_keys(self._counts, below)


def facts_of(one: BatchHeaders) -> BatchFacts:
    """What the rules look at in the first of these batches."""
    magic, attributes = int(one.magic[0]), int(one.attributes[0])
    is_v2 = magic >= 2
    return BatchFacts(
        int(one.last_offset[0]),
        int(one.producer_id[0]),
        int(one.producer_epoch[0]),
        is_v2 and bool(attributes & CONTROL_BIT),
        int(one.base_timestamp_ms[0]) if is_v2 and attributes & DELETE_HORIZON_BIT else None,
        magic,
    )
