"""The inner loop of compaction: the same bytes as `retain_records` gives batch by batch, by flags and by bits."""

import random
from typing import Any

import numpy as np
import pytest

from tests.support.batches import batch_of_payload, patched
from tests.support.retained import exact, retain
from tidelog.errors import InvalidRecordError
from tidelog.record import BatchSettings, NewBatch, RecordBatch, read_batches, retain_records, walk_headers
from tidelog.record.kernel import compact as kernel
from tidelog.record.outcomes import RetainAnswer, RetainRule, RetainStop
from tidelog.record.views import view

TIME = 1_700_000_000_000
BASE = 1 << 40  # offsets above 2^32
HORIZON = TIME + 86_400_000


def random_batches(rng: random.Random, count: int, *, tombstones: bool = True) -> bytes:
    data = b""
    offset = BASE
    for _ in range(count):
        rows = []
        for _ in range(rng.choice([1, 2, 3, 9, 40])):
            value = None if tombstones and rng.random() < 0.1 else rng.randbytes(rng.choice([0, 3, 100, 300]))
            headers = (("h", None), ("x", b"y")) if rng.random() < 0.2 else ()
            rows.append((rng.randbytes(rng.choice([0, 1, 16])), value, headers, TIME + rng.choice([0, 1, 63, 64, -64, -65, 1 << 40])))
        settings: dict[str, Any] = {"append_time_ms": TIME + 5} if rng.random() < 0.3 else {}
        if rng.random() < 0.2:
            settings["delete_horizon_ms"] = HORIZON + rng.choice([-1, 0, 1])
        if rng.random() < 0.3:
            settings |= {"producer_id": 1 << 33, "producer_epoch": 2, "base_sequence": 3}
        data += NewBatch(rows, base_offset=offset, settings=BatchSettings(**settings)).encode()
        offset += len(rows) + rng.choice([0, 0, 5])
    return data


def expected(batches: list[RecordBatch], keep: list[bool], keep_empty: list[bool], new_horizon: int) -> bytes:
    """Batch by batch, by the way that was there before."""
    out = b""
    at = 0
    for batch, is_kept_empty in zip(batches, keep_empty, strict=True):
        own = keep[at : at + batch.count]
        at += batch.count
        stays = [record for record, is_kept in zip(batch, own, strict=True) if is_kept]
        horizon = new_horizon if any(record.value is None for record in stays) else None
        out += retain_records(batch, own, delete_horizon_ms=horizon, keep_empty=is_kept_empty)
    return out


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97, 1.0])
def test_by_flags(seed: int, share: float) -> None:
    rng = random.Random(seed)
    buffer = exact(random_batches(rng, 12))
    batches: list[Any] = list(read_batches(buffer))
    keep = [rng.random() < share for batch in batches for _ in range(batch.count)]
    keep_empty = [rng.random() < 0.3 for _ in batches]
    written, answers = retain(buffer, keep=keep, keep_empty=keep_empty, new_horizon=HORIZON)
    assert written == expected(batches, keep, keep_empty, HORIZON)
    assert (answers["DONE"], answers["MESSAGES_READ"], answers["MESSAGES_WRITTEN"]) == (12, len(keep), sum(keep))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97, 1.0])
@pytest.mark.parametrize("counts_all", [True, False])
def test_by_bits(seed: int, share: float, counts_all: bool) -> None:
    rng = random.Random(seed)
    buffer = exact(random_batches(rng, 12, tombstones=counts_all))
    batches: list[Any] = list(read_batches(buffer))
    records = [(batch, record) for batch in batches for record in batch]
    survivors = [record.offset for _, record in records if rng.random() < share]
    latest = rng.choice([records[-1][1].offset, records[len(records) // 2][1].offset])
    now_ms = HORIZON
    keep = []
    for batch, record in records:
        is_due = batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= now_ms
        keep.append(record.offset > latest or (record.offset in survivors and (record.value is not None or not is_due)))
    keep_empty = [rng.random() < 0.3 for _ in batches]
    written, answers = retain(
        buffer,
        survivors=[offset for offset in survivors if offset <= latest],
        first=BASE,
        end=latest + 1,
        latest_offset=latest,
        now_ms=now_ms,
        new_horizon=HORIZON,
        counts_all=counts_all,
        keep_empty=keep_empty,
    )
    assert answers["DONE"] == 12
    assert written == expected(batches, keep, keep_empty, HORIZON)
    dropped = [record for (_, record), is_kept in zip(records, keep, strict=True) if not is_kept]
    assert answers["TOMBSTONES_REMOVED"] == sum(record.value is None for record in dropped)
    assert answers["KEPT_EMPTY"] == sum(
        is_kept_empty and not any(keep[at] for at, (of, _) in enumerate(records) if of is batch)
        for batch, is_kept_empty in zip(batches, keep_empty, strict=True)
    )


def test_records_without_a_key_go_and_are_counted() -> None:
    rows = [(b"a", b"1", (), TIME), (None, b"2", (), TIME), (None, None, (), TIME), (b"b", b"3", (), TIME)]
    buffer = exact(NewBatch(rows, base_offset=BASE).encode())
    written, answers = retain(buffer, survivors=[BASE, BASE + 3], first=BASE, end=BASE + 4, latest_offset=BASE + 3, counts_all=True)
    (batch,) = read_batches(written)
    assert [record.offset for record in batch] == [BASE, BASE + 3]
    assert (answers["INVALID_MESSAGES"], answers["MESSAGES_WRITTEN"]) == (2, 2)


def test_a_batch_outside_of_the_window_stops() -> None:
    first, second = (NewBatch([(b"a", b"1", (), TIME)] * 3, base_offset=base).encode() for base in (BASE, BASE + 10))
    for low, high, done in ((BASE, BASE + 13, 2), (BASE, BASE + 12, 1), (BASE + 1, BASE + 13, 0), (BASE, BASE + 2, 0)):
        _, answers = retain(exact(first + second), first=low, end=high, latest_offset=BASE + 12)
        assert (answers["DONE"], answers["STOP"] == RetainStop.OUT_OF_WINDOW) == (done, done < 2)


@pytest.mark.parametrize("latest_offset", [BASE + 4, BASE + 100])
def test_a_batch_that_ends_before_it_begins_does_not_ask_for_bits(latest_offset: int) -> None:
    """It began behind the latest offset and ended there or before: bits were read outside of their memory (found by `make fuzz`)."""
    batch = NewBatch([(b"k", b"v", (), TIME)], base_offset=latest_offset + 1).encode()
    backward = patched(batch, 23, (-1).to_bytes(4, "big", signed=True))
    kept, answers = retain(exact(backward), first=BASE, end=BASE + 5, latest_offset=latest_offset)
    assert (kept, answers["DONE"], answers["STOP"]) == (backward, 1, 0)  # behind the latest offset all is kept


def test_a_record_outside_of_the_window_stops_before_its_batch() -> None:
    good = NewBatch([(b"a", b"1", (), TIME)] * 2, base_offset=BASE).encode()
    liar = patched(good, 23, (0).to_bytes(4, "big"))  # its header says that it ends with the first
    written, answers = retain(exact(liar), survivors=[BASE], first=BASE, end=BASE + 1, latest_offset=BASE + 5)
    assert (written, answers["DONE"], answers["STOP"]) == (b"", 0, RetainStop.OUT_OF_WINDOW)


@pytest.mark.parametrize("count", [-1, 3, 1 << 30])
def test_counts_that_cannot_be(count: int) -> None:
    good = NewBatch([(b"a", b"1", (), TIME)] * 2, base_offset=BASE).encode()
    bad = patched(good, 57, count.to_bytes(4, "big", signed=True))
    with pytest.raises(InvalidRecordError):
        retain(exact(bad), keep=[True] * 3)
    with pytest.raises(InvalidRecordError):
        retain(exact(bad), survivors=[BASE], first=BASE, end=BASE + 2, latest_offset=BASE + 1)


def test_bytes_behind_the_last_record() -> None:
    with pytest.raises(InvalidRecordError, match="left in the payload"):
        retain(exact(batch_of_payload(b"\x0c\0\0\0\1\1\0" + bytes(7), count=1)), keep=[True])


def test_the_output_is_never_overrun() -> None:
    data = NewBatch([(b"a", None, (), TIME)] * 20, base_offset=BASE).encode()
    buffer = exact(data)
    headers = walk_headers(buffer)
    rules = np.zeros(len(RetainRule), np.int64)
    for room in range(1, len(data) + 11 * 20 + 2, 7):
        answers, positions = np.zeros(len(RetainAnswer), np.int64), np.empty(1, np.int64)
        done = kernel.retain_batches(
            buffer, view(headers.flat), headers.capacity, 0, 1, view(rules), view(np.zeros(1, np.uint8)), view(np.ones(20, np.uint8)),
            view(np.zeros(1, np.uint8)), view(np.empty(21, np.int32)), view(np.empty(21, np.int64)), view(np.empty(21, np.uint8)),
            view(np.empty(room, np.uint8)), view(positions), view(answers), view(np.zeros(5, np.int64)),
        )  # fmt: skip
        assert done == (room >= len(data) + 11 * 20)
        assert done or answers[RetainAnswer.STOP] == RetainStop.OUTPUT_FULL


def test_arrays_that_are_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="positions"):
        kernel.write_checksums(None, exact(bytes(61)), view(np.zeros(1, np.int64)), 2)
    with pytest.raises(ValueError, match="no batch at 1"):
        kernel.write_checksums(None, exact(bytes(61)), view(np.ones(1, np.int64)), 1)
    with pytest.raises(ValueError, match="a batch of 12 bytes"):
        kernel.write_checksums(None, exact(bytes(61)), view(np.zeros(1, np.int64)), 1)
