"""Other implementations of the format, behind one face each: what they read from bytes, and what they write.

aiokafka runs its compiled classes. kafka-python is plain Python with codec libraries other than ours for lz4. kio knows no compression.
"""

import io
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaLegacyBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, RecordHeader
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from tests.support.strategies import Headers, ModelRecord
from tidelog.record import BatchSettings, Compression

with warnings.catch_warnings():
    # Importing kafka-python reads its schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonLegacyBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KIO_LAST_MS = 253_402_300_799_000  # the year 9999: kio makes datetimes


class PeerRecord(NamedTuple):
    """A record as a peer read it."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class PeerBatch(NamedTuple):
    """A batch as a peer read it."""

    base_offset: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: list[PeerRecord]


def read_with_aiokafka(buffer: bytes) -> list[PeerBatch]:
    """All batches, their CRCs checked."""
    return _read_memory_records(AiokafkaRecords(buffer))


def read_with_kafka_python(buffer: bytes) -> list[PeerBatch]:
    """All batches, their CRCs checked."""
    return _read_memory_records(KafkaPythonRecords(buffer))


def _read_memory_records(source: Any) -> list[PeerBatch]:
    batches = []
    while source.has_next():
        batch = source.next_batch()
        assert batch.validate_crc()
        batches.append(
            PeerBatch(
                batch.base_offset,
                batch.attributes,
                batch.next_offset - batch.base_offset - 1,
                batch.first_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                [
                    PeerRecord(record.offset, record.timestamp, record.timestamp_type, record.key, record.value, tuple(record.headers))
                    for record in batch
                ],
            )
        )
    return batches


def read_with_kio(buffer: bytes) -> list[PeerBatch]:
    """All batches; kio checks their CRCs. Its times are cut to whole seconds."""
    batches = []
    at = 0
    while at < len(buffer):
        batch, size = read_batch(buffer, at)
        at += size
        records = [
            PeerRecord(
                record.offset,
                round(record.timestamp.timestamp() * 1000),
                0,
                record.key,
                record.value,
                tuple(((header.key or b"").decode(), header.value) for header in record.headers),
            )
            for record in batch.records
        ]
        batches.append(
            PeerBatch(
                batch.base_offset,
                batch.attributes,
                batch.last_offset_delta,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                records,
            )
        )
    return batches


Writer = Callable[[Sequence[ModelRecord], BatchSettings], bytes]


def _builder_writer(builder: Any) -> Writer:
    def write(records: Sequence[ModelRecord], settings: BatchSettings) -> bytes:
        batch = builder(
            magic=2,
            compression_type=int(Compression.of(settings.compression)),
            is_transactional=settings.is_transactional,
            producer_id=settings.producer_id,
            producer_epoch=settings.producer_epoch,
            base_sequence=settings.base_sequence,
            batch_size=1 << 30,
        )
        for offset, record in enumerate(records):
            appended = batch.append(offset, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers))
            assert appended is not None
        return bytes(batch.build())

    return write


write_with_aiokafka = _builder_writer(AiokafkaBuilder)
write_with_kafka_python = _builder_writer(KafkaPythonBuilder)


def write_with_kio(records: Sequence[ModelRecord], settings: BatchSettings) -> bytes:
    """One batch from offset 0."""
    batch = NewRecordBatch(
        producer_id=i64(settings.producer_id),
        producer_epoch=i16(settings.producer_epoch),
        base_sequence=i32(settings.base_sequence),
        attributes=i16(0x10 if settings.is_transactional else 0),
        records=tuple(
            KioRecord(
                attributes=i8(0),
                timestamp=TZAwareMicros.parse(EPOCH + timedelta(milliseconds=record.timestamp_ms)),
                offset=i64(offset),
                key=record.key,
                value=record.value,
                headers=tuple(RecordHeader(key=name.encode(), value=value) for name, value in record.headers),
            )
            for offset, record in enumerate(records)
        ),
    )
    with io.BytesIO() as buffer:
        write_batch(buffer, batch)
        return buffer.getvalue()


def write_legacy_with_aiokafka(records: Sequence[ModelRecord], magic: int, codec: Compression, first_offset: int) -> bytes:
    """Messages, or one wrapper, of magic 0 or 1."""
    return _write_legacy(AiokafkaLegacyBuilder, records, magic, codec, first_offset)


def write_legacy_with_kafka_python(records: Sequence[ModelRecord], magic: int, codec: Compression, first_offset: int) -> bytes:
    """Messages, or one wrapper, of magic 0 or 1."""
    return _write_legacy(KafkaPythonLegacyBuilder, records, magic, codec, first_offset)


def _write_legacy(builder: Any, records: Sequence[ModelRecord], magic: int, codec: Compression, first_offset: int) -> bytes:
    batch = builder(magic=magic, compression_type=int(codec), batch_size=1 << 30)
    for offset, record in enumerate(records, first_offset):
        appended = batch.append(offset, timestamp=record.timestamp_ms, key=record.key, value=record.value)
        assert appended is not None
    return bytes(batch.build())
