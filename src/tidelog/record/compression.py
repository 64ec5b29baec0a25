"""Kafka's five codecs: their ids, names and levels, and the one door to compress and decompress a payload.

The framing of each codec has its own module (`snappy_frame`, `kernel.lz4_frame`, `kernel.zstd_frame`), but for gzip, which is here below.
Whatever a length field claims, memory is only taken step by step as real output appears, and never past the caller's limit.
"""

import zlib
from enum import IntEnum

from tidelog.errors import DecompressionError, PayloadTooLargeError, UnsupportedCodecError
from tidelog.record import snappy_frame
from tidelog.record.kernel import lz4_frame, zstd_frame
from tidelog.record.kernel.arena import Arena
from tidelog.record.layout import CODEC_MASK
from tidelog.record.views import Buffer

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
_LZ4, _ZSTD = Compression.LZ4, Compression.ZSTD  # to name a member of an enumeration costs a good part of a microsecond
_GZIP_BITE = 4096


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
    return zstd_frame.compress(payload, level)


def decompress(codec: Compression, payload: Buffer, *, magic: int = 2, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress a payload of a batch with this `magic`."""
    arena = Arena(max(1024, 4 * len(payload)))
    decompress_into(arena, codec, payload, magic=magic, max_bytes=max_bytes)
    return bytes(arena.view())


def decompress_into(
    arena: Arena, codec: Compression, payload: Buffer, magic: int = 2, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> None:
    """Append the decompressed payload of a batch with this `magic` to `arena`."""
    view = payload if type(payload) is memoryview else memoryview(payload)
    if codec is _LZ4:
        lz4_frame.decompress(view, arena, max_bytes, magic > 0)
    elif codec is _ZSTD:
        if magic < 2:
            raise UnsupportedCodecError(f"zstd in a batch of magic {magic}", expected="magic 2", found=magic)
        zstd_frame.decompress(view, arena, max_bytes)
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
    at = 0
    bite_size = len(payload)
    while True:  # members may follow each other
        stream = zlib.decompressobj(31)
        while not stream.eof:
            bite = payload[at : at + bite_size]
            if not bite:
                raise DecompressionError("a gzip stream is cut off", expected="its trailer", found="the end of the payload")
            try:
                # One byte more than is allowed tells "too large" from "just fits".
                arena.append(stream.decompress(bite, end - arena.size + 1))
            except zlib.error as error:
                raise DecompressionError(f"bad gzip stream ({error})") from error
            if arena.size > end:
                raise PayloadTooLargeError(max_bytes=max_bytes)
            at += len(bite)
        at -= len(stream.unused_data)
        if at == len(payload):
            return
        # What a member leaves over is copied, so that thousands of small ones are not to be given all the rest each.
        bite_size = _GZIP_BITE
