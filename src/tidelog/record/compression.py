"""Kafka's five codecs: their ids, names and levels, and the one door to compress and decompress a payload.

The framing of each codec has its own function or module: gzip and zstd here below, `tidelog.record.lz4_frame`,
`tidelog.record.snappy_frame`. Whatever a length field claims, memory is only taken step by step as real output appears, and never past
the caller's limit.
"""

import threading
import zlib
from enum import IntEnum

import zstandard

from tidelog.errors import DecompressionError, PayloadTooLargeError, UnsupportedCodecError
from tidelog.record import lz4_frame, snappy_frame
from tidelog.record.arena import Arena
from tidelog.record.layout import CODEC_MASK
from tidelog.record.views import Buffer
from tidelog.record.zstd_frame import check_zstd_frames

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""What one payload may expand to unless the caller says otherwise; Kafka's own batches are 1 MiB compressed by default."""


class Compression(IntEnum):
    """The codec of a batch, as in bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, codec: "Compression | str | int") -> "Compression":
        """By id or by Kafka's name ("uncompressed" is "none")."""
        if isinstance(codec, str):
            name = "NONE" if codec == "uncompressed" else codec.upper()
            if name in cls.__members__ and codec == codec.lower():
                return cls[name]
        elif codec in cls._value2member_map_:
            return cls(codec)
        raise UnsupportedCodecError("unknown codec", expected="none, gzip, snappy, lz4, zstd (0 to 4)", found=repr(codec))


_CODECS = tuple(Compression)


def codec_of(attributes: int, position: int) -> Compression:
    """The codec in the attributes of a batch; `position` is where they lie, for the error text."""
    codec = attributes & CODEC_MASK
    if codec < len(_CODECS):
        return _CODECS[codec]
    try:
        return Compression.of(codec)
    except UnsupportedCodecError as error:
        error.position = position
        raise


LEVEL_RANGES: dict[Compression, tuple[int, int, int]] = {
    Compression.GZIP: (1, 9, -1),
    Compression.LZ4: (1, 17, 9),
    Compression.ZSTD: (-131072, 22, 3),
}
"""Lowest, highest and default level of each codec that has levels, with Kafka's meaning of each."""


def check_level(codec: Compression, level: int | None) -> int:
    """The level to use, or an error that names the range."""
    if codec not in LEVEL_RANGES:
        if level is not None:
            raise UnsupportedCodecError(f"{codec} has no levels", expected="None", found=level)
        return 0
    lowest, highest, default = LEVEL_RANGES[codec]
    if level is None or level == default:
        return default
    if not lowest <= level <= highest:
        raise UnsupportedCodecError(f"level of {codec} out of range", expected=f"{lowest} to {highest} (default {default})", found=level)
    return level


def compress(codec: Compression, payload: Buffer, level: int | None = None) -> Buffer:
    """Compress in Kafka's framing."""
    level = check_level(codec, level)
    if codec is Compression.NONE:
        return payload
    if codec is Compression.GZIP:
        return _gzip_compress(payload, level)
    if codec is Compression.SNAPPY:
        return snappy_frame.compress(payload)
    if codec is Compression.LZ4:
        return lz4_frame.compress(payload, level)
    return _zstd_compress(payload, level)


def decompress(codec: Compression, payload: Buffer, *, magic: int = 2, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress a payload of a batch with this `magic`."""
    arena = Arena(max(1024, 4 * len(payload)))
    decompress_into(arena, codec, payload, magic=magic, max_bytes=max_bytes)
    return bytes(arena.view())


def decompress_into(
    arena: Arena, codec: Compression, payload: Buffer, *, magic: int = 2, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> None:
    """Append the decompressed payload to `arena`."""
    view = payload if type(payload) is memoryview else memoryview(payload)
    if codec is Compression.LZ4:
        lz4_frame.decompress(view, arena, max_bytes, check_header=magic > 0)
    elif codec is Compression.ZSTD:
        if magic < 2:
            raise UnsupportedCodecError(f"zstd in a batch of magic {magic}", expected="magic 2", found=magic)
        _zstd_decompress(view, arena, max_bytes)
    elif codec is Compression.SNAPPY:
        snappy_frame.decompress(view, arena, max_bytes)
    elif codec is Compression.GZIP:
        _gzip_decompress(view, arena, max_bytes)
    else:
        arena.append(view)


def _gzip_compress(payload: Buffer, level: int) -> bytearray:
    stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    out = bytearray(stream.compress(payload))
    out += stream.flush()
    # As the JDK writes it since 16: no extra flags, operating system unknown.
    out[8] = 0
    out[9] = 0xFF
    return out


def _gzip_decompress(payload: memoryview, arena: Arena, max_bytes: int) -> None:
    end = arena.size + max_bytes
    left: Buffer = payload
    while True:  # members may follow each other
        stream = zlib.decompressobj(31)
        try:
            # One byte more than is allowed tells "too large" from "just fits".
            arena.append(stream.decompress(left, end - arena.size + 1))
        except zlib.error as error:
            raise DecompressionError(f"bad gzip stream ({error})") from error
        if arena.size > end:
            raise PayloadTooLargeError(max_bytes=max_bytes)
        if not stream.eof:
            raise DecompressionError("a gzip stream is cut off", expected="its trailer", found="the end of the payload")
        left = stream.unused_data
        if not left:
            return


class _ZstdContexts(threading.local):
    """Contexts are costly to make and must not be shared between threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_zstd = _ZstdContexts()


def _zstd_compress(payload: Buffer, level: int) -> bytes:
    compressor = _zstd.compressors.get(level)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False)
        _zstd.compressors[level] = compressor
    return compressor.compress(payload)


def _zstd_decompress(payload: memoryview, arena: Arena, max_bytes: int) -> None:
    # A Kafka batch seldom shrinks to less than an eighth: one call with that much room serves nearly all of them.
    guess = min(max_bytes, max(32768, 8 * len(payload)))
    decompressor = _zstd.decompressor
    try:
        declared = zstandard.frame_content_size(payload)  # -1: not declared, as Kafka writes it
        if declared > max_bytes:
            raise PayloadTooLargeError(max_bytes=max_bytes, found=declared)
        if declared <= guess:
            arena.append(decompressor.decompress(payload, max_output_size=guess, allow_extra_data=False))
            return
    except zstandard.ZstdError:
        pass  # no room, several frames, or bad bytes: the stream below tells which
    _zstd_stream(decompressor, payload, arena, max_bytes)


def _zstd_stream(decompressor: zstandard.ZstdDecompressor, payload: memoryview, arena: Arena, max_bytes: int) -> None:
    """Any number of frames, in pieces: a few bytes may stand for many, so the limit is looked at after each."""
    end = arena.size + max_bytes
    try:
        check_zstd_frames(payload)
        with decompressor.stream_reader(payload, read_across_frames=True) as reader:
            while piece := reader.read(zstandard.BLOCKSIZE_MAX):
                arena.append(piece)
                if arena.size > end:
                    raise PayloadTooLargeError(max_bytes=max_bytes)
    except zstandard.ZstdError as error:
        raise DecompressionError(f"bad zstd stream ({error})") from error
