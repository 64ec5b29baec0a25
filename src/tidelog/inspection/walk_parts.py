"""What a walk over a `.log` file gives: runs of batches, and what lies between them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tidelog.record.headers import FIELDS, BatchHeaders
from tidelog.record.layout import CODEC_MASK, CONTROL_BIT, HEADER, LENGTH_POSITION, LOG_OVERHEAD, signed64

NO_ROWS = np.empty(0, np.int64)
_JOINED_BATCHES = 4096

StretchKind = Literal["lost", "torn", "zeros", "garbage", "magic", "shrunk"]


@dataclass(slots=True)
class Piece:
    """Batches one behind the other. Good only until the next one is asked for: the memory is used again."""

    headers: BatchHeaders
    shift: int
    """What is to be added to their positions to get those in the file."""
    view: memoryview | None
    """The bytes under the headers; None if only headers were read, or kept."""
    bad: np.ndarray
    """Rows whose CRC does not match."""
    is_proven: bool = False
    """Whether somebody else has looked at their bytes, as closely as was asked for, and has found nothing."""

    @property
    def start(self) -> int:
        """In the file."""
        return int(self.headers.position[0]) + self.shift

    @property
    def end(self) -> int:
        """In the file."""
        return self.headers.end_position + self.shift


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that are no batches."""

    kind: StretchKind
    """lost: a sound batch follows; torn, zeros, garbage: nothing follows; magic: a sound v2 batch but for its magic, which follows
    as a piece; shrunk: they went away."""
    start: int
    end: int
    reason: str
    base_offset: int = -1
    """Of the batch with a wrong magic."""


def joined(parts: Iterable[Piece | Stretch]) -> Iterator[Piece | Stretch]:
    """The same parts, but runs that follow each other as one, as far as nothing but their headers is needed.

    A piece has some hundred batches, and what is asked of them are dozens of operations on arrays: asking it of thousands at once costs
    hardly more. A piece with a control batch stays as it is, since its marker is read from the bytes; so does one with a wrong CRC.
    """
    group = _Group()
    for part in parts:
        if isinstance(part, Piece) and not len(part.bad) and not _has_control(part.headers):
            if group.count + len(part.headers) > _JOINED_BATCHES:
                yield from group.take()
            if len(part.headers) <= _JOINED_BATCHES // 2:
                group.add(part)
                continue
        yield from group.take()
        yield part
    yield from group.take()


def _has_control(headers: BatchHeaders) -> bool:
    """Whether one may be among them; a marker that is missed by its odd attributes is read from the file again."""
    return int(headers.attributes.max()) >= CONTROL_BIT


class _Group:
    """Headers of several pieces in one array."""

    def __init__(self) -> None:
        self._columns = np.empty((len(FIELDS), _JOINED_BATCHES), np.int64)
        self._may_be_legacy = self._may_be_compressed = False
        self.count = 0
        self._end = 0

    def add(self, piece: Piece) -> None:
        headers = piece.headers
        first, start, end = headers.first, self.count, self.count + len(headers)
        self._columns[:, start:end] = headers.flat.reshape(len(FIELDS), headers.capacity)[:, first : first + len(headers)]
        self._columns[0, start:end] += piece.shift
        self._may_be_legacy |= headers.may_be_legacy
        self._may_be_compressed |= headers.may_be_compressed
        self.count, self._end = end, piece.end

    def take(self) -> Iterator[Piece]:
        if self.count == 0:
            return
        headers = BatchHeaders(self._columns.reshape(-1), _JOINED_BATCHES, 0, self.count, self._end)
        headers.may_be_legacy, headers.may_be_compressed = self._may_be_legacy, self._may_be_compressed
        self._may_be_legacy = self._may_be_compressed = False
        self.count = 0
        yield Piece(headers, 0, None, NO_ROWS)


def header_row(header: bytes, position: int, size: int, magic: int) -> BatchHeaders:
    """The header of one batch by itself, as the kernel's walk would have it."""
    if magic < 2:
        offset, attributes = int.from_bytes(header[:8], "big", signed=True), header[17]
        timestamp = int.from_bytes(header[18:26], "big", signed=True) if magic == 1 else -1
        first, count = (-1, -1) if attributes & CODEC_MASK else (offset, 1)
        crc = int.from_bytes(header[12:16], "big")
        fields = (position, size, magic, attributes, first, offset, timestamp, timestamp, -1, -1, -1, -1, count, crc)
    else:
        base_offset, _, epoch, _, crc, attributes, delta, base_ms, max_ms, *producer, count = HEADER.unpack(header)
        last_offset = signed64(base_offset + delta)
        fields = (position, size, magic, attributes, base_offset, last_offset, base_ms, max_ms, *producer, epoch, count, crc)
    return BatchHeaders(np.array(fields, np.int64), 1, 0, 1, position + size)


def size_at(header: bytes | bytearray) -> int:
    """What a batch says its size is; 0 if it does not."""
    if len(header) < LENGTH_POSITION + 4:
        return 0
    return int.from_bytes(header[LENGTH_POSITION : LENGTH_POSITION + 4], "big", signed=True) + LOG_OVERHEAD
