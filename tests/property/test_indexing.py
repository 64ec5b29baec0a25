"""Index entries against the rule, written down batch by batch."""

import struct
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.record.headers import FIELDS, BatchHeaders
from tidelog.record.indexing import IndexRun, IndexStop, index_batches

BASE = 2**40


@dataclass(frozen=True, slots=True)
class IndexedBatch:
    size_bytes: int
    last_offset: int
    max_timestamp_ms: int


@dataclass(slots=True)
class Rule:
    """Facts about when Kafka writes entries, as they stand in its documentation of the format."""

    interval_bytes: int
    bytes_since: int
    running: tuple[int, int]
    last_time_ms: int
    position: int
    offset_slots: int
    time_slots: int
    last_entry: int = -1
    offset_index: bytes = b""
    time_index: bytes = b""

    def add(self, batch: IndexedBatch) -> IndexStop:
        if not 0 <= batch.last_offset - BASE < 2**31:
            return IndexStop.OFFSET_OUT_OF_RANGE
        running = max(self.running, (batch.max_timestamp_ms, batch.last_offset), key=lambda pair: pair[0])
        if self.bytes_since > self.interval_bytes:
            if len(self.offset_index) // 8 >= self.offset_slots:
                return IndexStop.OFFSET_INDEX_FULL
            if batch.last_offset <= self.last_entry:
                return IndexStop.OFFSET_NOT_INCREASING
            if running[0] > self.last_time_ms:
                if len(self.time_index) // 12 >= self.time_slots:
                    return IndexStop.TIME_INDEX_FULL
                self.time_index += struct.pack(">qi", running[0], running[1] - BASE)
                self.last_time_ms = running[0]
            self.offset_index += struct.pack(">ii", batch.last_offset - BASE, self.position)
            self.last_entry = batch.last_offset
            self.bytes_since = 0
        self.running = running
        self.bytes_since += batch.size_bytes
        self.position += batch.size_bytes
        return IndexStop.NONE


@st.composite
def runs(draw: st.DrawFn) -> list[IndexedBatch]:
    offset = BASE + draw(st.sampled_from((0, 0, 0, 2**31 - 20)))
    batches = []
    for _ in range(draw(st.integers(0, 25))):
        offset += draw(st.sampled_from((1, 1, 1, 2, 3, 4, 0, -3)))
        last = draw(st.sampled_from((0, 0, 0, 0, 0, 0, -offset, -(2**33), 2**33))) + offset
        time = draw(st.one_of(st.integers(-1, 6), st.integers(2**40, 2**40 + 6), st.just(2**62)))
        batches.append(IndexedBatch(draw(st.integers(61, 300)), last, time))
    return batches


def headers_of(batches: list[IndexedBatch], start: int) -> BatchHeaders:
    """Only of what the rule looks at; the rest is noise."""
    capacity = len(batches) + 3
    flat = np.full((len(FIELDS), capacity), -77, np.int64)
    position = start
    for index, batch in enumerate(batches):
        flat[:2, 2 + index] = position, batch.size_bytes
        flat[FIELDS.index("last_offset"), 2 + index] = batch.last_offset
        flat[FIELDS.index("max_timestamp_ms"), 2 + index] = batch.max_timestamp_ms
        position += batch.size_bytes
    return BatchHeaders(flat.reshape(-1), capacity, 2, len(batches), position)


@given(runs(), st.data())
def test_index_rule(batches: list[IndexedBatch], data: st.DataObject) -> None:
    interval = data.draw(st.sampled_from((0, 100, 300, 1000)))
    slots = st.one_of(st.integers(0, 5), st.just(1000))
    time = data.draw(st.sampled_from((-1, 3, 2**40)))
    position = data.draw(st.sampled_from((0, 7, 2**31 - 10_000)))
    rule = Rule(interval, data.draw(st.integers(0, 400)), (time, BASE), time, position, data.draw(slots), data.draw(slots))
    rule.last_entry = data.draw(st.sampled_from((-1, BASE, BASE + 3)))
    run = IndexRun(
        BASE,
        interval,
        bytes_since_last_entry=rule.bytes_since,
        last_entry_offset=rule.last_entry,
        last_time_entry_ms=time,
        max_timestamp_ms=time,
        offset_of_max_timestamp=BASE,
    )
    single = run.copy()
    found = index_batches(headers_of(batches, 4321), run, position, free_offset_slots=rule.offset_slots, free_time_slots=rule.time_slots)
    stop = IndexStop.NONE
    count = 0
    for batch in batches:
        before = rule.position, len(rule.offset_index), len(rule.time_index)
        stop = rule.add(batch)
        one = single.add_batch(
            before[0],
            batch.size_bytes,
            batch.last_offset,
            batch.max_timestamp_ms,
            rule.offset_slots - before[1] // 8,
            rule.time_slots - before[2] // 12,
        )
        assert one == (stop, rule.offset_index[before[1] :], rule.time_index[before[2] :])
        if stop:
            break
        count += 1
    assert (found.offset_entries, found.time_entries) == (rule.offset_index, rule.time_index)
    assert (found.count_of_batches, found.stop) == (count, stop)
    for state in (run, single):
        assert state.bytes_since_last_entry == rule.bytes_since
        assert state.last_entry_offset == rule.last_entry
        assert (state.max_timestamp_ms, state.offset_of_max_timestamp) == rule.running
        assert state.last_time_entry_ms == rule.last_time_ms
    last = struct.pack(">qi", rule.running[0], rule.running[1] - BASE) if rule.running[0] > rule.last_time_ms else b""
    assert run.last_time_entry() == last
