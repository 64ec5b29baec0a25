"""Rewrite runs of plain batches through the kernel: a call for about a mebibyte instead of one for each batch.

The rules are those of `rules`, and so is the outcome, byte by byte; a test compares the two ways. Records of the dirty part are judged by
the survivor bits. Below it, in what was cleaned before, their keys are looked up in the map.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.output import Output
from tidelog.compaction.pass_facts import PassFacts, ScannedSpan
from tidelog.compaction.rules import LastRecord
from tidelog.compaction.survivor_bits import LastOffsets, SurvivorBits
from tidelog.record.faults import raise_fault
from tidelog.record.headers import BatchHeaders
from tidelog.record.kernel import compact as kernel
from tidelog.record.layout import DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from tidelog.record.outcomes import RetainAnswer, RetainRule, RetainStop
from tidelog.record.plain_records import PlainRecords
from tidelog.record.views import view

_SCRATCH_RECORDS = 16_384
_NOTHING = np.zeros(1, np.uint8)

OneByOne = Callable[[BatchHeaders], None]
"""What does a batch that the kernel cannot judge."""


class PlainRewriter:
    """Rewrites runs of plain batches. One thread."""

    def __init__(self, facts: PassFacts, last_offsets: LastOffsets, output: Output) -> None:
        self._facts = facts
        self._known = last_offsets
        self._output = output
        self._records = PlainRecords()
        self._bits = SurvivorBits(last_offsets, facts.first_dirty_offset)
        self._rules = np.zeros(len(RetainRule), np.int64)
        self._rules[RetainRule.LATEST_OFFSET] = facts.latest_offset
        self._rules[RetainRule.NOW] = facts.now_ms
        self._rules[RetainRule.NEW_HORIZON] = facts.now_ms + facts.delete_retention_ms
        self._rules[RetainRule.COUNTS_ALL] = facts.scan.has_null_keys or facts.scan.has_tombstones
        self._fault = np.zeros(5, np.int64)
        self._make_scratch(_SCRATCH_RECORDS)
        self._last_offsets = np.empty(0, np.int64)
        self._last_records: Mapping[int, LastRecord] = {}
        self.null_keys: list[NDArray[np.int64]] = []
        """Offsets of records without a key below the dirty part, where there should be none; they were left out."""

    def _make_scratch(self, records: int) -> None:
        self._starts = np.empty(records, np.int32)
        self._timestamps = np.empty(records, np.int64)
        self._flags = np.empty(records, np.uint8)

    def begin_group(self, last_records: Mapping[int, LastRecord]) -> None:
        """The producers as they are now."""
        self._last_records = last_records
        self._last_offsets = np.array([last.last_data_offset for last in last_records.values() if last.last_data_offset >= 0], np.int64)

    def rewrite(self, buffer: memoryview, run: BatchHeaders, one_by_one: OneByOne) -> None:
        """Copy what stays of a run. `one_by_one` is called for a batch that has to be looked at by itself."""
        keep_empty = self._keep_empty(run)
        split = self._first_by_bits(run)
        if split:
            self._by_keys(buffer, run[:split], keep_empty[:split])
        if split < len(run):
            self._by_bits(buffer, run[split:], keep_empty[split:], one_by_one)

    def is_dead(self, span: ScannedSpan) -> bool:
        """Whether nothing of a span stays, not even a header."""
        first, last, bits = span.first_offset, span.last_offset, self._bits
        if not (self._facts.scan.is_ordered and bits.is_worth_it) or last > self._facts.latest_offset or last + 1 == self._facts.bound:
            return False
        if ((self._last_offsets >= first) & (self._last_offsets <= last)).any():
            return False
        return ((bits.first <= first and last < bits.end) or bits.cover(first, last)) and not bits.any_set(first, last)

    def _first_by_bits(self, run: BatchHeaders) -> int:
        """From which batch on the bits can judge: all records lie in the dirty part, and were put into the map in order.

        The scan begins in the middle of the log, maybe behind the marker that ended an aborted transaction. Then it takes what the same
        producer committed afterwards for aborted, and leaves it out of the map, as Kafka's does. So where something was left out, batches
        of transactions are judged by their keys.
        """
        scan = self._facts.scan
        if not scan.is_ordered or not self._bits.is_worth_it:
            return len(run)
        if scan.has_discarded and (run.attributes & TRANSACTIONAL_BIT).any():
            return len(run)
        is_dirty = run.base_offset >= self._facts.first_dirty_offset
        split = len(run) - int(np.count_nonzero(is_dirty))
        return split if bool(is_dirty[split:].all()) else len(run)

    def _keep_empty(self, run: BatchHeaders) -> NDArray[np.uint8]:
        """Which batches stay even without a record: those at the end of the cleaned part, or where a producer left off."""
        last_offsets = run.last_offset
        keep: NDArray[np.bool_] = last_offsets + 1 == self._facts.bound
        if len(self._last_offsets):
            for index in np.flatnonzero(np.isin(last_offsets, self._last_offsets)).tolist():
                last = self._last_records.get(int(run.producer_id[index])) if run.producer_id[index] >= 0 else None
                keep[index] |= last is not None and last.last_data_offset == last_offsets[index]
        return keep.view(np.uint8)

    def _by_bits(self, buffer: memoryview, run: BatchHeaders, keep_empty: NDArray[np.uint8], one_by_one: OneByOne) -> None:
        rules, bits = self._rules, self._bits
        rules[RetainRule.BY_BITS] = 1
        done = 0
        while done < len(run):
            rules[RetainRule.BITS_FIRST], rules[RetainRule.BITS_END] = bits.first, bits.end
            done += self._call(buffer, run[done:], keep_empty[done:], _NOTHING)
            if done == len(run):
                break
            stop = self._output.answers[RetainAnswer.STOP]
            if stop == RetainStop.OUT_OF_WINDOW:
                base_offset, last_offset = int(run.base_offset[done]), int(run.last_offset[done])
                is_known = bits.first == base_offset  # its records are elsewhere than its header says
                if is_known or not bits.cover(base_offset, last_offset):
                    one_by_one(run[done : done + 1])
                    done += 1
            else:
                self._make_room(run, done)

    def _by_keys(self, buffer: memoryview, run: BatchHeaders, keep_empty: NDArray[np.uint8]) -> None:
        keep = self._judged(buffer, run)
        self._rules[RetainRule.BY_BITS] = 0
        counts = run.count
        done = 0
        while True:
            added = self._call(buffer, run[done:], keep_empty[done:], keep if len(keep) else _NOTHING)
            keep = keep[int(counts[done : done + added].sum()) :]
            done += added
            if done == len(run):
                break
            self._make_room(run, done)

    def _judged(self, buffer: memoryview, run: BatchHeaders) -> NDArray[np.uint8]:
        """`rules.records_to_keep` for all records of a run."""
        records, facts = self._records, self._facts
        records.scan(buffer, run)
        offsets, key_lengths = records.offsets, records.key_lengths
        found = self._known.last_offsets(buffer, records.key_starts, key_lengths, offsets)
        has_key = key_lengths >= 0
        keep: NDArray[np.bool_] = has_key & (offsets >= found)
        stay = ((run.attributes & DELETE_HORIZON_BIT) == 0) | (facts.now_ms < run.base_timestamp_ms)
        if not stay.all():
            keep &= np.repeat(stay, run.count) | (records.value_lengths >= 0)
        keep |= offsets > facts.latest_offset
        if not has_key.all():
            keyless = offsets[~has_key & ~keep]
            if len(keyless):
                self.null_keys.append(keyless.copy())
        return keep.view(np.uint8)

    def _call(self, buffer: memoryview, run: BatchHeaders, keep_empty: NDArray[np.uint8], keep: NDArray[np.uint8]) -> int:
        output = self._output
        if len(output.positions) < len(run) + output.answers[RetainAnswer.CHECKSUMS]:
            output.flush()
            if len(output.positions) < len(run):
                output.positions = np.empty(len(run), np.int64)
        done = kernel.retain_batches(
            buffer,
            view(run.flat),
            run.capacity,
            run.first,
            len(run),
            view(self._rules),
            view(keep_empty),
            view(keep),
            view(self._bits.bits),
            view(self._starts),
            view(self._timestamps),
            view(self._flags),
            view(output.buffer),
            view(output.positions),
            view(output.answers),
            view(self._fault),
        )
        output.take_counts()
        if output.answers[RetainAnswer.STOP] == RetainStop.BAD_BYTES:
            kind, position, found, expected = self._fault[:4].tolist()
            raise_fault(kind, position, found, expected)
        output.flush_if_large()
        return done

    def _make_room(self, run: BatchHeaders, index: int) -> None:
        """For the batch at `index`, which did not fit."""
        self._output.flush()
        records = int(run.count[index])
        self._output.make_room(int(run.size_bytes[index]) + 11 * records)
        if records >= len(self._starts):
            self._make_scratch(records + 1)
