"""Rows gathered one by one: the short way and the long way put the same rows into the same batches."""

import threading
import time
from typing import Any

import pytest

from tidelog.record.hashing import partitions_for_keys
from tidelog.record.kernel.clock import wall_clock
from tidelog.record.kernel.gathering import ROW_OVERHEAD, RowBatch, RowBuffer, RowGatherer, WriteHandle

ROOM = 400


class Gatherer(RowGatherer):
    """Begins a batch whenever it is asked, and notes what came the long way."""

    def __init__(self, partitions: int, plain_bytes: int = 100) -> None:
        super().__init__(RowBuffer(threading.Lock()), lambda: 7, partitions, plain_bytes)
        self.long_way: list[Any] = []

    def append_checked(self, value: Any, key: Any, headers: Any, timestamp_ms: Any, partition: Any) -> WriteHandle:
        self.long_way.append((value, key, headers, timestamp_ms, partition))
        place = int(partitions_for_keys([key], self.partition_count)[0]) if partition is None else partition
        batch = self.buffer.open[place] = RowBatch(ROOM)
        batch.rows.append((key, value, None, 7))
        return WriteHandle(batch, 0, 7)


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_go_to_the_open_batch_of_their_key(partitions: int) -> None:
    gatherer = Gatherer(partitions)
    keys = [b"key-%d" % number for number in range(40)]
    handles = [gatherer.append(b"v", key=key) for key in keys]
    places = partitions_for_keys(keys, partitions).tolist()
    for key, place, handle in zip(keys, places, handles, strict=True):
        row = handle.batch.rows[handle.index]
        assert row == (key, b"v", None, 7)
        assert handle.timestamp_ms == 7
        assert (handle.batch is gatherer.buffer.open[place]) or len(handle.batch.rows) * (len(key) + 1 + ROW_OVERHEAD) > ROOM - 40
    batches = {id(handle.batch): handle.batch for handle in handles}
    assert sum(len(batch.rows) for batch in batches.values()) == len(keys)
    assert len(gatherer.long_way) == len(batches)  # only the first of each
    for batch in batches.values():
        assert batch.room_bytes == ROOM - sum(len(row[0]) + len(row[1]) + ROW_OVERHEAD for row in batch.rows[1:])


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (None, {"key": b"k"}),
        (b"v", {}),
        (bytearray(b"v"), {"key": b"k"}),
        (b"v", {"key": "k"}),
        (b"v", {"key": b"k", "headers": (("a", b"b"),)}),
        (b"v", {"key": b"k", "timestamp_ms": 0}),
        (b"v", {"key": b"k", "partition": 0}),
        (bytes(88), {"key": b"k"}),
    ],
    ids=str,
)
def test_what_is_not_plain_goes_the_long_way(value: Any, given: dict[str, Any]) -> None:
    gatherer = Gatherer(1)
    gatherer.buffer.open[0] = RowBatch(ROOM)
    gatherer.append(b"v", key=b"k")
    assert not gatherer.long_way

    class Refused(Gatherer):
        def append_checked(self, *given: Any) -> WriteHandle:
            self.long_way.append(given)
            return WriteHandle(None, 0, 0)

    refused = Refused(1)
    refused.buffer.open[0] = RowBatch(ROOM)
    refused.append(value, **given)
    assert len(refused.long_way) == 1
    assert not refused.buffer.open[0].rows


def test_an_error_of_the_background_goes_the_long_way() -> None:
    gatherer = Gatherer(1)
    gatherer.buffer.open[0] = RowBatch(ROOM)
    gatherer.buffer.error = ValueError("x")
    gatherer.append(b"v", key=b"k")
    assert len(gatherer.long_way) == 1


def test_a_row_too_large_for_an_empty_batch_has_it_for_itself() -> None:
    gatherer = Gatherer(1)
    batch = gatherer.buffer.open[0] = RowBatch(10)
    assert gatherer.append(b"v" * 20, key=b"k").batch is batch
    assert gatherer.append(b"v", key=b"k").batch is not batch


def test_threads_lose_no_row() -> None:
    gatherer = Gatherer(1)
    gatherer.buffer.open[0] = batch = RowBatch(1 << 40)
    found: list[WriteHandle] = []

    def work() -> None:
        found.extend([gatherer.append(b"v", key=b"k") for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(handle.index for handle in found) == list(range(8000))
    assert len(batch.rows) == 8000


def test_the_clock_is_the_wall_clock() -> None:
    before = time.time_ns() // 1_000_000
    now = wall_clock()
    assert before <= now <= time.time_ns() // 1_000_000
