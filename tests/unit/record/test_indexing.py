"""Which batches get index entries, and what stops a run."""

import json
import struct
from pathlib import Path

import pytest

from tests.support.batches import TIME
from tests.support.golden import GOLDEN
from tidelog.record import encode_batches, walk_headers
from tidelog.record.headers import BatchHeaders
from tidelog.record.indexing import IndexedBatches, IndexRun, IndexStop, index_batches
from tidelog.record.views import view

BASE = 2**40


def offset_entries(data: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", data))


def time_entries(data: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qi", data))


def batches(*times: int, first_offset: int = BASE, value: bytes = b"v" * 37) -> bytes:
    """Batches of two records, each of 121 bytes with the value as it is here."""
    rows = [[(b"k", value, (), time), (b"k", b"", (), max(-1, time - 1))] for time in times]
    return b"".join(encode_batches(pair, base_offset=first_offset + 2 * number) for number, pair in enumerate(rows))


def index(headers: BatchHeaders, run: IndexRun, position: int = 0, *, offsets: int = 99, times: int = 99) -> IndexedBatches:
    """By the call for runs; the call for one has to agree."""
    single = run.copy()
    found = index_batches(headers, run, position, free_offset_slots=offsets, free_time_slots=times)
    ours: tuple[bytes, bytes] = (b"", b"")
    stop = count = 0
    for batch in range(len(headers)):
        stop, offset_entry, time_entry = single.add_batch(
            position,
            int(headers.size_bytes[batch]),
            int(headers.last_offset[batch]),
            int(headers.max_timestamp_ms[batch]),
            offsets - len(ours[0]) // 8,
            times - len(ours[1]) // 12,
        )
        if stop:
            assert (offset_entry, time_entry) == (b"", b"")
            break
        count += 1
        ours = (ours[0] + offset_entry, ours[1] + time_entry)
        position += int(headers.size_bytes[batch])
    assert IndexedBatches(*ours, count, IndexStop(stop)) == found
    assert state(single) == state(run)
    return found


def state(run: IndexRun) -> tuple[int, ...]:
    return (
        run.base_offset,
        run.interval_bytes,
        run.bytes_since_last_entry,
        run.last_entry_offset,
        run.last_time_entry_ms,
        run.max_timestamp_ms,
        run.offset_of_max_timestamp,
    )


SIZE = len(batches(TIME))


def test_every_batch_but_the_first_with_interval_0() -> None:
    run = IndexRun(BASE, 0)
    found = index(walk_headers(batches(TIME, TIME + 5, TIME + 3, TIME + 6)), run, 0)
    assert offset_entries(found.offset_entries) == [(3, SIZE), (5, 2 * SIZE), (7, 3 * SIZE)]
    # The third batch is not newer: its time entry is left out, and the running maximum stays the second's.
    assert time_entries(found.time_entries) == [(TIME + 5, 3), (TIME + 6, 7)]
    assert (found.count_of_batches, found.stop) == (4, IndexStop.NONE)
    assert state(run) == (BASE, 0, SIZE, BASE + 7, TIME + 6, TIME + 6, BASE + 7)


def test_the_interval_has_to_be_passed_not_reached() -> None:
    data = batches(*[TIME + number for number in range(6)])
    for interval, expected in ((2 * SIZE, [3]), (2 * SIZE - 1, [2, 4]), (2 * SIZE + 1, [3]), (3 * SIZE - 1, [3]), (3 * SIZE, [4])):
        found = index(walk_headers(data), IndexRun(BASE, interval))
        assert offset_entries(found.offset_entries) == [(2 * number + 1, SIZE * number) for number in expected], interval


def test_the_running_maximum_is_the_first_batch_that_reached_it() -> None:
    run = IndexRun(BASE, SIZE + 1)
    found = index(walk_headers(batches(TIME + 9, TIME, TIME + 9, TIME)), run)
    assert offset_entries(found.offset_entries) == [(5, 2 * SIZE)]
    assert time_entries(found.time_entries) == [(TIME + 9, 1)]
    assert run.offset_of_max_timestamp == BASE + 1


def test_runs_may_be_cut_anywhere() -> None:
    data = batches(*[TIME + number * 7 % 5 for number in range(9)])
    headers = walk_headers(data)
    whole_run = IndexRun(BASE, SIZE)
    whole = index(headers, whole_run, 1000)
    for cut in range(10):
        run = IndexRun(BASE, SIZE)
        first = index(headers[:cut], run, 1000)
        second = index(headers[cut:], run, 1000 + cut * SIZE)
        assert first.offset_entries + second.offset_entries == whole.offset_entries
        assert first.time_entries + second.time_entries == whole.time_entries
        assert state(run) == state(whole_run)


def test_a_segment_that_is_opened_again() -> None:
    run = IndexRun(BASE, 0, last_time_entry_ms=TIME + 50, max_timestamp_ms=TIME + 50, offset_of_max_timestamp=BASE + 1)
    found = index(walk_headers(batches(TIME, TIME + 50, TIME + 51, first_offset=BASE + 10)), run, 5000)
    assert offset_entries(found.offset_entries) == [(13, 5000 + SIZE), (15, 5000 + 2 * SIZE)]
    assert time_entries(found.time_entries) == [(TIME + 51, 15)]


def test_batches_without_a_time() -> None:
    run = IndexRun(BASE, 0)
    found = index(walk_headers(batches(-1, -1, -1)), run)
    assert len(found.offset_entries) == 2 * 8
    assert found.time_entries == b""
    assert run.last_time_entry() == b""


def test_the_last_time_entry() -> None:
    run = IndexRun(BASE, 10**6)
    index(walk_headers(batches(TIME, TIME + 5, TIME + 3)), run)
    assert time_entries(run.last_time_entry()) == [(TIME + 5, 3)]
    assert run.last_time_entry() == b""


@pytest.mark.parametrize(
    ("first_offset", "fits"),
    [(BASE - 3, 0), (BASE - 1, 3), (BASE + 2**31 - 2, 1), (BASE + 2**31 - 1, 0), (BASE + 2**31 - 4, 2), (BASE + 2**32, 0), (0, 0)],
)
def test_offsets_that_do_not_fit_the_segment(first_offset: int, fits: int) -> None:
    run = IndexRun(BASE, 0)
    found = index(walk_headers(batches(TIME, TIME + 1, TIME + 2, first_offset=first_offset)), run)
    assert found.count_of_batches == fits
    assert found.stop == (IndexStop.NONE if fits == 3 else IndexStop.OFFSET_OUT_OF_RANGE)
    assert len(found.offset_entries) == 8 * max(0, fits - 1)
    assert run.max_timestamp_ms == (TIME + fits - 1 if fits else -1)


def test_full_indexes() -> None:
    headers = walk_headers(batches(TIME, TIME + 1, TIME + 1, TIME + 2, TIME + 3))
    for offsets, times, fits, stop in (
        (4, 3, 5, IndexStop.NONE),
        (3, 3, 4, IndexStop.OFFSET_INDEX_FULL),
        (0, 3, 1, IndexStop.OFFSET_INDEX_FULL),
        (4, 2, 4, IndexStop.TIME_INDEX_FULL),
        (4, 1, 3, IndexStop.TIME_INDEX_FULL),
        (4, 0, 1, IndexStop.TIME_INDEX_FULL),
        (-1, -1, 1, IndexStop.OFFSET_INDEX_FULL),
    ):
        run, before = IndexRun(BASE, 0), IndexRun(BASE, 0)
        found = index(headers, run, offsets=offsets, times=times)
        assert (found.count_of_batches, found.stop) == (fits, stop)
        # Nothing of the batch that did not fit is kept, neither the entry for which there was room.
        assert found == IndexedBatches(found.offset_entries, found.time_entries, fits, stop)
        whole = index(headers[:fits], before)
        assert (whole.offset_entries, whole.time_entries) == (found.offset_entries, found.time_entries)
        assert state(run) == state(before)


def test_offsets_that_do_not_increase() -> None:
    """The offset index is sorted: Kafka refuses such a batch, but only if it is due for an entry."""
    data = batches(TIME, TIME + 1) + batches(TIME + 2, first_offset=BASE + 2)
    run = IndexRun(BASE, 0)
    found = index(walk_headers(data), run)
    assert (found.count_of_batches, found.stop) == (2, IndexStop.OFFSET_NOT_INCREASING)
    assert run.max_timestamp_ms == TIME + 1
    assert index(walk_headers(data), IndexRun(BASE, SIZE)).stop is IndexStop.NONE
    for last_entry, stop in ((BASE + 2, IndexStop.NONE), (BASE + 3, IndexStop.OFFSET_NOT_INCREASING)):
        assert index(walk_headers(batches(TIME, TIME)), IndexRun(BASE, 0, last_entry_offset=last_entry)).stop is stop


def test_a_position_beyond_31_bits() -> None:
    headers = walk_headers(batches(TIME, TIME + 1, TIME + 2))
    found = index(headers, IndexRun(BASE, 0), 2**31 - 1 - SIZE)
    assert (found.count_of_batches, found.stop) == (2, IndexStop.POSITION_OUT_OF_RANGE)
    assert offset_entries(found.offset_entries) == [(3, 2**31 - 1)]
    found = index(headers, IndexRun(BASE, 0), 2**31 - SIZE)
    assert (found.count_of_batches, found.stop) == (1, IndexStop.POSITION_OUT_OF_RANGE)


def test_where_the_headers_were_walked_does_not_matter() -> None:
    data = batches(TIME, TIME + 1, TIME + 2)
    assert index(walk_headers(data), IndexRun(BASE, 0), 7) == index(walk_headers(bytes(500) + data, 500), IndexRun(BASE, 0), 7)


def test_no_batches() -> None:
    run = IndexRun(BASE, 0)
    assert index(walk_headers(b""), run) == IndexedBatches(b"", b"", 0, IndexStop.NONE)
    assert state(run) == state(IndexRun(BASE, 0))


def test_what_the_caller_must_not_do() -> None:
    headers = walk_headers(batches(TIME, TIME + 1))
    flat = view(headers.flat)
    for first, count in ((-1, 1), (0, -1), (0, headers.capacity + 1), (2**62, 2**62)):
        with pytest.raises(ValueError, match="no headers"):
            IndexRun(BASE, 0).add_batches(flat, headers.capacity, first, count, 0, bytearray(99), bytearray(99), 9, 9)
    with pytest.raises(ValueError, match="no headers"):
        IndexRun(BASE, 0).add_batches(flat, headers.capacity + 1, 0, 2, 0, bytearray(99), bytearray(99), 9, 9)
    for offset_bytes, time_bytes in ((15, 24), (16, 23)):
        with pytest.raises(ValueError, match="no room for the entries of 2 batches"):
            IndexRun(BASE, 0).add_batches(flat, headers.capacity, 0, 2, 0, bytearray(offset_bytes), bytearray(time_bytes), 9, 9)


# The counter of bytes starts anew whenever a segment is opened or cut, so the files tell all only of logs that were merely appended to.
APPENDED_CASES = [
    path.parent
    for path in sorted((GOLDEN / "partitions").glob("*/case.json"))
    if not (path.parent / "initial").exists()
    and not {step["op"] for step in json.loads(path.read_text())["steps"]} & {"reopen", "truncate_to", "truncate_fully_and_start_at"}
]


@pytest.mark.parametrize("case", APPENDED_CASES, ids=lambda case: case.name)
def test_golden_indexes(case: Path) -> None:
    """The index files that Kafka wrote for its batches, byte for byte."""
    config = json.loads((case / "case.json").read_text())["config"]
    index_bytes = int(config["segment.index.bytes"])
    logs = list((case / "closed").glob("*.log"))
    assert logs
    for log in logs:
        run = IndexRun(int(log.stem), int(config["index.interval.bytes"]))
        found = index(walk_headers(log.read_bytes()), run, offsets=index_bytes // 8, times=index_bytes // 12 - 1)
        assert found.stop is IndexStop.NONE
        last = run.last_time_entry()
        assert found.offset_entries == read_index(log, ".index")
        assert found.time_entries + last == read_index(log, ".timeindex")


def read_index(log: Path, suffix: str) -> bytes:
    """A segment that never got a batch may have no index."""
    path = log.with_suffix(suffix)
    return b"" if not path.exists() and log.stat().st_size == 0 else path.read_bytes()


def test_golden_indexes_are_many() -> None:
    assert len(APPENDED_CASES) > 50
