"""Batches that were read are views: nothing is copied, nothing is decoded unasked. Columns are only those that were asked for."""

import pickle
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.batches import TIME, message, patched
from tidelog.errors import InvalidRecordError
from tidelog.record import (
    COLUMNS,
    ColumnDecoder,
    Compression,
    ControlType,
    Record,
    RecordBatch,
    arrow_schema,
    checksums_match,
    encode_batches,
    iter_arrow,
    parse_control_record,
    read_batches,
    to_arrow,
    transaction_marker,
    walk_headers,
)
from tidelog.record import columns as columns_module
from tidelog.record.compression import compress
from tidelog.record.control import marker_record

DATA = encode_batches([(b"key", b"value")] * 10, base_offset=5, timestamp_ms=TIME)


def test_a_batch_is_a_view_of_the_buffer() -> None:
    buffer = bytearray(DATA)
    (batch,) = read_batches(buffer)
    assert isinstance(batch, RecordBatch)
    assert batch.payload().obj is buffer
    struct.pack_into(">q", buffer, 0, 2**55)
    assert (batch.base_offset, batch.last_offset) == (2**55, 2**55 + 9)
    assert batch.buffer.readonly


def test_records_are_decoded_only_when_asked() -> None:
    broken = patched(DATA, 61, b"\xff\xff\xff\xff\xff")
    (batch,) = read_batches(broken)
    assert (batch.base_offset, batch.count, batch.is_valid) == (5, 10, True)
    with pytest.raises(InvalidRecordError):
        next(iter(batch))


def test_a_bad_record_ends_the_iteration_after_the_good_ones() -> None:
    (batch,) = read_batches(DATA)
    assert isinstance(batch, RecordBatch)
    size = (batch.size_bytes - 61) // 10
    records = iter(next(read_batches(patched(DATA, 61 + 3 * size, b"\x01"))))
    assert [next(records).offset for _ in range(3)] == [5, 6, 7]
    with pytest.raises(InvalidRecordError):
        next(records)
    assert list(records) == []


def test_numpy_and_arrow_buffers_are_read_in_place() -> None:
    buffers: list[Any] = [np.frombuffer(DATA, np.uint8), pa.py_buffer(DATA), memoryview(DATA).cast("b")]
    for buffer in buffers:
        assert [record.offset for batch in read_batches(buffer) for record in batch] == list(range(5, 15))
        assert to_arrow(buffer).num_rows == 10


def test_reading_from_a_position() -> None:
    assert [batch.position for batch in read_batches(DATA * 3, len(DATA))] == [len(DATA), 2 * len(DATA)]
    headers = walk_headers(DATA * 3, len(DATA), max_batches=1)
    assert (headers.position.tolist(), headers.end_position) == ([len(DATA)], 2 * len(DATA))
    assert len(walk_headers(DATA * 3, max_bytes=1)) == 1
    assert len(walk_headers(DATA * 3, max_bytes=len(DATA) + 1)) == 2


def test_offsets_that_overflow_are_folded_as_java_does() -> None:
    """A batch may claim offsets past 2^63; views and arrays have to agree on what they make of it."""
    data = patched(DATA, 0, struct.pack(">q", 2**63 - 3))
    (batch,) = read_batches(data)
    assert (batch.last_offset, batch.next_offset) == (-(2**63) + 6, -(2**63) + 7)
    assert walk_headers(data).last_offset.tolist() == [batch.last_offset]
    assert [record.offset for record in batch] == to_arrow(data)["offset"].to_pylist()


def test_positions_and_headers_of_other_buffers_are_refused() -> None:
    for read in (walk_headers, lambda data, position: next(read_batches(data, position))):
        with pytest.raises(ValueError, match="a position is 0 or more, not -30"):
            read(DATA, -30)
    with pytest.raises(ValueError, match="of another buffer"):
        checksums_match(DATA, walk_headers(DATA * 2))
    assert len(walk_headers(DATA, 10**9)) == 0


def test_many_headers() -> None:
    headers = walk_headers(DATA * 5000)
    assert len(headers) == 5000
    assert headers.position.tolist() == [len(DATA) * i for i in range(5000)]
    assert headers[10:20].position.tolist() == headers.position.tolist()[10:20]
    with pytest.raises(AttributeError, match="colour"):
        headers.colour  # noqa: B018


@pytest.mark.parametrize("codec", list(Compression), ids=str)
def test_only_the_columns_that_were_asked_for(codec: Compression) -> None:
    data = encode_batches([(b"k%d" % i, b"v" * i, [("h", b"x")]) for i in range(100)], compression=codec, batch_bytes=500)
    whole = to_arrow(data, COLUMNS)
    for column in COLUMNS:
        table = to_arrow(data, [column])
        assert table.schema.names == [column]
        assert table[column].to_pylist() == whole[column].to_pylist()
    assert to_arrow(data, ["value", "offset"]).schema.names == ["value", "offset"]
    for batch in iter_arrow(data, COLUMNS, chunk_bytes=1000):
        batch.validate(full=True)


def test_values_that_are_skipped_take_no_memory() -> None:
    data = encode_batches([(b"k", bytes(100_000))] * 20)
    assert to_arrow(data, ["key", "offset"]).nbytes < 2000


def test_unknown_columns() -> None:
    with pytest.raises(ValueError, match="unknown column 'payload': choose from offset, timestamp_ms"):
        to_arrow(DATA, ["payload"])
    with pytest.raises(ValueError, match="no columns"):
        arrow_schema([])


def test_chunks_follow_each_other() -> None:
    data = encode_batches([(None, b"%d" % i) for i in range(1000)], batch_bytes=200)
    pieces = list(iter_arrow(data, chunk_bytes=1000))
    assert len(pieces) > 5
    assert [value for piece in pieces for value in piece["offset"].to_pylist()] == list(range(1000))


def test_columns_whose_shares_change_from_chunk_to_chunk() -> None:
    """The room for a column is guessed from the chunk before; a wrong guess must cost time only."""
    rows = [(b"k" * 2000, b"")] * 50 + [(b"", b"v" * 2000)] * 50 + [(b"k" * 900, b"v" * 1100)] * 50
    data = encode_batches(rows, batch_bytes=5000)
    decoder = ColumnDecoder(["key", "value"], chunk_bytes=20_000)
    for _ in range(2):
        got = [(row["key"], row["value"]) for piece in decoder.decode(data) for row in piece.to_pylist()]
        assert got == rows


def test_a_chunk_whose_offsets_pass_what_arrow_counts_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_batches([(b"k", b"%d" % i) for i in range(1000)], batch_bytes=200)
    monkeypatch.setattr(columns_module, "_MAX_INT32", 5000)
    for check_crcs in (True, False):
        assert to_arrow(data, ["offset"], check_crcs=check_crcs)["offset"].to_pylist() == list(range(1000))


def test_a_chunk_is_at_least_a_byte() -> None:
    with pytest.raises(ValueError, match="a chunk has 1 byte or more, not 0"):
        iter_arrow(DATA, chunk_bytes=0)


def test_wrappers_are_not_all_open_at_once() -> None:
    """What a chunk of compressed messages expands to may be a thousand times its size, and more than slices can point at."""
    inner = message(0, b"k", bytes(3 << 20)) + message(1, None, b"last")
    value = bytes(compress(Compression.GZIP, inner))
    data = b"".join(message(2 * i + 1, None, value, attributes=Compression.GZIP) for i in range(5)) + message(10, b"k", b"plain")
    pieces = list(iter_arrow(data, [*COLUMNS]))
    assert [piece.num_rows for piece in pieces] == [2, 2, 2, 2, 2, 1]
    assert [offset for piece in pieces for offset in piece["offset"].to_pylist()] == list(range(11))
    assert [length for piece in pieces for length in pc.binary_length(piece["value"]).to_pylist()] == [3 << 20, 4] * 5 + [5]
    for piece in pieces:
        piece.validate(full=True)


def test_a_torn_tail_is_not_decoded() -> None:
    assert sum(piece.num_rows for piece in iter_arrow(DATA + DATA[:-1])) == 10


def test_markers() -> None:
    for control_type in (ControlType.ABORT, ControlType.COMMIT):
        marker = transaction_marker(control_type, producer_id=2**40, producer_epoch=5, coordinator_epoch=77, timestamp_ms=TIME)
        (batch,) = read_batches(marker)
        assert (batch.is_control, batch.is_transactional, batch.base_sequence) == (True, True, -1)
        control = parse_control_record(next(iter(batch)))
        assert (control.type, control.coordinator_epoch) == (control_type, 77)
    with pytest.raises(ValueError, match="not LEADER_CHANGE"):
        marker_record(ControlType.LEADER_CHANGE, coordinator_epoch=0, timestamp_ms=0)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (None, b"", "key of the control record at offset 9 is too short: expected at least 4 bytes, found null"),
        (b"\x00\x00\x00", b"", "found 3"),
        (b"\xff\xff\x00\x00", b"", "version of the control record at offset 9: expected 0 or more, found -1"),
        (b"\x00\x00\x00\x01", None, "value of the transaction marker at offset 9 is too short"),
        (b"\x00\x00\x00\x01", b"\x00\x00", "found 2"),
    ],
)
def test_bad_control_records(key: bytes | None, value: bytes | None, text: str) -> None:
    with pytest.raises(InvalidRecordError, match=text):
        parse_control_record(Record(value, key=key, offset=9))


def test_control_types_of_the_future_are_unknown() -> None:
    control = parse_control_record(Record(None, key=b"\x00\x00\x00\x63"))
    assert (control.type, control.type_id, control.coordinator_epoch) == (ControlType.UNKNOWN, 99, None)


def test_records_are_values() -> None:
    record = Record(b"v", key=b"k", headers=(("h", None),), timestamp_ms=TIME, offset=2**40, topic="t", partition=1, sequence=7)
    same = pickle.loads(pickle.dumps(record))
    assert same == record
    assert hash(same) == hash(record)
    assert record != Record(b"v", key=b"k")
    assert (record == "something else") is False
    assert repr(record) == f"Record(t-1@{2**40}, timestamp_ms={TIME}, key=b'k', value=b'v', headers=(('h', None),))"
    assert repr(Record(None)) == "Record(-1, timestamp_ms=-1, key=None, value=None, headers=())"
