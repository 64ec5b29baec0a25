"""Swap in the segments that workers have made.

    step                                               after a crash
    files of a group are renamed to N.*.cleaned        the next load removes them, and the old segments are untouched
    the swap, as `tidelog.log.swap` tells              the next load finishes or undoes it

Groups follow each other, oldest first: a crash in between leaves some of them cleaned and others not, which is a sound log. The cleaner's
checkpoint is written by the caller when all are done, so the next run cleans it again.
"""

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidelog.compaction.cleaned_segment import CleanedSegment, CleanedSizes, cleaned_segment
from tidelog.compaction.parts_plan import LogParts
from tidelog.compaction.stats import Counts
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANED, SEGMENT_KINDS, TXN_INDEX, segment_file
from tidelog.errors import CleaningAbortedError, LogClosedError, LogFailedError
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error, typed_refusals
from tidelog.log.swap import remove_cleaned

_COPY_BYTES = 8 << 20


def commit_groups(log: Log, parts: LogParts, made: Mapping[int, tuple[str, CleanedSizes]]) -> None:
    """Replace the segments of every group by the one that was made of them: how the paths of its files begin, and their sizes."""
    segments = {segment.base_offset: segment for segment in parts.segments}
    with typed_refusals(log.directory, "removing what an earlier pass has left failed"):
        remove_cleaned(parts.segments[0].pool.disk, log.directory)
    for number, group in enumerate(parts.groups):
        members = [segments[base_offset] for base_offset in group.base_offsets]
        pool, directory = members[0].pool, log.directory
        staged = made.get(number)
        if staged is not None:
            swap_in(log, members, *staged)
            continue
        try:  # there is no batch in any of them
            sizes = CleanedSegment(members[0], parts.plan.config, Counts()).seal(parts.facts[group.base_offsets[-1]].mtime_ns)
            pool.disk.sync_directory(directory)
        except OSError as error:
            _remove_cleaned(pool.disk, directory, group.base_offset)
            raise storage_error(error, directory, "putting a new segment in place failed; nothing of its group was changed") from error
        _replace(log, members, sizes)


def swap_in(log: Log, members: Sequence[Segment], path: str, sizes: CleanedSizes) -> None:
    """Replace segments by one that was made of them: how the paths of its files begin, and their sizes. It is named after the first."""
    disk, directory, base_offset = members[0].pool.disk, log.directory, members[0].base_offset
    try:
        for kind in sizes.kinds:
            _move(disk, path + kind, f"{directory}/{segment_file(base_offset, kind, CLEANED)}", kind)
        disk.sync_directory(directory)
    except OSError as error:
        _remove_cleaned(disk, directory, base_offset)
        raise storage_error(error, directory, "putting a new segment in place failed; nothing of its group was changed") from error
    _replace(log, members, sizes)


def _replace(log: Log, members: Sequence[Segment], sizes: CleanedSizes) -> None:
    pool, directory, base_offset = members[0].pool, log.directory, members[0].base_offset
    try:
        log.replace_segments([cleaned_segment(pool, directory, base_offset, sizes)], members)
    except (CleaningAbortedError, LogClosedError, LogFailedError):
        _remove_cleaned(pool.disk, directory, base_offset)
        raise


def _move(disk: Disk, source: str, target: str, kind: str) -> None:
    """Rename a file; what lies on another file system is copied."""
    try:
        disk.rename(source, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    reading, writing = disk.open(source), disk.create(target, exclusive=False)
    try:
        position = 0
        while data := disk.read(reading, _COPY_BYTES, position):
            disk.write(writing, [data], position)
            position += len(data)
        disk.sync(writing)
    finally:
        disk.close(reading)
        disk.close(writing)
    if kind != TXN_INDEX:
        disk.set_mtime_ns(target, disk.mtime_ns(source))


def _remove_cleaned(disk: Disk, directory: str, base_offset: int) -> None:
    for kind in SEGMENT_KINDS:
        with suppress(OSError):
            disk.remove(f"{directory}/{segment_file(base_offset, kind, CLEANED)}")
