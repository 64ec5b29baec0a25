"""Survey the records of a v2 batch before a leader appends it: all of them are visited and checked, none is copied."""

from typing import NoReturn

import numpy as np

from tidelog.errors import TidelogError
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, codec_of, decompress_into
from tidelog.record.faults import Fault, raise_fault
from tidelog.record.kernel import survey as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.layout import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE
from tidelog.record.views import view


class Scratch:
    """Memory that surveys use again and again. One thread at a time."""

    __slots__ = ("arena", "fault")

    def __init__(self) -> None:
        self.arena = Arena()
        self.fault = view(np.zeros(5, np.int64))


def survey_one(
    buffer: memoryview,
    position: int,
    size_bytes: int,
    attributes: int,
    count: int,
    base_timestamp_ms: int,
    lowest_ms: int,
    highest_ms: int,
    scratch: Scratch,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int, int, int, int]:
    """Survey the batch at `position`: (max timestamp, keyless, out of range, untimed, 1 if dense else 0).

    max timestamp: the largest (base plus delta, whatever the timestamp type); -1 for none, and for none above it
    keyless: records without a key
    out of range: records with a timestamp outside the limits, both inclusive; those without a timestamp do not count
    untimed: records without a timestamp, which is -1
    dense: whether the offset deltas are 0, 1, 2 …, one for each record

    `buffer` is a flat view of unsigned bytes; attributes, count and base timestamp are those of the batch's header. Bad records raise, as
    they do when they are decoded.
    """
    if attributes & CODEC_MASK:
        return _survey_compressed(
            buffer, position, size_bytes, attributes, count, base_timestamp_ms, lowest_ms, highest_ms, scratch, max_decompressed_bytes
        )
    answers = kernel.survey_records(
        buffer, position + HEADER_SIZE, position + size_bytes, count, base_timestamp_ms, lowest_ms, highest_ms, scratch.fault
    )
    if answers[4] < 0:
        _raise_fault(scratch.fault, position, is_compressed=False)
    return answers


def _survey_compressed(
    buffer: memoryview,
    position: int,
    size_bytes: int,
    attributes: int,
    count: int,
    base_timestamp_ms: int,
    lowest_ms: int,
    highest_ms: int,
    scratch: Scratch,
    max_bytes: int,
) -> tuple[int, int, int, int, int]:
    """`survey_one` for a compressed batch."""
    if position < 0 or size_bytes < HEADER_SIZE or size_bytes > len(buffer) - position:
        raise ValueError(f"a batch of {size_bytes} bytes at {position} in a buffer of {len(buffer)}")
    codec = codec_of(attributes, position + ATTRIBUTES_POSITION)
    arena = scratch.arena
    arena.clear()
    try:
        decompress_into(arena, codec, buffer[position + HEADER_SIZE : position + size_bytes], max_bytes=max_bytes)
    except TidelogError as error:
        error.position = position
        raise
    answers = kernel.survey_records(arena.view(), 0, arena.size, count, base_timestamp_ms, lowest_ms, highest_ms, scratch.fault)
    if answers[4] < 0:
        _raise_fault(scratch.fault, position, is_compressed=True)
    return answers


def _raise_fault(fault: memoryview, batch_position: int, *, is_compressed: bool) -> NoReturn:
    """Say where in the caller's buffer the bad record is, or which batch it is in if that is compressed."""
    kind, position, found, expected, _ = fault.tolist()
    if kind in (Fault.NEGATIVE_COUNT, Fault.RECORD_COUNT):
        raise_fault(kind, batch_position, found, expected)
    raise_fault(kind, position, found, expected, batch_position if is_compressed else -1)
