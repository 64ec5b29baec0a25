"""Survey the records of v2 batches before a leader appends them: all of them are visited and checked, none is copied.

`survey_batches` for a run of batches, `survey_one` for a single one, which is what a produce call brings.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import TidelogError, UnsupportedCodecError
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Compression, codec_of, decompress_into
from tidelog.record.faults import Fault, raise_fault
from tidelog.record.headers import BatchHeaders, Int64Array
from tidelog.record.kernel import headers as header_kernel
from tidelog.record.kernel import payloads as payload_kernel
from tidelog.record.kernel import survey as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.layout import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE
from tidelog.record.slots import BATCH_FIELDS
from tidelog.record.views import Buffer, byte_view, view

_ANSWERS = 5
_MAX_ARENA_BYTES = 2 << 20  # decompressed payloads are surveyed as soon as there are this many bytes of them


@dataclass(frozen=True, slots=True)
class Surveys:
    """What was found, an entry a batch."""

    max_timestamp_ms: Int64Array
    """Largest timestamp (base plus delta, whatever the timestamp type); -1 for none, and for none above it."""
    keyless: Int64Array
    """Records without a key."""
    out_of_range: Int64Array
    """Records with a timestamp outside the limits, both inclusive; those without a timestamp do not count."""
    untimed: Int64Array
    """Records without a timestamp, which is -1."""
    is_dense: NDArray[np.bool_]
    """Whether the offset deltas are 0, 1, 2 …, one for each record."""


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
    """Survey the batch at `position`: (max timestamp, keyless, out of range, untimed, 1 if dense else 0), as in `Surveys`.

    `buffer` is a flat view of unsigned bytes; attributes, count and base timestamp are those of the batch's header. Bad records raise.
    """
    if attributes & CODEC_MASK:
        return _survey_compressed(
            buffer, position, size_bytes, attributes, count, base_timestamp_ms, lowest_ms, highest_ms, scratch, max_decompressed_bytes
        )
    answers = kernel.survey_records(
        buffer, position + HEADER_SIZE, position + size_bytes, count, base_timestamp_ms, lowest_ms, highest_ms, scratch.fault
    )
    if answers[4] < 0:
        _raise_fault(scratch.fault, position, position + HEADER_SIZE, is_compressed=False)
    return answers


def survey_batches(
    buffer: Buffer,
    headers: BatchHeaders,
    *,
    lowest_ms: int,
    highest_ms: int,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    scratch: Scratch | None = None,
) -> Surveys:
    """Survey a run of v2 batches, whose headers were walked in `buffer`. Bad records raise, as they do when they are decoded."""
    source = byte_view(buffer)
    if headers.end_position > len(source):
        raise ValueError(f"the headers go on to byte {headers.end_position} of another buffer, this one has {len(source)}")
    if headers.may_be_legacy and (headers.magic != 2).any():
        raise ValueError("legacy messages are not surveyed")
    scratch = scratch or Scratch()
    answers = np.zeros((len(headers), _ANSWERS), np.int64)
    batches = np.empty((len(headers), BATCH_FIELDS), np.int64)
    totals = np.zeros(3, np.int64)
    if len(headers) and not header_kernel.describe_batches(
        view(headers.flat), headers.capacity, headers.first, len(headers), 0, view(batches.reshape(-1)), view(totals), scratch.fault
    ):
        raise_fault(*scratch.fault.tolist()[:4])
    if totals[2]:
        _survey_run_compressed(source, batches, headers, lowest_ms, highest_ms, answers, max_decompressed_bytes, scratch)
    else:
        _survey_run(source, batches, headers, lowest_ms, highest_ms, answers, scratch)
    max_timestamp_ms, keyless, out_of_range, untimed, is_dense = answers.T
    return Surveys(max_timestamp_ms.copy(), keyless, out_of_range, untimed, is_dense.astype(np.bool_))


def _survey_run(
    payload: memoryview,
    batches: Int64Array,
    headers: BatchHeaders,
    lowest_ms: int,
    highest_ms: int,
    answers: Int64Array,
    scratch: Scratch,
) -> None:
    """Survey batches whose payloads lie in one buffer, the caller's or the arena."""
    if not kernel.survey_batches(payload, view(batches.reshape(-1)), lowest_ms, highest_ms, view(answers.reshape(-1)), scratch.fault):
        batch = scratch.fault[4]
        is_compressed = bool(headers.compression[batch])
        _raise_fault(scratch.fault, int(headers.position[batch]), int(batches[batch, 0]), is_compressed=is_compressed)


def _survey_run_compressed(
    source: memoryview,
    batches: Int64Array,
    headers: BatchHeaders,
    lowest_ms: int,
    highest_ms: int,
    answers: Int64Array,
    max_bytes: int,
    scratch: Scratch,
) -> None:
    """Decompress into the arena, and survey what is there whenever it is well filled."""
    arena = scratch.arena
    flat, attributes, progress = view(batches.reshape(-1)), view(headers.attributes), np.zeros(1, np.int64)
    first = 0
    while first < len(headers):
        arena.clear()
        try:
            last = payload_kernel.decompress_payloads(
                source, flat, attributes, first, arena, max_bytes, _MAX_ARENA_BYTES, _decompress_other, view(progress)
            )
        except TidelogError as error:
            is_codec = isinstance(error, UnsupportedCodecError)
            error.position = int(headers.position[progress[0]]) + (ATTRIBUTES_POSITION if is_codec else 0)
            raise
        _survey_run(arena.view(), batches[first:last], headers[first:last], lowest_ms, highest_ms, answers[first:last], scratch)
        first = last


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
        _raise_fault(scratch.fault, position, 0, is_compressed=True)
    return answers


def _decompress_other(codec: int, payload: memoryview, arena: Arena, max_bytes: int) -> None:
    decompress_into(arena, Compression.of(codec), payload, max_bytes=max_bytes)


def _raise_fault(fault: memoryview, batch_position: int, payload_start: int, *, is_compressed: bool) -> NoReturn:
    """Say where in the caller's buffer the bad record is, or which batch it is in if that is compressed."""
    kind, position, found, expected, _ = fault.tolist()
    if kind in (Fault.NEGATIVE_COUNT, Fault.RECORD_COUNT):
        raise_fault(kind, batch_position, found, expected)
    shift = -payload_start if is_compressed else batch_position + HEADER_SIZE - payload_start
    if kind == Fault.PAYLOAD_TOO_LONG:
        expected += shift
    raise_fault(kind, position + shift, found, expected, batch_position if is_compressed else -1)
