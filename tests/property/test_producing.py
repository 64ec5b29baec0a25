"""Producing against a plain model: a list for each partition."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import TIME, FakeClock, QuietDisk
from tidelog.disk.file_pool import FilePool
from tidelog.record import NewBatch, Record, partitions_for_keys
from tidelog.record.kernel.header_list import encode_headers
from tidelog.record.kernel.single_batch import encode_single
from tidelog.store import Store, Topic

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
BYTES = st.none() | st.binary(max_size=300)
TIMES = st.none() | st.integers(TIME // 2, TIME)
ROWS = st.tuples(BYTES, BYTES, HEADERS, TIMES)
CODECS = st.sampled_from([None, "none", "gzip", "snappy", "lz4", "zstd"])


@given(BYTES, BYTES, HEADERS, st.integers(-1, 2**63 - 1))
def test_one_record_is_encoded_as_by_the_encoder(key: Any, value: Any, headers: Any, timestamp_ms: int) -> None:
    expected = NewBatch([(key, value, headers, timestamp_ms)]).encode()
    assert encode_single(crc32c, key, value, encode_headers(headers, 0), timestamp_ms, 0, -1) == expected


def _append(topic: Topic, rows: list[Any], **_: Any) -> None:
    for key, value, headers, timestamp_ms in rows:
        topic.append(value, key=key, headers=headers, timestamp_ms=timestamp_ms)


def _append_many(topic: Topic, rows: list[Any], **options: Any) -> None:
    options.pop("batch_bytes") if options["batch_bytes"] is None else None
    topic.append_many(rows, **options)


def _append_records(topic: Topic, rows: list[Any], **options: Any) -> None:
    records = [
        Record(value, key=key, headers=headers, timestamp_ms=-1 if timestamp_ms is None else timestamp_ms)
        for key, value, headers, timestamp_ms in rows
    ]
    _append_many(topic, iter(records), **options)  # type: ignore[arg-type]


def _append_table(topic: Topic, rows: list[Any], **options: Any) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[{"key": name, "value": value} for name, value in row[2]] for row in rows]
    table = pa.table(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "headers": pa.array(headers, kind),
            "timestamp_ms": pa.array([row[3] for row in rows], pa.int64()),
        }
    )
    _append_many(topic, table, **options)


def _write(topic: Topic, rows: list[Any], **options: Any) -> None:
    with topic.writer(linger_ms=1, batch_bytes=options["batch_bytes"] or 16384, compression=options["compression"]) as writer:
        handles = [writer.append(value, key=key, headers=headers, timestamp_ms=timestamp_ms) for key, value, headers, timestamp_ms in rows]
    for handle, row in zip(handles, rows, strict=True):
        partition, offset, timestamp_ms = handle.result(0)
        (record,) = topic.log(partition).read(start=offset, end=offset + 1)
        assert (record.key, record.value, record.headers) == row[:3]
        assert record.timestamp_ms == timestamp_ms


@pytest.mark.parametrize("produce", [_append, _append_many, _append_records, _append_table, _write])
@settings(max_examples=15)
@given(
    rows=st.lists(ROWS, max_size=40),
    partitions=st.integers(1, 4),
    batch_bytes=st.none() | st.sampled_from([1, 100, 1000]),
    compression=CODECS,
)
def test_every_record_is_there_once_where_it_belongs(
    produce: Callable[..., None], rows: list[Any], partitions: int, batch_bytes: int | None, compression: str | None
) -> None:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        config = {"log.index.size.max.bytes": 1 << 12, "log.segment.bytes": 1 << 20}
        store = stack.enter_context(
            Store.open(home / "store", config=config, clock=FakeClock(), pool=FilePool(QuietDisk()), random=Random(1))
        )
        topic = store.create_topic("tide", partitions)
        produce(topic, rows, batch_bytes=batch_bytes, compression=compression)
        found = [
            [(record.key, record.value, record.headers, record.timestamp_ms) for record in topic.log(partition).read()]
            for partition in range(partitions)
        ]
    expected = [(key, value, headers, TIME if timestamp_ms is None else timestamp_ms) for key, value, headers, timestamp_ms in rows]
    places = partitions_for_keys([row[0] for row in rows], partitions).tolist()
    for partition in range(partitions):
        keyed = [row for row in found[partition] if row[0] is not None]
        assert keyed == [row for row, place in zip(expected, places, strict=True) if row[0] is not None and place == partition]
    keyless = [row for row in expected if row[0] is None]
    assert sorted((row for part in found for row in part if row[0] is None), key=repr) == sorted(keyless, key=repr)
    if partitions == 1:
        assert found[0] == expected
