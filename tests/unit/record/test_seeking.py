"""Finding batches in a buffer by offset and by time, and records by time: every format, cut buffers, bad framing, bad records."""

import struct
from collections.abc import Callable

import pytest

from tests.support.batches import TIME, batch_of_payload, message, patched, varint
from tests.support.golden import GoldenLog, golden_logs
from tidelog.errors import CorruptBatchError, InvalidRecordError, UnsupportedMagicError
from tidelog.record import Compression, LegacyBatch, RecordBatch, encode_batches, read_batches, walk_headers
from tidelog.record.compression import compress
from tidelog.record.kernel import seek
from tidelog.record.seeking import Seek, find_batch, find_batch_by_time, raise_framing, record_at_time

FAR = 2**40

Find = Callable[[bytes, int, int, int], tuple[int, int, int, int, int, int]]

PLAIN_V0 = message(FAR, b"k", b"v", magic=0)
PLAIN_V1 = message(FAR + 1, b"k", b"v", timestamp=TIME)
INNER = message(0, b"a", b"1", timestamp=TIME + 3) + message(1, b"b", b"2", timestamp=TIME + 2)
WRAPPER = message(FAR + 3, None, bytes(compress(Compression.GZIP, INNER)), attributes=1, timestamp=TIME + 3)
V2 = encode_batches([(b"k", b"v", (), TIME + 9), (b"k", None, (), TIME + 10)], base_offset=FAR + 4)
LAST = encode_batches([(b"k", b"v", (), TIME + 4)], base_offset=FAR + 10)
LOG = PLAIN_V0 + PLAIN_V1 + WRAPPER + V2 + LAST
PARTS = [PLAIN_V0, PLAIN_V1, WRAPPER, V2, LAST]
STARTS = [sum(map(len, PARTS[:number])) for number in range(len(PARTS))]
FACTS = [
    (FAR, FAR, -1),
    (FAR + 1, FAR + 1, TIME),
    (-1, FAR + 3, TIME + 3),
    (FAR + 4, FAR + 5, TIME + 10),
    (FAR + 10, FAR + 10, TIME + 4),
]


def found(number: int) -> tuple[int, ...]:
    return (int(Seek.FOUND), STARTS[number], len(PARTS[number]), *FACTS[number])


@pytest.mark.parametrize(
    ("offset", "number"),
    [(-1, 0), (0, 0), (FAR, 0), (FAR + 1, 1), (FAR + 2, 2), (FAR + 3, 2), (FAR + 4, 3), (FAR + 5, 3), (FAR + 6, 4), (FAR + 10, 4)],
)
def test_by_offset(offset: int, number: int) -> None:
    assert find_batch(LOG, 0, len(LOG), offset) == found(number)
    # Of the batch that is found only the header has to be there.
    head = {0: 26, 1: 34, 2: 34, 3: 61, 4: 61}[number]
    assert find_batch(LOG, 0, STARTS[number] + head, offset) == found(number)
    assert find_batch(LOG[: STARTS[number] + head], 0, STARTS[number] + head, offset) == found(number)
    assert find_batch(LOG, 0, STARTS[number] + head - 1, offset)[:2] == (Seek.RAN_OUT, STARTS[number])


@pytest.mark.parametrize(("timestamp", "number"), [(-1, 0), (0, 1), (TIME, 1), (TIME + 1, 2), (TIME + 3, 2), (TIME + 4, 3), (TIME + 10, 3)])
def test_by_time(timestamp: int, number: int) -> None:
    assert find_batch_by_time(LOG, 0, len(LOG), timestamp) == found(number)
    assert find_batch_by_time(LOG, STARTS[number], len(LOG), timestamp) == found(number)


def test_from_the_middle() -> None:
    assert find_batch(LOG, STARTS[3], len(LOG), 0) == found(3)
    assert find_batch_by_time(LOG, STARTS[4], len(LOG), TIME) == found(4)


def test_nothing_found_tells_where_to_read_on() -> None:
    assert find_batch(LOG, 0, len(LOG), FAR + 11)[:2] == (Seek.RAN_OUT, len(LOG))
    assert find_batch_by_time(LOG, 0, len(LOG), TIME + 11)[:2] == (Seek.RAN_OUT, len(LOG))
    # The last batch sticks out of the buffer: what comes next is behind the buffer's end.
    assert find_batch(LOG[:-3], 0, len(LOG) - 3, FAR + 11)[:2] == (Seek.RAN_OUT, len(LOG))
    for cut in range(STARTS[4], STARTS[4] + 61):
        assert find_batch(LOG, 0, cut, FAR + 10)[:2] == (Seek.RAN_OUT, STARTS[4])
    assert find_batch(b"", 0, 0, 5)[:2] == (Seek.RAN_OUT, 0)
    assert find_batch(LOG, 7, 7, 5)[:2] == (Seek.RAN_OUT, 7)
    assert find_batch(LOG, len(LOG), 5, 5)[:2] == (Seek.RAN_OUT, len(LOG))


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, len(LOG) + 1), (-(2**63), 0), (0, 2**63 - 1)])
def test_bounds_beyond_the_buffer(start: int, end: int) -> None:
    for find in (find_batch, find_batch_by_time):
        with pytest.raises(ValueError, match="of a buffer of"):
            find(LOG, start, end, 5)


@pytest.mark.parametrize("find", [find_batch, find_batch_by_time])
@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (bytes(30), CorruptBatchError, "too small at byte {0}: expected at least 26 bytes, found 12"),
        (V2[:8] + struct.pack(">i", 48) + V2[12:], CorruptBatchError, "too small at byte {0}: expected at least 61 bytes, found 60"),
        (PLAIN_V1[:8] + struct.pack(">i", 21) + PLAIN_V1[12:], CorruptBatchError, "too small at byte {0}: expected at least 34 bytes"),
        (V2[:8] + struct.pack(">i", -(2**31)) + V2[12:], CorruptBatchError, "too small at byte {0}: expected .* found -2147483636"),
        (V2[:16] + b"\x03" + V2[17:], UnsupportedMagicError, "unknown magic at byte {16}: expected 0, 1 or 2, found 3"),
        (V2[:16] + b"\xff" + V2[17:], UnsupportedMagicError, "unknown magic at byte {16}: expected 0, 1 or 2, found 255"),
        (V2[:8] + struct.pack(">i", 13) + V2[12:16] + b"\xff" + V2[17:], CorruptBatchError, "too small at byte {0}: expected at least 26"),
    ],
)
def test_bad_framing(find: Find, data: bytes, error: type[Exception], text: str) -> None:
    for place in (0, 16):
        text = text.replace(f"{{{place}}}", str(len(V2) + place))
    log = V2 + data
    answer = find(log, 0, len(log), 2**62)
    assert answer[0] < 0
    with pytest.raises(error, match=text) as caught:
        raise_framing(answer)
    with pytest.raises(error) as walked:
        walk_headers(log)
    assert str(caught.value) == str(walked.value)


@pytest.mark.parametrize("find", [find_batch, find_batch_by_time])
def test_less_than_18_bytes_are_no_header(find: Find) -> None:
    assert find(V2 + bytes(17), 0, len(V2) + 17, 2**62)[:2] == (Seek.RAN_OUT, len(V2))
    assert find(V2 + bytes(18), 0, len(V2) + 18, 2**62)[0] < 0


def test_the_kernel_has_the_statuses_too() -> None:
    assert (seek.FOUND, seek.RAN_OUT) == (Seek.FOUND, Seek.RAN_OUT)


def only(data: bytes) -> RecordBatch | LegacyBatch:
    (batch,) = read_batches(data)
    return batch


ROWS = [(b"k", b"v", (), TIME + delta) for delta in (5, 3, 2**33, 7, 2**33, -4)]


@pytest.mark.parametrize("codec", list(Compression), ids=str)
def test_records_of_a_v2_batch(codec: Compression) -> None:
    batch = only(encode_batches(ROWS, base_offset=FAR, compression=codec))
    assert record_at_time(batch, 0) == (FAR, TIME + 5)
    assert record_at_time(batch, TIME + 5) == (FAR, TIME + 5)
    assert record_at_time(batch, TIME + 6) == (FAR + 2, TIME + 2**33)
    assert record_at_time(batch, batch.max_timestamp_ms) == (FAR + 2, TIME + 2**33)
    assert record_at_time(batch, TIME, FAR + 1) == (FAR + 1, TIME + 3)
    assert record_at_time(batch, batch.max_timestamp_ms, FAR + 3) == (FAR + 4, TIME + 2**33)
    assert record_at_time(batch, TIME, FAR + 5) is None
    assert record_at_time(batch, -(2**63), FAR + 5) == (FAR + 5, TIME - 4)
    assert record_at_time(batch, TIME + 2**33 + 1) is None
    assert record_at_time(batch, 0, FAR + 6) is None


def test_append_time_is_the_time_of_all_records() -> None:
    batch = only(encode_batches(ROWS, base_offset=FAR, append_time_ms=TIME + 2))
    assert record_at_time(batch, TIME + 2) == (FAR, TIME + 2)
    assert record_at_time(batch, TIME + 2, FAR + 3) == (FAR + 3, TIME + 2)
    assert record_at_time(batch, TIME + 3) is None


def test_records_of_legacy_batches() -> None:
    assert record_at_time(only(WRAPPER), TIME + 3) == (FAR + 2, TIME + 3)
    assert record_at_time(only(WRAPPER), TIME, FAR + 3) == (FAR + 3, TIME + 2)
    assert record_at_time(only(WRAPPER), TIME + 4) is None
    assert record_at_time(only(PLAIN_V1), TIME) == (FAR + 1, TIME)
    assert record_at_time(only(PLAIN_V1), TIME, FAR + 2) is None
    assert record_at_time(only(PLAIN_V0), 0) is None
    assert record_at_time(only(PLAIN_V0), -1) == (FAR, -1)


def test_an_empty_batch_has_no_record() -> None:
    assert record_at_time(only(batch_of_payload(b"", count=0)), -(2**63)) is None


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4], ids=str)
@pytest.mark.parametrize(
    ("payload", "count", "text", "position"),
    [
        (varint(6) + bytes(6) + varint(6) + bytes(3) + varint(9) + bytes(2), 2, "a key's length is out of range", 11),
        (varint(6) + bytes(6) + varint(6) + bytes(6), 1, "bytes are left in the payload", 7),
        (varint(14) + bytes(4) + varint(8) + bytes(9), 2, "the payload ends before the declared record count", 15),
    ],
)
def test_bad_records(codec: Compression, payload: bytes, count: int, text: str, position: int) -> None:
    data = V2 + batch_of_payload(bytes(compress(codec, payload)), count=count, attributes=int(codec))
    _, batch = read_batches(data)
    assert record_at_time(batch, 0) == (0, TIME)  # what is behind the answer is not looked at
    with pytest.raises(InvalidRecordError, match=text) as caught:
        record_at_time(batch, 2**62)
    assert caught.value.position == (len(V2) if codec else len(V2) + 61 + position)


def test_a_count_that_cannot_be() -> None:
    _, batch = read_batches(LAST + patched(V2, 57, struct.pack(">i", 2**31 - 1)))
    with pytest.raises(InvalidRecordError, match=f"at byte {len(LAST)}: expected at most . records in a payload of its size"):
        record_at_time(batch, 0)
    with pytest.raises(ValueError, match="of a buffer of"):
        seek.find_record_by_time(V2, 61, len(V2) + 1, 2, 0, 0, 0, 0, 0, 0)
    assert seek.find_record_by_time(b"", 0, 0, 1, 0, 0, 0, 0, 0, 0)[0] < 0


@pytest.mark.parametrize("log", golden_logs(), ids=lambda log: log.name)
def test_golden_logs(log: GoldenLog) -> None:
    """Every batch by its last offset and its time, every record by its own, as Kafka describes them."""
    for described in log.batches:
        answer = find_batch(log.data, described["position"], len(log.data), described["last_offset"])
        assert answer[:2] == (Seek.FOUND, described["position"])
        assert answer[4:] == (described["last_offset"], described["max_timestamp_ms"])
        assert find_batch_by_time(log.data, described["position"], len(log.data), described["max_timestamp_ms"]) == answer
    for batch, described in zip(read_batches(log.data), log.batches, strict=True):
        records = [(record["offset"], record["timestamp_ms"]) for record in described["records"]]
        for offset, timestamp in records:
            first = next(record for record in records if record[1] >= timestamp)
            assert record_at_time(batch, timestamp, -1) == first
            assert record_at_time(batch, -1, offset) == (offset, timestamp)
        later = described["max_timestamp_ms"] + 1
        assert later == 2**63 or record_at_time(batch, later, -1) is None
