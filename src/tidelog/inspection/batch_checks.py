"""What headers of batches say about themselves, about each other and about the segment they lie in.

The first 21 bytes of a batch (base offset, size, leader epoch, magic) lie outside its CRC. So they are held against what they must agree
with: the batch before, the name of the segment, the name of the next one, and the leader epochs. Everything is asked of thousands of
batches at once; words are made only for what is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelog.inspection.finding import NOTHING, RECOVERY, REPAIR, SALVAGE, Finding, Severity
from tidelog.inspection.walk_parts import Piece
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.headers import BatchHeaders, Int64Array
from tidelog.record.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

MAX_INT64 = (1 << 63) - 1
YEAR_1971_MS = 31_536_000_000
DAY_MS = 86_400_000
_DEFINED_BITS = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


@dataclass(slots=True)
class Bounds:
    """Between what the batches of a segment must lie, and where the walk stands."""

    path: str
    base_offset: int
    next_base: int | None
    """Of the next segment."""
    now_ms: int
    last_offset: int
    """Of the batch before, or one below where the log may begin."""
    last_epoch: int = -1
    is_falling: bool = False
    """Whether the batch before had a lower leader epoch than one before it: of a run of such batches only the first is told."""
    has_gaps: bool = False
    """Whether an offset is missing so far, as compaction leaves it."""


def check_headers(piece: Piece, bounds: Bounds) -> Iterator[Finding]:
    """Everything about a run of batches; `bounds` goes on behind it."""
    headers = piece.headers
    yield from _check_offsets(piece, bounds)
    for mask, code, severity, what, mend in _masks(headers, bounds):
        if mask.any():
            rows = np.setdiff1d(np.flatnonzero(mask), piece.bad) if len(piece.bad) else np.flatnonzero(mask)
            for row in rows.tolist():
                yield _finding(piece, row, severity, code, bounds.path, what, mend)
    yield from _check_epochs(piece, headers, bounds)


def check_checksums(piece: Piece, path: str) -> Iterator[Finding]:
    """The batches whose CRC does not match."""
    for row in piece.bad.tolist():
        count = int(piece.headers.count[row])
        records = f"its {count} records are" if count > 1 else "its records are"
        yield _finding(piece, row, "error", "batch-crc", path, f"the CRC of a batch does not match: {records} not to be trusted", SALVAGE)


def _before(last: Int64Array, bounds: Bounds) -> Int64Array:
    """For every batch the largest last offset before it."""
    before = np.empty(len(last), np.int64)
    before[0] = bounds.last_offset
    before[1:] = last[:-1]
    if len(before) > 1 and (before[1:] < before[:-1]).any():
        np.maximum.accumulate(before, out=before)
    return before


def _check_offsets(piece: Piece, bounds: Bounds) -> Iterator[Finding]:
    headers, base_offset = piece.headers, bounds.base_offset
    last = headers.last_offset
    # A wrapper of old messages does not say where it begins.
    first = headers.base_offset
    if headers.may_be_legacy:
        first = np.where((headers.magic < 2) & (first < 0), last, first)
    if len(piece.bad):
        # What the CRC covers is not to be believed; the base offset lies outside of it.
        last = last.copy()
        last[piece.bad] = first[piece.bad]
    # Behind the last batch comes an offset too, and it has to be a number of 64 bits.
    highest = min(base_offset + MAX_RELATIVE_OFFSET, MAX_INT64 - 1)
    limit = highest if bounds.next_base is None else min(highest, bounds.next_base - 1)
    # An offset that cannot be is told once: the batches behind it are not held against it.
    is_believable = (last >= base_offset) & (last <= limit)
    is_held_against = is_believable | (last > MAX_INT64 - 1)  # at the very end of all offsets the next one cannot be right either way
    before = _before(last if is_held_against.all() else np.where(is_held_against, last, bounds.last_offset), bounds)
    steps = first - before
    is_sound = int(steps.min()) >= 1 and int(first.min()) >= base_offset and int(last.max()) <= limit and bool((first <= last).all())
    if not is_sound:
        wrapped = last < first
        below = ~wrapped & (first < base_offset)
        falls = ~wrapped & ~below & (first <= before)
        overflow = ~wrapped & (last > highest)
        for row in np.flatnonzero(wrapped | below | falls | overflow | (last > limit)).tolist():
            yield _offset_finding(piece, row, bounds, before, wrapped, below, falls, overflow)
    if not bounds.has_gaps and bool((steps > 1).any()):
        bounds.has_gaps = not headers.may_be_legacy or bool((steps[headers.magic == 2] > 1).any())
    believable = last[is_believable] if not is_sound else last
    if len(believable):
        bounds.last_offset = max(bounds.last_offset, int(believable.max()))


def _offset_finding(
    piece: Piece,
    row: int,
    bounds: Bounds,
    before: Int64Array,
    wrapped: np.ndarray,
    below: np.ndarray,
    falls: np.ndarray,
    overflow: np.ndarray,
) -> Finding:
    headers = piece.headers
    first, last = int(headers.base_offset[row]), int(headers.last_offset[row])
    code: str
    expected: str
    if wrapped[row]:
        code, what, mend = "batch-offsets", "the last offset of a batch lies below its first, or overflows", SALVAGE
        expected, found = f"{first} or more", last
    elif below[row]:
        code, what, mend = "offset-below-base", "a batch lies below the base offset of its segment", SALVAGE
        expected, found = f"offset {bounds.base_offset} or more", first
    elif falls[row]:
        code, what, mend = "offsets-fall", "a batch does not begin behind the one before it", SALVAGE
        expected, found = f"above {int(before[row])}", first
    elif overflow[row] and last == MAX_INT64:
        code, what, mend = "offset-overflow", "the last offset that there can be: none is left for what follows", SALVAGE
        expected, found = f"below {MAX_INT64}", last
    elif overflow[row]:
        code, what, mend = "offset-overflow", "an offset is too far from the segment's base for its indexes", "recovery on open splits it"
        expected, found = f"at most {bounds.base_offset + MAX_RELATIVE_OFFSET}", last
    else:
        code, what, mend = "segment-overlap", "a batch reaches into the offsets of the next segment", SALVAGE
        expected, found = f"below {bounds.next_base}", last
    position = int(headers.position[row]) + piece.shift
    return Finding("error", code, bounds.path, what, mend, position, first, expected, found)


def _masks(headers: BatchHeaders, bounds: Bounds) -> Iterator[tuple[np.ndarray, str, Severity, str, str]]:
    """For every rule the batches that break it."""
    attributes, count = headers.attributes, headers.count
    base_time, max_time = headers.base_timestamp_ms, headers.max_timestamp_ms
    v2 = headers.magic == 2 if headers.may_be_legacy else np.True_
    if headers.may_be_compressed:
        codec = attributes & CODEC_MASK
        highest_codec = np.where(headers.magic == 2, 4, 3) if headers.may_be_legacy else 4
        yield codec > highest_codec, "batch-codec", "error", "a codec that does not exist", SALVAGE
    yield (attributes & ~_DEFINED_BITS) != 0, "attribute-bits", "note", "attribute bits that Kafka does not define", NOTHING
    # Counts
    offsets = headers.last_offset - headers.base_offset + 1
    yield (
        v2 & ((count < 0) | ((count > offsets) & (offsets > 0))),
        "batch-count",
        "error",
        "more records than offsets, or a negative count",
        SALVAGE,
    )
    payload = headers.size_bytes - HEADER_SIZE
    plain = (attributes & CODEC_MASK) == 0
    too_many = v2 & plain & (count > payload // MIN_RECORD_SIZE)
    yield too_many, "batch-count", "error", "more records than its bytes can hold", SALVAGE
    yield v2 & (count == 0) & (payload > 0) & plain, "batch-count", "error", "bytes where there are no records", SALVAGE
    # Producers
    producer, epoch, sequence = headers.producer_id, headers.producer_epoch, headers.base_sequence
    control = (attributes & CONTROL_BIT) != 0
    transactional = (attributes & TRANSACTIONAL_BIT) != 0
    has_producer = producer >= 0
    # Kafka's group coordinator writes its batches without a producer, but with the sequence 0.
    has_odd_sequence = (sequence != -1) & (sequence != 0)
    odd = (
        (producer < -1)
        | (~has_producer & ((epoch != -1) | has_odd_sequence))
        | (has_producer & ((epoch < 0) | ((sequence < 0) & ~control)))
    )
    yield v2 & odd, "producer-fields", "warning", "producer id, epoch and sequence do not go together", REPAIR
    yield v2 & control & (sequence >= 0), "control-batch", "warning", "a control batch with a sequence number", NOTHING
    yield v2 & transactional & ~has_producer, "producer-fields", "warning", "a transactional batch without a producer", NOTHING
    # Times
    is_create_time = (attributes & (TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT)) == 0
    reversed_times = v2 & is_create_time & (count > 0) & (max_time < base_time) & (max_time >= -1)
    yield reversed_times, "timestamp-order", "warning", "the largest timestamp of a batch lies before its first", NOTHING
    yield (max_time < -1) | (base_time < -1), "timestamp-negative", "warning", "a timestamp below zero", NOTHING
    yield (max_time >= 0) & (max_time < YEAR_1971_MS), "timestamp-1970", "warning", "a timestamp before 1971", "check the producer's clock"
    future = max_time > bounds.now_ms + DAY_MS
    yield future, "timestamp-future", "warning", "a timestamp more than a day ahead, which keeps its segment from expiring", NOTHING


def _check_epochs(piece: Piece, headers: BatchHeaders, bounds: Bounds) -> Iterator[Finding]:
    """Leader epochs never fall. Against their checkpoint they are held in `side_file_checks`."""
    epochs = headers.partition_leader_epoch
    lowest, highest = int(epochs.min()), int(epochs.max())
    if lowest < -1:
        for row in np.flatnonzero(epochs < -1).tolist():
            yield _finding(piece, row, "warning", "epoch-negative", bounds.path, "a leader epoch that cannot be", RECOVERY)
    if lowest == highest:
        falls_here = -1 < highest < bounds.last_epoch
        if falls_here and not bounds.is_falling:
            yield _falling(piece, 0, bounds.last_epoch, bounds)
        bounds.is_falling = falls_here
    else:
        known = np.maximum.accumulate(np.concatenate(([bounds.last_epoch], epochs)))[:-1]
        falls = (epochs >= 0) & (epochs < known)
        starts = np.flatnonzero(falls & ~np.concatenate(([bounds.is_falling], falls[:-1])))
        bounds.is_falling = bool(falls[-1])
        for row in starts.tolist():
            yield _falling(piece, row, int(known[row]), bounds)
    bounds.last_epoch = max(bounds.last_epoch, highest)


def _falling(piece: Piece, row: int, known: int, bounds: Bounds) -> Finding:
    position = int(piece.headers.position[row]) + piece.shift
    found = int(piece.headers.partition_leader_epoch[row])
    what = "a batch has a lower leader epoch than one before it"
    return Finding(
        "warning", "epoch-falls", bounds.path, what, REPAIR, position, int(piece.headers.base_offset[row]), f"{known} or more", found
    )


_SHOWN = {
    "batch-codec": "attributes",
    "attribute-bits": "attributes",
    "batch-count": "count",
    "producer-fields": "producer_id",
    "control-batch": "base_sequence",
    "timestamp-order": "max_timestamp_ms",
    "timestamp-negative": "max_timestamp_ms",
    "timestamp-1970": "max_timestamp_ms",
    "timestamp-future": "max_timestamp_ms",
    "epoch-negative": "partition_leader_epoch",
}


def _finding(piece: Piece, row: int, severity: Severity, code: str, path: str, what: str, mend: str) -> Finding:
    headers = piece.headers
    if code in _SHOWN:
        what += f" ({_SHOWN[code]} {int(getattr(headers, _SHOWN[code])[row])})"
    return Finding(severity, code, path, what, mend, int(headers.position[row]) + piece.shift, int(headers.last_offset[row]))
