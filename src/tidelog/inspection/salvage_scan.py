"""Walk a damaged segment: runs of batches whose CRC is right and whose offsets follow each other, and what lies between them.

A run is as long as it can be; it ends where bytes are bad, and where offsets do not go on with the very next one, since that is where a
base offset may be rotten: it lies outside the CRC. Which runs belong into the log is decided by `salvage_choice`.
"""

import struct
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tidelog.errors import TidelogError
from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.inspection.salvage_search import FoundAt, batch_at, find_batch_behind
from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, walk_block
from tidelog.record.layout import DELETE_HORIZON_BIT, HEADER, HEADER_SIZE, LOG_OVERHEAD, signed64
from tidelog.record.legacy import LegacyBatch

READ_BYTES = 1 << 20
_WALK_BATCHES = 4096
_MAX_RUNS = 100_000
"""In one segment. A compacted one has a gap behind many a batch; from so many on, gaps end no runs."""
_OVERHEAD = struct.Struct(">qi")
_MAX_SPAN = 1 << 32
_MAX_OFFSET = (1 << 63) - 1


@dataclass(slots=True)
class Run:
    """Batches one behind the other."""

    segment_base: int
    position: int
    size_bytes: int
    batch_count: int
    first_offset: int
    last_offset: int
    is_adjacent: bool
    """Whether it begins where the batch before it ended, so that no byte was lost in between."""
    is_legacy: bool = False
    """Whether a message of magic 0 or 1 is among them."""
    is_magic_rotten: bool = False
    """A single batch whose magic is not what it should be."""
    moved_to: int | None = None
    """A single batch whose base offset was rotten: what it must have been."""

    @property
    def end_position(self) -> int:
        """Behind its last byte."""
        return self.position + self.size_bytes


@dataclass(slots=True)
class WalkedSegment:
    """What is in a segment's file."""

    base_offset: int
    path: str
    size_bytes: int
    next_base: int | None
    """Where the next segment begins, so that no offset of this one should lie there or above; None of the last."""
    runs: list[Run] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)
    """First byte, and the one behind the last, of what is no batch."""
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    """Of these, what the disk refused to give."""
    is_compacted: bool = False
    """Whether a batch has fewer records than offsets, or a delete horizon: then gaps say nothing."""

    @property
    def highest_offset(self) -> int:
        """Offsets are below this."""
        return self.next_base if self.next_base is not None else min(self.base_offset + _MAX_SPAN, _MAX_OFFSET)


def walk_segment(reader: SalvageReader, base_offset: int, next_base: int | None) -> WalkedSegment:
    """Walk it from its beginning to its end, past all damage."""
    walked = WalkedSegment(base_offset, reader.path, reader.size_bytes, next_base)
    flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)
    position = 0
    is_adjacent = True
    while position < reader.size_bytes:
        window = memoryview(reader.read(position, READ_BYTES))
        headers, _ = walk_block(window, 0, len(window), flat)
        good, _ = first_bad_checksum(window, headers)
        if good:
            sound = headers[:good]
            _take(walked, window, sound, position, is_adjacent)
            position += sound.end_position
            is_adjacent = True
            continue
        found = batch_at(reader, position) or _find_behind(reader, walked, position)
        end = reader.size_bytes if found is None else found.position
        if end > position:
            walked.bad.append((position, end))
            is_adjacent = False
        position = end
        if found is not None:
            # One that is too large for the window, or has a rotten magic: only its header is read.
            _take_one(walked, reader, found, is_adjacent)
            position += found.size_bytes
            is_adjacent = True
    walked.unreadable = reader.unreadable()
    return walked


def _find_behind(reader: SalvageReader, walked: WalkedSegment, position: int) -> FoundAt | None:
    """The next batch. A bad one whose header proves true is passed over whole: what looks like a batch in it is a record's value."""
    head = reader.read(position, HEADER_SIZE)
    if len(head) == HEADER_SIZE:
        fields = HEADER.unpack(head)
        size, last_offset = fields[1] + LOG_OVERHEAD, fields[0] + fields[6]
        if fields[3] == 2 and HEADER_SIZE <= size < reader.size_bytes - position and fields[6] >= 0:
            behind = batch_at(reader, position + size)
            if behind is not None and _OVERHEAD.unpack(reader.read(position + size, LOG_OVERHEAD))[0] == last_offset + 1:
                return behind
    return find_batch_behind(reader, position + 1, walked.base_offset, walked.highest_offset)


def _take(walked: WalkedSegment, window: memoryview, headers: BatchHeaders, file_position: int, is_adjacent: bool) -> None:
    """Add batches, which lie at `file_position`, to the last run, or as new ones."""
    last = headers.last_offset
    is_legacy = headers.magic < 2
    is_wrapper = is_legacy & (headers.attributes & 7 > 0)
    first = np.where(is_wrapper, last, headers.base_offset)
    _note_compaction(walked, headers)
    previous = np.concatenate(([walked.runs[-1].last_offset if walked.runs else -2], last[:-1]))
    # A wrapper's first offset is not known, so where it begins it may follow.
    follows = np.where(is_wrapper, last > previous, first == previous + 1)
    if len(walked.runs) > _MAX_RUNS:
        follows = first > previous
    # What lies outside of the segment's offsets is by itself, so that the rest is not judged by it.
    outside = (last >= walked.highest_offset) | (first < walked.base_offset)
    follows[1:] &= outside[1:] == outside[:-1]
    if walked.runs:
        follows[0] &= bool(outside[0]) == _is_outside(walked, walked.runs[-1])
    follows[0] &= is_adjacent and bool(walked.runs) and not walked.runs[-1].is_magic_rotten
    starts = np.flatnonzero(~follows).tolist()
    if not starts or starts[0] != 0:
        end = starts[0] if starts else len(headers)
        run = walked.runs[-1]
        run.size_bytes = file_position + int(headers.position[end - 1] + headers.size_bytes[end - 1]) - run.position
        run.batch_count += end
        run.last_offset = int(last[end - 1])
        run.is_legacy |= bool(is_legacy[:end].any())
    for start, end in pairwise([*starts, len(headers)]):
        position = int(headers.position[start])
        size = int(headers.position[end - 1] + headers.size_bytes[end - 1]) - position
        walked.runs.append(
            Run(
                walked.base_offset,
                file_position + position,
                size,
                end - start,
                _base_of_wrapper(window, headers, start) if is_wrapper[start] else int(first[start]),
                int(last[end - 1]),
                is_adjacent or start > 0,
                bool(is_legacy[start:end].any()),
            )
        )


def _base_of_wrapper(window: memoryview, headers: BatchHeaders, number: int) -> int:
    """The first offset of a compressed legacy message set, which is inside; its last where it cannot be opened."""
    wrapper = LegacyBatch(window, headers[number : number + 1])
    try:
        return wrapper.base_offset
    except TidelogError:
        return wrapper.last_offset


def _is_outside(walked: WalkedSegment, run: Run) -> bool:
    return run.last_offset >= walked.highest_offset or run.first_offset < walked.base_offset


def _note_compaction(walked: WalkedSegment, headers: BatchHeaders) -> None:
    is_v2 = headers.magic == 2
    is_thin = headers.count < headers.last_offset - headers.base_offset + 1
    walked.is_compacted |= bool(np.any(is_v2 & (is_thin | (headers.attributes & DELETE_HORIZON_BIT > 0))))


def _take_one(walked: WalkedSegment, reader: SalvageReader, found: FoundAt, is_adjacent: bool) -> None:
    head = reader.read(found.position, HEADER_SIZE)
    first = last = int.from_bytes(head[:8], "big", signed=True)
    if found.magic == 2:
        fields = HEADER.unpack(head)
        last = signed64(first + fields[6])
        walked.is_compacted |= fields[12] < fields[6] + 1 or bool(fields[5] & DELETE_HORIZON_BIT)
    walked.runs.append(
        Run(walked.base_offset, found.position, found.size_bytes, 1, first, last, is_adjacent, found.magic < 2, found.is_magic_rotten)
    )
