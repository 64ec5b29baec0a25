"""Hypothesis strategies of records and batches, and the plain model they are compared with.

The ranges go where Kafka's do: offsets, timestamps and producer ids far above 2^32, timestamps that run backwards, nulls and empty bytes
everywhere, header lists with duplicates, empty names, names that are not ASCII and null values, sequences about to wrap.
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tidelog.record import BatchEncoder, BatchSettings, Compression, Record

Headers = tuple[tuple[str, bytes | None], ...]

MAX_OFFSET = 2**63 - 2**32
MAX_TIMESTAMP_MS = 2**62
MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A record as plain values."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @property
    def row(self) -> tuple[bytes | None, bytes | None, Headers, int]:
        """As the encoder takes it."""
        return self.key, self.value, self.headers, self.timestamp_ms


@dataclass(frozen=True, slots=True)
class Model:
    """Records, and how they are to be written."""

    records: tuple[ModelRecord, ...]
    settings: BatchSettings
    base_offset: int

    def encode(self) -> bytes:
        """With our encoder."""
        return bytes(BatchEncoder(self.settings, base_offset=self.base_offset).encode([record.row for record in self.records]))

    def expected(self) -> list[Record]:
        """What any reader has to find."""
        return [self.expected_record(index) for index in range(len(self.records))]

    def expected_record(self, index: int) -> Record:
        """What any reader has to find as record `index`."""
        record, settings = self.records[index], self.settings
        is_append_time = settings.append_time_ms is not None
        return Record(
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp_ms=settings.append_time_ms if settings.append_time_ms is not None else record.timestamp_ms,
            timestamp_type=int(is_append_time),
            offset=self.base_offset + index,
            sequence=-1 if settings.base_sequence < 0 else (settings.base_sequence + index) % (MAX_SEQUENCE + 1),
        )

    def with_settings(self, **changes: Any) -> "Model":
        """The same records, written in another way."""
        return replace(self, settings=replace(self.settings, **changes))


byte_strings = st.one_of(
    st.none(),
    st.just(b""),
    st.binary(max_size=40),
    # Lengths around the places where a varint grows.
    st.sampled_from((63, 64, 65, 127, 128, 129, 8191, 8192)).map(lambda size: b"\xa5" * size),
)
header_names = st.one_of(st.just(""), st.sampled_from(("a", "näme", "鍵", "🔑")), st.text(max_size=8))
header_lists: st.SearchStrategy[Headers] = st.lists(
    st.tuples(header_names, st.one_of(st.none(), st.just(b""), st.binary(max_size=20))), max_size=4
).map(tuple)
offsets = st.one_of(st.just(0), st.integers(0, 2**31), st.integers(2**32, MAX_OFFSET), st.just(MAX_OFFSET))
codecs = st.sampled_from(list(Compression))


@st.composite
def record_lists(
    draw: st.DrawFn, *, min_size: int = 1, max_size: int = 12, lowest_ms: int = -1, highest_ms: int = MAX_TIMESTAMP_MS
) -> tuple[ModelRecord, ...]:
    """Records whose times lie around one moment, before it and after it, or anywhere; -1 (none) among them."""
    moment = draw(st.one_of(st.integers(max(0, lowest_ms), highest_ms), st.just(min(1_700_000_000_000, highest_ms))))
    deltas = st.one_of(st.integers(-3, 3), st.integers(-(2**40), 2**40), st.just(-moment))
    times = deltas.map(lambda delta: min(max(moment + delta, lowest_ms), highest_ms))
    if lowest_ms < 0:
        times = st.one_of(times, st.just(-1))
    return tuple(
        draw(st.lists(st.builds(ModelRecord, byte_strings, byte_strings, header_lists, times), min_size=min_size, max_size=max_size))
    )


@st.composite
def settings_of_batches(draw: st.DrawFn, *, batch_bytes: int | None = None) -> BatchSettings:
    """Every codec; no producer, an idempotent one, a transactional one; either timestamp type."""
    producer_id = draw(st.one_of(st.just(-1), st.integers(0, 2**63 - 1), st.integers(2**32, 2**34)))
    has_producer = producer_id >= 0
    return BatchSettings(
        compression=draw(codecs),
        batch_bytes=draw(st.integers(62, 700)) if batch_bytes is None else batch_bytes,
        partition_leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        producer_id=producer_id,
        producer_epoch=draw(st.integers(0, 2**15 - 1)) if has_producer else -1,
        base_sequence=draw(st.one_of(st.integers(0, MAX_SEQUENCE), st.integers(MAX_SEQUENCE - 4, MAX_SEQUENCE))) if has_producer else -1,
        is_transactional=has_producer and draw(st.booleans()),
        append_time_ms=draw(st.one_of(st.none(), st.integers(0, MAX_TIMESTAMP_MS))),
    )


def models(**records: Any) -> st.SearchStrategy[Model]:
    """Records in batches of a few hundred bytes, so that most have several."""
    return st.builds(Model, record_lists(**records), settings_of_batches(), offsets)


def single_batches(**records: Any) -> st.SearchStrategy[Model]:
    """Records in one batch."""
    return st.builds(Model, record_lists(**records), settings_of_batches(batch_bytes=2**31 - 1), offsets)
