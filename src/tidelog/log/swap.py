"""Replace segments by others, so that a crash at any point leaves the old ones or the new ones, never a mix.

    step                                             after a crash the next load
    a  new files are written as N.*.cleaned          removes them; the old ones are untouched
    b  .cleaned -> .swap, highest base offset first  removes the swaps at or above the lowest .cleaned left, and the .cleaned
    c  all are .swap                                 removes old files in the range of the swaps, and goes on with e
    d  the old files -> .deleted                     removes those, and as c
    e  .swap -> the final name                       renames what is left
    f  the .deleted files are removed                removes what is left

`cleaned_to_swap`, `old_to_deleted`, `swap_to_final` and `remove_deleted` are b and d to f, `finish_or_undo` is the load. The order of
renames within a segment is log, index, time index, transaction index. Each step is made durable before the next.
"""

from collections.abc import Iterable
from contextlib import suppress

from tidelog.disk.disk import Disk, Entry
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEANED, DELETED, INDEX, LOG, SEGMENT_KINDS, SNAPSHOT, SWAP, SegmentFile, parse_segment_file, segment_file
from tidelog.log.segment import Segment
from tidelog.log.segment_read import next_offset_of


def rename_segment(disk: Disk, segment: Segment, stage: str) -> None:
    """Give the files of a segment another suffix, those that there are.

    Each is said to have its name when it has it: until then that may be the name of another segment's file, deleted before this one.
    """
    old = segment.stage
    try:
        for kind in SEGMENT_KINDS:
            name = f"{segment.directory}/{segment_file(segment.base_offset, kind, old)}"
            if kind == LOG or disk.exists(name):
                disk.rename(name, f"{segment.directory}/{segment_file(segment.base_offset, kind, stage)}")
            segment.restaged(stage, (kind,))
    finally:
        if segment.stage != old:
            segment.restaged(stage)  # once its `.log` is, that is what it is, whatever becomes of its indexes


def keep_rights(disk: Disk, segments: Iterable[Segment], like: Segment) -> None:
    """Give the files of new segments the owner, group and mode of the one they replace, whoever made them: before step b."""
    for segment in segments:
        for kind in SEGMENT_KINDS:
            path = segment.path_of(kind)
            if disk.exists(path):
                disk.keep_rights(path, like.path_of(LOG))


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Before a: remove what a replacement that failed has left.

    Were it there after a crash in e, a load would take the swaps above it for not complete, when the old segments are gone already. The
    sync of the directory that comes before b makes it durable.
    """
    for name in list(disk.names(directory)):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.stage == CLEANED:
            with suppress(FileNotFoundError):
                disk.remove(f"{directory}/{name}")


def cleaned_to_swap(disk: Disk, directory: str, segments: Iterable[Segment]) -> None:
    """Step b. The caller has synced the files."""
    for segment in sorted(segments, key=lambda segment: segment.base_offset, reverse=True):
        rename_segment(disk, segment, SWAP)
    disk.sync_directory(directory)


def old_to_deleted(disk: Disk, directory: str, segments: Iterable[Segment]) -> None:
    """Step d."""
    for segment in segments:
        rename_segment(disk, segment, DELETED)
    disk.sync_directory(directory)


def swap_to_final(disk: Disk, directory: str, segments: Iterable[Segment]) -> None:
    """Step e."""
    for segment in segments:
        rename_segment(disk, segment, "")
    disk.sync_directory(directory)


def remove_deleted(disk: Disk, segment: Segment) -> None:
    """Step f, for one segment; its snapshot goes with it.

    A reader with an old view that opens it only now must not get the files of the next segment to be deleted under these names.
    """
    segment.unnamed()
    segment.forget()
    for kind in (*SEGMENT_KINDS, SNAPSHOT):
        with suppress(FileNotFoundError):
            disk.remove(f"{segment.directory}/{segment_file(segment.base_offset, kind, DELETED)}")


def finish_or_undo(pool: FilePool, directory: str, entries: list[Entry]) -> list[str]:
    """Bring a directory into order after a crash: what was done, in words. `entries` is what is in the directory."""
    disk = pool.disk
    done: list[str] = []
    staged: dict[str, list[tuple[SegmentFile, Entry]]] = {CLEANED: [], SWAP: [], DELETED: []}
    for entry in entries:
        parsed = parse_segment_file(entry.name)
        if parsed is not None and parsed.stage:
            staged[parsed.stage].append((parsed, entry))
    if not any(staged.values()):
        return done

    def remove(name: str, why: str) -> None:
        disk.remove(f"{directory}/{name}")
        done.append(f"removed {name}: {why}")

    for _, entry in staged[DELETED]:
        remove(entry.name, "its deletion had begun")
    lowest_cleaned = min((parsed.base_offset for parsed, _ in staged[CLEANED]), default=None)
    swaps = []
    for parsed, entry in staged[SWAP]:
        if lowest_cleaned is not None and parsed.base_offset >= lowest_cleaned:
            remove(entry.name, "its replacement was not complete")
        else:
            swaps.append((parsed, entry))
    for _, entry in staged[CLEANED]:
        remove(entry.name, "its replacement was not complete")
    disk.sync_directory(directory)
    if not swaps:
        return done

    low, high = _range_of(pool, directory, swaps)
    for entry in entries:
        parsed = parse_segment_file(entry.name)
        if parsed is not None and not parsed.stage and low <= parsed.base_offset < high:
            remove(entry.name, "it has been replaced")
    disk.sync_directory(directory)
    order = {kind: place for place, kind in enumerate(SEGMENT_KINDS)}
    for parsed, entry in sorted(swaps, key=lambda found: (found[0].base_offset, order.get(found[0].kind, 9))):
        final = segment_file(parsed.base_offset, parsed.kind)
        disk.rename(f"{directory}/{entry.name}", f"{directory}/{final}")
        done.append(f"renamed {entry.name} to {final}: it replaces what was there")
    disk.sync_directory(directory)
    return done


def _range_of(pool: FilePool, directory: str, swaps: list[tuple[SegmentFile, Entry]]) -> tuple[int, int]:
    """The offsets that the `.log.swap` files cover; nothing if there is none."""
    low, high = 0, 0
    index_bytes = {parsed.base_offset: entry.size_bytes for parsed, entry in swaps if parsed.kind == INDEX}
    logs = [(parsed.base_offset, entry.size_bytes) for parsed, entry in swaps if parsed.kind == LOG]
    for base_offset, size_bytes in logs:
        segment = Segment(
            pool, directory, base_offset, size_bytes=size_bytes, index_bytes=index_bytes.get(base_offset, 0), time_index_bytes=0
        )
        segment.restaged(SWAP)
        high = max(high, next_offset_of(segment))
        segment.forget()
    if logs:
        low = min(base_offset for base_offset, _ in logs)
    return low, high
