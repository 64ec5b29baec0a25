"""A short run of mutated batches in every test run; `make fuzz` does a million under AddressSanitizer."""

import resource
import struct
import tracemalloc
import zlib
from contextlib import suppress

import crc32c
import pyarrow as pa
import pytest

from tests.fuzz.target import exact_view, feed
from tests.support.mutations import HEADER_FIELDS, corpus, fix_crc, mutated_buffer, split_batches, varint
from tidelog.errors import PayloadTooLargeError, TidelogError
from tidelog.record import (
    COLUMNS,
    Compression,
    RecordBatch,
    encode_batches,
    iter_arrow,
    kernel_mode,
    read_batches,
    retain_records,
    walk_headers,
)
from tidelog.record.compression import compress

SEED = 1
INPUTS = 5000 if kernel_mode() == "compiled" else 300
MIB = 1 << 20


@pytest.mark.parametrize("every_stage", [True, False])
def test_mutated_batches_are_read_or_refused(every_stage: bool) -> None:
    inputs = INPUTS // 2 if every_stage else INPUTS
    read = 0
    for index in range(inputs):
        try:
            read += feed(mutated_buffer(SEED, index), every_stage=every_stage)
        except BaseException as error:
            error.add_note(f"reproduce with: python -m tests.fuzz.target --seed {SEED} --index {index}")
            raise
    # Neither all nor nothing: the mutations go deep, and leave something to read.
    assert inputs * 0.1 < read < inputs * 0.7


def test_the_samples_themselves_are_read() -> None:
    assert len(corpus()) > 100
    assert {sample.data[16] for sample in corpus()} == {0, 1, 2}
    for sample in corpus():
        assert feed(sample.data)


def test_inputs_follow_from_seed_and_index() -> None:
    assert mutated_buffer(7, 3) == mutated_buffer(7, 3)
    assert len({mutated_buffer(7, index) for index in range(200)}) > 190


def test_the_target_sees_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.target.count_records", lambda buffer: -5)
    with pytest.raises(AssertionError, match="count_records"):
        feed(corpus()[0].data)


def test_the_target_lets_other_errors_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(buffer: object) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr("tests.fuzz.target.count_records", broken)
    with pytest.raises(IndexError):
        feed(corpus()[0].data)


# What a payload of a few bytes may claim, and what it may cost: claims must not be believed before there are bytes to prove them.

BUDGET_BYTES = 16 * MIB
LIMIT_BYTES = MIB


def with_field(batch: bytes, name: str, number: int) -> bytes:
    """A batch with a lie in its header, its CRC made right."""
    position, size = HEADER_FIELDS[name]
    out = bytearray(batch)
    out[position : position + size] = number.to_bytes(size, "big", signed=True)
    fix_crc(out)
    return bytes(out)


def with_payload(codec: Compression, payload: bytes, count: int = 1) -> bytes:
    """A batch of these stored bytes."""
    header = bytearray(encode_batches([(b"k", b"v")], compression=codec)[:61])
    header[8:12] = (49 + len(payload)).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big")
    out = header + payload
    fix_crc(out)
    return bytes(out)


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def zstd_repeats(blocks: int) -> bytes:
    """A zstd frame of blocks that are one byte each, 128 KiB times."""
    block = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (131072 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return bytes.fromhex("28b52ffd0038") + block * (blocks - 1) + last


def lies() -> dict[str, bytes]:
    huge = 2**31 - 1
    one = encode_batches([(b"key", b"value", [("name", b"value")])])
    found = {
        f"record-count-{codec}": with_field(encode_batches([(b"k", b"v")], compression=codec), "record_count", huge)
        for codec in Compression
    }
    found["last-offset-delta"] = with_field(one, "last_offset_delta", huge)
    found["batch-length"] = with_field(one, "batch_length", huge)
    prefix = b"\x00\x00\x00"
    bodies = {
        "key-length": prefix + varint(huge) + b"k",
        "value-length": prefix + b"\x01" + varint(huge) + b"v",
        "header-count": prefix + b"\x01\x01" + varint(huge) + b"\x00\x00" * 10,
        "header-name-length": prefix + b"\x01\x01\x02" + varint(huge),
        "header-value-length": prefix + b"\x01\x01\x02\x00" + varint(huge),
    }
    for name, body in bodies.items():
        for codec in (Compression.NONE, Compression.LZ4):
            found[f"{name}-{codec}"] = with_payload(codec, bytes(compress(codec, record(body))))
    found["record-length"] = with_payload(Compression.NONE, varint(huge) + b"\x00" * 20)
    for codec in list(Compression)[1:]:
        found[f"bomb-{codec}"] = with_payload(codec, bytes(compress(codec, bytes(64 * MIB))))
    found["zstd-repeats"] = with_payload(Compression.ZSTD, zstd_repeats(1020))
    found["zstd-content-size"] = with_payload(Compression.ZSTD, bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**40) + b"\x01\x00\x00")
    found["zstd-window"] = with_payload(Compression.ZSTD, bytes.fromhex("28b52ffd00a7") + b"\x01\x00\x00")
    found["snappy-length"] = with_payload(Compression.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(20))
    for magic, timestamp in ((0, b""), (1, bytes(8))):
        body = bytes([magic, 0]) + timestamp + huge.to_bytes(4, "big") + bytes(20)
        message = zlib.crc32(body).to_bytes(4, "big") + body
        found[f"v{magic}-key-length"] = bytes(8) + len(message).to_bytes(4, "big") + message
    return found


LIES = lies()


@pytest.mark.parametrize("name", sorted(LIES))
def test_a_lie_costs_no_memory(name: str) -> None:
    buffer = exact_view(LIES[name])
    list(iter_arrow(encode_batches([(b"k", b"v")]), COLUMNS))  # what is loaded on first use is not counted
    pool = pa.default_memory_pool()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    arrow_before = pool.max_memory()
    tracemalloc.start()
    try:
        for check_crcs in (True, False):
            with suppress(TidelogError):
                list(iter_arrow(buffer, COLUMNS, check_crcs=check_crcs, max_decompressed_bytes=LIMIT_BYTES))
        for batch in read_batches(buffer):
            with suppress(TidelogError):
                list(batch.records(max_decompressed_bytes=LIMIT_BYTES))
            if batch.count == 1:
                with suppress(TidelogError):
                    retain_records(batch, [True], delete_horizon_ms=1, max_decompressed_bytes=LIMIT_BYTES)
        assert len(walk_headers(buffer)) <= 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BUDGET_BYTES
    assert pool.max_memory() - arrow_before < BUDGET_BYTES
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident) * 1024 < 2 * BUDGET_BYTES


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_the_callers_limit_is_kept_to_the_byte(codec: Compression) -> None:
    (batch,) = split_batches(encode_batches([(b"k", bytes(5000))], compression=codec))
    (view,) = read_batches(batch)
    assert isinstance(view, RecordBatch)
    size = len(view.payload())
    assert len(list(view.records(max_decompressed_bytes=size))) == 1
    with pytest.raises(PayloadTooLargeError):
        list(view.records(max_decompressed_bytes=size - 1))


def test_crcs_are_fixed_around_mutations() -> None:
    # Without this most mutations would only ever test the CRC.
    matching = 0
    for index in range(300):
        data = mutated_buffer(SEED, index)
        if len(data) > 61 and data[16] == 2 and 12 + int.from_bytes(data[8:12], "big", signed=True) == len(data):
            matching += crc32c.crc32c(data[21:]) == int.from_bytes(data[17:21], "big")
    assert matching > 50
