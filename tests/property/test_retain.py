"""Filtered copies of batches against a plain model of what the log cleaner keeps and changes."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import MAX_TIMESTAMP_MS, Model, ModelRecord, single_batches
from tidelog.record import BatchSettings, Compression, RecordBatch, read_batches, retain_records

HEADER_SIZE = 61


@dataclass(frozen=True, slots=True)
class Case:
    """A batch, which of its records stay, and the horizon to set."""

    model: Model
    keep: tuple[bool, ...]
    new_horizon_ms: int | None
    keep_empty: bool

    def batch(self) -> RecordBatch:
        (batch,) = read_batches(self.model.encode())
        assert isinstance(batch, RecordBatch)
        return batch

    def retained(self) -> bytes:
        return retain_records(self.batch(), self.keep, delete_horizon_ms=self.new_horizon_ms, keep_empty=self.keep_empty)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    horizons = st.one_of(st.none(), st.none(), st.integers(0, MAX_TIMESTAMP_MS))
    model = draw(single_batches()).with_settings(delete_horizon_ms=draw(horizons))
    size = len(model.records)
    keep = draw(st.one_of(st.lists(st.booleans(), min_size=size, max_size=size), st.just([True] * size), st.just([False] * size)))
    return Case(model, tuple(keep), draw(horizons), draw(st.booleans()))


@pytest.mark.parametrize("codec", list(Compression))
@given(case=cases())
def test_kept_records_are_unchanged(codec: Compression, case: Case) -> None:
    case = replace(case, model=case.model.with_settings(compression=codec))
    kept = [record for record, is_kept in zip(case.model.expected(), case.keep, strict=True) if is_kept]
    assert [record for batch in read_batches(case.retained()) for record in batch] == kept


@pytest.mark.parametrize("append_time_ms", [None, 2**41])
@given(case=cases())
def test_headers_are_as_the_cleaner_writes_them(append_time_ms: int | None, case: Case) -> None:
    case = replace(case, model=case.model.with_settings(append_time_ms=append_time_ms))
    original = case.batch()
    kept = [index for index, is_kept in enumerate(case.keep) if is_kept]
    retained = case.retained()
    if not kept and not case.keep_empty:
        assert retained == b""
        return
    (batch,) = read_batches(retained)
    assert isinstance(batch, RecordBatch)
    assert batch.is_valid
    for name in (
        "base_offset",
        "last_offset",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "partition_leader_epoch",
        "timestamp_type",
        "is_transactional",
        "is_control",
    ):
        assert getattr(batch, name) == getattr(original, name), name
    assert batch.count == len(kept)
    if not kept:
        assert batch.size_bytes == HEADER_SIZE
        assert batch.compression is Compression.NONE
        assert batch.delete_horizon_ms is None
        assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (-1, original.max_timestamp_ms)
        return
    assert batch.compression is original.compression
    horizon = original.delete_horizon_ms if original.delete_horizon_ms is not None else case.new_horizon_ms
    assert batch.delete_horizon_ms == horizon
    if all(case.keep) and horizon == original.delete_horizon_ms:
        assert retained == original.to_bytes()
        return
    times = [case.model.expected_record(index).timestamp_ms for index in kept]
    assert batch.base_timestamp_ms == (times[0] if horizon is None else horizon)
    assert batch.max_timestamp_ms == (max(times) if case.model.settings.append_time_ms is None else original.max_timestamp_ms)


@given(cases(), st.data())
def test_retaining_twice_is_retaining_what_both_keep(case: Case, data: st.DataObject) -> None:
    first = case.retained()
    batches = list(read_batches(first))
    if not batches or batches[0].count == 0:
        return
    batch = batches[0]
    again = data.draw(st.lists(st.booleans(), min_size=batch.count, max_size=batch.count))
    kept = [record for record, is_kept in zip(case.model.expected(), case.keep, strict=True) if is_kept]
    both = [record for record, is_kept in zip(kept, again, strict=True) if is_kept]
    assert [record for copy in read_batches(retain_records(batch, again)) for record in copy] == both


@given(st.integers(1, 200), st.sampled_from(list(Compression)))
def test_many_records_keep_their_gaps(count: int, codec: Compression) -> None:
    records = tuple(ModelRecord(b"%d" % index, b"v" * (index % 90), (), 2**40 - 7 * index) for index in range(count))
    model = Model(records, BatchSettings(compression=codec, batch_bytes=2**31 - 1), 2**40)
    keep = tuple(index % 3 == 1 or index == count - 1 for index in range(count))
    (batch,) = read_batches(Case(model, keep, None, keep_empty=False).retained())
    assert [record.offset for record in batch] == [2**40 + index for index in range(count) if keep[index]]
