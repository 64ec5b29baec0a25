"""Finding batches and records by offset and by time, against a plain walk over all of them."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import message
from tests.support.strategies import offsets, record_lists, settings_of_batches
from tidelog.record import BatchEncoder, Compression, read_batches
from tidelog.record.compression import compress
from tidelog.record.seeking import Seek, find_batch, find_batch_by_time, record_at_time

# Position, size, base offset, last offset, max timestamp.
Batch = tuple[int, int, int, int, int]


@st.composite
def wrappers(draw: st.DrawFn, last_offset: int, magic: int) -> bytes:
    times = draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=4))
    first = last_offset - len(times) + 1
    inner = [
        message(number if magic == 1 else first + number, b"k", None, magic=magic, timestamp=time) for number, time in enumerate(times)
    ]
    value = bytes(compress(Compression.GZIP, b"".join(inner)))
    return message(last_offset, None, value, magic=magic, attributes=1, timestamp=max(times))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of all formats with ascending offsets and gaps between them."""
    offset = draw(offsets)
    out = b""
    for kind in draw(st.lists(st.sampled_from(("v0", "v1", "v0 wrapper", "v1 wrapper", "v2", "v2")), min_size=1, max_size=6)):
        offset += draw(st.integers(0, 5))
        if kind == "v2":
            records = draw(record_lists(max_size=4))
            encoder = BatchEncoder(draw(settings_of_batches()), base_offset=offset)
            out += encoder.encode([record.row for record in records])
            offset += len(records)
            continue
        magic = int(kind[1])
        if kind.endswith("wrapper"):
            offset += 4
            out += draw(wrappers(offset, magic))
        else:
            out += message(offset, draw(st.sampled_from((None, b"key"))), b"value", magic=magic, timestamp=draw(st.integers(-1, 2**62)))
        offset += 1
    return out


def batches_of(log: bytes) -> list[Batch]:
    """By the layout of each format."""
    found = []
    at = 0
    while at < len(log):
        offset, length = struct.unpack_from(">qi", log, at)
        magic = log[at + 16]
        if magic == 2:
            (delta,) = struct.unpack_from(">i", log, at + 23)
            (timestamp,) = struct.unpack_from(">q", log, at + 35)
            found.append((at, 12 + length, offset, offset + delta, timestamp))
        else:
            timestamp = struct.unpack_from(">q", log, at + 18)[0] if magic == 1 else -1
            found.append((at, 12 + length, -1 if log[at + 17] & 7 else offset, offset, timestamp))
        at += 12 + length
    return found


@given(logs(), st.data())
def test_batches_by_offset_and_by_time(log: bytes, data: st.DataObject) -> None:
    batches = batches_of(log)
    start = data.draw(st.sampled_from(batches))[0]
    end = data.draw(st.one_of(st.just(len(log)), st.integers(start, len(log))))
    # Bytes behind `end` are not looked at, whatever they are.
    buffer = log[:end] + b"\xff" * data.draw(st.integers(0, 40))
    for find, column in ((find_batch, 3), (find_batch_by_time, 4)):
        near = st.sampled_from([batch[column] for batch in batches])
        target = data.draw(st.one_of(near, near.map(lambda number: number + 1), near.map(lambda number: number - 1), st.just(-1)))
        expected: tuple[int, ...] = (int(Seek.RAN_OUT), batches[-1][0] + batches[-1][1])
        for batch in batches:
            if batch[0] < start:
                continue
            head = 61 if log[batch[0] + 16] == 2 else 34 if log[batch[0] + 16] == 1 else 26
            if batch[0] + head > end:
                expected = (int(Seek.RAN_OUT), batch[0])
                break
            if batch[column] >= target:
                expected = (int(Seek.FOUND), *batch)
                break
        assert find(buffer, start, end, target)[: len(expected)] == expected


@given(logs(), st.data())
def test_records_by_time(log: bytes, data: st.DataObject) -> None:
    for batch in read_batches(log):
        records = [(record.offset, record.timestamp_ms) for record in batch]
        near = st.sampled_from(records)
        timestamp = data.draw(st.one_of(near.map(lambda record: record[1]), near.map(lambda record: record[1] + 1), st.just(-1)))
        min_offset = data.draw(st.one_of(near.map(lambda record: record[0]), near.map(lambda record: record[0] + 1), st.just(0)))
        matching = [record for record in records if record[1] >= timestamp and record[0] >= min_offset]
        assert record_at_time(batch, timestamp, min_offset) == (matching[0] if matching else None)
        if batch.magic == 2:
            maximum = max(time for _, time in records)
            assert record_at_time(batch, batch.max_timestamp_ms) == next(record for record in records if record[1] == maximum)
