"""Message sets of magic 0 and 1, as brokers wrote them before 0.11: read, never written.

       0  offset                  i64       8  message size, bytes after this field      i32
      12  CRC-32 of all from 16 on u32     16  magic 0 or 1   i8      17  attributes     i8
      18  timestamp               i64      magic 1 only
      18 or 26  key length i32 (-1: null), key, value length i32 (-1: null), value

Attributes: bits 0-2 codec, bit 3 timestamp type (magic 1). A message with a codec is a *wrapper*: its value decompresses to messages of
the same kind, one level deep. The wrapper has the offset of its last inner message. Inner offsets are absolute in magic 0; in magic 1
they are relative, the last of them standing for the wrapper's offset (a wrapper with offset 0 is taken as absolute, as Kafka does).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import InvalidRecordError, TidelogError
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Compression, codec_of, decompress_into
from tidelog.record.faults import Fault, raise_fault
from tidelog.record.headers import BatchHeaders, Int64Array, checksums_match, verify_checksums, walk_headers
from tidelog.record.kernel import legacy as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.kernel.record import Record
from tidelog.record.layout import TIMESTAMP_TYPE_BIT, TimestampType, signed64
from tidelog.record.views import view

_SLICE_ROWS = 4
_ATTRIBUTES_POSITION = 17


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages laid out flat: wrappers are opened, offsets are absolute."""

    payload: memoryview
    slices: NDArray[np.int32]
    """Four rows: key start, key length, value start, value length; an entry a message."""
    offsets: Int64Array
    timestamps: Int64Array
    timestamp_types: Int64Array
    batches: Int64Array
    """For every message, which header it came from."""
    count_of_batches: int
    """How many of the headers were opened."""


def flatten(
    buffer: memoryview,
    headers: BatchHeaders,
    *,
    check_crcs: bool,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    enough_bytes: int | None = None,
) -> Messages:
    """Open the wrappers among `headers` (all legacy) and parse their messages: all, or until there are `enough_bytes` of them."""
    arena = Arena(int(headers.size_bytes.sum()) + 1024)
    offsets: list[Int64Array] = []
    timestamps: list[Int64Array] = []
    types: list[Int64Array] = []
    batches: list[Int64Array] = []
    slices: list[NDArray[np.int32]] = []
    for index in range(len(headers)):
        if enough_bytes is not None and arena.size >= enough_bytes:
            break
        one = headers[index : index + 1]
        position, magic = int(one.position[0]), int(one.magic[0])
        codec = _codec(one)
        if codec is Compression.NONE:
            start = arena.size
            arena.append(buffer[position : position + int(one.size_bytes[0])])
            inner = one
            offset = one.last_offset
            shift = start - position
        else:
            inner, offset = _open_wrapper(buffer, one, codec, arena, check_crcs=check_crcs, max_bytes=max_decompressed_bytes)
            shift = 0
        slices.append(_scan(arena.view(), inner, shift, position if codec else -1))
        offsets.append(offset)
        if codec is not Compression.NONE and magic == 1 and int(one.attributes[0]) & TIMESTAMP_TYPE_BIT:
            timestamps.append(np.full(len(inner), one.max_timestamp_ms[0]))
            types.append(np.full(len(inner), int(TimestampType.LOG_APPEND_TIME)))
        else:
            timestamps.append(inner.max_timestamp_ms)
            types.append(_timestamp_types(inner))
        batches.append(np.full(len(inner), index))
    return Messages(
        payload=arena.view(),
        slices=np.concatenate([np.empty((_SLICE_ROWS, 0), np.int32), *slices], axis=1),
        offsets=_joined(offsets),
        timestamps=_joined(timestamps),
        timestamp_types=_joined(types),
        batches=_joined(batches),
        count_of_batches=len(batches),
    )


class LegacyBatch:
    """One entry of magic 0 or 1: a plain message, or a wrapper with several. A view over a buffer, as `RecordBatch` is.

    It has what a v2 batch has, with Kafka's values for what the format lacks.
    """

    __slots__ = ("_headers", "buffer", "magic", "position", "size_bytes")

    base_sequence = last_sequence = producer_id = producer_epoch = partition_leader_epoch = -1
    is_transactional = is_control = False
    delete_horizon_ms = None

    def __init__(self, buffer: memoryview, headers: BatchHeaders) -> None:
        self.buffer = buffer
        self._headers = headers
        self.position = int(headers.position[0])
        self.size_bytes = int(headers.size_bytes[0])
        self.magic = int(headers.magic[0])

    @property
    def attributes(self) -> int:
        """All attribute bits."""
        return int(self._headers.attributes[0])

    @property
    def crc(self) -> int:
        """The CRC-32 that the message has, unsigned."""
        return int(self._headers.crc[0])

    @property
    def compression(self) -> Compression:
        """Its codec; anything but NONE makes it a wrapper."""
        return _codec(self._headers)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who stamped it."""
        return TimestampType(int(_timestamp_types(self._headers)[0]))

    @property
    def max_timestamp_ms(self) -> int:
        """The message's or the wrapper's own timestamp."""
        return int(self._headers.max_timestamp_ms[0])

    @property
    def base_offset(self) -> int:
        """Offset of the first message; a wrapper has to be opened for it."""
        return self.last_offset if self.compression is Compression.NONE else int(self._messages().offsets[0])

    @property
    def last_offset(self) -> int:
        """Offset of the only or last message."""
        return int(self._headers.last_offset[0])

    @property
    def next_offset(self) -> int:
        """Where a reader goes on after this batch."""
        return signed64(self.last_offset + 1)

    @property
    def count(self) -> int:
        """Messages; a wrapper has to be opened for it."""
        return 1 if self.compression is Compression.NONE else len(self._messages().offsets)

    def to_bytes(self) -> bytes:
        """A copy of the whole entry."""
        return bytes(self.buffer[self.position : self.position + self.size_bytes])

    @property
    def is_valid(self) -> bool:
        """Whether the CRC matches."""
        return bool(checksums_match(self.buffer, self._headers)[0])

    def ensure_valid(self) -> None:
        """Raise `ChecksumError` if the CRC does not match."""
        verify_checksums(self.buffer, self._headers)

    def records(
        self,
        *,
        topic: str | None = None,
        partition: int = -1,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> Iterator[Record]:
        """Decode the messages."""
        messages = self._messages(max_decompressed_bytes)
        for index, (key_start, key_length, value_start, value_length) in enumerate(messages.slices.T.tolist()):
            yield Record(
                None if value_length < 0 else bytes(messages.payload[value_start : value_start + value_length]),
                key=None if key_length < 0 else bytes(messages.payload[key_start : key_start + key_length]),
                timestamp_ms=int(messages.timestamps[index]),
                timestamp_type=int(messages.timestamp_types[index]),
                offset=int(messages.offsets[index]),
                topic=topic,
                partition=partition,
            )

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def _messages(self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Messages:
        return flatten(self.buffer, self._headers, check_crcs=False, max_decompressed_bytes=max_decompressed_bytes)

    def __repr__(self) -> str:
        return f"LegacyBatch(magic {self.magic}, last offset {self.last_offset}, {self.size_bytes} bytes at {self.position})"


def _open_wrapper(
    buffer: memoryview, wrapper: BatchHeaders, codec: Compression, arena: Arena, *, check_crcs: bool, max_bytes: int
) -> tuple[BatchHeaders, Int64Array]:
    """Decompress a wrapper's messages to the end of `arena`: (their headers, with positions in the arena; their absolute offsets)."""
    position, magic = int(wrapper.position[0]), int(wrapper.magic[0])
    _, _, value_start, value_length = _scan(buffer, wrapper, 0, -1)[:, 0].tolist()
    start = arena.size
    try:
        if value_length < 0:
            raise InvalidRecordError("a compressed wrapper has no value", expected="compressed messages", found="null")
        decompress_into(arena, codec, buffer[value_start : value_start + value_length], magic=magic, max_bytes=max_bytes)
        inner = walk_headers(arena.view(), start)
        if inner.end_position != arena.size:
            raise_fault(Fault.MESSAGE_TRUNCATED, inner.end_position - start, arena.size - inner.end_position, arena.size - start, position)
        if len(inner) == 0:
            raise InvalidRecordError("a compressed wrapper is empty", expected="at least 1 message", found=0)
        if (inner.magic != magic).any():
            raise_fault(Fault.MESSAGE_MAGIC, 0, int(inner.magic[inner.magic != magic][0]), magic, position)
        if inner.compression.any():
            raise_fault(Fault.NESTED_COMPRESSION, 0, int(inner.compression.max()), 0, position)
        if check_crcs:
            verify_checksums(arena.view(), inner)
        wrapper_offset, last_inner = int(wrapper.last_offset[0]), int(inner.last_offset[-1])
        if magic == 0 or wrapper_offset == 0:
            return inner, inner.last_offset
        if wrapper_offset < last_inner:
            raise InvalidRecordError(
                "a wrapper's offset is smaller than its last inner offset", expected=f"at least {last_inner}", found=wrapper_offset
            )
        return inner, inner.last_offset + signed64(wrapper_offset - last_inner)
    except TidelogError as error:
        error.position = position
        raise


def _scan(payload: memoryview, headers: BatchHeaders, shift: int, wrapper_position: int) -> NDArray[np.int32]:
    """Slices of messages whose headers are `shift` bytes before their place in `payload`."""
    slices = np.empty(_SLICE_ROWS * len(headers), np.int32)
    fault = np.zeros(5, np.int64)
    positions = np.ascontiguousarray(headers.position + shift)
    ok = kernel.scan_messages(
        payload,
        view(positions),
        view(np.ascontiguousarray(headers.size_bytes)),
        view(np.ascontiguousarray(headers.magic)),
        view(slices),
        view(fault),
    )
    if not ok:
        kind, position, found, expected = (int(number) for number in fault[:4])
        raise_fault(kind, position - shift, found, expected, wrapper_position)
    return slices.reshape(_SLICE_ROWS, len(headers))


def _codec(headers: BatchHeaders) -> Compression:
    return codec_of(int(headers.attributes[0]), int(headers.position[0]) + _ATTRIBUTES_POSITION)


def _timestamp_types(headers: BatchHeaders) -> Int64Array:
    types: Int64Array = np.where(headers.magic == 0, int(TimestampType.NO_TIMESTAMP_TYPE), (headers.attributes & TIMESTAMP_TYPE_BIT) >> 3)
    return types


def _joined(parts: list[Int64Array]) -> Int64Array:
    return np.concatenate([np.empty(0, np.int64), *parts])
