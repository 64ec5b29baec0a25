"""Split a segment whose offsets are too far apart for its indexes.

Brokers before 2.0 could write such segments, by compacting several into one. The batches are copied into new segments, each based at the
base offset of its first batch and ended before its offsets go out of range, and swapped in.

Each gets the aborted transactions whose markers it has. Kafka leaves that to the recovery that follows, which after a clean stop there is
none of: then readers of committed records see what was aborted.
"""

from contextlib import suppress
from itertools import pairwise

from tidelog.config import LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEANED, INDEX, LOG, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX, segment_file
from tidelog.errors import DamagedLogError
from tidelog.log.recovery import scan_segment
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.log.segment import Segment
from tidelog.log.segment_read import FoundBatch, next_batch
from tidelog.log.swap import cleaned_to_swap, old_to_deleted, remove_deleted, swap_to_final
from tidelog.log.txn_index import parse_entries

_COPY_BYTES = 1 << 20
_HINT = "tidelog verify tells what is wrong, tidelog salvage copies what is sound"


def check_pieces(segment: Segment, end_offset: int | None) -> None:
    """Raise if a split would not give segments in their order, the last one before `end_offset`, where the next segment begins.

    A batch says its base offset outside of what its CRC covers: one that is far off is damage, and not what a broker has ever written.
    Nor does a broker leave a part of a batch behind such a segment, which a split would drop.
    """
    position, least = 0, segment.base_offset
    while (batch := next_batch(segment, position)) is not None:
        _check_belongs(segment, position, batch.last_offset, least, end_offset)
        position, least = batch.position + batch.size_bytes, batch.last_offset + 1
    if position != segment.size_bytes:
        raise DamagedLogError("a batch is cut off", path=segment.file.path, position=position, hint=_HINT)
    least = segment.base_offset
    for base_offset, position, _ in pieces_of(segment):
        _check_belongs(segment, position, base_offset, least, end_offset)
        least = base_offset + 1


def _check_belongs(segment: Segment, position: int, offset: int, least: int, end_offset: int | None) -> None:
    if offset < least or (end_offset is not None and offset >= end_offset):
        raise DamagedLogError(
            "a batch has an offset that does not belong into its segment",
            path=segment.file.path,
            position=position,
            expected=f"{least} or more" + (f", below {end_offset}" if end_offset is not None else ""),
            found=offset,
            hint=_HINT,
        )


def split_segment(pool: FilePool, segment: Segment, config: LogConfig) -> list[Segment]:
    """Do it, and give back the new segments."""
    disk = pool.disk
    new = cleaned_pieces(segment, config)
    cleaned_to_swap(disk, segment.directory, new)
    old_to_deleted(disk, segment.directory, [segment])
    swap_to_final(disk, segment.directory, new)
    remove_deleted(disk, segment)
    return new


def cleaned_pieces(segment: Segment, config: LogConfig) -> list[Segment]:
    """The new segments, complete and durable, with their files still named `.cleaned`. If that fails, they are removed."""
    pieces = pieces_of(segment)
    try:
        return _write_pieces(segment, pieces, config)
    except BaseException:
        for base_offset, _, _ in pieces:
            for kind in SEGMENT_KINDS:
                with suppress(OSError):  # the next cleaning, or the next load, removes it
                    segment.pool.disk.remove(f"{segment.directory}/{segment_file(base_offset, kind, CLEANED)}")
        raise


def _write_pieces(segment: Segment, pieces: list[tuple[int, int, int]], config: LogConfig) -> list[Segment]:
    pool = segment.pool
    disk = pool.disk
    new: list[Segment] = []
    txn_index = segment.path_of(TXN_INDEX)
    aborted = parse_entries(disk.read_file(txn_index)) if disk.exists(txn_index) else []
    for (base_offset, start, end), (next_base, _, _) in pairwise((*pieces, (1 << 63, 0, 0))):
        _copy(disk, segment, start, end, f"{segment.directory}/{segment_file(base_offset, LOG, CLEANED)}")
        piece = Segment(pool, segment.directory, base_offset, size_bytes=end - start, index_bytes=0, time_index_bytes=0)
        piece.restaged(CLEANED)
        scanned = scan_segment(piece, index_interval_bytes=config.index_interval_bytes)
        for kind, entries in ((INDEX, scanned.offset_entries), (TIME_INDEX, scanned.time_entries)):
            _write(disk, piece.path_of(kind), bytes(entries))
        own = [entry.pack() for entry in aborted if base_offset <= entry.last_offset < next_base]
        if own:
            _write(disk, piece.path_of(TXN_INDEX), b"".join(own))
        txn_bytes = sum(map(len, own)) if own else None
        piece.reindexed(len(scanned.offset_entries), len(scanned.time_entries), txn_bytes)
        mtime_ns = disk.mtime_ns(segment.path_of(LOG))
        for kind in (LOG, INDEX, TIME_INDEX):
            disk.set_mtime_ns(piece.path_of(kind), mtime_ns)
            disk.keep_rights(piece.path_of(kind), segment.path_of(LOG))
        new.append(piece)
    disk.sync_directory(segment.directory)
    return new


def pieces_of(segment: Segment) -> list[tuple[int, int, int]]:
    """Base offset, first and last byte of each part."""
    pieces: list[tuple[int, int, int]] = []
    position = 0
    first: FoundBatch | None = None
    while (batch := next_batch(segment, position)) is not None:
        base_offset = batch.base_offset if batch.base_offset >= 0 else batch.last_offset
        if first is None or batch.last_offset - pieces[-1][0] > MAX_RELATIVE_OFFSET:
            first = batch
            pieces.append((base_offset, batch.position, batch.position))
        position = batch.position + batch.size_bytes
        pieces[-1] = (pieces[-1][0], pieces[-1][1], position)
    return pieces


def _copy(disk: Disk, segment: Segment, start: int, end: int, path: str) -> None:
    source = segment.file.open()
    target = segment.pool.create(path, exclusive=False)
    at = start
    while at < end:
        piece = disk.read(source.fd, min(_COPY_BYTES, end - at), at)
        disk.write(target.fd, [piece], at - start)
        at += len(piece)
    disk.sync(target.fd)


def _write(disk: Disk, path: str, content: bytes) -> None:
    fd = disk.create(path, exclusive=False)
    try:
        disk.write(fd, [content], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
