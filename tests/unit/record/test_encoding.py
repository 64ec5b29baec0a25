"""Encoding: what goes in comes out, split by size, in buffers that are used again; and what must not be written is refused."""

import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support.batches import TIME
from tidelog.errors import InvalidBatchError, UnsupportedCodecError
from tidelog.record import (
    BatchEncoder,
    BatchSettings,
    Compression,
    NewBatch,
    Record,
    RecordBatch,
    Row,
    TimestampType,
    arrow_input,
    encode_arrow,
    encode_batches,
    read_batches,
    to_arrow,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = [(b"key-%d" % i, b"x" * (i % 300), [("n", b"%d" % i), ("n", None)] if i % 5 == 0 else (), TIME + i) for i in range(500)]


def batches_of(data: Any) -> list[RecordBatch]:
    return [batch for batch in read_batches(data) if isinstance(batch, RecordBatch)]


@pytest.mark.parametrize("codec", list(Compression), ids=str)
def test_batches_are_split_by_size(codec: Compression) -> None:
    data = encode_batches(ROWS, compression=codec, batch_bytes=4096, base_offset=2**40)
    batches = batches_of(data)
    assert len(batches) > 15
    assert [record.offset for batch in batches for record in batch] == list(range(2**40, 2**40 + 500))
    plain = batches_of(encode_batches(ROWS, batch_bytes=4096))
    assert [batch.count for batch in batches] == [batch.count for batch in plain]
    for batch, after in pairwise(plain):
        first = next(iter(after))
        assert batch.size_bytes <= 4096
        # It would not have fitted: its own size, with deltas at most a few bytes longer than here.
        assert batch.size_bytes + len(first.key or b"") + len(first.value or b"") + 30 > 4096


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    data = encode_batches([(b"a", b"1"), (b"b", bytes(10_000)), (b"c", b"3"), (b"d", b"4")], batch_bytes=100)
    assert [batch.count for batch in read_batches(data)] == [1, 1, 2]


def test_an_encoder_goes_on_and_uses_its_memory_again() -> None:
    encoder = BatchEncoder(BatchSettings(producer_id=2**40, producer_epoch=3, base_sequence=2**31 - 3), base_offset=7)
    first = bytes(encoder.encode([(None, b"a"), (None, b"b")]))
    view = encoder.encode([(None, b"c"), (None, b"d"), (None, b"e")])
    again = bytes(view)
    assert [record.offset for batch in read_batches(first + again) for record in batch] == [7, 8, 9, 10, 11]
    assert [record.sequence for batch in read_batches(first + again) for record in batch] == [2**31 - 3, 2**31 - 2, 2**31 - 1, 0, 1]
    assert (encoder.next_offset, encoder.next_sequence) == (12, 2)
    encoder.encode([(None, b"f")])
    assert bytes(view) != again  # the memory under it was used again


def test_an_encoder_grows_its_memory() -> None:
    encoder = BatchEncoder(BatchSettings(batch_bytes=3_000_000))
    for count in (1, 3000, 20):
        rows = [(b"k", bytes(997))] * count
        assert sum(1 for batch in read_batches(encoder.encode(rows)) for _ in batch) == count


def test_more_batches_than_the_first_room_for_their_positions() -> None:
    rows = [(None, b"%d" % i) for i in range(5000)]
    data = encode_batches(rows, batch_bytes=1)
    assert [record.value for batch in read_batches(data) for record in batch] == [value for _, value in rows]
    assert encode_arrow(pa.table({"value": [value for _, value in rows]}), batch_bytes=1) == data


def test_nothing_to_encode() -> None:
    assert encode_batches([]) == b""
    assert encode_arrow(pa.table({"value": pa.array([], pa.binary())})) == b""
    with pytest.raises(InvalidBatchError, match="has no records"):
        NewBatch([]).encode()


def test_header_fields() -> None:
    settings = BatchSettings(
        partition_leader_epoch=11,
        producer_id=2**50,
        producer_epoch=2**15 - 1,
        base_sequence=2**31 - 1,
        is_transactional=True,
        append_time_ms=2**41,
    )
    (batch,) = batches_of(NewBatch([(b"k", b"v", (), TIME), (b"k", b"v", (), TIME - 9)], base_offset=2**62, settings=settings).encode())
    assert (batch.partition_leader_epoch, batch.producer_id, batch.producer_epoch) == (11, 2**50, 2**15 - 1)
    assert (batch.base_sequence, batch.last_sequence) == (2**31 - 1, 0)
    assert (batch.is_transactional, batch.is_control, batch.timestamp_type) == (True, False, TimestampType.LOG_APPEND_TIME)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (TIME, 2**41)
    assert [record.timestamp_ms for record in batch] == [2**41, 2**41]
    assert {record.timestamp_type for record in batch} == {TimestampType.LOG_APPEND_TIME}


def test_a_delete_horizon_is_the_base_timestamp() -> None:
    settings = BatchSettings(delete_horizon_ms=TIME + 10**9)
    (batch,) = batches_of(NewBatch([(b"k", None, (), TIME)], settings=settings).encode())
    assert (batch.delete_horizon_ms, batch.max_timestamp_ms) == (TIME + 10**9, TIME)
    assert next(iter(batch)).timestamp_ms == TIME


def test_records_without_timestamp_have_the_one_of_the_call() -> None:
    rows: list[Row] = [(b"k", b"v"), (b"k", b"v", ()), (b"k", b"v", (), None), (b"k", b"v", (), 5), Record(b"v", key=b"k")]
    data = encode_batches(rows, timestamp_ms=TIME)
    assert [record.timestamp_ms for batch in read_batches(data) for record in batch] == [TIME, TIME, TIME, 5, -1]


def test_a_read_record_can_be_written() -> None:
    data = encode_batches(ROWS)
    records = [record for batch in read_batches(data) for record in batch]
    assert encode_batches(records) == data


def test_buffers_are_taken_as_bytes() -> None:
    data = encode_batches([(bytearray(b"k"), memoryview(b"v"), [("h", bytearray(b"x"))])])  # type: ignore[list-item]
    (record,) = next(read_batches(data))
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"x"),))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (("k", b"v"), "key of record 1 must be bytes or None, not str"),
        ((b"k", "v"), "value of record 1 must be bytes or None, not str"),
        ((b"k", 5), "value of record 1 must be bytes or None, not int"),
        ((b"k", b"v", [("h", "x")]), "header value of record 1 must be bytes or None, not str"),
        ((b"k", b"v", [(b"h", b"x")]), "header name of record 1 must be str, not bytes"),
        ((b"k",), r"record 1 must be a Record or a tuple \(key, value"),
        (b"kv", "record 1 must be a Record or a tuple .* not bytes"),
        ([b"k", b"v"], "not list"),
        ((b"k", b"v", [("h",)]), r"headers of record 1 must be pairs \(name, value\), not \('h',\)"),
        ((b"k", b"v", (), 1.5), "timestamp_ms of record 1 must be an int, not float"),
    ],
)
def test_wrong_types(row: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        encode_batches([(b"", b""), row])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"batch_bytes": 0}, "batch_bytes out of range: expected 1 to 2147483647, found 0"),
        ({"producer_epoch": 2**15}, "producer_epoch out of range"),
        ({"producer_id": -2}, "producer_id out of range"),
        ({"base_sequence": 2**31}, "base_sequence out of range"),
        ({"partition_leader_epoch": 2**31}, "partition_leader_epoch out of range"),
        ({"append_time_ms": -1}, "append_time_ms out of range"),
        ({"delete_horizon_ms": -1}, "delete_horizon_ms out of range"),
        ({"is_transactional": True}, "a transactional batch needs a producer"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidBatchError, match=text):
        BatchEncoder(BatchSettings(**settings))


def test_wrong_codecs_and_timestamps() -> None:
    with pytest.raises(UnsupportedCodecError):
        encode_batches([], compression="brotli")
    with pytest.raises(InvalidBatchError, match=r"timestamp of record 0: expected -1 .*, found -2"):
        encode_batches([(b"", b"", (), -2)])
    with pytest.raises(InvalidBatchError, match=f"timestamp of record 0: .*, found {2**63}"):
        encode_batches([(b"", b"", (), 2**63)])
    with pytest.raises(InvalidBatchError, match="timestamp_ms out of range"):
        encode_batches([], timestamp_ms=-5)
    with pytest.raises(InvalidBatchError, match="a timestamp out of range"):
        encode_arrow(pa.table({"value": [b""], "timestamp_ms": [-7]}))


def test_offsets_out_of_range() -> None:
    with pytest.raises(InvalidBatchError, match="base_offset out of range"):
        encode_batches([], base_offset=-1)
    encoder = BatchEncoder(base_offset=2**63 - 1)
    last = bytes(encoder.encode([(None, b"last")]))
    with pytest.raises(InvalidBatchError, match="offsets run out"):
        encoder.encode([(None, b"one more")])
    assert next(iter(next(read_batches(last)))).offset == 2**63 - 1
    with pytest.raises(InvalidBatchError, match=f"offsets run out: expected at most {2**63 - 1}, found {2**63}"):
        encode_batches([(None, b"")] * 2, base_offset=2**63 - 1)


def test_timestamps_as_far_apart_as_can_be() -> None:
    times = [-1, 2**63 - 1, 0]
    data = encode_batches([(b"k", b"v", (), time) for time in times])
    assert [record.timestamp_ms for record in next(read_batches(data))] == times
    table = pa.table({"value": [b"v"] * 3, "timestamp_ms": times, "key": [b"k"] * 3})
    assert encode_arrow(table) == data


def test_headers_from_any_iterable() -> None:
    data = encode_batches([(b"k", b"v", (pair for pair in [("a", b"1"), ("b", None)]))])
    assert next(iter(next(read_batches(data)))).headers == (("a", b"1"), ("b", None))


def test_arrow_columns_give_the_same_bytes_as_rows() -> None:
    data = encode_batches(ROWS, batch_bytes=2000)
    table = to_arrow(data)
    assert encode_arrow(table, batch_bytes=2000) == data
    assert encode_arrow(table.to_batches()[0], batch_bytes=2000) == data
    chunked = pa.concat_tables([table.slice(0, 100), table.slice(100, 3), table.slice(103)])
    assert encode_arrow(chunked, batch_bytes=2000) == data
    part = encode_arrow(table.slice(250), batch_bytes=2000)
    assert [record.value for batch in read_batches(part) for record in batch] == [row[1] for row in ROWS[250:]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_arrow_types_of_bytes(kind: pa.DataType) -> None:
    table = pa.table({"key": pa.array([b"a", None, b""], kind), "value": pa.array([None, b"b", b""], kind)})
    (batch,) = read_batches(encode_arrow(table))
    assert [(record.key, record.value) for record in batch] == [(b"a", None), (None, b"b"), (b"", b"")]


def test_arrow_without_keys_or_with_columns_of_nulls() -> None:
    (batch,) = read_batches(encode_arrow(pa.table({"value": [b"a", b"b"]})))
    assert [(record.key, record.value) for record in batch] == [(None, b"a"), (None, b"b")]
    (batch,) = read_batches(encode_arrow(pa.table({"key": pa.nulls(2), "value": pa.nulls(2)})))
    assert [(record.key, record.value) for record in batch] == [(None, None)] * 2
    (batch,) = read_batches(encode_arrow(pa.table({"value": [b"a"], "timestamp_ms": pa.nulls(1), "headers": pa.nulls(1)}), timestamp_ms=3))
    assert [(record.value, record.timestamp_ms, record.headers) for record in batch] == [(b"a", 3, ())]


def test_arrow_timestamps() -> None:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 987654, tzinfo=datetime.UTC)
    table = pa.table({"value": [b"", b""], "timestamp": pa.array([moment, None], pa.timestamp("us", "UTC"))})
    (batch,) = read_batches(encode_arrow(table, timestamp_ms=3))
    assert [record.timestamp_ms for record in batch] == [1709209801987, 3]


@pytest.mark.parametrize(
    "times",
    [pa.array([2**63 // 1000 + 1], pa.timestamp("s")), pa.array([2**62], pa.timestamp("s", "UTC")), pa.array([2**63], pa.uint64())],
)
def test_arrow_timestamps_that_do_not_fit(times: pa.Array) -> None:
    """In milliseconds they would wrap around, and be somebody else's time."""
    with pytest.raises(InvalidBatchError, match="a timestamp out of range"):
        encode_arrow(pa.table({"value": [b""], "timestamp": times}))


def test_arrow_headers_count_as_bytes_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel points at them with 32 bits, as at keys and values."""
    table = to_arrow(encode_batches([(b"", b"", [("h", bytes(300))])] * 10))
    monkeypatch.setattr(arrow_input, "_MAX_DATA_BYTES", 3000)
    with pytest.raises(InvalidBatchError, match="too many bytes in one call: expected at most 3000, found 30"):
        encode_arrow(table)
    assert encode_arrow(table.slice(0, 9))


def test_arrow_columns_that_cannot_be() -> None:
    with pytest.raises(TypeError, match="column 'value' is string: text has no bytes of its own"):
        encode_arrow(pa.table({"value": ["text"]}))
    with pytest.raises(TypeError, match=r"column 'value' is dictionary.*: text has no bytes of its own"):
        encode_arrow(pa.table({"value": pa.array(["text"]).dictionary_encode()}))
    with pytest.raises(InvalidBatchError, match="two columns have one name: expected each once, found value, value"):
        encode_arrow(pa.Table.from_arrays([pa.array([b""])] * 2, names=["value", "value"]))
    with pytest.raises(TypeError, match="column 'key' is int64: expected binary"):
        encode_arrow(pa.table({"key": [1], "value": [b""]}))
    with pytest.raises(TypeError, match="the timestamp column is double"):
        encode_arrow(pa.table({"value": [b""], "timestamp_ms": [1.5]}))
    with pytest.raises(InvalidBatchError, match="no column to encode: expected at least a column `value`, found payload"):
        encode_arrow(pa.table({"payload": [b""]}))


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        (pa.array(["text"]), "column 'headers' is string: expected list<struct<key: string, value: binary>>"),
        (pa.array([["text"]]), "column 'headers' is list<item: string>: expected list"),
        (pa.array([[{"name": "h", "value": b""}]]), "column 'headers' is list<item: struct<name: string, value: binary>>: expected list"),
        (pa.array([[("h", b"")]], pa.map_(pa.string(), pa.binary())), r"column 'headers' is map<.*>: expected list"),
        (pa.array([[{"key": "h", "value": b""}, None]]), "a header of record 0 is null"),
        (pa.array([[{"key": None, "value": b""}]], HEADERS), "header name of record 0 must be str, not NoneType"),
        (pa.array([[{"key": "h", "value": "text"}]]), "header value of record 0 must be bytes or None, not str"),
    ],
)
def test_arrow_headers_that_cannot_be(headers: pa.Array, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        encode_arrow(pa.table({"value": [b""], "headers": headers}))
