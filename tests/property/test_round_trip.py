"""What our encoder writes, every one of our decoders reads back, and all agree with the plain model."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import Model, ModelRecord, models, record_lists, settings_of_batches
from tidelog.record import (
    COLUMNS,
    BatchEncoder,
    BatchSettings,
    Compression,
    NewBatch,
    RecordBatch,
    checksums_match,
    count_records,
    encode_arrow,
    encode_batches,
    iter_arrow,
    read_batches,
    to_arrow,
    verify_checksums,
    walk_headers,
)
from tidelog.record.headers import FIELDS

HEADER_SIZE = 61


def columns_of(model: Model) -> dict[str, list[object]]:
    """The Arrow columns that a decoder has to give."""
    records, settings = model.expected(), model.settings
    count = len(records)
    return {
        "offset": [record.offset for record in records],
        "timestamp_ms": [record.timestamp_ms for record in records],
        "timestamp_type": [int(record.timestamp_type) for record in records],
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "headers": [[{"key": name, "value": value} for name, value in record.headers] for record in records],
        "sequence": [record.sequence for record in records],
        "producer_id": [settings.producer_id] * count,
        "producer_epoch": [settings.producer_epoch] * count,
        "partition_leader_epoch": [settings.partition_leader_epoch] * count,
        "is_transactional": [settings.is_transactional] * count,
        "is_control": [settings.is_control] * count,
    }


@pytest.mark.parametrize("codec", list(Compression))
@given(model=models())
def test_objects_equal_the_model(codec: Compression, model: Model) -> None:
    model = model.with_settings(compression=codec)
    assert [record for batch in read_batches(model.encode()) for record in batch] == model.expected()


@pytest.mark.parametrize("codec", list(Compression))
@given(model=models())
def test_columns_equal_the_model(codec: Compression, model: Model) -> None:
    model = model.with_settings(compression=codec)
    assert to_arrow(model.encode(), COLUMNS).to_pydict() == columns_of(model)


@given(models(), st.sampled_from((1, 150, 1 << 20)), st.sets(st.sampled_from(COLUMNS), min_size=1))
def test_any_columns_in_any_chunks_are_the_same(model: Model, chunk_bytes: int, columns: set[str]) -> None:
    batches = list(iter_arrow(model.encode(), sorted(columns), chunk_bytes=chunk_bytes))
    assert pa.Table.from_batches(batches).to_pydict() == {name: columns_of(model)[name] for name in sorted(columns)}


@given(models())
def test_header_arrays_equal_the_views(model: Model) -> None:
    encoded = model.encode()
    headers = walk_headers(encoded)
    batches = list(read_batches(encoded))
    assert len(headers) == len(batches)
    assert headers.end_position == len(encoded)
    for field in FIELDS:
        assert getattr(headers, field).tolist() == [getattr(batch, field) for batch in batches], field


@given(models())
def test_batch_headers_equal_the_model(model: Model) -> None:
    settings = model.settings
    expected = model.expected()
    at = 0
    for batch in read_batches(model.encode()):
        assert isinstance(batch, RecordBatch)
        records, own = expected[at : at + batch.count], model.records[at : at + batch.count]
        assert (batch.base_offset, batch.last_offset) == (records[0].offset, records[-1].offset)
        assert (batch.base_sequence, batch.last_sequence) == (records[0].sequence, records[-1].sequence)
        assert batch.base_timestamp_ms == own[0].timestamp_ms
        largest = max(record.timestamp_ms for record in own)
        assert batch.max_timestamp_ms == (largest if settings.append_time_ms is None else settings.append_time_ms)
        assert (batch.producer_id, batch.producer_epoch) == (settings.producer_id, settings.producer_epoch)
        assert batch.partition_leader_epoch == settings.partition_leader_epoch
        assert (batch.is_transactional, batch.is_control) == (settings.is_transactional, False)
        assert batch.compression is settings.compression
        assert batch.delete_horizon_ms is None
        at += batch.count
    assert at == len(expected)


@given(models())
def test_counts_are_exact_and_crcs_match(model: Model) -> None:
    encoded = model.encode()
    headers = walk_headers(encoded)
    assert count_records(encoded) == count_records(encoded, headers) == len(model.records)
    assert checksums_match(encoded, headers).all()
    verify_checksums(encoded, headers)


@given(models(), st.data())
def test_a_changed_bit_changes_the_crc(model: Model, data: st.DataObject) -> None:
    encoded = bytearray(model.encode())
    batches = list(read_batches(bytes(encoded)))
    index = data.draw(st.integers(0, len(batches) - 1))
    at = data.draw(st.integers(batches[index].position + 17, batches[index].position + batches[index].size_bytes - 1))
    encoded[at] ^= 1 << data.draw(st.integers(0, 7))
    matches = checksums_match(encoded, walk_headers(encoded)).tolist()
    assert matches == [number != index for number in range(len(batches))]


@given(models())
def test_columns_encode_to_the_same_bytes_as_rows(model: Model) -> None:
    encoded = model.encode()
    table = to_arrow(encoded, ("key", "value", "headers"))
    # Decoding gives the append time where there is one; the encoder wants the records' own.
    table = table.append_column("timestamp_ms", pa.array([record.timestamp_ms for record in model.records], pa.int64()))
    assert bytes(BatchEncoder(model.settings, base_offset=model.base_offset).encode_arrow(table)) == encoded


@given(models())
def test_decoded_columns_encode_again(model: Model) -> None:
    model = model.with_settings(append_time_ms=None)
    encoded = model.encode()
    settings = {name: getattr(model.settings, name) for name in type(model.settings).__dataclass_fields__}
    assert encode_arrow(to_arrow(encoded), base_offset=model.base_offset, **settings) == encoded


@given(models(), st.integers(0, 12))
def test_decoded_objects_encode_again(model: Model, cut: int) -> None:
    model = model.with_settings(append_time_ms=None)
    encoder = BatchEncoder(model.settings, base_offset=model.base_offset)
    rows = [record for batch in read_batches(model.encode()) for record in batch]
    # In two calls: offsets and sequences go on from the first to the second.
    encoded = bytes(encoder.encode(rows[:cut])) + bytes(encoder.encode(rows[cut:]))
    assert [record for batch in read_batches(encoded) for record in batch] == model.expected()


@given(record_lists(max_size=60), settings_of_batches(), st.integers(62, 2000))
def test_no_batch_is_larger_than_asked_unless_it_holds_one_record(
    records: tuple[ModelRecord, ...], settings: BatchSettings, batch_bytes: int
) -> None:
    model = Model(records, settings, 2**40).with_settings(compression=Compression.NONE, batch_bytes=batch_bytes)
    batches = list(read_batches(model.encode()))
    assert all(batch.size_bytes <= batch_bytes or batch.count == 1 for batch in batches)
    # Nor is it smaller than it has to be: the first record of the next would not have fitted.
    for batch, following in pairwise(batches):
        assert isinstance(following, RecordBatch)
        smallest = encode_batches([model.records[following.base_offset - model.base_offset].row])
        assert batch.size_bytes + len(smallest) - HEADER_SIZE + 24 > batch_bytes
    assert [record for batch in batches for record in batch] == model.expected()
    assert all(batch.next_offset == following.base_offset for batch, following in pairwise(batches))


@given(record_lists(min_size=2), settings_of_batches(), st.data())
def test_a_batch_takes_what_fits_to_the_byte(records: tuple[ModelRecord, ...], settings: BatchSettings, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, len(records)))
    exact = len(NewBatch([record.row for record in records[:count]]).encode())
    model = Model(records, settings, 0).with_settings(compression=Compression.NONE)
    for batch_bytes, fits in ((exact, True), (exact - 1, False)):
        model = model.with_settings(batch_bytes=batch_bytes)
        columns = pa.table(
            {
                "key": pa.array([record.key for record in records], pa.binary()),
                "value": pa.array([record.value for record in records], pa.binary()),
                "timestamp_ms": pa.array([record.timestamp_ms for record in records], pa.int64()),
            }
        )
        encoded = [model.encode()]
        if not any(record.headers for record in records):
            encoded.append(bytes(BatchEncoder(model.settings).encode_arrow(columns)))
        for buffer in encoded:
            assert (next(iter(read_batches(buffer))).count >= count) == fits


@given(st.lists(models(), min_size=1, max_size=4))
def test_buffers_back_to_back_are_read_as_one(several: list[Model]) -> None:
    encoded = b"".join(model.encode() for model in several)
    expected = [record for model in several for record in model.expected()]
    assert [record for batch in read_batches(encoded) for record in batch] == expected
    table = to_arrow(encoded, COLUMNS)
    assert table.to_pydict() == {name: [cell for model in several for cell in columns_of(model)[name]] for name in COLUMNS}
    assert count_records(encoded) == len(expected)
