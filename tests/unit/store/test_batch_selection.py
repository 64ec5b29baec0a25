"""What of batches goes on: the same records as looking at each by itself, in batches that keep their offsets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import TIME
from tidelog.compaction.segment_chunks import Chunk
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.record import BatchSettings, Compression, NewBatch, read_batches
from tidelog.record.headers import walk_headers
from tidelog.store.batch_selection import NO_END, BatchSelection, SelectionRules
from tidelog.store.copied_logs import stable_end
from tidelog.store.key_match import KeyMatch

BATCHES = st.lists(
    st.tuples(
        st.lists(st.sampled_from([b"a", b"bb", b"ccc", None]), min_size=1, max_size=5),
        st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
        st.sampled_from([-1, 7, 8]),
    ),
    min_size=1,
    max_size=8,
)
Plan = list[tuple[list[bytes | None], Compression, int]]


def encoded(plan: Plan, first: int = 100) -> tuple[memoryview, int]:
    """Batches one behind the other, and where they end."""
    data, offset = bytearray(), first
    sequences: dict[int, int] = {}
    for keys, codec, producer in plan:
        rows = [(key, b"value %d" % row, (), TIME + row) for row, key in enumerate(keys)]
        sequence = sequences.get(producer, 0)
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer >= 0 else {}
        settings = BatchSettings(compression=codec, partition_leader_epoch=5, **options)  # type: ignore[arg-type]
        data += NewBatch(rows, base_offset=offset, settings=settings).encode()
        sequences[producer] = sequence + len(rows)
        offset += len(rows)
    return memoryview(data), offset


def records(data: bytes | memoryview) -> list[tuple[int, bytes | None, bytes | None, int]]:
    found = []
    for batch in read_batches(data):
        batch.ensure_valid()
        found += [(record.offset, record.key, record.value, record.timestamp_ms) for record in batch]
    return found


def selected(data: memoryview, rules: SelectionRules) -> bytes:
    return b"".join(BatchSelection(rules).of(Chunk(data, walk_headers(data), 0)).parts)


@given(BATCHES, st.integers(100, 145), st.sampled_from([None, b"a", b"ccc"]), st.booleans())
def test_the_records_that_are_wanted(plan: Plan, end: int, key: bytes | None, drops: bool) -> None:
    data, _ = encoded(plan)
    before = records(data)
    match = None if key is None else KeyMatch.of(key)
    rules = SelectionRules(end, drops=match) if drops else SelectionRules(end, keeps=match)
    found = selected(data, rules)
    wanted = [row for row in before if row[0] < end and (key is None or (row[1] == key) != drops)]
    assert records(found) == wanted
    ends = {batch.last_offset for batch in read_batches(data)} | {end - 1}
    next_offset = 100
    for batch in read_batches(found):
        assert batch.base_offset == next_offset, "no hole is left: readers take one for loss of data"
        assert batch.last_offset in ends
        next_offset = batch.last_offset + 1
    assert next_offset == max(100, min(end, before[-1][0] + 1))


@given(BATCHES)
def test_where_producers_left_off_stays(plan: Plan) -> None:
    data, end = encoded(plan)
    found = selected(data, SelectionRules(keeps=KeyMatch.of(b"no such key")))
    lasts = [{batch.producer_id: batch.last_offset for batch in read_batches(each) if batch.producer_id >= 0} for each in (data, found)]
    assert lasts[0] == lasts[1]
    assert records(found) == []
    assert [batch.last_offset for batch in read_batches(selected(data, SelectionRules(end, keeps=KeyMatch.of(b"none"))))][-1:] == [end - 1]


def test_headers_that_lie_one_behind_the_other_become_one() -> None:
    gone: Plan = [([b"a"], Compression.NONE, -1)]
    produced: Plan = [([b"a"], Compression.LZ4, 7)]
    data, _ = encoded([*gone * 4, ([b"bb"], Compression.NONE, -1), *produced * 3])
    found = selected(data, SelectionRules(drops=KeyMatch.of(b"a")))
    assert [(batch.base_offset, batch.last_offset, batch.count, batch.producer_id) for batch in read_batches(found)] == [
        (100, 103, 0, -1),
        (104, 104, 1, -1),
        *[(offset, offset, 0, 7) for offset in (105, 106, 107)],  # sequences go on from one to the next
    ]
    sizes = walk_headers(data).size_bytes
    holed = bytes(data)[: int(sizes[0])] + bytes(data)[int(sizes[:2].sum()) :]
    kept = read_batches(selected(memoryview(bytearray(holed)), SelectionRules(keeps=KeyMatch.of(b"bb"))))
    assert [(batch.base_offset, batch.last_offset) for batch in kept][:3] == [(100, 100), (102, 103), (104, 104)], "a hole stays one"


@given(BATCHES)
def test_what_is_not_touched_is_passed_on_as_it_is(plan: Plan) -> None:
    data, end = encoded(plan)
    assert selected(data, SelectionRules()) == bytes(data)
    assert selected(data, SelectionRules(end)) == bytes(data)
    assert selected(data, SelectionRules(NO_END, drops=KeyMatch.of(b"no such key"))) == bytes(data)


@given(BATCHES)
def test_another_leader_epoch(plan: Plan) -> None:
    data, _ = encoded(plan)
    before = records(data)
    found = selected(memoryview(bytearray(data)), SelectionRules(leader_epoch=0))
    assert records(found) == before
    assert {batch.partition_leader_epoch for batch in read_batches(found)} == {0}
    assert np.frombuffer(found, np.uint8).size == len(data)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12), st.integers(0, 14))
def test_below_the_stable_end_every_transaction_is_over(steps: list[tuple[int, bool]], asked: int) -> None:
    """Against trying every end."""
    events: list[ProducerBatch | Marker] = []
    for offset, (producer, is_end) in enumerate(steps):
        events.append(Marker(producer, 0, offset, 0, 0, False) if is_end else ProducerBatch(producer, 0, 0, offset, offset, 0, True))

    def is_stable(end: int) -> bool:
        opened = set()
        for event in events[:end]:
            if isinstance(event, Marker):
                opened.discard(event.producer_id)
            else:
                opened.add(event.producer_id)
        return not opened

    expected = max(end for end in range(asked + 1) if is_stable(min(end, len(steps))))
    assert stable_end(events, asked) == expected
