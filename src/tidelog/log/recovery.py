"""Recover one segment: read all of it, check every CRC, and build its indexes anew.

Reading stops at the first batch that is not whole, whose size cannot be, whose CRC does not match, or whose offset does not fit the
segment. `scan_segment` only looks; what is done about the rest of the file is decided by the loader. Segments are scanned by several
threads at once where there are several; reading releases the interpreter, and so do the loops over headers.

Indexes that nobody will look at again, those below the recovery point, are written aside and renamed, so a crash while recovering leaves
the old one or the new one. Others are written in place: the recovery point does not pass them before they are synced.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool, OpenFile
from tidelog.disk.names import INDEX, TIME_INDEX, TXN_INDEX, rebuilt_file
from tidelog.errors import CorruptBatchError, TidelogError, UnsupportedMagicError
from tidelog.log.producer_replay import producer_batches
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.log.rising_offsets import rising
from tidelog.log.segment import Segment
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, walk_block
from tidelog.record.indexing import IndexRun, index_batches
from tidelog.record.outcomes import IndexStop

READ_BYTES = 4 << 20
"""A piece. Between two of them a thread needs the interpreter, so the larger they are, the less several threads wait for each other."""
_WALK_BATCHES = 4096
_UNLIMITED = 1 << 31


@dataclass(slots=True)
class ScannedSegment:
    """What a segment holds, as far as it is sound."""

    base_offset: int
    size_bytes: int
    """Of the file."""
    valid_bytes: int = 0
    next_offset: int = 0
    batch_count: int = 0
    error: TidelogError | None = None
    """Why the scan ended before the end of the file; None also where the last batch is merely cut off."""
    has_overflow: bool = False
    """A batch whose offset is too far above the base: the segment must be split."""
    falls: bool = False
    """Offsets go down where an index entry is due; known in the mode "kafka" only."""
    is_below_base: bool = False
    """A batch whose offset is below the base: the segment is not what its name says."""
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """Leader epochs in the order met, with the base offset of their first batch."""
    max_timestamp_ms: int = -1
    producers: list[ProducerBatch | Marker] = field(default_factory=list)
    """What producers did, in order, as far as a replay needs it: a segment may have ten million batches of one producer."""

    @property
    def is_whole(self) -> bool:
        """Whether the file ends with a whole batch."""
        return self.valid_bytes == self.size_bytes


class ScanSpace:
    """What a scan works in: used for one segment after the other, since new memory is slow to come by."""

    __slots__ = ("buffer", "flat")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.flat = np.empty(len(FIELDS) * _WALK_BATCHES, np.int64)

    def buffer_for(self, size_bytes: int) -> bytearray:
        """At least so large, or as large as a piece gets."""
        size = min(READ_BYTES, max(1, size_bytes))
        if len(self.buffer) < size:
            self.buffer = bytearray(size)
        return self.buffer


def scan_segment(
    segment: Segment, *, index_interval_bytes: int, is_kafka_mode: bool = False, space: ScanSpace | None = None
) -> ScannedSegment:
    """Read and check a segment from its beginning to its end, or to where it is no longer sound.

    As Kafka does it, a batch of an unknown format is taken for v2 if its CRC matches, since the magic is not covered by it; and offsets
    that fall are noticed only where they get index entries, and then nothing of the segment counts.
    """
    pool = segment.pool
    opened = segment.file.open()
    scanned = ScannedSegment(segment.base_offset, segment.size_bytes, next_offset=segment.base_offset)
    run = IndexRun(segment.base_offset, index_interval_bytes)
    space = space or ScanSpace()
    buffer, flat = space.buffer_for(segment.size_bytes), space.flat
    position = 0  # of the buffer's first byte in the file
    held = 0  # bytes of a batch that the last piece cut off, now at the beginning of the buffer
    while position + held < segment.size_bytes:
        wanted = min(len(buffer) - held, segment.size_bytes - position - held)
        held += pool.disk.read_into(opened.fd, memoryview(buffer)[held : held + wanted], position + held)
        end = _scan_piece(buffer, held, position, flat, run, scanned, is_kafka_mode)
        if scanned.error is not None or scanned.has_overflow or (end == 0 and position + held >= segment.size_bytes):
            break
        if end == 0:
            # A batch larger than the buffer, or the file ends early.
            size = int.from_bytes(buffer[8:12], "big") + 12
            if size <= len(buffer) or wanted == 0:
                break
            buffer = bytearray(buffer[:held]) + bytearray(min(size, segment.size_bytes - position) - held)
            continue
        buffer[: held - end] = buffer[end:held]
        position += end
        held -= end
    scanned.max_timestamp_ms = run.max_timestamp_ms
    scanned.time_entries += run.last_time_entry()
    if scanned.falls:
        scanned.valid_bytes, scanned.next_offset, scanned.batch_count = 0, segment.base_offset, 0
        scanned.offset_entries, scanned.time_entries = bytearray(), bytearray()
        scanned.producers.clear()
    if scanned.error is not None:
        scanned.error.path = segment.file.path
    return scanned


def _scan_piece(
    buffer: bytearray, size: int, file_position: int, flat: np.ndarray, run: IndexRun, scanned: ScannedSegment, is_kafka_mode: bool
) -> int:
    """Take in the whole batches of a piece of the file: where in the piece they end."""
    view = memoryview(buffer)[:size]
    position = 0
    while True:
        headers, error = walk_block(view, position, size, flat)
        if is_kafka_mode and isinstance(error, UnsupportedMagicError) and len(headers) == 0:
            buffer[position + 16] = 2  # in memory only
            continue
        good, bad_crc = first_bad_checksum(view, headers)
        part = headers if bad_crc is None else headers[:good]
        if len(part):
            if not is_kafka_mode:
                part, scanned.error = rising(part, scanned.next_offset, file_position, base_offset=scanned.base_offset)
            if len(part):
                _take(view, part, file_position, run, scanned)
                position = int(part.end_position)
        if scanned.has_overflow or scanned.error is not None:
            return position
        stopped = bad_crc or error
        if stopped is not None and not (is_kafka_mode and isinstance(stopped, UnsupportedMagicError)):
            if stopped.position is not None:
                stopped.position += file_position
            scanned.error = stopped
            return position
        if stopped is None and len(headers) < _WALK_BATCHES:
            return position


def _take(view: memoryview, headers: BatchHeaders, file_position: int, run: IndexRun, scanned: ScannedSegment) -> None:
    start = file_position + int(headers.position[0])
    indexed = index_batches(headers, run, start, free_offset_slots=_UNLIMITED, free_time_slots=_UNLIMITED)
    if indexed.stop is IndexStop.OFFSET_OUT_OF_RANGE:
        at = indexed.count_of_batches
        if int(headers.last_offset[at]) < scanned.base_offset:
            scanned.is_below_base = True
            scanned.error = CorruptBatchError(
                "a batch lies below its segment's base offset",
                position=file_position + int(headers.position[at]),
                expected=f"offset {scanned.base_offset} or more",
                found=int(headers.last_offset[at]),
            )
        else:
            scanned.has_overflow = True
        headers = headers[:at]
    elif indexed.stop is IndexStop.OFFSET_NOT_INCREASING:
        scanned.falls = True
        scanned.error = CorruptBatchError("offsets of batches go back", position=start)
    if len(headers) == 0:
        return
    scanned.offset_entries += indexed.offset_entries
    scanned.time_entries += indexed.time_entries
    scanned.batch_count += len(headers)
    scanned.valid_bytes = file_position + int(headers.end_position)
    scanned.next_offset = int(headers.last_offset[-1]) + 1
    scanned.producers += producer_batches(view, headers, is_replayed=True)
    epochs = headers.partition_leader_epoch
    latest = scanned.epoch_starts[-1][0] if scanned.epoch_starts else -1
    if (epochs != latest).any():
        for change in np.flatnonzero(np.diff(epochs, prepend=latest)).tolist():
            scanned.epoch_starts.append((int(epochs[change]), int(headers.base_offset[change])))


def write_indexes(disk: Disk, segment: Segment, scanned: ScannedSegment, aborted: Iterable[AbortedTxn], *, is_durable: bool) -> None:
    """Put the indexes that the scan built in the place of those that are there, where they differ; `aborted` is for the transaction index.

    `is_durable`: they are synced and renamed, since nobody will look again. Above the recovery point that is not needed: it does not move
    before the indexes are synced, so after a crash they are built again.
    """
    txn_entries = b"".join(entry.pack() for entry in aborted)
    for kind, entries in ((INDEX, scanned.offset_entries), (TIME_INDEX, scanned.time_entries), (TXN_INDEX, txn_entries)):
        content = bytes(entries)
        path = segment.path_of(kind)
        try:
            if disk.read_file(path) == content:
                continue
        except FileNotFoundError:
            if kind == TXN_INDEX and not content:
                continue
        if is_durable:
            aside = f"{segment.directory}/{rebuilt_file(segment.base_offset, kind)}"
            _write(disk, aside, content, is_durable)
            disk.keep_rights(aside, path)
            disk.rename(aside, path)
        else:
            _write(disk, path, content, is_durable)
    had_txn_index = segment.txn_index.size_bytes is not None
    segment.reindexed(len(scanned.offset_entries), len(scanned.time_entries), len(txn_entries) if txn_entries or had_txn_index else None)
    if is_durable:
        disk.sync_directory(segment.directory)


def _write(disk: Disk, path: str, content: bytes, is_durable: bool) -> None:
    opened = OpenFile(disk, disk.create(path, exclusive=False))
    if content:
        disk.write(opened.fd, [content], 0)
    if is_durable:
        disk.sync(opened.fd)


def keep_aside(pool: FilePool, segment: Segment, position: int, name: str) -> bool:
    """Copy what follows `position` of a segment into a file of its own, durably. Nothing but zeros is not worth keeping: False.

    Behind a torn batch there may be a gibibyte of zeros that were preallocated: in the copy they are a hole.
    """
    disk = pool.disk
    source = segment.file.open()
    buffer = memoryview(bytearray(1 << 20))
    at = position
    aside: OpenFile | None = None
    while at < segment.size_bytes:
        count = disk.read_into(source.fd, buffer[: min(len(buffer), segment.size_bytes - at)], at)
        if count == 0:
            break
        piece = buffer[:count]
        if np.frombuffer(piece, np.uint8).any():
            aside = aside or pool.create(f"{segment.directory}/{name}", exclusive=False)
            disk.write(aside.fd, [piece], at - position)
        at += count
    if aside is None:
        return False
    disk.truncate(aside.fd, at - position)
    disk.sync(aside.fd)
    disk.sync_directory(segment.directory)
    return True
