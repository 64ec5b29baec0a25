"""The framing of each codec, byte by byte where Kafka determines it, and levels with Kafka's meaning."""

import os
import random
import struct
import threading

import cramjam
import pytest
import zstandard

from tidelog.errors import DecompressionError, PayloadTooLargeError, UnsupportedCodecError
from tidelog.record import Compression
from tidelog.record.compression import compress, decompress

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"the log is the database, " * 8000  # several blocks of every codec
NOISE = os.urandom(150_000)


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("data", [b"", b"a", TEXT, NOISE, TEXT + NOISE], ids=["empty", "one", "text", "noise", "both"])
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, [-1, 1, 6, 9]), (Compression.LZ4, [1, 9, 10, 17]), (Compression.ZSTD, [-131072, -5, 1, 3, 22])],
    ids=str,
)
def test_levels(codec: Compression, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT
    for level in (min(levels) - 1, max(levels) + 1):
        with pytest.raises(UnsupportedCodecError, match=f"level of {codec} out of range: expected .*, found {level}"):
            compress(codec, TEXT, level)


def test_a_frame_of_several_blocks_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """cramjam before 2.14 made such frames, and all but the first block would have been lost, under a correct CRC."""
    make_frame = cramjam.lz4.compress

    def two_blocks(raw: memoryview, **options: int) -> bytes:
        frame, half = bytes(make_frame(raw, **options)), len(raw) // 2
        blocks = [bytes(cramjam.lz4.compress_block(part, store_size=False)) for part in (raw[:half], raw[half:])]
        return frame[:7] + b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)

    monkeypatch.setattr(cramjam.lz4, "compress", two_blocks)
    assert decompress(Compression.LZ4, compress(Compression.LZ4, TEXT, 12)) == TEXT


def test_a_higher_lz4_level_compresses_more_and_nine_is_the_fast_one() -> None:
    words = [b"%x" % (i * 2654435761 % 2**32) for i in range(300)]
    data = b" ".join(random.Random(1).choices(words, k=20_000))
    fast, high = (len(compress(Compression.LZ4, data, level)) for level in (9, 12))
    assert high < fast
    assert len(compress(Compression.LZ4, data)) == fast


def test_codecs_without_levels() -> None:
    for codec in (Compression.NONE, Compression.SNAPPY):
        with pytest.raises(UnsupportedCodecError, match=f"{codec} has no levels"):
            compress(codec, b"", 1)


@pytest.mark.parametrize("name", ["none", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_names_are_kafkas(name: str) -> None:
    assert str(Compression.of(name)) == ("none" if name == "uncompressed" else name)


@pytest.mark.parametrize("name", ["brotli", "GZIP", "", 5, -1])
def test_unknown_names(name: str | int) -> None:
    with pytest.raises(UnsupportedCodecError, match="unknown codec: expected none, gzip, snappy, lz4, zstd"):
        Compression.of(name)


def test_gzip_has_the_header_that_the_jdk_writes() -> None:
    assert bytes(compress(Compression.GZIP, TEXT))[:10].hex() == "1f8b08000000000000ff"


def test_snappy_has_xerial_chunks_of_32_kib() -> None:
    framed = bytes(compress(Compression.SNAPPY, TEXT))
    assert framed[:16].hex() == "82534e4150505900" + "00000001" * 2
    sizes = []
    at = 16
    while at < len(framed):
        (size,) = struct.unpack_from(">i", framed, at)
        sizes.append(len(cramjam.snappy.decompress_raw(framed[at + 4 : at + 4 + size])))
        at += 4 + size
    assert sizes == [32768] * (len(TEXT) // 32768) + [len(TEXT) % 32768]


def test_lz4_has_independent_blocks_of_64_kib_without_checksums() -> None:
    framed = bytes(compress(Compression.LZ4, TEXT + NOISE))
    assert framed[:7].hex() == "04224d18604082"
    assert framed[-4:] == bytes(4)
    at, stored = 7, []
    while framed[at : at + 4] != bytes(4):
        (size,) = struct.unpack_from("<I", framed, at)
        stored.append(bool(size >> 31))
        at += 4 + (size & 0x7FFFFFFF)
    assert len(stored) == (len(TEXT + NOISE) + 65535) // 65536
    assert stored[0] is False
    assert stored[-1] is True  # noise does not shrink, and is stored as it is
    assert bytes(cramjam.lz4.decompress(framed)) == TEXT + NOISE


def test_zstd_is_one_frame_without_size_and_checksum() -> None:
    parameters = zstandard.get_frame_parameters(bytes(compress(Compression.ZSTD, TEXT)))
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert parameters.has_checksum is False


def lz4_frame(flags: int, descriptor: int, rest: bytes = bytes(4), checksum: int | None = None) -> bytes:
    from tidelog.record.kernel.lz4_frame import _xxh32_of_header

    head = bytes([flags, descriptor])
    return b"\x04\x22\x4d\x18" + head + bytes([(_xxh32_of_header(head) >> 8) & 255 if checksum is None else checksum]) + rest


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (lz4_frame(0x40, 0x40), "dependent blocks"),
        (lz4_frame(0x61, 0x40), "unknown flags"),
        (lz4_frame(0xA0, 0x40), "unknown flags"),
        (lz4_frame(0x60, 0x41), "unknown flags"),
        (lz4_frame(0x60, 0x30), "unknown block size"),
        (lz4_frame(0x60, 0x40, checksum=0), "header checksum does not match: expected 82, found 00"),
        (lz4_frame(0x60, 0x40, b"\x01\x00\x01\x80" + bytes(65537) + bytes(4)), "block's size is out of range"),
        (lz4_frame(0x60, 0x40, b"\x05\x00\x00\x00ab"), "block's size is out of range"),
        (lz4_frame(0x60, 0x40, b""), "cut off"),
        (lz4_frame(0x60, 0x40, bytes(4) + b"more"), "bytes follow"),
        (lz4_frame(0x60, 0x40, b"\x03\x00\x00\x00\xf0\xff\xff" + bytes(4)), "bad lz4 block"),
        (b"\x04\x22\x4d\x19" + bytes(10), "not an lz4 frame"),
    ],
)
def test_lz4_frames_that_kafka_refuses(frame: bytes, text: str) -> None:
    with pytest.raises(DecompressionError, match=text):
        decompress(Compression.LZ4, frame)


def test_the_lz4_header_checksum_of_magic_0_is_not_looked_at() -> None:
    frame = bytearray(compress(Compression.LZ4, TEXT))
    frame[6] = 0x1A
    assert decompress(Compression.LZ4, frame, magic=0) == TEXT
    with pytest.raises(DecompressionError, match="header checksum"):
        decompress(Compression.LZ4, frame, magic=1)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_every_cut_is_an_error(codec: Compression) -> None:
    framed = bytes(compress(codec, TEXT[:3000] + NOISE[:3000]))
    for cut in range(len(framed)):
        if codec is Compression.SNAPPY and cut == 16:
            continue  # a xerial header alone is an empty stream
        with pytest.raises(DecompressionError):
            decompress(codec, framed[:cut])


def test_a_snappy_length_that_lies_takes_no_memory() -> None:
    with pytest.raises(DecompressionError, match="length cannot be"):
        decompress(Compression.SNAPPY, b"\x80\x80\x80\x7f" + bytes(20))


def test_a_zstd_content_size_that_lies_takes_no_memory() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(1000))
    honest = zstandard.get_frame_parameters(frame)
    assert honest.content_size == 1000
    lying = frame[:5] + struct.pack("<H", 60000) + frame[7:]
    with pytest.raises(DecompressionError):
        decompress(Compression.ZSTD, lying)


@pytest.mark.parametrize("declared", [1 << 62, 1 << 63, (1 << 64) - 3])
def test_any_zstd_content_size_is_too_large_and_not_too_large_for_us(declared: int) -> None:
    """From 2^63 on it was an `OverflowError` (found by `make fuzz`)."""
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", declared) + b"\x01\x00\x00"
    with pytest.raises(PayloadTooLargeError, match=str(declared)):
        decompress(Compression.ZSTD, frame)


def test_threads_do_not_share_zstd_contexts() -> None:
    framed = compress(Compression.ZSTD, TEXT)
    failures: list[object] = []

    def work() -> None:
        for _ in range(50):
            if decompress(Compression.ZSTD, framed) != TEXT or decompress(Compression.ZSTD, compress(Compression.ZSTD, TEXT)) != TEXT:
                failures.append(threading.current_thread())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_members_and_frames_in_a_row() -> None:
    plain = zstandard.ZstdCompressor()
    assert decompress(Compression.ZSTD, plain.compress(b"") + plain.compress(TEXT) + plain.compress(b"end")) == TEXT + b"end"
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"other"
    assert decompress(Compression.ZSTD, skippable + plain.compress(TEXT)) == TEXT
    member = bytes(compress(Compression.GZIP, b"x" * 10))
    assert decompress(Compression.GZIP, member * 3000 + bytes(compress(Compression.GZIP, TEXT))) == b"x" * 30_000 + TEXT
    with pytest.raises(DecompressionError, match="zstd"):
        decompress(Compression.ZSTD, plain.compress(b"") + plain.compress(TEXT)[:-1])
    with pytest.raises(DecompressionError, match="reserved type"):
        decompress(Compression.ZSTD, plain.compress(b"") + bytes.fromhex("28b52ffd0000070000"))
