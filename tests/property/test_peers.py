"""Independent implementations as referees: they read what we write, and we read what they write."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.property import peers
from tests.support.strategies import Model, ModelRecord, models, offsets, record_lists, settings_of_batches, single_batches
from tidelog.record import (
    COLUMNS,
    BatchSettings,
    Compression,
    LegacyBatch,
    Record,
    RecordBatch,
    TimestampType,
    count_records,
    read_batches,
    to_arrow,
    walk_headers,
)

# The builders of clients have no notion of "no timestamp": they stamp the record themselves, or write -1 as they would any number.
client_records = record_lists(lowest_ms=0)
# kio holds whole seconds and years up to 9999.
kio_records = record_lists(lowest_ms=0, highest_ms=peers.KIO_LAST_MS).map(
    lambda records: tuple(ModelRecord(record.key, record.value, record.headers, record.timestamp_ms // 1000 * 1000) for record in records)
)


def check_batches(found: list[peers.PeerBatch], model: Model, millis: Callable[[int], int] = int) -> None:
    """What a peer read is what the model says."""
    expected = [
        peers.PeerRecord(record.offset, millis(record.timestamp_ms), int(record.timestamp_type), record.key, record.value, record.headers)
        for record in model.expected()
    ]
    assert [record for batch in found for record in batch.records] == expected
    views = list(read_batches(model.encode()))
    assert len(found) == len(views)
    for theirs, ours in zip(found, views, strict=True):
        assert isinstance(ours, RecordBatch)
        assert theirs[:-1] == (
            ours.base_offset,
            ours.attributes,
            ours.last_offset - ours.base_offset,
            ours.base_timestamp_ms,
            ours.max_timestamp_ms,
            ours.producer_id,
            ours.producer_epoch,
            ours.base_sequence,
        )


@pytest.mark.parametrize("codec", list(Compression))
@given(model=models())
def test_aiokafka_reads_what_we_write(codec: Compression, model: Model) -> None:
    model = model.with_settings(compression=codec)
    check_batches(peers.read_with_aiokafka(model.encode()), model)


@pytest.mark.parametrize("codec", list(Compression))
@given(model=models())
def test_kafka_python_reads_what_we_write(codec: Compression, model: Model) -> None:
    model = model.with_settings(compression=codec)
    check_batches(peers.read_with_kafka_python(model.encode()), model)


@given(models(lowest_ms=0, highest_ms=peers.KIO_LAST_MS))
def test_kio_reads_what_we_write(model: Model) -> None:
    # kio does not know LogAppendTime: it always gives base timestamp and delta.
    model = model.with_settings(compression=Compression.NONE, append_time_ms=None)
    check_batches(peers.read_with_kio(model.encode()), model, lambda timestamp_ms: timestamp_ms // 1000 * 1000)


def check_reading(written: bytes, records: tuple[ModelRecord, ...], settings: BatchSettings, base_offset: int = 0) -> None:
    """All our decoders read a peer's batch as the model says."""
    # A peer that gains nothing by compressing writes the records as they are.
    model = Model(records, settings, base_offset)
    (batch,) = read_batches(written)
    assert isinstance(batch, RecordBatch)
    assert batch.is_valid
    assert list(batch) == model.expected()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        settings.producer_id,
        settings.producer_epoch,
        settings.base_sequence,
    )
    assert batch.is_transactional == settings.is_transactional
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (
        records[0].timestamp_ms,
        max(record.timestamp_ms for record in records),
    )
    check_columns(written, model.expected())


def check_columns(written: bytes, expected: list[Record]) -> None:
    """Columns, counts and header arrays of a valid buffer."""
    columns = to_arrow(written, COLUMNS).to_pydict()
    for name in ("offset", "timestamp_ms", "timestamp_type", "key", "value", "sequence"):
        assert columns[name] == [getattr(record, name) for record in expected], name
    assert columns["headers"] == [[{"key": name, "value": value} for name, value in record.headers] for record in expected]
    assert count_records(written) == len(expected)
    assert walk_headers(written).end_position == len(written)


producers = settings_of_batches(batch_bytes=2**31 - 1).map(
    lambda settings: BatchSettings(
        compression=settings.compression,
        producer_id=settings.producer_id,
        producer_epoch=settings.producer_epoch,
        base_sequence=settings.base_sequence,
        is_transactional=settings.is_transactional,
    )
)


@pytest.mark.parametrize("codec", list(Compression))
@given(records=client_records, settings=producers)
def test_we_read_what_aiokafka_writes(codec: Compression, records: tuple[ModelRecord, ...], settings: BatchSettings) -> None:
    settings = replace(settings, compression=codec)
    check_reading(peers.write_with_aiokafka(records, settings), records, settings)


@pytest.mark.parametrize("codec", list(Compression))
@given(records=client_records, settings=producers)
def test_we_read_what_kafka_python_writes(codec: Compression, records: tuple[ModelRecord, ...], settings: BatchSettings) -> None:
    settings = replace(settings, compression=codec)
    check_reading(peers.write_with_kafka_python(records, settings), records, settings)


@given(kio_records, producers)
def test_we_read_what_kio_writes(records: tuple[ModelRecord, ...], settings: BatchSettings) -> None:
    check_reading(peers.write_with_kio(records, settings), records, settings)


@given(single_batches(lowest_ms=0))
def test_we_write_the_bytes_that_aiokafka_writes(model: Model) -> None:
    # Its base offset is 0, its leader epoch -1; compressed bytes are the libraries' affair.
    model = Model(model.records, model.settings, 0).with_settings(
        compression=Compression.NONE, append_time_ms=None, partition_leader_epoch=-1
    )
    assert model.encode() == peers.write_with_aiokafka(model.records, model.settings)


LEGACY_WRITERS: list[Any] = [
    pytest.param(writer, magic, codec, id=f"{name}-v{magic}-{codec}")
    for name, writer, of_magic in (
        # Neither writes lz4 in magic 0, which no broker of its time had right; the golden files have it.
        (
            "aiokafka",
            peers.write_legacy_with_aiokafka,
            {
                0: (Compression.NONE, Compression.GZIP, Compression.SNAPPY),
                1: (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4),
            },
        ),
        (
            "kafka-python",
            peers.write_legacy_with_kafka_python,
            {
                0: (Compression.NONE, Compression.GZIP, Compression.SNAPPY),
                1: (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4),
            },
        ),
    )
    for magic, codecs in of_magic.items()
    for codec in codecs
]


@pytest.mark.parametrize(("write", "magic", "codec"), LEGACY_WRITERS)
@given(records=client_records, first_offset=offsets)
def test_we_read_legacy_messages(write: Any, magic: int, codec: Compression, records: tuple[ModelRecord, ...], first_offset: int) -> None:
    if codec is Compression.NONE:
        written = write(records, magic, codec, first_offset)
    else:
        # Inner offsets are absolute in magic 0, relative in magic 1; the broker gives the wrapper the last of them.
        written = write(records, magic, codec, first_offset if magic == 0 else 0)
        written = (first_offset + len(records) - 1).to_bytes(8, "big") + written[8:]
    expected = [
        Record(
            record.value,
            key=record.key,
            timestamp_ms=record.timestamp_ms if magic == 1 else -1,
            timestamp_type=int(TimestampType.CREATE_TIME if magic == 1 else TimestampType.NO_TIMESTAMP_TYPE),
            offset=offset,
        )
        for offset, record in enumerate(records, first_offset)
    ]
    batches = list(read_batches(written))
    assert len(batches) == (len(records) if codec is Compression.NONE else 1)
    for batch in batches:
        assert isinstance(batch, LegacyBatch)
        assert (batch.magic, batch.compression, batch.is_valid) == (magic, codec, True)
    assert (batches[0].base_offset, batches[-1].last_offset) == (expected[0].offset, expected[-1].offset)
    assert [record for batch in batches for record in batch] == expected
    check_columns(written, expected)
