"""Which segments a partition directory has, and whether their indexes can be right."""

from tidelog.disk.disk import Disk, Entry
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import (
    INDEX,
    LOG,
    OWN_SUFFIX,
    SEGMENT_KINDS,
    SNAPSHOT,
    TEMPORARY_SUFFIX,
    TIME_INDEX,
    TXN_INDEX,
    is_foreign_segment_file,
    is_rebuilt_file,
    parse_segment_file,
    segment_file,
)
from tidelog.errors import DamagedLogError
from tidelog.log.leftovers import MAX_FILES, too_many_files
from tidelog.log.offset_index import ENTRY as OFFSET_ENTRY
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.log.segment import Segment
from tidelog.log.time_index import ENTRY as TIME_ENTRY


def list_files(disk: Disk, directory: str) -> list[Entry]:
    """What matters to a log in its directory. Others' files, of which there may be any number, are passed over."""
    found = []
    for entry in disk.entries(directory):
        name = entry.name
        if name.endswith((TEMPORARY_SUFFIX, OWN_SUFFIX, *SEGMENT_KINDS)) or parse_segment_file(name) is not None:
            found.append(entry)
            if len(found) > MAX_FILES:
                raise too_many_files(directory)
    return found


def find_segments(pool: FilePool, directory: str, entries: list[Entry], actions: list[str]) -> list[Segment]:
    """The segments in order, by what is in the directory.

    Index files without a `.log` and files that were not finished are removed, and noted in `actions`.
    """
    disk = pool.disk
    found: dict[int, dict[str, Entry]] = {}
    for entry in entries:
        parsed = parse_segment_file(entry.name)
        if parsed is not None:
            if not parsed.stage:
                found.setdefault(parsed.base_offset, {})[parsed.kind] = entry
        elif is_foreign_segment_file(entry.name):
            raise DamagedLogError(
                "a file that is named like a segment's but is none",
                path=f"{directory}/{entry.name}",
                expected="an offset of 20 digits",
                found=entry.name.partition(".")[0],
                hint="a broker would not load it either; move it elsewhere",
            )
        elif is_rebuilt_file(entry.name) or (entry.name.endswith(TEMPORARY_SUFFIX) and not entry.is_directory):
            disk.remove(f"{directory}/{entry.name}")
            actions.append(f"removed {entry.name}: a file that was not finished")
    segments = []
    for base_offset in sorted(found):
        files = found[base_offset]
        if LOG in files:
            segments.append(_segment(pool, directory, base_offset, files))
            continue
        for kind in (INDEX, TIME_INDEX, TXN_INDEX):
            if kind in files:
                disk.remove(f"{directory}/{files[kind].name}")
                actions.append(f"removed {files[kind].name}: there is no .log beside it")
    return segments


def find_snapshots(entries: list[Entry]) -> set[int]:
    """The offsets of the producer snapshots."""
    parsed = (parse_segment_file(entry.name) for entry in entries if not entry.is_directory)
    return {found.base_offset for found in parsed if found is not None and found.kind == SNAPSHOT and not found.stage}


def _segment(pool: FilePool, directory: str, base_offset: int, files: dict[str, Entry]) -> Segment:
    segment = Segment(
        pool,
        directory,
        base_offset,
        size_bytes=files[LOG].size_bytes,
        index_bytes=files[INDEX].size_bytes if INDEX in files else 0,
        time_index_bytes=files[TIME_INDEX].size_bytes if TIME_INDEX in files else 0,
        txn_index_bytes=files[TXN_INDEX].size_bytes if TXN_INDEX in files else None,
    )
    segment.has_index = INDEX in files
    segment.has_time_index = TIME_INDEX in files
    return segment


def create_segment(pool: FilePool, directory: str, base_offset: int) -> Segment:
    """A new, empty segment; left-over files of that name go first."""
    for kind in SEGMENT_KINDS:
        path = f"{directory}/{segment_file(base_offset, kind)}"
        if pool.disk.exists(path):
            pool.disk.remove(path)
    pool.create(f"{directory}/{segment_file(base_offset, LOG)}")
    return Segment(pool, directory, base_offset, size_bytes=0, index_bytes=0, time_index_bytes=0)


def are_plausible(segment: Segment, next_base: int | None) -> bool:
    """Whether the last entries of both indexes could be right: whole entries, within the file, within the offsets of the segment."""
    if segment.index.found_bytes % segment.index.entry_size or segment.time_index.found_bytes % segment.time_index.entry_size:
        return False
    highest = MAX_RELATIVE_OFFSET if next_base is None else next_base - 1 - segment.base_offset
    entry = segment.index.read_last_entry()
    if entry:
        offset, position = OFFSET_ENTRY.unpack(entry)
        # The first batch of a segment never has an entry, so no position is 0: zeros are what a crash leaves of a preallocated file.
        if not (0 <= offset <= highest and 0 < position < segment.size_bytes):
            return False
    entry = segment.time_index.read_last_entry()
    if entry:
        timestamp_ms, offset = TIME_ENTRY.unpack(entry)
        if not (0 <= offset <= highest and timestamp_ms >= 0) or (timestamp_ms == 0 and segment.time_index.entries > 1):
            return False
    return True
