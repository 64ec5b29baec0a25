"""The survey of records before an append: what it counts, and that bad records raise as they do when they are decoded."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.batches import TIME, batch_of_payload, patched, varint
from tests.support.golden import GoldenLog, golden_logs
from tests.support.mutations import mutated_buffer
from tidelog.errors import InvalidRecordError, PayloadTooLargeError, TidelogError, UnsupportedCodecError
from tidelog.record import Compression, encode_batches, iter_arrow, read_batches, walk_headers
from tidelog.record.compression import compress
from tidelog.record.headers import BatchHeaders
from tidelog.record.survey import Scratch, survey_one
from tidelog.record.views import byte_view

WIDE: dict[str, Any] = {"lowest_ms": -(2**63), "highest_ms": 2**63 - 1}
SCRATCH = Scratch()


def survey(data: bytes, **limits: int) -> list[tuple[int, int, int, int, bool]]:
    """Of every batch."""
    headers = walk_headers(data)
    return [survey_number(data, headers, index, **limits) for index in range(len(headers))]


def survey_number(data: bytes, headers: BatchHeaders, index: int, **limits: int) -> tuple[int, int, int, int, bool]:
    """Of the batch of that number, from where it lies between the others."""
    limits = WIDE | limits
    *counted, is_dense = survey_one(
        byte_view(data),
        int(headers.position[index]),
        int(headers.size_bytes[index]),
        int(headers.attributes[index]),
        int(headers.count[index]),
        int(headers.base_timestamp_ms[index]),
        **limits,
        scratch=SCRATCH,
    )
    assert is_dense in (0, 1)
    max_timestamp_ms, keyless, out_of_range, untimed = counted
    return max_timestamp_ms, keyless, out_of_range, untimed, bool(is_dense)


ROWS = [(b"k", b"v", (), TIME), (None, b"v", (), TIME + 7), (b"", None, (("h", b"x"),), TIME - 5), (None, None, (), -1)]


@pytest.mark.parametrize("codec", list(Compression), ids=str)
def test_what_is_counted(codec: Compression) -> None:
    data = encode_batches(ROWS, base_offset=2**40, compression=codec)
    assert survey(data) == [(TIME + 7, 2, 0, 1, True)]
    # The limits are inclusive, and a record without a time is never out of range.
    assert survey(data, lowest_ms=TIME - 5, highest_ms=TIME + 7) == [(TIME + 7, 2, 0, 1, True)]
    assert survey(data, lowest_ms=TIME - 4, highest_ms=TIME + 6) == [(TIME + 7, 2, 2, 1, True)]
    assert survey(data, lowest_ms=TIME + 1) == [(TIME + 7, 2, 2, 1, True)]
    assert survey(data, highest_ms=-(2**63)) == [(TIME + 7, 2, 3, 1, True)]


def test_times_are_those_of_the_records_whatever_the_type_bit_says() -> None:
    data = encode_batches(ROWS, append_time_ms=2**41)
    assert survey(data) == [(TIME + 7, 2, 0, 1, True)]


@pytest.mark.parametrize("times", [[-1, -1], [-2, -7], [-(2**40), -1]])
def test_no_time_above_none(times: list[int]) -> None:
    payload = b"".join(record(time - TIME, index, b"k") for index, time in enumerate(times))
    assert survey(batch_of_payload(payload, count=2), lowest_ms=0) == [(-1, 0, sum(t != -1 for t in times), times.count(-1), True)]


def record(timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes = b"0123456789") -> bytes:
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


@pytest.mark.parametrize(
    ("deltas", "is_dense"),
    [([0], True), ([1], False), ([-1], False), ([0, 1, 2], True), ([0, 2, 1], False), ([0, 1, 3], False), ([0, 1, 1], False), ([], True)],
)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD], ids=str)
def test_dense_offsets(codec: Compression, deltas: list[int], is_dense: bool) -> None:
    payload = bytes(compress(codec, b"".join(record(0, delta, b"k") for delta in deltas)))
    data = batch_of_payload(payload, count=len(deltas), attributes=int(codec))
    assert survey(data + data) == [(TIME if deltas else -1, 0, 0, 0, is_dense)] * 2


def test_an_empty_batch_and_an_empty_run() -> None:
    assert survey(batch_of_payload(b"", count=0)) == [(-1, 0, 0, 0, True)]
    assert survey(b"") == []


def test_large_batches_let_other_threads_run_and_count_the_same() -> None:
    rows = [(b"k" if index % 3 else None, b"v" * 90, (), TIME + index) for index in range(2000)]
    data = encode_batches(rows, batch_bytes=1 << 20)
    assert len(data) > 65536 + 61
    assert survey(data, highest_ms=TIME + 1899) == [(TIME + 1999, 667, 100, 0, True)]


def decode(data: bytes) -> None:
    list(iter_arrow(data, check_crcs=False))


BAD = [
    batch_of_payload(varint(100) + bytes(6), count=1),
    batch_of_payload(varint(6) + bytes(3) + varint(50) + bytes(3), count=1),
    batch_of_payload(varint(6) + bytes(3) + varint(-2) + bytes(3), count=1),
    batch_of_payload(record(0, 0, b"k") + record(0, 1, b"k")[:-1] + b"\x02", count=2),
    batch_of_payload(record(0, 0, b"k"), count=2),
    batch_of_payload(record(0, 0, b"k") * 2, count=1),
    batch_of_payload(record(0, 0, b"k"), count=-1),
    batch_of_payload(record(0, 0, b"k"), count=2**31 - 1),
    batch_of_payload(b"", count=1),
    *(
        batch_of_payload(bytes(compress(Compression.LZ4, payload)), count=count, attributes=3)
        for payload, count in (
            (record(0, 0, b"k") + varint(6) + bytes(3) + varint(50) + bytes(3), 2),
            (record(0, 0, b"k") * 2, 1),
            (record(0, 0, b"k"), 2**31 - 1),
            (record(0, 0, b"k"), -5),
            (record(0, 0, b"k"), 2),
        )
    ),
    batch_of_payload(b"\xab" * 40, count=1, attributes=3),
    batch_of_payload(b"\xab" * 40, count=1, attributes=1),
    batch_of_payload(b"", count=1, attributes=6),
]
GOOD = encode_batches(ROWS)
GOOD_COMPRESSED = encode_batches(ROWS, compression=Compression.LZ4)


@pytest.mark.parametrize("before", [b"", GOOD, GOOD_COMPRESSED], ids=["alone", "behind a plain batch", "behind a compressed batch"])
@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_records_raise_as_they_do_when_decoded(before: bytes, number: int) -> None:
    data = before + BAD[number]
    with pytest.raises(TidelogError) as decoded:
        decode(data)
    headers = walk_headers(data)
    with pytest.raises(TidelogError) as surveyed:
        survey_number(data, headers, len(headers) - 1)
    assert facts_of(surveyed.value) == facts_of(decoded.value)


def facts_of(error: TidelogError) -> tuple[object, ...]:
    """All of an error but a place that decoding counts from the beginning of its chunk."""
    expected = str(error.expected)
    return type(error), error.what, error.position, error.found, "" if "payload to end at byte" in expected else expected


def test_places_are_those_of_the_buffer() -> None:
    too_long = batch_of_payload(record(0, 0, b"k") * 2, count=1)
    for before in (GOOD, GOOD_COMPRESSED):
        end = len(before) + len(too_long) - len(record(0, 0, b"k"))
        with pytest.raises(InvalidRecordError, match=f"at byte {end}: expected the payload to end at byte {end}, found 18"):
            survey(before + too_long)


def test_mutated_batches_are_refused_exactly_where_decoding_refuses_them() -> None:
    checked = refused = 0
    for index in range(1500):
        data = mutated_buffer(31_000, index)
        try:
            batches = [batch.to_bytes() for batch in read_batches(data) if batch.magic == 2]
        except TidelogError:
            continue
        for batch in batches:
            facts = error_facts(decode, batch)
            assert error_facts(survey, batch) == facts, f"seed 31000, index {index}"
            checked += 1
            refused += facts != ()
    assert checked > 1000
    assert refused > 200


def error_facts(read: Callable[[bytes], object], data: bytes) -> tuple[object, ...]:
    try:
        read(data)
    except TidelogError as error:
        return facts_of(error)
    return ()


def test_decompression_is_bounded() -> None:
    bomb = encode_batches([(b"k", bytes(3 << 20))], compression=Compression.ZSTD, batch_bytes=4 << 20)
    for before in (b"", GOOD):
        with pytest.raises(PayloadTooLargeError) as caught:
            survey_one(byte_view(before + bomb), len(before), len(bomb), 4, 1, 0, **WIDE, scratch=SCRATCH, max_decompressed_bytes=1 << 20)
        assert caught.value.position == len(before)
    assert survey(bomb) == [(-1, 0, 0, 1, True)]


def test_the_scratch_grows_with_the_batch_and_is_used_again() -> None:
    one = encode_batches([(b"k", bytes(1 << 20), (), TIME)], compression=Compression.ZSTD, batch_bytes=4 << 20)
    assert survey(one * 5 + GOOD) == [(TIME, 0, 0, 0, True)] * 5 + [(TIME + 7, 2, 0, 1, True)]


def test_what_the_caller_must_not_do() -> None:
    for data, attributes in ((GOOD, 0), (GOOD_COMPRESSED, 3)):
        for position, size in ((0, len(data) + 1), (-62, 70), (0, 60), (2**62, 70), (0, -5)):
            with pytest.raises(ValueError, match=r"(of|in) a buffer of"):
                survey_one(byte_view(data), position, size, attributes, 1, 0, **WIDE, scratch=SCRATCH)


def test_an_unknown_codec() -> None:
    data = patched(GOOD, 21, struct.pack(">h", 7))
    for before in (b"", GOOD):
        headers = walk_headers(before + data)
        with pytest.raises(UnsupportedCodecError, match=f"at byte {len(before) + 21}"):
            survey_number(before + data, headers, len(headers) - 1)


def test_bad_records_in_front_do_not_matter() -> None:
    data = GOOD + batch_of_payload(varint(100) + bytes(6), count=1) + GOOD_COMPRESSED
    headers = walk_headers(data)
    with pytest.raises(InvalidRecordError):
        survey_number(data, headers, 1)
    assert survey_number(data, headers, 2) == (TIME + 7, 2, 0, 1, True)


@pytest.mark.parametrize("log", golden_logs(), ids=lambda log: log.name)
def test_golden_logs(log: GoldenLog) -> None:
    for batch, described in zip(read_batches(log.data), log.batches, strict=True):
        if batch.magic < 2:
            continue
        times = [entry["timestamp_ms"] for entry in described["records"]]
        ((max_timestamp, keyless, out_of_range, untimed, is_dense),) = survey(batch.to_bytes(), lowest_ms=0)
        assert keyless == sum(entry["key"] is None for entry in described["records"])
        assert is_dense == (
            [entry["offset"] for entry in described["records"]] == [batch.base_offset + index for index in range(batch.count)]
        )
        if str(batch.timestamp_type) == "CreateTime":
            assert (max_timestamp, untimed, out_of_range) == (max([-1, *times]), times.count(-1), sum(time < -1 for time in times))
