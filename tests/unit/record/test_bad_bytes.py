"""Bad bytes get a typed error that says what, where, what was expected and what was found."""

import pickle
import re
import struct
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.support.batches import batch_of_payload, message, patched, varint, with_crc
from tidelog.errors import (
    ChecksumError,
    CorruptBatchError,
    DecompressionError,
    InvalidRecordError,
    PayloadTooLargeError,
    TidelogError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from tidelog.record import (
    ColumnDecoder,
    Compression,
    RecordBatch,
    count_records,
    encode_batches,
    iter_arrow,
    read_batches,
    retain_records,
    to_arrow,
    verify_checksums,
    walk_headers,
)
from tidelog.record.compression import compress

GOOD = encode_batches([(b"key", b"value"), (b"k2", None)], base_offset=2**33, timestamp_ms=2**41)


def decode_objects(data: bytes) -> None:
    for batch in read_batches(data):
        batch.ensure_valid()
        list(batch)


def decode_columns(data: bytes) -> None:
    list(iter_arrow(data))


def decode_and_retain(data: bytes) -> None:
    for batch in read_batches(data):
        retain_records(batch, [True] * batch.count, delete_horizon_ms=1)  # a horizon asks for a rewrite even if all is kept


every_decoder = pytest.mark.parametrize("decode", [decode_objects, decode_columns, decode_and_retain])
Decoder = Callable[[bytes], None]


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


# What is wrong, in a payload that starts at byte 61 of its batch: (what, position, expected, found). A record is: length, attributes,
# timestamp delta, offset delta, key length, value length, header count.
BAD_PAYLOADS = [
    (varint(100) + bytes(6), ("a record's length is out of range", 61, "1 to 6 bytes, what is left of the payload", 100)),
    (varint(-3) + bytes(6), ("a record's length is out of range", 61, "1 to 6 bytes, what is left of the payload", -3)),
    (b"\xff\xff\xff\xff\x7f" + bytes(9), ("bad varint", 61, "at most 32 bits", 5)),
    (record(b"\x00" + b"\xff" * 9 + b"\x02" + bytes(4)), ("bad varint", 63, "at most 64 bits", 10)),
    (record(bytes(5) + b"\x80"), ("a varint runs past the end of its record", 67, "its last byte within the record", 1)),
    (record(bytes(3) + varint(50) + bytes(3)), ("a key's length is out of range", 65, "-1 (null) to 3, what is left of the record", 50)),
    (record(bytes(3) + varint(-2) + bytes(3)), ("a key's length is out of range", 65, "-1 (null) to 3, what is left of the record", -2)),
    (record(bytes(4) + varint(9) + bytes(2)), ("a value's length is out of range", 66, "-1 (null) to 2, what is left of the record", 9)),
    (record(bytes(5) + varint(-1)), ("a record's header count is out of range", 67, "0 to 0, what is left of the record", -1)),
    (record(bytes(5) + varint(3) + b"\x00\x01"), ("a record's header count is out of range", 67, "0 to 2, what is left of the record", 3)),
    (
        record(bytes(5) + b"\x02" + varint(-1) + b"\x01"),
        ("a header key's length is out of range", 68, "0 to 2, what is left of the record", -1),
    ),
    (
        record(bytes(5) + b"\x02\x00" + varint(4)),
        ("a header value's length is out of range", 69, "-1 (null) to 1, what is left of the record", 4),
    ),
    (record(bytes(8)), ("a record's fields do not fill its declared length", 61, "9 bytes", 7)),
]


@every_decoder
@pytest.mark.parametrize(("payload", "facts"), BAD_PAYLOADS, ids=[f"{facts[0]}, {facts[3]}" for _, facts in BAD_PAYLOADS])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4], ids=str)
def test_bad_records(payload: bytes, facts: tuple[str, int, str, int], codec: Compression, decode: Decoder) -> None:
    what, position, expected, found = facts
    data = batch_of_payload(bytes(compress(codec, payload)), count=1, attributes=int(codec))
    with pytest.raises(InvalidRecordError) as caught:
        decode(GOOD + data)
    error = caught.value
    assert (error.expected, error.found) == (expected, found)
    if codec is Compression.NONE:
        assert (error.what, error.position) == (what, len(GOOD) + position)
        assert str(error) == f"{what} at byte {len(GOOD) + position}: expected {expected}, found {found}"
    else:
        assert (error.what, error.position) == (f"{what} (byte {position - 61} of the decompressed payload)", len(GOOD))


@every_decoder
@pytest.mark.parametrize(("count", "message"), [(-1, "negative record count"), (3, "ends before the declared"), (1, "bytes are left")])
def test_counts_that_do_not_fit(count: int, message: str, decode: Decoder) -> None:
    data = patched(GOOD, 57, struct.pack(">i", count))
    with pytest.raises(InvalidRecordError, match=message):
        decode(data)


@every_decoder
@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE], ids=str)
@pytest.mark.parametrize(("count", "message"), [(3, "ends before"), (1, "bytes are left")])
def test_counts_that_do_not_fit_a_compressed_payload(codec: Compression, count: int, message: str, decode: Decoder) -> None:
    data = patched(encode_batches([(b"k", b"v" * 20), (b"k", b"v" * 20)], compression=codec), 57, struct.pack(">i", count))
    with pytest.raises(InvalidRecordError, match=message) as caught:
        decode(GOOD + data)
    assert caught.value.position == len(GOOD)


def test_a_huge_count_takes_no_memory() -> None:
    data = patched(GOOD, 57, struct.pack(">i", 2**31 - 1))
    with pytest.raises(InvalidRecordError, match=re.escape("at most 3 records in a payload of its size, found 2147483647")):
        to_arrow(data)
    with pytest.raises(InvalidRecordError, match="at most 3 records"):
        list(next(read_batches(data)))


@pytest.mark.parametrize("decode", [decode_objects, decode_columns])
def test_a_wrong_crc(decode: Decoder) -> None:
    damaged = bytearray(GOOD)
    damaged[70] ^= 1
    with pytest.raises(
        ChecksumError, match=r"the CRC of a batch does not match at byte 85: expected 0x[0-9a-f]{8} as its header says"
    ) as caught:
        decode(GOOD + bytes(damaged))
    assert caught.value.position == len(GOOD)
    with pytest.raises(ChecksumError):
        verify_checksums(bytes(damaged), walk_headers(bytes(damaged)))


def test_what_comes_before_a_bad_batch_is_given() -> None:
    bad_crc = bytearray(GOOD)
    bad_crc[70] ^= 1
    for bad in (bytes(bad_crc), GOOD[:16] + b"\x07" + GOOD[17:], bytes(100)):
        pieces = iter_arrow(GOOD * 3 + bad + GOOD)
        assert next(pieces).num_rows == 6
        with pytest.raises(TidelogError) as caught:
            next(pieces)
        assert caught.value.position is not None
        assert 3 * len(GOOD) <= caught.value.position < 4 * len(GOOD)
    batches = read_batches(GOOD * 3 + bytes(100))
    assert [next(batches).position for _ in range(3)] == [0, len(GOOD), 2 * len(GOOD)]
    with pytest.raises(CorruptBatchError):
        next(batches)


def test_crcs_can_be_left_unchecked() -> None:
    damaged = bytearray(GOOD)
    damaged[17] ^= 1
    assert to_arrow(bytes(damaged), check_crcs=False).num_rows == 2
    assert not next(read_batches(bytes(damaged))).is_valid


@every_decoder
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec(codec: int, decode: Decoder) -> None:
    with pytest.raises(UnsupportedCodecError, match=f"unknown codec at byte {len(GOOD) + 21}: expected .*, found {codec}"):
        decode(GOOD + patched(GOOD, 21, struct.pack(">h", codec)))


@pytest.mark.parametrize("magic", [3, 9, 127, 255])
def test_an_unknown_magic(magic: int) -> None:
    data = GOOD + GOOD[:16] + bytes([magic]) + GOOD[17:]
    batches = read_batches(data)
    with pytest.raises(UnsupportedMagicError, match=f"unknown magic at byte {len(GOOD) + 16}: expected 0, 1 or 2, found {magic}"):
        list(batches)


@pytest.mark.parametrize("size", [-(2**31), -12, 0, 13, 48])
def test_a_batch_size_that_cannot_be(size: int) -> None:
    data = GOOD + GOOD[:8] + struct.pack(">i", size) + GOOD[12:]
    for walk in (walk_headers, to_arrow, count_records):
        with pytest.raises(CorruptBatchError, match=rf"a batch's size is too small at byte {len(GOOD)}: expected .*, found {size + 12}$"):
            walk(data)


def test_a_tail_of_zeros_is_an_error_and_a_torn_one_is_the_end() -> None:
    with pytest.raises(CorruptBatchError, match="too small at byte 85"):
        walk_headers(GOOD + bytes(100))
    for cut in range(len(GOOD)):
        headers = walk_headers(GOOD + GOOD[:cut])
        assert (len(headers), headers.end_position) == (1, len(GOOD))
        assert to_arrow(GOOD + GOOD[:cut]).num_rows == 2
        assert len(list(read_batches(GOOD + GOOD[:cut]))) == 1


def test_a_batch_length_near_its_limit_is_a_torn_tail() -> None:
    data = GOOD[:8] + struct.pack(">i", 2**31 - 1) + GOOD[12:]
    assert len(walk_headers(data)) == 0


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE], ids=str)
def test_a_payload_that_expands_past_the_limit(codec: Compression) -> None:
    bomb = encode_batches([(None, bytes(5_000_000))], compression=codec, batch_bytes=6_000_000)
    assert len(bomb) < 300_000
    with pytest.raises(
        PayloadTooLargeError, match=r"expands past the limit at byte 0: expected at most 1000000 bytes, .*max_decompressed_bytes"
    ):
        list(iter_arrow(bomb, max_decompressed_bytes=1_000_000))
    with pytest.raises(PayloadTooLargeError):
        list(next(read_batches(bomb)).records(max_decompressed_bytes=1_000_000))
    assert to_arrow(bomb).num_rows == 1
    assert next(iter_arrow(bomb, max_decompressed_bytes=5_000_100)).num_rows == 1


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE], ids=str)
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_a_payload_that_does_not_decompress(codec: Compression, damage: str) -> None:
    payload = bytes(compress(codec, bytes(1000) + bytes(range(256)) * 4))
    payload = {"cut": payload[:-3], "garbage": b"\xab" * 40, "empty": b""}[damage]
    data = GOOD + batch_of_payload(payload, count=1, attributes=int(codec))
    for decode in (decode_objects, decode_columns):
        with pytest.raises(DecompressionError) as caught:
            decode(data)
        assert caught.value.position == len(GOOD)


LEGACY_GOOD = message(5, b"key", b"value")


def with_legacy_crc(data: bytes) -> bytes:
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (with_legacy_crc(LEGACY_GOOD[:26] + struct.pack(">i", 99) + LEGACY_GOOD[30:]), InvalidRecordError, "key's length is out of range"),
        (with_legacy_crc(LEGACY_GOOD[:26] + struct.pack(">i", 1) + LEGACY_GOOD[30:]), InvalidRecordError, "value's length is out of range"),
        (with_legacy_crc(LEGACY_GOOD[:33] + struct.pack(">i", 2) + LEGACY_GOOD[37:]), InvalidRecordError, "do not fill its declared size"),
        (message(7, None, b"", attributes=1), DecompressionError, "cut off"),
        (message(7, None, None, attributes=1), InvalidRecordError, "has no value"),
        (message(7, None, bytes(compress(Compression.GZIP, b"")), attributes=1), InvalidRecordError, "wrapper is empty"),
        (message(7, None, bytes(compress(Compression.GZIP, LEGACY_GOOD[:-1])), attributes=1), InvalidRecordError, "is cut off"),
        (
            message(7, None, bytes(compress(Compression.GZIP, message(0, b"k", b"v", magic=0))), attributes=1),
            InvalidRecordError,
            "another magic",
        ),
        (
            message(7, None, bytes(compress(Compression.GZIP, message(0, b"k", b"v", attributes=2))), attributes=1),
            InvalidRecordError,
            "compressed itself",
        ),
        (
            message(3, None, bytes(compress(Compression.GZIP, message(5, b"k", b"v"))), attributes=1),
            InvalidRecordError,
            "last inner offset",
        ),
        (message(3, None, b"x", attributes=4), UnsupportedCodecError, "zstd in a batch of magic 1"),
        (message(3, None, b"x", attributes=6), UnsupportedCodecError, "unknown codec"),
    ],
)
def test_bad_legacy_messages(data: bytes, error: type[TidelogError], text: str) -> None:
    for decode in (decode_objects, decode_columns):
        with pytest.raises(error, match=text) as caught:
            decode(LEGACY_GOOD + data)
        assert caught.value.position is not None
        assert caught.value.position >= len(LEGACY_GOOD)


def test_a_bad_crc_inside_a_wrapper_is_noticed() -> None:
    inner = bytearray(message(0, b"k", b"v"))
    inner[-1] ^= 1
    data = message(7, None, bytes(compress(Compression.GZIP, bytes(inner))), attributes=1)
    with pytest.raises(ChecksumError):
        to_arrow(data)
    assert to_arrow(data, check_crcs=False).num_rows == 1


def test_errors_pickle_with_their_facts() -> None:
    with pytest.raises(UnsupportedMagicError) as caught:
        walk_headers(GOOD[:16] + b"\x05" + GOOD[17:])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is UnsupportedMagicError
    assert (str(copy), copy.position, copy.found) == (str(caught.value), 16, 5)
    too_large = PayloadTooLargeError(max_bytes=5, found=6)
    assert str(pickle.loads(pickle.dumps(too_large))) == str(too_large)


def test_with_crc_is_what_the_encoder_writes() -> None:
    assert with_crc(GOOD) == GOOD


@pytest.mark.parametrize("is_told_by_the_crc", [True, False])
def test_a_decoder_goes_on_after_bad_bytes_as_if_it_were_new(*, is_told_by_the_crc: bool) -> None:
    good = encode_batches([(b"k%d" % i, b"v") for i in range(40)] + [(None, None)])
    bad = encode_batches([(None, None)] * 30 + [(b"k", b"v")])[:-1] + b"\x05"  # the header count of the last record
    decoder = ColumnDecoder()
    with pytest.raises(ChecksumError if is_told_by_the_crc else InvalidRecordError):
        list(decoder.decode(bad if is_told_by_the_crc else with_crc(bad)))
    (batch,) = decoder.decode(good)
    assert pa.Table.from_batches([batch]) == to_arrow(good)


def test_a_batch_that_is_not_all_there_is_not_read_past_its_buffer() -> None:
    """Who reads the bytes of a known batch from a file that was truncated meanwhile gets fewer."""
    data = encode_batches([(b"k", bytes(5000))], base_offset=3)
    with pytest.raises(CorruptBatchError, match=f"a batch is cut off at byte 0: expected {len(data)} bytes, found 200"):
        list(RecordBatch(memoryview(data[:200]), 0, len(data)))
