"""Whether the indexes of a segment are right, by its batches.

Right is not the same as equal to what a rebuild gives: a log that was opened and closed in between has other entries, all of them good. An
offset index is right if each entry names a batch, and if no long stretch is without one: Kafka itself closes small segments whose index is
empty though a rebuild gives three entries, if the log was opened in between. A time index is right if each entry says how new the log was
at its offset, and the last one knows the newest time.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidelog.log.recovery import ScannedSegment
from tidelog.log.segment import Segment
from tidelog.record.headers import FIELDS, BatchHeaders, walk_block

_READ_BYTES = 1 << 20
_MISSING_IN_A_ROW = 4
"""Every opening of a log may cost it one entry. So many one behind the other are a file that was cut or emptied."""

_OFFSET_DTYPE = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_DTYPE = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])

Ints = NDArray[np.int64]


def index_faults(segment: Segment, scanned: ScannedSegment, offset_index: bytes | None, time_index: bytes | None) -> tuple[str, str]:
    """What is wrong with the two files (None: there is none), in words; nothing if they are right."""
    if (offset_index, time_index) == (bytes(scanned.offset_entries), bytes(scanned.time_entries)):
        return "", ""
    offset_fault = _shape_fault(offset_index, 8)
    time_fault = _shape_fault(time_index, 12) if time_index != bytes(scanned.time_entries) else ""
    if offset_index is None and not scanned.offset_entries and scanned.batch_count == 0:
        offset_fault = ""  # a segment without batches may have none yet
    if time_index is None and not scanned.time_entries and scanned.batch_count == 0:
        time_fault = ""
    offsets, positions = _columns(offset_index, offset_fault, _OFFSET_DTYPE, "offset", "position")
    times, time_offsets = _columns(time_index, time_fault, _TIME_DTYPE, "timestamp", "offset")
    if len(positions) and not offset_fault:
        offset_fault = _order_fault(offsets, positions, scanned)
    if len(times) and not time_fault and (np.any(np.diff(times) <= 0) or np.any(np.diff(time_offsets) < 0)):
        time_fault = "its entries do not go up"
    check = _Check(offsets + scanned.base_offset, positions, times, time_offsets + scanned.base_offset)
    for file_position, headers in batches_of(segment, scanned.valid_bytes):
        check.add(file_position, headers)
    offset_fault = offset_fault or check.offset_fault()
    if not offset_fault and not check.is_old_style and _is_sparse(positions, _positions_of(scanned)):
        offset_fault = "entries are missing"
    time_fault = time_fault or check.time_fault(scanned.max_timestamp_ms)
    return offset_fault, time_fault


def batches_of(segment: Segment, end: int) -> Iterator[tuple[int, BatchHeaders]]:
    """The headers of a segment's batches up to a position, in stretches, each with the position of the buffer it was walked in."""
    opened = segment.file.open()
    read = segment.pool.disk.read
    flat = np.empty(len(FIELDS) * 4096, np.int64)
    position, size = 0, _READ_BYTES
    while position < end:
        window = memoryview(read(opened.fd, min(size, end - position), position))
        headers, error = walk_block(window, 0, len(window), flat)
        if len(headers) == 0:
            if error is not None or size >= end - position:
                return
            size *= 2  # a batch that is larger
            continue
        yield position, headers
        position += headers.end_position
        size = _READ_BYTES


def _shape_fault(content: bytes | None, entry_size: int) -> str:
    if content is None:
        return "it is missing"
    if len(content) % entry_size:
        return f"its {len(content)} bytes are not a whole number of entries"
    return "it has zeros behind its entries, as a crash leaves it" if content and not any(content[-entry_size:]) else ""


def _columns(content: bytes | None, fault: str, dtype: "np.dtype[np.void]", first: str, second: str) -> tuple[Ints, Ints]:
    if content is None or fault:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    entries = np.frombuffer(content, dtype)
    return entries[first].astype(np.int64), entries[second].astype(np.int64)


def _order_fault(offsets: Ints, positions: Ints, scanned: ScannedSegment) -> str:
    if np.any(np.diff(offsets) <= 0) or np.any(np.diff(positions) <= 0):
        return "its entries do not go up"
    if offsets[0] < 0 or positions[0] <= 0 or positions[-1] >= scanned.valid_bytes:
        return "an entry points outside of the segment"
    return ""


def _positions_of(scanned: ScannedSegment) -> Ints:
    return np.frombuffer(bytes(scanned.offset_entries), _OFFSET_DTYPE)["position"].astype(np.int64)


def _is_sparse(positions: Ints, rebuilt: Ints) -> bool:
    """Whether more than a few entries that a rebuild would give lie between two of those that are there."""
    places = np.concatenate(([0], np.searchsorted(rebuilt, positions, side="right"), [len(rebuilt)]))
    return bool(np.any(np.diff(places) > _MISSING_IN_A_ROW))


class _Check:
    """Meets all batches of a segment, and compares them with the entries that name them."""

    def __init__(self, offsets: Ints, positions: Ints, times: Ints, time_offsets: Ints) -> None:
        self._offsets, self._positions = offsets, positions
        self._times, self._time_offsets = times, time_offsets
        self._named = np.zeros(len(positions), bool)
        self._known = np.zeros(len(positions), bool)
        self._timed = np.zeros(len(times), bool)
        self._newest = -1
        self.is_old_style = False
        """Kafka up to 3.9.0 made one entry a call: the offset of its last batch with the position of its first."""

    def add(self, file_position: int, headers: BatchHeaders) -> None:
        positions = headers.position + file_position
        last = headers.last_offset
        at = np.searchsorted(positions, self._positions)
        inside = (at < len(positions)) & (self._positions >= positions[0])
        at = np.minimum(at, len(positions) - 1)
        starts = inside & (positions[at] == self._positions)
        self._named |= starts & (last[at] <= self._offsets)
        self._known |= np.isin(self._offsets, last)
        self.is_old_style |= bool(np.any(starts & (last[at] < self._offsets)))
        newest = np.maximum.accumulate(np.maximum(headers.max_timestamp_ms, self._newest))
        holder = np.searchsorted(last, self._time_offsets)
        held = holder < len(last)
        holder = np.minimum(holder, len(last) - 1)
        first = np.where(headers.base_offset < 0, last, headers.base_offset)
        # Older releases stored the offset of the newest record itself, which lies inside its batch.
        self._timed |= held & (first[holder] <= self._time_offsets) & (newest[holder] == self._times)
        self._newest = int(newest[-1])

    def offset_fault(self) -> str:
        return "" if self._named.all() and self._known.all() else "an entry does not name a batch"

    def time_fault(self, newest_ms: int) -> str:
        if not self._timed.all():
            return "an entry has a time that its batch has not"
        if newest_ms >= 0 and (len(self._times) == 0 or int(self._times[-1]) < newest_ms):
            return "its last entry is not the newest time"
        return ""
